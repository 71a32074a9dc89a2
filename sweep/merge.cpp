// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/text.h"
#include "sweep/lock.h"
#include "sweep/sweep.h"

namespace tandem::sweep {

namespace {

namespace fs = std::filesystem;

std::string text_of(const Value& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? "" : *text;
}

/// The first column in which two cells differ.
std::string unequal_column(const std::vector<Column>& columns, const Row& a, const Row& b) {
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (!(a[c] == b[c]))
      return fmt::format("{} is {} and {}", columns[c].name, printable(text_of(a[c])),
                         printable(text_of(b[c])));
  }
  return "";
}

class Merger {
 public:
  explicit Merger(Store& to) : to_(to) {}
  void add(const std::string& file) {
    Store from = Store::read(file);
    from.each([&](Row row) {
      if (is_new(file, row)) rows_.push_back(std::move(row));
      if (rows_.size() >= kRowsAtOnce) flush();
    });
    flush();
    files_.push_back(file);
  }

 private:
  void flush() {
    to_.add(rows_);
    rows_.clear();
  }
  bool is_new(const std::string& file, const Row& row) {
    const auto position = std::get<int64_t>(row[kPosition]);
    const std::vector<Row> same = to_.find(std::get<std::string>(row[kHash]), position);
    if (same.empty()) return true;
    const std::string differs = unequal_column(to_.columns(), same[0], row);
    if (differs.empty()) return false;
    throw InputError(fmt::format("{} and {}: cell {} is not the same: {}", printable(origin(same[0])),
                                 printable(file), position, differs));
  }
  std::string origin(const Row& row) {
    for (const std::string& file : files_) {
      const auto found =
          Store::read(file).find(std::get<std::string>(row[kHash]), std::get<int64_t>(row[kPosition]));
      if (!found.empty()) return file;
    }
    return to_.file();
  }

  Store& to_;
  std::vector<std::string> files_;
  std::vector<Row> rows_;
};

}  // namespace

Outcome merge(const std::vector<std::string>& files, const std::string& out) {
  TANDEM_CHECK(!files.empty());
  Header header = Store::read(files[0]).header();
  std::vector<std::string> all = files;
  std::error_code none;
  const bool exists = fs::exists(out, none);
  if (exists && std::find(all.begin(), all.end(), out) == all.end()) all.push_back(out);
  for (const std::string& file : all) {
    const std::string differs = difference(Store::read(file).header(), header, false);
    if (!differs.empty())
      throw InputError(
          fmt::format("{}: is of another sweep than {}: {}", printable(file), printable(files[0]), differs));
  }
  header.shard = {};
  const auto lock = WriterLock::take(out);
  if (!lock) throw InputError(fmt::format("{}: another process is writing it", printable(out)));
  const std::string own = fmt::format("{}.{}.part", out, getpid());
  Outcome done{out, header.grid.cells(), 0, 0, false};
  try {
    Store store = Store::write(own, header, true);
    Merger merger(store);
    for (const std::string& file : all) merger.add(file);
    done.done = done.before = store.cells();
    done.complete = done.done == done.cells;
    store.finish();
  } catch (...) {
    remove_store(own);
    throw;
  }
  if (exists) Store::write(out, Store::read(out).header()).finish();
  replace_store(own, out);
  return done;
}

std::vector<std::string> missing_shards(Store& store, int64_t count) {
  const auto known = store.keys();
  std::map<int64_t, int64_t> missing;
  for (int64_t i = 0; i < store.header().grid.cells(); ++i) {
    if (known.count(i) == 0) ++missing[Shard::index_of(i, count)];
  }
  std::vector<std::string> out;
  for (const auto& [index, cells] : missing)
    out.push_back(fmt::format("{} of shard {}/{}", whole(cells), index, count));
  return out;
}

std::string csv(Store& store, std::string_view which) {
  const std::vector<Column> columns = store.columns();
  const std::size_t shown = columns.size() - 2;
  std::string out;
  for (std::size_t c = 0; c < shown; ++c) out += (c == 0 ? "" : ",") + csv_cell(columns[c].name);
  out += "\n";
  store.each(
      [&](const Row& row) {
        for (std::size_t c = 0; c < shown; ++c) out += (c == 0 ? "" : ",") + csv_cell(text_of(row[c]));
        out += "\n";
      },
      which);
  return out;
}

}  // namespace tandem::sweep
