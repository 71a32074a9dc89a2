// SPDX-License-Identifier: Apache-2.0
#include "pictures/plan_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "pictures/gnuplot.h"
#include "plan/estimate.h"
#include "plan/plan_words.h"

namespace tandem::pictures {

namespace {

using plan::Estimate;

constexpr std::size_t kMostListed = 24;  // next to the picture
constexpr double kFrontLeft = 0.1, kFrontRight = 0.6, kFrontBottom = 0.175, kFrontTop = 0.875;
constexpr double kFar = 3;  // bars end at the border that reach further than this times the outermost point
constexpr double kListPoints = 10.5, kNumberPoints = 11;
constexpr const char *kFirstColour = "0xD55E00", *kFrontColour = "0x0072B2", *kOtherColour = "0x7F7F7F";

/// A candidate on the picture, in the units of the axes.
struct Spot {
  Estimate x, y;
  std::string number, name, figures, colour;
  int mark = 7;
};

/// Of numbers in that unit, from `low` to `high`.
struct Axis {
  std::string title;
  double unit = 1, low = 0, high = 1;
  bool log = false;
  double pixel(double v, double from, double to) const {
    const double part =
        log ? std::log(v / low) / std::log(high / low) : (v - low) / std::max(1e-300, high - low);
    return from + part * (to - from);
  }
};

Estimate read_bounds(const Json& json) {
  const auto real = [&](const char* key) { return json.at(key).as_real(0, 1e300); };
  return {real("low"), real("value"), real("high")};
}

bool has(const Json& item, std::string_view key) { return item.at(key).kind() != Json::Kind::null; }

/// "8+1 x dgx-h100 · Nebius, reserved".
std::string name_of(const Json& candidate) {
  const int64_t spares = candidate.integer("spare_nodes", 0, 0);
  std::string offer = "no price";
  if (has(candidate, "offer")) {
    const Json& given = candidate.at("offer");
    const std::string& kind = given.at("kind").as_text();
    offer = fmt::format("{}, {}", given.at("seller").as_text(), kind == "buy" ? "to buy" : kind);
  }
  return fmt::format("{}{} x {} · {}", candidate.at("nodes").as_int(1),
                     spares > 0 ? fmt::format("+{}", spares) : "", candidate.at("system").as_text(), offer);
}

/// Marks of gnuplot, full ones.
int mark_of(const Json& candidate) {
  if (!has(candidate, "offer")) return 3;
  const std::string& kind = candidate.at("offer").at("kind").as_text();
  return kind == "buy" ? 5 : kind == "reserved" ? 13 : kind == "spot" ? 9 : 7;
}

using Units = std::vector<std::pair<double, const char*>>;  // largest first

/// Over the bounds of `of` and `limit`, where these are not far off; logarithmic where they differ much.
Axis axis_of(const std::string& what, const Units& units, const std::vector<Estimate>& of,
             std::optional<double>& limit) {
  Axis out;
  double low = INFINITY, high = 0, least = INFINITY, most = 0;
  for (const Estimate& e : of) {
    low = std::min(low, e.low), least = std::min(least, e.value);
    high = std::max(high, e.high), most = std::max(most, e.value);
  }
  low = std::max(low, least / kFar);
  high = std::min(high, most * kFar);
  if (limit && (*limit > 3 * high || *limit < low / 3)) limit.reset();
  if (limit) low = std::min(low, *limit), high = std::max(high, *limit);
  const auto unit =
      std::find_if(units.begin(), units.end(), [&](const auto& u) { return high >= 2 * u.first; });
  out.unit = unit == units.end() ? units.back().first : unit->first;
  out.title = fmt::format("{}, {}", what, unit == units.end() ? units.back().second : unit->second);
  out.log = low > 0 && high > 6 * low;
  out.low = out.log ? low / 1.3 / out.unit : 0;
  out.high = (high > 0 ? high : 1) * (out.log ? 1.3 : 1.07) / out.unit;
  return out;
}

/// A place for each number next to its point, free of points and other numbers, in pixels from the corner
/// below on the left; a line to the point where it is not next to it.
struct Numbers {
  struct Box {
    double left, right, bottom, top;
    bool laps(const Box& o) const {
      return left < o.right && o.left < right && bottom < o.top && o.bottom < top;
    }
  };
  static Box about(double x, double y, double width, double height) {
    return {x - width / 2, x + width / 2, y - height / 2, y + height / 2};
  }
  double width, height;  ///< of the plot
  std::vector<Box> taken = {}, bars = {};
  std::vector<std::vector<std::string>> labels = {}, lines = {};

