// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/tuner.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem::sim {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// "of `architecture`", or no limit where the table is empty.
double limit(const std::map<std::string, double>& by_architecture, const std::string& architecture) {
  return by_architecture.empty() ? kInfinite : by_architecture.at(architecture);
}

}  // namespace

std::optional<Tuner> Tuner::of(const System& system, const Group& group, int version) {
  if (group.nodes() != 1 || group.ranks() < 2 || !has_switch(system, group)) return {};
  const VertexId first = group.members.front();
  if (system.info(first).device < 0) return {};
  const NcclTuning& tuning = nccl_tuning();
  Tuner out;
  out.architecture_ = system.device(first).architecture;
  const NcclTuning::Generation* generation = tuning.generation(out.architecture_);
  if (generation == nullptr) return {};
  out.version_ = version;
  out.ranks_ = static_cast<double>(group.ranks());
  const LinkInfo port = system.link(system.route(first, group.members[1]).links.front());
  const double whole = generation->cable * port.lanes;
  const NcclTuning::Channels found = tuning.channels(*generation, whole);
  if (found.count <= 0) return {};  // cables that no channel fits on
  out.rate_ = found.rate;
  out.channels_ = found.count;
  // Every such member heads one channel, which costs its own port twice.
  out.heads_ = static_cast<double>(std::min(group.ranks(), tuning.in_switch.most_heads));
  for (const double r : generation->channels) {
    if (r <= whole / (out.heads_ + 1)) out.switch_rate_ = std::max(out.switch_rate_, r);
  }
  out.switch_rate_ *= generation->switch_efficiency;
  return out;
}

double switch_round(double bytes, std::size_t members, int channels) {
  const NcclTuning::Switch& data = nccl_tuning().in_switch;
  const double chunks = static_cast<double>(members) * channels;
  double chunk = data.chunk;
  for (const auto& row : data.smaller)
    chunk = std::clamp(bytes / (row.rounds * chunks), std::min(row.chunk, chunk), chunk);
  return std::min(bytes, chunks * chunk);
}

double tree_round(double bytes, double depth, double channels) {
  const NcclTuning::Tree& data = nccl_tuning().tree;
  double chunk = data.chunk;
  for (const auto& row : data.smaller)
    chunk = std::clamp(bytes / (row.rounds * depth * channels), std::min(row.chunk, chunk), chunk);
  return std::min(bytes, channels * chunk);
}

double Tuner::steps(CollKind kind) const {
  if (kind == CollKind::all_reduce) return 2 * (ranks_ - 1);
  return kind == CollKind::broadcast || kind == CollKind::reduce ? ranks_ : ranks_ - 1;
}

double Tuner::in_switch(CollKind kind, std::string_view protocol, double bytes) const {
  const NcclTuning::Switch& data = nccl_tuning().in_switch;
  if (kind != CollKind::all_reduce || switch_rate_ <= 0 || protocol != data.protocol) return kInfinite;
  const double payload = ranks_ / steps(kind);  // bytes of the buffer per byte on the bus
  const double bus = 2 * switch_rate_ * (heads_ - 1);
  return data.base + bytes / (bus * payload);
}

double Tuner::ring(CollKind kind, std::string_view protocol, double bytes) const {
  const NcclTuning::Protocol* data = nccl_tuning().protocol(protocol);
  if (data == nullptr) return kInfinite;
  const NcclTuning::Rate& rate = data->rate(version_);
  const bool reduces = kind == CollKind::all_reduce || kind == CollKind::reduce;
  const bool chain = kind == CollKind::broadcast || kind == CollKind::reduce;
  const double bus =
      std::min({rate_ * (reduces ? rate.share_reducing : rate.share), limit(rate.most, architecture_),
                channels_ * limit(rate.most_per_channel, architecture_)});
  const double payload = ranks_ / steps(kind);
  return data->base + (chain ? 1 : steps(kind)) * data->step + bytes / (bus * payload);
}

}  // namespace tandem::sim
