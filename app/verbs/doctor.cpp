// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "app/console/cli.h"
#include "app/console/output.h"
#include "app/console/table.h"
#include "app/console/version.h"
#include "base/child.h"
#include "base/data.h"
#include "base/units.h"
#include "exec/device/cuda/plugin.h"
#include "exec/execute.h"

namespace tandem::app {

namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// The first line that a program prints, or how to install it.
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

/// The memory nodes and the processors of each.
void add_numa(Table& table) {
  for (int node = 0;; ++node) {
    std::ifstream file(fmt::format("/sys/devices/system/node/node{}/cpulist", node));
    std::string list;
    if (!std::getline(file, list)) return;
    table.add({fmt::format("NUMA node {}", node), "processors " + printable(list)});
  }
}

std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> out{""};
  bool escape = false;  // of a terminal's underline: ESC [ 4 m
  for (const char c : line) {
    if (c == '\x1b') escape = true;
    if (!escape && c == '\t') out.emplace_back();
    if (!escape && c != '\t' && (c != ' ' || !out.back().empty())) out.back() += c;
    if (escape && c == 'm') escape = false;
  }
  for (std::string& field : out) field.erase(field.find_last_not_of(' ') + 1);
  return out;
}

/// `nvidia-smi topo -m`, a row a GPU: how it reaches each other device (NV#: that number of NVLinks; PIX,
/// PXB: PCIe switches; PHB, NODE, SYS: through the processor), and what is near it.
void add_links(Table& table) {
  std::string text;
  try {
    text = run_child({"nvidia-smi", "topo", "-m"}, "", "", std::chrono::seconds(10)).out;
  } catch (const std::exception&) {
    return;  // the GPUs' row says what is missing
  }
  std::istringstream lines(text);
  std::vector<std::string> heads;
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> cells = fields(line);
    if (heads.empty()) {
      if (cells.size() > 1 && cells[0].empty()) heads = cells;
      continue;
    }
    if (!cells[0].starts_with("GPU")) continue;
    std::string found;
    for (std::size_t i = 1; i < cells.size() && i < heads.size(); ++i) {
      if (heads[i].empty() || cells[i].empty() || cells[i] == "X") continue;
      found += fmt::format("{}{} {}", found.empty() ? "" : ", ", printable(heads[i]), printable(cells[i]));
    }
    table.add({cells[0] + " links", found});
  }
}

void add_gpus(Table& table, const CudaFindings& cuda) {
  if (cuda.plugin == nullptr || !cuda.missing.empty()) {
    table.add({"GPUs", tool({"nvidia-smi", "-L"}, "", "")});
    return;
  }
  const std::vector<Gpu> gpus = cuda.plugin->gpus();
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const Gpu& g = gpus[i];
    std::string peers;
    for (std::size_t k = 0; k < gpus.size(); ++k)
      if (k != i && g.peers[k]) peers += fmt::format("{}{}", peers.empty() ? ", reaches GPU " : ", ", k);
    table.add({fmt::format("GPU{}", i),
               fmt::format("{}, {}, sm_{}, {} processors, {:.2f} GHz, memory {:.2f} GHz, L2 {}, at {}{}{}",
                           g.name, to_text(Bytes{g.memory_bytes}), g.compute, g.processors, g.clock_hz * 1e-9,
                           g.memory_clock_hz * 1e-9, to_text(Bytes{g.l2_bytes}), g.bus,
                           g.numa < 0 ? "" : fmt::format(", NUMA node {}", g.numa), peers)});
  }
}

/// Compiles two steps of a small model: how many calls libraries take, and why not all.
std::string libraries_of(const char* model) {
  const Graph graph = Graph::load(model);
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  Execution e;
  e.job.graph = &graph;
  e.job.scheme = &scheme;
  e.job.batch = 4;
  e.job.precision = Precision::bf16;
  e.job.optimizer = &optimizer("sgd");
  e.backend = &backends_registry().at("cuda");
  e.iterations = 2;
  e.warmup = 0;
  int64_t calls = 0, refused = 0;
  std::string why;
  for (const LibraryUse& u : execute(e).report.libraries) {
    calls += u.calls;
    if (u.refused.empty()) continue;
    refused += u.calls;
    why += fmt::format("; {} x{}: {}: {}", u.call, u.calls, u.library, u.refused);
  }
  return fmt::format("{} of {} calls by libraries, {} by own kernels{}", calls - refused, calls, refused,
                     why);
}

void add_libraries(Table& table) {
  for (const char* model : {"digits-cnn", "transformer-tiny:layers=1,sequence=16"}) {
    std::string found;
    try {
      found = libraries_of(model);
    } catch (const std::exception& error) {
      found = fmt::format("fails: {}", error.what());
    }
    table.add({fmt::format("{} in bf16", model), found});
  }
}

/// The plugin, NVIDIA's libraries and the GPUs: where they are, or what is missing and how to install it.
void add_cuda(Table& table) {
  const CudaFindings& cuda = cuda_findings();
  const bool opened = cuda.plugin != nullptr;
  table.add({"CUDA plugin", cuda.path.empty() ? cuda.missing : cuda.path});
  for (const CudaLibrary& library : cuda.libraries)
    table.add({library.name, library.problem.empty()
                                 ? library.path
                                 : fmt::format("{}: {}", library.problem, library.install)});
  if (opened) table.add({"CUDA versions", cuda.plugin->versions()});
  if (!cuda.path.empty() && !cuda.missing.empty()) table.add({"CUDA backend", cuda.missing});
  add_gpus(table, cuda);
  if (opened && cuda.missing.empty()) add_libraries(table);
  add_links(table);
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
  add_numa(table);
  add_cuda(table);
  table.add({"gnuplot", tool({"gnuplot", "--version"}, "gnuplot-nox", "plot and demo")});
  table.add({"graphviz", tool({"dot", "-V"}, "graphviz", "drawing systems and models")});
  table.add({"data", fmt::format("{} ({} models, {} systems, {} devices)", data_root(),
                                 list_data("models/zoo").size(), list_data("topologies/systems").size(),
                                 list_data("topologies/devices").size())});
  put_page(arguments, format == "text" ? table.text(false, result_columns(arguments)) : table.as(format));
  return 0;
}

}  // namespace

void register_doctor(Registry<Verb>& registry) {
  registry.add({.name = "doctor",
                .summary = "what was found on this machine, what is missing and how to get it",
                .usage = "[options]",
                .flags = {format_flag(), out_flag(), wide_flag(), quiet_flag()},
                .run = doctor});
}

}  // namespace tandem::app
