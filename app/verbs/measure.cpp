// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>

#include "app/console/cli.h"
#include "app/console/interrupt.h"
#include "app/console/output.h"
#include "app/measure/cross_check.h"

namespace tandem::app {

namespace {

/// What is in the file at any time is whole: a program that is killed loses the graph under way.
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
        backend, {precisions, quick, repetitions, workers},
        [&](const std::string& what, double share) {
          progress.show(fmt::format("{:3.0f} %  {}", 100 * share, what));
        },
        &interrupted, {}, [&](const Measurements& so_far) { keep(a, so_far); });
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
       .summary = "run the calibration suite on this machine, every kernel timed where it stands",
       .usage = "--out measurements.json [options]",
       .flags =
           {{"backend", "NAME", "cpu (default), cuda"},
            {"precision", "LIST",
             "fp32 (default); on GPUs of fp32, tf32, bf16, fp16, fp8, default fp32,tf32,bf16"},
            {"quick", "", "fewer iterations and repetitions"},
            {"workers", "N",
             "with at most so many workers; default as many as there are cores or, on GPUs, as share one, "
             "at most 8, --quick 2"},
            {"repetitions", "N",
             "measure so often, the fastest repetition of each graph counts; default 5, cuda or "
             "--quick 2, with both 1",
             false, "turns"},
            out_flag(),
            quiet_flag()},
       .run = measure,
       .details =
           "After each graph the file is written anew. Leave the machine alone meanwhile: launches during "
           "which another program took the core "
           "are left out, but caches and clocks are shared. Where others use them too, more repetitions "
           "help. What others took is said before and after, and kept under \"run\".\n\nExample\n"
           "  tandem measure --out m.json && tandem fit m.json --out here.json\n"
           "  tandem predict --model vgg8-cifar10 --system local --profile here.json --devices 1,2"});
}

}  // namespace tandem::app
