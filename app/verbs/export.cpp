// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include "base/json_writer.h"

#include "answers/elasticity.h"
#include "answers/question.h"
#include "app/analysis/asking.h"
#include "app/console/cli.h"
#include "app/console/output.h"
#include "app/show/lists.h"
#include "base/json.h"
#include "calibration/traces/chakra.h"
#include "schemes/report/report.h"
#include "sim/simulate.h"
#include "topologies/export/exporter.h"

namespace tandem::app {

namespace {

constexpr const char *kTimeline = "chrome-trace", *kChakra = "chakra";
constexpr int64_t kMostNodes = 20'000'000;  ///< of Chakra traces: some gigabytes
constexpr std::string_view kWorkerRole = "worker";

/// How a lane appears in a trace of PyTorch's profiler, whose names Holistic Trace Analysis goes by
/// (hta/utils/utils.py): "ncclKernel" is communication, "Memcpy" a copy; a stream means a GPU.
struct LaneStyle {
  std::string_view lane, category, prefix;
  int stream;  ///< -1: the host
};
constexpr LaneStyle kLanes[] = {{"compute", "kernel", "", 7},
                                {"comm", "kernel", "ncclKernel ", 20},
                                {"copy", "gpu_memcpy", "Memcpy ", 21},
                                {"offload", "gpu_memcpy", "Memcpy ", 22},
                                {"reload", "gpu_memcpy", "Memcpy ", 23},
                                {"host", "cpu_op", "", -1}};
constexpr int kIterationsThread = 99;  ///< thread of the annotations that tell iterations apart

/// A lane that is none of them is the host's.
const LaneStyle& style_of(const std::string& lane) {
  return *std::find_if(std::begin(kLanes), std::prev(std::end(kLanes)),
                       [&](const LaneStyle& s) { return s.lane == lane; });
}

double microseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }

/// Of one process of the trace, from time `zero`.
class ProcessEvents {
 public:
  ProcessEvents(JsonWriter& events, int pid, double zero, bool gpu)
      : events_(events), pid_(pid), zero_(zero), gpu_(gpu) {}

  void name(const char* what, int tid, const std::string& text) {
    events_.push_back({{"ph", "M"}, {"name", what}, {"pid", pid_}, {"tid", tid}, {"args", {{"name", text}}}});
  }

  void add(const TimelineEntry& e) {
    const LaneStyle& style = style_of(e.lane);
    const bool on_stream = gpu_ && style.stream >= 0;
    const int tid = style.stream >= 0 ? style.stream : 1;
    if (named_.insert(tid).second) name("thread_name", tid, e.lane);
    JsonWriter args = {{"iteration", e.iteration}};
    if (on_stream) args["stream"] = style.stream, args["device"] = pid_;
    complete(std::string(on_stream ? style.prefix : "") + e.label, on_stream ? style.category : "cpu_op",
             e.start_seconds, e.end_seconds, tid, std::move(args));
    const auto [at, fresh] = iterations_.try_emplace(e.iteration, e.start_seconds, e.end_seconds);
    at->second = {std::min(at->second.first, e.start_seconds), std::max(at->second.second, e.end_seconds)};
  }

  /// "iteration 3" over all that belongs to it. Not "ProfilerStep#3": where Holistic Trace Analysis finds
  /// that, it leaves out what no launch on the host leads to, and a Report knows no launches.
  void add_iterations() {
    if (!iterations_.empty()) name("thread_name", kIterationsThread, "iterations");
    for (const auto& [number, times] : iterations_)
      complete(fmt::format("iteration {}", number), "user_annotation", times.first, times.second,
               kIterationsThread, {{"iteration", number}});
  }

 private:
  void complete(const std::string& name, std::string_view category, double start, double end, int tid,
                JsonWriter args) {
    const double from = microseconds(start - zero_);
    events_.push_back({{"ph", "X"},
                       {"cat", category},
                       {"name", name},
                       {"ts", from},
                       {"dur", microseconds(end - zero_) - from},
                       {"pid", pid_},
                       {"tid", tid},
                       {"args", std::move(args)}});
  }

