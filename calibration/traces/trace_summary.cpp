// SPDX-License-Identifier: Apache-2.0
#include "calibration/traces/trace_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/error.h"

namespace tandem::calibration {

namespace {

constexpr std::size_t kMostNamed = 20;

/// The time that counts, and where its steps begin.
struct Window {
  std::vector<double> begins;  ///< of steps, and the end
  double start() const { return begins.front(); }
  double end() const { return begins.back(); }
  auto steps() const { return static_cast<double>(begins.size() - 1); }
};

/// First and last of what each step launched; kernels whose launch is not in the trace belong to the step in
/// which they began.
std::vector<TracedStep> on_device(const Trace& trace) {
  std::vector<TracedStep> out(trace.steps.size(), {INFINITY, -INFINITY});
  for (const TracedKernel& k : trace.kernels) {
    const double at = std::isnan(k.launch_start) ? k.start : k.launch_start;
    const auto after = std::upper_bound(trace.steps.begin(), trace.steps.end(), at,
                                        [](double t, const TracedStep& s) { return t < s.start; });
    if (after == trace.steps.begin() || at > (after - 1)->end) continue;
    TracedStep& step = out[static_cast<std::size_t>(after - trace.steps.begin() - 1)];
    step.start = std::min(step.start, k.start);
    step.end = std::max(step.end, k.end);
  }
  std::erase_if(out, [](const TracedStep& s) { return s.end < s.start; });
  return out;
}

/// The first steps of a profiler or of an autotuner are no steps of a training.
void leave_out_warm_up(std::vector<double>& begins, std::vector<std::string>& notes) {
  constexpr double kLonger = 1.5;
  int64_t left_out = 0;
  while (begins.size() > 3) {
    std::vector<double> lengths;
    for (std::size_t i = 1; i < begins.size(); ++i) lengths.push_back(begins[i] - begins[i - 1]);
    const double first = lengths[0];
    std::nth_element(lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2),
                     lengths.end());
    if (first <= kLonger * lengths[lengths.size() / 2]) break;
    begins.erase(begins.begin());
    ++left_out;
  }
  if (left_out > 0)
    notes.push_back(fmt::format("the first {} took over {} times as long as the others and {} left out",
                                left_out == 1 ? "step" : fmt::format("{} steps", left_out), kLonger,
                                left_out == 1 ? "is" : "are"));
}

Window window_of(const Trace& trace, std::vector<std::string>& notes) {
  const std::vector<TracedStep> steps = on_device(trace);
  Window out;
  if (steps.size() > 1) {
    for (const TracedStep& s : steps) {
      if (out.begins.empty() || s.start > out.begins.back()) out.begins.push_back(s.start);
    }
    leave_out_warm_up(out.begins, notes);
    if (out.begins.size() > 1) return out;
    out.begins.clear();
  }
  double first = trace.kernels.front().start, last = 0;
  for (const TracedKernel& k : trace.kernels) last = std::max(last, k.end);
  if (steps.empty()) {
    notes.push_back("no marks of steps (ProfilerStep, Optimizer.step): the whole trace counts as one");
  } else {
    notes.push_back(
        "one step alone is in the trace: profilers make it longer, and no other tells by how much");
    first = std::min(steps[0].start, trace.steps[0].start);
    last = std::max(steps[0].end, trace.steps[0].end);
  }
  out.begins = {first, last};
  return out;
}

/// Seconds within the window in which any of the kernels that `counts` says runs.
template <typename Counts>
double together(const std::vector<TracedKernel>& by_start, const Window& window, Counts counts) {
  double out = 0, until = window.start();
  for (const TracedKernel& k : by_start) {
    if (!counts(k)) continue;
    if (k.start >= window.end()) break;
    const double end = std::min(k.end, window.end());
    if (end > until) out += end - std::max(k.start, until), until = end;
  }
  return out;
}

/// Time in which nothing runs until what runs next was launched.
double waits_for_host(const std::vector<TracedKernel>& by_start, const Window& window) {
  double out = 0, until = window.start();
  for (const TracedKernel& k : by_start) {
    if (k.start > window.end()) break;  // what begins the step after the last ends its gap
    if (k.start > until && !std::isnan(k.launch_end))
      out += std::clamp(k.launch_end - until, 0.0, k.start - until);
    until = std::max(until, k.end);
  }
  return out;
}

bool communicates(const TracedKernel& k) { return k.kind == TracedKind::communication; }
bool computes(const TracedKernel& k) { return !communicates(k) && k.kind != TracedKind::copy; }

template <typename T>
void most_seconds_first(std::vector<T>& all) {
  std::stable_sort(all.begin(), all.end(), [](const T& a, const T& b) { return a.seconds > b.seconds; });
}

void add_tables(const Trace& trace, const Window& window, TraceSummary& out) {
  std::array<TraceSummary::Kind, kTracedKinds> kinds{};
  std::vector<TraceSummary::Kernel> names(trace.names.size());
  std::map<std::tuple<std::string, int64_t, int64_t>, TraceSummary::Collective> collectives;
  for (const TracedKernel& k : trace.kernels) {
    if (k.start < window.start() || k.start >= window.end()) {
      out.outside += 1;
      continue;
    }
    const double seconds = (k.end - k.start) / window.steps(), count = 1 / window.steps();
    TraceSummary::Kind& kind = kinds[static_cast<std::size_t>(k.kind)];
    kind.kind = k.kind;
    kind.count += count, kind.seconds += seconds;
    TraceSummary::Kernel& name = names[k.name];
    name.kind = k.kind;
    name.count += count, name.seconds += seconds;
    out.launches += count;
    if (!communicates(k)) continue;
    const TracedCollective asked =
        k.collective < 0 ? TracedCollective{} : trace.collectives[static_cast<std::size_t>(k.collective)];
    const int64_t group = asked.group > 0 ? asked.group : trace.world_size;
    const std::string called = asked.kind.empty() ? "unknown" : asked.kind;
    TraceSummary::Collective& c = collectives[{called, asked.bytes, group}];
    c.least = c.count == 0 ? k.end - k.start : std::min(c.least, k.end - k.start);
    c.kind = called, c.bytes = asked.bytes, c.group = group;
    c.count += count, c.seconds += seconds;
  }
  for (const TraceSummary::Kind& kind : kinds) {
    if (kind.count > 0) out.kinds.push_back(kind);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i].name = trace.names[i];
    if (names[i].count > 0) out.kernels.push_back(std::move(names[i]));
  }
  for (auto& [key, c] : collectives) out.collectives.push_back(std::move(c));
  most_seconds_first(out.kinds);
  most_seconds_first(out.kernels);
  most_seconds_first(out.collectives);
  if (out.kernels.size() > kMostNamed) out.kernels.resize(kMostNamed);
}

}  // namespace

