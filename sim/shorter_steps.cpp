// SPDX-License-Identifier: Apache-2.0
#include "sim/shorter_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace tandem::sim {

namespace {

/// Straight lines through what two numbers of micro-batches gave.
class Extension {
 public:
  explicit Extension(double beyond) : beyond_(beyond) {}
  double of(double few, double more) const { return std::max(0.0, more + beyond_ * (more - few)); }
  Time of(Time few, Time more) const {
    return Time{std::llround(of(static_cast<double>(few.ps), static_cast<double>(more.ps)))};
  }
  template <std::size_t n>
  void apply(const Time (&few)[n], Time (&more)[n]) const {
    for (std::size_t i = 0; i < n; ++i) more[i] = of(few[i], more[i]);
  }
  template <typename T>
  void apply(const std::vector<T>& few, std::vector<T>& more) const {
    TANDEM_CHECK(few.size() == more.size());
    for (std::size_t i = 0; i < more.size(); ++i) more[i] = of(few[i], more[i]);
  }

 private:
  double beyond_;
};

}  // namespace

std::optional<ShorterSteps> shorter_steps(const Program& program, int64_t micro_batches,
                                          int64_t most_executions) {
  const int64_t all = executions(program);
  if (program.grid.axes.empty() || program.micro_batches != 1 || all <= most_executions) return std::nullopt;
  const int64_t stages = working_roles(program);
  if (stages == 1) return std::nullopt;  // its devices do the same at the same time
  const int64_t each = (all + micro_batches - 1) / micro_batches;
  const int64_t more = most_executions / each / stages * stages, few = more / 2 / stages * stages;
  if (few < 2 * stages || more >= micro_batches) return std::nullopt;
  return ShorterSteps{few, more, micro_batches};
}

ResolvedScheme with_micro_batches(const ResolvedScheme& scheme, int64_t micro_batches) {
  ResolvedScheme out = scheme;
  auto settings = scheme.options.all();
  settings.emplace_back("microbatches", std::to_string(micro_batches));
  out.options = Options(scheme.scheme->options, settings, scheme.name, {});
  return out;
}

Trace extended(const Trace& few, const Trace& more, const ShorterSteps& steps) {
  Trace out = more;
  const Extension extension(steps.beyond());
  extension.apply(few.iteration_end, out.iteration_end);
  extension.apply(few.busy, out.busy);
  extension.apply(few.exposed, out.exposed);
  extension.apply(few.moved, out.moved);
  extension.apply(few.link_bytes, out.link_bytes);
  out.makespan = extension.of(few.makespan, more.makespan);
  for (const auto& [worker, time] : few.awaited) out.awaited.try_emplace(worker);
  for (auto& [worker, time] : out.awaited) {
    const auto at = few.awaited.find(worker);
    time = extension.of(at == few.awaited.end() ? Time{} : at->second, time);
  }
  out.events += few.events;
  out.reason += fmt::format("; steps of {} and {} micro-batches are simulated, and extended to {}", steps.few,
                            steps.more, steps.all);
  return out;
}

}  // namespace tandem::sim
