// SPDX-License-Identifier: Apache-2.0
#pragma once
// How tensors are grouped into the buckets of a Program, whoever groups them.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/graph.h"
#include "schemes/program/program.h"

namespace tandem::schemes {

/// Of one tensor of a layer as many elements as lie in a bucket.
struct TensorPart {
  uint32_t layer = 0;
  const Parameter* of = nullptr;  ///< null: frozen weights
  int64_t elements = 0;
  Bytes frozen = {};
};

/// Gradients that are communicated and updated together.
struct SummedBucket {
  uint32_t key = 0;   ///< index into Program::buckets
  std::string name;   ///< "conv1" or "conv1..fc8": lowest and highest layer
  LayerRange layers;  ///< that its tensors belong to
  int64_t elements = 0;
  Bytes bytes;   ///< of the gradients as they travel uncompressed
  Bytes frozen;  ///< of weights between them that stay as they are: only gathered
  std::vector<TensorPart> tensors = {};
};

/// "decoder.0.qkv..decoder.0.down"; of a single layer its name.
std::string range_name(const Graph& graph, LayerRange layers);
/// The tensors of the layers in the order in which their gradients appear, which is that of the flat vector;
/// those that are frozen too where `of_frozen`, the bytes of one of their elements, is not 0. O(tensors).
std::vector<TensorPart> tensors_of(const Graph& graph, LayerRange layers, int64_t of_frozen = 0);

/// The lengths of equal parts of at most `most` elements that a tensor is cut into; 0: it stays whole.
inline std::vector<int64_t> lengths_of_parts(int64_t elements, int64_t most) {
  const int64_t parts = most <= 0 ? 1 : std::max<int64_t>(1, (elements + most - 1) / most);
  std::vector<int64_t> out(static_cast<std::size_t>(parts), elements / parts);
  for (int64_t i = 0; i < elements % parts; ++i) ++out[static_cast<std::size_t>(i)];
  return out;
}

/// Appends buckets, SummedBuckets with more, filled tensor by tensor. For one thread at a time.
template <typename Bucket>
class BucketFiller {
 public:
  /// Gradients of `element` bytes. A bucket has at most `most` elements, and longer tensors are cut; 0:
  /// neither.
  BucketFiller(std::vector<Bucket>& out, int64_t element, int64_t most)
      : out_(out), element_(element), most_(most) {}
  bool open() const { return open_; }
  void close() { open_ = false; }
  /// full(part): does the last bucket close with that? `whole`: the tensor is not cut.
  template <typename Full>
  void add(TensorPart tensor, const Full& full, bool whole = false) {
    for (const int64_t part : lengths_of_parts(tensor.elements, whole ? 0 : most_)) {
      if (open_ && most_ > 0 && out_.back().elements + part > most_) open_ = false;
      if (!open_) out_.emplace_back().layers = {tensor.layer, 1};
      Bucket& b = out_.back();
      b.layers = {tensor.layer, b.layers.end() - tensor.layer};
      b.elements = checked_add(b.elements, part, "the number of parameters");
      b.bytes = Bytes{element_} * b.elements;
      b.frozen += tensor.frozen;
      tensor.elements = part;
      b.tensors.push_back(tensor);
      tensor.frozen = {};
      open_ = b.elements == 0 || !full(part);
    }
  }

 private:
  std::vector<Bucket>& out_;
  int64_t element_, most_;
  bool open_ = false;
};

/// Of buckets whose elements Workload::buckets gives, one role's after the other's, in the order of the flat
/// vectors. For one thread at a time.
class GivenBuckets {
 public:
  /// `elements` outlives it. The next tensor comes after all buckets that `program` has.
  GivenBuckets(const std::vector<int64_t>& elements, const Program& program) : elements_(elements) {
    for (const Bucket& b : program.buckets) end_with(b.elements);
  }
  bool any() const { return !elements_.empty(); }
  /// Of the next tensor, or part of one: does a bucket end with it? After the last of those given each does.
  bool end_with(int64_t elements) {
    total_ += elements;
    bool ends = next_ == elements_.size();
    for (; next_ < elements_.size() && ends_ + elements_[next_] <= total_; ends = true)
      ends_ += elements_[next_++];
    return ends;
  }

 private:
  const std::vector<int64_t>& elements_;
  std::size_t next_ = 0;
  int64_t total_ = 0, ends_ = 0;  ///< of all tensors so far; of the buckets before the next
};

}  // namespace tandem::schemes
