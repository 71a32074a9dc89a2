// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/ops_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "answers/labels.h"

namespace tandem::app {

namespace {

std::string milliseconds(double seconds) {
  return fmt::format("{:.{}f}", 1e3 * seconds, seconds < 0.01 ? 3 : 1);
}

std::string percent(const OpPair& p) {
  return p.a > 0 ? fmt::format("{:+.1f} %", 100 * p.difference() / p.a) : "-";
}

}  // namespace

Table op_table(const std::vector<OpPair>& pairs, const std::string& a_name, const std::string& b_name,
               std::size_t most) {
  const bool lanes = !pairs.empty() && pairs[0].label.empty();
  Table table(
      {{a_name, true}, {b_name, true}, {"B - A", true}, {"difference", true}, {lanes ? "lane" : "op"}});
  for (std::size_t i = 0; i < std::min(most, pairs.size()); ++i) {
    const OpPair& p = pairs[i];
    table.add({milliseconds(p.a), milliseconds(p.b), fmt::format("{:+.3f}", 1e3 * p.difference()), percent(p),
               lanes ? p.lane : fmt::format("{} ({})", p.label, p.lane)});
  }
  return table;
}

std::string largest_disagreement(const OpComparison& comparison, const Report& a, const Report& b) {
  if (comparison.ops.empty()) return "";
  const OpPair& p = comparison.ops[0];
  const bool apart = a.evaluation.engine != b.evaluation.engine;
  return fmt::format("Largest disagreement: {} ({}): {} {} ms, {} {} ms{}{}.", p.label, p.lane,
                     apart ? engine_word(a) : "A", milliseconds(p.a), apart ? engine_word(b) : "B",
                     milliseconds(p.b), p.a > 0 ? " (" + percent(p) + ")" : "",
                     a.iteration.median > 0 ? fmt::format(", {:.1f} % of an iteration",
                                                          100 * std::abs(p.difference()) / a.iteration.median)
                                            : "");
}

}  // namespace tandem::app
