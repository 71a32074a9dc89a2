// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parquet files of sweeps, which DuckDB writes.
#include <string>

#include "sweep/store.h"

namespace tandem::app {

/// The columns of sweep::csv(), with their types; of an option's column numbers if all values are. Asks the
/// program duckdb, else the package duckdb of python3. Throws DeviceError if there is neither, InputError
/// with what DuckDB says.
void write_parquet(sweep::Store& store, const std::string& out);

}  // namespace tandem::app
