// SPDX-License-Identifier: Apache-2.0
#pragma once
// Convolutions and attention as cuDNN's graph interface is told them. Internal to the plugin.
#include <cudnn.h>

#include <memory>
#include <vector>

#include "base/precision.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

/// cuDNN refused: not an error, our own kernels take over.
struct Refused {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
};
inline void require(cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS) throw Refused{status};
}

/// A descriptor of cuDNN's backend, owned.
/// For one thread at a time.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t raw = nullptr;
    require(cudnnBackendCreateDescriptor(type, &raw));
    raw_ = {raw, [](cudnnBackendDescriptor_t d) { cudnnBackendDestroyDescriptor(d); }};
  }
  cudnnBackendDescriptor_t get() const { return raw_.get(); }

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const void* values,
           int64_t count = 1) {
    require(cudnnBackendSetAttribute(get(), name, type, count, values));
  }
  void set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values) {
    set(name, CUDNN_TYPE_INT64, values.data(), static_cast<int64_t>(values.size()));
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    const cudnnBackendDescriptor_t raw = other.get();
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &raw);
  }
  void finish() { require(cudnnBackendFinalize(get())); }

 private:
  std::shared_ptr<void> raw_;
};

/// Of the two inputs and of the output; sums are of fp32.
struct Types {
  cudnnDataType_t in = CUDNN_DATA_FLOAT, out = CUDNN_DATA_FLOAT;
};

/// Names of the three tensors in a graph.
constexpr int64_t kX = 'x', kY = 'y', kW = 'w';

/// The graph of one convolution, of the pass that `call` names. Without a handle it can be asked about for
/// other devices. Throws Refused.
Descriptor convolution_graph(const Call& call, const ConvShape& shape, const Types& types,
                             cudnnHandle_t handle);

/// Names of the tensors in attention's graphs; what is between them gets names after these.
enum AttentionTensor : int64_t {
  kQ = 1,
  kK,
  kV,
  kOut,
  kLogSums,
  kDq,
  kDk,
  kDv,
  kDout,
  kInner,   ///< {batch, heads, query} in fp32: scratch of the backward pass
  kScale,   ///< these three are values in host memory
  kLowest,  ///< of a causal mask
  kOne,
  kEnd
};

/// The graph of attention or attention_backward with queries, keys, values and results stored so. Without a
/// handle it can be asked about for other devices (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR). Throws Refused.
Descriptor attention_graph(const Call& call, cudnnDataType_t stored, cudnnHandle_t handle);

/// Configurations of engines that cuDNN proposes for the graph, best estimate first; for `device`
/// (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR), or where that is null the handle's. Throws Refused.
std::vector<Descriptor> proposals(const Descriptor& graph, cudnnBackendHeurMode_t mode,
                                  cudnnBackendDescriptor_t device = nullptr);
Descriptor engine_of(const Descriptor& configuration);  ///< throws Refused
/// May this engine be used? Results must not depend on timing, and FP32 must be FP32: tensor cores would
/// round its inputs to TF32. Throws Refused.
bool admissible(const Descriptor& engine, Precision precision);

}  // namespace tandem::exec::cuda
