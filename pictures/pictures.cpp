// SPDX-License-Identifier: Apache-2.0
#include "pictures/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "answers/labels.h"
#include "pictures/gnuplot.h"

namespace tandem::pictures {

namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kMostBands = 2;  // intervals of more series would cover each other
constexpr double kMostShares = 18;     // bars of the staleness that have room for their share above them
constexpr double kTail = 0.001;        // of the gradients, the stalest, have no bars
constexpr double kPlotWidth = 1030;    // pixels between the axes' ends, about

constexpr std::string_view kTitleKeys[] = {"model",     "system", "scheme",
                                           "precision", "input",  "batch_per_device"};

/// Where both engines appear, the engine tells them apart and the system's two names for one machine do not.
bool both_engines(const std::vector<Series>& series) {
  return std::any_of(series.begin(), series.end(), [&](const Series& s) {
    return s.reports[0].evaluation.engine != series[0].reports[0].evaluation.engine;
  });
}

std::string title_value(const Report& r, std::string_view key) {
  if (key == "batch_per_device") return report_batch(r);
  if (key == "system") return report_system(r);
  if (key == "input" && !report_input(r, key).empty()) return report_input(r, key) + " input";
  return report_input(r, key);
}

/// What all reports share of the title keys goes into the heading, what differs into the legend.
std::string shared_title(const std::vector<Series>& series, bool shared) {
  std::string out;
  for (const std::string_view key : kTitleKeys) {
    std::set<std::string> values;
    for (const Series& s : series) values.insert(title_value(s.reports[0], key));
    const std::string value = title_value(series[0].reports[0], key);
    if (key == "system" && shared && both_engines(series)) continue;
    if (key == "input" && shared) continue;  // worth a word only where it differs
    if (shared == (values.size() == 1) && !value.empty()) out += (out.empty() ? "" : ", ") + value;
  }
  return out;
}

std::string heading(const std::vector<Series>& series, std::string_view what) {
  const std::string shared = shared_title(series, true);
  return shared.empty() ? std::string(what) : fmt::format("{}: {}", what, shared);
}

void set_titles(Gnuplot& plot, const std::vector<Series>& series) {
  plot.set("n", static_cast<double>(series.size()));
  for (std::size_t i = 0; i < series.size(); ++i) plot.set(fmt::format("title_{}", i + 1), series[i].title);
}

}  // namespace

std::vector<Series> series_of(const std::vector<Report>& reports) {
  std::vector<Series> out;
  for (const Report& r : reports) {
    if (!r.fits) continue;
    const auto same = [&](const Series& s) {
      return s.reports[0].evaluation.engine == r.evaluation.engine &&
             label_parts(s.reports[0]) == label_parts(r) &&
             std::none_of(s.reports.begin(), s.reports.end(),
                          [&](const Report& x) { return x.setup.devices == r.setup.devices; });
    };
    auto at = std::find_if(out.begin(), out.end(), same);
    if (at == out.end()) at = out.insert(out.end(), Series{});
    at->reports.push_back(r);
  }
  for (Series& s : out) {
    std::sort(s.reports.begin(), s.reports.end(),
              [](const auto& a, const auto& b) { return a.setup.devices < b.setup.devices; });
  }
  std::vector<Report> first;
  for (const Series& s : out) first.push_back(s.reports[0]);
  const std::vector<std::string> labels = distinguishing_labels(first);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i].title = labels[i].empty() ? fmt::format("{} on {}", engine_word(first[i]), report_system(first[i]))
                                     : labels[i];
  return out;
}

static double ideal_rate(const Report& r) {
  return r.scaling.efficiency > 0 ? r.rate.samples_per_second / r.scaling.efficiency : 0;
}

