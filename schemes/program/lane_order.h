// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether the lanes of a role ever work at the same time.
#include "schemes/program/program.h"

namespace tandem::schemes {

/// Each op of the role, which is the program's, waits for the one before it in the list, a receive of an
/// answer for the message that asks for it, and an iteration for the end of the one before, whichever ops are
/// there: no two lanes work at the same time, and one thread may walk through all of them. Pure; O(ops +
/// deps) but for ops that only some iterations have.
bool one_after_another(const Program& program, const Role& role);

}  // namespace tandem::schemes
