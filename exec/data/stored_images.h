// SPDX-License-Identifier: Apache-2.0
#pragma once
// Data sets of pictures in storage: a folder with a file for each, or a record file that holds all.
#include <cstdint>
#include <string>
#include <vector>

#include "schemes/loading.h"

namespace tandem::exec {

/// Immutable once opened: any thread may read it. Samples are read anew each time, by system calls; what the
/// kernel's page cache holds then comes from there.
///
/// A folder holds a folder for each class, and these hold .jpg, .jpeg and .png files, as torchvision's
/// ImageFolder has it: classes are numbered in the order of their names, and so are samples within a class.
///
/// A record file (.rec) is MXNet's RecordIO, as its im2rec writes it (dmlc-core, include/dmlc/recordio.h;
/// mxnet, src/io/image_recordio.h): records of a magic number, a length, a header with one label, and the
/// encoded picture, padded to 4 bytes. Little-endian.
class StoredImages {
 public:
  /// Throws InputError with the file, and of a record file the offset, of what is wrong: nothing there, no
  /// classes, no pictures, a damaged record, a label that is no whole number from 0 on or several labels.
  /// O(samples): of each its name and size, or its record's head, is read, and no picture.
  static StoredImages open(const std::string& path);

  const std::string& path() const { return path_; }
  int64_t samples() const { return static_cast<int64_t>(labels_.size()); }
  int64_t classes() const { return classes_; }
  int32_t label(int64_t sample) const { return labels_[static_cast<std::size_t>(sample)]; }
  /// The encoded picture into `to`, whose memory is used again. Throws InputError.
  void read(int64_t sample, std::vector<uint8_t>& to) const;
  /// "class/file.jpg", or "record 17 (offset 4096)".
  std::string place(int64_t sample) const;
  /// Means over all samples; of the pixels over kDescribed of them, evenly spread. Throws InputError.
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

/// Does the name of a data set mean pictures in storage: a folder or a .rec file?
bool is_stored(const std::string& name);

/// A record that a file can hold: header, label, picture, padding. Data that contains the magic number at a
/// multiple of 4 bytes is divided there, as RecordIO does.
std::vector<uint8_t> make_record(uint64_t id, int32_t label, const std::vector<uint8_t>& image);

/// A data set made from counters, of `classes` classes in turn: smooth waves whose direction and colour are
/// the class's, with noise so that JPEG takes about as many bits as for photographs. The same arguments give
/// the same files. `path`: a new folder, or a new .rec file, which is there when it is whole: until then it
/// is called path.part. Throws InputError where it exists or cannot be written.
struct MadeImages {
  int64_t samples = 256, classes = 10;
  int64_t width = 256, height = 256;
  ImageFormat format = ImageFormat::jpeg;
  int quality = 90;
  uint64_t seed = 1;
};
void make_images(const MadeImages& what, const std::string& path);
/// One of them, encoded.
std::vector<uint8_t> make_image(const MadeImages& what, int64_t sample);

}  // namespace tandem::exec
