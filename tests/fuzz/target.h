// SPDX-License-Identifier: Apache-2.0
#pragma once
// A fuzz target: any bytes in, either understood or refused with InputError; nothing else may happen.
//
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/rooms.h"

namespace tandem::tests::fuzz {

void hwloc_xml(std::string_view bytes);
void image(std::string_view bytes);
void json(std::string_view bytes);
void kineto(std::string_view bytes);
void link_tests(std::string_view bytes);
void model(std::string_view bytes);
void nccl_tests(std::string_view bytes);
void nccl_xml(std::string_view bytes);
void onnx(std::string_view bytes);
void offers(std::string_view bytes);
void options(std::string_view bytes);
void record_file(std::string_view bytes);
void question(std::string_view bytes);
void report(std::string_view bytes);
void site(std::string_view bytes);
void sweep_file(std::string_view bytes);
void system(std::string_view bytes);
void hf_config(std::string_view bytes);
void topo_m(std::string_view bytes);
void units(std::string_view bytes);

}  // namespace tandem::tests::fuzz

#ifdef TANDEM_LIBFUZZER
#define TANDEM_FUZZ_TARGET(name)                                            \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { \
    tandem::tests::fuzz::name({reinterpret_cast<const char*>(data), size}); \
    return 0;                                                               \
  }
#else
#define TANDEM_FUZZ_TARGET(name)
#endif
