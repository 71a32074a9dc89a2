// SPDX-License-Identifier: Apache-2.0
#pragma once
// The place of a slice's parameters among all of the model's. Internal to exec.
#include <cstdint>
#include <vector>

#include "exec/lower/execution_graph.h"

namespace tandem::exec {

/// [own, own + elements) of a slice's flat vector are [whole, whole + elements) of the model's.
struct MappedRange {
  int64_t own = 0, whole = 0, elements = 0;
  bool copy = false;  ///< of a weight that another stage, which owns the layer, holds too
};

/// In the order of the slice's flat vector.
using ParameterMap = std::vector<MappedRange>;
/// One of the devices that divide a slice's layers.
struct Portion {
  uint32_t partner = 0;              ///< among those that share each layer
  uint32_t expert = 0, experts = 1;  ///< among `experts` that hold different experts
};

/// For one of the devices that share the slice's layers, in the order of its flat vector; `frozen`: for the
/// vector of frozen weights, among all of the model's. Rows that pad a vocabulary to equal parts are not
/// included. Any thread may call it. Throws InputError if a layer's output is packed in a way that does not
/// divide. O(rows of the weights that are split).
ParameterMap parameter_map_of(const ExecutionGraph& whole, const ExecutionGraph& own,
                              const Portion& portion = {}, bool frozen = false);

/// The place of a slice's buffer (running statistics) among all of the model's, one after another.
struct BufferPlace {
  TensorId tensor = 0;  ///< of the slice
  int64_t at = 0;
};
std::vector<BufferPlace> buffers(const ExecutionGraph& whole, const ExecutionGraph& own);

/// From a vector of the model's parameters (or several in sequence: an optimiser's state) to a slice's.
void take_mapped(const ParameterMap& map, const std::vector<float>& whole, int64_t whole_elements,
                 std::vector<float>& own, int64_t own_elements);
/// The reverse, only for [first, first + elements) of the slice's flat vector.
void give_mapped(const ParameterMap& map, const std::vector<float>& own, int64_t own_elements, int64_t first,
                 int64_t elements, std::vector<float>& whole, int64_t whole_elements);

}  // namespace tandem::exec
