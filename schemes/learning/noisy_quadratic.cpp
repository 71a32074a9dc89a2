// SPDX-License-Identifier: Apache-2.0
#include "schemes/learning/noisy_quadratic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

namespace tandem::schemes {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kMostSteps = 1e9;

/// Directions whose curvatures are within half of each other count as one.
struct Direction {
  double curvature = 0;
  double weight = 0;  ///< share of the loss at the start
};

std::vector<Direction> make_directions() {
  constexpr double kDirections = 10'000, kApart = 1.5;
  std::vector<Direction> out;
  double sum = 0;
  for (double i = 1; i <= kDirections;) {
    const double next = std::min(kDirections + 1, std::max(i + 1, std::floor(i * kApart)));
    double logs = 0;
    for (double k = i; k < next; ++k) logs += std::log(k);
    const double curvature = std::exp(-logs / (next - i));
    out.push_back({curvature, curvature * (next - i)});
    sum += out.back().weight;
    i = next;
  }
  for (Direction& d : out) d.weight /= sum;
  return out;
}

const std::vector<Direction>& directions() {
  static const std::vector<Direction> all = make_directions();
  return all;
}

/// What remains of a mean square of x, which after many steps is `noise`, in `steps` of rate (1 - step)^2.
double moved(double square, double noise, double kept) { return noise + (square - noise) * kept; }

/// Of one model after that many steps, over the start's.
double loss_of_one(const NoisyQuadratic& q, double samples, double rate, double steps) {
  double loss = 0;
  for (const Direction& d : directions()) {
    const double kept = std::abs(1 - rate * d.curvature),
                 floor = rate * q.noise / samples / (2 - rate * d.curvature);
    loss += d.weight * moved(1, floor, std::exp(2 * steps * std::log(kept + 1e-300)));
  }
  return loss;
}

double steps_at(const NoisyQuadratic& q, double samples, double rate) {
  double low = 0, high = 1;
  while (loss_of_one(q, samples, rate, high) > q.target) {
    low = high;
    high *= 2;
    if (high > kMostSteps) return kNever;
  }
  for (int i = 0; i < 20; ++i) {
    const double middle = (low + high) / 2;
    (loss_of_one(q, samples, rate, middle) > q.target ? low : high) = middle;
  }
  return high;
}

/// The least of what falls and then rises with the learning rate, by golden sections of its logarithm; beyond
/// some rate the target is never reached.
QuadraticSteps least(double lowest, const std::function<double(double rate)>& steps) {
  constexpr double kGolden = 0.6180339887498949;
  double low = std::log(lowest), high = std::log(1.98);
  double a = high - kGolden * (high - low), b = low + kGolden * (high - low);
  double at_a = steps(std::exp(a)), at_b = steps(std::exp(b));
  for (int i = 0; i < 16; ++i) {
    if (at_a <= at_b) {
      high = b, b = a, at_b = at_a;
      a = high - kGolden * (high - low);
      at_a = steps(std::exp(a));
    } else {
      low = a, a = b, at_a = at_b;
      b = low + kGolden * (high - low);
      at_b = steps(std::exp(b));
    }
  }
  return at_a <= at_b ? QuadraticSteps{at_a, std::exp(a)} : QuadraticSteps{at_b, std::exp(b)};
}

/// By bisection of the logarithm: where a rising function passes `value`.
double solve(double low, double high, double value, const std::function<double(double)>& rising) {
  low = std::log(low), high = std::log(high);
  for (int i = 0; i < 14; ++i) {
    const double middle = (low + high) / 2;
    (rising(std::exp(middle)) < value ? low : high) = middle;
  }
  return std::exp((low + high) / 2);
}

/// Mean squares and products in one direction of x (the models' mean), a (the anchor) and v (its velocity),
/// and the mean square of the distance of a model from x.
struct Moments {
  std::array<std::array<double, 3>, 3> of{{{1, 1, 0}, {1, 1, 0}, {0, 0, 0}}};
  double apart = 0;
};
using Linear = std::array<std::array<double, 3>, 3>;

/// What an average makes of (x, a, v).
Linear average_of(const Averaging& rule) {
  using Rule = Averaging::Rule;
  const double r = rule.rate, w = rule.weight;
  switch (rule.rule) {
    case Rule::elastic:
      return {{{1 - w, w, 0}, {r, 1 - r, 0}, {0, 0, 0}}};
    case Rule::momentum:
      return {{{r, 1 - r, r * w}, {r, 1 - r, r * w}, {1, -1, w}}};
    case Rule::nesterov:
      return {
          {{r * (1 + w), 1 - r * (1 + w), r * w * w}, {r * (1 + w), 1 - r * (1 + w), r * w * w}, {1, -1, w}}};
    default:
      return {{{1, 0, 0}, {1, 0, 0}, {0, 0, 0}}};
  }
}

void average_moments(const Linear& t, Moments& m) {
  Linear half{}, out{};
  for (std::size_t i = 0; i < 9; ++i)
    for (std::size_t j = 0; j < 3; ++j) half[i / 3][i % 3] += t[i / 3][j] * m.of[j][i % 3];
  for (std::size_t i = 0; i < 9; ++i)
    for (std::size_t j = 0; j < 3; ++j) out[i / 3][i % 3] += half[i / 3][j] * t[i % 3][j];
  m.of = out;
}

/// Partners average while they compute (AD-PSGD): what a model steps by meets the others an average later.
bool averages_first(const SyncShape& s) {
  return s.averaging.rule == Averaging::Rule::elastic && s.averaging.weight == 0;
}

/// The models of a shape in one direction at one learning rate, in blocks, several of which are a period.
class Mode {
 public:
  Mode(const SyncShape& shape, double curvature, double rate, double noise, int64_t blocks)
      : apart_floor_(shape.models - 1),
        left_(shape.mixing * shape.mixing),
        first_(averages_first(shape)),
        rule_(average_of(shape.averaging)) {
    const double kept = 1 - rate * curvature, steps = shape.period / static_cast<double>(blocks);
    floor_ = rate * noise / shape.step_samples / (2 - rate * curvature);
    apart_floor_ *= floor_;
    once_ = blocks == 1 ? std::pow(kept, steps) : std::pow(std::abs(kept), steps);
    mean_ = (1 - once_ * once_) / (steps * (1 - kept * kept));
  }

