// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validation_pages.h"

#include <fmt/format.h>

#include "calibration/validate/check_result.h"
#include "calibration/validate/fitted.h"
#include "calibration/validate/validate_incast.h"
#include "calibration/validate/validate_kinds.h"
#include "calibration/validate/visits.h"

namespace tandem::calibration {

std::vector<ValidationPage> validation_pages(const Comparisons& found) {
  std::vector<ValidationPage> out{
      {"rates", "errors by architecture, precision, kind of model and number of nodes; the worst rows",
       rates_markdown(found.rows)},
      {"sources", "each source with its errors, and what is left out of it", sources_markdown(found.rows)}};
  if (!found.all) return out;
  out[0].holds += "; boards that differ in one thing; runs with and without input";
  out[0].text += kinds_markdown(found.rows) + pairs_markdown(found.pairs) + input_markdown(found.input);
  const std::vector<ValidationPage> more{
      {"splits", "models split over devices", splits_markdown(found.splits)},
      {"regret", "what choosing by predictions would have cost; whether probabilities hold",
       regret_markdown(found.regret) +
           chances_markdown(machine_contests(found.rows), setting_contests(found.regret))},
      {"runs",
       "device-hours of whole published runs; what machines draw while they train, and under power limits",
       runs_markdown(found.runs) + power_markdown(found.power)},
      {"collectives", "times of collectives, and many senders into one port",
       collectives_markdown(found.collectives) + incast_markdown(validate_incast())},
      {"memory", "allocated, reserved and nvidia-smi's figures; what fits", memory_markdown(found.memory)},
      {"executed", "what `tandem check` found on machines that it had measured; published staleness",
       executed_markdown() + staleness_markdown(found.staleness)},
      {"gpus", "the executor and PyTorch on the same GPU, and what its kernels reach", visits_markdown()},
      {"constants", "every constant that was fitted to published rates", fitted_markdown()}};
  out.insert(out.begin() + 1, more.begin(), more.end());
  return out;
}

std::string list_of_pages(const std::vector<ValidationPage>& pages) {
  std::string out = "\n## Pages\n\n| page | holds |\n| --- | --- |\n";
  for (const ValidationPage& page : pages)
    out += fmt::format("| [{0}](docs/validation/{0}.md) | {1} |\n", page.name, page.holds);
  return out;
}

std::string page_markdown(const ValidationPage& page) {
  std::string out = fmt::format(
      "# Validation: {}\n\nA page of [VALIDATION.md](../../VALIDATION.md), which says what the terms mean; "
      "written by\n`tandem validate --out VALIDATION.md`. It holds {}.\n",
      page.name, page.holds);
  for (std::size_t from = 0; from < page.text.size();) {
    const std::size_t link = page.text.find("](", from);
    const std::size_t end = link == std::string::npos ? page.text.size() : link + 2;
    out += page.text.substr(from, end - from);
    from = end;
    if (end < page.text.size() && page.text[end] != '#' && page.text.compare(end, 4, "http") != 0)
      out += "../../";
  }
  return out;
}

}  // namespace tandem::calibration
