// SPDX-License-Identifier: Apache-2.0
#pragma once
// One door to oneDNN: 2.6 and 3.x look the same from here, and so does its absence.
#include <optional>
#include <string>

#include "exec/device/cpu/kernel.h"

namespace tandem::exec::cpu {

/// Threads that oneDNN uses for primitives prepared and run in the calling thread.
void set_threads(int threads);
/// A convolution of any pass, or nothing where oneDNN is absent or does not have it.
std::optional<Prepared> onednn_conv(const Call& call, int threads);
/// What oneDNN sets up once, its engine and what the first descriptor and the first product make: by the
/// first caller, for whom all others wait. Before workers' threads ask it for descriptors at the same time.
void prepare_onednn();
std::string onednn_version();  ///< "oneDNN 2.6.3", or "" without it

}  // namespace tandem::exec::cpu
