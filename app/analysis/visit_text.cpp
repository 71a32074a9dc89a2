// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/visit_text.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "app/console/table.h"
#include "base/units.h"

namespace tandem::app {

namespace {

using calibration::VisitAllReduce;
using calibration::VisitJudged;
using calibration::VisitTraining;

std::string digits(double value) { return fmt::format("{:.4g}", value); }
std::string part(double error) { return fmt::format("{:+.1f} %", 100 * error); }

/// Errors of the figures of one table, and how many lie inside their interval.
struct Sum {
  int64_t count = 0, intervals = 0, inside = 0;
  double errors = 0, worst = 0;
  std::string add(double predicted, double measured) {
    const double error = predicted / measured - 1;
    ++count;
    errors += std::abs(error);
    if (std::abs(error) > std::abs(worst)) worst = error;
    return part(error);
  }
  void hold(double low, double high, double measured) {
    ++intervals;
    inside += low <= measured && measured <= high ? 1 : 0;
  }
  std::string text(const char* what) const {
    if (count == 0) return "";
    std::string out = fmt::format("\n{} {}: mean error {:.1f} %, worst {}", count, what,
                                  100 * errors / static_cast<double>(count), part(worst));
    if (intervals > 0) out += fmt::format("; {} of {} inside the 90 % interval", inside, intervals);
    return out + ".\n";
  }
};

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
  Sum plain, anchored;
  for (const VisitTraining& t : v.trainings) {
    const auto& rate = t.predicted.rate;
    std::vector<std::string> cells = {
        fmt::format("{}, {} {}", t.model, t.batch, t.precision),
        t.scheme,
        std::to_string(t.devices),
        digits(t.measured),
        digits(rate.samples_per_second),
        fmt::format("{} to {}", digits(rate.interval.low), digits(rate.interval.high)),
        plain.add(rate.samples_per_second, t.measured),
        t.anchored ? digits(t.anchored->rate.samples_per_second) : "",
        t.anchored ? anchored.add(t.anchored->rate.samples_per_second, t.measured) : ""};
    plain.hold(rate.interval.low, rate.interval.high, t.measured);
    if (t.anchored) anchored.hold(t.anchored->rate.interval.low, t.anchored->rate.interval.high, t.measured);
    table.add(std::move(cells));
  }
  if (table.empty()) return "";
  return "\n## Rates\n\nSamples/s; an error above zero means predicted too fast. From one device: compute "
         "is scaled so that the prediction meets what one device reached.\n\n" +
         table.markdown() + plain.text("rates") + anchored.text("rates from one device");
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
  Sum sum;
  for (const VisitTraining& t : v.trainings) {
    if (!t.watts || *t.watts <= 0) continue;
    const auto& power = t.predicted.time.power;
    table.add({t.model, t.scheme, std::to_string(t.devices), fmt::format("{:.0f}", *t.watts),
               power ? fmt::format("{:.0f}", power->watts) : "not predicted",
               power ? sum.add(power->watts, *t.watts) : ""});
    if (power && power->high > 0) sum.hold(power->low, power->high, *t.watts);
  }
  return table.empty() ? "" : "\n## Watts of a device\n\n" + table.markdown() + sum.text("figures");
}

std::string all_reduces(const VisitJudged& v) {
  Table table({{"devices", true}, {"bytes"}, {"measured", true}, {"predicted", true}, {"error", true}});
  Sum sum;
  for (const VisitAllReduce& r : v.all_reduces) {
    table.add({std::to_string(r.devices), to_text(Bytes{r.bytes}), to_text(Time::from_seconds(r.measured)),
               to_text(Time::from_seconds(r.predicted)), sum.add(r.predicted, r.measured)});
    if (r.high > 0) sum.hold(r.low, r.high, r.measured);
  }
  return table.empty() ? "" : "\n## All-reduce\n\n" + table.markdown() + sum.text("times");
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
