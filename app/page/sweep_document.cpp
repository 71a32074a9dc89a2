// SPDX-License-Identifier: Apache-2.0
#include "app/page/sweep_document.h"

#include <fmt/format.h>

#include <fstream>
#include <set>

namespace tandem::app {

namespace {

constexpr int64_t kMostCells = 100'000;
constexpr JsonLimits kLimits = {
    .bytes = int64_t{1} << 32, .depth = 8, .nodes = int64_t{1} << 28};  // of many cells
constexpr std::string_view kMagic("SQLite format 3\0", 16);

JsonWriter json_of_value(const sweep::Value& value) {
  return std::visit(
      [](const auto& v) -> JsonWriter {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::monostate>) {
          return nullptr;
        } else {
          return v;
        }
      },
      value);
}

}  // namespace

bool is_database(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string begin(kMagic.size(), ' ');
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return in.gcount() == static_cast<std::streamsize>(kMagic.size()) && begin == kMagic;
}

JsonWriter sweep_json(sweep::Store& store, std::string_view which) {
  static const std::set<std::string> hidden = {"hash", "question", "report"};
  const std::vector<sweep::Column>& columns = store.columns();
  JsonWriter out = {{"schema", "tandem-sweep-1"}, {"rows", JsonWriter::array()}};
  store.each(
      [&](const sweep::Row& row) {
        JsonWriter cell = JsonWriter::object();
        for (std::size_t i = 0; i < columns.size(); ++i) {
          if (hidden.count(columns[i].name) == 0) cell[columns[i].name] = json_of_value(row[i]);
        }
        out["rows"].push_back(std::move(cell));
      },
      which);
  return out;
}

Json sweep_document(const std::string& file) {
  sweep::Store store = sweep::Store::read(file);
  if (store.cells() > kMostCells)
    throw InputError(
        fmt::format("{}: {} cells are too many for a page, which shows {}: tandem sweep export writes all",
                    printable(file), store.cells(), kMostCells));
  return Json::parse(sweep_json(store).dump(), file, kLimits);
}

}  // namespace tandem::app
