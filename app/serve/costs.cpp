// SPDX-License-Identifier: Apache-2.0
#include "app/serve/costs.h"

#include "answers/question.h"
#include "answers/shell_line.h"
#include "base/json.h"

namespace tandem::app {

JsonWriter costs_json(const std::vector<Report>& reports, double usd) {
  auto out = JsonWriter::array();
  for (const Report& r : reports) {
    const double hourly = usd * static_cast<double>(r.setup.devices), each_second = hourly / 3600;
    JsonWriter cost = {{"devices", r.setup.devices},
                       {"usd_per_hour", hourly},
                       {"usd_per_million_samples", nullptr},
                       {"usd_to_target", nullptr}};
    const double rate = r.goodput ? r.goodput->samples_per_second : r.rate.samples_per_second;
    if (r.fits && rate > 0) cost["usd_per_million_samples"] = 1e6 / rate * each_second;
    if (r.fits && r.progress && r.progress->seconds && r.progress->seconds_low && r.progress->seconds_high)
      cost["usd_to_target"] = {{"low", *r.progress->seconds_low * each_second},
                               {"value", *r.progress->seconds * each_second},
                               {"high", *r.progress->seconds_high * each_second}};
    out.push_back(std::move(cost));
  }
  return out;
}

std::string command_of(const Values& question) {
  Values named = question;
  for (const char* option : {"model", "system"}) {
    const std::string text = question.text(option, "");
    if (is_document(text)) named.set(option, {Json::parse(text, option).text("name", "imported") + ".json"});
  }
  return predict_line(named);
}

}  // namespace tandem::app
