// SPDX-License-Identifier: Apache-2.0
#pragma once
// The estimators of a machine's profile: from measurements to one value each.
//
// All are pure and throw nothing unless said; any thread may call them. Seconds unless said. Those that look
// at kernels or graphs take measurements of one precision (of_precision). Robust where a few samples are
// unlike all others: medians over graphs, and the calmest of several repetitions.
#include <cstdint>
#include <vector>

#include "calibration/fit/measurements.h"

namespace tandem::calibration {

/// The graphs of one precision with the kernels timed in them; all else, which has none, as it is.
Measurements of_precision(const Measurements& m, Precision precision);

/// Mean of the slowest of `n` workers over the usual step, where steps vary log-normally by `sigma`:
/// exp(sigma x normal_score(n, n)).
double slowest_of(int64_t n, double sigma);

// ---- kernels of one worker ----

/// [kind x passes + pass]: rates >= 0 of a kernel's efforts (KernelCurve) that minimise the sum over measured
/// kernels of (1 - curve / median)^2: non-negative least squares by exhaustion of the active sets (Lawson and
/// Hanson 1974, chapter 23, for the at most nine unknowns there are). On a GPU rates that the kernels of one
/// kind and pass leave open are near those of all products, or of all other kernels (a ridge: Hoerl and
/// Kennard 1970). `spread` is the root mean square of log(median / curve). Without kernels: samples 0.
std::vector<KernelCurve> kernel_curves(const Measurements& m);

/// What KernelNeighbours prices by. A kernel that several layers of a graph hold counts once a graph, with
/// the median of its launches' medians, and `launches` says how often a step of that graph launches it; a
/// graph's updates, which run at one speed, are one sample of their sum, launched once. Throws InputError
/// when no kernel of one worker was measured.
std::vector<KernelSample> kernel_samples(const Measurements& m);

/// What the profile prices by.
KernelNeighbours neighbours(const Measurements& m);

/// The same by curves that are fitted without `graph`, where any other has kernels of the kind and pass. Ask
/// it `without` that graph: it then knows nothing of it.
KernelNeighbours neighbours_without(const Measurements& m, uint32_t graph);

/// How far off predictions are of kernels whose own graph is left out, of the samples and of the curves.
struct LeaveOneOut {
  double kernels = 0;  ///< mean |log(predicted / measured)| of each kernel's launches in a step
  double graphs = 0;   ///< the same of the sums over each graph
  /// Standard deviation of log(predicted / measured) / distance, the graph's mean distance to the nearest
  /// sample, by time: MachineProfile::error. By the median over graphs; on GPUs, whose steps differ by
  /// nothing else, such that nine graphs of ten lie within 90 % of the distribution.
  double per_distance = 0;
};
LeaveOneOut leave_one_out(const Measurements& m);

// ---- steps ----

/// [kind]: the sum of kernels' medians while `active` - 1 other workers run over that of the same kernels
/// alone, at least 0.5; 1 where none were measured so, and for one worker.
std::vector<double> slowdown(const Measurements& m, int64_t active);
/// [active - 1]: the above, up to the most workers measured.
std::vector<std::vector<double>> slowdowns(const Measurements& m);

/// Of an op: median over graphs of one worker of (step - kernels) / ops, at least 0; 0 on a GPU, whose host
/// has issued ops before their turn comes.
double op_overhead(const Measurements& m);

/// On a GPU what each kernel takes in a step beyond its own time, such as what passes from the end of one to
/// the start of the next: median over graphs of one worker of (step - kernels) / kernels, at least 0; else 0.
double kernel_overhead(const Measurements& m);

/// On a GPU what that leaves unexplained of a step: 1.4826 x median over graphs of one worker of
/// |log((kernels + kernel_overhead) / step)|; else 0.
double error_of_overhead(const Measurements& m);

/// From one lane's thread to another's: median over graphs of two workers of (step - kernels x slowest_of(2,
/// step_sigma) - all-reduce - op_overhead x ops) / 2, since the comm lane is woken and wakes the compute
/// lane; at least 0, and 0 on one core. A graph with a kernel whose launches were all disturbed does not
/// count.
double wake(const Measurements& m);

/// Relative: median over graphs, with at most as many workers as cores, of the spread of their steps.
double step_sigma(const Measurements& m);

/// What else runs takes a core away now and then: mean over workers of (mean step / median step), of the
/// calmest repetition of each model on at most as many workers as cores, median over models, at least 1. A
/// factor.
double interrupted(const Measurements& m);

/// Where all wait for all: (mean over steps of the slowest worker's / mean over workers of the median step),
/// of the calmest repetitions as above, over slowest_of(cores, step_sigma), since that noise is drawn when a
/// Program is priced; at least 1. A factor.
double lock_step(const Measurements& m);

/// What slow-downs, the all-reduce and the wait for the slowest leave unexplained of a step of
/// several: 1.4826 x median over graphs of 2 .. cores workers of |log(predicted / step)|, where predicted =
/// slowed kernels x lock_step + op_overhead x ops + all-reduce + 2 wake.
double error_of_several(const Measurements& m);

/// Each step of workers that do not wait for each other over `step`, the mean of all their steps.
struct StepNoise {
  double step = 0;
  std::vector<std::vector<double>> factors;  ///< [worker][step]
};
std::vector<StepNoise> step_noise(const Measurements& m);

// ---- transfers ----

struct TransferPoint {
  double bytes = 0, seconds = 0;
};
/// By size, ascending: the median of those measured among `ranks` (1: copies) that went `way`.
std::vector<TransferPoint> transfer_points(const std::vector<MeasuredTransfer>& list, int64_t ranks,
                                           CopyWay way = CopyWay::memory);

/// A step of a ring all-reduce between n nodes that one machine emulates moves bytes / n in seconds / (2 (n -
/// 1)).
struct TcpSteps {
  double rate = 0;  ///< bytes per second of a port; 0: not limited
  std::vector<TransferPoint> steps;
};
std::vector<TcpSteps> tcp_steps(const Measurements& m);           ///< by rate, ascending
std::vector<TransferPoint> tcp_cpu_steps(const Measurements& m);  ///< processor time of one rank, all rates

// ---- input ----

/// Of each format of pictures, and of files and records, the rates >= 0 that minimise the sum over measured
/// samples of (1 - rate / measured)^2, as kernel_curves() does. None where nothing was measured.
InputRates input_rates(const Measurements& m);

}  // namespace tandem::calibration
