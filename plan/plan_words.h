// SPDX-License-Identifier: Apache-2.0
#pragma once
// Time, money, energy and work as a plan says them.
#include <string>
#include <string_view>

#include "base/rooms.h"

namespace tandem::plan {

/// "95 s", "16.9 h", "10.4 d", "3.2 years": a buyer's units.
std::string time_text(double seconds);
/// "1.73 h to 2.5 h": bounds in one unit, that of the upper one, unless the lower is far below it.
std::string time_range_text(double low, double high);
/// "2.20 USD", "8,030 USD", "1.25 million USD".
std::string money_text(double usd);
/// "27.5 kWh", "43.9 MWh", "1.2 GWh".
std::string energy_text(double joules);
/// "250 W", "1.63 kW", "2 MW".
std::string watts_text(double watts);
/// "78 %", "over 99 %".
std::string chance_text(double probability);
/// "90", "1,281,167", "200 billion".
std::string amount_text(double amount);
/// "90 epochs", "1 epoch", "200 billion tokens", "to a loss of 2.1"; `what`: loss, epochs, tokens or samples.
std::string target_text(std::string_view what, double amount);

}  // namespace tandem::plan
