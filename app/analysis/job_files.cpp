// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/job_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "answers/shell_line.h"
#include "base/json_writer.h"

namespace tandem::app {

namespace {

std::vector<std::string> joined_words(std::vector<std::string> first,
                                      const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// "tandem-my-grid" of "/data/My grid.sqlite": what all engines take for a name.
std::string job_name(const std::string& out) {
  std::string name = "tandem";
  for (const char c : "-" + std::filesystem::path(out).stem().string()) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain || name.back() != '-')
      name += plain ? static_cast<char>(std::tolower(static_cast<unsigned char>(c))) : '-';
  }
  constexpr std::size_t kMostLetters = 50;
  name.resize(std::min(name.size(), kMostLetters));
  while (name.back() == '-') name.pop_back();
  return name;
}

/// What a run is called.
std::string run_name(const JobFile& job) { return job.out.empty() ? "run" : job.out; }

std::vector<std::string> merge_words(const JobFile& job) {
  return {job.program, "sweep", "merge", "--shards", std::to_string(job.shards), "--out", job.out};
}

std::string options_text(const JobFile& job) {
  return job.options.empty() ? "" : " " + shell_line(job.options);
}

/// Kubernetes puts variables where it finds "$(NAME)".
std::string without_variables(const std::string& word) {
  std::string out;
  for (std::size_t i = 0; i < word.size(); ++i)
    out += word[i] == '$' && i + 1 < word.size() && word[i + 1] == '(' ? "$$" : std::string(1, word[i]);
  return out;
}

/// `command` empty: the image's own.
JsonWriter kubernetes_pod(const JobFile& job, const std::vector<std::string>& command) {
  const std::string cpu = std::to_string(std::max<int64_t>(job.threads, 1));
  JsonWriter container = {{"name", "tandem"}, {"image", job.image}, {"workingDir", "/work"}};
  if (!command.empty()) container["command"] = command;
  container["resources"] = {{"requests", JsonWriter{{"cpu", cpu}}}};
  container["volumeMounts"].push_back({{"name", "work"}, {"mountPath", "/work"}});
  JsonWriter volume = {{"name", "work"}, {"persistentVolumeClaim", JsonWriter{{"claimName", job.claim}}}};
  JsonWriter pod = {{"restartPolicy", "Never"}};
  pod["containers"].push_back(std::move(container));
  pod["volumes"].push_back(std::move(volume));
  return pod;
}

JsonWriter kubernetes_job(const JobFile& job, const std::string& name,
                          const std::vector<std::string>& command) {
  JsonWriter out = {{"apiVersion", "batch/v1"}, {"kind", "Job"}, {"metadata", JsonWriter{{"name", name}}}};
  out["spec"]["template"]["spec"] = kubernetes_pod(job, command);
  return out;
}

}  // namespace

std::string slurm_script(const JobFile& job) {
  const std::string name = job_name(job.out);
  const std::string threads = job.threads > 0 ? "" : " --threads \"${SLURM_CPUS_ON_NODE:-1}\"";
  return fmt::format(R"(#!/bin/sh
# {shards} tasks of a Slurm array answer a shard of the sweep each; a job after them merges the shards and says what is
# missing. To start some tasks again, give their numbers: sh THIS-FILE 3,7-9
# Made by: {made_by}
set -eu
tasks=$(sbatch --parsable --job-name={name} --array="${{1:-0-{last}}}" --open-mode=append{options} <<'TASK'
#!/bin/sh
exec {sweep}{threads} --shard "$SLURM_ARRAY_TASK_ID/{shards}"
TASK
)
sbatch --job-name={name}-merge --dependency="afterany:${{tasks%%;*}}" --open-mode=append{options} <<'MERGE'
#!/bin/sh
exec {merge}
MERGE
)",
                     fmt::arg("shards", job.shards), fmt::arg("made_by", job.made_by), fmt::arg("name", name),
                     fmt::arg("last", job.shards - 1), fmt::arg("options", options_text(job)),
                     fmt::arg("sweep", shell_line(joined_words({job.program}, job.command))),
                     fmt::arg("threads", threads), fmt::arg("merge", shell_line(merge_words(job))));
}

