// SPDX-License-Identifier: Apache-2.0
#include "sweep/sweep_json.h"

#include "base/json_writer.h"

namespace tandem::sweep {

namespace {

JsonWriter json_of(const Value& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return *whole;
  if (const auto* real = std::get_if<double>(&value)) return JsonWriter::finite_or_null(*real);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return nullptr;
}

}  // namespace

std::string sweep_json(Store& store) {
  const std::vector<Column> columns = store.columns();
  const std::size_t shown = columns.size() - 2;
  const Header& header = store.header();
  JsonWriter out = {{"schema", "tandem-sweep-1"}, {"file", store.file()}, {"depth", header.depth}};
  int64_t cells = 0;
  for (int64_t position = 0; position < header.grid.cells(); ++position)
    cells += header.shard.has(position) ? 1 : 0;
  out["cells"] = cells;
  out["rows"] = JsonWriter::array();
  store.each([&](const Row& row) {
    JsonWriter one = JsonWriter::object();
    for (std::size_t c = 0; c < shown; ++c) one[columns[c].name] = json_of(row[c]);
    out["rows"].push_back(std::move(one));
  });
  return out.dump();
}

}  // namespace tandem::sweep