  /// Mean square of a model's distance from the minimum over the next block's steps, each judged before it.
  double block(bool together, bool last_of_period) {
    double &square = moments_.of[0][0], &apart = moments_.apart;
    const double floor = together ? 0 : apart_floor_, twice = once_ * once_;
    const double seen = moved(square, floor_, mean_) + moved(apart, floor, mean_);
    square = moved(square, floor_, twice);
    for (const std::size_t other : {1, 2}) moments_.of[0][other] = moments_.of[other][0] *= once_;
    if (last_of_period && first_) apart *= left_;
    apart = moved(apart, floor, twice);
    if (!last_of_period) return seen;
    if (!first_) apart *= left_;
    average_moments(rule_, moments_);
    return seen;
  }

 private:
  double apart_floor_, left_;
  bool first_;
  double floor_ = 0;            ///< of the mean square of x after many steps
  double once_ = 0, mean_ = 0;  ///< what a block keeps of x; what it has of its square on average
  Linear rule_;
  Moments moments_;
};

/// Until a block's mean loss is at the target; blocks are no longer than `longest`. What is not there after
/// `most` steps counts as later, by what it lacks.
double steps_apart(const NoisyQuadratic& q, const SyncShape& shape, double rate, double longest,
                   double most) {
  const auto blocks = static_cast<int64_t>(std::max(1.0, std::ceil(shape.period / longest)));
  const double length = shape.period / static_cast<double>(blocks);
  std::vector<Mode> modes;
  for (const Direction& d : directions()) modes.emplace_back(shape, d.curvature, rate, q.noise, blocks);
  double before = 1, at = 0;
  int64_t block = 0;
  for (double step = 0; step < most; step += length) {
    const bool together = step < static_cast<double>(shape.apart_from), last = ++block % blocks == 0;
    double loss = 0;
    for (std::size_t i = 0; i < modes.size(); ++i)
      loss += directions()[i].weight * modes[i].block(together, last);
    const double middle = step + std::max(0.0, length - 1) / 2;
    if (loss <= q.target)
      return before > loss ? at + (middle - at) * (before - q.target) / (before - loss) : middle;
    if (!(loss < 100)) return kNever;
    before = loss;
    at = middle;
  }
  return most * (1 + before);
}

}  // namespace

QuadraticSteps steps_of_one(const NoisyQuadratic& q, double samples) {
  return least(1e-6, [&](double rate) { return steps_at(q, samples, rate); });
}

NoisyQuadratic fit_quadratic(double fewest, double noise) {
  constexpr double kSmall = 1.0 / 16;
  // In units of `noise` samples. The lower the target, the less noise leaves that many small steps, and the
  // more large ones it takes.
  const auto with = [&](double target) {
    NoisyQuadratic q{target, 0};
    q.noise = solve(1e-6, 1e6, fewest * (1 + 1 / kSmall), [&](double n) {
      return steps_of_one({target, n}, kSmall).steps;
    });
    return q;
  };
  const double reached =
      solve(1, 1e3, 2 * fewest, [&](double k) { return steps_of_one(with(1 / k), 1).steps; });
  NoisyQuadratic out = with(1 / reached);
  out.noise *= noise;
  return out;
}

QuadraticSteps steps_of_shape(const NoisyQuadratic& q, const SyncShape& shape) {
  // Models that never meet step by their own gradients alone: nobody needs much more than these.
  const QuadraticSteps one = steps_of_one(q, shape.step_samples);
  const double longest = std::max(1.0, one.steps / 16);
  const double most = 2 * shape.models * one.steps + 100 * shape.period;
  return least(one.learning_rate / 64,
               [&](double rate) { return steps_apart(q, shape, rate, longest, most); });
}

double quadratic_square(const SyncShape& shape, double curvature, double rate, double noise, int64_t period) {
  Mode mode(shape, curvature, rate, noise, 1);
  double out = 1;
  for (int64_t i = 0; i < period; ++i)
    out = mode.block(i * static_cast<int64_t>(shape.period) < shape.apart_from, true);
  return out;
}

}  // namespace tandem::schemes
