// SPDX-License-Identifier: Apache-2.0
// Walks a graph of ONNX: inputs, initializers, nodes in order, and functions of the file's own in place.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "models/import/onnx/translator.h"

namespace tandem::models::onnx {

namespace {

constexpr int64_t kMostSteps = 500'000;
constexpr int kMostDepth = 16;
constexpr int64_t kMostSize = int64_t{1} << 31;

/// A name for the layers of a node: without the parts that all of a file's have, without dots.
std::string layer_path(const NodeProto& node) {
  std::string name = node.name();
  if (name.rfind("node_", 0) == 0) name = name.substr(5);
  std::string out;
  for (const char c : name) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (fine || (!out.empty() && out.back() != '-')) out += fine ? c : '-';
  }
  return out.size() > 50 ? out.substr(out.size() - 50) : out;
}

bool is_floating(int32_t type) {  // float, float16, double, bfloat16; those of 8 and 4 bits
  return type == 1 || type == 10 || type == 11 || type == 16 || (type >= 17 && type <= 20) || type == 23;
}

void check_shape(const Shape& shape) {
  if (shape.size() > 16) refuse(fmt::format("gives a tensor of {} dimensions", shape.size()));
  for (const int64_t d : shape) {
    if (d < 0 || d > kMostSize) refuse(fmt::format("gives a dimension of {}", d));
  }
  elements(shape);
}

/// Whether an operator's inputs up to the i-th may be weights, even of one element.
bool weighs(std::string_view op, std::size_t i) {
  if (op == "Conv" || op == "ConvTranspose" || op == "Gemm" || op.find("Normalization") != op.npos)
    return i < 3;
  if (op == "LSTM" || op == "GRU" || op == "RNN") return i < 4;
  return (op == "MatMul" || op == "PRelu") && i < 2;
}

template <typename List>
const AttributeProto* by_name(const List& list, std::string_view name) {
  for (const AttributeProto& a : list) {
    if (a.name() == name) return &a;
  }
  return nullptr;
}

}  // namespace

// ---- a call

const AttributeProto* Call::attribute(std::string_view name) const { return by_name(node.attribute(), name); }

int64_t Call::integer(std::string_view name, int64_t fallback) const {
  const AttributeProto* a = attribute(name);
  return a == nullptr ? fallback : a->i();
}

double Call::real(std::string_view name, double fallback) const {
  const AttributeProto* a = attribute(name);
  return a == nullptr ? fallback : static_cast<double>(a->f());
}

std::string Call::text(std::string_view name, std::string_view fallback) const {
  const AttributeProto* a = attribute(name);
  return a == nullptr ? std::string(fallback) : a->s();
}

Shape Call::list(std::string_view name, std::size_t count, int64_t fallback) const {
  const AttributeProto* a = attribute(name);
  if (a == nullptr || a->ints().empty()) return Shape(count, fallback);
  Shape out(a->ints().begin(), a->ints().end());
  if (out.size() != count) refuse(fmt::format("has {} numbers in \"{}\", not {}", out.size(), name, count));
  for (const int64_t v : out) {
    if (v < 0 || v > INT32_MAX) refuse(fmt::format("has {} in \"{}\"", v, name));
  }
  return out;
}

const Value& Call::required(std::size_t i) const {
  if (input(i) == nullptr) refuse(fmt::format("lacks its input {}", i + 1));
  return *in[i];
}

Shape Call::integers(std::size_t i) const {
  const Value& value = required(i);
  if (!value.numbers)
    refuse(
        fmt::format("takes sizes or places that depend on the data (its input {}); only those that follow "
                    "from shapes are understood",
                    i + 1));
  Shape out;
  for (const double v : *value.numbers) {
    constexpr double kMost = 4e18;
    out.push_back(static_cast<int64_t>(v > kMost ? kMost : v >= -kMost ? v : -kMost));
  }
  return out;
}

