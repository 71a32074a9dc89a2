// SPDX-License-Identifier: Apache-2.0
#include "schemes/report/report.h"

#include "app/console/report_text.h"
#include "pictures/pictures.h"
#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

/// A report file: whatever is accepted can be printed and written again.
void report(std::string_view bytes) {
  try {
    const std::vector<Report> reports = reports_from_json(Json::parse(bytes, "fuzz"));
    report_table(reports).text();
    report_csv(reports);
    compare_table(matched(reports, reports)).markdown();
    series_of(reports);
    reports_to_json(reports, false);
  } catch (const InputError&) {
  }
}

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(report)
