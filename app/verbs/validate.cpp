#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "app/output.h"
#include "app/verb.h"
#include "calibration/check_result.h"
#include "calibration/collective_data.h"
#include "calibration/validate.h"
#include "calibration/validate_staleness.h"

namespace tandem {

namespace {

int run_validate(const Arguments& arguments) {
  const std::string format = arguments.choice("format", "md", {"md", "json"});
  const int threads = static_cast<int>(
      arguments.integer("threads", std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, 64), 1, 1024));
  check_out(arguments);
  std::vector<ValidationRow> rows;
  {
    Progress progress(arguments);
    rows = validate(arguments.words(), threads,
                    [&](int done, int total) { progress.show(fmt::format("series {} of {}", done, total)); });
  }
  const auto staleness = arguments.words().empty() ? validate_staleness() : std::vector<StalenessRow>{};
  if (format == "json") {
    put_result(arguments, validation_json(rows, staleness));
  } else {
    put_result(
        arguments,
        validation_markdown(rows) + (staleness.empty() ? "" : staleness_markdown(staleness)) +
            (arguments.words().empty() ? collectives_markdown(validate_collectives()) + executed_markdown()
                                       : ""));
  }
  return 0;
}

}  // namespace

void register_validate(Registry<Verb>& registry) {
  registry.add(
      {.name = "validate",
       .summary = "predictions against the published measurements in calibration/data, row by row",
       .usage = "[FILE...] [options]",
       .flags = {{"format", "FORMAT", "md (default) or json"},
                 {"threads", "N", "default: one per processor; the result does not depend on it"},
                 out_flag(),
                 quiet_flag()},
       .most_words = 1000,
       .run = run_validate,
       .details = "VALIDATION.md of the repository is made by: tandem validate --out VALIDATION.md"});
}

}  // namespace tandem