std::optional<Shape> Call::axes(std::string_view name, std::size_t i) const {
  if (const AttributeProto* a = attribute(name); a != nullptr) {
    if (a->ints().empty() && a->type() == 2) return Shape{a->i()};
    return Shape(a->ints().begin(), a->ints().end());
  }
  if (input(i) == nullptr) return {};
  return integers(i);
}

Shapes as_first(const Call& c) {
  return Shapes(static_cast<std::size_t>(std::max(c.node.output_size(), 1)), c.required(0).shape);
}

// ---- what the graph is given

int64_t Translator::dimension(const std::string& name, const TensorShapeProto::Dimension& d,
                              bool first) const {
  if (d.has_dim_value()) {
    if (d.dim_value() < 1 || d.dim_value() > kMostSize)
      refuse(fmt::format("the input \"{}\" has a dimension of {}", printable(name), d.dim_value()));
    return d.dim_value();
  }
  const auto found = choices_.sizes.find(d.dim_param());
  if (found != choices_.sizes.end()) return found->second;
  if (first) return 1;
  const std::string called = d.dim_param().empty() ? "" : fmt::format(" \"{}\"", printable(d.dim_param()));
  std::vector<std::string> given;
  for (const auto& [key, value] : choices_.sizes) given.push_back(key);
  refuse(fmt::format("the input \"{}\" has a dimension{} of no fixed size: give it as --dim {}=N.{}",
                     printable(name), called, d.dim_param().empty() ? "\"\"" : printable(d.dim_param()),
                     d.dim_param().empty() ? "" : did_you_mean(d.dim_param(), given)));
}

void Translator::read_initializers(Env& env) {
  for (const TensorProto& tensor : model_.graph().initializer()) {
    Value value = value_of(tensor);
    check_shape(value.shape);
    if (value.kind == Kind::learned && value.size() > 0) {
      value.params = {tensor.name()};
      sizes_[tensor.name()] = value.size();
    }
    if (value.size() <= 1) value.kind = Kind::constant;  // a factor, unless it stands where weights do
    env[tensor.name()] = std::move(value);
  }
}

void Translator::read_inputs(Env& env) {
  for (const ValueInfoProto& input : model_.graph().input()) {
    if (env.count(input.name()) != 0) continue;  // an initializer, which old files list as well
    if (!input.type().has_tensor_type() || !input.type().tensor_type().has_shape())
      refuse(fmt::format("the input \"{}\" has no shape", printable(input.name())));
    const auto& type = input.type().tensor_type();
    Shape shape;
    if (type.shape().dim_size() > 8)
      refuse(fmt::format("the input \"{}\" has more than 8 dimensions", printable(input.name())));
    for (int d = 0; d < type.shape().dim_size(); ++d)
      shape.push_back(dimension(input.name(), type.shape().dim(d), d == 0));
    elements(shape);
    if (shape.size() > 1 && shape[0] != 1)
      refuse(
          fmt::format("the input \"{}\" is {}: its first dimension has to be a batch of 1, or have no "
                      "fixed size; export it so",
                      printable(input.name()), models::to_text(shape)));
    Shape sample(shape.begin() + (shape.size() > 1 ? 1 : 0), shape.end());
    if (sample.empty()) sample = {1};
    const std::string name = add_input(input.name(), sample);
    Value value;
    if (is_floating(type.elem_type())) {
      value = live(shape, name);
    } else {
      value.floating = false;
      value.shape = shape;
      value.sources = {name};
    }
    value.once = uses_[input.name()] <= 1;
    env[input.name()] = std::move(value);
  }
}

void Translator::run() {
  Env env;
  for (const NodeProto& node : model_.graph().node()) {
    for (const std::string& name : node.input()) ++uses_[name];
  }
  for (const ValueInfoProto& output : model_.graph().output()) ++uses_[output.name()];
  for (const FunctionProto& f : model_.functions()) functions_[{f.domain(), f.name()}] = &f;
  read_initializers(env);
  read_inputs(env);
  walk(model_.graph().node(), env, 0);
  for (const ValueInfoProto& output : model_.graph().output()) {
    const auto found = env.find(output.name());
    if (found == env.end()) refuse(fmt::format("nothing makes the output \"{}\"", printable(output.name())));
    if (found->second.kind == Kind::live) outputs_.push_back(found->second);
  }
}