  void put(const Spot& spot, double x, double y) {
    if (!put_free_of(spot, x, y, 3, true)) put_free_of(spot, x, y, 9, false);
  }
  /// At most that many steps away.
  bool put_free_of(const Spot& spot, double x, double y, int most, bool of_bars) {
    const auto lapped = [](const std::vector<Box>& boxes, const Box& box) {
      return std::any_of(boxes.begin(), boxes.end(), [&](const Box& b) { return b.laps(box); });
    };
    const double w = text_width(spot.number, kNumberPoints), h = kNumberPoints * 4 / 3;
    for (int far = 0; far < most; ++far) {
      for (const auto& [dx, dy] : {std::pair{1.0, 1.0},
                                   {-1.0, 1.0},
                                   {1.0, -1.0},
                                   {-1.0, -1.0},
                                   {0.0, 1.4},
                                   {0.0, -1.4},
                                   {1.4, 0.0},
                                   {-1.4, 0.0}}) {
        const double to_x = x + dx * (7 + w / 2 + 12 * far), to_y = y + dy * (5 + h / 2 + 10 * far);
        const Box box = about(to_x, to_y, w + 2, h);
        const bool free = box.left > 0 && box.right < width && box.bottom > 0 && box.top < height &&
                          !lapped(taken, box) && !(of_bars && lapped(bars, box));
        if (!free) continue;
        taken.push_back(box);
        labels.push_back({cell(to_x / width), cell(to_y / height), spot.number, spot.colour});
        if (far > 0)
          lines.push_back({cell(x / width), cell(y / height), cell((to_x - x - dx * w / 2) / width),
                           cell((to_y - y - dy * h / 2) / height)});
        return true;
      }
    }
    return false;
  }
};

void set_axis(Gnuplot& plot, const std::string& name, const Axis& axis, const std::optional<double>& limit) {
  plot.set(name + "_title", axis.title);
  plot.set(name + "_low", axis.low);
  plot.set(name + "_high", axis.high);
  plot.set(name + "_log", axis.log ? 1 : 0);
  plot.set(name + "_limit", limit ? *limit / axis.unit : -1);
}

/// Those that are listed and numbered: the front, and of the others the best.
std::vector<Spot> listed(const std::vector<Spot>& spots, const std::vector<std::size_t>& front) {
  std::vector<std::size_t> order = front;
  for (std::size_t i = 0; i < spots.size(); ++i) {
    if (std::find(front.begin(), front.end(), i) == front.end()) order.push_back(i);
  }
  order.resize(std::min(order.size(), kMostListed));
  std::sort(order.begin(), order.end());
  std::vector<Spot> out;
  for (const std::size_t i : order) out.push_back(spots.at(i));
  return out;
}

/// The list next to the picture, with the mark of each.
void set_list(Gnuplot& plot, const std::vector<Spot>& spots) {
  const std::size_t rows = spots.size();
  double points = kListPoints;
  for (std::size_t i = 0; i < rows; ++i) {
    const Spot& s = spots[i];
    const std::string key = fmt::format("_{}", i + 1);
    plot.set("row" + key, s.number + "  " + s.name);
    plot.set("row_colour" + key, "#" + s.colour.substr(2));
    plot.set("row_mark" + key, s.mark);
    plot.set("row_figures" + key, s.figures);
    points = std::min(points, fitting_size(s.number + "  " + s.name, kListPoints,
                                           (1 - kFrontRight - 0.05) * kPictureWidth));
  }
  plot.set("rows", static_cast<double>(rows));
  plot.set("row_points", points);
}

void set_points(Gnuplot& plot, const std::vector<Spot>& spots, const std::vector<std::size_t>& front,
                const Axis& x, const Axis& y) {
  std::vector<std::vector<std::string>> points, steps;
  Numbers numbers{(kFrontRight - kFrontLeft) * kPictureWidth, (kFrontTop - kFrontBottom) * kPictureHeight};
  const auto pixels = [&](const Spot& s) {
    return std::pair(x.pixel(s.x.value, 0, numbers.width), y.pixel(s.y.value, 0, numbers.height));
  };
  for (const Spot& s : spots) {
    points.push_back({cell(s.x.value), cell(s.y.value), cell(s.x.low), cell(s.x.high), cell(s.y.low),
                      cell(s.y.high), s.colour, std::to_string(s.mark)});
    const auto [px, py] = pixels(s);
    numbers.taken.push_back(Numbers::about(px, py, 12, 12));
    numbers.bars.push_back(
        {x.pixel(s.x.low, 0, numbers.width), x.pixel(s.x.high, 0, numbers.width), py - 1, py + 1});
    numbers.bars.push_back(
        {px - 1, px + 1, y.pixel(s.y.low, 0, numbers.height), y.pixel(s.y.high, 0, numbers.height)});
  }
  for (const Spot& s : listed(spots, front)) {
    const auto [px, py] = pixels(s);
    numbers.put(s, px, py);
  }
  std::stable_sort(points.begin(), points.end(),  // the front over the others
                   [](const auto& a, const auto& b) { return a[6] == kOtherColour && b[6] != kOtherColour; });
  std::vector<Spot> joined;
  for (const std::size_t i : front) joined.push_back(spots.at(i));
  std::stable_sort(joined.begin(), joined.end(),
                   [](const Spot& a, const Spot& b) { return a.x.value < b.x.value; });
  for (const Spot& s : joined) steps.push_back({cell(s.x.value), cell(s.y.value)});
  plot.data("points", points);
  plot.data("front", steps);
  plot.data("numbers", numbers.labels);
  if (numbers.lines.empty()) numbers.lines.push_back({"-1", "-1", "0", "0"});
  plot.data("lines", numbers.lines);
}

/// What the two fronts differ in.
struct Front {
  const char *key, *title, *list, *file, *heading;
  Units units;
  std::string (*text)(double);
};

std::optional<double> limit_of(const Json& document, std::string_view key) {
  const Json* limits = document.find("limits");
  if (limits == nullptr || limits->find(key) == nullptr || !has(*limits, key)) return std::nullopt;
  return limits->at(key).as_real(0, 1e300);
}

/// "resnet50, 90 epochs".
std::string work_of(const Json& document) {
  std::string out = document.at("candidates").items().at(0).at("question").text("model", "the model");
  for (const auto& [what, amount] : document.at("target").members())
    out += (what == "loss" ? " " : ", ") + target_text(what, amount.as_real(0, 1e300));
  return out;
}

Pictures draw_front(const Json& document, const Front& front, std::optional<double> power,
                    const std::string& base) {
  std::vector<Spot> spots;
  std::vector<std::size_t> index;  // of the candidates' spots
  const auto& candidates = document.at("candidates").items();
  std::vector<bool> best(candidates.size(), false);
  for (const Json& i : document.at(front.list).items())
    best.at(static_cast<std::size_t>(i.as_int(0, static_cast<int64_t>(candidates.size()) - 1))) = true;
  std::vector<Estimate> times, values;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Json& c = candidates[i];
    if (!has(c, front.key)) continue;
    times.push_back(read_bounds(c.at("finish_seconds")));
    values.push_back(read_bounds(c.at(front.key)));
    if (best[i]) index.push_back(spots.size());
    spots.push_back({times.back(), values.back(), std::to_string(i + 1), name_of(c),
                     time_text(times.back().value) + " · " + front.text(values.back().value),
                     i == 0    ? kFirstColour
                     : best[i] ? kFrontColour
                               : kOtherColour,
                     mark_of(c)});
  }
  if (spots.empty()) return {};
  std::optional<double> deadline = limit_of(document, "deadline_seconds");
  const Axis x =
      axis_of("time until it is done", {{86400, "days"}, {3600, "hours"}, {60, "minutes"}, {1, "seconds"}},
              times, deadline);
  const Axis y = axis_of(front.title, front.units, values, power);
  for (Spot& s : spots) s.x = s.x * (1 / x.unit), s.y = s.y * (1 / y.unit);
  Gnuplot plot("plan_front");
  const std::size_t more = spots.size() - std::min(spots.size(), kMostListed);
  plot.heading(
      fmt::format("{}: {}", work_of(document), front.heading),
      fmt::format(
          "numbers are ranks, bars 90 % intervals; orange is the first, blue those that none beats in both{}",
          more == 0 ? "" : fmt::format("; {} more have no number", more)));
  plot.set("left", kFrontLeft), plot.set("right", kFrontRight), plot.set("bottom", kFrontBottom),
      plot.set("top", kFrontTop);
  plot.set("number_points", kNumberPoints);
  set_axis(plot, "x", x, deadline);
  set_axis(plot, "y", y, power);
  for (const auto& [name, mark] :
       {std::pair{"rented", 7}, {"reserved", 13}, {"spot", 9}, {"bought", 5}, {"unpriced", 3}})
    plot.set(name, std::any_of(spots.begin(), spots.end(), [m = mark](const Spot& s) { return s.mark == m; })
                       ? 1
                       : 0);
  set_list(plot, listed(spots, index));
  set_points(plot, spots, index, x, y);
  return {{fmt::format("{}-{}", base, front.file), std::move(plot)}};
}

/// The value by which candidates are ranked.
double value_of(const Json& candidate, const std::string& rank) {
  const char* key = rank == "soonest" ? "finish_seconds" : rank == "cheapest" ? "cost" : "energy_joules";
  return candidate.at(key).at("value").as_real(0, 1e300);
}

Pictures draw_inputs(const Json& document, const std::string& base) {
  const auto& influences = document.at("influences").items();
  if (influences.empty()) return {};
  const auto& candidates = document.at("candidates").items();
  const std::string& rank = document.at("rank").as_text();
  const double ratio = value_of(candidates.at(1), rank) / value_of(candidates.at(0), rank);
  const char* what = rank == "soonest" ? "time" : rank == "cheapest" ? "cost" : "energy";
  std::vector<std::vector<std::string>> bars, names;
  double low = std::min(1.0, ratio), high = std::max(1.0, ratio), widest = 0;
  for (const Json& item : influences) {
    const double from = item.at("low").as_real(1e-300, 1e300), to = item.at("high").as_real(from, 1e300);
    const std::string row = std::to_string(names.size() + 1);
    if (from < 1) bars.push_back({row, cell(from), cell(std::min(1.0, to)), "0xE69F00"});
    if (to > 1) bars.push_back({row, cell(std::max(1.0, from)), cell(to), "0x0072B2"});
    names.push_back({row, item.at("what").as_text(), cell(from), fmt::format("{:.2f}", from), cell(to),
                     fmt::format("{:.2f}", to)});
    low = std::min(low, from), high = std::max(high, to);
    widest = std::max(widest, text_width(item.at("what").as_text(), 13));
  }
  Gnuplot plot("plan_inputs");
  const Json& sure = document.at("first_beats_second_probability");
  const char* better = rank == "soonest"    ? "is sooner"
                       : rank == "cheapest" ? "is cheaper"
                                            : "needs less energy";
  plot.heading(fmt::format("1: {}, or 2: {}", name_of(candidates[0]), name_of(candidates[1])),
               sure.kind() == Json::Kind::null
                   ? "what decides between them"
                   : fmt::format("what decides between them; 1 {} with probability {}", better,
                                 chance_text(sure.as_real(0, 1))));
  const double margin = std::pow(high / low, 0.1) * 1.02;
  plot.set("count", static_cast<double>(names.size()));
  plot.set("low", low / margin), plot.set("high", high * margin);
  plot.set("log_axes", high / low > 4 ? 1 : 0);
  plot.set("ratio", ratio);
  plot.set("axis", fmt::format("{} of 2 over that of 1, as one input varies within its bounds", what));
  plot.set("first_title", fmt::format("1 {}", better));
  plot.set("second_title", fmt::format("2 {}", better));
  plot.set("ratio_title", fmt::format("as expected: {:.2f}", ratio));
  plot.set("name_points", std::min(13.0, 13 * 0.3 * kPictureWidth / widest));
  plot.set("name_room", std::clamp(widest / kPictureWidth + 0.03, 0.12, 0.33));
  plot.data("bars", bars);
  plot.data("names", names);
  return {{base + "-inputs", std::move(plot)}};
}

}  // namespace

bool is_plan(const Json& document) {
  return document.is_object() && document.text("schema", "") == "tandem-plan-1";
}

Pictures draw_plan(const Json& document, const std::string& base) {
  if (document.at("candidates").items().empty()) document.fail("a plan without candidates: nothing to draw");
  Pictures out = draw_front(document,
                            {"cost",
                             "cost of the run",
                             "pareto",
                             "cost",
                             "time and money",
                             {{1e6, "million USD"}, {1e3, "thousand USD"}, {1, "USD"}},
                             money_text},
                            std::nullopt, base);
  for (const Pictures& more : {draw_front(document,
                                          {"watts",
                                           "power at the wall of the machines",
                                           "pareto_watts",
                                           "power",
                                           "time and power",
                                           {{1e6, "MW"}, {1e3, "kW"}, {1, "W"}},
                                           watts_text},
                                          limit_of(document, "watts"), base),
                               draw_inputs(document, base)})
    out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace tandem::pictures
