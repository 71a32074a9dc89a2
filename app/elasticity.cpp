#include "app/elasticity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/table.h"

namespace tandem {

namespace {

constexpr double kStep = 1.01;

void add_if_there(const Json& document, const std::string& block, const std::string& key, bool bandwidth,
                  std::vector<Resource>& out) {
  const Json* in = document.find(block);
  const Json* value = in == nullptr ? nullptr : in->find(key);
  if (value == nullptr) return;
  const double now = bandwidth ? value->as_bandwidth().bytes_per_second : value->as_real();
  if (now > 0) out.push_back({block + "." + key, now, bandwidth});
}

double slope(const Question& q, const Resource& r, int64_t devices) {
  double rate[2] = {};
  for (const int up : {0, 1}) {
    const double factor = up == 1 ? kStep : 1 / kStep;
    Prediction p = prediction_on(q, q.system, devices);
    if (r.path == "compute") {
      p.compute_speed = factor;
      rate[up] = simulate(p).samples_per_second;
    } else {
      const System system = turned(q, r, factor);
      p.system = &system;
      rate[up] = simulate(p).samples_per_second;
    }
  }
  const double value = std::log(rate[1] / rate[0]) / (2 * std::log(kStep));
  return std::abs(value) < 5e-5 ? 0 : value;  // below what picoseconds of a step resolve
}

}  // namespace

std::string Resource::text(double factor) const {
  return bandwidth ? fmt::format("{:.17g}B/s", value * factor) : fmt::format("{:.17g}", value * factor);
}

std::vector<Resource> resources_of(const Question& q) {
  const Json document = System::document(q.system_text, q.sets);
  std::vector<Resource> out;
  if (const Json* links = document.find("links")) {
    for (const auto& [kind, spec] : links->members())
      out.push_back({"links." + kind + ".bandwidth", spec.at("bandwidth").as_bandwidth().bytes_per_second});
  }
  if (q.system.nodes() > 1) add_if_there(document, "network", "bandwidth", true, out);
  add_if_there(document, "host", "local_storage", true, out);
  add_if_there(document, "host", "shared_storage", true, out);
  if (q.input && q.system.host().cores > 0)
    out.push_back({"host.core_speed", q.system.host().core_speed, false});
  return out;
}

System turned(const Question& q, const Resource& resource, double factor) {
  auto sets = q.sets;
  sets.emplace_back(resource.path, resource.text(factor));
  return System::load(q.system_text, sets);
}

Prediction prediction_on(const Question& q, const System& system, int64_t devices) {
  Prediction p = q.prediction(devices);
  p.system = &system;
  p.check_memory = false;
  if (p.anchor) p.anchor->system = &q.system;
  return p;
}

std::vector<Elasticity> elasticities(const Question& q) {
  auto resources = resources_of(q);
  resources.push_back({"compute", 1, false});
  std::vector<Elasticity> out;
  for (Resource& r : resources) {
    Elasticity e{std::move(r), {}};
    for (const int64_t n : q.devices) e.at.push_back(slope(q, e.resource, n));
    out.push_back(std::move(e));
  }
  std::stable_sort(out.begin(), out.end(), [](const Elasticity& a, const Elasticity& b) {
    return std::abs(a.at.back()) > std::abs(b.at.back());
  });
  return out;
}

namespace {

std::string json_of(const Question& q, const std::vector<Elasticity>& all) {
  nlohmann::ordered_json out = {{"schema", "tandem-elasticities-1"},
                                {"model", q.graph.name()},
                                {"system", q.system.name()},
                                {"scheme", q.scheme.name},
                                {"batch_per_device", q.batch},
                                {"precision", name(q.precision)},
                                {"step", kStep - 1},
                                {"rows", nlohmann::ordered_json::array()}};
  for (std::size_t i = 0; i < q.devices.size(); ++i) {
    for (const Elasticity& e : all) {
      nlohmann::ordered_json row = {{"devices", q.devices[i]}, {"resource", e.resource.path}};
      if (e.resource.path != "compute") row["value"] = e.resource.text();
      row["elasticity"] = e.at[i];
      out["rows"].push_back(std::move(row));
    }
  }
  return out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string value_text(const Resource& r) {
  if (r.path == "compute") return "";
  return r.bandwidth ? to_text(Bandwidth{r.value}) : fmt::format("{:.3g}", r.value);
}

std::string csv_of(const Question& q, const std::vector<Elasticity>& all) {
  Table table({{"devices"}, {"resource"}, {"value"}, {"elasticity"}});
  for (std::size_t i = 0; i < q.devices.size(); ++i) {
    for (const Elasticity& e : all) {
      table.add({std::to_string(q.devices[i]), e.resource.path,
                 e.resource.path == "compute" ? "" : e.resource.text(), fmt::format("{:.6f}", e.at[i])});
    }
  }
  return table.csv();
}

}  // namespace

std::string elasticities_as(const Question& q, const std::vector<Elasticity>& all,
                            const std::string& format) {
  if (format == "json") return json_of(q, all);
  if (format == "csv") return csv_of(q, all);
  std::vector<Column> columns = {{"resource"}, {"now", true}};
  for (const int64_t n : q.devices)
    columns.push_back({fmt::format("{} device{}", n, n == 1 ? "" : "s"), true});
  Table table(std::move(columns));
  for (const Elasticity& e : all) {
    std::vector<std::string> row = {e.resource.path, value_text(e.resource)};
    for (const double v : e.at) row.push_back(fmt::format("{:.3f}", v));
    table.add(std::move(row));
  }
  return table.as(format) +
         "\nd log(samples/s) / d log(resource): 0.300 means that 1 % more of it gives 0.30 % more "
         "samples/s.\n";
}

}  // namespace tandem
