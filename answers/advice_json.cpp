// SPDX-License-Identifier: Apache-2.0
#include "answers/advice_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "answers/labels.h"
#include "answers/shell_line.h"
#include "base/json_writer.h"

namespace tandem::answers {

namespace {

std::string of_step(double share) { return fmt::format("{:.{}f} %", 100 * share, share < 0.01 ? 1 : 0); }

/// Kinds of links between neighbouring devices of a node: "nvlink", "pcie and socket".
std::string links_between(const System& system, int64_t devices) {
  std::vector<std::string> kinds;
  for (int64_t i = 1; i < devices; ++i) {
    for (const LinkId link : system.route(system.accelerator(0), system.accelerator(i)).links) {
      const std::string kind(system.link_kind(link));
      if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
    }
  }
  return fmt::format("{}", fmt::join(kinds, " and "));
}

std::string sharding_words(int64_t sharding) {
  return sharding == 1   ? "optimiser state"
         : sharding == 2 ? "gradients and optimiser state"
                         : "parameters, gradients and optimiser state";
}

/// The exposed communication of a step, largest part first.
std::string communication_words(const Report& r) {
  const double share = r.time.share.exposed_communication;
  if (share < 0.005) return "communication is hidden by compute";
  std::string most;
  if (r.time.communication_kinds.size() > 1)
    most = fmt::format(", most for {}", r.time.communication_kinds[0].first);
  return fmt::format("communication that compute does not hide takes {} of a step{}", of_step(share), most);
}

/// Why some devices are unused.
std::string idle_devices(const Candidate& c, const Space& space) {
  const int64_t held = std::max<int64_t>(1, c.devices / c.replicas), replicas = space.devices / held;
  if (space.devices % held == 0 && space.samples % replicas == 0)
    return fmt::format("{} of {} devices: more would not make a step of {} shorter", c.devices, space.devices,
                       samples_words(space.samples));
  const int64_t whole_step = (space.samples + space.devices - 1) / space.devices * space.devices;
  return fmt::format("{} of {} devices: {} in a step do{} not divide by {}, --global-batch {} would use all",
                     c.devices, space.devices, samples_words(space.samples), space.samples == 1 ? "es" : "",
                     space.devices % held == 0 ? replicas : space.devices, whole_step);
}

}  // namespace

std::vector<std::string> reasons(const Choice& choice, const AdviceContext& context) {
  const Candidate& c = choice.candidate;
  const Report& r = choice.report;
  const auto per_node = static_cast<int64_t>(context.system->accelerators().size());
  std::vector<std::string> out;
  if (c.devices < context.space->devices) out.push_back(idle_devices(c, *context.space));
  if (c.tensor > 1) {
    const bool inside = c.tensor <= per_node;
    out.push_back(
        fmt::format("tensor {} {}", c.tensor,
                    inside ? fmt::format("stays inside a node ({})", links_between(*context.system, c.tensor))
                           : "crosses nodes"));
  }
  if (c.pipeline > 1)
    out.push_back(fmt::format("pipeline {} with {} micro-batch{}{}: its bubble is {} of a step", c.pipeline,
                              c.micro_batches, c.micro_batches == 1 ? "" : "es",
                              c.chunks > 1    ? fmt::format(" and {} chunks a stage", c.chunks)
                              : c.zero_bubble ? ", weight gradients delayed into its gaps"
                                              : "",
                              of_step(r.time.share.bubble)));
  if (c.expert > 1) out.push_back(fmt::format("experts are dealt over {} devices", c.expert));
  if (c.context > 1) out.push_back(fmt::format("{} devices divide every sequence", c.context));
  if (c.replicas > 1)
    out.push_back(
        fmt::format("{} replicas of {} a step each", c.replicas, samples_words(c.batch * c.micro_batches)));
  if (c.sharding > 0 && c.replicas * c.context > 1)
    out.push_back(fmt::format("{} sharded over {}", sharding_words(c.sharding),
                              c.scheme.find("sharding-group=node") != std::string::npos
                                  ? "the replicas of a node"
                                  : "the replicas"));
  if (c.devices > 1) out.push_back(communication_words(r));
  if (choice.recompute.blocks || choice.recompute.selective())
    out.push_back(fmt::format(
        "recomputes {}", choice.recompute.blocks ? "blocks, to fit" : choice.recompute.text() + ", to fit"));
  if (choice.offload.any())
    out.push_back(fmt::format("leaves {} in the host's memory, to fit", choice.offload.text()));
  out.push_back(fmt::format("bound by {}", resource_words(r)));
  return out;
}

namespace {

JsonWriter choice_json(const Choice& choice, std::size_t rank, const AdviceContext& context) {
  const Candidate& c = choice.candidate;
  const Report& r = choice.report;
  const TimeShare& t = r.time.share;
  JsonWriter out = {
      {"rank", rank},
      {"scheme", c.scheme},
      {"learns_as_one_worker", learns_as_one(resolve_scheme(c.scheme, Place{}))},
      {"devices", c.devices},
      {"batch_per_device", c.batch},
      {"micro_batches", c.micro_batches},
      {"replicas", c.replicas},
      {"tensor", c.tensor},
      {"pipeline", c.pipeline},
      {"expert", c.expert},
      {"context", c.context},
      {"precision", name(c.precision)},
      {"recompute", choice.recompute.text()},
      {"offload", choice.offload.text()},
      {"samples_per_second", r.rate.samples_per_second},
      {"samples_per_second_interval",
       {{"low", r.rate.interval.low}, {"high", r.rate.interval.high}, {"level", r.rate.interval.level}}}};
  if (r.rate.tokens_per_second > 0) out["tokens_per_second"] = r.rate.tokens_per_second;
  out["to_first_interval"] = {
      {"low", choice.to_first.low}, {"high", choice.to_first.high}, {"level", choice.to_first.level}};
  out["tight"] = choice.tight;
  out["memory_bytes_per_device"] = {{"total", r.memory.needed().n}, {"capacity", r.memory.capacity.n}};
  out["time_share"] = {
      {"compute", t.compute}, {"launch", t.launch}, {"exposed_communication", t.exposed_communication},
      {"waiting", t.waiting}, {"bubble", t.bubble}, {"input", t.input},
      {"server", t.server},   {"idle", t.idle}};
  out["bottleneck"] = r.bottleneck.resource;
  if (r.goodput) out["goodput_share"] = r.goodput->share;
  if (r.progress) out["progress"] = progress_json(*r.progress);
  out["reasons"] = reasons(choice, context);
  return out;
}

JsonWriter words_json(const std::vector<std::string>& words) {
  if (words.empty()) return nullptr;
  return shell_line(words);
}

}  // namespace

std::string advice_json(const Advice& advice, const AdviceContext& context) {
  JsonWriter out = {{"schema", "tandem-advice-1"},
                    {"model", context.space->graph->name()},
                    {"system", context.system->name()},
                    {"devices", context.space->devices},
                    {"samples_per_step", context.space->samples},
                    {"choices", JsonWriter::array()}};
  for (std::size_t i = 0; i < advice.ranked.size(); ++i)
    out["choices"].push_back(choice_json(advice.ranked[i], i + 1, context));
  out["first_beats_second"] = advice.first_beats_second;
  out["schemes"] = JsonWriter::array();
  for (const Outcome& o : advice.outcomes) {
    JsonWriter row = {{"scheme", o.scheme}};
    row["best_samples_per_second"] = o.rate > 0 ? JsonWriter(o.rate) : nullptr;
    row["bound_samples_per_second"] =
        o.rate > 0 ? JsonWriter(nullptr) : JsonWriter::finite_or_null(o.at_most);
    row["needs_bytes"] =
        o.rate > 0 || o.at_most > 0 || o.needs.n == 0 ? JsonWriter(nullptr) : JsonWriter(o.needs.n);
    row["refusal"] = o.refusal.empty() || o.rate > 0 ? JsonWriter(nullptr) : JsonWriter(o.refusal);
    out["schemes"].push_back(std::move(row));
  }
  out["ways"] = advice.ways;
  out["simulated"] = advice.simulated;
  out["complete"] = advice.complete;
  if (advice.larger)
    out["larger_batch"] = {{"samples_per_step", advice.larger->samples},
                           {"scheme", advice.larger->scheme},
                           {"devices", advice.larger->devices},
                           {"batch_per_device", advice.larger->batch},
                           {"samples_per_second", advice.larger->rate}};
  out["predict"] = words_json(context.predict);
  out["run"] = words_json(context.run.words);
  out["run_notes"] = context.run.notes;
  return out.dump(2);
}

}  // namespace tandem::answers
