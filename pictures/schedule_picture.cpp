// SPDX-License-Identifier: Apache-2.0
#include "pictures/schedule_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "pictures/draw.h"
#include "pictures/gnuplot.h"

namespace tandem::pictures {

namespace {

constexpr double kPassLabel = 11, kStageName = 12, kLeastStageName = 9, kPlotLeft = 0.1, kPlotRight = 0.965;
constexpr double kPlotHeight = 500;  ///< pixels that all rows share
constexpr double kBorderedPass = 4;  ///< pixels: narrower boxes would be mostly border

struct PassLook {
  std::string_view name, colour;
};
/// By Slot::What.
constexpr PassLook kPassLooks[] = {{"forward", "#4C78A8"},
                                   {"backward", "#2F7F5F"},
                                   {"gradients of inputs", "#2F7F5F"},
                                   {"gradients of weights", "#8C6BB1"}};

/// Later chunks of a stage are paler: "0xRRGGBB" of `colour`, so far on the way to white.
std::string paler(std::string_view colour, double way) {
  std::string out = "0x";
  for (std::size_t i = 1; i < 7; i += 2) {
    const int v = std::stoi(std::string(colour.substr(i, 2)), nullptr, 16);
    out += fmt::format("{:02X}", v + static_cast<int>(way * (255 - v)));
  }
  return out;
}

}  // namespace

std::string shape_text(const PipelineShape& shape) {
  const auto plural = [](int32_t n, std::string_view one) {
    return fmt::format("{} {}{}", n, one, n == 1 ? "" : one.ends_with("ch") ? "es" : "s");
  };
  return fmt::format("{}{}, {}", plural(shape.stages, "stage"),
                     shape.chunks == 1 ? "" : fmt::format(" of {} chunks", shape.chunks),
                     plural(shape.micro_batches, "micro-batch"));
}

Gnuplot draw_schedule(const PipelineSchedule& schedule, const PipelineShape& shape, const PipelineRun& run) {
  std::vector<std::vector<std::string>> boxes, thin, names;
  std::set<std::size_t> seen;
  const double pixels =
      (kPlotRight - kPlotLeft) * kPictureWidth / static_cast<double>(std::max<int64_t>(1, run.length));
  const bool tall = kPlotHeight / shape.stages > kPassLabel + 2;
  for (std::size_t s = 0; s < run.stages.size(); ++s) {
    for (const TimedSlot& t : run.stages[s]) {
      const auto what = static_cast<std::size_t>(t.slot.what);
      const double width = static_cast<double>(t.end - t.begin) * pixels;
      seen.insert(what);
      std::vector<std::string> box = {cell(static_cast<double>(t.begin)), cell(static_cast<double>(t.end)),
                                      std::to_string(s),
                                      paler(kPassLooks[what].colour, 0.6 * t.slot.chunk / shape.chunks)};
      if (width >= kBorderedPass) {
        boxes.push_back(std::move(box));
      } else if (!thin.empty() && thin.back()[1] == box[0] && thin.back()[2] == box[2] &&
                 thin.back()[3] == box[3]) {
        thin.back()[1] = box[1];  // nobody could tell them apart
      } else {
        thin.push_back(std::move(box));
      }
      const std::string label = std::to_string(t.slot.micro_batch);
      if (tall && width > text_width(label, kPassLabel) + 4)
        names.push_back({cell(static_cast<double>(t.begin + t.end) / 2), std::to_string(s), label});
    }
  }
  const bool numbered = !names.empty();
  if (!numbered) names.push_back({"0", "-9", " "});  // off the picture: gnuplot 5.4 crashes on none
  for (auto* cells : {&boxes, &thin}) {
    if (cells->empty()) cells->push_back({"0", "0", "-9", "0"});
  }
  Gnuplot plot("schedule");
  plot.heading(
      fmt::format("Schedule {}: {}", schedule.name, shape_text(shape)),
      fmt::format("bubble {:.1f} %{}{}", 100 * run.bubble, numbered ? " · numbers are micro-batches" : "",
                  shape.chunks > 1 ? " · later chunks of a stage are paler" : ""));
  plot.set("rows", shape.stages);
  plot.set("row_name_size", std::clamp(0.7 * kPlotHeight / shape.stages, kLeastStageName, kStageName));
  plot.set("row_step", std::max(1.0, std::ceil(1.4 * kLeastStageName * shape.stages / kPlotHeight)));
  plot.set("label_size", kPassLabel);
  plot.set("last", static_cast<double>(run.length));
  plot.set("left", kPlotLeft);
  plot.set("right", kPlotRight);
  plot.set("legends", static_cast<double>(seen.size()));
  int legend = 0;
  for (const std::size_t what : seen) {
    ++legend;
    plot.set(fmt::format("legend_{}", legend), kPassLooks[what].name);
    plot.set(fmt::format("legend_colour_{}", legend), kPassLooks[what].colour);
  }
  plot.data("boxes", boxes);
  plot.data("thin", thin);
  plot.data("names", names);
  return plot;
}

}  // namespace tandem::pictures
