// SPDX-License-Identifier: Apache-2.0
#include "exec/data/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem::tests {
namespace {

using Pixels = std::vector<uint8_t>;

std::vector<float> decoded(const Pixels& encoded, const ImageShape& shape) {
  std::vector<float> out(static_cast<std::size_t>(shape.values()));
  Pixels scratch;
  decode(encoded, shape, scratch, out.data());
  return out;
}

/// Red grows along a row, green from row to row; blue is constant.
Pixels ramp(ImageSize size) {
  Pixels out;
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      out.push_back(static_cast<uint8_t>(10 * x));
      out.push_back(static_cast<uint8_t>(20 * y));
      out.push_back(77);
    }
  }
  return out;
}

TEST(Image, PngLosesNothingAndJpegLittle) {
  const ImageSize size{12, 9};
  const Pixels values = ramp(size);
  for (const ImageFormat format : {ImageFormat::png, ImageFormat::jpeg}) {
    const Pixels encoded = encode(format, size, values, 100);
    EXPECT_EQ(format_of(encoded), format);
    EXPECT_EQ(size_of(encoded), size);
    const std::vector<float> back = decoded(encoded, {size, 3});
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(255 * back[i], values[i], format == ImageFormat::png ? 1e-3 : 12) << i;
  }
}

TEST(Image, IsCutInTheMiddleAndResizedByItsNeighbours) {
  const ImageSize size{12, 8};
  const Pixels png = encode(ImageFormat::png, size, ramp(size));
  // A square: the eight middle columns and all rows. Halved, each value lies between two pixels.
  const std::vector<float> half = decoded(png, {{4, 4}, 3});
  for (int64_t y = 0; y < 4; ++y) {
    for (int64_t x = 0; x < 4; ++x) {
      const auto* pixel = &half[static_cast<std::size_t>(3 * (4 * y + x))];
      EXPECT_NEAR(255 * pixel[0], 10 * (2 + 2 * static_cast<double>(x) + 0.5), 1e-3);
      EXPECT_NEAR(255 * pixel[1], 20 * (2 * static_cast<double>(y) + 0.5), 1e-3);
      EXPECT_NEAR(255 * pixel[2], 77, 1e-3);
    }
  }
  const std::vector<float> twice = decoded(png, {{16, 16}, 3});
  EXPECT_NEAR(255 * twice[0], 17.5, 1e-3) << "a quarter of a pixel outside of the cut, inside of the picture";
  EXPECT_NEAR(255 * twice[1], 0, 1e-3) << "its edge is repeated";
}

TEST(Image, GreyIsOneChannel) {
  const Pixels grey(3 * 16, 128);
  for (const ImageFormat format : {ImageFormat::png, ImageFormat::jpeg}) {
    for (const float v : decoded(encode(format, {4, 4}, grey), {{2, 2}, 1})) EXPECT_NEAR(255 * v, 128, 1.1);
  }
}

TEST(Image, RefusesWhatIsDamaged) {
  const ImageSize size{64, 64};
  const auto refused = [&](const Pixels& encoded, const char* why) {
    try {
      decoded(encoded, {{8, 8}, 3});
      ADD_FAILURE() << "accepted: " << why;
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr(why));
    }
  };
  refused({}, "neither a JPEG nor a PNG");
  refused({'G', 'I', 'F', '8', '9', 'a'}, "neither a JPEG nor a PNG");
  for (const ImageFormat format : {ImageFormat::png, ImageFormat::jpeg}) {
    const char* name = format == ImageFormat::png ? "PNG: " : "JPEG: ";
    const Pixels whole = encode(format, size, ramp(size));
    for (const double share : {0.1, 0.5, 0.9})
      refused({whole.begin(),
               whole.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(whole.size()))},
              name);
  }
  Pixels huge = encode(ImageFormat::jpeg, size, ramp(size));
  for (std::size_t i = 0; i + 8 < huge.size(); ++i) {
    if (huge[i] != 0xff || huge[i + 1] != 0xc0) continue;  // the frame: length, precision, height, width
    huge[i + 5] = huge[i + 7] = 0x3f;
    huge[i + 6] = huge[i + 8] = 0xff;
  }
  refused(huge, "pixels at most");
}

}  // namespace
}  // namespace tandem::tests
