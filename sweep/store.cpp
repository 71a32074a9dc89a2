// SPDX-License-Identifier: Apache-2.0
#include "sweep/store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace tandem::sweep {

namespace {

std::string names_of(const std::vector<Column>& columns) {
  std::string out;
  for (const Column& column : columns) out += (out.empty() ? "" : ", ") + identifier(column.name);
  return out;
}

void put_header(Database& database, const Header& header) {
  std::string table;
  for (const Column& column : columns(header.grid))
    table += fmt::format("{}{} {}", table.empty() ? "" : ", ", identifier(column.name), column.type);
  database.run(fmt::format("CREATE TABLE cells ({})", table));
  database.run("CREATE TABLE sweep (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL)");
  Statement put(database, "INSERT INTO sweep VALUES (?, ?)");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"grid", header.grid.to_json().dump()},
                                                        {"cells", std::to_string(header.grid.cells())},
                                                        {"depth", header.depth},
                                                        {"build", header.build},
                                                        {"shard", header.shard.text()}}) {
    put.bind({key, value});
    put.step();
  }
  database.run(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplication, kSchema));
}

Header header_of(Database& database) {
  std::unordered_map<std::string, std::string> of;
  Statement all(database, "SELECT key, value FROM sweep");
  while (all.step()) of[all.text(0)] = all.text(1);
  for (const char* key : {"grid", "depth", "build", "shard"}) {
    if (of.count(key) == 0)
      throw InputError(fmt::format("{}: the table \"sweep\" lacks \"{}\": the file is damaged",
                                   printable(database.file()), key));
  }
  const auto damaged = [&](const std::exception& error) {
    return InputError(
        fmt::format("{}: the table \"sweep\" is damaged: {}", printable(database.file()), error.what()));
  };
  try {
    parse_depth(of["depth"], {});
    return {Grid::from_json(Json::parse(of["grid"], "grid")), of["depth"], of["build"],
            Shard::parse(of["shard"], {})};
  } catch (const InputError& error) {
    throw damaged(error);
  } catch (const UsageError& error) {
    throw damaged(error);
  }
}

/// Whether a value is one that the program writes into a column of figures.
bool fits(std::string_view type, const Value& value) {
  if (std::holds_alternative<std::monostate>(value)) return true;
  if (type == "INTEGER") return std::holds_alternative<int64_t>(value);
  if (type == "REAL") return std::holds_alternative<double>(value) && std::isfinite(std::get<double>(value));
  return std::holds_alternative<std::string>(value);
}

/// The first column of a row that holds what the program never writes there; "" if there is none.
std::string wrong_column(const Header& header, const std::vector<Column>& columns, const Row& row) {
  const auto* position = std::get_if<int64_t>(&row[kPosition]);
  const auto* status = std::get_if<std::string>(&row[kStatus]);
  const std::size_t figures = kFirstAxis + header.grid.axes().size();
  if (!std::holds_alternative<std::string>(row[kHash])) return "hash";
  if (position == nullptr || *position < 0 || *position >= header.grid.cells() ||
      !header.shard.has(*position))
    return "position";
  if (status == nullptr || (*status != kAnswered && *status != kMisfit && *status != kRefused))
    return "status";
  if (!fits("TEXT", row[kReason])) return "reason";
  for (std::size_t c = kFirstAxis; c < columns.size(); ++c) {
    const auto* real = std::get_if<double>(&row[c]);
    if (c < figures ? real != nullptr && !std::isfinite(*real) : !fits(columns[c].type, row[c]))
      return columns[c].name;
  }
  return "";
}

int64_t number(Database& database, const std::string& sql) {
  const Value value = database.value(sql);
  const auto* whole = std::get_if<int64_t>(&value);
  return whole == nullptr ? 0 : *whole;
}

/// Whether nothing was written to the file yet.
bool is_empty(Database& database) { return number(database, "SELECT count(*) FROM sqlite_schema") == 0; }

void check_kind(Database& database) {
  const std::string file = printable(database.file());
  if (number(database, "PRAGMA application_id") != kApplication)
    throw InputError(fmt::format("{}: is a database, but no sweep of Tandem", file));
  if (const int64_t schema = number(database, "PRAGMA user_version"); schema != kSchema)
    throw InputError(
        fmt::format("{}: was written by another version of Tandem (schema {}; this one has {}). Sweep again, "
                    "with another --out",
                    file, schema, kSchema));
}

/// Pages that do not belong together, before one adds to them.
void check_pages(Database& database) {
  const Value said = database.value("PRAGMA quick_check(1)");
  const auto* text = std::get_if<std::string>(&said);
  if (text == nullptr || *text != "ok")
    throw InputError(fmt::format("{}: the file is damaged ({}); sqlite3 FILE .recover reads what is left",
                                 printable(database.file()),
                                 text == nullptr ? "no answer" : printable(*text)));
}

void check_exists(const std::string& file) {
  std::error_code none;
  if (!std::filesystem::exists(file, none))
    throw InputError(fmt::format("{}: no such file", printable(file)));
  if (!std::filesystem::is_regular_file(file, none))
    throw InputError(
        fmt::format("{}: is {}", printable(file),
                    std::filesystem::is_directory(file, none) ? "a folder, not a file" : "no regular file"));
}

}  // namespace

