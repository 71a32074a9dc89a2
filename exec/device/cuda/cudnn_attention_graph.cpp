// SPDX-License-Identifier: Apache-2.0
// Attention as the pattern of operations by which cuDNN knows its fused kernels: products, scale, mask and
// softmax, forward with the log sums that the backward pass makes the scores again from.
#include <optional>

#include "exec/device/cuda/cudnn_graph.h"

namespace tandem::exec::cuda {

namespace {

using Dims = std::vector<int64_t>;

/// A graph under construction: tensors of {batch, heads, rows, columns}, sums and what is between in fp32.
class Builder {
 public:
  Builder(const AttentionShape& a, cudnnDataType_t stored) : a_(a), stored_(stored) {}

  // ---- tensors ----
  Descriptor queries(AttentionTensor name) const {
    return memory(name, stored_, {a_.batch, a_.heads, a_.query, a_.size},
                  {a_.query * a_.q_row, a_.size, a_.q_row, 1});
  }
  Descriptor results(AttentionTensor name) const {
    return memory(name, stored_, {a_.batch, a_.heads, a_.query, a_.size},
                  {a_.query * a_.out_row(), a_.size, a_.out_row(), 1});
  }
  Descriptor keys(AttentionTensor name, bool transposed) const {
    Dims dims{a_.batch, a_.kv_heads, a_.key, a_.size}, strides{a_.key * a_.kv_row, a_.size, a_.kv_row, 1};
    if (transposed) std::swap(dims[2], dims[3]), std::swap(strides[2], strides[3]);
    return memory(name, stored_, dims, strides);
  }
  Descriptor rows(AttentionTensor name) const {
    return memory(name, CUDNN_DATA_FLOAT, row_dims(), packed(row_dims()));
  }
  Descriptor value(AttentionTensor name) const {
    return make(name, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  }
  Descriptor scores(cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    const Dims dims{a_.batch, a_.heads, a_.query, a_.key};
    return between(type, dims, packed(dims));
  }
  Descriptor result_values() {
    const Dims dims{a_.batch, a_.heads, a_.query, a_.size};
    return between(CUDNN_DATA_FLOAT, dims, packed(dims));
  }
  Descriptor row_values() { return between(CUDNN_DATA_FLOAT, row_dims(), packed(row_dims())); }

  // ---- operations ----
  void multiply(const Descriptor& a, const Descriptor& b, const Descriptor& c) {
    Descriptor kind(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    kind.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &kFloat);
    kind.finish();
    Descriptor o(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    o.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    o.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    o.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    o.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
    add(o);
  }
  Descriptor reduce(cudnnReduceTensorOp_t how, const Descriptor& x) {
    const Descriptor y = row_values();
    Descriptor kind(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    kind.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, &how);
    kind.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &kFloat);
    kind.finish();
    Descriptor o(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    o.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    o.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    o.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
    add(o);
    return y;
  }
  /// y = x (mode) b, or of x alone.
  Descriptor pointwise(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b,
                       const Descriptor& y) {
    Descriptor o = operation(pointwise_kind(mode, CUDNN_DATA_FLOAT, -1), x, y);
    if (b != nullptr) o.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
    add(o);
    return y;
  }
  /// Scores that a query sees, all others the lowest number.
  Descriptor causal(const Descriptor& x) {
    const Descriptor row = scores(CUDNN_DATA_INT32), column = scores(CUDNN_DATA_INT32),
                     seen = scores(CUDNN_DATA_BOOLEAN), y = scores();
    add(operation(pointwise_kind(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, 2), x, row));
    add(operation(pointwise_kind(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, 3), x, column));
    Descriptor compare = operation(pointwise_kind(CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, -1), row, seen);
    compare.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, column);
    add(compare);
    Descriptor select = operation(pointwise_kind(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1), x, y);
    select.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, value(kLowest));
    select.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, seen);
    add(select);
    return y;
  }
  /// The same elements with rows and columns exchanged.
  Descriptor transposed_scores(const Descriptor& x) {
    const int64_t n = a_.query * a_.key;
    return reshaped(x, {a_.batch, a_.heads, a_.key, a_.query}, {a_.heads * n, n, 1, a_.key});
  }
  Descriptor transposed_keys(const Descriptor& x) {
    return reshaped(x, {a_.batch, a_.kv_heads, a_.key, a_.size}, {a_.key * a_.kv_row, a_.size, a_.kv_row, 1});
  }

  Descriptor graph(cudnnHandle_t handle) const {
    std::vector<cudnnBackendDescriptor_t> raw;
    for (const Descriptor& o : operations_) raw.push_back(o.get());
    Descriptor g(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (handle != nullptr) g.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, &handle);
    g.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw.data(),
          static_cast<int64_t>(raw.size()));
    g.finish();
    return g;
  }

 private:
  static constexpr cudnnDataType_t kFloat = CUDNN_DATA_FLOAT;

