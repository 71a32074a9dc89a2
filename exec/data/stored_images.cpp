// SPDX-License-Identifier: Apache-2.0
#include "exec/data/stored_images.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/random.h"
#include "exec/data/image.h"

namespace tandem::exec {

namespace {

namespace fs = std::filesystem;

constexpr uint32_t kMagic = 0xced7230a, kLengthMask = (1U << 29) - 1;
constexpr int64_t kRecordHead = 8, kImageHead = 24;
constexpr int64_t kMostEncoded = int64_t{256} << 20;  ///< of an image

static_assert(std::endian::native == std::endian::little, "record files are little-endian");

[[noreturn]] void unreadable(const std::string& file, const std::string& why) {
  throw InputError(fmt::format("{}: {}", printable(file), why));
}

/// An open file, for reading at offsets.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) unreadable(path_, std::strerror(errno));
    struct stat status {};
    const int failed = fstat(descriptor_, &status) == 0 ? 0 : errno;
    if (failed == 0 && S_ISREG(status.st_mode)) {
      size_ = status.st_size;
      return;
    }
    ::close(descriptor_);
    unreadable(path_, failed == 0 ? "is no regular file" : std::strerror(failed));
  }
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int64_t size() const { return size_; }
  [[noreturn]] void fail(int64_t offset, const std::string& why) const {
    unreadable(path_, fmt::format("offset {}: {}", offset, why));
  }
  void read(int64_t offset, void* to, int64_t bytes) const {
    for (auto* at = static_cast<uint8_t*>(to); bytes > 0;) {
      const ssize_t got = pread(descriptor_, at, static_cast<std::size_t>(bytes), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) unreadable(path_, std::strerror(errno));
      if (got == 0) unreadable(path_, fmt::format("ends at {}, within a sample", offset));
      at += got;
      offset += got;
      bytes -= got;
    }
  }

 private:
  const std::string path_;
  int descriptor_;
  int64_t size_ = 0;
};

bool is_image(const fs::path& file) {
  std::string end = file.extension().string();
  std::transform(end.begin(), end.end(), end.begin(), [](unsigned char c) { return std::tolower(c); });
  return end == ".jpg" || end == ".jpeg" || end == ".png";
}

std::vector<fs::path> sorted(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) out.push_back(entry.path());
  if (failed) unreadable(folder.string(), failed.message());
  std::sort(out.begin(), out.end());
  return out;
}

/// One part of a record.
struct Part {
  uint32_t kind = 0;  ///< 0: whole, 1: first, 2: in between, 3: last
  int64_t bytes = 0;
  int64_t padded() const { return (bytes + 3) / 4 * 4; }
};

Part read_part(const OpenFile& file, int64_t offset) {
  uint32_t head[2] = {};
  if (file.size() - offset < kRecordHead) file.fail(offset, "a record is cut off");
  file.read(offset, head, kRecordHead);
  if (head[0] != kMagic) file.fail(offset, "no record begins there (RecordIO's magic number is missing)");
  const Part part{head[1] >> 29, head[1] & kLengthMask};
  if (part.kind > 3) file.fail(offset, fmt::format("a part of kind {}", part.kind));
  if (part.padded() > file.size() - offset - kRecordHead)
    file.fail(offset, fmt::format("a record of {} bytes is cut off", part.bytes));
  return part;
}

/// Calls f(part, offset of its bytes) for all parts of the record at `offset`; returns the offset of the next
/// one.
template <typename F>
int64_t each_part(const OpenFile& file, int64_t offset, F f) {
  int64_t bytes = 0;
  for (bool first = true;; first = false) {
    const Part part = read_part(file, offset);
    if (first ? part.kind > 1 : part.kind < 2) file.fail(offset, "the parts of a record are in disorder");
    bytes += part.bytes;
    if (bytes > kMostEncoded)
      file.fail(offset, fmt::format("a record of more than {} MiB", kMostEncoded >> 20));
    f(part, offset + kRecordHead);
    offset += kRecordHead + part.padded();
    if (part.kind == 0 || part.kind == 3) return offset;
  }
}

/// Its parts joined, with the magic numbers between them.
void read_record(const OpenFile& file, int64_t offset, std::vector<uint8_t>& to) {
  to.clear();
  each_part(file, offset, [&](const Part& part, int64_t at) {
    if (at != offset + kRecordHead) {
      const auto* magic = reinterpret_cast<const uint8_t*>(&kMagic);
      to.insert(to.end(), magic, magic + sizeof(kMagic));
    }
    const std::size_t before = to.size();
    to.resize(before + static_cast<std::size_t>(part.bytes));
    file.read(at, to.data() + before, part.bytes);
  });
}

