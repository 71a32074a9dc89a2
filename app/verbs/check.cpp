#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/cross_check.h"
#include "app/output.h"
#include "app/table.h"
#include "app/verb.h"

namespace tandem {

namespace {

std::atomic<bool> interrupted{false};

struct Summary {
  double mean = 0, most = 0, covered = 0;
  int64_t intervals = 0;
};

Summary summarise(const std::vector<CheckRow>& rows) {
  Summary s;
  int64_t counted = 0;
  for (const CheckRow& r : rows) {
    if (r.interval) {
      ++s.intervals;
      s.covered += r.covered ? 1 : 0;
    }
    if (r.metric == "staleness_distance") continue;
    s.mean += std::abs(r.error);
    s.most = std::max(s.most, std::abs(r.error));
    ++counted;
  }
  if (counted > 0) s.mean /= static_cast<double>(counted);
  if (s.intervals > 0) s.covered /= static_cast<double>(s.intervals);
  return s;
}

std::string json(const std::vector<CheckRow>& rows, const Summary& s) {
  nlohmann::ordered_json d = {{"schema", "tandem-check-1"}, {"cases", nlohmann::ordered_json::array()}};
  for (const CheckRow& r : rows) {
    d["cases"].push_back({{"model", r.model},
                          {"scheme", r.scheme},
                          {"devices", r.devices},
                          {"batch_per_device", r.batch},
                          {"metric", r.metric},
                          {"predicted", r.predicted},
                          {"executed", r.executed},
                          {"error", r.error},
                          {"repeatability", r.floor}});
    if (!r.pace.empty()) d["cases"].back()["pace"] = r.pace;
    if (r.interval) d["cases"].back()["in_interval"] = r.covered;
  }
  d["mean_abs_error"] = s.mean;
  d["max_abs_error"] = s.most;
  d["interval_level"] = 0.9;
  d["interval_coverage"] = s.covered;
  return d.dump(2) + "\n";
}

std::string text(const std::vector<CheckRow>& rows, const Summary& s, const std::string& format) {
  Table table({{"model", false},
               {"batch", true},
               {"workers", true},
               {"scheme", false},
               {"links", false},
               {"metric", false},
               {"predicted", true},
               {"executed", true},
               {"error", true},
               {"two runs differ by", true}});
  for (const CheckRow& r : rows) {
    const bool distance = r.metric == "staleness_distance";
    table.add({r.model, std::to_string(r.batch), std::to_string(r.devices), r.scheme, r.pace, r.metric,
               distance ? "" : fmt::format("{:.4g}", r.predicted),
               distance ? "" : fmt::format("{:.4g}", r.executed),
               distance ? fmt::format("{:.3f}", r.error) : fmt::format("{:+.1f} %", 100 * r.error),
               distance ? fmt::format("{:.3f}", r.floor) : fmt::format("{:.1f} %", 100 * r.floor)});
  }
  return fmt::format(
      "{}\nMean error {:.1f} %, largest {:.1f} %; {:.0f} % of {} executions lie in their 90 % interval.\n",
      table.as(format), 100 * s.mean, 100 * s.most, 100 * s.covered, s.intervals);
}

/// The given profile, or one measured now and kept beside the result.
std::string profile_of(const Arguments& a, const Backend& backend, Progress& progress) {
  if (a.has("profile")) return a.text("profile", "");
  const Measurements m = measure_machine(
      backend, a.has("quick"),
      [&](const std::string& what, double share) {
        progress.show(fmt::format("{:3.0f} %  {}", 50 * share, what));
      },
      &interrupted);
  const std::string file =
      a.text("keep", (std::filesystem::temp_directory_path() / "tandem-profile.json").string());
  write_file(file, fit_machine(m).profile);
  return file;
}

int check(const Arguments& a) {
  const std::string format = format_of(a);
  check_out(a);
  const Backend& backend = backends_registry().at(a.text("backend", "cpu"), option_place("backend"));
  const double tolerance = a.real("tolerance", 0.25, 0, 100);
  std::signal(SIGINT, [](int) { interrupted = true; });
  std::vector<CheckRow> rows;
  {
    Progress progress(a);
    const std::string profile = profile_of(a, backend, progress);
    const auto cases = check_cases(a.has("quick"));
    for (std::size_t i = 0; i < cases.size() && !interrupted; ++i) {
      progress.show(fmt::format("{:3.0f} %  executing {}, {} worker{}, {}",
                                50 + 50 * static_cast<double>(i) / static_cast<double>(cases.size()),
                                cases[i].model, cases[i].devices, cases[i].devices == 1 ? "" : "s",
                                cases[i].scheme));
      auto more = check_case(cases[i], profile, backend, &interrupted);
      if (!interrupted) rows.insert(rows.end(), more.begin(), more.end());
    }
  }
  const Summary s = summarise(rows);
  put_result(a, format == "json" ? json(rows, s) : text(rows, s, format));
  if (interrupted) return 130;
  return s.most > tolerance ? 1 : 0;
}

}  // namespace

void register_check(Registry<Verb>& registry) {
  registry.add(
      {.name = "check",
       .summary = "measure, fit, predict, run and compare on this machine, on models the fit never saw",
       .usage = "[options]",
       .flags = {{"backend", "NAME", "cpu (default)"},
                 {"quick", "", "two models, and a third of the iterations when measuring"},
                 {"profile", "FILE", "judge this profile instead of measuring a new one"},
                 {"keep", "FILE", "where to keep the profile that was measured"},
                 {"tolerance", "SHARE", "largest error that still exits with 0; default 0.25"},
                 format_flag(),
                 out_flag(),
                 quiet_flag()},
       .run = check,
       .details = "Exit code 1 when an error exceeds --tolerance. The last column is the repeatability: the "
                  "same execution made twice.\n\nExample\n  tandem check --quick"});
}

}  // namespace tandem
