// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the devices of a grid divide a model: what the options of "hybrid" and its special cases come to.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "models/slice.h"
#include "schemes/pipeline_schedule.h"

namespace tandem::schemes {

enum GridAxis : uint8_t { kData, kPipeline, kTensor, kExpert, kContext, kGridAxes };
std::string_view name(GridAxis axis);

struct GridSplit {
  std::array<int64_t, kGridAxes> size{1, 1, 1, 1, 1};
  /// The last varies fastest. Always data, pipeline and tensor; the others where their size is not 1.
  std::vector<GridAxis> order{kPipeline, kData, kTensor};
  PipelineShape shape;
  const PipelineSchedule* schedule = nullptr;
  bool sequence = false;
  bool whole_experts = false;
  double capacity = 0;
  int64_t sharding = 0;
  Bytes bucket;
  int64_t gradient = 4;  ///< bytes of one

  /// Devices that train on samples of their own.
  int64_t replicas() const { return size[kData] * size[kExpert]; }
  /// Devices whose gradients of one parameter are summed; `dealt`: of an expert's.
  int64_t holders(bool dealt) const { return size[kData] * size[kContext] * (dealt ? 1 : size[kExpert]); }
  /// What each device holds of all layers.
  ModelSlice slice() const;
};

/// "pipeline/data/tensor" -> axes, each of data, pipeline and tensor once. Expert and context stand where
/// they are named, else behind data. Throws InputError.
std::vector<GridAxis> read_order(const std::string& text);

/// What the schemes may be asked: "hybrid", "pipeline" and "tensor-parallel".
std::vector<OptionSpec> hybrid_options();
std::vector<OptionSpec> pipeline_options();
std::vector<OptionSpec> tensor_options();

/// The following throw InputError where axes and devices, or schedule and shape, do not agree.
GridSplit hybrid_split(const Options& options, int64_t devices);
GridSplit pipeline_split(const Options& options, int64_t devices);
GridSplit layer_split(const Options& options, int64_t devices);
GridSplit tensor_split(const Options& options, int64_t devices);
/// Devices that hold the model once, or as many times as the options say.
int64_t replica_of_hybrid(const Options& options);

}  // namespace tandem::schemes
