// SPDX-License-Identifier: Apache-2.0
#pragma once
// A sweep's file as JSON.
#include <string>

#include "sweep/store.h"

namespace tandem::sweep {

/// A "tandem-sweep-1" document: {"schema", "file", "depth", "cells": how many the grid or its shard has,
/// "rows": [{column: value}]}, rows by position, with all columns but "question" and "report".
std::string sweep_json(Store& store);

}  // namespace tandem::sweep
