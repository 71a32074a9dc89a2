// SPDX-License-Identifier: Apache-2.0
#pragma once
// A sweep's file as a document that a page shows.
#include <string>

#include "base/json.h"
#include "base/json_writer.h"
#include "sweep/store.h"

namespace tandem::app {

/// Whether a file is an SQLite database, by its first bytes; false for one that cannot be read.
bool is_database(const std::string& file);

/// {"schema": "tandem-sweep-1", "rows": [an object of each cell's columns but hash, question and report]} of
/// the cells that Store::each() gives.
JsonWriter sweep_json(sweep::Store& store, std::string_view which = sweep::Store::kAll);

/// That of a file's cells. Throws InputError: no file of a sweep, or more than 100,000 cells.
Json sweep_document(const std::string& file);

}  // namespace tandem::app