/// The header of a record's first part: number of labels, and one label.
struct ImageHead {
  uint32_t flag = 0;
  float label = 0;
};

int32_t label_of(const OpenFile& file, int64_t offset, const ImageHead& head) {
  if (head.flag != 0) file.fail(offset, fmt::format("{} labels, where one is read", head.flag));
  if (!(head.label >= 0 && head.label <= 1e6F) || head.label != std::floor(head.label))
    file.fail(offset, fmt::format("the label is {}, no whole number from 0 to 1000000", head.label));
  return static_cast<int32_t>(head.label);
}

}  // namespace

bool is_stored(const std::string& name) {
  std::error_code failed;
  return name.ends_with(".rec") || fs::is_directory(name, failed);
}

StoredImages StoredImages::open(const std::string& path) {
  StoredImages out;
  out.path_ = path;
  std::error_code failed;
  out.files_ = fs::is_directory(path, failed);
  out.files_ ? out.open_folder() : out.open_records();
  if (out.labels_.empty())
    unreadable(path, out.files_
                         ? "holds no pictures: a folder for each class, with .jpg, .jpeg and .png files"
                         : "holds no records");
  out.bytes_ /= static_cast<double>(out.samples());
  return out;
}

void StoredImages::open_folder() {
  for (const fs::path& folder : sorted(path_)) {
    std::error_code failed;
    if (!fs::is_directory(folder, failed)) continue;
    for (const fs::path& file : sorted(folder)) {
      if (!is_image(file)) continue;
      const auto bytes = fs::file_size(file, failed);
      if (failed) unreadable(file.string(), failed.message());
      bytes_ += static_cast<double>(bytes);
      names_.push_back(folder.filename().string() + "/" + file.filename().string());
      labels_.push_back(static_cast<int32_t>(classes_));
    }
    ++classes_;
  }
}

void StoredImages::open_records() {
  const OpenFile file(path_);
  for (int64_t offset = 0; offset < file.size();) {
    int64_t bytes = -4;  // a magic number is between two parts
    const int64_t begin = offset;
    offset = each_part(file, begin, [&](const Part& part, int64_t at) {
      bytes += part.bytes + 4;
      if (at != begin + kRecordHead) return;
      if (part.bytes < kImageHead) file.fail(begin, "a record without a header");
      ImageHead head;
      file.read(at, &head, sizeof(head));
      labels_.push_back(label_of(file, begin, head));
    });
    classes_ = std::max<int64_t>(classes_, labels_.back() + 1);
    bytes_ += static_cast<double>(bytes - kImageHead);
    offsets_.push_back(begin);
  }
}

void StoredImages::read(int64_t sample, std::vector<uint8_t>& to) const {
  const auto i = static_cast<std::size_t>(sample);
  if (files_) {
    const std::string path = path_ + "/" + names_[i];
    const OpenFile file(path);
    if (file.size() > kMostEncoded) unreadable(path, fmt::format("more than {} MiB", kMostEncoded >> 20));
    to.resize(static_cast<std::size_t>(file.size()));
    return file.read(0, to.data(), file.size());
  }
  const OpenFile file(path_);
  read_record(file, offsets_[i], to);
  if (static_cast<int64_t>(to.size()) < kImageHead)  // the file has changed
    file.fail(offsets_[i], "a record without a header");
  to.erase(to.begin(), to.begin() + kImageHead);
}

std::string StoredImages::place(int64_t sample) const {
  const auto i = static_cast<std::size_t>(sample);
  return files_ ? names_[i] : fmt::format("record {} (offset {})", sample, offsets_[i]);
}

StoredData StoredImages::describe() const {
  StoredData out{samples(), bytes_, 0, ImageFormat::jpeg, files_};
  const int64_t count = std::min(samples(), kDescribed);
  std::vector<uint8_t> image;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t sample = k * samples() / count;
    read(sample, image);
    try {
      out.pixels += static_cast<double>(size_of(image).pixels());
      if (k == 0) out.format = format_of(image);
    } catch (const InputError& error) {
      unreadable(path_, fmt::format("{}: {}", place(sample), error.what()));
    }
  }
  out.pixels /= static_cast<double>(count);
  return out;
}

