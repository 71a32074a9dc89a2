// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "answers/answer.h"
#include "answers/elasticity.h"
#include "answers/fitting.h"
#include "answers/what_if.h"
#include "app/analysis/asking.h"
#include "app/analysis/elasticity_text.h"
#include "app/console/cli.h"
#include "app/console/goodput_text.h"
#include "app/console/interrupt.h"
#include "app/console/output.h"
#include "app/console/progress_text.h"
#include "app/console/report_text.h"

namespace tandem::app {

namespace {

/// "pytorch-ddp (bucket=25MiB)": the options that are not the scheme's defaults.
std::string scheme_text(const ResolvedScheme& scheme) {
  std::string options;
  for (const OptionSpec& spec : scheme.scheme->options) {
    const std::string& value = scheme.options.text(spec.name);
    if (value != spec.fallback)
      options += fmt::format("{}{}={}", options.empty() ? "" : ", ", spec.name, value);
  }
  return options.empty() ? scheme.name : fmt::format("{} ({})", scheme.name, options);
}

/// Of a split model, if all device counts have the same; else 0.
int64_t micro_batches(const Question& q) {
  if (q.scheme.scheme->pipeline == nullptr) return 0;
  std::set<int64_t> counts;
  for (const int64_t n : q.devices)
    counts.insert(q.scheme.scheme->pipeline(q.scheme.options, n).shape.micro_batches);
  return counts.size() == 1 ? *counts.begin() : 0;
}

/// "6.74G parameters, 4.19M of them learned".
std::string parameters_text(const Graph& graph) {
  const int64_t frozen = graph.frozen_elements(), learned = graph.parameter_elements();
  const std::string all = count_text(static_cast<double>(learned + frozen)) + " parameters";
  return frozen == 0 ? all
                     : fmt::format("{}, {} of them learned", all, count_text(static_cast<double>(learned)));
}

/// ", these in bf16": frozen weights, if kept in the format of the computation.
std::string kept_text(const Question& q) {
  const bool half = std::find(q.memory.begin(), q.memory.end(),
                              std::pair<std::string, std::string>{"weights", "half"}) != q.memory.end();
  if (!half || q.graph.frozen_elements() == 0 || element_bytes(q.precision) != 2) return "";
  return fmt::format(", all others kept in {}", name(q.precision));
}

std::string heading(const Question& q) {
  std::string out = fmt::format(
      "{} · {}{} · {}MAC forward    {} · {} · {} recipe · {} · {} · {}", q.graph.name(),
      parameters_text(q.graph), kept_text(q), count_text(static_cast<double>(q.graph.forward_flops().n) / 2),
      q.system_label(), scheme_text(q.scheme), q.scheme.recipe.name, name(q.precision), q.optimizer->name,
      batch_text(q.graph, q.batch, micro_batches(q)));
  if (!(q.recompute == Recompute{})) out += " · recompute " + q.recompute.text();
  if (q.offload.any()) out += " · offload " + q.offload.text();
  for (const auto& [key, value] : q.memory) out += fmt::format(" · {}={}", key, value);
  for (const Question::Beside& job : q.beside)
    out +=
        fmt::format("\nbeside {} on {} device{} · {} · {}", job.graph.name(), job.devices,
                    job.devices == 1 ? "" : "s", scheme_text(job.scheme), batch_text(job.graph, job.batch));
  for (const Question::Then& network : q.then)
    out += fmt::format("\nthen {:.6g} pass{} of {} · {} · {}MAC forward · {}", network.passes,
                       network.passes == 1 ? "" : "es", network.graph.name(), parameters_text(network.graph),
                       count_text(static_cast<double>(network.graph.forward_flops().n) / 2),
                       batch_text(network.graph, network.batch));
  return out;
}

/// Every note once, with the device counts it applies to if these are not all.
std::string remarks(const std::vector<Report>& reports) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> notes;
  for (const Report& r : reports) {
    for (const auto* list : {&r.notes, &r.basis.extrapolates}) {
      for (const std::string& text : *list) {
        auto at = std::find_if(notes.begin(), notes.end(), [&](const auto& n) { return n.first == text; });
        if (at == notes.end()) at = notes.insert(at, {text, {}});
        at->second.push_back(r.setup.devices);
      }
    }
  }
  std::string out;
  for (const std::string& text : {base_text(reports), beyond_perfect_text(reports)}) {
    if (!text.empty()) out += text + "\n";
  }
  for (const auto& [text, devices] : notes) {
    const std::string only = devices.size() < reports.size()
                                 ? fmt::format(" (with {} device{})", fmt::join(devices, ", "),
                                               devices == std::vector<int64_t>{1} ? "" : "s")
                                 : "";
    out += fmt::format("Note: {}{}\n", text, only);
  }
  return out;
}

/// A line per device count.
std::string side_by_side_lines(const std::vector<Report>& reports) {
  std::string out;
  for (const Report& r : reports) out += side_by_side_line(r);
  return out;
}

int run_predict(const Arguments& arguments) {
  const std::string format = format_of(arguments);
  check_out(arguments);
  say_interrupts();
  Question question = read_question(arguments);
  question.timeline = format == "json" && !arguments.has("no-timeline");
  if (arguments.has("elasticities")) {
    if (question.failures)
      refuse_option("elasticities", "cannot be combined with failures: ask for them apart");
    Progress progress(arguments);
    progress.show("varying each resource of the machine ...");
    const auto all = elasticities(question);
    progress.show("");
    const std::string result = elasticities_as(question, all, format, result_columns(arguments));
    const bool prose = format == "text" || format == "md";
    put_page(arguments, prose ? heading(question) + "\n\n" + result : result);
    return 0;
  }
  std::vector<Report> reports;
  {
    Progress progress(arguments);
    for (const int64_t n : question.devices) {
      // Without a share: the time grows with the devices.
      progress.show(fmt::format("simulating {} device{} ...", n, n == 1 ? "" : "s"));
      reports.push_back(predict(question, n));
    }
  }
  const std::string refusal = add_remedies(question, reports);
  if (format == "csv") put_result(arguments, report_csv(reports));  // including those that do not fit
  if (format == "json") put_result(arguments, reports_to_json(reports, arguments.has("reproducible")));
  if (!refusal.empty()) throw InputError(refusal);
  if (format == "text" || format == "md") {
    const Table table = report_table(reports);
    put_page(arguments,
             fmt::format("{}\n\n{}\n{}{}{}{}{}{}{}{}\n", heading(question),
                         table.as(format, result_columns(arguments)), rest_of_step(reports.back()),
                         memory_line(reports.back()), power_line(reports.back()), side_by_side_lines(reports),
                         goodput_lines(reports.back()), progress_lines(reports), remarks(reports),
                         closing_line(question, reports)));
  }
  return 0;
}

}  // namespace

void register_predict(Registry<Verb>& registry) {
  auto flags = question_options();
  flags.insert(flags.end(), {{"elasticities", "",
                              "instead: per cent of throughput per per cent of each link, storage, device "
                              "and server speed, and the throughput without their limit"},
                             question_flag(),
                             format_flag(),
                             out_flag(),
                             no_timeline_flag(),
                             reproducible_flag(),
                             wide_flag(),
                             quiet_flag()});
  registry.add(
      {.name = "predict",
       .summary = "simulate a model on a system under a scheme: throughput, staleness, memory, bottleneck",
       .usage = "--model NAME --system NAME [options]",
       .flags = std::move(flags),
       .run = run_predict,
       .details = "Quantities carry their unit (25us, 12GB/s, 100Gbit/s, 11GiB).\n\nExample\n"
                  "  tandem predict --model vgg16 --system v100-pcie-8x --scheme pytorch-ddp --batch 64 "
                  "--devices 1,2,4,8"});
}

}  // namespace tandem::app
