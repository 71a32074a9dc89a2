// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a synchronisation scheme is: Model x Devices x Options -> Program. A new one is one file in
// schemes/sync and one word in schemes/CMakeLists.txt.
#include <string>
#include <vector>

#include "base/options.h"
#include "base/registry.h"
#include "models/graph.h"
#include "models/optimizer.h"
#include "schemes/program/program.h"
#include "schemes/schedules/pipeline_schedule.h"
#include "schemes/setup/loading.h"
#include "schemes/setup/offload.h"
#include "schemes/setup/recipe.h"
#include "schemes/setup/recompute.h"

namespace tandem::schemes {

/// One device's share of the work, lowered: made by make_workload().
struct Workload {
  const Graph* graph = nullptr;
  std::vector<Lowered> layers;  ///< graph->lower(batch, precision), same indices as graph->layers()
  int64_t batch = 1;            ///< samples per device in one pass: an iteration's, or a micro-batch's
  Precision precision = Precision::fp32;
  const Optimizer* optimizer = nullptr;
  bool input = true;  ///< model the input pipeline (false = synthetic data on the device)
  Recompute recompute = {};
  /// In the order in which gradients get ready, elements from which on a bucket is full, instead of the
  /// scheme's own rule; after the last of them every tensor is a bucket. Empty: the scheme's rule.
  std::vector<int64_t> buckets = {};
  Offload offload = {};
  Loading loading = {};
  /// Buckets in the order in which they are summed where a scheme lets the layers that are needed first go
  /// first. Empty: as their gradients get ready.
  std::vector<uint32_t> order = {};
  std::vector<double> kept = {};  ///< kept_outputs()
  /// What the layer runs when its block runs forward again.
  std::vector<Kernel> again(uint32_t layer) const {
    return kept.empty() ? layers[layer].forward : kernels_but(layers[layer].forward, kept[layer]);
  }
  /// What the layer runs again in its own backward pass.
  std::vector<Kernel> again_alone(uint32_t layer) const {
    return recompute.selective() ? kernels_again(recompute, graph->layers()[layer], layers[layer])
                                 : std::vector<Kernel>{};
  }
};

/// The one way to a Workload, so that whoever compiles a scheme for the same question gets the same Program.
/// `graph` and `optimizer` must outlive it. Throws InputError as Graph::lower does. O(layers).
Workload make_workload(const Graph& graph, int64_t batch, Precision precision, const Optimizer& optimizer,
                       bool input, const Recompute& recompute = {}, const Offload& offload = {},
                       const Loading& loading = {});

/// The devices in use: `nodes` nodes of `per_node` accelerators each (counts that do not divide evenly give
/// per_node = 0 and nodes = what they touch; schemes that need a grid refuse them).
struct Cluster {
  int64_t devices = 1;
  int64_t nodes = 1;
  int64_t per_node = 1;
  int64_t first = 0;  ///< number of the first device among the machine's, where jobs stand side by side
  bool operator==(const Cluster&) const = default;
};

struct Scheme {
  std::string_view name, summary;
  std::vector<OptionSpec> options;
  Program (*compile)(const Workload&, const Cluster&, const Options&);
  /// What the options come to on several of these devices, which are no GPUs, where their words say
  /// otherwise; "" where they do not. Null: no option speaks of GPUs.
  std::string (*without_gpus)(const Options&, std::string_view device) = nullptr;
  /// Devices that hold one model between them, of which there must be a multiple. Null: one.
  int64_t (*replica_devices)(const Options&) = nullptr;
  /// How the stages of a pipeline work on micro-batches, on that many devices; of one stage where there is no
  /// pipeline. Throws InputError where the options or the devices do not allow it. Null: no micro-batches of
  /// the scheme's own.
  PipelineUse (*pipeline)(const Options&, int64_t devices) = nullptr;
  /// What may be left in the host's memory. Null: nothing.
  Offload (*offloads)(const Options&) = nullptr;
  /// Each device trains a whole model and meets all others in every iteration: batch normalisation may take
  /// its statistics over all of them. What compile() is given says so (ModelSlice::norm_devices).
  bool meets = false;
};

/// Generated from the list in schemes/CMakeLists.txt.
const Registry<Scheme>& sync_registry();

/// Costs of a framework around the kernels and links, measured and sourced in schemes/presets/*.json.
/// All zero for a plain scheme. sim/cost applies them; exec ignores them, but for the cycle.
struct Overheads {
  Time iteration;   ///< host time per iteration on the compute lane when `devices` > 1
  Time collective;  ///< per collective, push or pull: hooks, launch
  Time cycle;  ///< option "cycle": a coordinator looks this often for gradients; 0 = they start when ready
  enum class Agreement : uint8_t {
    none,
    bits,   ///< two reductions of a bit vector, for whatever is ready (Horovod with its cache warm)
    lists,  ///< rank 0 reads two messages of every rank for each reduction (without the cache)
  };
  Agreement agreement = Agreement::none;  ///< how ranks agree on what to reduce
  bool single_process = false;  ///< one interpreter issues all devices' forward passes one after another
  /// Standard error of the logarithm of what several devices show of a rate and one does not, besides
  /// transfers. Set so that VALIDATION.md's speed-ups are covered about as often as stated.
  double several_error = 0.05;
  bool one_launcher = false;    ///< one process launches the kernels of a node's devices, one at a time
  Time replicate;               ///< host time to copy one layer's module to one device, under the broadcast
  Bandwidth feed;               ///< one process feeds all devices' input, serial with the step; 0 = no limit
  double compute_slowdown = 0;  ///< compute runs (1 + this) slower while training on several devices
  double norm_stall = 0;  ///< half-precision normalisation takes (1 + this * log2(devices)) times as long
  /// Share of a collective's time that simultaneous kernels lose in addition to what the device gives up to
  /// it.
  double interference = 0;
  double copies_per_byte = 0;  ///< device-memory passes over every gradient byte (fusion buffers)
  double link_efficiency = 1;  ///< of the usable bandwidth inside a node
  bool merge = false;          ///< gradients wait for others where that costs less than a start-up (MG-WFBP)
  std::string network;  ///< library of its messages, in calibration/profiles/network_software.json; "" = none
  bool operator==(const Overheads&) const = default;
};

/// A scheme or preset as the user named it, with every option resolved.
struct ResolvedScheme {
  const Scheme* scheme = nullptr;
  std::string name;  ///< as written: preset or scheme name
  Options options;
  Overheads overheads;
  std::vector<std::pair<std::string, std::string>> memory;  ///< of a preset, for memory_habits()
  std::string source;                                       ///< of a preset's figures
  Recipe recipe;                                            ///< the preset's, or kDefaultRecipe
  Recompute recompute = {};  ///< of a preset: what it does unless told otherwise
  bool operator==(const ResolvedScheme&) const = default;
};
/// "horovod", "allreduce:algorithm=ring,bucket=25MiB", "pytorch-ddp:bucket=1MiB" -> resolved. Presets are
/// data files in schemes/presets; user settings override theirs. Throws InputError.
ResolvedScheme resolve_scheme(std::string_view text, const Place& place);

struct SchemeEntry {
  std::string name, summary;
};
std::vector<SchemeEntry> list_schemes();  ///< schemes first, then presets

}  // namespace tandem::schemes
