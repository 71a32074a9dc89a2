// SPDX-License-Identifier: Apache-2.0
#include "calibration/fit/estimates.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "base/statistics.h"

namespace tandem::calibration {

namespace {

/// Standard deviation of a normal distribution over the median of its absolute values.
constexpr double kSigmaOfMedian = 1.4826;

double real(int64_t n) { return static_cast<double>(n); }

double mean(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / real(static_cast<int64_t>(v.size()));
}

/// All launches in a step.
double step_seconds(const MeasuredKernel& k) { return k.median * real(k.kernel.repeat); }

using Key = std::pair<std::size_t, std::vector<int64_t>>;  ///< group; shape, flops, bytes

Key key_of(const Kernel& k) {
  std::vector<int64_t> v = k.shape;
  v.insert(v.end(), {k.flops.n, k.read.n, k.written.n});
  return {KernelNeighbours::group(k), v};
}

/// [graph]: what a step of one worker moves.
std::map<uint32_t, Bytes> moved_by_step(const Measurements& m) {
  std::map<uint32_t, Bytes> out;
  for (const MeasuredKernel& k : m.kernels) {
    if (k.workers == 1) out[k.graph] += (k.kernel.read + k.kernel.written) * k.kernel.repeat;
  }
  return out;
}

/// x >= 0 with the least sum of (row x - 1)^2: by exhaustion of the active sets.
Eigen::VectorXd least_squares(const Eigen::MatrixXd& rows) {
  const Eigen::Index unknowns = rows.cols();
  const Eigen::VectorXd one = Eigen::VectorXd::Ones(rows.rows());
  double least = INFINITY;
  Eigen::VectorXd found = Eigen::VectorXd::Zero(unknowns);
  for (unsigned active = 1; active < 1U << unknowns; ++active) {
    std::vector<Eigen::Index> columns;
    for (Eigen::Index c = 0; c < unknowns; ++c) {
      if ((active >> c & 1U) != 0) columns.push_back(c);
    }
    const Eigen::MatrixXd part = rows(Eigen::all, columns);
    const Eigen::VectorXd x = part.colPivHouseholderQr().solve(one);
    if (!x.allFinite() || x.minCoeff() < 0) continue;
    const double error = (part * x - one).squaredNorm();
    if (error >= least) continue;
    least = error;
    found.setZero();
    for (std::size_t c = 0; c < columns.size(); ++c) found[columns[c]] = x[static_cast<Eigen::Index>(c)];
  }
  return found;
}

/// (1, bytes, pixels, values), as many of them as there are `unknowns`, over the seconds of each sample for
/// which `is` holds; their rates. Empty: none.
template <typename Is>
std::vector<double> fit_input(const Measurements& m, Eigen::Index unknowns, const Is& is) {
  constexpr double kScale[] = {1e-3, 1e-8, 1e-8, 1e-8};  // so that columns are alike in size
  std::vector<std::vector<double>> rows;
  for (const MeasuredInput& s : m.input) {
    if (is(s) && s.seconds > 0)
      rows.push_back({1 / s.seconds, s.bytes / s.seconds, s.pixels / s.seconds, s.values / s.seconds});
  }
  if (rows.empty()) return {};
  Eigen::MatrixXd a(static_cast<Eigen::Index>(rows.size()), unknowns);
  for (Eigen::Index i = 0; i < a.rows(); ++i) {
    for (Eigen::Index c = 0; c < unknowns; ++c)
      a(i, c) = rows[static_cast<std::size_t>(i)][static_cast<std::size_t>(c)] * kScale[c];
  }
  const Eigen::VectorXd x = least_squares(a);
  std::vector<double> out;
  for (Eigen::Index c = 0; c < unknowns; ++c) out.push_back(x[c] * kScale[c]);
  return out;
}

KernelCurve fit_curve(const std::vector<const MeasuredKernel*>& rows) {
  KernelCurve best;
  best.samples = static_cast<int64_t>(rows.size());
  if (rows.empty()) return best;
  const auto n = static_cast<Eigen::Index>(rows.size());
  Eigen::MatrixXd a(n, 3);
  for (Eigen::Index i = 0; i < n; ++i) {
    const MeasuredKernel& m = *rows[static_cast<std::size_t>(i)];
    a.row(i) << 1e-6, real(m.kernel.flops.n) * 1e-10,
        (real(m.kernel.read.n) + real(m.kernel.written.n)) * 1e-9;
    a.row(i) /= m.median;
  }
  const Eigen::VectorXd found = least_squares(a);
  best.base = found[0] * 1e-6;
  best.per_flop = found[1] * 1e-10;
  best.per_byte = found[2] * 1e-9;
  double square = 0;
  for (const MeasuredKernel* m : rows) square += std::pow(std::log(m->median / best.seconds(m->kernel)), 2);
  best.spread = std::sqrt(square / real(best.samples));
  return best;
}

/// Adds the launches of one update to its graph's.
void add_update(KernelSample& sum, const MeasuredKernel& k, Bytes step) {
  if (sum.kernel.shape.empty()) {
    sum = {k.kernel, 0, k.graph, step};
    sum.kernel.shape[0] = sum.kernel.flops.n = sum.kernel.read.n = sum.kernel.written.n = 0;
  }
  sum.kernel.repeat = 1;
  sum.kernel.shape[0] += k.kernel.shape[0] * k.kernel.repeat;
  sum.kernel.flops += k.kernel.flops * k.kernel.repeat;
  sum.kernel.read += k.kernel.read * k.kernel.repeat;
  sum.kernel.written += k.kernel.written * k.kernel.repeat;
  sum.seconds += step_seconds(k);
}

/// The least that `of_run` says of any repetition of a model, for its kernels' times are of a calm one too;
/// median over models, at least 1.
double calmest(const Measurements& m,
               const std::function<double(const std::vector<std::vector<double>>& steps)>& of_run) {
  std::map<std::string, double> by;
  for (const MeasuredWorkers& w : m.workers) {
    if (static_cast<int64_t>(w.steps.size()) > m.cores) continue;
    const auto at = by.emplace(w.model, INFINITY).first;
    at->second = std::min(at->second, of_run(w.steps));
  }
  std::vector<double> each;
  for (const auto& [model, factor] : by) each.push_back(factor);
  return std::max(1.0, median(each));
}

/// A ring's all-reduce as one of its steps.
MeasuredTransfer ring_step(const MeasuredTcp& w, double seconds) {
  return {1, w.bytes / real(w.ranks), seconds / (2 * real(w.ranks - 1))};
}

}  // namespace

Measurements of_precision(const Measurements& m, Precision precision) {
  Measurements out = m;
  out.graphs.clear();
  std::vector<std::optional<uint32_t>> where(m.graphs.size());
  for (std::size_t g = 0; g < m.graphs.size(); ++g) {
    if (m.graphs[g].precision != precision) continue;
    where[g] = static_cast<uint32_t>(out.graphs.size());
    out.graphs.push_back(m.graphs[g]);
  }
  std::erase_if(out.kernels, [&](const MeasuredKernel& k) { return !where.at(k.graph); });
  for (MeasuredKernel& k : out.kernels) k.graph = *where[k.graph];
  return out;
}

double slowest_of(int64_t n, double sigma) { return std::exp(sigma * normal_score(n, n)); }

// ---- kernels of one worker ----

std::vector<KernelCurve> kernel_curves(const Measurements& m) {
  std::vector<std::vector<const MeasuredKernel*>> rows(std::size_t{kKernelKinds} * kPasses);
  for (const MeasuredKernel& k : m.kernels) {
    if (k.workers == 1 && k.median > 0) rows[KernelNeighbours::group(k.kernel)].push_back(&k);
  }
  std::vector<KernelCurve> out;
  for (const auto& of_group : rows) out.push_back(fit_curve(of_group));
  return out;
}

std::vector<KernelSample> kernel_samples(const Measurements& m) {
  std::map<std::pair<uint32_t, Key>, std::vector<const MeasuredKernel*>> by;
  std::map<std::pair<uint32_t, std::size_t>, KernelSample> updates;
  const auto step = moved_by_step(m);
  for (const MeasuredKernel& k : m.kernels) {
    if (k.workers != 1 || k.median <= 0) continue;
    if (k.kernel.pass == Pass::update && !k.kernel.shape.empty())
      add_update(updates[{k.graph, KernelNeighbours::group(k.kernel)}], k, step.at(k.graph));
    else
      by[{k.graph, key_of(k.kernel)}].push_back(&k);
  }
  std::vector<KernelSample> out;
  for (auto& [key, sum] : updates) out.push_back(std::move(sum));
  for (const auto& [key, rows] : by) {
    std::vector<double> seconds;
    for (const MeasuredKernel* r : rows) seconds.push_back(r->median);
    Kernel k = rows[0]->kernel;
    k.repeat = 1;
    out.push_back({k, median(seconds), key.first, step.at(key.first)});
  }
  if (out.empty()) throw InputError("the measurements hold no kernels of one worker");
  return out;
}

LeaveOneOut leave_one_out(const Measurements& m, const KernelNeighbours& kernels) {
  struct Sum {
    double predicted = 0, measured = 0, distance = 0;
  };
  std::map<uint32_t, Sum> graphs;
  LeaveOneOut out;
  int64_t count = 0;
  const auto step = moved_by_step(m);
  for (const MeasuredKernel& k : m.kernels) {
    if (k.workers != 1 || k.median <= 0) continue;
    double distance = 0;
    const double measured = step_seconds(k);
    const double predicted = kernels.seconds(k.kernel, step.at(k.graph), &distance, k.graph);
    out.kernels += std::abs(std::log(predicted / measured));
    ++count;
    Sum& g = graphs[k.graph];
    g.predicted += predicted;
    g.measured += measured;
    g.distance += measured * std::min(distance, KernelNeighbours::kFar);
  }
  out.kernels /= real(count);
  std::vector<double> by_distance;
  for (const auto& [graph, g] : graphs) {
    const double error = std::abs(std::log(g.predicted / g.measured));
    out.graphs += error / real(static_cast<int64_t>(graphs.size()));
    if (g.distance > 0) by_distance.push_back(error * g.measured / g.distance);
  }
  out.per_distance = kSigmaOfMedian * median(by_distance);
  return out;
}

// ---- steps ----

std::vector<double> slowdown(const Measurements& m, int64_t active) {
  std::vector<double> together(kKernelKinds, 0), single(kKernelKinds, 0), out(kKernelKinds, 1);
  std::map<std::pair<uint32_t, Key>, double> alone;
  for (const MeasuredKernel& k : m.kernels) {
    if (k.workers == 1) alone[{k.graph, key_of(k.kernel)}] = k.median;
  }
  for (const MeasuredKernel& k : m.kernels) {
    if (k.workers != active || k.median <= 0) continue;  // 0: every launch was disturbed
    const auto found = alone.find({k.graph, key_of(k.kernel)});
    if (found == alone.end() || found->second <= 0) continue;
    together[static_cast<std::size_t>(k.kernel.kind)] += k.median;
    single[static_cast<std::size_t>(k.kernel.kind)] += found->second;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (active > 1 && single[i] > 0) out[i] = std::max(0.5, together[i] / single[i]);
  }
  return out;
}

std::vector<std::vector<double>> slowdowns(const Measurements& m) {
  int64_t most = 1;
  for (const MeasuredKernel& k : m.kernels) most = std::max(most, k.workers);
  std::vector<std::vector<double>> out;
  for (int64_t active = 1; active <= most; ++active) out.push_back(slowdown(m, active));
  return out;
}

double op_overhead(const Measurements& m) {
  std::map<uint32_t, double> kernels;
  for (const MeasuredKernel& k : m.kernels) {
    if (k.workers == 1) kernels[k.graph] += step_seconds(k);
  }
  std::vector<double> each;
  for (uint32_t g = 0; g < m.graphs.size(); ++g) {
    const MeasuredGraph& graph = m.graphs[g];
    if (graph.workers == 1 && graph.ops > 0 && kernels.count(g) != 0)
      each.push_back((graph.step_median - kernels.at(g)) / real(graph.ops));
  }
  return std::max(0.0, median(each));
}

double wake(const Measurements& m) {
  std::vector<double> each;
  const double overhead = op_overhead(m), slowest = slowest_of(2, step_sigma(m));
  for (uint32_t g = 1; g < m.graphs.size(); ++g) {
    const MeasuredGraph& graph = m.graphs[g];
    if (graph.workers != 2 || m.cores < 2) continue;
    double kernels = 0;
    bool whole = true;
    for (const MeasuredKernel& k : m.kernels) {
      if (k.graph != g - 1 || k.workers != 2) continue;  // kernels name their graph's row of one worker
      kernels += step_seconds(k);
      whole = whole && k.median > 0;
    }
    if (whole && kernels > 0)
      each.push_back((graph.step_median - kernels * slowest - graph.all_reduce - overhead * real(graph.ops)) /
                     2);
  }
  return std::max(0.0, median(each));
}

double step_sigma(const Measurements& m) {
  std::vector<double> all;
  for (const MeasuredGraph& g : m.graphs) {
    if (g.workers <= m.cores) all.push_back(g.step_spread);
  }
  return median(all);
}

double interrupted(const Measurements& m) {
  return calmest(m, [](const auto& steps) {
    std::vector<double> ratios;
    for (const auto& of_worker : steps) ratios.push_back(mean(of_worker) / median(of_worker));
    return mean(ratios);
  });
}

double lock_step(const Measurements& m) {
  const double factor = calmest(m, [](const auto& steps) {
    std::vector<double> usual, slowest;
    for (const auto& of_worker : steps) usual.push_back(median(of_worker));
    for (std::size_t i = 0; i < steps[0].size(); ++i) {
      slowest.push_back(0);
      for (const auto& of_worker : steps) slowest.back() = std::max(slowest.back(), of_worker[i]);
    }
    return mean(slowest) / mean(usual);
  });
  return std::max(1.0, factor / slowest_of(m.cores, step_sigma(m)));
}

double error_of_several(const Measurements& m) {
  std::vector<double> errors;
  const double together = lock_step(m), overhead = op_overhead(m), woken = wake(m);
  for (uint32_t g = 0; g < m.graphs.size(); ++g) {
    const MeasuredGraph& graph = m.graphs[g];
    if (graph.workers < 2 || graph.workers > m.cores || graph.ops == 0) continue;
    const auto alone = g + 1 - static_cast<uint32_t>(graph.workers);
    const std::vector<double> slow = slowdown(m, graph.workers);
    double kernels = 0;
    for (const MeasuredKernel& k : m.kernels) {
      if (k.graph == alone && k.workers == 1)
        kernels += step_seconds(k) * slow[static_cast<std::size_t>(k.kernel.kind)];
    }
    const double step = kernels * together + overhead * real(graph.ops) + graph.all_reduce + 2 * woken;
    if (kernels > 0 && graph.step_median > 0) errors.push_back(std::abs(std::log(step / graph.step_median)));
  }
  return kSigmaOfMedian * median(errors);
}

std::vector<StepNoise> step_noise(const Measurements& m) {
  std::vector<StepNoise> out;
  for (const MeasuredWorkers& w : m.workers) {
    std::vector<double> means;
    for (const auto& of_worker : w.steps) means.push_back(mean(of_worker));
    StepNoise& noise = out.emplace_back(StepNoise{mean(means), w.steps});
    for (auto& of_worker : noise.factors) {
      for (double& s : of_worker) s /= noise.step;
    }
  }
  return out;
}

// ---- transfers ----

std::vector<TransferPoint> transfer_points(const std::vector<MeasuredTransfer>& list, int64_t ranks,
                                           CopyWay way) {
  std::map<double, std::vector<double>> by;
  for (const MeasuredTransfer& t : list) {
    if (t.ranks == ranks && t.bytes > 0 && t.way == way) by[t.bytes].push_back(t.seconds);
  }
  std::vector<TransferPoint> out;
  for (const auto& [bytes, seconds] : by) out.push_back({bytes, median(seconds)});
  return out;
}

std::vector<TcpSteps> tcp_steps(const Measurements& m) {
  std::map<double, std::vector<MeasuredTransfer>> by;
  for (const MeasuredTcp& w : m.tcp) by[w.rate].push_back(ring_step(w, w.seconds));
  std::vector<TcpSteps> out;
  for (const auto& [rate, steps] : by) out.push_back({rate, transfer_points(steps, 1)});
  return out;
}

std::vector<TransferPoint> tcp_cpu_steps(const Measurements& m) {
  std::vector<MeasuredTransfer> steps;
  for (const MeasuredTcp& w : m.tcp) {
    if (w.cpu_seconds > 0) steps.push_back(ring_step(w, w.cpu_seconds));
  }
  return transfer_points(steps, 1);
}

InputRates input_rates(const Measurements& m) {
  InputRates out;
  for (std::size_t f = 0; f < out.decode.size(); ++f) {
    for (const bool grey : {false, true}) {
      const auto x = fit_input(m, 4, [&](const MeasuredInput& s) {
        return s.decodes && s.format == static_cast<ImageFormat>(f) && s.grey == grey;
      });
      if (!x.empty()) (grey ? out.grey : out.decode)[f] = {x[0], x[1], x[2], x[3]};
    }
  }
  for (std::size_t files = 0; files < out.read.size(); ++files) {
    const auto x =
        fit_input(m, 2, [&](const MeasuredInput& s) { return !s.decodes && s.files == (files == 1); });
    if (!x.empty()) out.read[files] = {x[0], x[1]};
  }
  return out;
}

}  // namespace tandem::calibration
