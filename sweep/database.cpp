// SPDX-License-Identifier: Apache-2.0
#include "sweep/database.h"

#include <fmt/format.h>
#include <sqlite3.h>

namespace tandem::sweep {

namespace {

constexpr int kPatience = 10'000;  // milliseconds for which another program may hold the file
constexpr int kLongest = 1 << 28;  // bytes of a text

/// SQLite's words, and what to do where they do not say it.
std::string advice(int code) {
  switch (code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_IOERR:
      return ": what was finished is kept; make room and run the same command again";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ": another program holds the file; what was finished is kept";
    case SQLITE_CORRUPT:
      return ": the file is damaged; sqlite3 FILE .recover reads what is left";
    case SQLITE_NOTADB:
      return ": no sweep of Tandem";
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return ": may the file and its folder be read and written?";
    default:
      return "";
  }
}

/// What a stranger's file may not do: run code, stand for a missing column with its name, make
/// texts that are larger than the file.
void distrust(sqlite3* open) {
  for (const int without : {SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_ENABLE_VIEW,
                            SQLITE_DBCONFIG_DQS_DML, SQLITE_DBCONFIG_DQS_DDL, SQLITE_DBCONFIG_TRUSTED_SCHEMA})
    sqlite3_db_config(open, without, 0, nullptr);
  sqlite3_db_config(open, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_limit(open, SQLITE_LIMIT_LENGTH, kLongest);
}

}  // namespace

void Database::Close::operator()(sqlite3* open) const { sqlite3_close_v2(open); }
void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Database::Database(std::string file, Mode mode) : file_(std::move(file)) {
  sqlite3* open = nullptr;
  const int flags = mode == Mode::read ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(file_.c_str(), &open, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  open_.reset(open);
  if (code != SQLITE_OK) fail();
  sqlite3_busy_timeout(open, kPatience);
  distrust(open);
}

void Database::fail() const {
  const int code = open_ ? sqlite3_errcode(open_.get()) : SQLITE_NOMEM;
  const std::string words = open_ ? sqlite3_errmsg(open_.get()) : "out of memory";
  throw InputError(fmt::format("{}: {}{}", printable(file_), printable(words), advice(code)));
}

void Database::run(const std::string& sql) {
  if (sqlite3_exec(open_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail();
}

Value Database::value(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.column(0) : Value{};
}

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  sqlite3_stmt* made = nullptr;
  const int code =
      sqlite3_prepare_v2(database.open_.get(), sql.data(), static_cast<int>(sql.size()), &made, nullptr);
  statement_.reset(made);
  if (code != SQLITE_OK) database.fail();
}

void Statement::bind(const std::vector<Value>& values) {
  sqlite3_stmt* to = statement_.get();
  sqlite3_reset(to);
  TANDEM_CHECK(sqlite3_bind_parameter_count(to) == static_cast<int>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int at = static_cast<int>(i) + 1;
    int code = SQLITE_OK;
    if (const auto* whole = std::get_if<int64_t>(&values[i])) {
      code = sqlite3_bind_int64(to, at, *whole);
    } else if (const auto* real = std::get_if<double>(&values[i])) {
      code = sqlite3_bind_double(to, at, *real);
    } else if (const auto* text = std::get_if<std::string>(&values[i])) {
      code = sqlite3_bind_text(to, at, text->data(), static_cast<int>(text->size()), SQLITE_TRANSIENT);
    } else {
      code = sqlite3_bind_null(to, at);
    }
    if (code != SQLITE_OK) database_.fail();
  }
}

bool Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) database_.fail();
  sqlite3_reset(statement_.get());
  return false;
}

Value Statement::column(int at) const {
  sqlite3_stmt* from = statement_.get();
  switch (sqlite3_column_type(from, at)) {
    case SQLITE_INTEGER:
      return sqlite3_column_int64(from, at);
    case SQLITE_FLOAT:
      return sqlite3_column_double(from, at);
    case SQLITE_NULL:
      return {};
    default: {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(from, at));
      return std::string(text, static_cast<std::size_t>(sqlite3_column_bytes(from, at)));
    }
  }
}

std::string Statement::text(int at) const {
  const Value value = column(at);
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? "" : *text;
}

int64_t Statement::integer(int at) const { return sqlite3_column_int64(statement_.get(), at); }

std::vector<Value> Statement::row() const {
  std::vector<Value> out;
  for (int i = 0; i < sqlite3_column_count(statement_.get()); ++i) out.push_back(column(i));
  return out;
}

std::string sqlite_version() { return sqlite3_libversion(); }

std::string identifier(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

}  // namespace tandem::sweep
