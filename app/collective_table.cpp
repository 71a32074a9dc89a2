// SPDX-License-Identifier: Apache-2.0
#include "app/collective_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "calibration/validate/collective_data.h"
#include "pictures/gnuplot.h"

namespace tandem::app {
namespace {

constexpr int64_t kSmall = int64_t{1} << 20;  // errors are told up to and above this size

bool any(const CollectiveRun& run, double CollectiveLine::*figure) {
  return std::any_of(run.lines.begin(), run.lines.end(), [&](const auto& line) { return line.*figure > 0; });
}

double busbw(const CollectiveRun& run, const CollectiveLine& line, double seconds) {
  return seconds > 0 ? static_cast<double>(line.bytes) * run.bus_factor / seconds : 0;
}

/// A second opinion: how the library's own estimates compare with what was measured.
std::string library_errors(const CollectiveRun& run) {
  std::vector<double> ratios;
  for (const CollectiveLine& line : run.lines) {
    if (line.measured > 0 && line.estimate > 0) ratios.push_back(std::log(line.estimate / line.measured));
  }
  if (ratios.empty()) return "";
  return fmt::format("The library's own estimates are off by {:.1f} % in the geometric mean ({} sizes).\n",
                     100 * geometric_error(ratios), ratios.size());
}

/// Errors of the measured lines that calibrated the prediction, or of those that did not; of `figure`.
std::string errors(const CollectiveRun& run, bool calibrating,
                   double CollectiveLine::*figure = &CollectiveLine::seconds) {
  std::vector<double> small, large;
  for (const CollectiveLine& line : run.lines) {
    if (line.measured <= 0 || line.calibrates != calibrating || line.*figure <= 0) continue;
    (line.bytes <= kSmall ? small : large).push_back(std::log(line.*figure / line.measured));
  }
  std::string out;
  const auto add = [&](const char* where, const std::vector<double>& ratios) {
    if (ratios.empty()) return;
    out += fmt::format("{}{} {:.1f} % ({} sizes)", out.empty() ? "" : ", ", where,
                       100 * geometric_error(ratios), ratios.size());
  };
  add("up to 1 MiB", small);
  add("above 1 MiB", large);
  return out;
}

}  // namespace

namespace {

/// A column and what a line has in it.
struct Field {
  Column column;
  std::function<std::string(const CollectiveLine&)> cell;
};

std::string two_decimals(double value) { return value > 0 ? fmt::format("{:.2f}", value) : ""; }

std::vector<Field> fields_of(const CollectiveRun& run) {
  using Line = const CollectiveLine&;
  const bool measured = any(run, &CollectiveLine::measured), used = !run.calibrated_by.empty();
  std::vector<Field> out = {
      {{"bytes", true}, [](Line l) { return std::to_string(l.bytes); }},
      {{"time us", true}, [](Line l) { return fmt::format("{:.2f}", l.seconds * 1e6); }},
      {{"algbw GB/s", true, 4}, [](Line l) { return fmt::format("{:.2f}", l.algbw * 1e-9); }},
      {{"busbw GB/s", true}, [](Line l) { return fmt::format("{:.2f}", l.busbw * 1e-9); }},
      {{"algorithm", false, measured ? 3 : 0}, [](Line l) { return l.choice.algorithm; }},
      {{"protocol", false, measured ? 3 : 0}, [](Line l) { return l.choice.protocol; }}};
  if (any(run, &CollectiveLine::best))
    out.push_back({{"best us", true, 2}, [](Line l) { return fmt::format("{:.2f}", l.best * 1e6); }});
  if (measured) {
    out.push_back(
        {{"measured us", true, used ? 5 : 0}, [](Line l) { return two_decimals(l.measured * 1e6); }});
    out.push_back({{"measured busbw GB/s", true},
                   [&run](Line l) { return two_decimals(busbw(run, l, l.measured) * 1e-9); }});
    out.push_back({{"error", true}, [](Line l) {
                     return l.measured > 0 ? fmt::format("{:+.0f} %", 100 * (l.seconds / l.measured - 1))
                                           : "";
                   }});
  }
  if (measured && used)
    out.push_back({{"used"}, [](Line l) {
                     return l.measured <= 0 ? "" : l.calibrates ? "calibration" : "test";
                   }});
  if (any(run, &CollectiveLine::estimate))
    out.push_back({{"library's own us", true, 1}, [](Line l) { return two_decimals(l.estimate * 1e6); }});
  return out;
}

Table table_of(const CollectiveRun& run, const std::vector<Field>& fields) {
  std::vector<Column> columns;
  for (const Field& f : fields) columns.push_back(f.column);
  Table out(std::move(columns));
  for (const CollectiveLine& line : run.lines) {
    std::vector<std::string> row;
    for (const Field& f : fields) row.push_back(f.cell(line));
    out.add(std::move(row));
  }
  return out;
}

}  // namespace

Table collective_table(const CollectiveRun& run) { return table_of(run, fields_of(run)); }

std::string collective_csv(const std::vector<CollectiveRun>& runs) {
  std::vector<Column> columns;
  if (runs.size() > 1) columns = {{"kind"}, {"devices"}};
  columns.insert(columns.end(), {{"bytes"},
                                 {"seconds"},
                                 {"seconds_low"},
                                 {"seconds_high"},
                                 {"algbw_bytes_per_second"},
                                 {"busbw_bytes_per_second"},
                                 {"algorithm"},
                                 {"protocol"},
                                 {"best_seconds"},
                                 {"measured_seconds"},
                                 {"measured_busbw_bytes_per_second"},
                                 {"library_seconds"},
                                 {"interpolated_seconds"},
                                 {"calibrates"}});
  Table table(std::move(columns));
  const auto known = [](double v) { return v > 0 ? fmt::format("{:.9g}", v) : ""; };
  for (const CollectiveRun& run : runs) {
    for (const CollectiveLine& l : run.lines) {
      std::vector<std::string> row;
      if (runs.size() > 1) row = {run.kind, std::to_string(run.devices)};
      row.insert(row.end(),
                 {std::to_string(l.bytes), fmt::format("{:.9g}", l.seconds), known(l.low), known(l.high),
                  fmt::format("{:.9g}", l.algbw), fmt::format("{:.9g}", l.busbw), l.choice.algorithm,
                  l.choice.protocol, known(l.best), known(l.measured),
                  l.measured > 0 ? known(busbw(run, l, l.measured)) : "", known(l.estimate), known(l.plain),
                  l.measured > 0 && !run.calibrated_by.empty() ? (l.calibrates ? "true" : "false") : ""});
      table.add(std::move(row));
    }
  }
  return table.csv();
}

std::string collective_remarks(const CollectiveRun& run) {
  std::string out = run.calibrated_by.empty()
                        ? fmt::format("Uncalibrated: the machine's links and stock figures of {} ({}).\n",
                                      run.library, run.source)
                        : fmt::format("Calibrated by {}; between its sizes stock figures of {}.\n",
                                      run.calibrated_by, run.library);
  if (!run.lines.empty() && run.lines.front().high > 0) {
    const auto interval = [](const CollectiveLine& l) {
      return fmt::format("{:.0f} % below to {:.0f} % above at {} B", 100 * (1 - l.low / l.seconds),
                         100 * (l.high / l.seconds - 1), l.bytes);
    };
    out += run.calibrated_by.empty()
               ? "90 % interval, by machines that the constants were not fitted to: "
               : "90 % interval, by sizes and operations that published logs were not calibrated with: ";
    out += interval(run.lines.front());
    if (run.lines.size() > 1) out += ", " + interval(run.lines.back());
    out += ".\n";
  }
  if (!run.lines.empty() && !run.lines.back().trunk.empty()) {
    const CollectiveLine& l = run.lines.back();
    out += fmt::format("{}, which {} nodes share, limits it: busy {:.0f} % of the time at {} B.\n", l.trunk,
                       l.trunk_nodes, 100 * l.trunk_busy, l.bytes);
  }
  out += "best: what the links allow whatever the library does, without latency.\n";
  const std::string judged = errors(run, false), used = errors(run, true);
  if (!judged.empty()) out += fmt::format("Geometric-mean error against measured: {}.\n", judged);
  const std::string plain = errors(run, false, &CollectiveLine::plain);
  if (!plain.empty())
    out += fmt::format("By plain interpolation between the calibrating sizes alone: {}.\n", plain);
  out += library_errors(run);
  if (!used.empty()) out += fmt::format("On the sizes that calibrated it: {}.\n", used);
  return out;
}

Gnuplot draw_collective(const CollectiveRun& run) {
  std::vector<std::vector<std::string>> predicted, bound, measured;
  double least = INFINITY, most = 1;
  for (const CollectiveLine& l : run.lines) {
    least = std::clamp(static_cast<double>(l.bytes), 1.0, least);
    most = std::max(most, static_cast<double>(l.bytes));
    const std::string bytes = cell(static_cast<double>(l.bytes));
    const auto rate = [&](double seconds) { return cell(busbw(run, l, seconds) * 1e-9); };
    if (l.seconds > 0) {
      const bool band = l.high > 0;
      predicted.push_back(
          {bytes, rate(l.seconds), rate(band ? l.high : l.seconds), rate(band ? l.low : l.seconds)});
    }
    if (l.best > 0) bound.push_back({bytes, rate(l.best)});
    if (l.measured > 0) measured.push_back({bytes, rate(l.measured)});
  }
  Gnuplot plot("collective");
  plot.heading(fmt::format("{} of {} devices on {}", run.kind, run.devices, run.system));
  plot.set("from", least / 1.2);
  plot.set("to", most * 1.2);
  plot.set("bounded", bound.empty() ? 0 : 1);
  plot.set("compared", measured.empty() ? 0 : 1);
  plot.data("predicted", predicted);
  plot.data("bound", bound);
  plot.data("measured", measured);
  return plot;
}

}  // namespace tandem::app
