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
/// The number of them that contains nine tenths of the absolute values.
constexpr double kSigmas90 = 1.645;

double real(int64_t n) { return static_cast<double>(n); }

double mean(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / real(static_cast<int64_t>(v.size()));
}

/// All launches in a step.
double step_seconds(const MeasuredKernel& k) { return k.median * real(k.kernel.repeat); }

using Key = std::pair<std::size_t, std::vector<int64_t>>;  ///< group; shape, flops, bytes, fused

Key key_of(const Kernel& k) {
  std::vector<int64_t> v = k.shape;
  v.insert(v.end(), {k.flops.n, k.read.n, k.written.n, k.fused ? 1 : 0});
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

/// x >= 0 with the least sum of (row x - wanted)^2: by exhaustion of the active sets, on the triangle that is
/// left of the rows.
Eigen::VectorXd least_squares(const Eigen::MatrixXd& rows, const Eigen::VectorXd& wanted) {
  const Eigen::Index unknowns = rows.cols(), left = std::min(rows.rows(), unknowns);
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(rows);
  const Eigen::MatrixXd triangle = qr.matrixQR().topRows(left).triangularView<Eigen::Upper>();
  const Eigen::VectorXd turned = qr.householderQ().adjoint() * wanted;
  double least = INFINITY;
  Eigen::VectorXd found = Eigen::VectorXd::Zero(unknowns);
  for (unsigned active = 1; active < 1U << unknowns; ++active) {
    std::vector<Eigen::Index> columns;
    for (Eigen::Index c = 0; c < unknowns; ++c) {
      if ((active >> c & 1U) != 0) columns.push_back(c);
    }
    const Eigen::MatrixXd part = triangle(Eigen::all, columns);
    const Eigen::VectorXd x = part.colPivHouseholderQr().solve(turned.head(left));
    if (!x.allFinite() || x.minCoeff() < 0) continue;
    const double error = (part * x - turned.head(left)).squaredNorm();
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
  constexpr double kScale[] = {1e-3, 1e-8, 1e-8, 1e-8};  // so that columns have similar size
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
  const Eigen::VectorXd x = least_squares(a, Eigen::VectorXd::Ones(a.rows()));
  std::vector<double> out;
  for (Eigen::Index c = 0; c < unknowns; ++c) out.push_back(x[c] * kScale[c]);
  return out;
}

using Rates = Eigen::VectorXd;  ///< [KernelCurve::Effort]

/// Kernels of one kind and pass to fit a curve to.
struct CurveRows {
  std::vector<KernelSample> samples;
  bool products = false;
  /// [sample, effort]: efforts over seconds.
  Eigen::MatrixXd shares() const {
    Eigen::MatrixXd out(static_cast<Eigen::Index>(samples.size()), Eigen::Index{KernelCurve::kEfforts});
    for (Eigen::Index i = 0; i < out.rows(); ++i) {
      const KernelSample& s = samples[static_cast<std::size_t>(i)];
      const KernelCurve::Efforts efforts = KernelCurve::efforts(s.kernel, products);
      for (Eigen::Index e = 0; e < out.cols(); ++e)
        out(i, e) = efforts[static_cast<std::size_t>(e)] / s.seconds;
    }
    return out;
  }
};

/// least_squares() of the efforts that some kernel takes, in units in which these have similar size.
Rates rates(const Eigen::MatrixXd& rows, const Eigen::VectorXd& wanted) {
  std::vector<Eigen::Index> present;
  for (Eigen::Index e = 0; e < rows.cols(); ++e) {
    if (rows.rows() > 0 && rows.col(e).maxCoeff() > 0) present.push_back(e);
  }
  Rates out = Rates::Zero(rows.cols());
  if (present.empty()) return out;
  const Eigen::MatrixXd part = rows(Eigen::all, present);
  const Eigen::RowVectorXd scale = part.colwise().maxCoeff();
  const Eigen::VectorXd found = least_squares(part.array().rowwise() / scale.array(), wanted);
  for (std::size_t e = 0; e < present.size(); ++e)
    out[present[e]] = found[static_cast<Eigen::Index>(e)] / scale[static_cast<Eigen::Index>(e)];
  return out;
}

/// Of all kinds and passes that do products, or of all others, each of which counts the same.
Rates rates_of_all(const std::vector<CurveRows>& groups, bool products) {
  Eigen::Index rows = 0;
  for (const CurveRows& g : groups) {
    if (g.products == products) rows += static_cast<Eigen::Index>(g.samples.size());
  }
  Eigen::MatrixXd all(rows, Eigen::Index{KernelCurve::kEfforts});
  Eigen::VectorXd wanted(rows);
  Eigen::Index at = 0;
  for (const CurveRows& g : groups) {
    if (g.products != products || g.samples.empty()) continue;
    const auto n = static_cast<Eigen::Index>(g.samples.size());
    const double weight = 1 / std::sqrt(real(n));
    all.middleRows(at, n) = g.shares() * weight;
    wanted.segment(at, n).setConstant(weight);
    at += n;
  }
  return rates(all, wanted);
}

/// Few kernels of a kind do not tell a start from bytes from flops: each rate's share that differs from that
/// of all kinds counts as much as kTrust x as large an error of a kernel. Efforts that those do not take
/// count as if they were kLeast of a kernel's time. Both are of resnet50, gpt2, bert-large and vgg16 in bf16
/// on an H200, with each left out once: 0.1 to 1 and 0.02 to 0.05 are as good.
Rates rates_near(const CurveRows& rows, const Rates& usual) {
  constexpr double kTrust = 0.3, kLeast = 0.02;
  const Eigen::MatrixXd shares = rows.shares();
  const Eigen::Index n = shares.rows(), efforts = shares.cols();
  Eigen::MatrixXd all = Eigen::MatrixXd::Zero(n + efforts, efforts);
  Eigen::VectorXd wanted = Eigen::VectorXd::Zero(n + efforts);
  all.topRows(n) = shares;
  wanted.head(n).setOnes();
  for (Eigen::Index e = 0; e < efforts; ++e) {
    const double share = n > 0 ? shares.col(e).mean() : 0;
    if (share <= 0) continue;
    all(n + e, e) = kTrust / std::max(usual[e], kLeast / share);
    wanted[n + e] = kTrust;
  }
  return rates(all, wanted);
}

KernelCurve curve_of(const CurveRows& rows, const Rates& found) {
  KernelCurve out;
  out.samples = static_cast<int64_t>(rows.samples.size());
  out.products = rows.products;
  for (std::size_t e = 0; e < out.per.size(); ++e) out.per[e] = found[static_cast<Eigen::Index>(e)];
  double square = 0;
  for (const KernelSample& s : rows.samples)
    square += std::pow(std::log(s.seconds / out.seconds(s.kernel)), 2);
  if (out.samples > 0) out.spread = std::sqrt(square / real(out.samples));
  return out;
}

/// Whether the devices compute apart from their hosts, in their own memory, as GPUs do.
bool apart(const Measurements& m) {
  return std::any_of(m.copy.begin(), m.copy.end(),
                     [](const MeasuredTransfer& t) { return t.way == CopyWay::to_device; });
}

/// Adds the launches of one update to its graph's.
void add_update(KernelSample& sum, const MeasuredKernel& k, Bytes step) {
  if (sum.kernel.shape.empty()) {
    sum = {k.kernel, 0, k.graph, step, 1};
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

/// A graph of one worker.
struct Step {
  double seconds = 0, kernels = 0;  ///< of the step, and of its kernels
  int64_t ops = 0, launches = 0;    ///< how many; equal ones in sequence are one launch
};

std::vector<Step> steps_of_one(const Measurements& m) {
  std::map<uint32_t, Step> steps;
  for (const MeasuredKernel& k : m.kernels) {
    if (k.workers != 1 || k.graph >= m.graphs.size() || m.graphs[k.graph].workers != 1) continue;
    Step& step = steps[k.graph];
    step.seconds = m.graphs[k.graph].step_median;
    step.ops = m.graphs[k.graph].ops;
    step.kernels += step_seconds(k);
    ++step.launches;
  }
  std::vector<Step> out;
  for (const auto& [graph, step] : steps) out.push_back(step);
  return out;
}

/// Median over steps of what they take beyond their kernels, by their number of `parts`; at least 0.
double beyond_kernels(const Measurements& m, int64_t Step::*parts) {
  std::vector<double> each;
  for (const Step& s : steps_of_one(m)) {
    if (s.*parts > 0) each.push_back((s.seconds - s.kernels) / real(s.*parts));
  }
  return std::max(0.0, median(each));
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
  const bool gpu = apart(m);
  std::vector<CurveRows> groups(std::size_t{kKernelKinds} * kPasses);
  for (const MeasuredKernel& k : m.kernels) {
    CurveRows& rows = groups[KernelNeighbours::group(k.kernel)];
    rows.products = gpu && is_product(k.kernel.kind);
    if (k.workers == 1 && k.median > 0 && !rows.products)
      rows.samples.push_back({k.kernel, k.median, k.graph, {}});
  }
  if (gpu && !m.kernels.empty()) {
    for (KernelSample& s : kernel_samples(m)) {
      CurveRows& rows = groups[KernelNeighbours::group(s.kernel)];
      if (rows.products) rows.samples.push_back(std::move(s));
    }
  }
  const Rates products = rates_of_all(groups, true), others = rates_of_all(groups, false);
  std::vector<KernelCurve> out;
  for (const CurveRows& rows : groups) {
    const auto shares = rows.shares();
    out.push_back(curve_of(rows, gpu ? rates_near(rows, rows.products ? products : others)
                                     : rates(shares, Eigen::VectorXd::Ones(shares.rows()))));
  }
  return out;
}

std::vector<KernelSample> kernel_samples(const Measurements& m) {
  std::map<std::pair<uint32_t, Key>, std::vector<const MeasuredKernel*>> by;
  std::map<std::pair<uint32_t, Key>, int64_t> launched;
  std::map<std::pair<uint32_t, std::size_t>, KernelSample> updates;
  const auto step = moved_by_step(m);
  for (const MeasuredKernel& k : m.kernels) {
    if (k.workers != 1) continue;
    launched[{k.graph, key_of(k.kernel)}] += k.kernel.repeat;
    if (k.median <= 0) continue;
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
    out.push_back({k, median(seconds), key.first, step.at(key.first), launched.at(key)});
  }
  if (out.empty()) throw InputError("the measurements hold no kernels of one worker");
  return out;
}

KernelNeighbours neighbours(const Measurements& m) {
  return KernelNeighbours(kernel_samples(m), kernel_curves(m), apart(m));
}

KernelNeighbours neighbours_without(const Measurements& m, uint32_t graph) {
  std::vector<KernelCurve> curves = kernel_curves(m);
  Measurements others = m;
  std::erase_if(others.kernels, [&](const MeasuredKernel& k) { return k.graph == graph; });
  if (others.kernels.empty()) return neighbours(m);
  const std::vector<KernelCurve> found = kernel_curves(others);
  for (std::size_t g = 0; g < found.size(); ++g) {
    if (found[g].samples > 0) curves[g] = found[g];
  }
  return KernelNeighbours(kernel_samples(m), std::move(curves), apart(m));
}

LeaveOneOut leave_one_out(const Measurements& m) {
  struct Sum {
    double predicted = 0, measured = 0, distance = 0;
  };
  std::map<uint32_t, Sum> graphs;
  LeaveOneOut out;
  int64_t count = 0;
  const auto step = moved_by_step(m);
  std::map<uint32_t, KernelNeighbours> by_graph;
  for (const MeasuredKernel& k : m.kernels) {
    if (k.workers != 1 || k.median <= 0) continue;
    auto kernels = by_graph.find(k.graph);
    if (kernels == by_graph.end()) kernels = by_graph.emplace(k.graph, neighbours_without(m, k.graph)).first;
    double distance = 0;
    const double measured = step_seconds(k);
    const double predicted = kernels->second.seconds(k.kernel, step.at(k.graph), &distance, k.graph);
    out.kernels += std::abs(std::log(predicted / measured));
    ++count;
    Sum& g = graphs[k.graph];
    g.predicted += predicted;
    g.measured += measured;
    g.distance += measured * distance;
  }
  out.kernels /= real(count);
  std::vector<double> by_distance;
  for (const auto& [graph, g] : graphs) {
    const double error = std::abs(std::log(g.predicted / g.measured));
    out.graphs += error / real(static_cast<int64_t>(graphs.size()));
    if (g.distance > 0) by_distance.push_back(error * g.measured / g.distance);
  }
  out.per_distance = apart(m) ? quantile(by_distance, 0.9) / kSigmas90 : kSigmaOfMedian * median(by_distance);
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
  if (apart(m)) return 0;
  return beyond_kernels(m, &Step::ops);
}

double kernel_overhead(const Measurements& m) {
  if (!apart(m)) return 0;
  return beyond_kernels(m, &Step::launches);
}

double error_of_overhead(const Measurements& m) {
  if (!apart(m)) return 0;
  const double each = kernel_overhead(m);
  std::vector<double> errors;
  for (const Step& s : steps_of_one(m)) {
    if (s.seconds > 0)
      errors.push_back(std::abs(std::log((s.kernels + each * real(s.launches)) / s.seconds)));
  }
  return kSigmaOfMedian * median(errors);
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
  const double together = lock_step(m), overhead = op_overhead(m), woken = wake(m), each = kernel_overhead(m);
  for (uint32_t g = 0; g < m.graphs.size(); ++g) {
    const MeasuredGraph& graph = m.graphs[g];
    if (graph.workers < 2 || (graph.workers > m.cores && !apart(m)) || graph.ops == 0) continue;
    const auto alone = g + 1 - static_cast<uint32_t>(graph.workers);
    const std::vector<double> slow = slowdown(m, graph.workers);
    double kernels = 0;
    for (const MeasuredKernel& k : m.kernels) {
      if (k.graph == alone && k.workers == 1)
        kernels += (step_seconds(k) + each) * slow[static_cast<std::size_t>(k.kernel.kind)];
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