std::vector<uint8_t> make_record(uint64_t id, int32_t label, const std::vector<uint8_t>& image) {
  std::vector<uint8_t> whole(kImageHead);
  const auto number = static_cast<float>(label);
  std::memcpy(whole.data() + 4, &number, 4);
  std::memcpy(whole.data() + 8, &id, 8);
  whole.insert(whole.end(), image.begin(), image.end());
  std::vector<std::size_t> cuts;  // at magic numbers
  for (std::size_t i = 0; i + 4 <= whole.size(); i += 4) {
    if (std::memcmp(whole.data() + i, &kMagic, 4) == 0) cuts.push_back(i);
  }
  std::vector<uint8_t> out;
  std::size_t begin = 0;
  for (std::size_t k = 0; k <= cuts.size(); ++k) {
    const std::size_t end = k < cuts.size() ? cuts[k] : whole.size();
    const uint32_t kind = cuts.empty() ? 0 : k == 0 ? 1 : k < cuts.size() ? 2 : 3;
    const uint32_t head[2] = {kMagic, kind << 29 | static_cast<uint32_t>(end - begin)};
    const auto* bytes = reinterpret_cast<const uint8_t*>(head);
    out.insert(out.end(), bytes, bytes + sizeof(head));
    out.insert(out.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin),
               whole.begin() + static_cast<std::ptrdiff_t>(end));
    out.resize((out.size() + 3) / 4 * 4);
    begin = end + 4;
  }
  return out;
}

std::vector<uint8_t> make_image(const MadeImages& what, int64_t sample) {
  const auto of_class = static_cast<double>(sample % what.classes) / static_cast<double>(what.classes);
  const double turn = 2 * 3.14159265358979 * of_class;
  std::vector<uint8_t> values;
  values.reserve(static_cast<std::size_t>(what.width * what.height * 3));
  for (int64_t y = 0; y < what.height; ++y) {
    for (int64_t x = 0; x < what.width; ++x) {
      const double along = 25 * (static_cast<double>(x) / static_cast<double>(what.width) * std::cos(turn) +
                                 static_cast<double>(y) / static_cast<double>(what.height) * std::sin(turn));
      const uint64_t bits = draw_bits(what.seed, static_cast<uint64_t>(sample), static_cast<uint64_t>(y / 2),
                                      static_cast<uint64_t>(x / 2));
      for (int k = 0; k < 3; ++k) {
        const double wave = std::sin(along + turn * (k + 1)), noise = static_cast<double>(bits >> 8 * k & 63);
        values.push_back(static_cast<uint8_t>(96 + 64 * wave + noise));
      }
    }
  }
  return encode(what.format, {what.width, what.height}, values, what.quality);
}

namespace {

void put(const std::string& path, std::ostream& to, const std::vector<uint8_t>& bytes) {
  to.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!to) unreadable(path, "cannot be written");
}

void write_records(const MadeImages& what, const std::string& path) {
  std::ofstream all(path, std::ios::binary);
  for (int64_t i = 0; i < what.samples; ++i)
    put(path, all,
        make_record(static_cast<uint64_t>(i), static_cast<int32_t>(i % what.classes), make_image(what, i)));
  all.close();
  if (!all) unreadable(path, "cannot be written");
}

void write_folder(const MadeImages& what, const std::string& path) {
  const auto digits = [](int64_t count) { return std::to_string(std::max<int64_t>(count - 1, 0)).size(); };
  const char* end = what.format == ImageFormat::png ? "png" : "jpg";
  for (int64_t i = 0; i < what.samples; ++i) {
    const std::string folder = fmt::format("{}/{:0{}}", path, i % what.classes, digits(what.classes));
    fs::create_directories(folder);
    const std::string name = fmt::format("{}/{:0{}}.{}", folder, i, digits(what.samples), end);
    std::ofstream file(name, std::ios::binary);
    put(name, file, make_image(what, i));
    file.close();
    if (!file) unreadable(name, "cannot be written");
  }
}

}  // namespace

void make_images(const MadeImages& what, const std::string& path) {
  std::error_code failed;
  if (fs::exists(path, failed)) unreadable(path, "exists already");
  const std::string whole = path.substr(0, path.find_last_not_of('/') + 1), making = whole + ".part";
  try {
    fs::remove_all(making);  // left by an interrupted run
    path.ends_with(".rec") ? write_records(what, making) : write_folder(what, making);
    fs::rename(making, whole);
  } catch (const fs::filesystem_error& error) {
    unreadable(path, error.code().message());
  }
}

}  // namespace tandem::exec
