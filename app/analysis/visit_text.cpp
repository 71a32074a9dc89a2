// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/visit_text.h"

#include <fmt/format.h>

#include <utility>

#include "app/console/table.h"
#include "base/units.h"
#include "calibration/validate/validation_statistics.h"

namespace tandem::app {

namespace {

using calibration::Errors;
using calibration::VisitAllReduce;
using calibration::VisitJudged;
using calibration::VisitTraining;

std::string digits(double value) { return fmt::format("{:.4g}", value); }
std::string part(double error) { return fmt::format("{:+.1f} %", 100 * error); }

/// Adds a predicted figure, without an interval where `high` is 0; its error in words.
std::string judged(Errors& errors, double predicted, double measured, double low = 0, double high = 0) {
  errors.all.push_back(predicted / measured - 1);
  if (high > 0) {
    ++errors.intervals;
    errors.held += low <= measured && measured <= high;
  }
  return part(errors.all.back());
}

std::string sum_of(const Errors& errors, const char* what) {
  if (errors.all.empty()) return "";
  std::string out = fmt::format("\n{} {}: mean error {:.1f} %, worst {:.1f} %", errors.all.size(), what,
                                100 * errors.mean(), 100 * errors.quantile(1));
  if (errors.intervals > 0)
    out += fmt::format("; {} of {} inside the 90 % interval", errors.held, errors.intervals);
  return out + ".\n";
}

std::string rates(const VisitJudged& v) {
  Table table({{"model, batch"},
               {"scheme"},
               {"devices", true},
               {"measured", true},
               {"predicted", true},
               {"90 % interval"},
               {"error", true},
               {"from one device", true},
               {"error", true}});
  Errors plain, anchored;
  for (const VisitTraining& t : v.trainings) {
    const auto& rate = t.predicted.rate;
    std::vector<std::string> cells = {
        fmt::format("{}, {} {}", t.model, t.batch, t.precision),
        t.scheme,
        std::to_string(t.devices),
        digits(t.measured),
        digits(rate.samples_per_second),
        fmt::format("{} to {}", digits(rate.interval.low), digits(rate.interval.high)),
        judged(plain, rate.samples_per_second, t.measured, rate.interval.low, rate.interval.high),
        t.anchored ? digits(t.anchored->rate.samples_per_second) : "",
        t.anchored ? judged(anchored, t.anchored->rate.samples_per_second, t.measured,
                            t.anchored->rate.interval.low, t.anchored->rate.interval.high)
                   : ""};
    table.add(std::move(cells));
  }
  if (table.empty()) return "";
  return "\n## Rates\n\nSamples/s; an error above zero means predicted too fast. From one device: compute "
         "is scaled so that the prediction meets what one device reached.\n\n" +
         table.markdown() + sum_of(plain, "rates") + sum_of(anchored, "rates from one device");
}

std::string staleness(const VisitJudged& v) {
  Table table({{"model"}, {"scheme"}, {"devices", true}, {"measured", true}, {"predicted", true}});
  for (const VisitTraining& t : v.trainings) {
    const double predicted = t.predicted.staleness.all.mean();
    if (!t.staleness || (*t.staleness == 0 && predicted == 0)) continue;
    table.add({t.model, t.scheme, std::to_string(t.devices), fmt::format("{:.2f}", *t.staleness),
               fmt::format("{:.2f}", predicted)});
  }
  return table.empty() ? "" : "\n## Staleness\n\nMean, in versions.\n\n" + table.markdown();
}

std::string watts(const VisitJudged& v) {
  Table table(
      {{"model"}, {"scheme"}, {"devices", true}, {"measured", true}, {"predicted", true}, {"error", true}});
  Errors errors;
  for (const VisitTraining& t : v.trainings) {
    if (!t.watts || *t.watts <= 0) continue;
    const auto& power = t.predicted.time.power;
    table.add({t.model, t.scheme, std::to_string(t.devices), fmt::format("{:.0f}", *t.watts),
               power ? fmt::format("{:.0f}", power->watts) : "not predicted",
               power ? judged(errors, power->watts, *t.watts, power->low, power->high) : ""});
  }
  return table.empty() ? "" : "\n## Watts of a device\n\n" + table.markdown() + sum_of(errors, "figures");
}

std::string all_reduces(const VisitJudged& v) {
  Table table({{"devices", true}, {"bytes"}, {"measured", true}, {"predicted", true}, {"error", true}});
  Errors errors;
  for (const VisitAllReduce& r : v.all_reduces) {
    table.add({std::to_string(r.devices), to_text(Bytes{r.bytes}), to_text(Time::from_seconds(r.measured)),
               to_text(Time::from_seconds(r.predicted)),
               judged(errors, r.predicted, r.measured, r.low, r.high)});
  }
  return table.empty() ? "" : "\n## All-reduce\n\n" + table.markdown() + sum_of(errors, "times");
}

}  // namespace

std::string visits_judged_markdown(const std::vector<VisitJudged>& visits) {
  std::string out;
  for (const VisitJudged& v : visits)
    out += fmt::format("{}# {}\n\n{}{}, predicted as {}.\n", out.empty() ? "" : "\n", v.file, v.machine,
                       v.date.empty() ? "" : ", " + v.date, v.system) +
           rates(v) + staleness(v) + watts(v) + all_reduces(v);
  return out;
}

std::string visits_judged_csv(const std::vector<VisitJudged>& visits) {
  Table table({{"file"},
               {"system"},
               {"what"},
               {"scheme"},
               {"devices"},
               {"batch_or_bytes"},
               {"precision"},
               {"measured"},
               {"predicted"},
               {"low"},
               {"high"},
               {"error_percent"},
               {"from_one_device"},
               {"staleness"},
               {"predicted_staleness"},
               {"watts"},
               {"predicted_watts"}});
  const auto exact = [](double value) { return fmt::format("{:.6g}", value); };
  const auto percent = [](double predicted, double measured) {
    return fmt::format("{:.2f}", 100 * (predicted / measured - 1));
  };
  for (const VisitJudged& v : visits) {
    for (const VisitTraining& t : v.trainings) {
      const auto& rate = t.predicted.rate;
      const auto& power = t.predicted.time.power;
      table.add({v.file, v.system, t.model, t.scheme, std::to_string(t.devices), std::to_string(t.batch),
                 t.precision, exact(t.measured), exact(rate.samples_per_second), exact(rate.interval.low),
                 exact(rate.interval.high), percent(rate.samples_per_second, t.measured),
                 t.anchored ? exact(t.anchored->rate.samples_per_second) : "",
                 t.staleness ? exact(*t.staleness) : "", exact(t.predicted.staleness.all.mean()),
                 t.watts ? exact(*t.watts) : "", power ? exact(power->watts) : ""});
    }
    for (const VisitAllReduce& r : v.all_reduces)
      table.add({v.file, v.system, "all-reduce", "", std::to_string(r.devices), std::to_string(r.bytes), "",
                 exact(r.measured), exact(r.predicted), r.high > 0 ? exact(r.low) : "",
                 r.high > 0 ? exact(r.high) : "", percent(r.predicted, r.measured), "", "", "", "", ""});
  }
  return table.csv();
}

}  // namespace tandem::app
