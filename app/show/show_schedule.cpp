// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>

#include "app/show/show.h"
#include "base/json_writer.h"
#include "pictures/draw.h"
#include "pictures/schedule_picture.h"

namespace tandem::app {

namespace {

constexpr SlotTimes kPassTimes;  // all passes equally long, so that a whole backward takes two

/// After a micro-batch's number, by Slot::What. Fills the duration of the pass.
constexpr char kPassMarks[] = {' ', '=', '=', '~'};

/// "2" or, where stages have chunks, "2b": micro-batch 2 in the second chunk.
std::string label(const Slot& slot, const PipelineShape& shape) {
  return shape.chunks == 1 ? std::to_string(slot.micro_batch)
                           : fmt::format("{}{}", slot.micro_batch, static_cast<char>('a' + slot.chunk % 26));
}

/// A line per stage, as much of it as fits into `columns`.
std::string chart(const PipelineShape& shape, const PipelineRun& run, int columns) {
  const std::size_t unit = std::to_string(shape.micro_batches - 1).size() + (shape.chunks > 1 ? 2 : 1);
  const std::string widest = fmt::format("stage {}  ", shape.stages - 1);
  const std::size_t room =
      columns <= 0 ? SIZE_MAX : std::max<std::size_t>(20, static_cast<std::size_t>(columns) - widest.size());
  const std::size_t fit = room / unit;
  std::string out;
  for (std::size_t s = 0; s < run.stages.size(); ++s) {
    std::string line = fmt::format("{:<{}}", fmt::format("stage {}", s), widest.size());
    for (const TimedSlot& t : run.stages[s]) {
      if (static_cast<std::size_t>(t.end) > fit) break;
      line.resize(widest.size() + static_cast<std::size_t>(t.begin) * unit, ' ');
      std::string box = label(t.slot, shape);
      box.resize(static_cast<std::size_t>(t.end - t.begin) * unit - 1,
                 kPassMarks[static_cast<int>(t.slot.what)]);
      line += box + kPassMarks[static_cast<int>(t.slot.what)];
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  if (static_cast<std::size_t>(run.length) > fit)
    out += fmt::format("(the first {} of {} units of time; --out FILE.svg draws all)\n", fit, run.length);
  return out;
}

std::string legend(const PipelineRun& run, const PipelineShape& shape) {
  const auto has = [&](Slot::What what) {
    return std::any_of(run.stages[0].begin(), run.stages[0].end(),
                       [&](const TimedSlot& t) { return t.slot.what == what; });
  };
  const std::string_view chunk = shape.chunks > 1 ? "a" : "";
  std::string out = fmt::format("0{}: forward of micro-batch 0", chunk);
  if (shape.chunks > 1) out += " through chunk a";
  if (has(Slot::What::backward)) out += fmt::format(" · 0{}=: backward", chunk);
  if (has(Slot::What::data)) out += fmt::format(" · 0{}=: gradients of inputs", chunk);
  if (has(Slot::What::weights)) out += fmt::format(" · 0{}~: gradients of weights", chunk);
  return out + "\n";
}

/// The most micro-batches of a whole stage that each stage holds.
std::vector<double> held(const PipelineRun& run, const PipelineShape& shape) {
  std::vector<double> out;
  for (const int32_t chunks : run.held) out.push_back(static_cast<double>(chunks) / shape.chunks);
  return out;
}

std::string page(const PipelineSchedule& schedule, const PipelineShape& shape, const PipelineRun& run,
                 int columns) {
  const auto most = held(run, shape);
  return fmt::format(
      "{}: {}\n{}\n\n{}; forward, gradients of inputs and of weights take 1 each\n"
      "bubble {:.1f} % of {} units of time · micro-batches held at most: {:.4g} on stage 0, {:.4g} on the "
      "last\n\n"
      "{}\n{}",
      schedule.name, schedule.summary, schedule.source, shape_text(shape), 100 * run.bubble, run.length,
      most.front(), most.back(), chart(shape, run, columns), legend(run, shape));
}

std::string document(const PipelineSchedule& schedule, const PipelineShape& shape, const PipelineRun& run) {
  JsonWriter out = {{"name", schedule.name},
                    {"summary", schedule.summary},
                    {"source", schedule.source},
                    {"stages", shape.stages},
                    {"micro_batches", shape.micro_batches},
                    {"chunks", shape.chunks},
                    {"length", run.length},
                    {"bubble", run.bubble},
                    {"micro_batches_held", held(run, shape)},
                    {"passes", JsonWriter::array()}};
  for (std::size_t s = 0; s < run.stages.size(); ++s) {
    for (const TimedSlot& t : run.stages[s]) {
      out["passes"].push_back({{"stage", s},
                               {"pass", name(t.slot.what)},
                               {"micro_batch", t.slot.micro_batch},
                               {"chunk", t.slot.chunk},
                               {"begin", t.begin},
                               {"end", t.end}});
    }
  }
  return out.dump(2);
}

}  // namespace

std::string show_schedule(const ShowRequest& request) {
  const PipelineSchedule& schedule = schedules_registry().at(request.name);
  const Arguments& a = request.arguments;
  if (request.format == "dot")
    throw UsageError("a schedule is shown as text or json, or drawn with --out FILE.svg");
  const auto stages = static_cast<int32_t>(a.integer("stages", 4, 1, 1024)),
             micro_batches = static_cast<int32_t>(a.integer("microbatches", 8, 1, 4096));
  const int32_t fewest = shape_for(schedule, stages, micro_batches).chunks;
  return show_pipeline(
      request, schedule,
      shape_for(schedule, stages, micro_batches, static_cast<int32_t>(a.integer("chunks", fewest, 1, 64))));
}

std::string show_pipeline(const ShowRequest& request, const PipelineSchedule& schedule,
                          const PipelineShape& shape) {
  constexpr int64_t kMost = 1'000'000;
  if (int64_t{shape.stages} * shape.micro_batches * shape.chunks > kMost)
    throw UsageError(fmt::format("stages x micro-batches x chunks: at most {} are shown", kMost));
  const PipelineRun run = run_pipeline(schedule, shape, kPassTimes);
  const std::string out = request.arguments.text("out", "");
  if (picture_kind(out).empty())
    return request.format == "json" ? document(schedule, shape, run)
                                    : page(schedule, shape, run, request.columns);
  write_file(out, draw_schedule(schedule, shape, run).drawn(picture_kind(out)));
  return "";
}

}  // namespace tandem::app
