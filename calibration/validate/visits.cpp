// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/visits.h"

#include <fmt/format.h>

#include <map>
#include <utility>
#include <vector>

#include "base/data.h"
#include "base/json.h"

namespace tandem::calibration {

namespace {

constexpr std::string_view kVisits = "calibration/data/visits";
/// Columns of the table: of the executor by precision, of PyTorch by precision and mode.
constexpr const char* kColumns[] = {"bf16", "PyTorch bf16 graphed", "PyTorch bf16 eager", "fp8", "tf32",
                                    "fp32"};

using Case = std::pair<std::string, int64_t>;  // model, batch
using Rates = std::map<Case, std::map<std::string, double>>;

void read(Rates& rates, const Json& list, bool torch) {
  for (const Json& r : list.items()) {
    std::string column = r.at("precision").as_text();
    if (torch) column = fmt::format("PyTorch {} {}", column, r.at("mode").as_text());
    rates[{r.at("model").as_text(), r.at("batch").as_int(1)}][column] =
        r.at("samples_per_second").as_real(0, 1e12);
  }
}

}  // namespace

std::string visits_markdown() {
  std::string out =
      "\n## On GPUs\n\nWhat `calibration/gpu_visit.py` found "
      "([calibration/data/visits](calibration/data/visits)): "
      "samples per second of one worker of\nthe executor, on synthetic data, beside PyTorch's of the same "
      "model.\n";
  for (const std::string& name : list_data(kVisits)) {
    const Json d = Json::load(find_data(kVisits, "visit", name));
    Rates rates;
    read(rates, d.at("tandem"), false);
    read(rates, d.at("pytorch"), true);
    out += fmt::format("\n### {}\n\n{}; {}.\n\n| model, batch |", name, d.at("machine").as_text(),
                       d.at("date").as_text());
    for (const char* column : kColumns) out += fmt::format(" {} |", column);
    out += "\n| --- |";
    for (std::size_t i = 0; i < std::size(kColumns); ++i) out += " ---: |";
    for (const auto& [of, found] : rates) {
      out += fmt::format("\n| {}, {} |", of.first, of.second);
      for (const char* column : kColumns) {
        const auto at = found.find(column);
        out += at == found.end() ? " |" : fmt::format(" {:.0f} |", at->second);
      }
    }
    out += "\n";
  }
  return out;
}

}  // namespace tandem::calibration
