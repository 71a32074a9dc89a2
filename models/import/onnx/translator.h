// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a graph of ONNX becomes layers. A tensor is a layer's output under any shape: views and permutations
// are free, a "reshape" stands where a layer wants another shape than its input has, and a copy where PyTorch
// would have to make one. Three kinds of tensors are told apart, as in python/tandem/_torch_operators.py.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <models/import/onnx/onnx.pb.h>
#include "base/json_writer.h"
#include "models/import/onnx/onnx.h"
#include "models/layers/layer.h"

namespace tandem::models::onnx {

using Numbers = std::vector<double>;
using Shapes = std::vector<Shape>;

enum class Kind : uint8_t {
  live,      ///< depends on the samples and carries gradients
  learned,   ///< an initializer, or made of such alone: costs nothing
  constant,  ///< masks, positions, words: costs nothing either
};

struct Value {
  Kind kind = Kind::constant;
  Shape shape;
  bool floating = true;
  std::string layer;                 ///< live: whose output it is
  Shape strides;                     ///< live
  Shape small;                       ///< live and repeated: the shape that becomes `shape`
  std::vector<std::string> params;   ///< learned: initializers that it is made of
  std::vector<std::string> sources;  ///< constant: inputs of whole numbers that it is made of
  std::optional<Numbers> numbers;    ///< constant and small: what it holds
  std::vector<Value> parts;          ///< a sequence of tensors
  bool once = true;                  ///< read by one operator only
  struct Part {
    std::string_view what;
    std::string of;
  } part{};  ///< of an operator that exporters write as several: its place there, and the layer that is read
  int64_t size() const { return elements(shape); }
};
using Values = std::vector<Value>;

/// Attributes of an emitted layer.
using Words = std::vector<std::pair<std::string, JsonWriter>>;

struct Entry {
  std::string type, name;
  std::vector<std::string> from;
  Shape dims;
  Words words;
  std::vector<std::pair<std::string, int64_t>> owns;  ///< elements of initializers
};

/// A node with what it reads. Its lists are those of the file and outlive it.
struct Call {
  const NodeProto& node;
  std::string_view op;
  std::vector<const Value*> in;  ///< null where an optional input is left out
  std::vector<Shape> out;
  int64_t opset = 0;

  const AttributeProto* attribute(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t fallback) const;
  double real(std::string_view name, double fallback) const;
  std::string text(std::string_view name, std::string_view fallback) const;
  /// Of dimensions, all `fallback` without the attribute.
  Shape list(std::string_view name, std::size_t count, int64_t fallback) const;
  const Value* input(std::size_t i) const { return i < in.size() ? in[i] : nullptr; }
  const Value& required(std::size_t i) const;
  /// Whole numbers of an input that must not depend on the sample.
  Shape integers(std::size_t i) const;
  /// Those of an attribute or, as in newer opsets, of input `i`; nothing where both are left out.
  std::optional<Shape> axes(std::string_view name, std::size_t i) const;
};

class Translator;

struct Operator {
  std::vector<Shape> (*shapes)(const Call&);
  std::vector<Value> (*make)(Translator&, const Call&);  ///< of live inputs; null: only of constants
  bool whole = false;                                    ///< gives whole numbers or truths
};
using Operators = std::map<std::string_view, Operator>;

// Each adds its operators; a file each.
void add_views(Operators& table);
void add_elementwise(Operators& table);
void add_reductions(Operators& table);
void add_places(Operators& table);
void add_products(Operators& table);
void add_windows(Operators& table);
const Operators& operators();

/// What an operator gives of small constants alone, if that is worth to know (shapes, mostly).
std::optional<Numbers> folded(const Call& call);
Value value_of(const TensorProto& tensor);

/// Makes the layers of one file, in one thread. Refers to the file and the choices.
class Translator {
 public:
  Translator(const ModelProto& model, const OnnxChoices& choices) : model_(model), choices_(choices) {}
  void run();

  std::string emit(std::string_view type, std::vector<std::string> from, Shape dims, Words words = {});
  Value live(Shape shape, std::string layer, Shape strides = {}) const;
  const Shape& dims(const std::string& layer) const { return entries_[index_.at(layer)].dims; }
  int64_t size(const std::string& layer) const { return elements(dims(layer)); }
  std::string as_shape(const Value& value, const Shape& shape);
  Value whole(const Value& value);  ///< what is repeated only by its strides, repeated
  Value broadcast(const Value& value, const Shape& shape);
  Value as_live(const Value& value, const Value& like);
  std::string filler(const Value& like, int64_t count);
  /// An elementwise layer of it, as Python's `each`; flops 0 copies.
  Value each(const Value& value, std::string_view keeps = "none", int64_t flops = 1);
  Value copy(const Value& value) { return each(value, "none", 0); }

