// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "answers/question.h"
#include "answers/shell_line.h"
#include "app/analysis/job_files.h"
#include "app/analysis/sweep_asking.h"
#include "app/console/output.h"
#include "base/child.h"
#include "sweep/reader.h"

namespace tandem::app {

namespace {

constexpr int64_t kMostProcesses = 64;  ///< as --nodes of a run

/// Who starts the shards, or the processes.
struct Engine {
  std::string_view name;
  std::string (*sweep)(const JobFile& job);
  std::string (*run)(const JobFile& job);
  std::vector<std::string> present;  ///< a command that succeeds where it can be submitted
  std::string_view package;          ///< of that command
  std::string_view submit;           ///< the shell's command that reads the file
};

const std::vector<Engine>& engines() {
  static const std::vector<Engine> all = {
      {"slurm", slurm_script, slurm_run_script, {"sbatch", "--version"}, "slurm-client", "sh"},
      {"kubernetes",
       kubernetes_manifest,
       kubernetes_run_manifest,
       {"kubectl", "version", "--client"},
       "kubectl",
       "kubectl create -f -"},
      {"mpi", mpi_script, mpi_script, {"mpirun", "--version"}, "openmpi-bin", "sh"}};
  return all;
}

std::vector<std::string> engine_names() {
  std::vector<std::string> out;
  for (const Engine& engine : engines()) out.emplace_back(engine.name);
  return out;
}

const Engine& engine_of(const std::string& word) {
  for (const Engine& engine : engines()) {
    if (engine.name == word) return engine;
  }
  throw UsageError(fmt::format("\"{}\" is none of slurm, kubernetes and mpi.{}", printable(word),
                               did_you_mean(word, engine_names())));
}

/// The command after "--".
Arguments launched(const std::vector<std::string>& command) {
  if (command.empty() || (command[0] != "sweep" && command[0] != "run"))
    throw UsageError(
        "after -- stands the sweep or the run: tandem launch slurm --shards 8 -- sweep --model ... --out "
        "grid.sqlite, or tandem launch slurm --processes 2 -- run --model ...");
  return Arguments::parse(*verbs_registry().find(command[0]), {command.begin() + 1, command.end()});
}

/// As far as a sweep can be checked before anything starts.
void check_sweep(const Arguments& swept) {
  if (!swept.words().empty()) throw UsageError("only a sweep that answers can be launched");
  if (swept.has("shard")) throw UsageError("--shard is what the engine gives; leave it out");
  const sweep::SweepQuestion q = sweep_question(swept);
  sweep::check_grid(q.header.grid, q.hooks);
}

/// The same of a run: names, and devices of each process. Files of data are where it runs.
void check_run(const Arguments& run, int64_t processes) {
  if (run.has("question")) throw UsageError("give a run's own options after run, not --question");
  if (run.has("nodes")) throw UsageError("each process of a run is a node; leave --nodes out");
  run.value("optimizer", "momentum", optimizer);
  resolve_scheme(run.text("scheme", "allreduce"), option_place("scheme"));
  read_model(run, run.required("model", "lenet5"), option_place("model"));
  for (const int64_t n : run.integers("devices", {processes}, 1, 1024)) {
    if (n > 1 && n % processes != 0)
      refuse_option("devices", fmt::format("{} devices do not divide over {} processes", n, processes));
  }
}

/// The words that `given` stands for, as they were typed.
std::string command_line(const Arguments& given) {
  std::vector<std::string> words = {"tandem", "launch", given.words()[0]};
  for (const char* flag : {"shards", "processes", "option", "image", "claim", "program"}) {
    for (const std::string& value : given.all(flag)) words.push_back(fmt::format("--{}={}", flag, value));
  }
  words.emplace_back("--");
  words.insert(words.end(), given.command().begin(), given.command().end());
  return shell_line(words);
}

/// `is_run`: else a sweep.
JobFile job_file(const Arguments& given, bool is_run, bool containers) {
  const char *count = is_run ? "processes" : "shards", *other = is_run ? "shards" : "processes";
  const Arguments started = launched(given.command());
  if (given.has(other))
    throw UsageError(fmt::format("--{} is for a {}; a {} has --{}", other, is_run ? "sweep" : "run",
                                 is_run ? "run" : "sweep", count));
  given.required(count, "8");
  JobFile out;
  out.shards = given.integer(count, 0, 1, is_run ? kMostProcesses : sweep::Shard::kMost);
  is_run ? check_run(started, out.shards) : check_sweep(started);
  std::error_code none;
  const std::string own = std::filesystem::read_symlink("/proc/self/exe", none).string();
  out.program = given.text("program", containers || own.empty() ? "tandem" : own);
  out.command = given.command();
  out.out = started.text("out", "");
  out.threads = started.integer("threads", 0, 1, 1024);
  out.options = given.all("option");
  for (const char* flag : {"image", "claim"}) {
    if (containers)
      given.required(flag, std::string_view(flag) == "image" ? "registry/tandem:0.2" : "sweeps");
    if (!containers && given.has(flag)) throw UsageError(fmt::format("--{} is for kubernetes", flag));
  }
  if (containers && given.has("option")) throw UsageError("--option is for slurm and mpi: edit the manifest");
  out.image = given.text("image", "");
  out.claim = given.text("claim", "");
  out.made_by = command_line(given);
  if (out.made_by.find('\n') != std::string::npos)
    throw UsageError("a word has a line break, which no job file can hold; name a file instead");
  return out;
}

int run_launch(const Arguments& given) {
  const Engine& engine = engine_of(given.words()[0]);
  const bool is_run = !given.command().empty() && given.command()[0] == "run";
  const std::string file =
      (is_run ? engine.run : engine.sweep)(job_file(given, is_run, engine.name == "kubernetes"));
  if (!given.has("submit")) {
    put_result(given, file);
    return 0;
  }
  if (const ChildResult there = run_child(engine.present, "", engine.package); there.status != 0)
    throw InputError(fmt::format("{} does not work here: {}", engine.present[0],
                                 printable(there.err.substr(0, there.err.find('\n')))));
  const std::string script = fmt::format("{} <<'TANDEM'\n{}TANDEM\n", engine.submit, file);
  execlp("sh", "sh", "-c", script.c_str(), static_cast<char*>(nullptr));
  throw InputError(fmt::format("cannot start sh: {}", std::strerror(errno)));
}

}  // namespace

void register_launch(Registry<Verb>& registry) {
  registry.add(
      {.name = "launch",
       .summary = "the job files that start a sweep's shards, or a run's processes, on many machines",
       .usage = "slurm|kubernetes|mpi --shards N [options] -- sweep ...\n"
                "       tandem launch slurm|kubernetes|mpi --processes N [options] -- run ...",
       .flags = {{"shards", "N", "how many parts the sweep has; for mpi, how many ranks share it"},
                 {"processes", "N", "how many processes a run has, each a node of its --devices"},
                 {"option", "OPTION",
                  "for sbatch or mpirun, as it is: --option=--partition=short; any number of times", true},
                 {"image", "IMAGE", "kubernetes: the container's image, which has tandem"},
                 {"claim", "NAME",
                  "kubernetes: the persistent volume claim that all pods write to, their folder /work"},
                 {"program", "PATH",
                  "of tandem where it is to run; default this program, in a container \"tandem\""},
                 {"submit", "", "hand it to sh, kubectl or mpirun instead of printing it"},
                 out_flag(),
                 quiet_flag()},
       .least_words = 1,
       .most_words = 1,
       .next =
           [](const std::vector<std::string>& before) {
             return before.empty() ? engine_names() : std::vector<std::string>();
           },
       .run = run_launch,
       .details =
           "The sweep is checked first, so that a wrong name is found here. Each shard has its own file next "
           "to the sweep's --out, in a folder that all machines share. However often a shard is started, the "
           "result is the same; the merge says which shards lack cells, and its exit code is then 1.\n\n"
           "Names and counts of a run are checked first. Slurm puts one process on each machine "
           "(--option=--ntasks-per-node=2: two) and lets them join by PMIx; Kubernetes needs the MPI "
           "Operator "
           "for several, and an image with sshd and mpirun.\n\n"
           "Examples\n"
           "  tandem launch slurm --shards 40 --option=--partition=short -- sweep --model resnet50 --system "
           "dgx1-v100 --batch 16,32 --devices 1,2,4,8 --out grid.sqlite\n"
           "  tandem launch mpi --shards 4 -- sweep --model resnet50 --system dgx1-v100 --batch 16,32 "
           "--devices 1,2,4,8 --out grid.sqlite\n"
           "  tandem launch slurm --processes 4 --option=--cpus-per-task=8 -- run --model resnet20-cifar "
           "--devices 32 --format json --out report.json",
       .has_command = true});
}

}  // namespace tandem::app
