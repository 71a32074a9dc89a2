// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "sweep/sweep.h"
#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

namespace {

/// In memory where the system has a place for that.
const std::string& scratch_file() {
  static const std::string file = [] {
    const std::filesystem::path memory = "/dev/shm";
    const auto folder = std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path();
    return (folder / ("tandem-fuzz-" + std::to_string(getpid()))).string();
  }();
  return file;
}

}  // namespace

/// A sweep's file: it is read, then as if the sweep went on.
void sweep_file(std::string_view bytes) {
  const std::string& file = scratch_file();
  std::ofstream(file, std::ios::binary) << bytes;
  try {
    tandem::sweep::Header header;
    {
      auto store = tandem::sweep::Store::read(file);
      tandem::sweep::csv(store);
      tandem::sweep::missing_shards(store, 3);
      header = store.header();
    }
    auto store = tandem::sweep::Store::write(file, header, true);
    store.keys();
    store.finish();
  } catch (const InputError&) {  // refused, as it should be
  }
  tandem::sweep::remove_store(file);
}

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(sweep_file)
