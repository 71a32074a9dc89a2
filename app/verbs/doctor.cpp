#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "app/child.h"
#include "app/output.h"
#include "app/table.h"
#include "app/verb.h"
#include "app/version.h"
#include "base/data.h"
#include "base/units.h"

namespace tandem {

namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// The first line that a program prints, or how to get it.
std::string tool(const std::vector<std::string>& argv, std::string_view package, std::string_view what_for) {
  try {
    const ChildResult result = run_child(argv, "", package, std::chrono::seconds(10));
    const std::string line = first_line(result.out.empty() ? result.err : result.out);
    return result.status == 0 ? printable(line) : fmt::format("fails: {}", printable(line));
  } catch (const std::exception&) {
    return package.empty() ? "none found"
                           : fmt::format("missing, needed for {}: apt-get install {}", what_for, package);
  }
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "unknown";
}

int doctor(const Arguments& arguments) {
  const std::string format = format_of(arguments);
  Table table({{"part"}, {"found"}});
  utsname system{};
  uname(&system);
  table.add({"tandem", version()});
  table.add({"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)});
  table.add({"processor", fmt::format("{}, {} threads", processor(), std::thread::hardware_concurrency())});
  const int64_t memory = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  table.add({"memory", to_text(Bytes{memory})});
  table.add({"GPUs", tool({"nvidia-smi", "-L"}, "", "")});
  table.add({"gnuplot", tool({"gnuplot", "--version"}, "gnuplot-nox", "plot and demo")});
  table.add({"graphviz", tool({"dot", "-V"}, "graphviz", "drawing systems and models")});
  table.add({"data", fmt::format("{} ({} models, {} systems, {} devices)", data_root(),
                                 list_data("models/zoo").size(), list_data("topologies/systems").size(),
                                 list_data("topologies/devices").size())});
  put_result(arguments, format == "text" ? table.text(false) : table.as(format));
  return 0;
}

}  // namespace

void register_doctor(Registry<Verb>& registry) {
  registry.add({.name = "doctor",
                .summary = "what was found on this machine, what is missing and how to get it",
                .usage = "[options]",
                .flags = {format_flag(), out_flag(), quiet_flag()},
                .run = doctor});
}

}  // namespace tandem
