// SPDX-License-Identifier: Apache-2.0
#include "calibration/fit/machine_fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"
#include "calibration/fit/profile_json.h"

namespace tandem::calibration {

namespace {

/// A curve of fewer kernels is remarked upon.
constexpr int64_t kThin = 4;

/// Graphs whose kernels are off by more than this on average, each left out of the fit, get a note.
constexpr double kContradiction = 0.25;

/// `m` of one precision.
KernelEstimates kernel_estimates(const Measurements& m, Precision precision) {
  KernelEstimates out;
  out.precision = precision;
  out.curves = kernel_curves(m);
  out.samples = kernel_samples(m);
  out.errors = leave_one_out(m);
  out.error_of_several = error_of_several(m);
  out.op_overhead = op_overhead(m);
  out.kernel_overhead = kernel_overhead(m);
  out.error_of_overhead = error_of_overhead(m);
  out.wake = wake(m);
  out.step_sigma = step_sigma(m);
  out.slowdowns = slowdowns(m);
  return out;
}

std::vector<std::string> thin_curves(const std::vector<KernelCurve>& curves) {
  std::vector<std::string> out;
  for (std::size_t g = 0; g < curves.size(); ++g) {
    if (curves[g].samples > 0 && curves[g].samples < kThin)
      out.push_back(fmt::format("only {} measured {} {} kernels", curves[g].samples,
                                name(static_cast<KernelKind>(g / kPasses)),
                                name(static_cast<Pass>(g % kPasses))));
  }
  return out;
}

/// `first`: the measurements of the precision measured first, by which steps differ.
ProfileEstimates machine_estimates(const Measurements& m, const Measurements& first) {
  ProfileEstimates out;
  out.machine = m.machine;
  out.date = m.date;
  out.versions = m.versions;
  out.cores = m.cores;
  if (m.load.busy()) out.busy = m.load.text();
  for (const char c : m.to_json()) out.data = mix64(out.data ^ static_cast<unsigned char>(c));
  out.interrupted = interrupted(m);
  out.lock_step = lock_step(first);
  out.noise = step_noise(m);
  out.turns = m.turns;
  for (int64_t ranks = 2;; ++ranks) {
    out.all_reduce.push_back(transfer_points(m.all_reduce, ranks));
    if (!out.all_reduce.back().empty()) continue;
    out.all_reduce.pop_back();
    break;
  }
  for (std::size_t way = 0; way < out.copies.size(); ++way)
    out.copies[way] = transfer_points(m.copy, 1, static_cast<CopyWay>(way));
  out.launch = m.launch;
  out.input = input_rates(m);
  for (const MeasuredGraph& g : m.graphs)
    if (g.power) out.metered.push_back(g);
  out.tcp = tcp_steps(m);
  out.tcp_cpu = tcp_cpu_steps(m);
  return out;
}

std::vector<Precision> precisions_of(const Measurements& m) {
  std::vector<Precision> out;
  for (const MeasuredGraph& g : m.graphs) {
    if (std::find(out.begin(), out.end(), g.precision) == out.end()) out.push_back(g.precision);
  }
  if (out.empty()) throw InputError("the measurements hold no graphs");
  return out;
}

}  // namespace

MachineFit fit_machine(const Measurements& measurements) {
  const std::vector<Precision> precisions = precisions_of(measurements);
  ProfileEstimates profile = machine_estimates(measurements, of_precision(measurements, precisions[0]));
  MachineFit out;
  if (!profile.busy.empty()) out.remarks.push_back("measured on a busy machine: " + profile.busy);
  for (const Precision p : precisions) {
    const KernelEstimates& found =
        profile.kernels.emplace_back(kernel_estimates(of_precision(measurements, p), p));
    const bool first = profile.kernels.size() == 1;
    if (first) {
      out.kernel_error = found.errors.kernels;
      out.graph_error = found.errors.graphs;
    } else {
      out.remarks.push_back(fmt::format("{}: kernels off by {:.1f} %, whole graphs by {:.1f} %", name(p),
                                        100 * found.errors.kernels, 100 * found.errors.graphs));
    }
    if (found.errors.graphs > kContradiction)
      out.remarks.push_back(
          fmt::format("{}: kernels of some graphs contradict those of others; where the machine was busy or "
                      "its clocks moved, measure again",
                      name(p)));
    for (const std::string& remark : thin_curves(found.curves))
      out.remarks.push_back(first ? remark : fmt::format("{}: {}", name(p), remark));
  }
  out.profile = profile_json(profile);
  return out;
}

}  // namespace tandem::calibration
