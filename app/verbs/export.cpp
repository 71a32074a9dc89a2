// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "app/analysis/question.h"
#include "app/console/cli.h"
#include "app/console/output.h"
#include "schemes/report.h"
#include "topologies/export/exporter.h"

namespace tandem::app {

namespace {

constexpr const char* kTimeline = "chrome-trace";

/// Trace Event Format, as chrome://tracing and Perfetto read it: one process per instance, one thread per
/// lane.
std::string chrome_trace(const Report& report) {
  auto events = nlohmann::ordered_json::array();
  std::map<std::pair<std::string, uint32_t>, int> processes;
  std::map<std::pair<int, std::string>, int> threads;
  const auto name = [&](const char* what, int pid, int tid, const std::string& text) {
    events.push_back({{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", {{"name", text}}}});
  };
  for (const TimelineEntry& e : report.timeline) {
    const auto [process, new_process] =
        processes.try_emplace({e.role, e.instance}, static_cast<int>(processes.size()) + 1);
    const int pid = process->second;
    if (new_process) name("process_name", pid, 0, fmt::format("{} {}", e.role, e.instance));
    const auto [thread, new_thread] =
        threads.try_emplace({pid, e.lane}, static_cast<int>(threads.size()) + 1);
    if (new_thread) name("thread_name", pid, thread->second, e.lane);
    events.push_back({{"ph", "X"},
                      {"name", e.label},
                      {"cat", e.lane},
                      {"ts", e.start_seconds * 1e6},
                      {"dur", (e.end_seconds - e.start_seconds) * 1e6},
                      {"pid", pid},
                      {"tid", thread->second},
                      {"args", {{"iteration", e.iteration}}}});
  }
  return nlohmann::ordered_json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump(
      1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void export_timeline(const Arguments& arguments, const std::string& file) {
  if (arguments.has("set")) throw UsageError("--set changes a system; a report is exported as it is");
  const auto reports = load_reports(file);
  // Of the most devices when there are several.
  const auto last =
      std::find_if(reports.rbegin(), reports.rend(), [](const Report& r) { return !r.timeline.empty(); });
  if (last == reports.rend())
    throw InputError(fmt::format("{}: no report in it holds a timeline", printable(file)));
  put_result(arguments, chrome_trace(*last));
}

int export_file(const Arguments& arguments) {
  const std::string &kind = arguments.words()[0], &what = arguments.words()[1];
  if (kind == kTimeline) {
    export_timeline(arguments, what);
    return 0;
  }
  if (const SystemExporter* exporter = export_registry().find(kind)) {
    std::vector<std::string> notes;
    const std::string text = exporter->write(System::load(what, read_sets(arguments)), notes);
    for (const std::string& each : notes) note(arguments, each);
    put_result(arguments, text);
    return 0;
  }
  std::vector<std::string> valid = export_registry().names();
  valid.insert(valid.begin(), kTimeline);
  throw UsageError(fmt::format("cannot export \"{}\".{} Valid: {}", printable(kind),
                               did_you_mean(kind, valid), fmt::join(valid, ", ")));
}

const std::string& details() {
  static const std::string text = [] {
    std::string out = fmt::format(
        "Kinds\n  {:<17} {}\n", kTimeline,
        "a report's timeline for chrome://tracing or Perfetto (the last report of the file that has one)");
    for (const SystemExporter& each : export_registry().all())
      out += fmt::format("  {:<17} {}\n", each.name, each.summary);
    return out +
           "\nExamples\n"
           "  tandem export chrome-trace a.json --out trace.json\n"
           "  tandem export simgrid dgx-h100 --set nodes=4 --out platform.xml\n"
           "  tandem export astra-sim dgx-h100 --set nodes=4 --out network.yml";
  }();
  return text;
}

}  // namespace

void register_export(Registry<Verb>& registry) {
  registry.add({.name = "export",
                .summary = "a report or a system in another tool's format: Chrome trace, SimGrid, ASTRA-sim",
                .usage = "KIND REPORT|SYSTEM [options]",
                .flags = {{"set", "PATH=VALUE", "change one thing of the system first: nodes=16", true},
                          out_flag(),
                          quiet_flag()},
                .least_words = 2,
                .most_words = 2,
                .run = export_file,
                .details = details()});
}

}  // namespace tandem::app
