// SPDX-License-Identifier: Apache-2.0
#include "answers/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/data.h"
#include "base/json.h"

namespace tandem::answers {

namespace {

using Target = TrainingProgress::Target;
bool lists(const Json& models, const std::string& name) {
  return std::any_of(models.items().begin(), models.items().end(),
                     [&](const Json& m) { return m.as_text() == name; });
}

/// Kaplan et al. count parameters without embeddings.
double parameters_without_embeddings(const Graph& graph) {
  double out = 0;
  for (const Layer& layer : graph.layers()) {
    if (layer.type != nullptr && layer.type->name.ends_with("embedding")) continue;
    for (const Parameter& p : layer.parameters) out += static_cast<double>(p.elements);
  }
  return out;
}

void add_language_model(const Json& law, const Graph& graph, double loss, LearningFacts& out) {
  law.only({"parameters", "parameters_exponent", "steps", "steps_exponent", "batch_tokens", "batch_exponent",
            "source", "models"});
  if (!(loss > 0) || !lists(law.at("models"), graph.name())) return;
  out.source = law.at("source").as_text();
  out.noise_tokens =
      law.at("batch_tokens").as_real(1) / std::pow(loss, 1 / law.at("batch_exponent").as_real(0.01, 1));
  out.least_loss = std::pow(law.at("parameters").as_real(1) / parameters_without_embeddings(graph),
                            law.at("parameters_exponent").as_real(0, 1));
  if (loss > out.least_loss)
    out.fewest_steps = law.at("steps").as_real(1) /
                       std::pow(loss - out.least_loss, 1 / law.at("steps_exponent").as_real(0.01, 10));
}

/// For one report.
class Answer {
 public:
  Answer(const ProgressQuestion& q, const Graph& graph, const Program& program, const Report& report)
      : q_(q), graph_(graph), report_(report), shape_(sync_shape(program)) {
    p_.target = q.target;
    p_.value = q.value;
    p_.step_samples = shape_.step_samples;
    p_.models = shape_.models;
    p_.period = shape_.period;
    p_.mixing = shape_.mixing;
    p_.delay = mean_delay(program, report.staleness.all);
  }

  TrainingProgress progress() {
    facts_ = learning_facts(graph_, q_.target == TrainingProgress::Target::loss ? q_.value : 0);
    noise();
    if (q_.target == TrainingProgress::Target::loss)
      to_loss();
    else
      budget();
    if (p_.noise_scale) worth();
    if (p_.samples) times();
    return p_;
  }

 private:
  void noise() {
    const auto tokens = static_cast<double>(graph_.tokens_per_sample());
    if (q_.noise_scale) {
      p_.noise_scale = q_.noise_scale;
      p_.noise_source = "--noise-scale";
    } else if (facts_.noise_tokens && tokens > 0) {
      p_.noise_scale = *facts_.noise_tokens / tokens;
      p_.noise_source = facts_.source;
    } else {
      p_.unknown.push_back(fmt::format(
          "what a sample is worth: the gradient noise scale of {} is unknown{}; give --noise-scale SAMPLES, "
          "and \"tandem run --measure-noise\" measures it",
          graph_.name(), q_.target == TrainingProgress::Target::loss ? " at this loss" : ""));
    }
  }

  void worth() {
    const double noise = *p_.noise_scale;
    const StepsNeeded needed = steps_needed(shape_, p_.delay, noise, fewest_.value_or(kManySteps));
    p_.efficiency = noise > 0 ? noise / (p_.step_samples * needed.relative) : 0;
    p_.learning_rate_share = needed.learning_rate_share;
    p_.sources.emplace_back("steps and learning rate by batch: McCandlish et al. 2018");
    if (p_.delay > 0)
      p_.sources.emplace_back("steps by delay: Stich and Karimireddy 2020, rate of delayed gradients");
    if (p_.models > 1)
      p_.sources.emplace_back("steps of models apart: the noisy quadratic model of Zhang et al. 2019");
  }

