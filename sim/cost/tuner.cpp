// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/tuner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace tandem::sim {
namespace {

constexpr std::array<std::string_view, 4> kGenerations{"volta", "ampere", "hopper", "blackwell"};
constexpr std::array kCable{20e9, 20e9, 20.6e9, 40.1e9};       // bytes/s that NCCL counts per cable
constexpr std::array kMostLl{39e9, 87.7e9, 141e9, 282e9};      // bytes/s of LL inside one node
constexpr std::array kMostLl128{20e9, 20e9, 36.7e9, 73.4e9};   // bytes/s of LL128 per channel
constexpr std::array kSwitchEfficiency{0.0, 0.0, 0.85, 0.74};  // of reducing in the switch
constexpr double kSwitchLatency = 25e-6;
constexpr double kMostChannels = 32;  // and members that head a channel of the switch

/// Start-up and step of a ring over NVLink, seconds, in the order of the protocols.
constexpr std::array<std::string_view, 3> kProtocols{"ll", "ll128", "simple"};
constexpr std::array kBase{6.6e-6, 14e-6, 8.4e-6};
constexpr std::array kStep{0.6e-6, 1.9e-6, 3.4e-6};

/// Rates per channel that the search tries, bytes/s.
const std::vector<double>& rates(std::size_t generation) {
  static const std::vector<double> older{40e9, 30e9, 20e9, 18e9, 15e9, 12e9, 10e9,
                                         9e9,  7e9,  6e9,  5e9,  4e9,  3e9};
  static const std::vector<double> hopper{60e9, 50e9, 40e9, 30e9, 24e9, 20e9, 15e9, 12e9, 11e9, 6e9, 3e9};
  static const std::vector<double> blackwell{90e9, 80e9, 70e9, 60e9, 50e9, 40e9,
                                             30e9, 24e9, 20e9, 19e9, 18e9};
  return generation == 3 ? blackwell : generation == 2 ? hopper : older;
}

constexpr double kInfinite = std::numeric_limits<double>::infinity();

template <std::size_t N>
std::size_t index(const std::array<std::string_view, N>& names, std::string_view name) {
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

}  // namespace

std::optional<Tuner> Tuner::of(const System& system, const Group& group, int version) {
  if (group.nodes() != 1 || group.ranks() < 2 || !has_switch(system, group)) return {};
  const VertexId first = group.members.front();
  if (system.info(first).device < 0) return {};
  Tuner out;
  out.generation_ = index(kGenerations, system.device(first).architecture);
  if (out.generation_ == kGenerations.size()) return {};
  out.version_ = version;
  out.ranks_ = static_cast<double>(group.ranks());
  const LinkInfo port = system.link(system.route(first, group.members[1]).links.front());
  const double whole = kCable[out.generation_] * port.lanes;
  double rate = 0;  // of one channel
  for (const double r : rates(out.generation_)) {
    const double count = std::min(std::floor(whole / r), kMostChannels / 2);
    if (count * r <= out.rate_ || (rate > 0 && r <= 0.49 * rate)) continue;
    out.rate_ = count * r;
    out.channels_ = count;
    rate = r;
  }
  // Wide channels are split in two, but on newer devices only very wide or very few ones.
  if (rate >= 25e9 && (out.generation_ < 2 || rate >= 50e9 || out.channels_ <= 4)) out.channels_ *= 2;
  // Every such member heads one channel, which costs its own port twice.
  out.heads_ = std::min(out.ranks_, kMostChannels);
  for (const double r : rates(out.generation_)) {
    if (r <= whole / (out.heads_ + 1)) out.switch_rate_ = std::max(out.switch_rate_, r);
  }
  return out;
}

double switch_round(double bytes, std::size_t members, int channels) {
  const double chunks = static_cast<double>(members) * channels;
  double chunk = 131072;
  if (bytes < 64 * chunks * chunk) chunk = 65536;
  if (bytes < 8 * chunks * chunk) chunk = 32768;
  if (bytes < 2 * chunks * chunk) chunk = 16384;
  return std::min(bytes, chunks * chunk);
}

double Tuner::steps(CollKind kind) const {
  if (kind == CollKind::all_reduce) return 2 * (ranks_ - 1);
  return kind == CollKind::broadcast || kind == CollKind::reduce ? ranks_ : ranks_ - 1;
}

double Tuner::in_switch(CollKind kind, std::string_view protocol, double bytes) const {
  const bool can = kind == CollKind::all_reduce && kSwitchEfficiency[generation_] > 0;
  if (!can || protocol != kProtocols.back()) return kInfinite;
  const double payload = ranks_ / steps(kind);  // bytes of the buffer per byte on the bus
  const double bus = 2 * switch_rate_ * kSwitchEfficiency[generation_] * (heads_ - 1);
  return kSwitchLatency + bytes / (bus * payload);
}

double Tuner::ring(CollKind kind, std::string_view protocol, double bytes) const {
  const std::size_t p = index(kProtocols, protocol);
  if (p == kProtocols.size()) return kInfinite;
  const bool chain = kind == CollKind::broadcast || kind == CollKind::reduce;
  double bus = rate_;
  if (p == 0) {
    // Before 2.21 NCCL thought less of LL.
    const bool reduces = kind == CollKind::all_reduce || kind == CollKind::reduce;
    const double share = version_ >= 221 ? 0.5 : reduces ? 1 / 4.0 : 1 / 3.0;
    bus = std::min(rate_ * share,
                   version_ >= 221 ? kMostLl[generation_] : std::min(kMostLl[generation_], 87.7e9));
  } else if (p == 1) {
    const double most = version_ >= 229 ? std::min(kMostLl128[generation_], 40e9) : kMostLl128[generation_];
    bus = std::min(0.92 * rate_, channels_ * most);
  }
  const double payload = ranks_ / steps(kind);
  return kBase[p] + (chain ? 1 : steps(kind)) * kStep[p] + bytes / (bus * payload);
}

}  // namespace tandem::sim