Pictures draw_scaling(const std::vector<Series>& series, const std::string& base) {
  Rows points, ticks;
  std::set<int64_t> devices, bases;
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (i > 0) points.insert(points.end(), 2, {});
    for (const Report& r : series[i].reports) {
      points.push_back({std::to_string(r.setup.devices), cell(r.rate.samples_per_second),
                        cell(r.rate.interval.low), cell(r.rate.interval.high), cell(ideal_rate(r))});
      devices.insert(r.setup.devices);
      bases.insert(r.scaling.base_devices);
    }
  }
  if (devices.size() < 2) return {};
  for (const int64_t d : devices) ticks.push_back({std::to_string(d)});
  double low = INFINITY, high = 0;
  for (const Series& each : series) {
    for (const Report& r : each.reports) {
      low = std::min(low, r.rate.samples_per_second);
      for (const double rate : {r.rate.samples_per_second, r.rate.interval.high, ideal_rate(r)})
        high = std::max(high, rate);
    }
  }
  const bool logarithmic = *devices.rbegin() > 16 && low > 0;
  Gnuplot plot("scaling");
  set_titles(plot, series);
  plot.heading(heading(series, "Throughput"));
  // What every ideal line is a multiple of.
  plot.set("ideal",
           bases == std::set<int64_t>{1} ? "ideal: one device times n"
           : bases.size() == 1
               ? fmt::format("ideal: in proportion to {} devices, the fewest that hold it", *bases.begin())
               : "ideal: in proportion to the fewest devices that hold it");
  plot.set("bands", series.size() <= kMostBands ? 1 : 0);
  plot.set("least_devices", static_cast<double>(*devices.begin()));
  plot.set("most_devices", static_cast<double>(*devices.rbegin()));
  plot.set("log_axes", logarithmic ? 1 : 0);
  plot.set("low", low);
  plot.set("high", high > 0 ? high : 1);
  plot.data("points", points);
  plot.data("ticks", ticks);
  return {{base, std::move(plot)}};
}

namespace {

struct Share {
  std::string_view name, colour;
  double (*share)(const Report&);
};
constexpr Share kShares[] = {
    {"compute", "#4C78A8", [](const Report& r) { return r.time.share.compute - r.time.slowed; }},
    {"slowed by collectives", "#9ECAE9", [](const Report& r) { return r.time.slowed; }},
    {"launches", "#EECA3B", [](const Report& r) { return r.time.share.launch; }},
    {"exposed communication", "#F58518", [](const Report& r) { return r.time.share.exposed_communication; }},
    {"waiting for workers", "#8C857E", [](const Report& r) { return r.time.share.waiting; }},
    {"pipeline bubble", "#B279A2", [](const Report& r) { return r.time.share.bubble; }},
    {"waiting for input", "#54A24B", [](const Report& r) { return r.time.share.input; }},
    {"server", "#B23A48", [](const Report& r) { return r.time.share.server; }},
    {"idle", "#D6D1CC", [](const Report& r) { return r.time.share.idle; }}};

constexpr double kGroupGap = 0.7;  ///< between the bars of two series, in widths of a column

/// Those parts that can be seen in some bar.
std::vector<Share> shown_shares(const std::vector<Series>& series) {
  std::vector<Share> out;
  for (const Share& part : kShares) {
    const bool seen = std::any_of(series.begin(), series.end(), [&](const Series& s) {
      return std::any_of(s.reports.begin(), s.reports.end(),
                         [&](const Report& r) { return part.share(r) >= 0.002; });
    });
    if (seen) out.push_back(part);
  }
  return out;
}

}  // namespace

namespace {

constexpr double kGroupSize = 12,
                 kSmallGroup = 10;  ///< letters of a group's title, and where lines are broken

/// A title in lines: broken at ", ", and parts wider than `pixels` also after words, colons and commas.
std::vector<std::string> broken(const std::string& title, double pixels) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= title.size();) {
    const std::size_t end = std::min(title.find(", ", at), title.size());
    const std::string text = title.substr(at, end - at);
    at = end + 2;
    out.emplace_back();
    const bool fits = text_width(text, kSmallGroup) <= pixels;
    for (std::size_t from = 0; from < text.size();) {
      const std::size_t stop = fits ? std::string::npos : text.find_first_of(" :,", from);
      const std::string word = text.substr(from, stop == std::string::npos ? stop : stop - from + 1);
      from += word.size();
      if (!out.back().empty() && text_width(out.back() + word, kSmallGroup) > pixels) out.emplace_back();
      out.back() += word;
    }
  }
  return out;
}

