// SPDX-License-Identifier: Apache-2.0
#pragma once
// Advice as text.
#include <string>

#include "answers/ask_advice.h"

namespace tandem::app {

/// Table, reasons, results of the other schemes, and the two commands. Lines are at most `columns` wide (0:
/// no limit), except the commands.
std::string advice_text(const AskedAdvice& asked, int columns);
/// A row per choice.
std::string advice_csv(const Advice& advice);

}  // namespace tandem::app
