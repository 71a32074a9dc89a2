// SPDX-License-Identifier: Apache-2.0
#include "exec/data/stored_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace tandem::tests {
namespace {

namespace fs = std::filesystem;
using Pixels = std::vector<uint8_t>;

/// A folder for one test.
class Stored : public testing::Test {
 protected:
  Stored() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Stored() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& name, const Pixels& bytes) const {
    std::ofstream(path(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path(name);
  }
  static void refused(const std::string& data, const std::string& why) {
    try {
      StoredImages::open(data).describe();
      ADD_FAILURE() << "accepted: " << why;
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), testing::AllOf(testing::HasSubstr(why), testing::HasSubstr(data)));
    }
  }
  const std::string folder_ =
      (fs::temp_directory_path() /
       (std::string("tandem-stored-") + testing::UnitTest::GetInstance()->current_test_info()->name()))
          .string();
};

MadeImages seven() {
  MadeImages what;
  what.samples = 7;
  what.classes = 3;
  what.width = 20;
  what.height = 10;
  return what;
}

TEST_F(Stored, FilesAndRecordsHoldTheSamePictures) {
  const MadeImages what = seven();
  make_images(what, path("files"));
  make_images(what, path("all.rec"));
  const StoredImages files = StoredImages::open(path("files")), records = StoredImages::open(path("all.rec"));
  EXPECT_EQ(files.samples(), 7);
  EXPECT_EQ(records.samples(), 7);
  EXPECT_EQ(files.classes(), 3);
  EXPECT_EQ(records.classes(), 3);
  const std::vector<int32_t> by_class{0, 0, 0, 1, 1, 2, 2}, in_turn{0, 1, 2, 0, 1, 2, 0};
  const std::vector<int64_t> sample{0, 3, 6, 1, 4, 2, 5};  // of the files in their order
  Pixels bytes;
  double sum = 0;
  for (int64_t i = 0; i < 7; ++i) {
    const auto k = static_cast<std::size_t>(i);
    EXPECT_EQ(files.label(i), by_class[k]);
    EXPECT_EQ(records.label(i), in_turn[k]);
    files.read(i, bytes);
    EXPECT_EQ(bytes, make_image(what, sample[k]));
    records.read(i, bytes);
    EXPECT_EQ(bytes, make_image(what, i));
    sum += static_cast<double>(bytes.size());
  }
  for (const StoredImages* images : {&files, &records}) {
    const StoredData data = images->describe();
    EXPECT_EQ(data.samples, 7);
    EXPECT_NEAR(data.bytes, sum / 7, 1e-9);
    EXPECT_EQ(data.pixels, 200);
    EXPECT_EQ(data.format, ImageFormat::jpeg);
    EXPECT_EQ(data.files, images == &files);
  }
}

TEST_F(Stored, RecordsMayHoldTheirOwnMagicNumber) {
  const uint32_t magic = 0xced7230a;  // dmlc-core, include/dmlc/recordio.h
  Pixels image(22, 7);
  for (const std::size_t at : {0U, 4U, 12U, 17U}) std::memcpy(&image[at], &magic, 4);  // 17 is within words
  Pixels file = make_record(5, 2, image);
  EXPECT_EQ(file.size() % 4, 0);
  EXPECT_EQ(file.size(), 8U * 4 + (24 + 22 - 3 * 4 + 3) / 4 * 4) << "three cuts, four parts";
  const Pixels more = make_record(6, 0, {1, 2, 3});
  file.insert(file.end(), more.begin(), more.end());
  const StoredImages images = StoredImages::open(write("magic.rec", file));
  Pixels back;
  images.read(0, back);
  EXPECT_EQ(back, image);
  images.read(1, back);
  EXPECT_EQ(back, (Pixels{1, 2, 3}));
  EXPECT_EQ(images.label(0), 2);
}

TEST_F(Stored, WhatIsWrongIsSaidWithFileAndPlace) {
  const Pixels image = make_image(seven(), 0);
  const Pixels record = make_record(0, 1, image);
  refused(path("none.rec"), "No such file");
  fs::create_directories(path("empty/class"));
  refused(path("empty"), "holds no pictures");
  refused(write("nothing.rec", {}), "holds no records");
  refused(write("text.rec", Pixels(40, 'x')), "offset 0: no record begins there");
  refused(write("short.rec", {record.begin(), record.begin() + 6}), "offset 0: a record is cut off");
  refused(write("cut.rec", {record.begin(), record.end() - 8}), "is cut off");
  Pixels labels = record;
  labels[8] = 2;
  refused(write("labels.rec", labels), "2 labels, where one is read");
  Pixels half = record;
  const float value = 0.5F;
  std::memcpy(&half[12], &value, 4);
  refused(write("half.rec", half), "the label is 0.5");
  Pixels middle = record;
  middle[7] |= 2U << 5;
  refused(write("middle.rec", middle), "in disorder");
  refused(write("picture.rec", make_record(0, 1, Pixels(50, 3))), "record 0 (offset 0): neither a JPEG nor");
  EXPECT_THROW(make_images(seven(), path("cut.rec")), InputError) << "is there already";
}

}  // namespace
}  // namespace tandem::tests
