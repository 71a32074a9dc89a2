// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iterator>

#include "app/console/cli.h"
#include "app/console/interrupt.h"
#include "app/console/output.h"
#include "app/console/table.h"
#include "app/measure/cross_check.h"
#include "base/data.h"

namespace tandem::app {

namespace {

/// Why the exit code is 1; "" if it is not.
std::string failed_text(const CheckResult& result, double tolerance) {
  const std::vector<std::string> failed = result.failures(tolerance);
  if (failed.empty()) return "";
  return fmt::format("exit 1: {} > tolerance {:g} %", fmt::join(failed, "; "), 100 * tolerance);
}

std::string intervals_text(const CheckResult::Summary& s) {
  std::string out =
      fmt::format("{:.0f} % of {} executions lie in their 90 % interval", 100 * s.covered, s.intervals);
  if (s.wide > 0)
    out += fmt::format(", of which {} span more than a factor of 3 and are therefore meaningless", s.wide);
  return out;
}

std::string text(const CheckResult& result, const std::string& format, double tolerance, int width) {
  std::vector<Column> columns;
  for (const CheckColumn& c : kCheckColumns) columns.push_back({c.head, c.number});
  Table table(columns);
  for (const CheckRow& r : result.rows) table.add(r.cells());
  const CheckResult::Summary s = result.summary();
  const bool prose = format != "csv";  // the first line of csv names its columns
  const std::string busy = prose ? busy_while(result.load) : "",
                    failed = prose ? failed_text(result, tolerance) : "";
  return fmt::format("{}{}\nMean error {:.1f} %, largest {:.1f} %; {}.\n{}",
                     busy.empty() ? "" : "Note: " + busy + ".\n\n", table.as(format, width), 100 * s.mean,
                     100 * s.most, intervals_text(s), failed.empty() ? "" : failed + "\n");
}

struct CaseRuns {
  std::vector<std::vector<Report>> executed;  ///< [case]
  std::exception_ptr failed;                  ///< what ended it early; earlier results are kept
};

void run_cases(const std::vector<CheckCase>& cases, const Backend& backend, const Tell& tell, CaseRuns& out) {
  out.executed.resize(cases.size());
  try {
    for (std::size_t i = 0; i < cases.size() && !interrupted; ++i) {
      const CheckCase& c = cases[i];
      tell(fmt::format("executing {}{}, {} worker{}, {}", c.model,
                       c.adapter.empty() ? "" : " with " + c.adapter, c.devices, c.devices == 1 ? "" : "s",
                       c.scheme),
           static_cast<double>(i) / static_cast<double>(cases.size()));
      Report report = execute_case(c, backend, &interrupted).report;
      if (!interrupted) out.executed[i].push_back(std::move(report));
    }
  } catch (const DeviceError&) {
    out.failed = std::current_exception();
  }
}

/// Alternately, since the speed of a shared machine drifts within minutes.
CheckResult measure_and_run(const Arguments& a, const Backend& backend, Precision precision, CaseRuns& runs) {
  Progress progress(a);
  const bool quick = a.has("quick"), given = a.has("profile");
  const int64_t repetitions = a.integer("repetitions", usual_repetitions(backend, quick), 1, 1000);
  const Tell tell = [&](const std::string& what, double share) { progress.show(what, share); };
  CheckResult result;
  result.precision = name(precision);
  std::string profile =
      given ? a.text("profile", "")
            : a.text("keep", (std::filesystem::temp_directory_path() / "tandem-profile.json").string());
  auto cases = check_cases(backend, quick);
  for (CheckCase& c : cases) c.precision = precision;
  const auto run_repetition = [&](int64_t repetition) {
    const double first = given ? 0 : 0.4;  // share of the repetition's time spent measuring
    const Tell of_all = [&](const std::string& what, double share) {
      tell(what, (static_cast<double>(repetition) + first + (1 - first) * share) /
                     static_cast<double>(repetitions));
    };
    run_cases(cases, backend, of_all, runs);
    return !interrupted && !runs.failed;
  };
  if (given) {
    for (int64_t repetition = 0; repetition < repetitions && run_repetition(repetition); ++repetition) {
    }
  } else {
    const Measurements m =
        measure_repeatedly(backend, {{precision}, quick, repetitions}, tell, &interrupted, run_repetition);
    if (!runs.executed.empty()) write_file(profile, fit_machine(m).profile);
  }
  if (runs.executed.empty()) return result;
  const Json origin = Json::load(find_data("calibration/profiles", "profile", profile));
  result.machine = origin.text("machine", "");
  result.date = origin.text("date", "");
  result.versions = origin.text("versions", "");
  for (std::size_t i = 0; i < cases.size() && !runs.executed[i].empty(); ++i) {
    auto rows =
        compare_case(cases[i], predict_case(cases[i], profile, runs.executed[i].size()), runs.executed[i]);
    std::move(rows.begin(), rows.end(), std::back_inserter(result.rows));
  }
  return result;
}

int check(const Arguments& a) {
  const std::string format = format_of(a);
  check_out(a);
  const Backend& backend = read_backend(a);
  const Precision precision = read_precision(a, backend);
  if (a.has("profile")) MachineProfile::find(a.text("profile", ""), precision);  // refused before it runs
  const double tolerance = a.real("tolerance", 0.25, 0, 100);
  if (const std::string busy = busy_before(load_now()); !busy.empty()) note(a, busy);
  catch_interrupts();
  CaseRuns runs;
  const HostUsage before = host_usage();
  CheckResult result = measure_and_run(a, backend, precision, runs);
  result.load = load_between(before, host_usage());
  if (!result.rows.empty())
    put_page(a, format == "json" ? result.to_json() : text(result, format, tolerance, result_columns(a)));
  if (runs.failed) std::rethrow_exception(runs.failed);
  if (interrupted)
    note(a, result.rows.empty() ? "interrupted: nothing to compare yet"
                                : "interrupted: compares what was run until then");
  if (interrupted) return interrupt_code();
  const std::string failed = failed_text(result, tolerance);
  if (format == "json" || format == "csv" || a.has("out")) {  // else the result has it
    if (const std::string busy = busy_while(result.load); !busy.empty()) note(a, busy);
    if (!failed.empty()) note(a, failed);
  }
  return failed.empty() ? 0 : 1;
}

}  // namespace

void register_check(Registry<Verb>& registry) {
  registry.add(
      {.name = "check",
       .summary = "measure, fit, predict, run and compare on this machine, on models the fit never saw",
       .usage = "[options]",
       .flags = {{"backend", "NAME", "cpu (default), cuda"},
                 {"precision", "fp32|tf32|fp16|bf16|fp8", "default fp32; the others on GPUs"},
                 {"quick", "", "two models, fewer iterations and repetitions"},
                 {"repetitions", "N",
                  "repetitions of measurements and runs, of which the fastest counts; default 5, with cuda "
                  "or --quick 2, with both 1",
                  false, "turns"},
                 {"profile", "FILE", "judge this profile instead of measuring a new one"},
                 {"keep", "FILE", "save the measured profile here"},
                 {"tolerance", "SHARE", "largest error that still exits with 0; default 0.25"},
                 format_flag(),
                 out_flag(),
                 wide_flag(),
                 quiet_flag()},
       .run = check,
       .details = "Exit code 1 if an error exceeds --tolerance; the message names it. Run it on an otherwise "
                  "idle machine: the load of other programs is reported before and after. Measurements and "
                  "cases alternate, "
                  "because speeds "
                  "drift; the fastest measurement of each graph and the fastest run of each case count, "
                  "because other load can only slow them down. The last column is the difference between the "
                  "fastest of every other run and the fastest of the rest: if it is large, more repetitions "
                  "help.\n\nExamples\n  tandem check "
                  "--quick\n  tandem check --repetitions 8 --format json --out here.json"});
}

}  // namespace tandem::app
