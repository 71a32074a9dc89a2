// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/bench.h"

namespace tandem::exec {

int64_t Need::words() const {
  int64_t sum = 0;
  for (const Part& p : parts) sum += p.bytes.n / 4;
  return sum;
}

}  // namespace tandem::exec
