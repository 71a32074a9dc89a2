// The Gantt picture: rows are lanes of instances, boxes are ops, colours are kinds of work.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "app/gnuplot.h"
#include "app/pictures.h"
#include "app/report_text.h"
#include "app/table.h"

namespace tandem {

namespace {

constexpr std::string_view kWorker = "worker";
constexpr uint32_t kMostInstances = 4, kIterations = 2;
constexpr double kLetter = 0.0068;  ///< of the picture's width, at the size the labels are drawn in

struct Work {
  std::string_view name, colour;
};
constexpr Work kWork[] = {{"forward", "#4C78A8"},       {"backward", "#2A4D73"},      {"update", "#8C6BB1"},
                          {"communication", "#E0721B"}, {"input, copies", "#3F8F3F"}, {"server", "#B23A48"},
                          {"waiting", "#BDB7B0"}};

std::size_t work_of(const TimelineEntry& e) {
  if (e.lane == "comm") return 3;
  if (e.lane == "copy") return 4;
  for (std::size_t i = 0; i < 3; ++i) {
    if (e.label.rfind(kWork[i].name, 0) == 0) return i;
  }
  return e.lane == "compute" ? 5 : 6;
}

int lane_order(const std::string& lane) {
  constexpr std::string_view order[] = {"compute", "comm", "copy", "host"};
  return static_cast<int>(std::find(std::begin(order), std::end(order), lane) - std::begin(order));
}

/// The window is what the shown workers compute in the first of the kept iterations; what runs ahead of it
/// (input for later ones) or on after it (servers) is cut at its borders.
std::vector<TimelineEntry> shown(const Report& report) {
  uint32_t first = UINT32_MAX;
  for (const TimelineEntry& e : report.timeline) {
    if (e.role == kWorker) first = std::min(first, e.iteration);
  }
  double from = INFINITY, to = 0;
  for (const TimelineEntry& e : report.timeline) {
    if (e.role != kWorker || e.instance >= kMostInstances || e.iteration - first >= kIterations) continue;
    if (e.lane == "compute") from = std::min(from, e.start_seconds);
    if (e.lane == "compute" || e.lane == "comm") to = std::max(to, e.end_seconds);
  }
  std::vector<TimelineEntry> out;
  for (TimelineEntry e : report.timeline) {
    e.start_seconds = std::max(e.start_seconds, from);
    e.end_seconds = std::min(e.end_seconds, to);
    if (e.instance < kMostInstances && e.end_seconds > e.start_seconds) out.push_back(std::move(e));
  }
  return out;
}

}  // namespace

std::vector<std::string> draw_timeline(const std::vector<Series>& series, const std::string& base) {
  const Report& report = series[0].reports.back();
  const auto entries = shown(report);
  if (entries.empty()) return {};
  using RowKey = std::tuple<std::string, uint32_t, int, std::string>;
  std::map<RowKey, int> rows;
  double first = entries[0].start_seconds, last = 0;
  std::map<uint32_t, double> begins;  // of iterations, on instance 0
  for (const TimelineEntry& e : entries) {
    rows[{e.role == kWorker ? "" : e.role, e.instance, lane_order(e.lane), e.lane}] = 0;
    first = std::min(first, e.start_seconds);
    last = std::max(last, e.end_seconds);
    if (e.instance == 0 && e.role == kWorker && e.lane == "compute") {
      const auto at = begins.try_emplace(e.iteration, e.start_seconds).first;
      at->second = std::min(at->second, e.start_seconds);
    }
  }
  int row = 0;
  std::vector<std::vector<std::string>> names, boxes, texts, marks;
  for (auto& [key, index] : rows) {
    index = row++;
    const std::string role = std::get<0>(key).empty() ? "worker" : std::get<0>(key);
    names.push_back(
        {std::to_string(index), fmt::format("{} {} {}", role, std::get<1>(key), std::get<3>(key))});
  }
  bool used[std::size(kWork)] = {};
  for (const TimelineEntry& e : entries) {
    const int at = rows[{e.role == kWorker ? "" : e.role, e.instance, lane_order(e.lane), e.lane}];
    const std::size_t work = work_of(e);
    used[work] = true;
    const double start = 1e3 * (e.start_seconds - first), end = 1e3 * (e.end_seconds - first);
    const std::string colour = "0x" + std::string(kWork[work].colour.substr(1));
    boxes.push_back({cell(start), cell(end), std::to_string(at), colour});
    if ((end - start) / (1e3 * (last - first)) > kLetter * static_cast<double>(e.label.size() + 1)) {
      texts.push_back({cell((start + end) / 2), std::to_string(at), e.label});
    }
  }
  for (const auto& [iteration, begin] : begins) marks.push_back({cell(1e3 * (begin - first))});
  if (texts.empty()) texts.push_back({"0", "-9", " "});  // off the picture: gnuplot 5.4 crashes on none
  if (marks.empty()) marks.push_back({"NaN"});
  Gnuplot plot("timeline");
  plot.set("heading", fmt::format("Timeline: {}, {} device{}", report_title(report), report.devices,
                                  report.devices == 1 ? "" : "s"));
  plot.set("rows", row - 1);
  plot.set("dense", boxes.size() > 100 * rows.size() ? 1 : 0);
  plot.set("last", 1e3 * (last - first));
  int legends = 0;
  for (std::size_t i = 0; i < std::size(kWork); ++i) {
    if (!used[i]) continue;
    ++legends;
    plot.set(fmt::format("legend_{}", legends), kWork[i].name);
    plot.set(fmt::format("legend_colour_{}", legends), kWork[i].colour);
  }
  plot.set("legends", legends);
  plot.data("boxes", boxes);
  plot.data("names", texts);
  plot.data("rows_data", names);
  plot.data("marks", marks);
  return plot.draw(base);
}

}  // namespace tandem
