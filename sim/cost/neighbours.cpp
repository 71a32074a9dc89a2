// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/neighbours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "sim/cost/product.h"

namespace tandem::sim {

namespace {

constexpr std::array<std::string_view, KernelCurve::kEfforts> kEffortNames{
    "base_seconds",         "seconds_per_flop",         "seconds_per_byte",
    "seconds_per_result",   "seconds_per_left",         "seconds_per_right",
    "seconds_per_odd_flop", "seconds_per_grouped_flop", "seconds_per_grouped_byte"};

/// Of the rate that dense products of a group's sizes reach, grouped convolutions reach this part. Of the
/// bandwidth that elementwise kernels reach, depthwise ones: Hopper's figures in calibration/profiles/
/// stock.json, `grouped` and, by pass, `depthwise` over `elementwise`, in fp32.
constexpr double kGroupedRate = 0.38;
constexpr std::array<double, 3> kDepthwiseRate{0.33, 0.21, 0.16};

/// How far from all others a kernel lies that is made in another's launch.
constexpr double kFused = 2 * KernelNeighbours::kFar;

double log_of(double value) { return std::log2(std::max(value, 0.0) + 1); }
double number(int64_t n) { return static_cast<double>(n); }
double moved_by(const Kernel& k) { return number(k.read.n) + number(k.written.n); }

/// Of the largest power of two up to eight that divides rows of that many elements, the logarithm: 0 where a
/// row of 2-byte elements may begin at any address, 3 where at multiples of 16 bytes.
double alignment(int64_t elements) { return std::log2(number(std::gcd(elements, int64_t{8}))); }

/// Lengths of the rows in which a product's operands and results lie.
std::array<int64_t, 2> rows_of(const Kernel& k) {
  if (k.kind == KernelKind::conv) return {k.shape[1], k.shape[2]};  // channels last
  if (k.kind != KernelKind::gemm) return {8, 8};                    // an attention's heads
  return k.pass == Pass::backward_weights ? std::array{k.shape[1], k.shape[2]}
                                          : std::array{k.shape[2], k.shape[3]};
}

bool is_grouped(const Kernel& k) {
  return k.kind == KernelKind::conv && k.shape.size() == 23 && ConvShape::unpack(k.shape).groups > 1;
}

/// On a GPU.
std::vector<double> position_of(const Kernel& k, const Product& p) {
  std::vector<double> at{0.5 * log_of(number(k.flops.n)), 0.5 * log_of(moved_by(k))};
  for (const double size : {p.groups, p.m, p.n, p.k}) at.push_back(log_of(size));
  for (const int64_t row : rows_of(k)) at.push_back(2 * alignment(row));
  if (k.kind == KernelKind::attention) {
    for (const std::size_t flag : {6U, 7U}) at.push_back(2 * number(k.shape[flag]));
  } else if (k.kind == KernelKind::conv) {
    const ConvShape s = ConvShape::unpack(k.shape);
    for (const auto& a : {s.kernel, s.stride}) at.push_back(log_of(number(a[0] * a[1] * a[2])));
  }
  return at;
}

}  // namespace

KernelCurve::Efforts KernelCurve::efforts(const Kernel& k, bool products, bool as_dense) {
  Efforts e{};
  const double flops = number(k.flops.n);
  e[launch] = 1;
  const auto p = products ? product_of(k) : std::nullopt;
  const bool grouped = p && !as_dense && is_grouped(k);
  e[grouped ? grouped_flop : flop] = flops;
  e[grouped ? grouped_byte : byte] = moved_by(k);
  if (!p || grouped) return e;
  e[result] = flops / std::max(1.0, p->k);
  e[left] = flops / std::max(1.0, p->n);
  e[right] = flops / std::max(1.0, p->m);
  const auto rows = rows_of(k);
  if (std::min(alignment(rows[0]), alignment(rows[1])) < 3) e[odd_flop] = flops;
  return e;
}

double KernelCurve::seconds(const Kernel& k, bool as_dense) const {
  const Efforts e = efforts(k, products, as_dense);
  return std::max(1e-8, std::inner_product(e.begin(), e.end(), per.begin(), 0.0));
}

KernelCurve KernelCurve::from_json(const Json& json) {
  KernelCurve c;
  c.products = json.find(kEffortNames[result]) != nullptr;
  for (std::size_t e = 0; e < (c.products ? kEfforts : result); ++e)
    c.per[e] = json.at(kEffortNames[e]).as_real(0, e == launch ? 1e3 : 1);
  c.spread = json.at("spread").as_real(0, 100);
  c.samples = json.at("samples").as_int(0);
  return c;
}

void KernelCurve::to_json(JsonWriter& out) const {
  for (std::size_t e = 0; e < (products ? kEfforts : result); ++e) out[std::string(kEffortNames[e])] = per[e];
  out["spread"] = spread;
  out["samples"] = samples;
}

std::vector<double> position(const Kernel& k, Bytes step, bool apart) {
  if (k.pass == Pass::update && !k.shape.empty()) {
    const double elements = std::max(1.0, number(k.shape[0]));
    return {log_of(number(step.n)), 4 * log_of(number(k.flops.n) / elements),
            4 * log_of(number(k.read.n) / elements), 4 * log_of(number(k.written.n) / elements)};
  }
  if (const auto product = apart ? product_of(k) : std::nullopt) return position_of(k, *product);
  std::vector<double> p{0.5 * log_of(number(k.flops.n)), 0.5 * log_of(moved_by(k))};
  if (k.kind == KernelKind::conv) {
    const ConvShape s = ConvShape::unpack(k.shape);
    const auto volume = [](const std::array<int64_t, 3>& a) { return number(a[0] * a[1] * a[2]); };
    for (const double v :
         {number(s.batch), number(s.in_channels / s.groups), number(s.out_channels / s.groups),
          number(s.groups), volume(s.out), volume(s.kernel), volume(s.stride)})
      p.push_back(log_of(v));
    // Vector kernels work on sixteen channels at a time: what a group of channels leaves empty costs as much.
    for (const int64_t c : {s.in_channels / s.groups, s.out_channels / s.groups})
      p.push_back(3 * std::log2(number((c + 15) / 16 * 16) / number(c)));
    return p;
  }
  if (k.kind == KernelKind::gemm || k.kind == KernelKind::attention) {
    for (const int64_t n : k.shape) p.push_back(log_of(number(n)));
    return p;
  }
  // What a pass over memory does to each element tells a tanh from a copy.
  const double elements = std::max(1.0, std::max(number(k.read.n), number(k.written.n)) / 4);
  p.push_back(4 * log_of(number(k.flops.n) / elements));
  p.push_back(4 * log_of(number(k.read.n) / elements));
  p.push_back(4 * log_of(number(k.written.n) / elements));
  if (!k.shape.empty()) p.push_back(0.3 * log_of(number(k.shape[0])));
  if (apart) p.push_back(k.fused ? kFused : 0);
  return p;
}

KernelNeighbours::KernelNeighbours(std::vector<KernelSample> samples, std::vector<KernelCurve> curves,
                                   bool apart)
    : samples_(std::move(samples)),
      curves_(std::move(curves)),
      apart_(apart),
      members_(std::size_t{kKernelKinds} * kPasses) {
  curves_.resize(members_.size());
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const Kernel& k = samples_[i].kernel;
    marks_ = marks_ || k.fused;
    members_[group(k)].push_back(i);
    positions_.push_back(position(k, samples_[i].step, apart_));
    residuals_.push_back(std::log(samples_[i].seconds / curves_[group(k)].seconds(k)));
  }
}

