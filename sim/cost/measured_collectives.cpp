// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/measured_collectives.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tandem::sim {
namespace {

constexpr int64_t kSmall = int64_t{1} << 20;
/// [sibling, own][up to 1 MiB, above].
constexpr double kSpread[2][2] = {{0.17, 0.17}, {0.145, 0.11}};

}  // namespace

std::string measured_name(CollKind kind) {
  std::string out(name(kind));
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

Bearing bearing(std::string_view measured, std::string_view asked) {
  static constexpr std::array<std::string_view, 3> kSiblings = {"all-reduce", "all-gather", "reduce-scatter"};
  if (measured == asked) return Bearing::own;
  const auto sibling = [&](std::string_view kind) {
    return std::find(kSiblings.begin(), kSiblings.end(), kind) != kSiblings.end();
  };
  return sibling(measured) && sibling(asked) ? Bearing::sibling : Bearing::none;
}

double spread(Bearing bearing, int64_t bytes) {
  return bearing == Bearing::none ? 0 : kSpread[bearing == Bearing::own ? 1 : 0][bytes > kSmall ? 1 : 0];
}

CollectiveCorrection::CollectiveCorrection(const std::vector<CollectivePoint>& points,
                                           std::function<double(int64_t)> predict)
    : predict_(std::move(predict)) {
  std::vector<Point> all;
  for (const CollectivePoint& p : points) {
    const double predicted = predict_(p.bytes);
    if (predicted > 0) all.push_back({p.bytes, p.seconds, predicted});
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool between = i > 0 && i + 1 < all.size();
    const double left = between ? std::log(all[i].ratio() / all[i - 1].ratio()) : 0;
    const double right = between ? std::log(all[i].ratio() / all[i + 1].ratio()) : 0;
    const bool stall = std::min(std::abs(left), std::abs(right)) >= std::log(2.0) && left * right > 0;
    if (!stall) points_.push_back(all[i]);
  }
}

double CollectiveCorrection::factor(int64_t bytes) const {
  if (points_.empty()) return 1;
  const auto after =
      std::find_if(points_.begin(), points_.end(), [&](const Point& p) { return p.bytes >= bytes; });
  if (after == points_.begin()) return after->ratio();
  if (after == points_.end()) return points_.back().ratio();
  const Point &a = *(after - 1), &b = *after;
  const double predicted = predict_(bytes), growth = b.predicted - a.predicted;
  // Where the prediction does not grow, start-up is all there is: then over the logarithm of the size.
  const auto log_size = [](int64_t n) { return std::log(static_cast<double>(n)); };
  const double share = growth > 0
                           ? (predicted - a.predicted) / growth
                           : (log_size(bytes) - log_size(a.bytes)) / (log_size(b.bytes) - log_size(a.bytes));
  return (a.measured + std::clamp(share, 0.0, 1.0) * (b.measured - a.measured)) / predicted;
}

bool CollectiveCorrection::spans(int64_t bytes) const {
  return !points_.empty() && bytes >= points_.front().bytes && bytes <= points_.back().bytes;
}

const MeasuredCollective* MeasuredCollectives::find(std::string_view kind, int64_t devices) const {
  const MeasuredCollective* best = nullptr;
  for (const MeasuredCollective& each : all) {
    const Bearing now = bearing(each.kind, kind);
    const bool counts = each.devices == devices || each.devices == 0;
    if (!counts || now == Bearing::none) continue;
    if (best == nullptr || now > bearing(best->kind, kind)) best = &each;
  }
  return best;
}

}  // namespace tandem::sim
