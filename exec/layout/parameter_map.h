// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a slice's parameters lie among all of the model's. Internal to exec.
#include <cstdint>
#include <vector>

#include "exec/lower/execution_graph.h"

namespace tandem::exec {

/// [own, own + elements) of a slice's flat vector are [whole, whole + elements) of the model's.
struct MappedRange {
  int64_t own = 0, whole = 0, elements = 0;
  bool copy = false;  ///< of a weight that another stage holds, too, whose layer it is
};

/// In the order of the slice's flat vector.
using ParameterMap = std::vector<MappedRange>;
/// Which of the devices that divide a slice's layers.
struct Portion {
  uint32_t partner = 0;              ///< of those that share each layer
  uint32_t expert = 0, experts = 1;  ///< of so many that hold different experts
};

/// Of one of the devices that share the slice's layers, in the order of its flat vector; `frozen`: of that of
/// the weights that stay as they are, among all of the model's. Rows that pad a
/// vocabulary to equal parts are in none. Any thread may call it. Throws InputError where a layer's output is
/// packed in a way that does not divide. O(rows of the weights that are split).
ParameterMap parameter_map_of(const ExecutionGraph& whole, const ExecutionGraph& own,
                              const Portion& portion = {}, bool frozen = false);

/// Where a buffer of a slice (running statistics) lies among all of the model's, one behind the other.
struct BufferPlace {
  TensorId tensor = 0;  ///< of the slice
  int64_t at = 0;
};
std::vector<BufferPlace> buffers(const ExecutionGraph& whole, const ExecutionGraph& own);

/// From a vector of the model's parameters (several behind each other: an optimiser's state) to a slice's.
void take_mapped(const ParameterMap& map, const std::vector<float>& whole, int64_t whole_elements,
                 std::vector<float>& own, int64_t own_elements);
/// And back, of [first, first + elements) of the slice's flat vector alone.
void give_mapped(const ParameterMap& map, const std::vector<float>& own, int64_t own_elements, int64_t first,
                 int64_t elements, std::vector<float>& whole, int64_t whole_elements);

}  // namespace tandem::exec