  static Dims packed(const Dims& d) { return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}; }
  Dims row_dims() const { return {a_.batch, a_.heads, a_.query, 1}; }
  static Descriptor make(int64_t name, cudnnDataType_t type, const Dims& dims, const Dims& strides,
                         std::optional<cudnnBackendAttributeName_t> flag = {}) {
    Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t alignment = 16;
    const bool yes = true;
    t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, &type);
    t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
    t.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
    t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, &name);
    t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, &alignment);
    if (flag) t.set(*flag, CUDNN_TYPE_BOOLEAN, &yes);
    t.finish();
    return t;
  }
  static Descriptor memory(AttentionTensor name, cudnnDataType_t type, const Dims& dims,
                           const Dims& strides) {
    return make(name, type, dims, strides);
  }
  Descriptor between(cudnnDataType_t type, const Dims& dims, const Dims& strides) {
    return make(next_++, type, dims, strides, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  }
  Descriptor reshaped(const Descriptor& x, const Dims& dims, const Dims& strides) {
    const Descriptor y = between(stored_, dims, strides);
    Descriptor o(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    o.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    o.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add(o);
    return y;
  }
  static Descriptor pointwise_kind(cudnnPointwiseMode_t mode, cudnnDataType_t type, int64_t axis) {
    Descriptor kind(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &mode);
    kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, &type);
    if (axis >= 0) kind.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, &axis);
    kind.finish();
    return kind;
  }
  static Descriptor operation(const Descriptor& kind, const Descriptor& x, const Descriptor& y) {
    Descriptor o(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    o.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
    o.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    o.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    return o;
  }
  void add(Descriptor o) {
    o.finish();
    operations_.push_back(std::move(o));
  }

  AttentionShape a_;
  cudnnDataType_t stored_;
  std::vector<Descriptor> operations_;
  int64_t next_ = kEnd;
};

Descriptor scaled_scores(Builder& b, const Descriptor& queries, const Descriptor& keys,
                         const Descriptor& factor) {
  const Descriptor raw = b.scores();
  b.multiply(queries, keys, raw);
  return b.pointwise(CUDNN_POINTWISE_MUL, raw, &factor, b.scores());
}

Descriptor forward_graph(const AttentionShape& a, cudnnDataType_t stored, cudnnHandle_t handle) {
  Builder b(a, stored);
  Descriptor s = scaled_scores(b, b.queries(kQ), b.keys(kK, true), b.value(kScale));
  if (a.causal) s = b.causal(s);
  const Descriptor top = b.reduce(CUDNN_REDUCE_TENSOR_MAX, s);
  const Descriptor below = b.pointwise(CUDNN_POINTWISE_SUB, s, &top, b.scores());
  const Descriptor e = b.pointwise(CUDNN_POINTWISE_EXP, below, nullptr, b.scores());
  const Descriptor sum = b.reduce(CUDNN_REDUCE_TENSOR_ADD, e);
  const Descriptor log = b.pointwise(CUDNN_POINTWISE_LOG, sum, nullptr, b.row_values());
  b.pointwise(CUDNN_POINTWISE_ADD, top, &log, b.rows(kLogSums));
  const Descriptor p = b.pointwise(CUDNN_POINTWISE_DIV, e, &sum, b.scores(stored));
  b.multiply(p, b.keys(kV, false), b.results(kOut));
  return b.graph(handle);
}

/// With dq as a plain product: cuDNN then keeps the scores' gradients in its workspace, where sums have an
/// order, instead of adding up dq by atomics.
Descriptor backward_graph(const AttentionShape& a, cudnnDataType_t stored, cudnnHandle_t handle) {
  Builder b(a, stored);
  const Descriptor queries = b.queries(kQ), keys = b.keys(kK, true), out = b.results(kOut),
                   dout = b.results(kDout), factor = b.value(kScale), one = b.value(kOne),
                   log_sums = b.rows(kLogSums);
  const Descriptor products = b.pointwise(CUDNN_POINTWISE_MUL, dout, &out, b.result_values());
  const Descriptor inner =
      b.pointwise(CUDNN_POINTWISE_MUL, b.reduce(CUDNN_REDUCE_TENSOR_ADD, products), &one, b.rows(kInner));
  Descriptor s = scaled_scores(b, queries, keys, factor);
  s = b.pointwise(CUDNN_POINTWISE_SUB, s, &log_sums, b.scores());
  if (a.causal) s = b.causal(s);
  const Descriptor p = b.pointwise(CUDNN_POINTWISE_EXP, s, nullptr, b.scores());
  b.multiply(b.transposed_scores(p), dout, b.keys(kDv, false));
  const Descriptor dp = b.scores();
  b.multiply(dout, b.keys(kV, true), dp);
  Descriptor ds = b.pointwise(CUDNN_POINTWISE_SUB, dp, &inner, b.scores());
  ds = b.pointwise(CUDNN_POINTWISE_MUL, ds, &p, b.scores());
  ds = b.pointwise(CUDNN_POINTWISE_MUL, ds, &factor, b.scores());
  b.multiply(b.transposed_scores(ds), queries, b.keys(kDk, false));
  b.multiply(ds, b.transposed_keys(keys), b.queries(kDq));
  return b.graph(handle);
}

}  // namespace

Descriptor attention_graph(const Call& call, cudnnDataType_t stored, cudnnHandle_t handle) {
  const AttentionShape a(call);
  return call.function == Function::attention ? forward_graph(a, stored, handle)
                                              : backward_graph(a, stored, handle);
}

}  // namespace tandem::exec::cuda
