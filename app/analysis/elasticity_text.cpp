// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/elasticity_text.h"

#include <fmt/format.h>

#include <optional>
#include <span>

#include "app/console/table.h"
#include "base/json_writer.h"

namespace tandem::app {

namespace {

std::string json_of(const Question& q, const std::vector<Elasticity>& all) {
  JsonWriter out = {{"schema", "tandem-elasticities-1"}, {"model", q.graph.name()},
                    {"system", q.system.name()},         {"scheme", q.scheme.name},
                    {"batch_per_device", q.batch},       {"precision", name(q.precision)},
                    {"step", elasticity_step(q)},        {"rows", JsonWriter::array()}};
  for (std::size_t i = 0; i < q.devices.size(); ++i) {
    for (const Elasticity& e : all) {
      JsonWriter row = {{"devices", q.devices[i]}, {"resource", e.resource.path}};
      if (e.resource.speed == nullptr) row["value"] = e.resource.text();
      row["fits"] = e.at[i].has_value();
      row["elasticity"] = e.at[i];
      row["gain_if_unlimited"] = e.unlimited[i];
      out["rows"].push_back(std::move(row));
    }
  }
  return out.dump(2);
}

std::string value_text(const Resource& r) {
  if (r.speed != nullptr) return "";
  return r.bandwidth ? to_text(Bandwidth{r.value}) : fmt::format("{:.3g}", r.value);
}

std::string csv_of(const Question& q, const std::vector<Elasticity>& all) {
  Table table(
      {{"devices"}, {"resource"}, {"value"}, {"elasticity"}, {"gain_if_unlimited"}, {"unit"}, {"fits"}});
  const auto figure = [](const std::optional<double>& v) { return v ? fmt::format("{:.6f}", *v) : ""; };
  for (std::size_t i = 0; i < q.devices.size(); ++i) {
    for (const Elasticity& e : all) {
      table.add({std::to_string(q.devices[i]), e.resource.path,
                 e.resource.speed != nullptr ? "" : fmt::format("{:.9g}", e.resource.value), figure(e.at[i]),
                 figure(e.unlimited[i]), e.resource.bandwidth ? "B/s" : "", e.at[i] ? "true" : "false"});
    }
  }
  return table.csv();
}

std::string devices_text(int64_t n) { return fmt::format("{} device{}", n, n == 1 ? "" : "s"); }

/// Two columns for each of some device counts, given by their index.
Table elasticity_table(const Question& q, const std::vector<Elasticity>& all,
                       std::span<const std::size_t> counts) {
  std::vector<Column> columns = {{"resource"}, {"now", true}};
  for (const std::size_t i : counts) {
    columns.push_back({devices_text(q.devices[i]), true});
    columns.push_back({"unlimited", true});
  }
  Table table(std::move(columns));
  for (const Elasticity& e : all) {
    std::vector<std::string> row = {e.resource.path, value_text(e.resource)};
    for (const std::size_t i : counts) {
      row.push_back(fmt::format("{:.3f}", *e.at[i]));
      row.push_back(fmt::format("{:+.1f} %", 100 * *e.unlimited[i]));
    }
    table.add(std::move(row));
  }
  return table;
}

}  // namespace

std::string elasticities_as(const Question& q, const std::vector<Elasticity>& all, const std::string& format,
                            int width) {
  if (format == "json") return json_of(q, all);
  if (format == "csv") return csv_of(q, all);
  std::vector<std::size_t> held;  // for the devices of these counts
  std::string missing, tables;
  for (std::size_t i = 0; i < q.devices.size(); ++i) {
    if (all[0].at[i])
      held.push_back(i);
    else
      missing += fmt::format("{} cannot hold the model.\n", devices_text(q.devices[i]));
  }
  while (!held.empty()) {
    std::size_t count = held.size();
    while (count > 1 && !elasticity_table(q, all, {held.data(), count}).fits(width)) --count;
    tables += elasticity_table(q, all, {held.data(), count}).as(format, width) + "\n";
    held.erase(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return tables + missing +
         "d log(samples/s) / d log(resource): 0.300 means that 1 % more of it gives 0.30 % more "
         "samples/s.\nUnlimited: the gain from practically infinite capacity. If that is small, the "
         "elasticity holds only for the next per cent.\nlaunch: the host's work for a step. server: "
         "processors of servers. latency: of messages and collectives, besides their bytes. library: what a "
         "collective library's kernels move between devices of a node, where links carry more. threads: of "
         "network libraries, between nodes." +
         std::string(q.system.packet_loss().kind == PacketLoss::Kind::tcp ? " timers: of retransmissions.\n"
                                                                          : "\n");
}

}  // namespace tandem::app
