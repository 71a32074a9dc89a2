// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/visits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/data.h"
#include "base/json.h"
#include "calibration/validate/kernel_efficiency.h"
#include "calibration/validate/visit_predictions.h"

namespace tandem::calibration {

namespace {

constexpr std::string_view kVisits = "calibration/data/visits";
/// Columns of the table, if not empty: of the executor by precision, of PyTorch by precision and mode.
std::vector<std::string> columns_of(const std::set<std::string>& found) {
  std::vector<std::string> out;
  for (const char* precision : {"bf16", "fp16", "fp8", "tf32", "fp32"}) {
    for (const char* mode : {"", " graphed", " compiled", " eager", " deterministic", " nchw"}) {
      const std::string column = *mode == 0 ? precision : fmt::format("PyTorch {}{}", precision, mode);
      if (found.count(column) != 0) out.push_back(column);
    }
  }
  return out;
}

using Case = std::pair<std::string, int64_t>;  // model, batch
struct CaseRates {
  std::map<std::string, double> columns;
  std::set<std::string> torch;  ///< PyTorch's versions
};
using VisitRates = std::map<Case, CaseRates>;

void read(VisitRates& rates, const Json& list, bool torch) {
  for (const Json& r : list.items()) {
    std::string column = r.at("precision").as_text();
    CaseRates& row = rates[{trained_name(r), r.at("batch").as_int(1)}];
    if (torch) {
      column = fmt::format("PyTorch {} {}", column, r.at("mode").as_text());
      row.torch.insert(r.at("torch").as_text());
    }
    row.columns[column] = r.at("samples_per_second").as_real(0, 1e12);
  }
}

std::string markdown_row(const std::vector<std::string>& cells) {
  return fmt::format("\n| {} |", fmt::join(cells, " | "));
}

/// The efficiency of the kernels in the profile of that name, a table per precision.
std::string kernels_markdown(const std::string& profile) {
  const Json document = load_measured_profile(profile);
  std::string out = fmt::format(
      "\nKernels of the profile `{}`, as `tandem show profile {}` prints them: how many shapes, how often a "
      "step of each graph launches\nthem in all, their part of those steps, what they reach, and what the "
      "stock curves say of them over what they took.\n",
      profile, profile);
  for (const Precision p : measured_precisions(document)) {
    const EfficiencyTable table = kernel_efficiency(MachineProfile(document, p), p);
    out +=
        fmt::format("\n{}: {}\n{}", name(p), efficiency_basis(table), markdown_row(efficiency_heads(table)));
    std::vector<std::string> rule(efficiency_heads(table).size(), "---:");
    rule[0] = rule[1] = "---";
    out += markdown_row(rule);
    for (const KernelEfficiency& row : table.rows) out += markdown_row(efficiency_cells(table, row));
    out += markdown_row(efficiency_cells(table, table.all)) + "\n";
  }
  return out;
}

}  // namespace

std::string visits_markdown() {
  const std::vector<std::string> profiles = measured_profiles();
  std::string out =
      "\n## On GPUs\n\nWhat `calibration/gpu_visit.py` found "
      "([calibration/data/visits](calibration/data/visits)): "
      "samples per second of one worker of\nthe executor, on synthetic data, and of PyTorch with the same "
      "model.\n";
  std::map<std::string, Json> visits;
  std::string predicted;
  for (const std::string& name : list_data(kVisits))
    visits.emplace(name, Json::load(find_data(kVisits, "visit", name)));
  for (const auto& [name, d] : visits) {
    if (d.text("schema", "") == kVisitPredictions) {
      predicted += visit_predictions_markdown(d, visits);
      continue;
    }
    VisitRates rates;
    read(rates, d.at("tandem"), false);
    read(rates, d.at("pytorch"), true);
    std::set<std::string> columns_found;
    for (const auto& [of, found] : rates) {
      for (const auto& [column, rate] : found.columns) columns_found.insert(column);
    }
    const std::vector<std::string> columns = columns_of(columns_found);
    out += fmt::format("\n### {}\n\n{}; {}.\n\n| model, batch |", name, d.at("machine").as_text(),
                       d.at("date").as_text());
    for (const std::string& column : columns) out += fmt::format(" {} |", column);
    out += " PyTorch's version |\n| --- |";
    for (std::size_t i = 0; i < columns.size(); ++i) out += " ---: |";
    out += " --- |";
    for (const auto& [of, found] : rates) {
      out += fmt::format("\n| {}, {} |", of.first, of.second);
      for (const std::string& column : columns) {
        const auto at = found.columns.find(column);
        out += at == found.columns.end() ? " |" : fmt::format(" {:.0f} |", at->second);
      }
      out += found.torch.empty() ? " |" : fmt::format(" {} |", fmt::join(found.torch, ", "));
    }
    out += "\n";
    for (const auto& [visit, found] : d.at("conformance").members())
      out += fmt::format("\n- {}: {}", visit, found.as_text());
    out += "\n";
    if (std::find(profiles.begin(), profiles.end(), name) != profiles.end()) out += kernels_markdown(name);
  }
  return out + predicted;
}

}  // namespace tandem::calibration
