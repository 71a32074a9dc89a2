// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validation_statistics.h"
#include "base/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

namespace tandem::calibration {

bool counts(const ValidationRow& r) { return r.error.empty() && r.doubtful.empty() && r.gives.empty(); }
bool has_speedup(const ValidationRow& r) {
  return counts(r) && r.published_speedup > 0 && static_cast<double>(r.devices) > r.anchor_devices;
}
bool has_rate(const ValidationRow& r) { return counts(r) && !r.relative && !r.rate_assumed; }
bool unseen_rate(const ValidationRow& r) { return r.held_out && !r.in_kernels; }
bool half_precision(const ValidationRow& r) { return r.precision == "fp16" || r.precision == "bf16"; }

double Errors::bias() const {
  return all.empty() ? 0 : std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}
double Errors::mean() const {
  double sum = 0;
  for (const double e : all) sum += std::abs(e);
  return all.empty() ? 0 : sum / static_cast<double>(all.size());
}
double Errors::quantile(double q) const {
  if (all.empty()) return 0;
  std::vector<double> s;
  for (const double e : all) s.push_back(std::abs(e));
  std::sort(s.begin(), s.end());
  return s[static_cast<std::size_t>(q * static_cast<double>(s.size() - 1))];
}
int64_t Errors::within(double limit) const {
  return std::count_if(all.begin(), all.end(), [&](double e) { return std::abs(e) <= limit; });
}
double Errors::coverage() const {
  return intervals > 0 ? static_cast<double>(held) / static_cast<double>(intervals) : 0;
}
double Errors::width() const { return intervals > 0 ? widths / static_cast<double>(intervals) : 0; }
double Errors::interval_score() const {
  constexpr double kOutside = 0.1;  // of rows, at the 90 % level
  return intervals > 0 ? (widths + 2 / kOutside * misses) / static_cast<double>(intervals) : 0;
}

namespace {

void add(Errors& to, double error, double published, double low, double high) {
  to.all.push_back(error);
  if (high <= 0) return;
  ++to.intervals;
  to.held += published >= low && published <= high ? 1 : 0;
  to.widths += std::log(high / low);
  to.misses += std::max({0.0, std::log(low / published), std::log(published / high)});
}

void add_speedup(Errors& to, const ValidationRow& r) {
  add(to, r.speedup_error(), r.published, r.low, r.relative ? 0 : r.high);
}
void add_rate(Errors& to, const ValidationRow& r) {
  add(to, r.rate_error(), r.published, r.rate.interval.low, r.rate.interval.high);
}

bool cnn(const ValidationRow& r) { return r.family == "cnn"; }
bool transformer(const ValidationRow& r) { return r.family == "transformer"; }

}  // namespace

SchemeOrder order_of_schemes(const std::vector<ValidationRow>& rows, const std::string& system) {
  struct Grid {
    std::vector<double> published, predicted, deviation;
  };
  std::map<std::tuple<std::string, int64_t>, Grid> grids;
  for (const ValidationRow& r : rows) {
    if (r.system != system || !counts(r) || r.nodes == 1 || r.file.find("hkbu") == std::string::npos)
      continue;
    Grid& g = grids[{r.model, r.devices}];
    g.published.push_back(r.published);
    g.predicted.push_back(r.rate.samples_per_second);
    g.deviation.push_back(r.deviation);
  }
  SchemeOrder out{system};
  for (const auto& [what, g] : grids) {
    const auto clear = [&g = g](std::size_t i, std::size_t k) {
      return std::abs(g.published[i] - g.published[k]) > 2 * std::hypot(g.deviation[i], g.deviation[k]);
    };
    const std::size_t n = g.published.size();
    out.rows += static_cast<int64_t>(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        ++out.pairs;
        out.clear += clear(i, k) ? 1 : 0;
      }
    }
    out.tau += kendall_tau(g.published, g.predicted) / static_cast<double>(grids.size());
    out.clear_tau += kendall_tau(g.published, g.predicted, clear) / static_cast<double>(grids.size());
  }
  return out;
}

std::vector<SchemeOrder> orders_of_schemes(const std::vector<ValidationRow>& rows) {
  std::vector<SchemeOrder> out;
  for (const char* system : {"hkbu-10gbe", "hkbu-ipoib", "hkbu-rdma"}) {
    out.push_back(order_of_schemes(rows, system));
    if (out.back().rows == 0) out.pop_back();
  }
  return out;
}

Errors speedup_errors(const std::vector<ValidationRow>& rows, const RowFilter& filter) {
  Errors e;
  for (const ValidationRow& r : rows) {
    if (has_speedup(r) && filter(r)) add_speedup(e, r);
  }
  return e;
}

Errors rate_errors(const std::vector<ValidationRow>& rows, const RowFilter& filter) {
  Errors e;
  for (const ValidationRow& r : rows) {
    if (has_rate(r) && filter(r)) add_rate(e, r);
  }
  return e;
}

const std::vector<std::string>& generations() {
  static const std::vector<std::string> all{"kepler", "maxwell", "pascal", "volta",     "turing",
                                            "ampere", "ada",     "hopper", "blackwell", "skylake"};
  return all;
}

