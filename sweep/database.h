// SPDX-License-Identifier: Apache-2.0
#pragma once
// SQLite as far as a sweep needs it. Errors are InputErrors with the file's name and what SQLite says.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace tandem::sweep {

/// What a cell of a table holds: nothing, a whole number, a real one, text in UTF-8.
using Value = std::variant<std::monostate, int64_t, double, std::string>;

/// An open file. For one thread at a time. Throws InputError.
class Database {
 public:
  enum class Mode : uint8_t {
    read,   ///< of a file that exists
    write,  ///< of a file that is made where it is missing
  };
  Database(std::string file, Mode mode);

  const std::string& file() const { return file_; }
  /// Statements without results, parted by semicolons.
  void run(const std::string& sql);
  /// The first column of the first row; monostate without rows.
  Value value(const std::string& sql);
  [[noreturn]] void fail() const;

 private:
  friend class Statement;
  struct Close {
    void operator()(sqlite3* open) const;
  };
  std::string file_;
  std::unique_ptr<sqlite3, Close> open_;
};

/// A statement to run once or often. Its database must outlive it. For one thread at a time. Throws
/// InputError.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  /// Values of its parameters, as many as it has; ends a result that was not read to its end.
  void bind(const std::vector<Value>& values);
  /// The next row of the result: false after the last, of a statement without rows at once.
  bool step();
  /// Of the row, from 0.
  Value column(int at) const;
  std::string text(int at) const;  ///< "" for none
  int64_t integer(int at) const;   ///< 0 for none
  std::vector<Value> row() const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Database& database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// Of SQLite: "3.40.1".
std::string sqlite_version();

/// "model" as an SQL identifier, whatever stands in it.
std::string identifier(std::string_view name);

}  // namespace tandem::sweep