  int64_t left(const std::string& param) const;
  int64_t stored(const std::string& param) const { return sizes_.at(param); }
  void take(const std::string& param, int64_t count);
  bool free(const std::vector<std::string>& params, int64_t count) const;  ///< whether own() would be true
  /// Whether the next layer owns `count` elements of these; otherwise an earlier one has them.
  bool own(const std::vector<std::string>& params, int64_t count);
  Value with_weights(const Value& value, const std::vector<std::string>& params);
  /// A learned table that words are looked up in, or null.
  const Shape* table(const Value& weight) const;
  void set_table(const Value& weight);
  /// Adds a bias to the linear layer or norm, or a scale to the norm, that made `value`, if that is its only
  /// use.
  bool bias(const Value& value, const Value& weight);
  bool scale(const Value& value, const Value& weight);
  const std::map<std::string, Shape>& inputs() const { return inputs_; }
  std::string add_input(const std::string& name, Shape shape);

  OnnxModel document(const std::string& file);

 private:
  Entry* owner_of(const Value& value, const Value& weight);
  using Env = std::unordered_map<std::string, Value>;
  void read_inputs(Env& env);
  void read_initializers(Env& env);
  template <typename Nodes>
  void walk(const Nodes& nodes, Env& env, int depth);
  std::vector<Value> step(const NodeProto& node, Env& env, int depth);
  std::vector<Value> apply(const Call& call);
  std::vector<Value> aside(const Call& call, bool whole) const;
  std::vector<Value> inlined(const FunctionProto& function, const NodeProto& node, const Env& env, int depth);
  std::string finish();
  std::vector<const Entry*> pruned(std::string& end);
  int64_t dimension(const std::string& input, const TensorShapeProto::Dimension& d, bool first) const;

  const ModelProto& model_;
  const OnnxChoices& choices_;
  std::map<std::pair<std::string, std::string>, const FunctionProto*> functions_;  ///< by domain and name
  std::map<std::string, Shape> inputs_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t> index_;
  std::unordered_map<std::string, int64_t> names_, sizes_, owned_, uses_;
  std::map<std::pair<std::string, Shape>, std::string> reshaped_;
  std::map<std::string, Shape> tables_;
  std::set<std::string> touched_;  ///< initializers that a layer uses as learned ones
  std::vector<std::pair<std::string, int64_t>> taken_;
  std::vector<Value> outputs_;
  std::vector<std::string> notes_;
  std::string path_;
  int64_t steps_ = 0, links_ = 0;
};

Shapes as_first(const Call& call);  ///< all outputs have the first input's shape
Shape contiguous(const Shape& shape);
/// `axis` counted from the front; throws where there is no such dimension.
std::size_t axis_of(int64_t axis, std::size_t dims);
int64_t span(const Shape& shape, std::size_t begin, std::size_t end);  ///< product of these dimensions
JsonWriter same_or_list(const Shape& values);
Value cut(Translator& t, const Value& x, std::size_t axis, int64_t begin, int64_t count);
Value joined(Translator& t, std::vector<Value> parts, std::size_t axis, const Shape& shape);
Value padded(Translator& t, const Value& x, const Shape& before, const Shape& after);
/// Means of blocks of neighbouring dimensions.
Value reduced(Translator& t, const Value& x, const Shape& axes, const Shape& shape);
/// The sum or product of live values, the smaller ones broadcast.
Value met(Translator& t, std::string_view type, std::vector<Value> values, const Shape& shape);
/// Elements at other places, fewer or more of them: a copy.
std::vector<Value> moved(Translator& t, const Call& call);
Value softmaxed(Translator& t, const Value& x, std::size_t axis);
Shape broadcast_shape(const Shape& a, const Shape& b);
/// The layer of which this is the last of several operators, if it is one.
std::optional<Value> recognised(Translator& t, const Call& call);
void remember(const Call& call, Value& out);  ///< what the operator's result is a part of
[[noreturn]] void refuse(const std::string& why);

}  // namespace tandem::models::onnx
