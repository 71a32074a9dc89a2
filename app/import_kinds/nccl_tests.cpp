// SPDX-License-Identifier: Apache-2.0
// Logs of nccl-tests -> a profile that `tandem collective --profile` corrects its predictions by.
#include <fmt/format.h>

#include <algorithm>

#include "app/console/output.h"
#include "app/import_kind.h"
#include "calibration/fit/collective_profile.h"

namespace tandem::app {

namespace {

int import_nccl_tests(const Arguments& arguments, const std::vector<ImportFile>& files) {
  std::vector<CollectiveProfile> all;
  for (const ImportFile& file : files) {
    const NcclRuns log = read_nccl_tests(file.text, file.name);
    if (log.damaged > 0)
      note(arguments, fmt::format("{}: {} damaged rows left out", printable(file.name), log.damaged));
    std::vector<std::string> notes;
    for (CollectiveProfile& one : profiles_of(log, file.name, arguments.text("kind", ""), notes)) {
      if (one.measured.devices == 0)
        notes.push_back(
            fmt::format("{}: does not tell how many devices it ran on; give --devices when using it",
                        printable(file.name)));
      add(all, std::move(one));
    }
    for (const std::string& remark : notes) note(arguments, remark);
  }
  if (all.size() > 1) {
    std::string list;
    for (const CollectiveProfile& one : all)
      list += fmt::format("{}{} of {}", list.empty() ? "" : ", ", one.measured.kind, one.measured.devices);
    note(arguments, fmt::format("{} runs: {}", all.size(), list));
  }
  put_result(arguments, profiles_json(all));
  return 0;
}

}  // namespace

void register_nccl_tests(Registry<ImportKind>& registry) {
  registry.add({"nccl-tests",
                "logs of nccl-tests and rccl-tests (text, JSON), nccl_perf.csv: a profile for tandem "
                "collective --profile "
                "and predict --collective-profile",
                looks_like_nccl_tests,
                import_nccl_tests,
                {{"kind", "KIND", "which collective an nccl-tests log measured, where it does not tell"}}});
}

}  // namespace tandem::app
