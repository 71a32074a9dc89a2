#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "app/output.h"
#include "app/verb.h"
#include "schemes/report.h"

namespace tandem {

namespace {

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

int export_report(const Arguments& arguments) {
  const std::string& kind = arguments.words()[0];
  if (kind != "chrome-trace") {
    throw InputError(fmt::format("cannot export \"{}\".{} Valid: chrome-trace", printable(kind),
                                 did_you_mean(kind, {"chrome-trace"})));
  }
  const auto reports = load_reports(arguments.words()[1]);
  const Report& report = reports.back();  // of the most devices when there are several
  if (report.timeline.empty()) {
    throw InputError(fmt::format("{}: the report holds no timeline", printable(arguments.words()[1])));
  }
  put_result(arguments, chrome_trace(report));
  return 0;
}

}  // namespace

void register_export_trace(Registry<Verb>& registry) {
  registry.add({.name = "export",
                .summary = "a report in another tool's format: chrome-trace (chrome://tracing, Perfetto)",
                .usage = "chrome-trace REPORT [options]",
                .flags = {out_flag(), quiet_flag()},
                .least_words = 2,
                .most_words = 2,
                .run = export_report,
                .details = "Of several reports in the file the last one is exported."});
}

}  // namespace tandem
