// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "exec/data/stored_images.h"
#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

/// Record files, without a file: every sample of what is accepted can be read.
void record_file(std::string_view bytes) {
  const int memory = memfd_create("records", MFD_CLOEXEC);
  TANDEM_CHECK(memory >= 0 &&
               write(memory, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  try {
    const StoredImages images = StoredImages::open(fmt::format("/proc/self/fd/{}", memory));
    std::vector<uint8_t> encoded;
    for (int64_t i = 0; i < images.samples(); ++i) {
      images.read(i, encoded);
      TANDEM_CHECK(images.label(i) >= 0 && images.label(i) < images.classes());
    }
    images.describe();
  } catch (const InputError&) {
  }
  close(memory);
}

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(record_file)