std::vector<RowGroup> row_groups(const std::vector<ValidationRow>& rows, bool held_out) {
  const auto year = [](const std::string& generation) {
    const auto& all = generations();
    return std::find(all.begin(), all.end(), generation) - all.begin();
  };
  std::map<std::tuple<std::ptrdiff_t, std::string, std::string, std::string, bool>, RowGroup> groups;
  for (const ValidationRow& r : rows) {
    const bool speedup = has_speedup(r) && r.held_out == held_out;
    const bool rate = has_rate(r) && unseen_rate(r) == held_out;
    if (!speedup && !rate) continue;
    const bool several = r.nodes > 1;
    RowGroup& g = groups[{year(r.generation), r.generation, r.precision, r.family, several}];
    g.generation = r.generation;
    g.precision = r.precision;
    g.family = r.family;
    g.several_nodes = several;
    if (speedup) add_speedup(g.speedups, r);
    if (rate) add_rate(g.rates, r);
  }
  std::vector<RowGroup> out;
  for (auto& [key, g] : groups) out.push_back(std::move(g));
  return out;
}

std::string Aim::range() const {
  const auto text = [&](double x) {
    return percent ? fmt::format("{:.1f} %", 100 * x) : fmt::format("{:.2f}", x);
  };
  if (low == -high) return fmt::format("within {}", text(high));
  if (low == 0) return fmt::format("at most {}", text(high));
  return high == 1 ? fmt::format("{} and more", text(low)) : fmt::format("{} to {}", text(low), text(high));
}

std::string Aim::figure() const {
  if (rows == 0) return "–";
  if (!percent) return fmt::format("{:.2f}", value);
  return low < 0 ? fmt::format("{:+.1f} %", 100 * value) : fmt::format("{:.1f} %", 100 * value);
}

std::vector<Aim> aims(const std::vector<ValidationRow>& rows) {
  std::vector<Aim> out;
  const auto add = [&](const std::string& what, double low, double high, double value, std::size_t count) {
    out.push_back({what, low, high, value, static_cast<int64_t>(count)});
  };
  const auto speedups = [&](const char* what, double most, bool several,
                            bool (*family)(const ValidationRow&)) {
    const Errors e = speedup_errors(
        rows, [&](const ValidationRow& r) { return r.held_out && family(r) && (r.nodes > 1) == several; });
    add(fmt::format("speed-up, {}: mean error", what), 0, most, e.mean(), e.all.size());
  };
  speedups("CNNs, one node", 0.05, false, cnn);
  speedups("CNNs, several nodes", 0.08, true, cnn);
  speedups("transformers, one node", 0.04, false, transformer);
  speedups("transformers, several nodes", 0.08, true, transformer);
  for (const bool several : {false, true}) {
    const Errors e =
        rate_errors(rows, [&](const ValidationRow& r) { return unseen_rate(r) && (r.nodes > 1) == several; });
    add(fmt::format("rate without anchor, {}: mean error", several ? "several nodes" : "one node"), 0,
        several ? 0.2 : 0.12, e.mean(), e.all.size());
  }
  const Errors half = rate_errors(
      rows, [](const ValidationRow& r) { return unseen_rate(r) && half_precision(r) && r.batch <= 64; });
  add("rate without anchor, half precision, batch 64 and less: bias", -0.08, 0.08, half.bias(),
      half.all.size());
  const Errors s = speedup_errors(rows, [](const ValidationRow& r) { return r.held_out; });
  add("speed-ups inside their 90 % interval", 0.85, 0.95, s.coverage(),
      static_cast<std::size_t>(s.intervals));
  const Errors t = rate_errors(rows, unseen_rate);
  add("rates without anchor inside their 90 % interval", 0.85, 0.95, t.coverage(),
      static_cast<std::size_t>(t.intervals));
  for (const SchemeOrder& order : orders_of_schemes(rows))
    out.push_back({fmt::format("order of HKBU's schemes, {}: Kendall's tau", order.system), 0.8, 1, order.tau,
                   order.rows, false});
  return out;
}

double worst_ratio(const ValidationRow& r) {
  double worst = 1;
  const auto add = [&](double error) { worst = std::max({worst, 1 + error, 1 / (1 + error)}); };
  if (has_speedup(r)) add(r.speedup_error());
  if (has_rate(r)) add(r.rate_error());
  return worst;
}

std::vector<const ValidationRow*> worst_rows(const std::vector<ValidationRow>& rows, std::size_t count) {
  // A series extends from one anchor to the next (the anchor comes first).
  std::vector<const ValidationRow*> out;
  for (const ValidationRow& r : rows) {
    if (r.is_anchor || out.empty())
      out.push_back(&r);
    else if (worst_ratio(r) > worst_ratio(*out.back()))
      out.back() = &r;
  }
  std::stable_sort(out.begin(), out.end(), [](const ValidationRow* a, const ValidationRow* b) {
    return worst_ratio(*a) > worst_ratio(*b);
  });
  if (out.size() > count) out.resize(count);
  return out;
}

std::string worst_cells(const Errors& e) {
  if (e.all.empty()) return "| 0 | – | – | – | – |";
  return fmt::format("| {} | {:.1f} % | {:+.1f} % | {:.1f} % | {} |", e.all.size(), 100 * e.mean(),
                     100 * e.bias(), 100 * e.quantile(1),
                     e.intervals > 0 ? fmt::format("{:.0f} %", 100 * e.coverage()) : "–");
}

}  // namespace tandem::calibration
