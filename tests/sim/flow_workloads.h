// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random transfers over networks whose links they share: what flow sharing is compared with SimGrid and timed
// on.
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/random.h"
#include "sim/network/flows.h"

namespace tandem::tests::workloads {

inline constexpr uint32_t kHosts = 256;
inline constexpr double kCable = 12.5e9;  ///< bytes/s

struct FlowStart {
  int64_t at;  ///< ps
  double bytes;
  std::vector<Use> uses;
  uint32_t from = 0, to = 0;
};

/// One way from each host to each other; links in order.
class FlowNetwork {
 public:
  /// "fat-tree" (16 leaves of 16 hosts, `spines` spines, every cable 12.5 GB/s; links: host up, host down,
  /// leaf to spine, spine to leaf), "star" (a cable of 6.25 to 25 GB/s per host) or "torus" (16 x 16, the
  /// same cables, first along x, the shorter way round).
  explicit FlowNetwork(const std::string& kind, uint32_t spines = 4) : kind_(kind), spines_(spines) {
    if (kind != "fat-tree" && kind != "star" && kind != "torus") throw std::invalid_argument(kind);
    capacity_.assign(kind == "fat-tree" ? 512 + 32 * spines : kind == "star" ? 512 : 4 * kHosts, kCable);
    SplitMix64 random(7);
    for (std::size_t l = 0; kind != "fat-tree" && l < capacity_.size(); ++l)
      capacity_[l] = kCable / 2 * static_cast<double>(1 + random.next() % 4);
  }
  const std::vector<double>& capacity() const { return capacity_; }
  std::vector<uint32_t> route(uint32_t from, uint32_t to) const {
    if (kind_ == "torus") return torus_route(from, to);
    if (kind_ == "star" || from / 16 == to / 16) return {from, 256 + to};
    const uint32_t spine = to % spines_;
    return {from, 512 + (from / 16) * spines_ + spine, 512 + 16 * spines_ + (to / 16) * spines_ + spine,
            256 + to};
  }

 private:
  static std::vector<uint32_t> torus_route(uint32_t from, uint32_t to) {
    std::vector<uint32_t> out;
    uint32_t x = from % 16, y = from / 16;
    const auto walk = [&](uint32_t& at, uint32_t goal, uint32_t axis) {
      const bool plus = (goal - at) % 16 <= 8;
      for (; at != goal; at = (at + (plus ? 1 : 15)) % 16)
        out.push_back(4 * (16 * y + x) + 2 * axis + (plus ? 0 : 1));
    };
    walk(x, to % 16, 0);
    walk(y, to / 16, 1);
    return out;
  }
  std::string kind_;
  uint32_t spines_;
  std::vector<double> capacity_;
};

/// `flows` transfers of 1 to 100 MB between random hosts, all at 0 or, with `arrivals`, one every 25 us.
inline std::vector<FlowStart> random_flows(const FlowNetwork& network, uint32_t flows, bool arrivals) {
  SplitMix64 random(42);
  std::vector<FlowStart> out;
  for (uint32_t i = 0; i < flows; ++i) {
    const auto from = static_cast<uint32_t>(random.next() % kHosts);
    const auto d = static_cast<uint32_t>(random.next() % (kHosts - 1));
    const uint32_t to = d + (d >= from ? 1 : 0);
    const double bytes = static_cast<double>(1'000'000 + random.next() % 99'000'001);
    const auto at = static_cast<int64_t>(random.next() % (uint64_t{25'000} * flows)) * 1000;
    FlowStart f{arrivals ? at : 0, bytes, {}, from, to};
    for (const uint32_t link : network.route(from, to)) f.uses.push_back({link, 1});
    out.push_back(std::move(f));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const FlowStart& a, const FlowStart& b) { return a.at < b.at; });
  return out;
}

/// Finish times in ps, by flow. Requires starts in order of time.
inline std::vector<int64_t> run_flows(const std::vector<double>& capacity,
                                      const std::vector<FlowStart>& starts) {
  Flows flows(capacity);
  std::vector<int64_t> finish(starts.size());
  std::vector<uint64_t> done;
  for (std::size_t next = 0; next < starts.size() || flows.active() > 0;) {
    const int64_t now = std::min(next < starts.size() ? starts[next].at : kNever, flows.next());
    done.clear();
    if (flows.next() <= now) flows.finish(now, done);
    for (const uint64_t tag : done) finish[tag] = now;
    for (; next < starts.size() && starts[next].at == now; ++next) {
      flows.start(now, starts[next].uses, 0, starts[next].bytes, next);
    }
    flows.update(now);
  }
  return finish;
}

}  // namespace tandem::tests::workloads
