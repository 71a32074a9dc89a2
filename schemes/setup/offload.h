// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a device leaves in its host's memory and fetches when it is needed ("--offload").
#include <string>
#include <string_view>

#include "base/error.h"

namespace tandem::schemes {

struct Offload {
  /// The optimiser's state and the parameters that it updates, in fp32. Gradients go down as they get ready,
  /// the host's processors make the update, and parameters come up again (Ren et al. 2021, ZeRO-Offload;
  /// DeepSpeed's offload_optimizer, torchao's CPUOffloadOptimizer).
  bool optimizer = false;
  /// Gradients, whose room on the device is free as soon as they are down (torchao's offload_gradients).
  /// Those of several micro-batches are summed there (as DeepSpeed's offload_optimizer has it). With
  /// `optimizer`.
  bool gradients = false;
  /// Parameters, frozen ones too: a bucket of them comes up before each pass that needs it (DeepSpeed's
  /// offload_param, FSDP's CPUOffload). With `optimizer`.
  bool parameters = false;
  /// What repeated blocks keep for being computed again, their inputs (torchtune's
  /// enable_activation_offloading).
  bool activations = false;

  bool operator==(const Offload&) const = default;
  bool any() const { return optimizer || gradients || parameters || activations; }
  /// Nothing in it that `other` has not.
  bool within(const Offload& other) const;
  /// "off", "optimizer+parameters".
  std::string text() const;
};

/// As text() gives it, in any order. Throws InputError at `place`.
Offload parse_offload(std::string_view text, const Place& place);

}  // namespace tandem::schemes
