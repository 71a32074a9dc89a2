// SPDX-License-Identifier: Apache-2.0
// Bounds of ways to train are what they say: no simulation is faster, no device holds less.
#include "answers/way_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "answers/way_search.h"
#include "sim/capacity.h"
#include "sim/simulate.h"

namespace tandem::tests {
namespace {

using namespace answers;

struct Machine {
  const char *model, *system;
  int64_t nodes, samples;
};

/// TANDEM_SETTINGS of them: 300, or more where somebody waits.
int settings() {
  const char* asked = std::getenv("TANDEM_SETTINGS");
  return asked != nullptr ? std::atoi(asked) : 300;
}

class Setting {
 public:
  explicit Setting(const Machine& machine)
      : question_(Question::of({{"model", machine.model},
                                {"system", machine.system},
                                {"set", "nodes=" + std::to_string(machine.nodes)},
                                {"optimizer", "adam"}})),
        bounds_(question_) {
    Space space;
    space.graph = &question_.graph;
    space.system = &question_.system;
    space.schemes = exact_schemes();
    space.devices = question_.system.accelerator_count();
    space.samples = machine.samples;
    space.precisions = usual_precisions(question_.system);
    all_ = candidates(space);
  }

  /// What two shorter models say that one of them at random takes is no more than the whole model takes.
  void check_shorter(std::mt19937& rng, int& compared) {
    const Candidate& c = all_[rng() % all_.size()];
    const auto models = bounds_.shorter(c);
    if (!models) return;
    static const Recompute kAgain[] = {{}, {.norms = true, .activations = true}, {.blocks = true}};
    const ResolvedScheme scheme = resolve_scheme(c.scheme, {});
    const Request whole = request(c, scheme, kAgain[rng() % 3]);
    const auto of = [&](const Graph& graph) {
      Request p = whole;
      p.job.graph = &graph;
      return p;
    };
    SCOPED_TRACE(testing::Message() << question_.graph.name() << " " << c.scheme << " on " << c.devices
                                    << ", batch " << c.batch << ", " << name(c.precision));
    try {
      const auto seconds = [](const Request& p) { return 1 / sim::undisturbed(p).rate; };
      const double step = models->line(seconds(of(*models->few)), seconds(of(*models->more)));
      EXPECT_LE(0.995 * step, seconds(whole));
      ++compared;
    } catch (const InputError&) {
      // What a scheme refuses is no candidate.
    }
  }

  /// One of them at random, against the simulator.
  void check(std::mt19937& rng, int& compared) {
    const Candidate& c = all_[rng() % all_.size()];
    static const Recompute kAgain[] = {{}, {.norms = true, .activations = true}, {.blocks = true}};
    const Recompute& again = kAgain[rng() % 3];
    const ResolvedScheme scheme = resolve_scheme(c.scheme, {});
    const Request p = request(c, scheme, again);
    SCOPED_TRACE(testing::Message() << question_.graph.name() << " " << c.scheme << " on " << c.devices
                                    << ", batch " << c.batch << ", " << name(c.precision) << ", "
                                    << again.text());
    try {
      const MemoryUse memory = memory_on(p, c.devices);
      EXPECT_LE(bounds_.least_bytes(c, again), static_cast<double>(memory.needed().n));
      const double rate = throughput(p);
      const Undisturbed undisturbed = sim::undisturbed(p);
      EXPECT_GE(bounds_.peak_rate(c), rate);
      EXPECT_GE(bounds_.stage_rate(c, again), rate);
      if (undisturbed.bound) EXPECT_GE(undisturbed.rate * 1.01, rate);
      ++compared;
    } catch (const InputError&) {
      // What a scheme refuses is no candidate.
    }
  }

 private:
  Request request(const Candidate& c, const ResolvedScheme& scheme, const Recompute& again) const {
    Request p = question_.request(c.devices);
    p.job.scheme = &scheme;
    p.job.batch = c.batch;
    p.job.precision = c.precision;
    p.job.recompute = again;
    p.timeline = false;
    return p;
  }

  Question question_;
  WayBounds bounds_;
  std::vector<Candidate> all_;
};

TEST(WayBounds, NoSimulationIsFasterAndNoDeviceHoldsLess) {
  constexpr Machine kMachines[] = {
      {"gpt2:layers=8", "dgx-a100", 1, 64}, {"llama2-7b:layers=12", "dgx-a100", 2, 64},
      {"bert-base", "v100-pcie-8x", 1, 48}, {"resnet50", "dgx1-v100", 1, 96},
      {"vgg16", "2080ti-pcie-8x", 1, 64},   {"mixtral-8x7b:layers=4", "dgx-h100", 2, 64}};
  std::mt19937 rng(20261129);
  int compared = 0;
  const int each = settings() / static_cast<int>(std::size(kMachines));
  for (const Machine& machine : kMachines) {
    Setting setting(machine);
    for (int i = 0; i < each; ++i) setting.check(rng, compared);
  }
  EXPECT_GT(compared, settings() / 2);
}

TEST(WayBounds, ShorterModelsSayWhatTheWholeTakes) {
  constexpr Machine kMachines[] = {{"gpt2:layers=24", "dgx-a100", 2, 64},
                                   {"llama2-7b:layers=32", "dgx-h100", 2, 128},
                                   {"bert-large", "v100-pcie-8x", 1, 48},
                                   {"mixtral-8x7b:layers=24", "dgx-h100", 4, 64}};
  std::mt19937 rng(20261130);
  int compared = 0;
  for (const Machine& machine : kMachines) {
    Setting setting(machine);
    for (int i = 0; i < settings() / 10; ++i) setting.check_shorter(rng, compared);
  }
  EXPECT_GT(compared, settings() / 10);
}

TEST(WaySearch, RatesFromShorterStepsAreThoseOfWholeOnes) {
  constexpr Machine kMachines[] = {{"gpt2", "dgx-a100", 1, 512},
                                   {"llama2-7b:layers=16", "dgx-h100", 2, 512},
                                   {"bert-base", "v100-pcie-8x", 1, 256}};
  int shortened = 0;
  for (const Machine& machine : kMachines) {
    const Question question = Question::of({{"model", machine.model},
                                            {"system", machine.system},
                                            {"set", "nodes=" + std::to_string(machine.nodes)},
                                            {"optimizer", "adamw"}});
    Space space;
    space.graph = &question.graph;
    space.system = &question.system;
    space.schemes = {"hybrid"};
    space.devices = question.system.accelerator_count();
    space.samples = machine.samples;
    space.all = true;
    space.precisions = {Precision::bf16};
    WayBounds bounds(question);
    for (const Way& way : find_ways(question, space, {}, bounds).ranked) {
      const Candidate& c = way.candidate;
      shortened += c.micro_batches > 4 * c.pipeline ? 1 : 0;
      const ResolvedScheme scheme = resolve_scheme(c.scheme, {});
      Request p = question.request(c.devices);
      p.job.scheme = &scheme;
      p.job.batch = c.batch;
      p.job.precision = c.precision;
      p.job.recompute = way.saver.recompute;
      EXPECT_NEAR(way.rate / quiet_throughput(p), 1, 0.01) << question.graph.name() << " " << c.scheme;
      EXPECT_NEAR(way.rate / throughput(p), 1, 0.02) << question.graph.name() << " " << c.scheme;
      EXPECT_TRUE(memory_on(p, p.devices).fits());
    }
  }
  EXPECT_GT(shortened, 3);
}

}  // namespace
}  // namespace tandem::tests
