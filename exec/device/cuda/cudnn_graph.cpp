// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cuda/cudnn_graph.h"

#include <algorithm>
#include <array>

namespace tandem::exec::cuda {

namespace {

/// The geometry as cuDNN is told it: two spatial dimensions, or three where depth matters.
struct Geometry {
  std::vector<int64_t> x, y, w, x_strides, y_strides, w_strides, stride, dilation, before, after;

  Geometry(const ConvShape& s, bool last) {
    const bool deep = s.in[0] > 1 || s.out[0] > 1 || s.kernel[0] > 1;
    x = {s.batch, s.in_channels};
    y = {s.batch, s.out_channels};
    w = {s.out_channels, s.in_channels / s.groups};
    for (std::size_t d = deep ? 0 : 1; d < 3; ++d) {
      x.push_back(s.in[d]);
      y.push_back(s.out[d]);
      w.push_back(s.kernel[d]);
      stride.push_back(s.stride[d]);
      dilation.push_back(s.dilation[d]);
      before.push_back(s.pad[d]);
      const int64_t reach = (s.kernel[d] - 1) * s.dilation[d] + 1;
      const bool even = (s.in[d] + 2 * s.pad[d] - reach) / s.stride[d] + 1 == s.out[d];
      after.push_back(even ? s.pad[d]
                           : std::max<int64_t>(0, (s.out[d] - 1) * s.stride[d] + reach - s.in[d] - s.pad[d]));
    }
    x_strides = strides(x, last);
    y_strides = strides(y, last);
    w_strides = strides(w, true);
  }
  /// Dimensions are {outer, channels, space...}; channels lie innermost, or in front of space.
  static std::vector<int64_t> strides(const std::vector<int64_t>& dims, bool last) {
    std::vector<int64_t> out(dims.size());
    int64_t step = last ? dims[1] : 1;
    for (std::size_t d = dims.size(); d-- > 2; step *= dims[d]) out[d] = step;
    out[1] = last ? 1 : step;
    out[0] = last ? step : step * dims[1];
    return out;
  }
};

Descriptor tensor(int64_t id, cudnnDataType_t type, const std::vector<int64_t>& dims,
                  const std::vector<int64_t>& strides) {
  Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const int64_t alignment = 16;
  t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, &type);
  t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  t.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, &id);
  t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, &alignment);
  t.finish();
  return t;
}

/// The one operation of the call.
Descriptor operation(Function function, const Geometry& g, const Types& types) {
  Descriptor c(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnDataType_t type = CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  const auto dims = static_cast<int64_t>(g.stride.size());
  c.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, &dims);
  c.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &type);
  c.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, &mode);
  c.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, g.before);
  c.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, g.after);
  c.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, g.dilation);
  c.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, g.stride);
  c.finish();
  const auto type_of = [&](Function writer) { return function == writer ? types.out : types.in; };
  const Descriptor x = tensor(kX, type_of(Function::conv_backward_data), g.x, g.x_strides),
                   y = tensor(kY, type_of(Function::conv), g.y, g.y_strides),
                   w = tensor(kW, type_of(Function::conv_backward_weights), g.w, g.w_strides);
  const float one = 1, zero = 0;
  const auto make = [&](cudnnBackendDescriptorType_t kind,
                        const std::array<cudnnBackendAttributeName_t, 6>& names) {
    Descriptor o(kind);
    o.set(names[0], x);
    o.set(names[1], y);
    o.set(names[2], w);
    o.set(names[3], c);
    o.set(names[4], CUDNN_TYPE_FLOAT, &one);
    o.set(names[5], CUDNN_TYPE_FLOAT, &zero);
    o.finish();
    return o;
  };
  if (function == Function::conv)
    return make(
        CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA});
  if (function == Function::conv_backward_data)
    return make(
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA});
  return make(
      CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA});
}

}  // namespace

Descriptor convolution_graph(const Call& call, const ConvShape& shape, const Types& types,
                             cudnnHandle_t handle) {
  const Geometry g(shape, call.shape.back() != 0);
  const Descriptor o = operation(call.function, g, types);
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (handle != nullptr) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, &handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, o);
  graph.finish();
  return graph;
}

Descriptor engine_of(const Descriptor& configuration) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  int64_t count = 0;
  require(cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw));
  return engine;
}

bool admissible(const Descriptor& engine, Precision precision) {
  int64_t count = 0;
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  require(cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                   CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes));
  return std::none_of(notes, notes + count, [&](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
           note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
           note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
           (precision == Precision::fp32 && note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  });
}

std::vector<Descriptor> proposals(const Descriptor& graph, cudnnBackendHeurMode_t mode,
                                  cudnnBackendDescriptor_t device) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &mode);
  if (device != nullptr)
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, &device);
  heuristic.finish();
  int64_t count = 0;
  require(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
  std::vector<Descriptor> out;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < count; ++i) {
    out.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(out.back().get());
  }
  require(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()));
  out.erase(out.begin() + count, out.end());
  return out;
}

}  // namespace tandem::exec::cuda
