// SPDX-License-Identifier: Apache-2.0
#pragma once
// Data sets of images in storage: a folder of files, or one record file.
#include <cstdint>
#include <string>
#include <vector>

#include "schemes/setup/loading.h"

namespace tandem::exec {

/// Immutable once opened: any thread may read it. Samples are read each time by system calls, possibly from
/// the kernel's page cache.
///
/// A folder holds a folder per class with .jpg, .jpeg and .png files, like torchvision's ImageFolder: classes
/// are numbered in the order of their names, and so are samples within a class.
///
/// A record file (.rec) is MXNet's RecordIO as written by im2rec (dmlc-core, include/dmlc/recordio.h; mxnet,
/// src/io/image_recordio.h): records of a magic number, a length, a header with one label, and the encoded
/// image, padded to 4 bytes. Little-endian.
class StoredImages {
 public:
  /// Throws InputError naming the file, and in a record file the offset: missing, no classes, no images, a
  /// damaged record, a label that is not a whole number from 0 on, or several labels. O(samples): reads the
  /// name and size, or the record's head, of each, and no image.
  static StoredImages open(const std::string& path);

  const std::string& path() const { return path_; }
  int64_t samples() const { return static_cast<int64_t>(labels_.size()); }
  int64_t classes() const { return classes_; }
  int32_t label(int64_t sample) const { return labels_[static_cast<std::size_t>(sample)]; }
  /// Reads the encoded image into `to`, reusing its memory. Throws InputError.
  void read(int64_t sample, std::vector<uint8_t>& to) const;
  /// "class/file.jpg", or "record 17 (offset 4096)".
  std::string place(int64_t sample) const;
  /// Means over all samples; of pixels over kDescribed evenly spread samples. Throws InputError.
  static constexpr int64_t kDescribed = 64;
  StoredData describe() const;

 private:
  void open_folder();
  void open_records();

  std::string path_;
  bool files_ = true;
  int64_t classes_ = 0;
  double bytes_ = 0;
  std::vector<int32_t> labels_;
  std::vector<std::string> names_;  ///< of files, below the path
  std::vector<int64_t> offsets_;    ///< of records
};

/// Whether the name of a data set means images in storage: a folder or a .rec file.
bool is_stored(const std::string& name);

/// A record as stored: header, label, image, padding. Data with the magic number at a multiple of 4 bytes is
/// divided there, as RecordIO does.
std::vector<uint8_t> make_record(uint64_t id, int32_t label, const std::vector<uint8_t>& image);

/// A data set generated from counters, with `classes` classes round robin: smooth waves whose direction and
/// colour depend on the class, with noise so that JPEG takes about as many bits as for photographs. The same
/// arguments give the same files. `path`: a new folder, or a new .rec file, which is called path.part until
/// it is complete. Throws InputError if it exists or cannot be written.
struct MadeImages {
  int64_t samples = 256, classes = 10;
  int64_t width = 256, height = 256;
  ImageFormat format = ImageFormat::jpeg;
  int quality = 90;
  uint64_t seed = 1;
};
void make_images(const MadeImages& what, const std::string& path);
/// One of its samples, encoded.
std::vector<uint8_t> make_image(const MadeImages& what, int64_t sample);

}  // namespace tandem::exec
