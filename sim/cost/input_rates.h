// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one thread of a measured machine takes to read and to decode a sample.
#include <array>
#include <optional>

#include "base/json.h"
#include "schemes/setup/loading.h"

namespace tandem::sim {

/// Linear in what is decoded. A plain value.
struct DecodeRate {
  double base = 0;                     ///< seconds of every sample ...
  double per_byte = 0, per_pixel = 0;  ///< ... of what is stored ...
  double per_value = 0;                ///< ... and of what the model takes
  double seconds(double bytes, double pixels, double values) const {
    return base + per_byte * bytes + per_pixel * pixels + per_value * values;
  }
};
/// From the page cache.
struct ReadRate {
  double base = 0, per_byte = 0;
  double seconds(double bytes) const { return base + per_byte * bytes; }
};

struct InputRates {
  std::array<std::optional<DecodeRate>, kImageFormats> decode;  ///< [format]: to three channels
  /// [format]: to one. JPEG then leaves out what makes colours, PNG makes grey of them.
  std::array<std::optional<DecodeRate>, kImageFormats> grey;
  /// As long as grey is not known, colours are taken for it.
  const std::optional<DecodeRate>& decoding(ImageFormat format, bool to_grey) const {
    const auto f = static_cast<std::size_t>(format);
    return to_grey && grey[f] ? grey[f] : decode[f];
  }
  std::array<std::optional<ReadRate>, 2> read;  ///< [a file each?]
  /// "input" of a machine profile; nothing where that is absent. Throws InputError.
  static InputRates from_json(const Json* input);
};

}  // namespace tandem::sim