std::string kubernetes_manifest(const JobFile& job) {
  const std::string name = job_name(job.out);
  std::vector<std::string> words = joined_words({job.program}, job.command);
  if (job.threads == 0) words = joined_words(words, {"--threads", "1"});
  std::transform(words.begin(), words.end(), words.begin(), without_variables);
  JsonWriter sweep =
      kubernetes_job(job, name, joined_words(words, {"--shard", fmt::format("$(SHARD)/{}", job.shards)}));
  JsonWriter& spec = sweep["spec"];
  spec["completionMode"] = "Indexed";
  spec["completions"] = job.shards;
  spec["parallelism"] = job.shards;
  spec["backoffLimitPerIndex"] = 3;  // a shard that fails leaves the others alone
  JsonWriter index = {{"name", "SHARD"}};
  index["valueFrom"]["fieldRef"]["fieldPath"] =
      "metadata.annotations['batch.kubernetes.io/job-completion-index']";
  spec["template"]["spec"]["containers"].back()["env"].push_back(std::move(index));
  std::vector<std::string> merging = merge_words(job);
  std::transform(merging.begin(), merging.end(), merging.begin(), without_variables);
  JsonWriter merge = kubernetes_job(job, name + "-merge", merging);
  merge["spec"]["backoffLimit"] = 0;
  merge["spec"]["suspend"] = true;
  return fmt::format(
      R"(# {shards} indexed pods answer a shard of the sweep each. When they have ended, merge the shards and see what is missing:
#   kubectl patch job {name}-merge --patch '{{"spec": {{"suspend": false}}}}'
#   kubectl logs --follow job/{name}-merge
# Made by: {made_by}
---
{sweep}
---
{merge}
)",
      fmt::arg("shards", job.shards), fmt::arg("name", name), fmt::arg("made_by", job.made_by),
      fmt::arg("sweep", sweep.dump(2)), fmt::arg("merge", merge.dump(2)));
}

std::string slurm_run_script(const JobFile& job) {
  return fmt::format(R"(#!/bin/sh
# A Slurm job of {processes} process{es}, one on each machine, which run together.
# Made by: {made_by}
exec sbatch --job-name={name} --ntasks={processes} --ntasks-per-node=1 --open-mode=append{options} <<'RUN'
#!/bin/sh
exec srun --mpi=pmix {run}
RUN
)",
                     fmt::arg("processes", job.shards), fmt::arg("es", job.shards == 1 ? "" : "es"),
                     fmt::arg("made_by", job.made_by), fmt::arg("name", job_name(run_name(job))),
                     fmt::arg("options", options_text(job)),
                     fmt::arg("run", shell_line(joined_words({job.program}, job.command))));
}

std::string kubernetes_run_manifest(const JobFile& job) {
  const std::string name = job_name(run_name(job));
  std::vector<std::string> words = joined_words({job.program}, job.command);
  std::transform(words.begin(), words.end(), words.begin(), without_variables);
  JsonWriter out;
  if (job.shards == 1) {
    out = kubernetes_job(job, name, words);
    out["spec"]["backoffLimit"] = 0;
  } else {
    words = joined_words({"mpirun", "--allow-run-as-root", "-n", std::to_string(job.shards)}, words);
    out = {
        {"apiVersion", "kubeflow.org/v2beta1"}, {"kind", "MPIJob"}, {"metadata", JsonWriter{{"name", name}}}};
    out["spec"] = {{"slotsPerWorker", 1},
                   {"runPolicy", JsonWriter{{"cleanPodPolicy", "Running"}, {"backoffLimit", 0}}}};
    JsonWriter& roles = out["spec"]["mpiReplicaSpecs"];
    roles["Launcher"] = {{"replicas", 1}};
    roles["Launcher"]["template"]["spec"] = kubernetes_pod(job, words);
    roles["Worker"] = {{"replicas", job.shards}};
    roles["Worker"]["template"]["spec"] = kubernetes_pod(job, {});
  }
  return fmt::format("# Made by: {}\n---\n{}\n", job.made_by, out.dump(2));
}

std::string mpi_script(const JobFile& job) {
  return fmt::format("mpirun -n {}{} {}\n", job.shards, options_text(job),
                     shell_line(joined_words({job.program}, job.command)));
}

}  // namespace tandem::app
