// SPDX-License-Identifier: Apache-2.0
#include "calibration/traces/compare_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "answers/compare.h"
#include "answers/labels.h"
#include "base/json_writer.h"
#include "base/units.h"
#include "calibration/traces/chakra.h"

namespace tandem::calibration {

namespace {

constexpr std::string_view kHost = "waits for the host", kExposed = "only communicates",
                           kCopies = "waits for input or copies", kIdle = "idle otherwise";

/// Kinds of kernels as predictions and as traces name them.
struct SameKernels {
  std::string_view what;
  std::vector<std::string_view> predicted;
  std::vector<TracedKind> traced;
};

const std::vector<SameKernels>& same_kernels() {
  static const std::vector<SameKernels> all = {
      {"convolutions, products", {"conv", "gemm"}, {TracedKind::convolution, TracedKind::matrix_product}},
      {"attention", {"attention"}, {TracedKind::attention}},
      {"normalisation", {"norm"}, {TracedKind::normalisation}},
      {"softmax, loss", {"softmax"}, {TracedKind::softmax}},
      {"elementwise, sums",
       {"elementwise"},
       {TracedKind::elementwise, TracedKind::reduction, TracedKind::other}},
      {"pooling", {"pool"}, {TracedKind::pooling}},
      {"embedding", {"embedding"}, {TracedKind::embedding}},
      {"optimiser", {"optimizer"}, {TracedKind::optimiser}}};
  return all;
}

std::string ms_text(double seconds) { return to_text(Time::from_seconds(seconds)); }

}  // namespace

std::vector<TracedPair> compare_trace(const Report& report, const TraceSummary& trace) {
  const double step = report.iteration.median;
  std::vector<TracedPair> out;
  for (const SameKernels& same : same_kernels()) {
    TracedPair pair{std::string(same.what)};
    for (const auto& kernel : report.time.kernels) {
      if (std::find(same.predicted.begin(), same.predicted.end(), kernel.kind) != same.predicted.end())
        pair.predicted += kernel.share * step;
    }
    for (const TraceSummary::Kind& kind : trace.kinds) {
      if (std::find(same.traced.begin(), same.traced.end(), kind.kind) != same.traced.end())
        pair.traced += kind.seconds;
    }
    out.push_back(std::move(pair));
  }
  const TimeShare& t = report.time.share;
  out.push_back(
      {std::string(kExposed), (t.exposed_communication + t.waiting) * step, trace.exposed_communication});
  out.push_back({std::string(kHost), t.launch * step, trace.idle_for_host});
  out.push_back({std::string(kCopies), t.input * step, trace.exposed_copies});
  out.push_back(
      {std::string(kIdle), (t.bubble + t.server + t.idle) * step, trace.idle - trace.idle_for_host});
  std::erase_if(out, [](const TracedPair& p) { return p.predicted == 0 && p.traced == 0; });
  return out;
}

namespace {

std::string trace_reason(const std::vector<TracedPair>& pairs, const Report& report,
                         const TraceSummary& trace) {
  constexpr double kAgree = 0.05;
  if (pairs.empty()) return "";
  const auto most =
      std::max_element(pairs.begin(), pairs.end(), [](const TracedPair& a, const TracedPair& b) {
        return std::abs(a.difference()) < std::abs(b.difference());
      });
  const double of_step = std::abs(most->difference()) / trace.step_mean;
  if (of_step < kAgree)
    return fmt::format("Nothing differs by more than {:.0f} % of a step; most does: {}.\n",
                       std::ceil(100 * of_step), most->what);
  std::string out =
      fmt::format("Largest disagreement: {}, {} traced and {} predicted, {:.0f} % of the traced step. ",
                  most->what, ms_text(most->traced), ms_text(most->predicted), 100 * of_step);
  const bool slower = most->difference() > 0;
  if (most->what == kHost) {
    out += slower
               ? fmt::format(
                     "The traced host takes {} for each of its {:.0f} launches; profilers that keep shapes "
                     "or stacks slow it, so trace once without. --recipe and --set host.* say how fast a "
                     "host launches.",
                     ms_text(trace.step_mean / std::max(1.0, trace.launches)), trace.launches)
               : "The predicted host launches more slowly than the traced one: is the model compiled, or "
                 "captured "
                 "in a graph?";
  } else if (most->what == kExposed) {
    out +=
        slower
            ? "Collectives wait for the slowest rank: traces of several ranks tell that from slow links. "
              "Their "
              "times alone, of nccl-tests, correct a prediction (--collective-profile)."
            : "The traced links are faster than the system file says, or the traced training overlaps more: "
              "compare the buckets above with --scheme's.";
  } else if (most->what == kCopies) {
    out +=
        "Copies between host and device or input hold the step up: --data and --set storage say where "
        "samples "
        "come from.";
  } else if (most->what == kIdle) {
    out +=
        "Nothing was launched for that long or everything waited for other ranks: pipelines have bubbles, "
        "scripts "
        "have work between steps.";
  } else {
    const double factor = most->predicted > 0 ? most->traced / most->predicted : INFINITY;
    out += std::isfinite(factor)
               ? fmt::format(
                     "Its kernels take {:.2f} times what is predicted on {}: --anchor with the traced rate "
                     "calibrates all that run there.",
                     factor, report_input(report, "system"))
               : "The predicted model has no such layers: is it the model that was traced?";
  }
  return out + "\n";
}

}  // namespace

bool is_trace(const std::string& file) {
  try {
    const std::string begin = beginning_of(file);
    return looks_like_kineto(begin) || looks_like_chakra(begin);
  } catch (const InputError&) {
    return false;
  }
}

TraceComparison compare_trace(const std::string& report, const std::string& traced) {
  const std::vector<Report> reports = reports_of(report);
  const Trace trace = looks_like_chakra(beginning_of(traced))
                          ? read_chakra(open_bytes(traced), printable(traced))
                          : read_kineto(open_bytes(traced), printable(traced));
  TraceComparison out{.report_file = is_document(report) ? "report" : report,
                      .trace_file = traced,
                      .report = reports.back(),
                      .device = trace.device,
                      .rank = trace.rank,
                      .world_size = trace.world_size,
                      .summary = summary_of(trace)};
  const auto same = std::find_if(reports.begin(), reports.end(),
                                 [&](const Report& r) { return r.setup.devices == trace.world_size; });
  if (same != reports.end()) out.report = *same;
  if (!out.report.fits || !(out.report.iteration.median > 0))
    throw InputError(
        fmt::format("{}: has no rate to compare: the model does not fit", printable(out.report_file)));
  if (out.report.setup.devices != trace.world_size)
    out.notes.push_back(fmt::format("the report is of {} devices, the trace of {}", out.report.setup.devices,
                                    trace.world_size));
  for (const std::string& remark : out.summary.notes) out.notes.push_back(trace.file + ": " + remark);
  out.pairs = compare_trace(out.report, out.summary);
  out.reason = trace_reason(out.pairs, out.report, out.summary);
  return out;
}

std::string TraceComparison::json() const {
  JsonWriter rows = JsonWriter::array();
  for (const TracedPair& p : pairs)
    rows.push_back({{"what", p.what}, {"predicted_seconds", p.predicted}, {"traced_seconds", p.traced}});
  const JsonWriter out = {{"schema", "tandem-trace-comparison-1"},
                          {"report", report_file},
                          {"trace", trace_file},
                          {"predicted_step_seconds", report.iteration.median},
                          {"traced_step_seconds", summary.step_mean},
                          {"rows", std::move(rows)},
                          {"reason", reason.substr(0, reason.find('\n'))}};
  return out.dump();
}

}  // namespace tandem::calibration