// ---- nodes

template <typename Nodes>
void Translator::walk(const Nodes& nodes, Env& env, int depth) {
  for (const NodeProto& node : nodes) {
    if (++steps_ > kMostSteps) refuse(fmt::format("the graph has more than {} nodes", kMostSteps));
    std::vector<Value> out = step(node, env, depth);
    for (std::size_t i = 0; i < out.size() && i < static_cast<std::size_t>(node.output_size()); ++i) {
      const std::string& name = node.output(static_cast<int>(i));
      if (name.empty()) continue;
      if (depth == 0) out[i].once = out[i].once && uses_[name] <= 1;
      env[name] = std::move(out[i]);
    }
  }
}

std::vector<Value> Translator::step(const NodeProto& node, Env& env, int depth) {
  const bool plain = node.domain().empty() || node.domain() == "ai.onnx";
  if (const auto found = functions_.find({node.domain(), node.op_type()}); found != functions_.end())
    return inlined(*found->second, node, env, depth);
  const std::string where =
      fmt::format("the node \"{}\" ({}{}{})", printable(node.name()), plain ? "" : printable(node.domain()),
                  plain ? "" : ".", printable(node.op_type()));
  try {
    Call call{node, node.op_type(), {}, {}, 0};
    for (const OperatorSetIdProto& set : model_.opset_import()) {
      if (set.domain().empty() || set.domain() == "ai.onnx") call.opset = set.version();
    }
    for (const std::string& name : node.input()) {
      const auto found = env.find(name);
      if (!name.empty() && found == env.end())
        refuse(fmt::format("reads \"{}\", which nothing before it makes", printable(name)));
      call.in.push_back(name.empty() ? nullptr : &found->second);
    }
    if (plain) {
      path_ = layer_path(node);
      return apply(call);
    }
    refuse("is not of ONNX itself and has no function in the file");
  } catch (const InputError& error) {
    throw InputError(fmt::format("{} {}", where, error.what()));
  }
}

std::vector<Value> Translator::inlined(const FunctionProto& function, const NodeProto& node, const Env& env,
                                       int depth) {
  if (depth >= kMostDepth)
    refuse(fmt::format("functions call each other deeper than {} levels, to \"{}\"", kMostDepth,
                       printable(function.name())));
  Env inner;
  for (int i = 0; i < function.input_size() && i < node.input_size(); ++i) {
    if (const auto found = env.find(node.input(i)); found != env.end()) {
      inner[function.input(i)] = found->second;
      inner[function.input(i)].once = false;
    }
  }
  std::vector<NodeProto> body(function.node().begin(), function.node().end());
  for (NodeProto& one : body) {
    for (AttributeProto& a : *one.mutable_attribute()) {
      if (a.ref_attr_name().empty()) continue;
      const AttributeProto* given = by_name(node.attribute(), a.ref_attr_name());
      if (given == nullptr) given = by_name(function.attribute_proto(), a.ref_attr_name());
      const std::string name = a.name();
      a = given == nullptr ? AttributeProto() : AttributeProto(*given);
      a.set_name(given == nullptr ? "" : name);
    }
  }
  walk(body, inner, depth + 1);
  std::vector<Value> out;
  for (const std::string& name : function.output()) {
    const auto found = inner.find(name);
    if (found == inner.end())
      refuse(fmt::format("the function \"{}\" does not make its output \"{}\"", printable(function.name()),
                         printable(name)));
    out.push_back(found->second);
  }
  return out;
}

