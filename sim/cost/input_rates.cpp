// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/input_rates.h"

#include <fmt/format.h>

namespace tandem::sim {

InputRates InputRates::from_json(const Json* input) {
  InputRates out;
  if (input == nullptr) return out;
  input->only({"read", "decode"});
  const auto rate = [](const Json& row, std::string_view key) { return row.at(key).as_real(0, 1e3); };
  for (const Json& row : input->at("read").items()) {
    const bool files = row.at("files").as_bool();
    out.read[files ? 1 : 0] = {rate(row, "seconds"), rate(row, "seconds_per_byte")};
  }
  for (const Json& row : input->at("decode").items()) {
    int format = 0;
    while (format < kImageFormats && name(static_cast<ImageFormat>(format)) != row.at("format").as_text())
      ++format;
    if (format == kImageFormats)
      row.at("format").fail(
          fmt::format("\"{}\" is no format of pictures: jpeg, png", printable(row.at("format").as_text())));
    auto& rates = row.boolean("grey", false) ? out.grey : out.decode;
    rates[static_cast<std::size_t>(format)] = {rate(row, "seconds"), rate(row, "seconds_per_byte"),
                                               rate(row, "seconds_per_pixel"),
                                               rate(row, "seconds_per_value")};
  }
  return out;
}

}  // namespace tandem::sim
