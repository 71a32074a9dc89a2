// SPDX-License-Identifier: Apache-2.0
#include "exec/data/image.h"

#include <cmath>

#include "base/error.h"
#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

/// Pictures: what is accepted gives as many values as were asked for, all from 0 to 1.
void image(std::string_view bytes) {
  const Encoded encoded(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  std::vector<uint8_t> scratch;
  for (const int64_t channels : {1, 3}) {
    const ImageShape shape{{5, 3}, channels};
    std::vector<float> values(static_cast<std::size_t>(shape.values()), -1.0F);
    try {
      size_of(encoded);
      decode(encoded, shape, scratch, values.data());
    } catch (const InputError&) {
      continue;
    }
    for (const float v : values) TANDEM_CHECK(v >= 0 && v <= 1);
  }
}

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(image)
