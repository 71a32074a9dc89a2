// SPDX-License-Identifier: Apache-2.0
#include "app/measure/measure_input.h"

#include <fmt/format.h>
#include <stdlib.h>  // mkdtemp

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/statistics.h"
#include "exec/data/image.h"

namespace tandem::app {

namespace {

std::string made_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "tandem-images-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    throw InputError(
        fmt::format("{}: {}", std::filesystem::temp_directory_path().string(), std::strerror(errno)));
  return name;
}

StoredImages made_images(const MadeImages& what, const std::string& folder, bool files) {
  const std::string path = folder + (files ? "/images" : "/images.rec");
  make_images(what, path);
  return StoredImages::open(path);
}

/// Of one sample, the median of several passes over all. The fastest would be of a core that is briefly idle;
/// a run lasts longer.
double seconds_of_sample(int64_t samples, int passes, const std::function<void(int64_t)>& work) {
  std::vector<double> seconds;
  for (int pass = 0; pass < passes; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < samples; ++i) work(i);
    const std::chrono::duration<double> all = std::chrono::steady_clock::now() - start;
    seconds.push_back(all.count() / static_cast<double>(samples));
  }
  return median(seconds);
}

void measure_reads(const StoredImages& images, const StoredData& data, int passes, Measurements& m) {
  std::vector<uint8_t> encoded;
  const double seconds =
      seconds_of_sample(images.samples(), passes, [&](int64_t i) { images.read(i, encoded); });
  m.input.push_back({false, data.format, data.files, data.bytes, data.pixels, 0, seconds});
}

}  // namespace

TemporaryImages::TemporaryImages(const MadeImages& what, bool files)
    : folder_(made_folder()), images_(made_images(what, folder_, files)) {}

TemporaryImages::~TemporaryImages() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

namespace {

/// Enough that a core does not learn them: repeated decoding of sixteen PNGs takes a quarter less time each.
constexpr int64_t kSamples = 48;

/// To small and large inputs, in colour and grey: each needs different decoding.
void measure_decoding(const StoredImages& images, const StoredData& data, int passes, Measurements& m) {
  std::vector<std::vector<uint8_t>> encoded(static_cast<std::size_t>(images.samples()));
  for (int64_t i = 0; i < images.samples(); ++i) images.read(i, encoded[static_cast<std::size_t>(i)]);
  std::vector<uint8_t> scratch;
  for (const int64_t channels : {3, 1}) {
    for (const int64_t to : {30, 224}) {
      const ImageShape shape{{to, to}, channels};
      std::vector<float> values(static_cast<std::size_t>(shape.values()));
      const double seconds = seconds_of_sample(images.samples(), passes, [&](int64_t i) {
        decode(encoded[static_cast<std::size_t>(i)], shape, scratch, values.data());
      });
      m.input.push_back({true, data.format, true, data.bytes, data.pixels,
                         static_cast<double>(shape.values()), seconds, channels == 1});
    }
  }
}

}  // namespace

void measure_input(bool quick, Measurements& m) {
  const int passes = quick ? 3 : 5;
  for (int f = 0; f < kImageFormats; ++f) {
    const auto format = static_cast<ImageFormat>(f);
    for (const int64_t side : {64, 160, 320, 640}) {
      if (format == ImageFormat::png && side > 320) continue;  // slow to generate
      // JPEG costs per byte and per pixel: two qualities separate them.
      for (const int quality : format == ImageFormat::jpeg ? std::vector{50, 92} : std::vector{90}) {
        MadeImages what;
        what.samples = kSamples;
        what.width = what.height = side;
        what.format = format;
        what.quality = quality;
        const TemporaryImages files(what, true);
        const StoredData data = files.images().describe();
        if (format == ImageFormat::jpeg) {
          const TemporaryImages records(what, false);
          measure_reads(files.images(), data, passes, m);
          measure_reads(records.images(), records.images().describe(), passes, m);
        }
        measure_decoding(files.images(), data, passes, m);
      }
    }
  }
}

}  // namespace tandem::app
