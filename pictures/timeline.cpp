// SPDX-License-Identifier: Apache-2.0
// The Gantt picture: rows are lanes of instances, boxes are ops, colours are kinds of work.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "answers/labels.h"
#include "pictures/gnuplot.h"
#include "pictures/pictures.h"

namespace tandem::pictures {

namespace {

constexpr std::string_view kWorker = "worker", kStage = "stage ", kWaitingFor = "waiting for worker ";
constexpr uint32_t kMostInstances = 4, kIterations = 2;  ///< half the instances where two share the picture
constexpr double kLabel = 9, kRowName = 12;              ///< sizes of letters
constexpr double kRight = 0.965;                         ///< end of the time axis, of the picture's width
constexpr double kThin = 2, kTouching = 1;  ///< pixels: narrower than that is merged with what it touches
constexpr double kBordered = 6;             ///< pixels: narrower boxes would be mostly border
constexpr uint32_t kWholeStages = 4;        ///< of more stages only what they compute is drawn

struct Work {
  std::string_view name, colour;
};
/// In the order of the legend.
constexpr Work kWork[] = {
    {"forward", "#4C78A8"},       {"backward", "#2A4D73"},      {"backward-weights", "#7A9DBF"},
    {"recomputation", "#4FA39A"}, {"update", "#8C6BB1"},        {"averaging, outer step", "#B5488F"},
    {"compression", "#9D7A2F"},   {"other work", "#5F6B7A"},    {"server", "#B23A48"},
    {"communication", "#E0721B"}, {"input, copies", "#3F8F3F"}, {"waiting", "#8C857E"}};

std::size_t work_named(std::string_view name) {
  return static_cast<std::size_t>(
      std::find_if(std::begin(kWork), std::end(kWork), [&](const Work& w) { return w.name == name; }) -
      std::begin(kWork));
}

/// Beginnings of the labels of what lanes compute; of several that match the first counts.
constexpr std::pair<std::string_view, std::string_view> kComputed[] = {
    {"forward", "forward"},
    {"loss", "forward"},
    {"backward-weights", "backward-weights"},
    {"backward", "backward"},
    {"again", "recomputation"},
    {"update", "update"},
    {"average", "averaging, outer step"},
    {"compress", "compression"},
    {"decompress", "compression"},
    {"orthogonalise", "compression"},
    {"copy", "input, copies"}};

/// Which stage of a split model a role is; -1: none.
int64_t stage_of(const std::string& role) {
  int64_t number = 0;
  if (role.rfind(kStage, 0) != 0 || role.size() > kStage.size() + 9) return -1;
  for (const char c : role.substr(kStage.size())) {
    if (c < '0' || c > '9') return -1;
    number = 10 * number + (c - '0');
  }
  return number;
}

bool trains(const TimelineEntry& e) { return e.role == kWorker || stage_of(e.role) >= 0; }

/// On the host's lane are updates of what is offloaded, which are drawn, and waiting for answers, which is no
/// work.
bool only_waits(const TimelineEntry& e) { return e.lane == "host" && !e.label.starts_with("update"); }

std::size_t work_of(const TimelineEntry& e) {
  constexpr std::string_view kMoves[] = {"comm", "reduce", "send", "recv"},
                             kCopies[] = {"copy", "read", "decode", "offload", "reload"};
  const auto on = [&](const auto& lanes) {
    return std::find(std::begin(lanes), std::end(lanes), e.lane) != std::end(lanes);
  };
  if (e.waits()) return work_named("waiting");
  if (on(kMoves)) return work_named("communication");
  if (on(kCopies)) return work_named("input, copies");
  if (!trains(e)) return work_named("server");
  for (const auto& [start, work] : kComputed) {
    if (e.label.starts_with(start)) return work_named(work);
  }
  return work_named("other work");
}

int lane_order(const std::string& lane) {
  constexpr std::string_view order[] = {"compute", "comm",    "reduce", "send",
                                        "copy",    "offload", "reload", "host"};
  return static_cast<int>(std::find(std::begin(order), std::end(order), lane) - std::begin(order));
}

/// The first instances, the one among them that the others wait for most: of 8 workers of which 4 are slow a
/// slow one is drawn too.
std::set<uint32_t> drawn_instances(const Report& report, uint32_t most) {
  std::set<uint32_t> all;
  std::map<uint32_t, double> awaited;  // seconds
  for (const TimelineEntry& e : report.timeline) {
    if (trains(e)) all.insert(e.instance);
    uint32_t who = 0;
    const std::string& text = e.label;
    if (e.waits() && text.starts_with(kWaitingFor) &&
        std::from_chars(text.data() + kWaitingFor.size(), text.data() + text.size(), who).ec == std::errc())
      awaited[who] += e.end_seconds - e.start_seconds;
  }
  std::erase_if(awaited, [&](const auto& who) { return !all.contains(who.first); });
  if (all.size() <= most) return all;
  std::set<uint32_t> out;
  const auto longest = std::max_element(awaited.begin(), awaited.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  if (longest != awaited.end() && most > 1) out.insert(longest->first);
  for (const uint32_t i : all) {
    if (out.size() < most) out.insert(i);
  }
  return out;
}

/// The window is what the shown workers compute in the first of the kept iterations; what runs ahead of it
/// (input for later ones) or on after it (servers) is cut at its borders.
/// Times are from its beginning.
std::vector<TimelineEntry> shown(const Report& report, uint32_t instances) {
  std::set<int64_t> stages;
  for (const TimelineEntry& e : report.timeline) stages.insert(stage_of(e.role));
  stages.erase(-1);
  if (!stages.empty()) instances = 1;
  const std::set<uint32_t> drawn = drawn_instances(report, instances);
  // Asynchronous workers may be at different iterations: count everyone's from its own first.
  std::map<uint32_t, uint32_t> first;
  for (const TimelineEntry& e : report.timeline) {
    if (!trains(e)) continue;
    const auto at = first.try_emplace(e.instance, e.iteration).first;
    at->second = std::min(at->second, e.iteration);
  }
  double from = INFINITY, to = 0;
  for (const TimelineEntry& e : report.timeline) {
    if (!trains(e) || !drawn.contains(e.instance) || e.iteration - first[e.instance] >= kIterations) continue;
    if (e.lane == "compute") from = std::min(from, e.start_seconds);
    if (e.lane == "compute" || e.lane == "comm") to = std::max(to, e.end_seconds);
  }
  std::vector<TimelineEntry> out;
  for (TimelineEntry e : report.timeline) {
    if (only_waits(e)) continue;
    if (!stages.empty() && (e.lane == "recv" || (stages.size() > kWholeStages && e.lane != "compute")))
      continue;
    e.start_seconds = std::max(e.start_seconds, from);
    e.end_seconds = std::min(e.end_seconds, to);
    if ((trains(e) ? drawn.contains(e.instance) : e.instance < instances) &&
        e.end_seconds > e.start_seconds) {
      e.start_seconds -= from;
      e.end_seconds -= from;
      out.push_back(std::move(e));
    }
  }
  return out;
}

using Cells = std::vector<std::vector<std::string>>;

/// Rows from the top: panel by panel, workers before servers, instance by instance, lanes in their order.
using RowKey = std::tuple<std::size_t, int64_t, std::string, uint32_t, int, std::string>;
RowKey row_key(const TimelineEntry& e, std::size_t panel) {
  return {panel, stage_of(e.role), e.role == kWorker ? "" : e.role, e.instance, lane_order(e.lane), e.lane};
}

/// What is drawn of one row: an op, or several of one kind of work that are too thin to be told apart.
struct Box {
  double start = 0, end = 0;  ///< seconds
  std::size_t work = 0;
  std::string label;
  bool several = false;
  double length() const { return end - start; }
};

struct ChartRow {
  int index = 0;
  std::vector<Box> boxes;  ///< by their start
};

struct Chart {
  std::map<RowKey, ChartRow> rows;
  Cells boxes, thin, names, marks;
  std::vector<std::string> row_names;  ///< by index; "" between panels
  std::set<std::size_t> works;
  double last = 0, left = 0;  ///< seconds; the axis' beginning, of the picture's width
  bool in_seconds() const { return last > kMostMilliseconds / 1e3; }
  /// In the unit of the axis.
  double shown(double seconds) const { return in_seconds() ? seconds : 1e3 * seconds; }
  double pixels(double seconds) const { return seconds / last * (kRight - left) * kPictureWidth; }
};

/// One report's part of the picture.
struct Panel {
  std::string name;  ///< empty when it is the only one
  std::vector<TimelineEntry> entries;
};

void add_rows(Chart& chart, const std::vector<Panel>& panels) {
  for (std::size_t p = 0; p < panels.size(); ++p) {
    for (const TimelineEntry& e : panels[p].entries) {
      chart.rows[row_key(e, p)].boxes.push_back({e.start_seconds, e.end_seconds, work_of(e), e.label});
      chart.last = std::max(chart.last, e.end_seconds);
    }
  }
  std::size_t above = 0;
  double widest = 0;
  for (auto& [key, row] : chart.rows) {
    const auto& [panel, stage, role, instance, order, lane] = key;
    if (panel != above) chart.row_names.emplace_back();
    above = panel;
    row.index = static_cast<int>(chart.row_names.size());
    const std::string who = stage >= 0 ? role : fmt::format("{} {}", role.empty() ? kWorker : role, instance);
    chart.row_names.push_back(
        fmt::format("{}{}{} {}", panels[panel].name, panels[panel].name.empty() ? "" : " · ", who, lane));
    widest = std::max(widest, text_width(chart.row_names.back(), kRowName));
    std::stable_sort(row.boxes.begin(), row.boxes.end(),
                     [](const Box& a, const Box& b) { return a.start < b.start; });
  }
  chart.left = std::min(0.4, (widest + 20) / kPictureWidth);
}

/// Thin boxes of one kind of work that touch become one; one that is still thin then goes to the longer of
/// its touching neighbours.
std::vector<Box> merged(const std::vector<Box>& row, const Chart& chart) {
  const auto thin = [&](const Box& b) { return chart.pixels(b.length()) < kThin; };
  const auto touch = [&](const Box& a, const Box& b) { return chart.pixels(b.start - a.end) < kTouching; };
  std::vector<Box> runs, out;
  for (const Box& b : row) {
    Box* const last = runs.empty() ? nullptr : &runs.back();
    if (last != nullptr && thin(b) && last->work == b.work && touch(*last, b) &&
        (last->several || thin(*last))) {
      last->end = std::max(last->end, b.end);
      last->several = true;
      last->label = kWork[b.work].name;
    } else {
      runs.push_back(b);
    }
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Box* const before = !out.empty() && touch(out.back(), runs[i]) ? &out.back() : nullptr;
    Box* const after = i + 1 < runs.size() && touch(runs[i], runs[i + 1]) ? &runs[i + 1] : nullptr;
    if (!thin(runs[i]) || (before == nullptr && after == nullptr)) {
      out.push_back(runs[i]);
    } else if (after == nullptr || (before != nullptr && before->length() >= after->length())) {
      before->end = std::max(before->end, runs[i].end);
    } else {
      after->start = runs[i].start;
    }
  }
  return out;
}

/// A line over the panel's rows where an iteration of worker 0, or of the first stage, begins.
void add_marks(Chart& chart, const Panel& panel, std::size_t index) {
  std::map<uint32_t, double> begins;
  double top = INFINITY, bottom = 0;
  for (const TimelineEntry& e : panel.entries) {
    const double row = chart.rows[row_key(e, index)].index;
    top = std::min(top, row);
    bottom = std::max(bottom, row);
    if (e.instance != 0 || (e.role != kWorker && stage_of(e.role) != 0) || e.lane != "compute") continue;
    const auto at = begins.try_emplace(e.iteration, e.start_seconds).first;
    at->second = std::min(at->second, e.start_seconds);
  }
  for (const auto& [iteration, begin] : begins)
    chart.marks.push_back({cell(chart.shown(begin)), cell(top - 0.7), cell(bottom - top + 1.3)});
  if (begins.empty()) chart.marks.push_back({"0", cell(top - 0.7), "0"});
}

/// "12" of "forward of micro-batch 12, part 1", which is what pictures of pipelines say; else "".
std::string micro_batch_of(const std::string& label) {
  constexpr std::string_view kBefore = " of micro-batch ";
  const auto at = label.find(kBefore);
  if (at == std::string::npos) return "";
  const std::string rest = label.substr(at + kBefore.size());
  return rest.substr(0, std::min(rest.find(','), rest.size()));
}

void add_boxes(Chart& chart, const ChartRow& row) {
  const std::string index = std::to_string(row.index);
  const std::vector<Box> boxes = merged(row.boxes, chart);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const Box& b = boxes[i];
    chart.works.insert(b.work);
    const double pixels = chart.pixels(b.length());
    // At least a pixel, and into the next one: at a border that two share the background would shine through.
    double end = b.end + std::max(0.0, 1 - pixels) / pixels * b.length();
    if (i + 1 < boxes.size() && chart.pixels(boxes[i + 1].start - b.end) < kTouching)
      end = std::max(end, boxes[i + 1].start + b.length() * 0.5 / pixels);
    Cells& cells = pixels < kBordered ? chart.thin : chart.boxes;
    cells.push_back({cell(chart.shown(b.start)), cell(chart.shown(end)), index,
                     "0x" + std::string(kWork[b.work].colour.substr(1))});
    const std::string number = micro_batch_of(b.label);
    for (const std::string& text : {b.label, number}) {
      if (text.empty() || pixels <= text_width(text, kLabel) + (text == number ? 1 : 4)) continue;
      chart.names.push_back({cell(chart.shown((b.start + b.end) / 2)), index, text});
      break;
    }
  }
}

/// "the first device of each of 4 stages; numbers are micro-batches", or which of more stages have a row.
std::string stages_shown(const std::set<int64_t>& stages, const Chart& chart, const Report& report) {
  const auto all =
      static_cast<std::size_t>(std::count_if(report.memory_by_role.begin(), report.memory_by_role.end(),
                                             [](const RoleMemory& m) { return stage_of(m.role) >= 0; }));
  std::string which = fmt::format("each of {} stages", stages.size());
  if (stages.size() < all && stages.size() > 1)
    which = fmt::format("stages {}, {} .. {} of {}", *stages.begin(), *std::next(stages.begin()),
                        *stages.rbegin(), all);
  const bool comm = std::any_of(chart.rows.begin(), chart.rows.end(),
                                [](const auto& row) { return std::get<5>(row.first) == "comm"; });
  return fmt::format("the first device of {}{}{}{}", which,
                     stages.size() > kWholeStages ? ", what it computes" : "",
                     chart.names.empty() ? "" : "; numbers are micro-batches",
                     comm ? "; comm: from a pass's first exchange to its last" : "");
}

/// "workers 0 to 3 of 8", of the instances that have a row.
std::string workers_shown(const Chart& chart, const Report& report) {
  const int64_t all = report.setup.devices;
  std::set<int64_t> stages;
  for (const auto& [key, row] : chart.rows) stages.insert(std::get<1>(key));
  stages.erase(-1);
  if (!stages.empty()) return stages_shown(stages, chart, report);
  std::set<uint32_t> shown;
  bool servers = false;
  for (const auto& [key, row] : chart.rows) {
    if (std::get<2>(key).empty()) {
      shown.insert(std::get<3>(key));
    } else {
      servers = true;
    }
  }
  const std::string of = fmt::format(" of {}", all);
  const std::string who = static_cast<int64_t>(shown.size()) == all ? all == 1 ? "the worker" : "all workers"
                          : shown.size() == 1 ? fmt::format("worker {}", *shown.begin()) + of
                          : *shown.rbegin() - *shown.begin() + 1 == shown.size()
                              ? fmt::format("workers {} to {}", *shown.begin(), *shown.rbegin()) + of
                              : fmt::format("workers {}", fmt::join(shown, ", ")) + of;
  return who + (servers ? "; of the servers what these asked for" : "");
}

}  // namespace

Pictures draw_timeline(const std::vector<Series>& series, const std::string& base) {
  const Report& report = series[0].reports.back();
  const auto other = std::find_if(series.begin(), series.end(), [&](const Series& s) {
    return s.reports.back().evaluation.engine != report.evaluation.engine &&
           !s.reports.back().timeline.empty();
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
  for (std::size_t p = 0; p < panels.size(); ++p) add_marks(chart, panels[p], p);
  for (const auto& [key, row] : chart.rows) add_boxes(chart, row);
  const std::string who = workers_shown(chart, report);
  // Off the picture: gnuplot 5.4 crashes on none.
  if (chart.names.empty()) chart.names.push_back({"0", "-9", " "});
  for (Cells* boxes : {&chart.boxes, &chart.thin}) {
    if (boxes->empty()) boxes->push_back({"0", "0", "-9", "0"});
  }
  Gnuplot plot("timeline");
  plot.heading(fmt::format("Timeline: {}, {} device{}", report_title(report), report.setup.devices,
                           report.setup.devices == 1 ? "" : "s"),
               who);
  plot.set("rows", static_cast<double>(chart.row_names.size()));
  for (std::size_t i = 0; i < chart.row_names.size(); ++i)
    plot.set(fmt::format("row_{}", i + 1), chart.row_names[i]);
  plot.set("row_name_size", kRowName);
  plot.set("label_size", kLabel);
  plot.set("last", chart.shown(chart.last));
  plot.set("unit", chart.in_seconds() ? "seconds" : "milliseconds");
  plot.set("left", chart.left);
  plot.set("right", kRight);
  plot.set("legends", static_cast<double>(chart.works.size()));
  int legend = 0;
  for (const std::size_t work : chart.works) {
    ++legend;
    plot.set(fmt::format("legend_{}", legend), kWork[work].name);
    plot.set(fmt::format("legend_colour_{}", legend), kWork[work].colour);
  }
  plot.data("boxes", chart.boxes);
  plot.data("thin", chart.thin);
  plot.data("names", chart.names);
  plot.data("marks", chart.marks);
  return {{base, std::move(plot)}};
}

}  // namespace tandem::pictures
