// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>

#include "app/console/cli.h"
#include "app/console/interrupt.h"
#include "app/console/output.h"
#include "app/measure/cross_check.h"

namespace tandem::app {

namespace {

/// The file is whole at any time: a killed program loses only the current graph.
void keep(const Arguments& a, const Measurements& m) {
  if (!a.has("out")) return;
  const std::string to = a.text("out", ""), part = to + ".part";
  if (std::filesystem::exists(to) && !std::filesystem::is_regular_file(to)) return;  // a pipe, /dev/null
  write_file(part, m.to_json());
  std::filesystem::rename(part, to);
}

int measure(const Arguments& a) {
  check_out(a);
  const Backend& backend = read_backend(a);
  const bool quick = a.has("quick");
  const auto precisions = read_precisions(a, backend.asynchronous ? "fp32,tf32,bf16" : "fp32", backend);
  const int64_t repetitions = a.integer("repetitions", usual_repetitions(backend, quick), 1, 1000);
  const int64_t workers = a.integer("workers", 0, 1, 64);
  catch_interrupts();
  if (const std::string busy = busy_before(load_now()); !busy.empty()) note(a, busy);
  Measurements m;
  {
    Progress progress(a);
    m = measure_repeatedly(
        backend, {precisions, quick, repetitions, workers, !a.has("no-meter")},
        [&](const std::string& what, double share) { progress.show(what, share); }, &interrupted, {},
        [&](const Measurements& so_far) { keep(a, so_far); });
  }
  put_result(a, m.to_json());
  if (const std::string busy = busy_while(m.load); !busy.empty()) note(a, busy);
  if (interrupted) note(a, "interrupted: the graphs measured so far are written");
  return interrupt_code();
}

}  // namespace

void register_measure(Registry<Verb>& registry) {
  registry.add(
      {.name = "measure",
       .summary = "run the calibration suite on this machine and time every kernel in place",
       .usage = "--out measurements.json [options]",
       .flags = {{"backend", "NAME", "cpu (default), cuda"},
                 {"precision", "LIST",
                  "fp32 (default); on GPUs of fp32, tf32, bf16, fp16, fp8, default fp32,tf32,bf16"},
                 {"quick", "", "fewer iterations and repetitions"},
                 {"workers", "N",
                  "at most this many workers; default one per core or, on GPUs, as many as share one, at "
                  "most 8, with --quick 2"},
                 {"repetitions", "N",
                  "repetitions, of which the fastest of each graph counts; default 5, with cuda or --quick "
                  "2, with both 1",
                  false, "turns"},
                 no_meter_flag(),
                 out_flag(),
                 quiet_flag()},
       .run = measure,
       .details = "The file is rewritten after each graph. Keep the machine idle: launches during which "
                  "another program took the core are left out, but caches and clocks are shared; if others "
                  "use them, more repetitions help. The load of other programs is reported before and after, "
                  "and kept under \"run\".\n\nExample\n"
                  "  tandem measure --out m.json && tandem fit m.json --out here.json\n"
                  "  tandem predict --model vgg8-cifar10 --system local --profile here.json --devices 1,2"});
}

}  // namespace tandem::app
