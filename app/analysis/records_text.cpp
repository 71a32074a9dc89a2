// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/records_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "answers/labels.h"
#include "app/console/table.h"
#include "base/units.h"
#include "calibration/traces/compare_trace.h"
#include "calibration/validate/validation_statistics.h"

namespace tandem::app {

namespace {

using calibration::Errors;
using calibration::RecordRow;
using Rate = Report::Rate;

std::string signed_percent(double error) { return fmt::format("{:+.1f} %", 100 * error); }
std::string rate_cell(double rate) { return fmt::format("{:.4g}", rate); }

/// "convolutions, products: 12.1 ms, predicted 9.8 ms".
std::string differs_most(const RecordRow& row, const Report& predicted) {
  const std::vector<TracedPair> pairs = compare_trace(predicted, row.seen);
  if (pairs.empty()) return "";
  const auto most =
      std::max_element(pairs.begin(), pairs.end(), [](const TracedPair& a, const TracedPair& b) {
        return std::abs(a.difference()) < std::abs(b.difference());
      });
  return fmt::format("{}: {}, predicted {}", most->what, to_text(Time::from_seconds(most->traced)),
                     to_text(Time::from_seconds(most->predicted)));
}

/// Errors of several records of one kind, and whose is the worst.
struct Score {
  Errors errors;
  double worst = 0;
  std::string whose;
  void add(const std::string& name, double error) {
    errors.all.push_back(error);
    if (std::abs(error) > std::abs(worst)) worst = error, whose = name;
  }
  void add(const RecordRow& row, const Rate& rate) {
    add(row.name, rate.samples_per_second / row.measured - 1);
    ++errors.intervals;
    errors.held += rate.interval.low <= row.measured && row.measured <= rate.interval.high;
  }
  /// "3 rates: mean error 4.2 %, worst -7.0 % (vgg11); 2 of 3 inside their 90 % interval."
  std::string text(const char* what) const {
    if (errors.all.empty()) return "";
    std::string out =
        fmt::format("\n{} {}{}: mean error {:.1f} %, worst {} ({})", errors.all.size(), what,
                    errors.all.size() == 1 ? "" : "s", 100 * errors.mean(), signed_percent(worst), whose);
    if (errors.intervals > 0)
      out += fmt::format("; {} of {} inside the 90 % interval", errors.held, errors.intervals);
    return out + ".\n";
  }
};

/// A table of rates: the record and its devices, one column more, what was measured and what was predicted.
Table rate_table(const char* own) {
  return Table({{"record"},
                {"devices", true},
                {own, true},
                {"measured", true},
                {"predicted", true},
                {"90 % interval"},
                {"error", true},
                {"differs most"}});
}
void add_rate(Table& table, Score& score, const RecordRow& row, const std::string& own,
              const Report& predicted) {
  const Rate& rate = predicted.rate;
  score.add(row, rate);
  table.add({row.name, std::to_string(row.devices), own, rate_cell(row.measured),
             rate_cell(rate.samples_per_second),
             fmt::format("{} to {}", rate_cell(rate.interval.low), rate_cell(rate.interval.high)),
             signed_percent(score.errors.all.back()), differs_most(row, predicted)});
}

std::string rates_text(const std::vector<RecordRow>& rows) {
  Table table = rate_table("batch");
  Score score;
  for (const RecordRow& row : rows) add_rate(table, score, row, std::to_string(row.batch), row.predicted);
  return "# Records\n\nSamples/s; an error above zero means predicted too fast.\n\n" + table.markdown() +
         score.text("rate");
}

std::string anchored_text(const std::vector<RecordRow>& rows) {
  Table table = rate_table("anchor");
  Score score;
  for (const RecordRow& row : rows) {
    if (row.anchored) add_rate(table, score, row, fmt::format("on {}", row.anchor_devices), *row.anchored);
  }
  if (table.empty()) return "";
  return "\n## From the record on fewest devices\n\nCompute is scaled so that the prediction meets that "
         "record, the anchor.\n\n" +
         table.markdown() + score.text("rate");
}

std::string records_memory_text(const std::vector<RecordRow>& rows) {
  Table table({{"record"}, {"allocated", true}, {"predicted", true}, {"error", true}});
  Score score;
  for (const RecordRow& row : rows) {
    if (row.allocated == 0) continue;
    score.add(row.name, static_cast<double>(row.predicted_bytes) / static_cast<double>(row.allocated) - 1);
    table.add({row.name, to_text(Bytes{row.allocated}), to_text(Bytes{row.predicted_bytes}),
               signed_percent(score.errors.all.back())});
  }
  return table.empty() ? "" : "\n## Memory\n\n" + table.markdown() + score.text("figure");
}

std::string records_power_text(const std::vector<RecordRow>& rows) {
  Table table({{"record"}, {"watts", true}, {"predicted", true}, {"90 % interval"}, {"error", true}});
  Score score;
  for (const RecordRow& row : rows) {
    if (!row.predicted_power) continue;
    const schemes::DevicePower& p = *row.predicted_power;
    score.add(row.name, p.watts / row.watts - 1);
    ++score.errors.intervals;
    score.errors.held += p.low <= row.watts && row.watts <= p.high;
    table.add({row.name, fmt::format("{:.0f}", row.watts), fmt::format("{:.0f}", p.watts),
               fmt::format("{:.0f} to {:.0f}", p.low, p.high), signed_percent(score.errors.all.back())});
  }
  return table.empty() ? "" : "\n## Power of a GPU\n\n" + table.markdown() + score.text("figure");
}

/// Of one record.
std::string kinds_text(const RecordRow& row) {
  Table table({{"of a step"}, {"predicted ms", true}, {"recorded ms", true}});
  const auto add = [&](const std::string& what, double predicted, double seen) {
    table.add({what, fmt::format("{:.2f}", 1e3 * predicted), fmt::format("{:.2f}", 1e3 * seen)});
  };
  add("whole", row.predicted.iteration.median, row.seen.step_median);
  for (const TracedPair& pair : compare_trace(row.predicted, row.seen))
    add(pair.what, pair.predicted, pair.traced);
  return fmt::format("\n## Where the time goes\n\nOn {}, PyTorch {}.\n\n", row.machine, row.torch) +
         table.markdown();
}

}  // namespace

std::string records_markdown(const std::vector<RecordRow>& rows) {
  return rates_text(rows) + anchored_text(rows) + records_memory_text(rows) + records_power_text(rows) +
         (rows.size() == 1 ? kinds_text(rows.front()) : "");
}

std::string records_csv(const std::vector<RecordRow>& rows) {
  Table table({{"record"},
               {"model"},
               {"system"},
               {"scheme"},
               {"machine"},
               {"torch"},
               {"devices"},
               {"batch"},
               {"measured"},
               {"predicted"},
               {"low"},
               {"high"},
               {"error_percent"},
               {"anchor_devices"},
               {"anchored"},
               {"anchored_low"},
               {"anchored_high"},
               {"anchored_error_percent"},
               {"allocated_bytes"},
               {"predicted_bytes"},
               {"differs_most"},
               {"watts"},
               {"predicted_watts"}});
  const auto percent = [](double predicted, double measured) {
    return fmt::format("{:.2f}", 100 * (predicted / measured - 1));
  };
  const auto exact = [](double value) { return fmt::format("{:.6g}", value); };
  for (const RecordRow& r : rows) {
    const Rate& rate = r.predicted.rate;
    std::vector<std::string> cells = {r.name,
                                      report_input(r.predicted, "model"),
                                      report_input(r.predicted, "system"),
                                      report_input(r.predicted, "scheme"),
                                      r.machine,
                                      r.torch,
                                      std::to_string(r.devices),
                                      std::to_string(r.batch),
                                      exact(r.measured),
                                      exact(rate.samples_per_second),
                                      exact(rate.interval.low),
                                      exact(rate.interval.high),
                                      percent(rate.samples_per_second, r.measured)};
    if (r.anchored) {
      const Rate& met = r.anchored->rate;
      cells.insert(cells.end(),
                   {std::to_string(r.anchor_devices), exact(met.samples_per_second), exact(met.interval.low),
                    exact(met.interval.high), percent(met.samples_per_second, r.measured)});
    } else {
      cells.insert(cells.end(), 5, "");
    }
    const bool memory = r.allocated > 0;
    cells.insert(cells.end(),
                 {memory ? std::to_string(r.allocated) : "", memory ? std::to_string(r.predicted_bytes) : "",
                  differs_most(r, r.predicted), r.watts > 0 ? exact(r.watts) : "",
                  r.predicted_power ? exact(r.predicted_power->watts) : ""});
    table.add(std::move(cells));
  }
  return table.csv();
}

}  // namespace tandem::app
