#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iterator>

#include "app/cross_check.h"
#include "app/output.h"
#include "app/table.h"
#include "app/verb.h"
#include "base/data.h"

namespace tandem {

namespace {

std::atomic<bool> interrupted{false};
constexpr int kTurns = 2;

std::string text(const CheckResult& result, const std::string& format) {
  std::vector<Column> columns;
  for (const CheckColumn& c : kCheckColumns) columns.push_back({c.head, c.number});
  Table table(columns);
  for (const CheckRow& r : result.rows) table.add(r.cells());
  const CheckResult::Summary s = result.summary();
  return fmt::format(
      "{}\nMean error {:.1f} %, largest {:.1f} %; {:.0f} % of {} executions lie in their 90 % interval.\n",
      table.as(format), 100 * s.mean, 100 * s.most, 100 * s.covered, s.intervals);
}

struct Runs {
  std::vector<std::vector<Report>> executed;  ///< [case]
  std::exception_ptr failed;                  ///< what ended it early; what was found before is kept
};

/// All cases, and then all of them again: what a machine does to the same run minutes later is the floor.
Runs run_cases(const std::vector<CheckCase>& cases, const Backend& backend, const Tell& tell) {
  Runs out;
  out.executed.resize(cases.size());
  try {
    for (int turn = 0; turn < kTurns; ++turn) {
      for (std::size_t i = 0; i < cases.size() && !interrupted; ++i) {
        const CheckCase& c = cases[i];
        tell(fmt::format("executing {}, {} worker{}, {}", c.model, c.devices, c.devices == 1 ? "" : "s",
                         c.scheme),
             (turn + static_cast<double>(i) / static_cast<double>(cases.size())) / kTurns);
        Report report = execute_case(c, backend, &interrupted);
        if (!interrupted) out.executed[i].push_back(std::move(report));
      }
    }
  } catch (const DeviceError&) {
    out.failed = std::current_exception();
  }
  return out;
}

/// Between the two measurements that the profile is fitted to lies all that is executed: a machine's speed
/// drifts by some per cent within minutes.
CheckResult measure_and_run(const Arguments& a, const Backend& backend, Runs& runs) {
  Progress progress(a);
  const bool quick = a.has("quick"), given = a.has("profile");
  const auto part = [&](double from, double to) -> Tell {
    return [&progress, from, to](const std::string& what, double share) {
      progress.show(fmt::format("{:3.0f} %  {}", 100 * (from + (to - from) * share), what));
    };
  };
  CheckResult result;
  std::string profile =
      given ? a.text("profile", "")
            : a.text("keep", (std::filesystem::temp_directory_path() / "tandem-profile.json").string());
  Measurements measured;
  if (!given) measured = measure_machine(backend, quick, part(0, 0.3), &interrupted);
  if (interrupted) return result;
  const auto cases = check_cases(backend, quick);
  runs = run_cases(cases, backend, given ? part(0, 1) : part(0.3, 0.7));
  if (!given) {
    if (!interrupted && !runs.failed) {
      const Measurements after = measure_machine(backend, quick, part(0.7, 1), &interrupted);
      if (!interrupted) measured = mean_of(measured, after);
    }
    write_file(profile, fit_machine(measured).profile);
  }
  const Json origin = Json::load(find_data("calibration/profiles", "profile", profile));
  result.machine = origin.text("machine", "");
  result.date = origin.text("date", "");
  result.versions = origin.text("versions", "");
  for (std::size_t i = 0; i < cases.size() && !runs.executed[i].empty(); ++i) {
    auto rows = compare_case(cases[i], predict_case(cases[i], profile), runs.executed[i]);
    std::move(rows.begin(), rows.end(), std::back_inserter(result.rows));
  }
  return result;
}

int check(const Arguments& a) {
  const std::string format = format_of(a);
  check_out(a);
  const Backend& backend = backends_registry().at(a.text("backend", "cpu"), option_place("backend"));
  const double tolerance = a.real("tolerance", 0.25, 0, 100);
  std::signal(SIGINT, [](int) { interrupted = true; });
  Runs runs;
  const CheckResult result = measure_and_run(a, backend, runs);
  if (!result.rows.empty()) put_result(a, format == "json" ? result.to_json() : text(result, format));
  if (runs.failed) std::rethrow_exception(runs.failed);
  if (interrupted && result.rows.empty()) note(a, "interrupted: nothing to compare yet");
  if (interrupted) return 130;
  return result.summary().most > tolerance ? 1 : 0;
}

}  // namespace

void register_check(Registry<Verb>& registry) {
  registry.add(
      {.name = "check",
       .summary = "measure, fit, predict, run and compare on this machine, on models the fit never saw",
       .usage = "[options]",
       .flags = {{"backend", "NAME", "cpu (default), cuda"},
                 {"quick", "", "two models, and a third of the iterations when measuring"},
                 {"profile", "FILE", "judge this profile instead of measuring a new one"},
                 {"keep", "FILE", "where to keep the profile that was measured"},
                 {"tolerance", "SHARE", "largest error that still exits with 0; default 0.25"},
                 format_flag(),
                 out_flag(),
                 quiet_flag()},
       .run = check,
       .details =
           "Exit code 1 when an error exceeds --tolerance. The last column is the repeatability: the "
           "same execution made twice, the second time after all others. The machine is measured before and "
           "after them: its speed drifts.\n\nExample\n  tandem check "
           "--quick"});
}

}  // namespace tandem
