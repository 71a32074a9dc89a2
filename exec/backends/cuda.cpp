// The place of the CUDA plugin: known by name, so that asking for it is answered and not guessed at.
#include "exec/backend.h"

namespace tandem {

void register_cuda(Registry<Backend>& registry) {
  registry.add({"cuda", "NVIDIA GPUs (comes with a plugin that this version does not have yet)",
                [] { return std::string("the plugin libtandem_cuda.so is absent: this version has none"); },
                [](const Call&, Precision) { return false; },
                [](const DeviceOptions&) -> std::unique_ptr<DeviceSession> { return nullptr; },
                [] { return std::string("plugin absent"); }});
}

}  // namespace tandem
