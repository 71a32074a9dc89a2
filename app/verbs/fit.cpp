// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "app/console/cli.h"
#include "app/console/output.h"
#include "calibration/fit/machine_fit.h"

namespace tandem::app {

namespace {

int fit(const Arguments& a) {
  check_out(a);
  const Measurements m = Measurements::from_json(Json::load(a.words()[0]));
  const MachineFit f = fit_machine(m);
  note(a, fmt::format("fitted {} kernel times: off by {:.1f} % on average with their own graph left out, "
                      "whole graphs by "
                      "{:.1f} %",
                      m.kernels.size(), 100 * f.kernel_error, 100 * f.graph_error));
  for (const std::string& remark : f.remarks) note(a, remark);
  put_result(a, f.profile);
  return 0;
}

}  // namespace

void register_fit(Registry<Verb>& registry) {
  registry.add({.name = "fit",
                .summary = "measurements of tandem measure to a profile for predict --system local --profile",
                .usage = "MEASUREMENTS [--out profile.json]",
                .flags = {out_flag(), quiet_flag()},
                .least_words = 1,
                .most_words = 1,
                .run = fit});
}

}  // namespace tandem::app