  JsonWriter& events_;
  int pid_;
  double zero_;
  bool gpu_;
  std::set<int> named_;
  std::map<uint32_t, std::pair<double, double>> iterations_;
};

/// Trace Event Format, as Perfetto, chrome://tracing and Holistic Trace Analysis read it: a process for each
/// worker, numbered by its rank, then one for each server, and a thread for each lane. `rank`: of that worker
/// alone.
std::string chrome_trace(const Report& report, std::optional<int64_t> rank) {
  auto events = JsonWriter::array();
  std::map<std::pair<bool, std::pair<std::string, uint32_t>>, std::vector<const TimelineEntry*>> processes;
  double zero = std::numeric_limits<double>::infinity();
  for (const TimelineEntry& e : report.timeline) {
    const bool worker = e.role == kWorkerRole;
    if (rank && !(worker && e.instance == *rank)) continue;
    processes[{!worker, {e.role, e.instance}}].push_back(&e);
    zero = std::min(zero, e.start_seconds);
  }
  if (processes.empty())
    refuse_option("rank", fmt::format("the timeline holds no worker {}", rank.value_or(0)));
  auto next = static_cast<int>(report.setup.devices);  // servers come after all workers
  for (const auto& [key, entries] : processes) {
    const auto& [role, instance] = key.second;
    ProcessEvents process(events, key.first ? next++ : static_cast<int>(instance), zero, role == kWorkerRole);
    process.name("process_name", 0, fmt::format("{} {}", role, instance));
    for (const TimelineEntry* e : entries) process.add(*e);
    process.add_iterations();
  }
  return JsonWriter{{"schemaVersion", 1},
                    {"distributedInfo",
                     {{"backend", "nccl"}, {"rank", rank.value_or(0)}, {"world_size", report.setup.devices}}},
                    {"displayTimeUnit", "ms"},
                    {"traceEvents", std::move(events)}}
      .dump(2);
}

void export_timeline(const Arguments& arguments, const std::string& file) {
  if (arguments.has("set")) throw UsageError("--set changes a system; a report is exported as it is");
  const auto reports = load_reports(file);
  // Of the most devices when there are several.
  const auto last =
      std::find_if(reports.rbegin(), reports.rend(), [](const Report& r) { return !r.timeline.empty(); });
  if (last == reports.rend())
    throw InputError(fmt::format("{}: no report in it holds a timeline", printable(file)));
  std::optional<int64_t> rank;
  if (arguments.has("rank")) rank = arguments.integer("rank", 0, 0, last->setup.devices - 1);
  put_result(arguments, chrome_trace(*last, rank));
}

/// A file a device: "traces/vgg16" makes traces/vgg16.0.et ...
void export_chakra(const Arguments& arguments, const std::string& file) {
  if (arguments.has("set")) throw UsageError("--set changes a system; a question is exported as it is");
  if (!arguments.has("out"))
    throw UsageError("chakra makes a file for each device: --out traces/NAME, for traces/NAME.0.et ...");
  const std::string out = arguments.text("out", "");
  const Question question = Question::from_json(Json::load(file), hooks(arguments));
  int64_t devices = *std::max_element(question.devices.begin(), question.devices.end());
  if (arguments.has("devices")) devices = arguments.integer("devices", devices, 1, 1 << 20);
  const BoundProgram plan = sim::make_plan(request_on(question, question.system, devices));
  const calibration::ChakraWriter writer(plan);
  int64_t from = 0, end = writer.devices();
  if (arguments.has("rank")) {
    from = arguments.integer("rank", 0, 0, end - 1);
    end = from + 1;
  } else if (writer.nodes() > kMostNodes) {
    throw InputError(fmt::format("{} devices make {} nodes, more than {}: --rank N writes one device's file",
                                 devices, writer.nodes(), kMostNodes));
  }
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(out).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) throw InputError(fmt::format("{}: {}", printable(folder.string()), error.message()));
  Progress progress(arguments);
  for (int64_t rank = from; rank < end; ++rank) {
    progress.show("writing traces", static_cast<double>(rank - from) / static_cast<double>(end - from));
    write_file(fmt::format("{}.{}.et", out, rank), writer.rank(rank));
  }
  const uint32_t first = writer.first() + 1, last = writer.first() + writer.iterations();
  note(arguments, fmt::format("{}.N.et: {} of {} devices", out,
                              first == last ? fmt::format("iteration {}", first)
                                            : fmt::format("iterations {} to {}", first, last),
                              writer.devices()));
  if (const std::string groups = writer.groups(); !groups.empty()) {
    write_file(out + ".groups.json", groups);
    note(arguments, fmt::format("{}.groups.json: who takes part (--comm-group-configuration)", out));
  }
  for (const std::string& each : writer.notes()) note(arguments, each);
}

