// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/sweep_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

#include "app/console/report_text.h"
#include "app/console/terminal.h"

namespace tandem::app {

namespace {

using sweep::Row;
using sweep::Store;
using sweep::Value;

constexpr int kReasons = 3;  // of refused cells, the most frequent ones

double number_in(const Value& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  const auto* real = std::get_if<double>(&value);
  return real == nullptr ? 0 : *real;
}

std::string words_of(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  const auto* real = std::get_if<double>(&value);
  return real == nullptr ? "" : fmt::format("{:.6g}", *real);
}

/// A row with its columns by name.
class NamedRow {
 public:
  NamedRow(const std::vector<sweep::Column>& columns, const Row& row) : columns_(columns), row_(row) {}
  const Value& at(std::string_view name) const {
    const auto found = std::find_if(columns_.begin(), columns_.end(),
                                    [&](const sweep::Column& column) { return column.name == name; });
    TANDEM_CHECK(found != columns_.end());
    return row_[static_cast<std::size_t>(found - columns_.begin())];
  }
  double number(std::string_view name) const { return number_in(at(name)); }

 private:
  const std::vector<sweep::Column>& columns_;
  const Row& row_;
};

/// A column of the table, left out where `wanted` is false.
struct Shown {
  Column column;
  std::function<std::string(const NamedRow&)> text;
};

std::string swept_rate_text(const NamedRow& row) { return grouped(row.number("samples_per_second")); }
std::string swept_interval_text(const NamedRow& row) {
  return fmt::format("{} .. {}", grouped(row.number("samples_per_second_low")),
                     grouped(row.number("samples_per_second_high")));
}
std::string swept_memory_text(const NamedRow& row) {
  MemoryUse memory;
  memory.nvidia_smi = {static_cast<int64_t>(row.number("memory_bytes"))};
  memory.capacity = {static_cast<int64_t>(row.number("memory_capacity_bytes"))};
  return memory_text(memory);
}

std::vector<Shown> shown_columns(const Store& store, bool stale) {
  std::vector<Shown> out;
  for (const sweep::Axis& axis : store.header().grid.axes()) {
    if (axis.values.size() < 2) continue;
    const bool number = axis.option == "devices" || axis.option == "batch";
    out.push_back(
        {{axis.column, number}, [&axis](const NamedRow& row) { return words_of(row.at(axis.column)); }});
  }
  out.push_back({{"samples/s", true}, swept_rate_text});
  out.push_back({{"90 % interval", true, 6}, swept_interval_text});
  if (stale) {
    out.push_back({{"staleness", true}, [](const NamedRow& row) {
                     return fmt::format("{:.2f} (max {})", row.number("staleness_mean"),
                                        static_cast<int64_t>(row.number("staleness_max")));
                   }});
  }
  if (store.header().depth != "rate") {
    out.push_back({{"efficiency", true, 5}, [](const NamedRow& row) {
                     return fmt::format("{:.0f} %", 100 * row.number("scaling_efficiency"));
                   }});
  }
  out.push_back({{"memory/device", true, 3}, swept_memory_text});
  if (store.header().depth == "full")
    out.push_back({{"bound by"}, [](const NamedRow& row) { return words_of(row.at("bottleneck")); }});
  return out;
}

void check_column(const Store& store, const std::string& name) {
  std::vector<std::string> names;
  for (const sweep::Column& column : store.columns()) names.push_back(column.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  refuse_option("sort", fmt::format("no column \"{}\".{} Valid: {}", printable(name),
                                    did_you_mean(name, names), fmt::join(names, ", ")));
}

/// What all cells have in common: "model vgg16 · precision fp16".
std::string common_text(const Store& store) {
  std::vector<std::string> out;
  for (const sweep::Axis& axis : store.header().grid.axes()) {
    if (axis.values.size() > 1) continue;
    out.push_back(fmt::format(
        "{} {}", axis.option == "set" ? axis.column.substr(4) : axis.column,
        store.header().grid.values(0)[static_cast<std::size_t>(&axis - store.header().grid.axes().data())]));
  }
  return fmt::format("{}", fmt::join(out, " · "));
}

std::string reasons_text(Store& store, int columns) {
  sweep::Statement all(store.database(),
                       "SELECT reason, count(*) FROM cells WHERE status = 'refused' GROUP BY reason "
                       "ORDER BY count(*) DESC, reason");
  std::string out;
  int64_t more = 0, cells = 0;
  for (int i = 0; all.step(); ++i) {
    if (i < kReasons) {
      out +=
          hanging("Refused: ", fmt::format("{} cells: {}", all.integer(1), printable(all.text(0))), columns) +
          "\n";
    } else {
      ++more;
      cells += all.integer(1);
    }
  }
  if (more > 0) out += fmt::format("Refused: {} cells for {} other reasons\n", cells, more);
  return out;
}

}  // namespace

std::string which_cells(const Store& store, const SweepView& view) {
  check_column(store, view.sort);
  const std::string by = sweep::identifier(view.sort);
  return fmt::format(" WHERE status = 'answered' ORDER BY {} IS NULL, {} {}, position LIMIT {}", by, by,
                     view.ascending ? "ASC" : "DESC", view.top);
}

Table sweep_table(Store& store, const SweepView& view) {
  const std::string which = which_cells(store, view);
  const bool stale =
      number_in(store.database().value("SELECT max(staleness_max) FROM cells WHERE status = 'answered'")) > 0;
  const std::vector<Shown> shown = shown_columns(store, stale);
  std::vector<Column> heads;
  for (const Shown& each : shown) heads.push_back(each.column);
  Table out(heads);
  store.each(
      [&](const Row& row) {
        std::vector<std::string> cells;
        for (const Shown& each : shown) cells.push_back(each.text({store.columns(), row}));
        out.add(std::move(cells));
      },
      which);
  return out;
}

std::string sweep_line(Store& store) {
  std::map<std::string, int64_t> of;
  sweep::Statement all(store.database(), "SELECT status, count(*) FROM cells GROUP BY status");
  int64_t cells = 0;
  while (all.step()) {
    of[all.text(0)] = all.integer(1);
    cells += all.integer(1);
  }
  const auto& header = store.header();
  const int64_t expected = header.shard.count == 1
                               ? header.grid.cells()
                               : static_cast<int64_t>(header.grid.order(header.shard).size());
  std::string out = fmt::format("{}: {} of {} cells", printable(store.file()), whole(cells), whole(expected));
  if (header.shard.count > 1) out += fmt::format(" of shard {}", header.shard.text());
  return out + fmt::format(": {} answered, {} do not fit, {} refused", whole(of["answered"]),
                           whole(of["does not fit"]), whole(of["refused"]));
}

std::string sweep_text(Store& store, const SweepView& view, int columns) {
  const Table table = sweep_table(store, view);
  std::string out = wrapped(sweep_line(store), columns) + "\n";
  if (const std::string common = common_text(store); !common.empty()) out += wrapped(common, columns) + "\n";
  if (!table.empty()) out += "\n" + table.text(true, columns);
  const std::string reasons = reasons_text(store, columns);
  return reasons.empty() ? out : out + "\n" + reasons;
}

}  // namespace tandem::app