/// Beyond its start as a dense one of a group's sizes would take, or as what streams as many bytes does.
double KernelNeighbours::seconds_in_groups(const Kernel& k) const {
  const KernelCurve& curve = curves_[group(k)];
  const double start = curve.per[KernelCurve::launch];
  const ConvShape s = ConvShape::unpack(k.shape);
  if (s.groups < s.in_channels) return start + (curve.seconds(k, true) - start) / kGroupedRate;
  const KernelCurve& elementwise = curves_[group({.kind = KernelKind::elementwise})];
  return start + elementwise.per[KernelCurve::byte] * moved_by(k) /
                     kDepthwiseRate.at(static_cast<std::size_t>(k.pass));
}

double KernelNeighbours::seconds(const Kernel& k, Bytes step, double* distance,
                                 std::optional<uint32_t> without) const {
  std::vector<double> at = position(k, step, apart_);
  if (apart_ && k.fused && !marks_) at.back() = 0;
  const bool grouped = apart_ && is_grouped(k);
  bool known = !grouped;
  double weights = 0, sum = 0, nearest = kFar;
  for (const std::size_t i : members_[group(k)]) {
    if (without && samples_[i].source == *without) continue;
    if (positions_[i].size() != at.size()) continue;
    double square = 0;
    for (std::size_t d = 0; d < at.size(); ++d)
      square += (at[d] - positions_[i][d]) * (at[d] - positions_[i][d]);
    nearest = std::min(nearest, std::sqrt(square));
    known = known || is_grouped(samples_[i].kernel);
    const double w = 1 / ((square + 1e-3) * (square + 1e-3));
    weights += w;
    sum += w * residuals_[i];
  }
  if (distance != nullptr) *distance = known ? nearest : kUnlike;
  if (!known) return seconds_in_groups(k) * number(k.repeat);
  // Far from everything measured the curve alone speaks.
  constexpr double kCurve = 1.0 / (16 * 16);
  return curves_[group(k)].seconds(k) * std::exp(sum / (weights + kCurve)) * number(k.repeat);
}

void note_far(const Kernel& k, std::vector<std::string>& notes) {
  std::string note = fmt::format("{} {} kernels unlike any measured: priced by the fitted curve",
                                 name(k.kind), name(k.pass));
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(std::move(note));
}

}  // namespace tandem::sim
