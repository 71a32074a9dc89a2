// SPDX-License-Identifier: Apache-2.0
#include "calibration/fit/machine_fit.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <tuple>

#include "base/random.h"
#include "base/statistics.h"

namespace tandem::calibration {

namespace {

using Writer = nlohmann::ordered_json;

double real(int64_t n) { return static_cast<double>(n); }

Writer kernel_json(const Kernel& k) {
  return {{"kind", name(k.kind)}, {"pass", name(k.pass)}, {"shape", k.shape},
          {"flops", k.flops.n},   {"read", k.read.n},     {"written", k.written.n}};
}

/// seconds = x . (1, flops, bytes) with x >= 0, relative residuals.
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
  const Eigen::VectorXd one = Eigen::VectorXd::Ones(n);
  double least = INFINITY;
  Eigen::Vector3d found = Eigen::Vector3d::Zero();
  for (int active = 1; active < 8; ++active) {
    std::vector<Eigen::Index> columns;
    for (int c = 0; c < 3; ++c) {
      if ((active >> c & 1) != 0) columns.push_back(c);
    }
    const Eigen::MatrixXd part = a(Eigen::all, columns);
    const Eigen::VectorXd x = part.colPivHouseholderQr().solve(one);
    if (!x.allFinite() || x.minCoeff() < 0) continue;
    const double error = (part * x - one).squaredNorm();
    if (error >= least) continue;
    least = error;
    found.setZero();
    for (std::size_t c = 0; c < columns.size(); ++c) found[columns[c]] = x[static_cast<Eigen::Index>(c)];
  }
  best.base = found[0] * 1e-6;
  best.per_flop = found[1] * 1e-10;
  best.per_byte = found[2] * 1e-9;
  double square = 0;
  for (const MeasuredKernel* m : rows) square += std::pow(std::log(m->median / best.seconds(m->kernel)), 2);
  best.spread = std::sqrt(square / real(best.samples));
  return best;
}

/// Standard deviation of a normal distribution over the median of its absolute values: one graph unlike all
/// others does not widen every interval.
constexpr double kSigmaOfMedian = 1.4826;

/// Of n workers whose steps vary by `sigma`, the slowest one's mean over the usual step.
double slowest_of(int64_t n, double sigma) { return std::exp(sigma * normal_score(n, n)); }

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

/// A kernel that several graphs hold counts once a graph, with the launches' median; a graph's updates, which
/// run at one speed, are one sample.
std::vector<KernelSample> samples_of(const Measurements& m) {
  std::map<std::pair<uint32_t, Key>, std::vector<const MeasuredKernel*>> by;
  std::map<std::pair<uint32_t, std::size_t>, KernelSample> updates;
  const auto step = moved_by_step(m);
  for (const MeasuredKernel& k : m.kernels) {
    if (k.workers != 1 || k.median <= 0) continue;
    if (k.kernel.pass != Pass::update || k.kernel.shape.empty()) {
      by[{k.graph, key_of(k.kernel)}].push_back(&k);
      continue;
    }
    KernelSample& sum = updates.try_emplace({k.graph, KernelNeighbours::group(k.kernel)}).first->second;
    const bool first = sum.kernel.shape.empty();
    if (first) sum = {k.kernel, 0, k.graph, step.at(k.graph)};
    if (first) sum.kernel.shape[0] = sum.kernel.flops.n = sum.kernel.read.n = sum.kernel.written.n = 0;
    sum.kernel.repeat = 1;
    sum.kernel.shape[0] += k.kernel.shape[0] * k.kernel.repeat;
    sum.kernel.flops += k.kernel.flops * k.kernel.repeat;
    sum.kernel.read += k.kernel.read * k.kernel.repeat;
    sum.kernel.written += k.kernel.written * k.kernel.repeat;
    sum.seconds += k.median * real(k.kernel.repeat);
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
  return out;
}

/// The graphs of one precision with the kernels timed in them; all else, which has none, as it is.
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

/// Of what was measured in one precision.
class Fitter {
 public:
  explicit Fitter(Measurements m) : m_(std::move(m)), curves_(std::size_t{kKernelKinds} * kPasses) {
    std::vector<std::vector<const MeasuredKernel*>> rows(curves_.size());
    for (const MeasuredKernel& k : m_.kernels) {
      if (k.workers == 1 && k.median > 0) rows[KernelNeighbours::group(k.kernel)].push_back(&k);
    }
    for (std::size_t g = 0; g < rows.size(); ++g) {
      curves_[g] = fit_curve(rows[g]);
      const auto kind = static_cast<KernelKind>(g / kPasses);
      if (!rows[g].empty() && rows[g].size() < 4)
        fit_.remarks.push_back(fmt::format("only {} measured {} {} kernels", rows[g].size(), name(kind),
                                           name(static_cast<Pass>(g % kPasses))));
    }
    samples_ = samples_of(m_);
    if (samples_.empty()) throw InputError("the measurements hold no kernels of one worker");
    leave_out(KernelNeighbours(samples_, curves_));
  }

  /// Errors and remarks; no profile yet.
  const MachineFit& found() const { return fit_; }

  /// What does not depend on the precision.
  void add_machine(Writer& d) const {
    d["interrupted"] = interrupted();
    d["lock_step"] = lock_step();
    d["noise"] = noise();
    d["all_reduce"] = Writer::array();
    for (int64_t ranks = 2;; ++ranks) {
      Writer row = points(m_.all_reduce, ranks);
      if (row.empty()) break;
      d["all_reduce"].push_back(std::move(row));
    }
    d["copy"] = points(m_.copy, 1);
    for (int way = 1; way < kCopyWays; ++way) {
      Writer of_way = points(m_.copy, 1, static_cast<CopyWay>(way));
      if (!of_way.empty()) d["copies"][std::string(name(static_cast<CopyWay>(way)))] = std::move(of_way);
    }
    if (m_.launch.issue > 0)
      d["launch"] = {{"issue_seconds", m_.launch.issue}, {"round_trip_seconds", m_.launch.round_trip}};
    wires(d);
  }

  void add_kernels(Writer& d) const {
    d["error_per_distance"] = error_per_distance_;
    d["error_of_several"] = error_of_several();
    d["kernel_error"] = fit_.kernel_error;
    d["op_overhead_seconds"] = op_overhead();
    d["wake_seconds"] = wake();
    d["step_sigma"] = step_sigma();
    d["slowdown"] = slowdowns();
    d["curves"] = Writer::array();
    for (std::size_t g = 0; g < curves_.size(); ++g) {
      const KernelCurve& c = curves_[g];
      if (c.samples == 0) continue;
      d["curves"].push_back({{"kind", name(static_cast<KernelKind>(g / kPasses))},
                             {"pass", name(static_cast<Pass>(g % kPasses))},
                             {"base_seconds", c.base},
                             {"seconds_per_flop", c.per_flop},
                             {"seconds_per_byte", c.per_byte},
                             {"spread", c.spread},
                             {"samples", c.samples}});
    }
    d["kernels"] = Writer::array();
    for (const KernelSample& s : samples_) {
      Writer row = kernel_json(s.kernel);
      row["seconds"] = s.seconds;
      row["step_bytes"] = s.step.n;
      d["kernels"].push_back(row);
    }
  }

 private:
  void leave_out(const KernelNeighbours& all) {
    double sum = 0;
    int64_t count = 0;
    struct Sum {
      double predicted = 0, measured = 0, distance = 0;
    };
    std::map<uint32_t, Sum> graphs;
    const auto step = moved_by_step(m_);
    for (const MeasuredKernel& k : m_.kernels) {
      if (k.workers != 1 || k.median <= 0) continue;
      double distance = 0;
      const double measured = k.median * real(k.kernel.repeat);
      const double predicted = all.seconds(k.kernel, step.at(k.graph), &distance, k.graph);
      sum += std::abs(std::log(predicted / measured));
      ++count;
      Sum& g = graphs[k.graph];
      g.predicted += predicted;
      g.measured += measured;
      g.distance += measured * std::min(distance, KernelNeighbours::kFar);
    }
    fit_.kernel_error = sum / real(count);
    std::vector<double> by_distance;
    for (const auto& [graph, g] : graphs) {
      const double error = std::abs(std::log(g.predicted / g.measured));
      fit_.graph_error += error / real(static_cast<int64_t>(graphs.size()));
      if (g.distance > 0) by_distance.push_back(error * g.measured / g.distance);
    }
    error_per_distance_ = kSigmaOfMedian * median(by_distance);
  }

  /// What the slow-downs, the all-reduce and the wait for the slowest leave unexplained of a step of several.
  double error_of_several() const {
    std::vector<double> errors;
    for (uint32_t g = 0; g < m_.graphs.size(); ++g) {
      const MeasuredGraph& graph = m_.graphs[g];
      if (graph.workers < 2 || graph.workers > m_.cores || graph.ops == 0) continue;
      const auto alone = g + 1 - static_cast<uint32_t>(graph.workers);
      const std::vector<double> slow = slowdown(graph.workers);
      double kernels = 0;
      for (const MeasuredKernel& k : m_.kernels) {
        if (k.graph == alone && k.workers == 1)
          kernels += k.median * real(k.kernel.repeat) * slow[static_cast<std::size_t>(k.kernel.kind)];
      }
      const double step =
          kernels * lock_step() + op_overhead() * real(graph.ops) + graph.all_reduce + 2 * wake();
      if (kernels > 0 && graph.step_median > 0)
        errors.push_back(std::abs(std::log(step / graph.step_median)));
    }
    return kSigmaOfMedian * median(errors);
  }

  /// [kind]: all kernels with so many active workers against the same alone; long ones count for what they
  /// weigh.
  std::vector<double> slowdown(int64_t active) const {
    std::vector<double> together(kKernelKinds, 0), single(kKernelKinds, 0), out(kKernelKinds, 1);
    std::map<Key, double> alone;
    const auto key = [](const MeasuredKernel& k) {
      const Key of_kernel = key_of(k.kernel);
      return Key{of_kernel.first + std::size_t{1000} * k.graph, of_kernel.second};
    };
    for (const MeasuredKernel& k : m_.kernels) {
      if (k.workers == 1) alone[key(k)] = k.median;
    }
    for (const MeasuredKernel& k : m_.kernels) {
      if (k.workers != active || k.median <= 0) continue;  // 0: every launch was disturbed
      const auto found = alone.find(key(k));
      if (found == alone.end() || found->second <= 0) continue;
      together[static_cast<std::size_t>(k.kernel.kind)] += k.median;
      single[static_cast<std::size_t>(k.kernel.kind)] += found->second;
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (active > 1 && single[i] > 0) out[i] = std::max(0.5, together[i] / single[i]);
    }
    return out;
  }

  Writer slowdowns() const {
    Writer out = Writer::array();
    int64_t most = 1;
    for (const MeasuredKernel& k : m_.kernels) most = std::max(most, k.workers);
    for (int64_t active = 1; active <= most; ++active) {
      const std::vector<double> factors = slowdown(active);
      Writer row = Writer::object();
      for (int kind = 0; kind < kKernelKinds; ++kind)
        row[std::string(name(static_cast<KernelKind>(kind)))] = factors[static_cast<std::size_t>(kind)];
      out.push_back(row);
    }
    return out;
  }

  /// What a step of one worker takes beyond its kernels, a share for each op.
  double op_overhead() const {
    std::map<uint32_t, double> kernels;
    for (const MeasuredKernel& k : m_.kernels) {
      if (k.workers == 1) kernels[k.graph] += k.median * real(k.kernel.repeat);
    }
    std::vector<double> each;
    for (uint32_t g = 0; g < m_.graphs.size(); ++g) {
      const MeasuredGraph& graph = m_.graphs[g];
      if (graph.workers == 1 && graph.ops > 0 && kernels.count(g) != 0)
        each.push_back((graph.step_median - kernels.at(g)) / real(graph.ops));
    }
    return std::max(0.0, median(each));
  }

  /// What a step of two workers takes beyond kernels, ops and its all-reduce: the comm lane is woken, and
  /// wakes the compute lane.
  double wake() const {
    std::vector<double> each;
    const double overhead = op_overhead();
    for (uint32_t g = 1; g < m_.graphs.size(); ++g) {
      const MeasuredGraph& graph = m_.graphs[g];
      if (graph.workers != 2 || m_.cores < 2) continue;
      double kernels = 0;
      bool whole = true;
      for (const MeasuredKernel& k : m_.kernels) {
        if (k.graph != g - 1 || k.workers != 2) continue;
        kernels += k.median * real(k.kernel.repeat);
        whole = whole && k.median > 0;
      }
      if (whole && kernels > 0)
        each.push_back((graph.step_median - kernels * slowest_of(2, step_sigma()) - graph.all_reduce -
                        overhead * real(graph.ops)) /
                       2);
    }
    return std::max(0.0, median(each));
  }

  /// Of the calmest turn of each graph, for its kernels' times are of such a one too.
  double calmest(const std::function<double(const std::vector<std::vector<double>>& steps)>& of_run) const {
    std::map<std::string, double> by;
    for (const MeasuredWorkers& w : m_.workers) {
      if (static_cast<int64_t>(w.steps.size()) > m_.cores) continue;
      const auto at = by.emplace(w.model, INFINITY).first;
      at->second = std::min(at->second, of_run(w.steps));
    }
    std::vector<double> each;
    for (const auto& [model, factor] : by) each.push_back(factor);
    return std::max(1.0, median(each));
  }

  static double mean(const std::vector<double>& v) {
    return std::accumulate(v.begin(), v.end(), 0.0) / real(static_cast<int64_t>(v.size()));
  }

  /// What else runs takes a core away now and then: the mean step over the usual one.
  double interrupted() const {
    return calmest([](const auto& steps) {
      std::vector<double> ratios;
      for (const auto& of_worker : steps) ratios.push_back(mean(of_worker) / median(of_worker));
      return mean(ratios);
    });
  }

  /// Where all wait for all, what a step takes beyond its usual time because of the slowest of them, whatever
  /// slowed it.
  double lock_step() const {
    const double factor = calmest([](const auto& steps) {
      std::vector<double> usual, slowest;
      for (const auto& of_worker : steps) usual.push_back(median(of_worker));
      for (std::size_t i = 0; i < steps[0].size(); ++i) {
        slowest.push_back(0);
        for (const auto& of_worker : steps) slowest.back() = std::max(slowest.back(), of_worker[i]);
      }
      return mean(slowest) / mean(usual);
    });
    // What an all-reduce waits for is noise that its Disturbance draws: not twice.
    return std::max(1.0, factor / slowest_of(m_.cores, step_sigma()));
  }

  double step_sigma() const {
    std::vector<double> all;
    for (const MeasuredGraph& g : m_.graphs) {
      if (g.workers <= m_.cores) all.push_back(g.step_spread);
    }
    return median(all);
  }

  /// Each step over the mean of all workers' steps in that run.
  Writer noise() const {
    Writer out = Writer::array();
    for (const MeasuredWorkers& w : m_.workers) {
      std::vector<double> means;
      for (const auto& of_worker : w.steps) means.push_back(mean(of_worker));
      const double step = mean(means);
      Writer factors = Writer::array();
      for (const auto& of_worker : w.steps) {
        Writer row = Writer::array();
        for (const double s : of_worker) row.push_back(std::round(s / step * 1e4) / 1e4);
        factors.push_back(std::move(row));
      }
      out.push_back({{"step_seconds", step}, {"factors", std::move(factors)}});
    }
    return out;
  }

  static Writer points(const std::vector<MeasuredTransfer>& list, int64_t ranks,
                       CopyWay way = CopyWay::memory) {
    std::map<double, std::vector<double>> by;
    for (const MeasuredTransfer& t : list) {
      if (t.ranks == ranks && t.bytes > 0 && t.way == way) by[t.bytes].push_back(t.seconds);
    }
    Writer out = Writer::array();
    for (const auto& [bytes, seconds] : by) out.push_back({{"bytes", bytes}, {"seconds", median(seconds)}});
    return out;
  }

  /// Steps of rings over loopback, by pace; their processor time, all paces together.
  void wires(Writer& d) const {
    std::map<double, std::vector<MeasuredTransfer>> by;
    std::vector<MeasuredTransfer> cpu;
    for (const MeasuredWire& w : m_.wire) {
      const double steps = 2 * real(w.ranks - 1), chunk = w.bytes / real(w.ranks);
      by[w.rate].push_back({1, chunk, w.seconds / steps});
      if (w.cpu_seconds > 0) cpu.push_back({1, chunk, w.cpu_seconds / steps});
    }
    if (by.empty()) return;
    d["wire"] = Writer::array();
    for (const auto& [rate, rows] : by)
      d["wire"].push_back({{"bytes_per_second", rate}, {"steps", points(rows, 1)}});
    d["wire_cpu"] = points(cpu, 1);
  }

  const Measurements m_;
  std::vector<KernelCurve> curves_;
  std::vector<KernelSample> samples_;
  double error_per_distance_ = 0;
  MachineFit fit_;
};

Writer head(const Measurements& m) {
  uint64_t hash = 0;
  for (const char c : m.to_json()) hash = mix64(hash ^ static_cast<unsigned char>(c));
  Writer d = {{"schema", "tandem-profile-1"},
              {"summary", fmt::format("{}, {} cores, measured {}", m.machine, m.cores, m.date)},
              {"machine", m.machine},
              {"date", m.date},
              {"versions", m.versions},
              {"data", fmt::format("{:016x}", hash)},
              {"cores", m.cores}};
  if (m.load.busy()) d["busy"] = m.load.text();
  return d;
}

}  // namespace

MachineFit fit_machine(const Measurements& measurements) {
  std::vector<Precision> precisions;
  for (const MeasuredGraph& g : measurements.graphs) {
    if (std::find(precisions.begin(), precisions.end(), g.precision) == precisions.end())
      precisions.push_back(g.precision);
  }
  if (precisions.empty()) throw InputError("the measurements hold no graphs");
  Writer d = head(measurements);
  MachineFit out;
  for (const Precision p : precisions) {
    const Fitter fitter(of_precision(measurements, p));
    const MachineFit& found = fitter.found();
    if (p == precisions.front()) {
      out = found;
      d["precision"] = name(p);
      fitter.add_machine(d);
      fitter.add_kernels(d);
      continue;
    }
    Writer part = {{"precision", name(p)}};
    fitter.add_kernels(part);
    d["more_precisions"].push_back(std::move(part));
    out.remarks.push_back(fmt::format("{}: kernels off by {:.1f} %, whole graphs by {:.1f} %", name(p),
                                      100 * found.kernel_error, 100 * found.graph_error));
    for (const std::string& remark : found.remarks)
      out.remarks.push_back(fmt::format("{}: {}", name(p), remark));
  }
  if (measurements.load.busy())
    out.remarks.insert(out.remarks.begin(),
                       fmt::format("measured on a busy machine: {}", measurements.load.text()));
  out.profile = d.dump(1) + "\n";
  return out;
}

}  // namespace tandem::calibration