/// What stands below the bars of each series: its title, each line as small as the width of the bars makes
/// it. Counts lines of text and the most below one series.
struct Groups {
  int texts = 0, lines = 0;
  void add(Gnuplot& plot, const std::string& title, double middle, double pixels) {
    int line = 0;
    for (const std::string& text : broken(title, pixels)) {
      ++texts;
      plot.set(fmt::format("group_text_{}", texts), text);
      plot.set(fmt::format("group_x_{}", texts), middle);
      plot.set(fmt::format("group_line_{}", texts), line++);
      plot.set(fmt::format("group_size_{}", texts), fitting_size(text, kGroupSize, pixels));
    }
    lines = std::max(lines, line);
  }
};

}  // namespace

Pictures draw_breakdown(const std::vector<Series>& series, const std::string& base) {
  const std::vector<Share> parts = shown_shares(series);
  std::size_t count = 0;
  double unit = 1e3;  // of a second
  for (const Series& s : series) {
    count += s.reports.size();
    for (const Report& r : s.reports) {
      if (r.iteration.median > kMostMilliseconds / 1e3) unit = 1;
    }
  }
  const double columns = static_cast<double>(count) + kGroupGap * static_cast<double>(series.size() - 1),
               pitch = kPlotWidth / (columns + 0.6);
  Gnuplot plot("breakdown");
  Rows bars;
  Groups groups;
  double x = 0, letters = 11, high = 0;
  for (const Series& s : series) {
    const double first = x;
    for (const Report& r : s.reports) {
      const double time = unit * r.iteration.median;
      bars.push_back({cell(x), std::to_string(r.setup.devices)});
      for (const Share& part : parts) bars.back().push_back(cell(time * part.share(r)));
      bars.back().push_back(grouped(time));
      bars.back().push_back(cell(time));
      letters = std::min(letters, fitting_size(grouped(time) + " ", 11, pitch));
      high = std::max(high, time);
      x += 1;
    }
    if (series.size() > 1)
      groups.add(plot, s.title, (first + x - 1) / 2, pitch * (x - first + 0.8 * kGroupGap));
    x += kGroupGap;
  }
  plot.set("parts", static_cast<double>(parts.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    plot.set(fmt::format("part_{}", i + 1), parts[i].name);
    plot.set(fmt::format("part_colour_{}", i + 1), parts[i].colour);
  }
  plot.heading(heading(series, "Where an iteration goes"));
  plot.set("last", x - kGroupGap - 1);
  plot.set("high", high > 0 ? high : 1);
  plot.set("unit", unit == 1 ? "seconds" : "milliseconds");
  plot.set("letters", letters);
  plot.set("groups", groups.texts);
  plot.set("group_lines", groups.lines);
  plot.data("bars", bars);
  return {{base, std::move(plot)}};
}

Pictures draw_staleness(const std::vector<Series>& all, const std::string& base) {
  std::vector<Series> series;
  for (const Series& s : all) {
    if (s.reports.back().staleness.all.count() > 0) series.push_back(s);
  }
  if (series.empty()) return {};
  Rows bins;
  double most = 0, stalest = 0;
  for (Series& s : series) {
    const Report& r = s.reports.back();
    if (&s != &series.front()) bins.insert(bins.end(), 2, {});
    const auto all = static_cast<double>(r.staleness.all.count());
    double left = all;
    for (const Histogram::Bin& b : r.staleness.all.bins()) {
      bins.push_back({std::to_string(b.value), cell(100.0 * static_cast<double>(b.count) / all)});
      const auto value = static_cast<double>(b.value);
      if (left > kTail * all) most = std::max(most, value);
      left -= static_cast<double>(b.count);
      stalest = std::max(stalest, value);
    }
    s.title = fmt::format("{}: {} devices, mean {:.2f}", s.title, r.setup.devices, r.staleness.all.mean());
  }
  Gnuplot plot("staleness");
  set_titles(plot, series);
  plot.heading(
      heading(series, "Staleness"),
      stalest > most ? fmt::format("fewer than {:g} % are staler, up to {:.0f}", 100 * kTail, stalest) : "");
  plot.set("most", most);
  plot.set("shares", (most + 1) * static_cast<double>(series.size()) <= kMostShares ? 1 : 0);
  plot.data("bins", bins);
  return {{base, std::move(plot)}};
}

const std::vector<PictureKind>& picture_kinds() {
  static const std::vector<PictureKind> all = {{"scaling", draw_scaling},
                                               {"breakdown", draw_breakdown},
                                               {"staleness", draw_staleness},
                                               {"timeline", draw_timeline}};
  return all;
}

}  // namespace tandem::pictures
