// SPDX-License-Identifier: Apache-2.0
// Link benchmarks -> the measured figures, or, with --system, that system's file with its links at what was
// measured.
#include <fmt/format.h>

#include <algorithm>

#include "base/json_writer.h"

#include "app/console/output.h"
#include "app/import_kind.h"
#include "base/data.h"
#include "calibration/logs/link_tests.h"

namespace tandem::app {

namespace {

/// A document as it was read, for writing; comments and places are gone.
JsonWriter plain(const Json& json) {
  switch (json.kind()) {
    case Json::Kind::null:
      return nullptr;
    case Json::Kind::boolean:
      return json.as_bool();
    case Json::Kind::integer:
      return json.as_int();
    case Json::Kind::real:
      return json.as_real();
    case Json::Kind::text:
      return json.as_text();
    case Json::Kind::array: {
      auto out = JsonWriter::array();
      for (const Json& item : json.items()) out.push_back(plain(item));
      return out;
    }
    case Json::Kind::object:
      break;
  }
  auto out = JsonWriter::object();
  for (const auto& [key, value] : json.members()) out[key] = plain(value);
  return out;
}

std::string calibrated(const Arguments& arguments, const LinkTests& tests, const std::string& sources) {
  const std::string name = arguments.text("system", "");
  const System system = System::load(name, {}, option_place("system"));
  std::vector<std::string> notes;
  const auto fits = fit_links(tests, system, notes);
  Json document = Json::load(find_data("topologies/systems", "system", name));
  for (const LinkFit& fit : fits) {
    const bool rate = fit.path.starts_with("peer_access.");
    if (rate && document.find("peer_access") == nullptr) continue;
    const auto written = [&](double v) {
      return rate ? fmt::format("{:.4g}GB/s", v * 1e-9) : fmt::format("{:.4g}", v);
    };
    document.set_path(fit.path, written(fit.after), option_place("system"), true);
    note(arguments, fmt::format("{}: {} -> {} (median of {} figures)", fit.path, written(fit.before),
                                written(fit.after), fit.figures));
  }
  for (const std::string& remark : notes) note(arguments, remark);
  if (std::any_of(fits.begin(), fits.end(),
                  [](const LinkFit& f) { return f.path.starts_with("peer_access."); }))
    note(arguments,
         "what peer_access holds now is the most that one copy of the driver reaches on a path; a "
         "collective's "
         "kernels may reach less, which tandem collective --log shows");
  auto out = plain(document);
  out["name"] = arguments.text("name", system.name() + "-measured");
  if (document.find("sources") == nullptr) out["sources"] = JsonWriter::array();
  out["sources"].push_back("links measured: " + sources);
  std::string text = out.dump(2);
  System::from_json(Json::parse(text, "calibrated system"));  // what is handed out can be read back
  return text;
}

int import_link_tests(const Arguments& arguments, const std::vector<ImportFile>& files) {
  LinkTests tests;
  std::string sources;
  for (const ImportFile& file : files) {
    merge(tests, read_link_tests(file.text, file.name));
    sources += (sources.empty() ? "" : ", ") + printable(file.name);
  }
  put_result(arguments,
             arguments.has("system") ? calibrated(arguments, tests, sources) : link_tests_json(tests));
  return 0;
}

}  // namespace

void register_p2p(Registry<ImportKind>& registry) {
  registry.add(
      {"p2p",
       "p2pBandwidthLatencyTest, bandwidthTest, nvbandwidth: measured links, or a system's file set to them",
       looks_like_link_tests,
       import_link_tests,
       {{"system", "NAME|FILE", "write this system's file with its links at what was measured"},
        {"name", "TEXT", "what to call the system (default: imported)"}}});
}

}  // namespace tandem::app
