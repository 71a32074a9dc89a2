// SPDX-License-Identifier: Apache-2.0
#pragma once
// The file of a sweep: an SQLite database (docs/formats/sweep.md).
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sweep/cell.h"
#include "sweep/database.h"
#include "sweep/grid.h"

namespace tandem::sweep {

/// The number of the file's schema: PRAGMA user_version.
inline constexpr int64_t kSchema = 2;
/// PRAGMA application_id of a sweep's file: "TNDM".
inline constexpr int64_t kApplication = 0x544e444d;

/// How many rows go into a transaction.
inline constexpr std::size_t kRowsAtOnce = 1000;

/// What all cells of a file have in common.
struct Header {
  Grid grid;
  std::string depth;  ///< "rate", "report", "full"
  std::string build;  ///< of the program that answers: predictions of another one may differ
  Shard shard;        ///< which cells belong in the file
};

/// In words, how the first differs from the second; "" where it does not. `shards`: these too.
std::string difference(const Header& is, const Header& other, bool shards);

/// For one thread at a time. Throws InputError, with SQLite's words.
class Store {
 public:
  static constexpr std::string_view kAll = " ORDER BY position";

  /// Opens a file to read it. Throws InputError: it is missing, damaged, of another program or schema.
  static Store read(const std::string& file);
  /// Opens a file to add cells, or makes it. What was added is on disk when add() returns: it survives the
  /// end of the process at any moment. `alone`: nobody else can read it before it is closed, and its folder
  /// may be one that several machines share. Throws as read(), and for a file with another header.
  static Store write(const std::string& file, const Header& header, bool alone = false);

  const std::string& file() const { return database_->file(); }
  const Header& header() const { return header_; }
  const std::vector<Column>& columns() const { return columns_; }
  /// How many cells there are.
  int64_t cells();
  /// Keys by the cells' position in the grid.
  std::unordered_map<int64_t, std::string> keys();
  /// All at once or none. A row replaces those with its key or its position.
  void add(const std::vector<Row>& rows);
  /// Calls `read` with each row that the end of a SELECT leaves, in its order.
  template <typename Read>
  void each(Read read, std::string_view which = kAll) {
    Statement all(*database_, select() + std::string(which));
    while (all.step()) read(row_of(all));
  }
  /// The rows with this key or this position: two at most.
  std::vector<Row> find(const std::string& key, int64_t position);
  /// For queries of one's own.
  Database& database() { return *database_; }
  /// The row of a statement that begins with select(). Throws InputError for what no sweep writes.
  Row row_of(const Statement& statement) const;
  /// "SELECT hash, position ... FROM cells".
  std::string select() const;
  /// Makes the log that SQLite writes into the same folder part of the file, unless somebody reads it: then
  /// whoever closes it last does.
  void finish();

 private:
  Store(std::unique_ptr<Database> database, Header header);
  std::unique_ptr<Database> database_;
  Header header_;
  std::vector<Column> columns_;
  std::optional<Statement> insert_, find_;
};

/// Whether the build that answered the file is the header's. Throws InputError if the file is of another
/// sweep or shard.
bool check_same(const Store& store, Header header);

/// Removes a file that nobody has open, with SQLite's log.
void remove_store(const std::string& file);
/// Renames a finished file, in place of another if that exists. Throws InputError if SQLite's log of one of
/// them is still there: it would be taken for that of the new file.
void replace_store(const std::string& from, const std::string& to);

}  // namespace tandem::sweep
