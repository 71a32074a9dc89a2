// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a framework keeps in device memory besides what the mathematics needs.
#include <string>
#include <utility>
#include <vector>

#include "base/options.h"
#include "schemes/program/program.h"
#include "schemes/setup/offload.h"

namespace tandem::schemes {

/// Data of a preset ("memory"), changed by --memory KEY=VALUE,... With fp32 and tf32 `weights` means nothing.
/// Defaults are those of PyTorch 2 in a plain training loop.
struct MemoryHabits {
  /// Training in half precision: fp32 parameters cast where they are used (autocast), 2-byte parameters
  /// with an fp32 master copy that the optimiser owns (Megatron, DeepSpeed, Apex O2), or 2-byte parameters
  /// only. Automatic: see weights_of().
  enum class Weights : uint8_t { automatic, fp32, master, half } weights = Weights::automatic;
  /// Temporaries of an update: the size of all parameters (torch._foreach_*), of one, or none.
  enum class Update : uint8_t { foreach, each, fused, backward } update = Update::foreach;
  /// Its foreach update of SGD adds the decayed parameters to the gradients, in as many temporaries. Of other
  /// optimisers it changes nothing: theirs have temporaries anyway.
  bool decays = false;
  /// Gradients are summed in fp32 whatever the parameters' format (Megatron's main_grad, nanotron's
  /// accumulate_grad_in_fp32).
  bool fp32_sums = false;
  bool gradients_stay = false;  ///< zeroed between steps instead of freed (PyTorch before 2.0)
  bool gradients_whole =
      false;                  ///< not spread before the last micro-batch (FSDP's no_sync), and so not freed
  bool bucket_views = false;  ///< gradients lie in the communication buckets instead of apart from them
  bool buckets = false;       ///< buckets of all gradients are there from the start (DDP's reducer)
  /// Kernels' code on the device: of those in use (CUDA 11.7 and later), or of the whole framework.
  enum class Cuda : uint8_t { lazy, eager } cuda = Cuda::lazy;
  /// RMS norms, gated and composed activations are one each and keep inputs alone, nothing is done in place
  /// at the price of a copy, and an activation that no product reads is recomputed.
  bool fused_kernels = false;
  /// operators=pytorch: max-pooling keeps where its maxima were, 8 bytes an output element (one where kernels
  /// are fused), and what is overwritten in place although backward needs it stays as a copy. Else both keep
  /// their outputs (cuDNN).
  bool pytorch_operators = true;
  /// Cross-entropy in eager operations, or in one kernel that writes its gradient over the logits; or no
  /// loss: the sum of the logits is back-propagated, as benchmarks of speed do.
  enum class Loss : uint8_t { eager, fused, sum } loss = Loss::eager;
  /// The model's output while backward runs: held by a variable, held as an fp32 copy, or dropped.
  enum class Logits : uint8_t { kept, fp32, dropped } logits = Logits::kept;
};

const std::vector<OptionSpec>& memory_options();
/// Throws InputError, as Options does.
MemoryHabits memory_habits(const std::vector<std::pair<std::string, std::string>>& settings,
                           const std::string& owner, const Place& place);

/// Those weights, or what a job with this program keeps where that is automatic: frameworks that divide a
/// model, or keep its optimiser or parameters on the host, keep it in the format that they compute in; others
/// train under autocast, also where the optimiser's state is spread (ZeroRedundancyOptimizer). Presets of
/// frameworks that do otherwise say "master".
MemoryHabits::Weights weights_of(const MemoryHabits& habits, const Program& program, const Offload& offload);

}  // namespace tandem::schemes
