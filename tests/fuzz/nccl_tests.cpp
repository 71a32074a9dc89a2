// SPDX-License-Identifier: Apache-2.0
#include "calibration/logs/nccl_tests.h"

#include "calibration/fit/collective_profile.h"
#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

/// A log of nccl-tests, or the profile made of one: what is accepted can be written and read again.
void nccl_tests(std::string_view bytes) {
  try {
    looks_like_nccl_tests(bytes);
    const NcclRuns log = read_nccl_tests(bytes, "fuzz");
    std::vector<std::string> notes;
    for (const char* kind : {"", "all-reduce"}) {
      try {
        const auto profiles = profiles_of(log, "fuzz", kind, notes);
        read_collective_profiles(Json::parse(profiles_json(profiles), "fuzz"));
      } catch (const InputError&) {
      }
    }
  } catch (const InputError&) {
  }
  try {
    read_collective_profiles(Json::parse(bytes, "fuzz"));
  } catch (const InputError&) {
  }
}

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(nccl_tests)
