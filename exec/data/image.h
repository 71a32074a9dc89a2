// SPDX-License-Identifier: Apache-2.0
#pragma once
// Encoded images: JPEG by libjpeg, PNG by libpng.
//
// Pure functions: any thread may call them. Encoded bytes may be hostile: anything wrong with them throws
// InputError, without a place.
#include <cstdint>
#include <span>
#include <vector>

#include "schemes/setup/loading.h"

namespace tandem::exec {

using Encoded = std::span<const uint8_t>;

struct ImageSize {
  int64_t width = 0, height = 0;
  int64_t pixels() const { return width * height; }
  bool operator==(const ImageSize&) const = default;
};
/// Limit of an image's sides; kMostPixels limits its pixels.
inline constexpr int64_t kMostSide = 16384, kMostPixels = int64_t{1} << 26;

/// By its first bytes. Throws InputError if it is neither JPEG nor PNG.
ImageFormat format_of(Encoded image);
/// From its header. Throws InputError.
ImageSize size_of(Encoded image);

/// A model's image input: channels last, values from 0 to 1.
struct ImageShape {
  ImageSize size;
  int64_t channels = 3;  ///< 1 (grey) or 3 (red, green, blue)
  int64_t values() const { return size.pixels() * channels; }
};
/// Decodes the whole image and resizes its largest centred part of the shape's proportions to the shape, each
/// value linear between the four nearest ones (without a prior filter). Writes shape.values() numbers.
/// `scratch` is kept between calls for its memory. Throws InputError.
void decode(Encoded image, const ImageShape& shape, std::vector<uint8_t>& scratch, float* to);

/// Three channels, rows from the top. `quality` 1 .. 100 for JPEG; PNG is lossless.
std::vector<uint8_t> encode(ImageFormat format, ImageSize size, std::span<const uint8_t> values,
                            int quality = 90);

}  // namespace tandem::exec
