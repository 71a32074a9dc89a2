// SPDX-License-Identifier: Apache-2.0
// Asks whether eight cards over PCIe or over NVLink train faster, and for the report of the faster one.
#include <tandem/tandem.h>
#include <cstdio>
#include <exception>

int main() {
  try {
    const tandem::Question pcie({{"model", "vgg16"},
                                 {"system", "v100-pcie-8x"},
                                 {"scheme", "pytorch-ddp"},
                                 {"precision", "fp16"},
                                 {"devices", "8"}});
    const tandem::Question nvlink = pcie.with({{"system", "dgx1-v100"}});
    const auto slow = tandem::predict(pcie), fast = tandem::predict(nvlink);
    std::printf("PCIe    %6.0f images/s (%.0f .. %.0f), bound by %s\n", slow[0].samples_per_second(),
                slow[0].low(), slow[0].high(), slow[0].bottleneck().c_str());
    std::printf("NVLink  %6.0f images/s (%.0f .. %.0f), bound by %s\n", fast[0].samples_per_second(),
                fast[0].low(), fast[0].high(), fast[0].bottleneck().c_str());
    std::printf("%s", tandem::to_json(fast).c_str());
  } catch (const std::exception& error) {  // tandem::Error names what is wrong and what is valid
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
