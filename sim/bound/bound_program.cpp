// SPDX-License-Identifier: Apache-2.0
#include "sim/bound/bound_program.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace tandem::sim {

namespace {

// Each kind of draw has its own stream.
enum Stream : uint64_t {
  kCompute = 0x636f6d70,
  kIteration = 0x69746572,
  kNetwork = 0x6e657477,
  kRecorded = 0x7265636f,
  kStraggle = 0x73747261,
  kStraggler = 0x736c6f77,
  kPause = 0x70617573
};

double lognormal(double sigma, uint64_t bits) {
  return sigma == 0 ? 1.0 : std::exp(sigma * to_normal(bits) - sigma * sigma / 2);
}

/// The mean of a series that repeats, each entry lasting 1, from `from` to `to` after entry `first`.
double recorded_mean(const std::vector<double>& series, uint64_t first, double from, double to) {
  double sum = 0;
  for (auto i = static_cast<uint64_t>(from); static_cast<double>(i) < to; ++i) {
    const auto at = static_cast<double>(i);
    sum += series[(first + i) % series.size()] * (std::min(to, at + 1) - std::max(from, at));
  }
  return sum / (to - from);
}

/// Of the pauses that begin within `seconds` of work: their number is a Poisson variable, by inversion.
double pause_seconds(const Pauses& pauses, double seconds, uint64_t bits) {
  constexpr double kMany = 500;  // of that many the sum is as good as its mean
  const double mean = seconds / pauses.every, u = to_unit(bits);
  if (mean > kMany) return mean * pauses.length;
  if (u < 1 - mean) return 0;  // less than e^-mean: the usual case, without the exponential
  double term = std::exp(-mean), below = term, sum = 0;
  for (int k = 1; u >= below && k < 4 * kMany; ++k) {
    bits = mix64(bits);
    sum -= pauses.length * std::log1p(-to_unit(bits));
    term *= mean / k;
    below += term;
  }
  return sum;
}

}  // namespace

Time scaled(Time t, double factor) {
  if (factor == 1) return t;
  return {picoseconds(t.seconds() * factor)};
}

double Transfer::rate_alone(const std::vector<double>& capacity) const {
  double rate = cap > 0 ? cap : std::numeric_limits<double>::infinity();
  for (const Use& use : uses) {
    if (use.weight > 0) rate = std::min(rate, capacity.at(use.link) / static_cast<double>(use.weight));
  }
  return rate;
}

Time Transfer::payload(double rate, double factor) const {
  return bytes == 0 ? Time{} : Time{picoseconds(bytes * factor / rate)};
}

void Transfer::stretch(double factor) {
  latency = scaled(latency, factor);
  cap /= factor;
  for (Use& use : uses) use.weight *= factor;
  for (Use& use : resolved) use.weight *= factor;
}

namespace {

class StretchedMessages : public BoundProgram::Messages {
 public:
  StretchedMessages(std::shared_ptr<Messages> messages, double deviations)
      : messages_(std::move(messages)), deviations_(deviations) {}
  const Transfer& message(uint32_t channel, uint32_t key, uint32_t sender, uint32_t receiver) override {
    message_ = messages_->message(channel, key, sender, receiver);
    message_.stretch(std::exp(deviations_ * message_.spread));
    return message_;
  }
  Time apply(uint32_t store, uint32_t key, uint32_t shard) override {
    return messages_->apply(store, key, shard);
  }
  Time snapshot(uint32_t store, uint32_t key, uint32_t shard) override {
    return messages_->snapshot(store, key, shard);
  }

 private:
  std::shared_ptr<Messages> messages_;
  double deviations_;
  Transfer message_;
};

}  // namespace

BoundProgram BoundProgram::stretched(double deviations) const {
  BoundProgram out = *this;
  for (Transfer& t : out.transfers) t.stretch(std::exp(deviations * t.spread));
  if (messages) out.messages = std::make_shared<StretchedMessages>(messages, deviations);
  return out;
}

Time Transfer::delay(double factor) const { return scaled(latency, factor); }

Time Transfer::alone(const std::vector<double>& capacity, double factor) const {
  return payload(rate_alone(capacity), factor) + delay(factor);
}

double BoundProgram::iteration_factor(uint32_t role, uint32_t instance, uint32_t iteration) const {
  const Disturbance& d = disturbance;
  double factor = lognormal(d.iteration_sigma, draw_bits(seed ^ kIteration, role, instance, iteration));
  if (d.straggle_probability > 0 &&
      to_unit(draw_bits(seed ^ kStraggle, role, instance, iteration)) < d.straggle_probability) {
    factor *= d.straggle_factor;
  }
  double slower = straggles(role, instance) ? d.stragglers.slow : 1;  // permanently
  if (role == 0) {
    for (const auto& [slow, by] : d.slow) {
      if (slow == instance) slower *= by;
    }
    if (!d.recorded.empty()) {
      const uint64_t round = instance / d.recorded.size();
      factor *= recorded_mean(d.recorded[instance % d.recorded.size()],
                              draw_bits(seed ^ kRecorded, role + (round << 8)), slower * iteration,
                              slower * (iteration + 1.0));
    }
  }
  return factor * slower;
}

bool BoundProgram::straggles(uint32_t role, uint32_t instance) const {
  const double share = disturbance.stragglers.share;
  return share > 0 && program->roles[role].works() &&
         to_unit(draw_bits(seed ^ kStraggler, role, instance)) < share;
}

double BoundProgram::op_factor(uint32_t role, uint32_t instance, uint32_t iteration, uint32_t op) const {
  const Disturbance& d = disturbance;
  if (!d.per_op()) return 1;
  const double noise = lognormal(d.compute_sigma, draw_bits(seed ^ kCompute, role, instance, iteration, op));
  if (!(d.pauses.every > 0) || !program->roles[role].works()) return noise;
  const double seconds = roles[role].duration[roles[role].class_at(instance)][op].seconds();
  if (seconds == 0) return noise;
  const uint64_t bits = draw_bits(seed ^ kPause, role, instance, iteration, op);
  return noise * (1 + pause_seconds(d.pauses, seconds, bits) / seconds);
}

double BoundProgram::transfer_factor(uint32_t role, uint32_t instance, uint32_t iteration,
                                     uint32_t op) const {
  if (disturbance.network_sigma == 0) return 1;
  return lognormal(disturbance.network_sigma, draw_bits(seed ^ kNetwork, role, instance, iteration, op));
}

}  // namespace tandem::sim