std::string difference(const Header& is, const Header& other, bool shards) {
  const auto& mine = is.grid.axes();
  const auto& theirs = other.grid.axes();
  const auto lacks = [](const std::vector<Axis>& in, const Axis& axis) {
    return std::none_of(in.begin(), in.end(), [&](const Axis& a) { return a.column == axis.column; });
  };
  for (const Axis& axis : theirs) {
    if (lacks(mine, axis)) return fmt::format("it does not ask about {}", axis.column);
  }
  for (const Axis& axis : mine) {
    if (lacks(theirs, axis)) return fmt::format("it asks about {} too", axis.column);
  }
  for (std::size_t a = 0; a < mine.size(); ++a) {
    if (!(mine[a] == theirs[a]))
      return fmt::format("its {} is {}, not {}", mine[a].column,
                         printable(fmt::format("{}", fmt::join(mine[a].values, ","))),
                         printable(fmt::format("{}", fmt::join(theirs[a].values, ","))));
  }
  if (is.depth != other.depth) return fmt::format("its depth is {}, not {}", is.depth, other.depth);
  if (shards && !(is.shard == other.shard))
    return fmt::format("it is shard {}, not {}", is.shard.text(), other.shard.text());
  if (is.build != other.build)
    return fmt::format("tandem {} answered it, not {}: their predictions may differ", printable(is.build),
                       printable(other.build));
  return "";
}

namespace {

void refuse_other(const std::string& file, const Header& found, const Header& header) {
  const std::string differs = difference(found, header, true);
  if (!differs.empty())
    throw InputError(
        fmt::format("{}: holds another sweep: {}. Give another --out, or the options of this file",
                    printable(file), differs));
}

void check_header(Database& database, const Header& header) {
  refuse_other(database.file(), header_of(database), header);
}

}  // namespace

Store::Store(std::unique_ptr<Database> database, Header header)
    : database_(std::move(database)), header_(std::move(header)), columns_(sweep::columns(header_.grid)) {}

Store Store::read(const std::string& file) {
  check_exists(file);
  auto database = std::make_unique<Database>(file, Database::Mode::read);
  check_kind(*database);
  check_pages(*database);
  Header header = header_of(*database);
  return {std::move(database), std::move(header)};
}

Store Store::write(const std::string& file, const Header& header, bool alone) {
  auto database = std::make_unique<Database>(file, Database::Mode::write);
  if (alone) database->run("PRAGMA locking_mode = EXCLUSIVE");  // SQLite's log then shares no memory
  if (!is_empty(*database)) {                                   // before anything changes
    check_kind(*database);
    check_pages(*database);
    check_header(*database, header);
  }
  database->run("PRAGMA journal_mode = WAL");
  database->run("BEGIN IMMEDIATE");
  if (is_empty(*database)) put_header(*database, header);
  database->run("COMMIT");
  check_header(*database, header);
  return {std::move(database), header};
}

int64_t Store::cells() { return number(*database_, "SELECT count(*) FROM cells"); }

std::unordered_map<int64_t, std::string> Store::keys() {
  std::unordered_map<int64_t, std::string> out;
  Statement all(*database_, "SELECT position, hash FROM cells");
  while (all.step()) out[all.integer(0)] = all.text(1);
  return out;
}

void Store::add(const std::vector<Row>& rows) {
  if (!insert_) {
    std::string places;
    for (std::size_t i = 0; i < columns().size(); ++i) places += i == 0 ? "?" : ", ?";
    insert_.emplace(*database_, fmt::format("INSERT OR REPLACE INTO cells ({}) VALUES ({})",
                                            names_of(columns()), places));
  }
  database_->run("BEGIN IMMEDIATE");
  try {
    for (const Row& row : rows) {
      insert_->bind(row);
      insert_->step();
    }
    database_->run("COMMIT");
  } catch (const InputError&) {
    insert_.reset();
    try {
      database_->run("ROLLBACK");
    } catch (const InputError&) {  // SQLite made it already
    }
    throw;
  }
}

std::string Store::select() const { return fmt::format("SELECT {} FROM cells", names_of(columns())); }

Row Store::row_of(const Statement& statement) const {
  Row out = statement.row();
  if (const std::string wrong = wrong_column(header_, columns(), out); !wrong.empty())
    throw InputError(fmt::format("{}: a cell's {} is what no sweep writes: the file is damaged",
                                 printable(file()), printable(wrong)));
  return out;
}

std::vector<Row> Store::find(const std::string& key, int64_t position) {
  if (!find_) find_.emplace(*database_, select() + " WHERE hash = ? OR position = ?");
  find_->bind({key, position});
  std::vector<Row> out;
  while (find_->step()) out.push_back(row_of(*find_));
  return out;
}

void Store::finish() {
  insert_.reset();
  find_.reset();
  try {
    database_->run("PRAGMA journal_mode = DELETE");
  } catch (const InputError&) {  // somebody reads it
  }
}

bool check_same(const Store& store, Header header) {
  const bool same_build = header.build == store.header().build;
  header.build = store.header().build;
  refuse_other(store.file(), store.header(), header);
  return same_build;
}

void remove_store(const std::string& file) {
  std::error_code none;
  for (const char* end : {"", "-journal", "-wal", "-shm"}) std::filesystem::remove(file + end, none);
}

void replace_store(const std::string& from, const std::string& to) {
  std::error_code error;
  for (const std::string& file : {from, to}) {
    if (std::filesystem::exists(file + "-wal", error))
      throw InputError(
          fmt::format("{}: another program reads it; close that and try again", printable(file)));
  }
  std::filesystem::rename(from, to, error);
  if (error)
    throw InputError(
        fmt::format("{}: cannot rename it to {}: {}", printable(from), printable(to), error.message()));
}

}  // namespace tandem::sweep
