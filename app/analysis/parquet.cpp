// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/parquet.h"

#include <fmt/format.h>
#include <stdlib.h>  // mkdtemp

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/child.h"
#include "base/json.h"
#include "sweep/sweep.h"

namespace tandem::app {

namespace {

namespace fs = std::filesystem;

/// A folder that vanishes with it.
class ParquetFolder {
 public:
  ParquetFolder() : path_((fs::temp_directory_path() / "tandem-parquet-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr)
      throw InputError(fmt::format("{}: {}", fs::temp_directory_path().string(), std::strerror(errno)));
  }
  ~ParquetFolder() {
    std::error_code none;
    fs::remove_all(path_, none);
  }
  ParquetFolder(const ParquetFolder&) = delete;
  ParquetFolder& operator=(const ParquetFolder&) = delete;
  std::string file(const char* name) const { return (fs::path(path_) / name).string(); }

 private:
  std::string path_;
};

/// As SQL writes text.
std::string sql_text(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

/// DuckDB's names for the types of columns(); of NUMERIC ones it looks at the values.
std::string types_text(const std::vector<sweep::Column>& columns) {
  std::string out;
  for (std::size_t c = 0; c + 2 < columns.size(); ++c) {
    const std::string_view type = columns[c].type;
    const char* duck = type.starts_with("TEXT")      ? "VARCHAR"
                       : type.starts_with("INTEGER") ? "BIGINT"
                       : type.starts_with("REAL")    ? "DOUBLE"
                                                     : nullptr;
    if (duck != nullptr)
      out += fmt::format("{}{}: '{}'", out.empty() ? "" : ", ", sql_text(columns[c].name), duck);
  }
  return out;
}

/// False if the program is not there or cannot do it.
bool works(const std::vector<std::string>& command) {
  try {
    return run_child(command, "", command[0]).status == 0;
  } catch (const DeviceError&) {
    return false;
  }
}

std::vector<std::string> duckdb_command(const std::string& sql) {
  if (works({"duckdb", "-version"})) return {"duckdb", "-c", sql};
  if (works({"python3", "-c", "import duckdb"}))
    return {"python3", "-c", "import sys, duckdb; duckdb.sql(sys.argv[1])", sql};
  throw DeviceError(
      "parquet is written by DuckDB, which is not here: pip install duckdb, or put the program duckdb on "
      "PATH. "
      "--format csv needs neither");
}

}  // namespace

void write_parquet(sweep::Store& store, const std::string& out) {
  const ParquetFolder folder;
  const std::string table = folder.file("cells.csv"), part = out + ".part";
  const std::vector<std::string> command = duckdb_command(fmt::format(
      "COPY (FROM read_csv({}, header = true, delim = ',', quote = '\"', escape = '\"', sample_size = -1, "
      "types = {{{}}})) TO {} (FORMAT parquet)",
      sql_text(table), types_text(store.columns()), sql_text(part)));
  write_file(table, sweep::csv(store));
  const ChildResult result = run_child(command, "", command[0]);
  std::error_code error;
  if (result.status == 0) fs::rename(part, out, error);
  if (result.status == 0 && !error) return;
  const std::string said = result.status == 0 ? error.message() : result.err;
  fs::remove(part, error);
  throw InputError(fmt::format("{}: DuckDB cannot write it: {}", printable(out), printable(said)));
}

}  // namespace tandem::app
