// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a framework makes of a model's kernels: how long its host takes to issue them, and how well the
// kernels that it picks do compared with those of the recipe that the stock curves describe. Data,
// schemes/recipes/*.json. Knows neither chips nor wires.
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/precision.h"
#include "base/units.h"
#include "models/optimizer.h"
#include "schemes/program/program.h"

namespace tandem::schemes {

struct Recipe {
  /// Host time on a core of speed 1 (HostInfo::core_speed): a 2.3 GHz Broadwell core.
  struct Host {
    Time forward = {};                ///< to issue one operation of a forward pass
    Time backward = {};               ///< of a backward pass; both gradients of a layer are one operation
    Time mixed = {};                  ///< on top in forward, where operations compute in 2 bytes (autocast)
    Time fp8 = {};                    ///< on top in either pass, a product whose operands are cast to fp8
    Time micro_batch = {};            ///< besides its operations, for each micro-batch: fetching it, logging
    std::array<Time, 3> update = {};  ///< to update one tensor, by how many state tensors the optimiser keeps
    Time collective = {};             ///< to issue one
    /// For each tensor and each holder of a part of its state, where parameters are gathered after an update:
    /// to give every part a place in the buffer that is gathered, and to copy it out.
    Time shard = {};
    std::array<Time, 2> experts =
        {};                  ///< in place of the first two, an operation of a layer of experts; 0: as others
    bool runs_ahead = true;  ///< does not wait for the device between steps
    bool awaits_sums = false;  ///< issues what follows a collective when that has ended
    /// Issues what follows a message between stages of a pipeline when that is there.
    bool awaits_messages = false;
    bool awaits_sends = false;  ///< the same where a message has left
    /// Where stages have several chunks, streams await messages, and the host neither of the two.
    bool overlaps_chunks = false;
    /// Reads how many tokens each expert gets (Kernel::counts) before it issues what follows.
    bool awaits_counts = false;
    bool operator==(const Host&) const = default;
  };
  /// Factors on achieved efficiencies, in (0, 4].
  struct Kernels {
    double convolution = 1;  ///< layout and choice of algorithm
    double stream = 1;       ///< normalisation, pooling, elementwise: fused kernels move fewer bytes
    double attention = 1;    ///< fused attention, relative to FlashAttention-2
    double scores = 1;       ///< attention that is not fused: how often fewer passes over its scores
    double softmax = 1;      ///< softmax and the losses that take one: how often fewer bytes they move
    bool operator==(const Kernels&) const = default;
  };
  /// What one kernel does that others launch more for.
  struct Fuses {
    bool bias = true;    ///< a product's adds the bias
    bool norms = false;  ///< a batch normalisation's adds and rectifies too (Kernel::fused)
    bool update = true;  ///< the optimiser's arithmetic is one; else Kernel::parts
    bool operator==(const Fuses&) const = default;
  };
  struct Convolutions {
    /// Above 0 where they find their tensors channel by channel (NCHW). Matrix units read channels last: in
    /// formats of 2 bytes cuDNN copies the operands first, and multiplies at this many times the stock
    /// efficiency, which is the factor of recipes in channels last. 0: neither.
    double copied = 0;
    /// In channels last: the rate, per multiprocessor, at which cuDNN makes weights' gradients of 2 bytes in
    /// groups of up to 64 channels, unless their number is a multiple of 32 (as in ResNeXt) or each channel
    /// is one; of wider groups in proportion. 0: as other convolutions.
    FlopRate grouped_gradients;
    bool operator==(const Convolutions&) const = default;
  };
  std::string name, summary, source;
  /// Devices that share a layer do its products in as many parts as they are, the communication of one part
  /// under the product of the next (Transformer Engine's userbuffers).
  bool products_in_parts = false;
  bool composes = false;    ///< builds compound operations of simple kernels: Kernel::parts
  bool wide_parts = false;  ///< what it composes computes in fp32 where tensors have 2 bytes
  bool eager = false;       ///< composes what PyTorch has no kernel of: Kernel::eager
  bool autocast = false;    ///< in half precision Kernel::wide and Kernel::casts hold
  Fuses fuses;
  /// Pads products whose sizes are no multiples of 16 bytes (vocabularies above all), for matrix units' sake.
  bool pads_products = false;
  Convolutions convolutions;
  /// Settings of its memory habits, unless a preset says otherwise (schemes/setup/memory_habits.h).
  std::vector<std::pair<std::string, std::string>> memory;
  bool memory_known = true;  ///< false: nobody has measured what it keeps, and predictions say so
  /// An update that is written in the framework's elementwise operations.
  struct Composed {
    int64_t kernels = 1;  ///< for a tensor
    int64_t traffic = 1;  ///< memory moved, in multiples of what one kernel for all of it moves
    bool operator==(const Composed&) const = default;
  };
  std::map<std::string, Composed, std::less<>> composed_updates;  ///< by optimiser
  Composed update;                                                ///< of the job's optimiser
  /// What is done to each micro-batch's gradient besides adding it to the sum, as checking and clipping it.
  struct Accumulation {
    Composed plain;        ///< in addition to a kernel that adds
    Composed mixed{0, 0};  ///< on top where operations compute in 2 bytes: casts, loss scale, overflow
    bool composed() const { return plain.kernels > 1; }
    bool operator==(const Accumulation&) const = default;
  };
  Accumulation accumulation;
  Host host;
  Kernels fp32, matrix;  ///< by the arithmetic that a device computes with: plain units or matrix units
  bool operator==(const Recipe&) const = default;
};

/// Kernels that the recipe launches for `kernel`, over the same tensors each.
int64_t launches(const Recipe& recipe, const Kernel& kernel, Precision precision = Precision::fp32);
/// What a kernel that runs in that of a batch normalisation (Recipe::Fuses) moves besides: the tensor
/// that is added. It is not launched. Nothing of any other kernel.
std::optional<Bytes> joins_norm(const Recipe& recipe, const Kernel& kernel);
/// The tensors of `kernel` have 4 bytes an element though those of the model have 2.
bool upcasts(const Recipe& recipe, const Kernel& kernel, Precision precision);
/// The kernel that adds the bias to what `kernel` makes; without shape where there is none.
Kernel bias_after(const Recipe& recipe, const Kernel& kernel);
/// The kernel that casts for `kernel` under autocast; without shape where there is none.
Kernel cast_beside(const Recipe& recipe, const Kernel& kernel, Precision precision);

inline constexpr std::string_view kDefaultRecipe = "pytorch";

/// A name in schemes/recipes or a file. Throws InputError.
Recipe load_recipe(const std::string& name_or_file, const Place& place = {});
/// The recipe as a job with this optimiser runs it.
Recipe with_updates_of(Recipe recipe, const Optimizer& optimizer);
std::vector<Recipe> list_recipes();

/// Host time on a core of speed 1 to issue the kernels of a task. Gradients of weights are issued with those
/// of the input; an update is issued tensor by tensor. O(kernels).
Time issue_time(const Recipe& recipe, const Task& task, Precision precision, const Optimizer& optimizer);

}  // namespace tandem::schemes