std::vector<Value> Translator::apply(const Call& given) {
  const auto found = operators().find(given.op);
  if (found == operators().end()) {
    std::vector<std::string> names;
    for (const auto& [name, one] : operators()) names.emplace_back(name);
    const auto near = nearest(given.op, names, 1);
    refuse("has no layer in Tandem" +
           (near.empty() ? "" : "; the nearest operator that has one is " + near[0]));
  }
  const Operator& kind = found->second;
  Call call = given;
  call.out = kind.shapes(call);
  for (const Shape& shape : call.out) check_shape(shape);
  const auto is = [&](std::size_t i, Kind k) { return call.input(i) != nullptr && call.in[i]->kind == k; };
  bool alive = call.op == "Gather" && is(0, Kind::learned) && is(1, Kind::constant) &&
               !call.in[1]->sources.empty();  // words become vectors
  for (const Value* v : call.in)
    alive = alive || (v != nullptr && (v->kind == Kind::live || !v->parts.empty()));
  bool whole = kind.whole;
  if (call.op == "Cast") whole = !is_floating(static_cast<int32_t>(call.integer("to", 1)));
  if (call.op == "CastLike") whole = !call.required(1).floating;
  if (!alive || whole) return aside(call, whole);
  if (kind.make == nullptr) refuse("is understood only of constants, and not of what depends on the sample");
  for (const Shape& shape : call.out) {
    if (elements(shape) == 0) refuse("gives an empty tensor");
  }
  std::vector<Value> promoted(call.in.size());
  for (std::size_t i = 0; i < call.in.size() && weighs(call.op, i); ++i) {
    const Value* v = call.in[i];
    if (v == nullptr || v->kind != Kind::constant || v->params.empty() || v->shape.empty()) continue;
    promoted[i] = *v;
    promoted[i].kind = Kind::learned;
    call.in[i] = &promoted[i];
  }
  if (const std::optional<Value> known = recognised(*this, call)) return {*known};
  Values out = kind.make(*this, call);
  if (!out.empty()) remember(call, out[0]);
  return out;
}

/// Of constants and learned tensors alone: costs nothing.
std::vector<Value> Translator::aside(const Call& call, bool whole) const {
  Value out;
  bool sound = true;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (call.in[i] == nullptr) continue;
    const Value& v = *call.in[i];
    if (i == 0) sound = v.floating;
    if (v.kind == Kind::live) out.sources.emplace_back("?");
    for (const std::string& s : v.sources) {
      if (std::find(out.sources.begin(), out.sources.end(), s) == out.sources.end()) out.sources.push_back(s);
    }
    if (v.kind != Kind::learned) continue;
    for (const std::string& p : v.params) {
      if (std::find(out.params.begin(), out.params.end(), p) == out.params.end()) out.params.push_back(p);
    }
  }
  if (call.op == "Where") sound = call.required(1).floating;
  if (call.op == "Constant" || call.op == "ConstantOfShape") {
    const AttributeProto* value = call.attribute("value");
    sound = value != nullptr ? is_floating(value->t().data_type())
                             : call.op == "ConstantOfShape" || call.attribute("value_float") != nullptr ||
                                   call.attribute("value_floats") != nullptr;
  }
  if (call.op == "CastLike" || call.op == "Cast") sound = !whole;
  out.floating = !whole && sound;
  if (!out.floating) out.params.clear();
  out.kind = out.params.empty() ? Kind::constant : Kind::learned;
  if (call.op == "Shape" || call.op == "Size") out.sources.clear();
  if (out.kind == Kind::constant) out.numbers = folded(call);
  std::vector<Value> all;
  for (const Shape& shape : call.out) {
    all.push_back(out);
    all.back().shape = shape;
    if (all.back().numbers && static_cast<int64_t>(all.back().numbers->size()) != elements(shape))
      all.back().numbers.reset();
  }
  return all;
}

const Operators& operators() {
  static const Operators table = [] {
    Operators out;
    add_views(out);
    add_places(out);
    add_elementwise(out);
    add_reductions(out);
    add_products(out);
    add_windows(out);
    return out;
  }();
  return table;
}

}  // namespace tandem::models::onnx
