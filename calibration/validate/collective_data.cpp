// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/collective_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>

#include "base/data.h"
#include "base/text.h"
#include "calibration/logs/log_text.h"
#include "sim/cost/link_cost.h"

namespace tandem::calibration {
namespace {

constexpr std::string_view kHeader = "system,sets,kind,devices,bytes,us";

template <typename T>
T number(const std::string& text, const Place& place) {
  T value{};
  if (!read_number(text, value) || !(value > 0))
    throw InputError(place, fmt::format("\"{}\" is no positive number", printable(text)));
  return value;
}

/// "4x1x20": threads, devices per thread, iterations.
Harness harness_of(const std::string& text, const Place& place) {
  const auto part = split(text, 'x');
  if (part.size() != 3) {
    throw InputError(place, fmt::format("\"{}\" is no harness such as 1x8x20", printable(text)));
  }
  return {number<int>(part[0], place), number<int>(part[1], place), number<int>(part[2], place)};
}

CollKind kind_of(const std::string& text, const Place& place) {
  for (int k = 0; k < kCollKinds; ++k) {
    if (name(static_cast<CollKind>(k)) == text) return static_cast<CollKind>(k);
  }
  throw InputError(place, fmt::format("no collective \"{}\"", printable(text)));
}

CollectiveRow row_of(const std::string& line, const Place& place) {
  const auto cell = split(line, ',');
  if (cell.size() != 6) throw InputError(place, fmt::format("six cells expected: {}", kHeader));
  CollectiveRow row;
  row.line = line;
  row.system = cell[0];
  for (const std::string& set : split(cell[1], ';')) {
    if (set.starts_with("harness=")) {
      row.harness = harness_of(set.substr(8), place);
    } else if (!set.empty()) {
      row.sets += (row.sets.empty() ? "" : ";") + set;
    }
  }
  row.kind = kind_of(cell[2], place);
  row.devices = number<int64_t>(cell[3], place);
  row.bytes = number<int64_t>(cell[4], place);
  row.measured = number<double>(cell[5], place) * 1e-6;
  return row;
}

struct Machine {
  System system;
  LinkCost links;
  explicit Machine(System s) : system(std::move(s)), links(system, Overheads{}) {}
};

std::unique_ptr<Machine> machine_of(const CollectiveRow& row, const std::string& folder) {
  std::vector<std::pair<std::string, std::string>> sets;
  for (const std::string& set : split(row.sets, ';')) {
    const std::size_t at = set.find('=');
    if (at != std::string::npos) sets.emplace_back(set.substr(0, at), set.substr(at + 1));
  }
  const bool file = row.system.ends_with(".json");
  return std::make_unique<Machine>(System::load(file ? folder + "/systems/" + row.system : row.system, sets));
}

}  // namespace

double CollectiveRow::log_ratio() const { return std::log(predicted / measured); }

std::vector<CollectiveRow> read_collectives(const std::string& path) {
  const auto file = std::make_shared<const std::string>(path);
  std::istringstream lines(read_file(path));
  std::vector<CollectiveRow> rows;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty() || line[0] == '#' || line == kHeader) continue;
    rows.push_back(row_of(line, {file, number, 1}));
    rows.back().table = std::filesystem::path(path).stem().string();
  }
  return rows;
}

void predict_collectives(std::vector<CollectiveRow>& rows, const std::string& folder) {
  std::map<std::string, std::unique_ptr<Machine>> machines;
  for (CollectiveRow& row : rows) {
    auto& machine = machines[row.system + "|" + row.sets];
    if (!machine) machine = machine_of(row, folder);
    if (row.devices > machine->system.accelerator_count()) {
      throw InputError(fmt::format("{} has no {} devices", machine->system.name(), row.devices));
    }
    std::vector<VertexId> members;
    for (int64_t i = 0; i < row.devices; ++i) members.push_back(machine->system.accelerator(i));
    LinkCost::Choice choice;
    const Transfer t = machine->links.collective(row.kind, "auto", {row.bytes}, members, &choice);
    row.predicted =
        machine->links.reported(t.alone(machine->links.capacity()).seconds(), choice, row.harness);
    row.algorithm = choice.algorithm;
    row.protocol = choice.protocol;
    row.spread = choice.spread;
  }
}

std::vector<CollectiveRow> validate_collectives() {
  const std::string folder = data_root() + "/calibration/data/collectives";
  std::vector<std::string> tables;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".csv") tables.push_back(entry.path().string());
  }
  std::sort(tables.begin(), tables.end());
  std::vector<CollectiveRow> all;
  for (const std::string& table : tables) {
    for (CollectiveRow& row : read_collectives(table)) all.push_back(std::move(row));
  }
  predict_collectives(all, folder);
  return all;
}

double geometric_error(const std::vector<double>& log_ratios) {
  if (log_ratios.empty()) return 0;
  double sum = 0;
  for (const double r : log_ratios) sum += std::abs(r);
  return std::exp(sum / static_cast<double>(log_ratios.size())) - 1;
}

}  // namespace tandem::calibration
