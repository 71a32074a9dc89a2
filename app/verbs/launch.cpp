// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "answers/shell_line.h"
#include "app/analysis/job_files.h"
#include "app/analysis/sweep_asking.h"
#include "app/console/child.h"
#include "app/console/output.h"
#include "sweep/reader.h"

namespace tandem::app {

namespace {

/// Who starts the shards.
struct Engine {
  std::string_view name;
  std::string (*file)(const JobFile& job);
  std::vector<std::string> present;  ///< a command that succeeds where it can be submitted
  std::string_view package;          ///< of that command
  std::string_view submit;           ///< the shell's command that reads the file
};

const std::vector<Engine>& engines() {
  static const std::vector<Engine> all = {
      {"slurm", slurm_script, {"sbatch", "--version"}, "slurm-client", "sh"},
      {"kubernetes",
       kubernetes_manifest,
       {"kubectl", "version", "--client"},
       "kubectl",
       "kubectl create -f -"},
      {"mpi", mpi_script, {"mpirun", "--version"}, "openmpi-bin", "sh"}};
  return all;
}

const Engine& engine_of(const std::string& word) {
  std::vector<std::string> names;
  for (const Engine& engine : engines()) {
    if (engine.name == word) return engine;
    names.emplace_back(engine.name);
  }
  throw UsageError(fmt::format("\"{}\" is none of slurm, kubernetes and mpi.{}", printable(word),
                               did_you_mean(word, names)));
}

/// The command after "--", as far as it can be checked before anything starts.
Arguments launched_sweep(const std::vector<std::string>& command) {
  if (command.empty() || command[0] != "sweep")
    throw UsageError(
        "after -- stands the sweep: tandem launch slurm --shards 8 -- sweep --model ... --out grid.sqlite");
  Arguments out = Arguments::parse(*verbs_registry().find("sweep"), {command.begin() + 1, command.end()});
  if (!out.words().empty()) throw UsageError("only a sweep that answers can be launched");
  if (out.has("shard")) throw UsageError("--shard is what the engine gives; leave it out");
  const sweep::SweepQuestion q = sweep_question(out);
  sweep::check_grid(q.header.grid, q.hooks);
  return out;
}

/// The words that `given` stands for, as they were typed.
std::string command_line(const Arguments& given) {
  std::vector<std::string> words = {"tandem", "launch", given.words()[0]};
  for (const char* flag : {"shards", "option", "image", "claim", "program"}) {
    for (const std::string& value : given.all(flag)) words.push_back(fmt::format("--{}={}", flag, value));
  }
  words.emplace_back("--");
  words.insert(words.end(), given.command().begin(), given.command().end());
  return shell_line(words);
}

JobFile job_file(const Arguments& given, bool containers) {
  const Arguments swept = launched_sweep(given.command());
  JobFile out;
  out.shards = given.integer("shards", 0, 1, sweep::Shard::kMost);
  std::error_code none;
  const std::string own = std::filesystem::read_symlink("/proc/self/exe", none).string();
  out.program = given.text("program", containers || own.empty() ? "tandem" : own);
  out.command = given.command();
  out.out = swept.text("out", "");
  out.threads = swept.integer("threads", 0, 1, 1024);
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
  given.required("shards", "8");
  const std::string file = engine.file(job_file(given, engine.name == "kubernetes"));
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
       .summary = "the job files that start a sweep's shards on many machines",
       .usage = "slurm|kubernetes|mpi --shards N [options] -- sweep ...",
       .flags = {{"shards", "N", "how many parts the sweep has; for mpi, how many ranks share it"},
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
       .run = run_launch,
       .details =
           "The sweep is checked first, so that a wrong name is found here. Each shard has its own file next "
           "to the sweep's --out, in a folder that all machines share. However often a shard is started, the "
           "result is the same; the merge says which shards lack cells, and its exit code is then 1.\n\n"
           "Examples\n"
           "  tandem launch slurm --shards 40 --option=--partition=short -- sweep --model resnet50 --system "
           "dgx1-v100 --batch 16,32 --devices 1,2,4,8 --out grid.sqlite\n"
           "  tandem launch mpi --shards 4 -- sweep --model resnet50 --system dgx1-v100 --batch 16,32 "
           "--devices 1,2,4,8 --out grid.sqlite",
       .has_command = true});
}

}  // namespace tandem::app
