// SPDX-License-Identifier: Apache-2.0
// The Gantt picture: rows are lanes of instances, boxes are ops, colours are kinds of work.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "app/analysis/compare_ops.h"
#include "app/console/report_text.h"
#include "app/console/table.h"
#include "app/pictures/gnuplot.h"
#include "app/pictures/pictures.h"

namespace tandem::app {

namespace {

constexpr std::string_view kWorker = "worker";
constexpr uint32_t kMostInstances = 4, kIterations = 2;  ///< half the instances where two share the picture
constexpr double kLetter = 0.0068;  ///< of the picture's width, at the size the labels are drawn in

struct Work {
  std::string_view name, colour;
};
constexpr Work kWork[] = {{"forward", "#4C78A8"},       {"backward", "#2A4D73"},      {"update", "#8C6BB1"},
                          {"communication", "#E0721B"}, {"input, copies", "#3F8F3F"}, {"server", "#B23A48"},
                          {"waiting", "#8C857E"}};

std::size_t work_of(const TimelineEntry& e) {
  if (e.waits()) return 6;
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
/// Times are from its beginning.
std::vector<TimelineEntry> shown(const Report& report, uint32_t instances) {
  // Workers that wait for nobody may be at different iterations: count everyone's from its own first.
  std::map<uint32_t, uint32_t> first;
  for (const TimelineEntry& e : report.timeline) {
    if (e.role != kWorker) continue;
    const auto at = first.try_emplace(e.instance, e.iteration).first;
    at->second = std::min(at->second, e.iteration);
  }
  double from = INFINITY, to = 0;
  for (const TimelineEntry& e : report.timeline) {
    if (e.role != kWorker || e.instance >= instances || e.iteration - first[e.instance] >= kIterations)
      continue;
    if (e.lane == "compute") from = std::min(from, e.start_seconds);
    if (e.lane == "compute" || e.lane == "comm") to = std::max(to, e.end_seconds);
  }
  std::vector<TimelineEntry> out;
  for (TimelineEntry e : report.timeline) {
    e.start_seconds = std::max(e.start_seconds, from);
    e.end_seconds = std::min(e.end_seconds, to);
    if (e.instance < instances && e.end_seconds > e.start_seconds) {
      e.start_seconds -= from;
      e.end_seconds -= from;
      out.push_back(std::move(e));
    }
  }
  return out;
}

using Cells = std::vector<std::vector<std::string>>;

/// Rows from the top: panel by panel, workers before servers, instance by instance, lanes in their order.
using RowKey = std::tuple<std::size_t, std::string, uint32_t, int, std::string>;
RowKey row_key(const TimelineEntry& e, std::size_t panel) {
  return {panel, e.role == kWorker ? "" : e.role, e.instance, lane_order(e.lane), e.lane};
}

struct Chart {
  std::map<RowKey, int> rows;
  Cells boxes, names, row_names, marks;
  std::set<std::size_t> works;
  int last_row = 0;
  double last = 0;  ///< seconds
};

/// One report's part of the picture.
struct Panel {
  std::string name;  ///< empty when it is the only one
  std::vector<TimelineEntry> entries;
};

void add_rows(Chart& chart, const std::vector<Panel>& panels) {
  for (std::size_t p = 0; p < panels.size(); ++p) {
    for (const TimelineEntry& e : panels[p].entries) {
      chart.rows[row_key(e, p)] = 0;
      chart.last = std::max(chart.last, e.end_seconds);
    }
  }
  int row = 0;
  std::size_t above = 0;
  for (auto& [key, index] : chart.rows) {
    const auto& [panel, role, instance, order, lane] = key;
    row += panel != above ? 1 : 0;  // an empty row between panels
    above = panel;
    index = row++;
    chart.row_names.push_back(
        {std::to_string(index),
         fmt::format("{}{}{} {} {}", panels[panel].name, panels[panel].name.empty() ? "" : " · ",
                     role.empty() ? kWorker : role, instance, lane)});
  }
  chart.last_row = row - 1;
}

/// A line over the panel's rows where an iteration of worker 0 begins.
void add_marks(Chart& chart, const Panel& panel, std::size_t index) {
  std::map<uint32_t, double> begins;
  double top = INFINITY, bottom = 0;
  for (const TimelineEntry& e : panel.entries) {
    const double row = chart.rows[row_key(e, index)];
    top = std::min(top, row);
    bottom = std::max(bottom, row);
    if (e.instance != 0 || e.role != kWorker || e.lane != "compute") continue;
    const auto at = begins.try_emplace(e.iteration, e.start_seconds).first;
    at->second = std::min(at->second, e.start_seconds);
  }
  for (const auto& [iteration, begin] : begins)
    chart.marks.push_back({cell(1e3 * begin), cell(top - 0.7), cell(bottom - top + 1.3)});
  if (begins.empty()) chart.marks.push_back({"0", cell(top - 0.7), "0"});
}

void add_boxes(Chart& chart, const Panel& panel, std::size_t index) {
  for (const TimelineEntry& e : panel.entries) {
    const std::string row = std::to_string(chart.rows[row_key(e, index)]);
    const std::size_t work = work_of(e);
    chart.works.insert(work);
    const double start = 1e3 * e.start_seconds, end = 1e3 * e.end_seconds;
    chart.boxes.push_back({cell(start), cell(end), row, "0x" + std::string(kWork[work].colour.substr(1))});
    if (end - start > kLetter * static_cast<double>(e.label.size() + 1) * 1e3 * chart.last) {
      chart.names.push_back({cell((start + end) / 2), row, e.label});
    }
  }
}

}  // namespace

std::vector<std::string> draw_timeline(const std::vector<Series>& series, const std::string& base) {
  const Report& report = series[0].reports.back();
  const auto other = std::find_if(series.begin(), series.end(), [&](const Series& s) {
    return s.reports.back().engine != report.engine && !s.reports.back().timeline.empty();
  });
  std::vector<Panel> panels;
  if (other == series.end()) {
    panels.push_back({"", shown(report, kMostInstances)});
  } else {
    for (const Report* r : {&report, &other->reports.back()})
      panels.push_back({engine_word(*r), shown(*r, kMostInstances / 2)});
  }
  std::erase_if(panels, [](const Panel& p) { return p.entries.empty(); });
  if (panels.empty()) return {};
  Chart chart;
  add_rows(chart, panels);
  for (std::size_t p = 0; p < panels.size(); ++p) {
    add_marks(chart, panels[p], p);
    add_boxes(chart, panels[p], p);
  }
  if (chart.names.empty())
    chart.names.push_back({"0", "-9", " "});  // off the picture: gnuplot 5.4 crashes on none
  Gnuplot plot("timeline");
  plot.set("heading", fmt::format("Timeline: {}, {} device{}", report_title(report), report.devices,
                                  report.devices == 1 ? "" : "s"));
  plot.set("rows", chart.last_row);
  plot.set("dense", chart.boxes.size() > 100 * chart.rows.size() ? 1 : 0);
  plot.set("last", 1e3 * chart.last);
  plot.set("left", panels.size() > 1 ? 34 : 24);
  plot.set("legends", static_cast<double>(chart.works.size()));
  int legend = 0;
  for (const std::size_t work : chart.works) {
    ++legend;
    plot.set(fmt::format("legend_{}", legend), kWork[work].name);
    plot.set(fmt::format("legend_colour_{}", legend), kWork[work].colour);
  }
  plot.data("boxes", chart.boxes);
  plot.data("names", chart.names);
  plot.data("rows_data", chart.row_names);
  plot.data("marks", chart.marks);
  return plot.draw(base);
}

}  // namespace tandem::app
