// SPDX-License-Identifier: Apache-2.0
#include "sim/anchor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace tandem::sim {

namespace {

/// A step's seconds at some factor on compute costs.
struct Tried {
  double scale, seconds;
};

/// Kernels that would be a thousand times faster than priced are not what an anchor measures.
constexpr double kLeastScale = 1e-3;

/// The factor on compute costs with which `anchor.devices` devices reach the anchor's rate. A step's time
/// grows with it, by less where communication hides compute: Newton until the factor lies between two that
/// were tried, then linear interpolation, kept off both ends so that it closes in from both.
AnchorFit meet(const Simulation& simulation, const Anchor& anchor, std::vector<std::string>& notes) {
  double scale = 1;
  std::optional<Tried> below, above;
  for (int round = 0; round < 16; ++round) {
    const Simulated r = simulation.run(anchor.devices, scale);
    const double want = samples_of_all(*r.program) / anchor.rate;
    const double got = samples_of_all(*r.program) / r.rate;
    if (std::abs(got / want - 1) < 1e-4) return {scale, true};
    if (got > want && scale <= kLeastScale) break;
    (got < want ? below : above) = {scale, got};
    if (below && above) {
      const double width = above->scale - below->scale;
      const double part = (want - below->seconds) / (above->seconds - below->seconds);
      scale = below->scale + width * std::clamp(part, 0.05, 0.95);
      continue;
    }
    const Time working = r.trace.busy[static_cast<int>(Lane::compute)] + r.trace.exposed_to(Wait::launch);
    const double compute = working.seconds() / r.trace.timed_iterations() * r.program->micro_batches;
    // "All but worker 0's compute and its issuing stays": exact when nothing else is exposed.
    const double next = scale * (compute + want - got) / compute;
    scale = std::clamp(next, std::max(kLeastScale, scale * 0.2), scale * 5);
  }
  const double reached = simulation.run(anchor.devices, scale).rate;
  const bool met = std::abs(reached / anchor.rate - 1) <= 0.01;
  if (!met) {
    notes.push_back(
        fmt::format("the anchor of {:.6g} samples/s on {} device{} cannot be met: the prediction there "
                    "stays at {:.6g} (bound by something other than compute)",
                    anchor.rate, anchor.devices, anchor.devices == 1 ? "" : "s", reached));
  }
  return {scale, met};
}

}  // namespace

AnchorFit fit_anchor(const Request& p, const Simulation& simulation, std::vector<std::string>& notes) {
  if (!p.anchor) return {};
  if (p.anchor->scale) return {*p.anchor->scale, true};
  Request measured = p;
  measured.speeds = {};
  if (p.anchor->batch != 0) measured.job.batch = p.anchor->batch;
  if (p.anchor->system != nullptr) measured.system = p.anchor->system;
  if (p.anchor->scheme != nullptr) measured.job.scheme = p.anchor->scheme;
  const bool own = measured.job.batch == p.job.batch && measured.system == p.system &&
                   measured.job.scheme == p.job.scheme && p.speeds == Speeds{};
  return own ? meet(simulation, *p.anchor, notes) : meet(Simulation(measured), *p.anchor, notes);
}

}  // namespace tandem::sim