/// Kinds, then systems.
std::vector<std::string> exported_next(const std::vector<std::string>& before) {
  if (!before.empty())
    return before[0] == kTimeline || before[0] == kChakra ? std::vector<std::string>()
                                                          : listed_names("systems");
  std::vector<std::string> kinds = export_registry().names();
  kinds.insert(kinds.begin(), {kTimeline, kChakra});
  return kinds;
}

int export_file(const Arguments& arguments) {
  const std::string &kind = arguments.words()[0], &what = arguments.words()[1];
  if (kind == kTimeline) {
    if (arguments.has("devices")) throw UsageError("--devices is for chakra");
    export_timeline(arguments, what);
    return 0;
  }
  if (kind == kChakra) {
    export_chakra(arguments, what);
    return 0;
  }
  for (const char* flag : {"rank", "devices"}) {
    if (arguments.has(flag)) throw UsageError(fmt::format("--{} is of traces: chrome-trace, chakra", flag));
  }
  if (const SystemExporter* exporter = export_registry().find(kind)) {
    std::vector<std::string> notes;
    const std::string text = exporter->write(System::load(what, read_sets(arguments)), notes);
    for (const std::string& each : notes) note(arguments, each);
    put_result(arguments, text);
    return 0;
  }
  const std::vector<std::string> valid = exported_next({});
  throw UsageError(fmt::format("cannot export \"{}\".{} Valid: {}", printable(kind),
                               did_you_mean(kind, valid), fmt::join(valid, ", ")));
}

const std::string& export_details() {
  static const std::string text = [] {
    std::string out = fmt::format("Kinds\n  {:<17} {}\n", kTimeline,
                                  "a report's timeline for Perfetto, chrome://tracing or Holistic Trace "
                                  "Analysis (the last report of the file "
                                  "that has one)");
    out += fmt::format("  {:<17} {}\n", kChakra,
                       "what each device does in a step, as a Chakra execution trace (.et) for ASTRA-sim: "
                       "of a question or a report");
    for (const SystemExporter& each : export_registry().all())
      out += fmt::format("  {:<17} {}\n", each.name, each.summary);
    return out +
           "\nExamples\n"
           "  tandem export chrome-trace a.json --out trace.json\n"
           "  tandem export chrome-trace a.json --rank 1 --out traces/rank1.json\n"
           "  tandem export chakra a.json --out traces/a\n"
           "  tandem export simgrid dgx-h100 --set nodes=4 --out platform.xml\n"
           "  tandem export astra-sim dgx-h100 --set nodes=4 --out network.yml";
  }();
  return text;
}

}  // namespace

void register_export(Registry<Verb>& registry) {
  registry.add(
      {.name = "export",
       .summary = "a report or a system in another tool's format: Chrome trace, Chakra, SimGrid, ASTRA-sim",
       .usage = "KIND REPORT|QUESTION|SYSTEM [options]   (a REPORT of - is standard input)",
       .flags =
           {{"set", "PATH=VALUE", "change one thing of the system first: nodes=16", true},
            {"rank", "N",
             "chrome-trace, chakra: of this worker alone; Holistic Trace Analysis reads a file for each"},
            {"devices", "N", "chakra: of a question with several counts (default: the most)"},
            out_flag(),
            quiet_flag()},
       .least_words = 2,
       .most_words = 2,
       .next = exported_next,
       .run = export_file,
       .details = export_details()});
}

}  // namespace tandem::app
