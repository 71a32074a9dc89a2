// SPDX-License-Identifier: Apache-2.0
#include "schemes/learning/progress.h"

#include <algorithm>

#include "schemes/learning/noisy_quadratic.h"

namespace tandem::schemes {

StepsNeeded steps_needed(const SyncShape& shape, double delay, double noise, double fewest) {
  const double relative = 1 + delay + noise / shape.step_samples;
  StepsNeeded out{relative, 1 / relative};
  if (shape.models <= 1) return out;
  // Where noise is all or nothing more or less of it changes nothing; and so do more steps than these.
  constexpr double kMostNoise = 1000, kMostSteps = 20'000, kMostFewest = 1000, kLeastFewest = 4;
  const double scale = std::clamp(noise, shape.step_samples / kMostNoise, shape.step_samples * kMostNoise);
  const double few =
      std::clamp(fewest, kLeastFewest, std::min(kMostFewest, kMostSteps / (1 + scale / shape.step_samples)));
  SyncShape shown = shape;
  shown.apart_from =
      static_cast<int64_t>(static_cast<double>(shape.apart_from) * std::min(1.0, few / fewest));
  const NoisyQuadratic q = fit_quadratic(few, scale);
  const QuadraticSteps one = steps_of_one(q, shape.step_samples), apart = steps_of_shape(q, shown);
  out.relative *= apart.steps / one.steps;
  out.learning_rate_share *= apart.learning_rate / one.learning_rate;
  return out;
}

double fewest_steps(double samples, double step_samples, double noise) {
  return samples / (step_samples + noise);
}

std::string_view name(TrainingProgress::Target target) {
  switch (target) {
    case TrainingProgress::Target::loss:
      return "loss";
    case TrainingProgress::Target::epochs:
      return "epochs";
    case TrainingProgress::Target::tokens:
      return "tokens";
    case TrainingProgress::Target::samples:
      return "samples";
  }
  return "";
}

namespace {

constexpr std::pair<const char*, std::optional<double> TrainingProgress::*> kMaybe[] = {
    {"samples", &TrainingProgress::samples},
    {"steps", &TrainingProgress::steps},
    {"seconds", &TrainingProgress::seconds},
    {"seconds_low", &TrainingProgress::seconds_low},
    {"seconds_high", &TrainingProgress::seconds_high},
    {"goodput_share", &TrainingProgress::goodput},
    {"seconds_as_far", &TrainingProgress::seconds_as_far},
    {"noise_scale_samples", &TrainingProgress::noise_scale},
    {"efficiency", &TrainingProgress::efficiency},
    {"learning_rate_share", &TrainingProgress::learning_rate_share}};
constexpr std::pair<const char*, double TrainingProgress::*> kAlways[] = {
    {"samples_per_step", &TrainingProgress::step_samples},
    {"delay_steps", &TrainingProgress::delay},
    {"models", &TrainingProgress::models},
    {"averaging_period_steps", &TrainingProgress::period},
    {"mixing", &TrainingProgress::mixing},
    {"target_value", &TrainingProgress::value}};

}  // namespace

JsonWriter progress_json(const TrainingProgress& p) {
  JsonWriter out;
  out["target"] = name(p.target);
  for (const auto& [key, value] : kAlways) out[key] = p.*value;
  out["measured"] = p.measured;
  for (const auto& [key, value] : kMaybe) out[key] = p.*value;
  out["noise_scale_source"] = p.noise_source;
  out["sources"] = p.sources;
  out["unknown"] = p.unknown;
  return out;
}

TrainingProgress read_progress(const Json& d) {
  TrainingProgress p;
  const std::string target = d.text("target", "loss");
  using Target = TrainingProgress::Target;
  for (const Target t : {Target::loss, Target::epochs, Target::tokens, Target::samples}) {
    if (name(t) == target) p.target = t;
  }
  for (const auto& [key, value] : kAlways) p.*value = d.real(key, p.*value);
  p.measured = d.boolean("measured", false);
  for (const auto& [key, value] : kMaybe) {
    const Json* number = d.find(key);
    if (number != nullptr && number->kind() != Json::Kind::null) p.*value = number->as_real();
  }
  p.noise_source = d.text("noise_scale_source", "");
  for (const auto& [key, list] : {std::pair{"sources", &p.sources}, std::pair{"unknown", &p.unknown}}) {
    const Json* texts = d.find(key);
    if (texts == nullptr) continue;
    for (const Json& each : texts->items()) list->push_back(each.as_text());
  }
  return p;
}

}  // namespace tandem::schemes
