// SPDX-License-Identifier: Apache-2.0
#include "base/kept.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/data.h"
#include "base/json.h"

namespace tandem::tests {
namespace {

namespace fs = std::filesystem;

/// Reads files and counts how often.
struct Reading {
  base::Kept<std::string> kept;
  int times = 0;
  std::string of(const std::string& path) {
    return *kept.get(path, [&](const std::string& file) {
      ++times;
      return read_file(file);
    });
  }
};

/// Files that were not written lately.
std::string old_file(const std::string& name) { return data_root() + "/schemes/presets/" + name + ".json"; }

TEST(Kept, AFileThatStaysIsReadOnce) {
  Reading reading;
  const std::string once = reading.of(old_file("horovod"));
  EXPECT_EQ(reading.of(old_file("horovod")), once);
  EXPECT_EQ(reading.times, 1);
  const std::string folder = data_root();
  const OnlyNames names(folder);
  EXPECT_EQ(reading.of(old_file("horovod")), once);
}

TEST(Kept, AFileThatChangesIsReadAgain) {
  Reading reading;
  const std::string link = (fs::temp_directory_path() / ("kept-" + std::to_string(getpid()))).string();
  fs::create_symlink(old_file("horovod"), link);
  EXPECT_EQ(reading.of(link), read_file(old_file("horovod")));
  fs::remove(link);
  fs::create_symlink(old_file("byteps"), link);
  EXPECT_EQ(reading.of(link), read_file(old_file("byteps")));
  fs::remove(link);
  write_file(link, "written a moment ago: its times may not tell the next change\n");
  const std::string first = reading.of(link);
  write_file(link, "written a moment ago: its times may not tell the next chance\n");
  EXPECT_NE(reading.of(link), first);
  fs::remove(link);
  EXPECT_THROW(reading.of(link), InputError);
}

TEST(Kept, WhatAThreadMayNotReadIsNotGivenEither) {
  Reading reading;
  reading.of(old_file("horovod"));
  const std::string elsewhere = data_root() + "/models";
  const OnlyNames names(elsewhere);
  EXPECT_THROW(reading.of(old_file("horovod")), InputError);
}

}  // namespace
}  // namespace tandem::tests
