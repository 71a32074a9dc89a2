// SPDX-License-Identifier: Apache-2.0
#include "exec/lower/stored.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tandem::exec {

namespace {

using Format = StoredShape::Format;

int8_t eighth_bits(float value, float scale) {
  return scale == 0 ? int8_t{0}
                    : static_cast<int8_t>(std::lround(std::clamp(value / scale, -1.0F, 1.0F) * 127));
}

int nearest_level(float value) {
  int best = 0;
  for (int code = 1; code < StoredShape::kLevels; ++code) {
    if (std::abs(StoredShape::level(code) - value) < std::abs(StoredShape::level(best) - value)) best = code;
  }
  return best;
}

/// Largest magnitudes of each block.
std::vector<float> block_scales(const StoredShape& s, const float* values) {
  std::vector<float> out(static_cast<std::size_t>(s.blocks()));
  for (int64_t i = 0; i < s.elements; ++i) {
    float& most = out[static_cast<std::size_t>(i / StoredShape::kBlock)];
    most = std::max(most, std::abs(values[i]));
  }
  return out;
}

void store_scales(const StoredShape& s, const std::vector<float>& scales, float* floats, int8_t* bytes) {
  if (s.format == Format::nf4) {
    std::copy(scales.begin(), scales.end(), floats);
    return;
  }
  const double sum = std::accumulate(scales.begin(), scales.end(), 0.0);
  floats[0] = static_cast<float>(sum / static_cast<double>(scales.size()));
  for (std::size_t i = 0; i < scales.size(); ++i) {
    float& most = floats[1 + i / StoredShape::kScales];
    most = std::max(most, std::abs(scales[i] - floats[0]));
  }
  for (std::size_t i = 0; i < scales.size(); ++i)
    bytes[i] = eighth_bits(scales[i] - floats[0], floats[1 + i / StoredShape::kScales]);
}

}  // namespace

std::vector<int64_t> stored_shape(int64_t elements, int64_t columns, const std::string& format) {
  const Format f = format == "nf4" ? Format::nf4 : format == "nf4-dq" ? Format::nf4_dq : Format::int8;
  return {elements, columns, static_cast<int64_t>(f)};
}

std::vector<float> store(const StoredShape& s, const float* values) {
  std::vector<float> out(static_cast<std::size_t>(s.words()), 0.0F);
  auto* bytes = reinterpret_cast<int8_t*>(out.data() + s.floats());
  if (s.format == Format::int8) {
    for (int64_t i = 0; i < s.elements; ++i) {
      float& most = out[static_cast<std::size_t>(i % s.columns)];
      most = std::max(most, std::abs(values[i]));
    }
    for (int64_t i = 0; i < s.elements; ++i)
      bytes[i] = eighth_bits(values[i], out[static_cast<std::size_t>(i % s.columns)]);
    return out;
  }
  store_scales(s, block_scales(s, values), out.data(), bytes);
  for (int64_t i = 0; i < s.elements; ++i) {
    const float scale = s.scale(out.data(), bytes, i / StoredShape::kBlock);
    const int code = nearest_level(scale == 0 ? 0 : values[i] / scale);
    int8_t& pair = bytes[s.scale_bytes() + i / 2];
    pair = static_cast<int8_t>(static_cast<unsigned char>(pair) | (i % 2 == 0 ? code : code << 4));
  }
  return out;
}

}  // namespace tandem::exec