  void to_loss() {
    if (q_.needed && p_.noise_scale) {
      set_steps(fewest_steps(*q_.needed, q_.needed_step, *p_.noise_scale));
    } else if (!q_.needed && facts_.fewest_steps && p_.noise_scale) {
      set_steps(*facts_.fewest_steps);
      p_.sources.push_back("fewest steps: " + facts_.source);
    } else if (facts_.least_loss > 0 && !facts_.fewest_steps && !q_.needed) {
      p_.unknown.push_back(
          fmt::format("samples to loss {:g}: a model of this size cannot go below {:.3g} ({})", q_.value,
                      facts_.least_loss, facts_.source));
    } else if (!q_.needed) {
      p_.unknown.push_back(fmt::format(
          "samples to loss {:g}: give --samples-to-target SAMPLES@BATCH, what one worker needed; \"tandem "
          "run --devices 1 --target-loss {:g}\" measures it",
          q_.value, q_.value));
    }
  }

  void set_steps(double fewest) {
    fewest_ = fewest;
    p_.steps = fewest * steps_needed(shape_, p_.delay, *p_.noise_scale, fewest).relative;
    p_.samples = *p_.steps * p_.step_samples;
  }

  /// For that many samples; the exact gradient would get there in fewer steps.
  void budget() {
    if (q_.target == TrainingProgress::Target::tokens) {
      const auto tokens = static_cast<double>(graph_.tokens_per_sample());
      if (!(tokens > 0)) refuse_option("tokens", fmt::format("samples of {} are no tokens", graph_.name()));
      p_.samples = q_.value / tokens;
    } else if (q_.target == TrainingProgress::Target::samples) {
      p_.samples = q_.value;
    } else if (q_.epoch_samples || facts_.epoch_samples) {
      p_.samples = q_.value * q_.epoch_samples.value_or(facts_.epoch_samples.value_or(0));
      p_.sources.push_back("samples of an epoch: " +
                           (q_.epoch_samples ? std::string("--epoch-samples") : facts_.epoch_source));
    } else {
      p_.unknown.push_back(fmt::format("samples of an epoch of {}: give --epoch-samples", graph_.name()));
    }
    if (!p_.samples) return;
    p_.steps = *p_.samples / p_.step_samples;
    if (p_.noise_scale) fewest_ = *p_.steps / (1 + *p_.noise_scale / p_.step_samples);
  }

  void times() {
    if (report_.goodput) p_.goodput = report_.goodput->share;
    const auto over = [&](double rate) -> std::optional<double> {
      rate *= p_.goodput.value_or(1);
      return rate > 0 ? std::optional(*p_.samples / rate) : std::nullopt;
    };
    p_.seconds = over(report_.rate.samples_per_second);
    p_.seconds_low = over(report_.rate.interval.high);
    p_.seconds_high = over(report_.rate.interval.low);
    const bool budget = p_.target != TrainingProgress::Target::loss;
    if (budget && p_.seconds && p_.efficiency && *p_.efficiency > 0)
      p_.seconds_as_far = *p_.seconds / *p_.efficiency;
  }

  static constexpr double kManySteps = 1000;  ///< assumed length of a training of unknown length

  const ProgressQuestion& q_;
  const Graph& graph_;
  const Report& report_;
  const SyncShape shape_;
  LearningFacts facts_;
  std::optional<double> fewest_;  ///< needed with the exact gradient
  TrainingProgress p_;
};

}  // namespace

LearningFacts learning_facts(const Graph& graph, double target_loss) {
  const Json document = Json::load(data_root() + "/calibration/profiles/progress.json");
  document.only({"data_sets", "language_models"});
  LearningFacts out;
  for (const Json& set : document.at("data_sets").items()) {
    set.only({"name", "samples", "source", "models"});
    if (!lists(set.at("models"), graph.name())) continue;
    out.epoch_samples = set.at("samples").as_real(1);
    out.epoch_source = fmt::format("{} ({})", set.at("name").as_text(), set.at("source").as_text());
  }
  add_language_model(document.at("language_models"), graph, target_loss, out);
  return out;
}

void add_progress(const ProgressQuestion& question, const Graph& graph, const Program& program,
                  Report& report) {
  if (report.fits) report.progress = Answer(question, graph, program, report).progress();
}

}  // namespace tandem::answers