TraceSummary summary_of(const Trace& trace) {
  TraceSummary out;
  out.notes = trace.notes;
  const Window window = window_of(trace, out.notes);
  std::vector<double> lengths;
  for (std::size_t i = 1; i < window.begins.size(); ++i)
    lengths.push_back(window.begins[i] - window.begins[i - 1]);
  std::sort(lengths.begin(), lengths.end());
  out.steps = static_cast<int64_t>(lengths.size());
  const std::size_t middle = lengths.size() / 2;
  out.step_median = lengths.size() % 2 == 1 ? lengths[middle] : (lengths[middle - 1] + lengths[middle]) / 2;
  out.step_low = lengths.front();
  out.step_high = lengths.back();
  out.step_mean = (window.end() - window.start()) / window.steps();

  if (!(out.step_mean > 0)) throw InputError(trace.file + ": what ran on the device took no time");

  const auto each = [&](auto counts) { return together(trace.kernels, window, counts) / window.steps(); };
  out.busy = each([](const TracedKernel&) { return true; });
  out.compute = each(computes);
  out.communication = each(communicates);
  out.exposed_communication = out.busy - each([](const TracedKernel& k) { return !communicates(k); });
  out.exposed_copies = out.busy - each([](const TracedKernel& k) { return k.kind != TracedKind::copy; });
  out.idle = std::max(0.0, out.step_mean - out.busy);
  out.idle_for_host = std::min(out.idle, waits_for_host(trace.kernels, window) / window.steps());
  add_tables(trace, window, out);
  return out;
}

}  // namespace tandem::calibration
