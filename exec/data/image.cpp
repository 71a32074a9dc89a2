// SPDX-License-Identifier: Apache-2.0
#include "exec/data/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <jpeglib.h>
#include <png.h>

#include "base/error.h"

namespace tandem::exec {

namespace {

[[noreturn]] void bad_image(const std::string& why) { throw InputError(why); }

void check_size(const ImageSize& size) {
  if (size.width < 1 || size.height < 1 || size.width > kMostSide || size.height > kMostSide ||
      size.pixels() > kMostPixels)
    bad_image(fmt::format("a picture of {} x {} pixels: sides are 1 to {}, pixels at most {}", size.width,
                          size.height, kMostSide, kMostPixels));
}

/// libjpeg reports errors by a function that must not return; its message is kept.
struct JpegErrors {
  jpeg_error_mgr base;
  std::jmp_buf back;
  char text[JMSG_LENGTH_MAX];
};

void leave_jpeg(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  errors->base.format_message(info, errors->text);
  std::longjmp(errors->back, 1);
}
/// A warning means damage that libjpeg fills with grey.
void refuse_warnings(j_common_ptr info, int level) {
  if (level < 0) leave_jpeg(info);
}

void catch_errors(JpegErrors& errors) {
  jpeg_std_error(&errors.base);
  errors.base.error_exit = leave_jpeg;
  errors.base.emit_message = refuse_warnings;
}

/// Without objects that have destructors, since libjpeg jumps out of it. Returns success. `to`: null: only
/// the size is read.
bool read_jpeg(jpeg_decompress_struct& info, JpegErrors& errors, Encoded image, int channels,
               std::vector<uint8_t>* to) {
  if (setjmp(errors.back) != 0) return false;
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, image.data(), image.size());
  jpeg_read_header(&info, TRUE);
  if (to == nullptr) return true;
  info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&info);
  const std::size_t row = std::size_t{info.output_width} * static_cast<std::size_t>(channels);
  while (info.output_scanline < info.output_height) {
    JSAMPROW at = to->data() + info.output_scanline * row;
    jpeg_read_scanlines(&info, &at, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

class Jpeg {
 public:
  Jpeg() { catch_errors(errors_); }
  ~Jpeg() { jpeg_destroy_decompress(&info_); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;
  ImageSize size(Encoded image) {
    run(image, 3, nullptr);
    const ImageSize out{info_.image_width, info_.image_height};
    check_size(out);
    return out;
  }
  void run(Encoded image, int channels, std::vector<uint8_t>* to) {
    if (info_.mem != nullptr) jpeg_destroy_decompress(&info_);
    info_.err = &errors_.base;
    if (!read_jpeg(info_, errors_, image, channels, to)) bad_image(fmt::format("JPEG: {}", errors_.text));
  }

 private:
  jpeg_decompress_struct info_{};
  JpegErrors errors_{};
};

class Png {
 public:
  explicit Png(Encoded image) {
    image_.version = PNG_IMAGE_VERSION;
    if (png_image_begin_read_from_memory(&image_, image.data(), image.size()) == 0) fail();
  }
  ~Png() { png_image_free(&image_); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
  ImageSize size() const {
    const ImageSize out{image_.width, image_.height};
    check_size(out);
    return out;
  }
  void read(int channels, std::vector<uint8_t>& to) {
    image_.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    const png_color black{0, 0, 0};  // background of transparent pixels
    if (png_image_finish_read(&image_, &black, to.data(), 0, nullptr) == 0) fail();
  }

 private:
  [[noreturn]] void fail() { bad_image(fmt::format("PNG: {}", image_.message)); }
  png_image image_{};
};

/// The largest centred part of `from` with the proportions of `to`: where it begins, and the size of a pixel
/// of `to` in it.
struct Cut {
  double left, top, step;
  Cut(ImageSize from, ImageSize to) {
    const auto w = static_cast<double>(from.width), h = static_cast<double>(from.height);
    step = std::min(w / static_cast<double>(to.width), h / static_cast<double>(to.height));
    left = (w - step * static_cast<double>(to.width)) / 2;
    top = (h - step * static_cast<double>(to.height)) / 2;
  }
};

/// Along one axis, of each output pixel's centre: the two neighbours and the weight of the second.
struct Between {
  int64_t first, second;
  float weight;
};
std::vector<Between> between(double begin, double step, int64_t count, int64_t most) {
  std::vector<Between> out;
  for (int64_t i = 0; i < count; ++i) {
    const double at =
        std::clamp(begin + (static_cast<double>(i) + 0.5) * step - 0.5, 0.0, static_cast<double>(most - 1));
    const auto first = static_cast<int64_t>(at);
    out.push_back(
        {first, std::min(first + 1, most - 1), static_cast<float>(at - static_cast<double>(first))});
  }
  return out;
}

void resize(const uint8_t* from, ImageSize size, const ImageShape& shape, float* to) {
  const Cut cut(size, shape.size);
  const auto across = between(cut.left, cut.step, shape.size.width, size.width);
  const auto down = between(cut.top, cut.step, shape.size.height, size.height);
  const int64_t c = shape.channels, row = size.width * c;
  for (const Between& y : down) {
    const uint8_t *a = from + y.first * row, *b = from + y.second * row;
    for (const Between& x : across) {
      for (int64_t k = 0; k < c; ++k) {
        const auto mix = [&](const uint8_t* line) {
          const auto l = static_cast<float>(line[x.first * c + k]),
                     r = static_cast<float>(line[x.second * c + k]);
          return l + x.weight * (r - l);
        };
        const float upper = mix(a);
        *to++ = (upper + y.weight * (mix(b) - upper)) / 255;
      }
    }
  }
}

/// As read_jpeg().
bool write_jpeg(jpeg_compress_struct& info, JpegErrors& errors, ImageSize size, const uint8_t* values,
                int quality, unsigned char** out, unsigned long* bytes) {
  if (setjmp(errors.back) != 0) return false;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, out, bytes);
  info.image_width = static_cast<JDIMENSION>(size.width);
  info.image_height = static_cast<JDIMENSION>(size.height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<uint8_t*>(values + std::size_t{info.next_scanline} * info.image_width * 3);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  return true;
}

std::vector<uint8_t> encode_jpeg(ImageSize size, const uint8_t* values, int quality) {
  jpeg_compress_struct info{};
  JpegErrors errors{};
  catch_errors(errors);
  info.err = &errors.base;
  unsigned char* out = nullptr;
  unsigned long bytes = 0;
  const bool well = write_jpeg(info, errors, size, values, quality, &out, &bytes);
  std::vector<uint8_t> copy;
  if (well) copy.assign(out, out + bytes);
  jpeg_destroy_compress(&info);
  std::free(out);
  if (!well) bad_image(fmt::format("JPEG: {}", errors.text));
  return copy;
}

std::vector<uint8_t> encode_png(ImageSize size, const uint8_t* values) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(size.width);
  image.height = static_cast<png_uint_32>(size.height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<uint8_t> out(bytes);
  if (png_image_write_to_memory(&image, out.data(), &bytes, 0, values, 0, nullptr) == 0)
    bad_image(fmt::format("PNG: {}", image.message));
  out.resize(bytes);
  return out;
}

}  // namespace

ImageFormat format_of(Encoded image) {
  constexpr uint8_t kJpeg[] = {0xff, 0xd8, 0xff}, kPng[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  const auto begins = [&](const auto& with) {
    return image.size() >= sizeof(with) && std::memcmp(image.data(), with, sizeof(with)) == 0;
  };
  if (begins(kJpeg)) return ImageFormat::jpeg;
  if (begins(kPng)) return ImageFormat::png;
  bad_image("neither a JPEG nor a PNG picture");
}

ImageSize size_of(Encoded image) {
  if (format_of(image) == ImageFormat::png) return Png(image).size();
  return Jpeg().size(image);
}

void decode(Encoded image, const ImageShape& shape, std::vector<uint8_t>& scratch, float* to) {
  const auto channels = static_cast<int>(shape.channels);
  const auto room = [&](ImageSize size) {
    scratch.resize(static_cast<std::size_t>(size.pixels() * shape.channels));
    return size;
  };
  ImageSize size;
  if (format_of(image) == ImageFormat::png) {
    Png png(image);
    size = room(png.size());
    png.read(channels, scratch);
  } else {
    Jpeg jpeg;
    size = room(jpeg.size(image));
    jpeg.run(image, channels, &scratch);
  }
  resize(scratch.data(), size, shape, to);
}

std::vector<uint8_t> encode(ImageFormat format, ImageSize size, std::span<const uint8_t> values,
                            int quality) {
  check_size(size);
  TANDEM_CHECK(static_cast<int64_t>(values.size()) == size.pixels() * 3);
  return format == ImageFormat::png ? encode_png(size, values.data())
                                    : encode_jpeg(size, values.data(), quality);
}

}  // namespace tandem::exec
