// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validate_incast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/data.h"
#include "base/json.h"
#include "sim/cost/incast.h"

namespace tandem::calibration {

namespace {

constexpr double kMostSenders = 10'000;
constexpr double kRarely = 0.01;  // of the rounds

/// A port as the row describes it.
IncastPort port_of_row(const Json& row) {
  IncastPort port{row.at("rate").as_bandwidth().bytes_per_second, 0, {}};
  if (const Json* rtt = row.find("rtt")) port.rtt = rtt->as_time().seconds();
  if (row.find("timeouts") != nullptr) return port;
  Json transport = Json::make_object(row.place());
  transport.set("loss", Json::make_text("tcp", row.place()));
  for (const char* key : {"buffer", "min_rto", "segment", "initial_window", "ecn"}) {
    if (const Json* value = row.find(key)) transport.set(key, *value);
  }
  port.loss = read_packet_loss(transport);
  return port;
}

/// The largest number of senders of `bytes` each at which hardly any round waits.
double most_senders(const IncastPort& port, double bytes) {
  double senders = 1;
  while (senders < kMostSenders && incast(port, senders + 1, bytes / (senders + 1)).suffering <= kRarely)
    ++senders;
  return senders;
}

double predicted_incast(const Json& row, const std::string& metric) {
  const IncastPort port = port_of_row(row);
  const double bytes = row.at("bytes").as_real(1, 1e15);
  if (metric == "most_senders") return most_senders(port, bytes);
  const double senders = row.at("senders").as_real(1, kMostSenders);
  if (const Json* given = row.find("timeouts"))
    return senders * bytes / port.rate + given->as_real(0, 100) * row.at("min_rto").as_time().seconds();
  const Incast round = incast(port, senders, bytes);
  if (metric == "timeouts") return round.timeouts;
  if (metric == "suffering") return round.suffering;
  if (metric == "seconds") return round.seconds;
  if (metric == "goodput") return round.goodput();
  if (metric == "utilisation") return round.utilisation;
  row.at("metric").fail("Valid: timeouts, suffering, most_senders, seconds, goodput, utilisation");
}

IncastRow::Is incast_relation(const Json& is) {
  if (is.as_text() == "equal") return IncastRow::Is::equal;
  if (is.as_text() == "at_least") return IncastRow::Is::at_least;
  if (is.as_text() == "at_most") return IncastRow::Is::at_most;
  is.fail("Valid: equal, at_least, at_most");
}

std::string incast_figure(const IncastRow& row, double value) {
  if (value < 1e-6) value = 0;
  if (row.metric == "seconds") return fmt::format("{:.3g} ms", 1e3 * value);
  if (row.metric == "most_senders") return fmt::format("{:.0f}", value);
  if (row.metric == "timeouts") return fmt::format("{:.2g}", value);
  return fmt::format("{:.3g} %", 100 * value);
}

}  // namespace

bool IncastRow::met() const {
  constexpr double kNear = 0.25, kRounding = 1e-9;
  if (is == Is::at_least) return predicted >= published - kRounding;
  if (is == Is::at_most) return predicted <= published + kRounding;
  return std::abs(predicted / published - 1) <= kNear;
}

std::vector<IncastRow> validate_incast() {
  const Json document = Json::load(data_root() + "/calibration/data/incast.json");
  document.only({"note", "sources", "rows"});
  std::vector<IncastRow> out;
  for (const Json& row : document.at("rows").items()) {
    row.only({"source", "what", "rate", "rtt", "buffer", "segment", "initial_window", "min_rto", "ecn",
              "metric", "senders", "bytes", "timeouts", "is", "value", "note"});
    const std::string& metric = row.at("metric").as_text();
    document.at("sources").at(row.at("source").as_text());
    out.push_back({row.at("source").as_text(), row.at("what").as_text(), metric, row.text("buffer", "-"),
                   incast_relation(row.at("is")), row.at("value").as_real(0), predicted_incast(row, metric)});
  }
  return out;
}

std::string incast_markdown(const std::vector<IncastRow>& rows) {
  const Json document = Json::load(data_root() + "/calibration/data/incast.json");
  const auto met = std::count_if(rows.begin(), rows.end(), [](const IncastRow& r) { return r.met(); });
  std::string out = fmt::format(
      "\n## Incast\n\nMany senders into one port that loses packets, by the formula of sim/cost/incast.h, "
      "which was fitted to no row\n([incast.json](calibration/data/incast.json)). {} of {} rows are met: "
      "bounds, and "
      "figures within a quarter.\n\n| source | case | buffer | figure | published | predicted | met |\n"
      "| --- | --- | ---: | --- | ---: | ---: | --- |\n",
      met, rows.size());
  for (const IncastRow& r : rows) {
    const char* bound = r.is == IncastRow::Is::at_least ? "≥ " : r.is == IncastRow::Is::at_most ? "≤ " : "";
    std::string words = r.metric;
    std::replace(words.begin(), words.end(), '_', ' ');
    out += fmt::format("| {} | {} | {} | {} | {}{} | {} | {} |\n", r.source, r.what, r.buffer, words, bound,
                       incast_figure(r, r.published), incast_figure(r, r.predicted), r.met() ? "yes" : "no");
  }
  out += "\n";
  for (const auto& [name, text] : document.at("sources").members())
    out += fmt::format("- {}: {}\n", name, text.as_text());
  return out;
}

}  // namespace tandem::calibration
