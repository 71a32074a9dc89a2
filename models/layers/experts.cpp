// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts (Shazeer et al. 2017; Jiang et al. 2024, Mixtral): a router sends each token to
// `active` of `count` gated feed-forward networks and adds up their weighted results. Costs and bytes assume
// a balanced load. Several devices work as in Megatron-Core and DeepSpeed-MoE: experts are dealt to devices,
// tokens travel to them and back, and devices that share layers hold a part of each expert or whole ones. A
// second input replaces the first as the router's.
#include <fmt/format.h>

#include <cmath>

#include "models/layers/layer.h"

namespace tandem::models {

namespace {

struct Routing {
  int64_t rows = 0;            ///< tokens of the batch that this device routes
  int64_t routed = 0;          ///< of these, once per expert that takes them
  int64_t held = 0;            ///< tokens of this device's experts
  int64_t each = 0;            ///< per expert, rounded up
  int64_t count = 0, own = 0;  ///< experts in all and on this device
  int64_t active = 0;          ///< experts per token
  int64_t feed = 0, hidden = 0;
  int64_t judged = 0;    ///< features that the router reads: of the second input, if there is one
  int64_t dealt = 1;     ///< devices that hold different experts
  bool gathers = false;  ///< partners gather their parts of the sequence for their parts of experts
  bool sums = false;     ///< partners sum the results of their parts of experts
  bool bias = false;
  bool score_bias = false;  ///< a learned number per expert, added to its score where experts are chosen
  bool gated = true;        ///< two products before the activation, one of which is its gate
  bool limited = false;     ///< gate and the other half are clamped
  bool drops = false;       ///< every expert takes exactly its capacity of tokens
  int64_t rank = 0, router_rank = 0;  ///< of LoRA pairs on frozen weights; 0: none

  int64_t matrices() const { return gated ? 2 : 1; }
  int64_t wide() const { return product({held, hidden}); }
  int64_t inner() const { return product({held, feed}); }
  /// After an exchange tokens are ordered by origin, and are sorted by expert again.
  bool sorts() const { return dealt > 1 && own > 1; }
};

int64_t parts_of(int64_t count, int64_t parts) { return (count + parts - 1) / parts; }

Kernel apart(Kernel kernel) {
  kernel.apart = true;
  return kernel;
}

/// Kernels of a pass and the exchanges between them.
class Writing {
 public:
  Writing(Pass pass, const Routing& routing, int64_t size) : pass_(pass), r_(routing), size_(size) {}
  void add(Kernel kernel) {
    kernel.routed = true;
    kernels.push_back(std::move(kernel));
  }
  /// Reorders tokens: one read, one write.
  void move(int64_t read, int64_t written) { add(apart(copy_kernel(pass_, read, written, size_))); }
  /// The tokens of `routed` summed at their places in the batch.
  void gather_up() {
    add(apart(reduction(pass_, product({r_.routed, r_.hidden}), product({r_.rows, r_.hidden}), size_)));
  }
  /// Kernels of models with biases or limits only; not included in Recipe::Host::experts.
  /// on.
  void add_all(const std::vector<Kernel>& more) { kernels.insert(kernels.end(), more.begin(), more.end()); }
  void exchange(Exchange::Kind kind, int64_t elements) {
    const auto at = static_cast<uint32_t>(kernels.size());
    exchanges.push_back({kind, at, at, elements, r_.active, r_.count});
  }
  void to_experts() {
    if (r_.dealt > 1) exchange(Exchange::Kind::all_to_all, product({r_.routed, r_.hidden}));
    if (r_.gathers) exchange(Exchange::Kind::gather, r_.wide());
    if (r_.sorts()) move(r_.wide(), r_.wide());
  }
  void from_experts() {
    if (r_.sorts()) move(r_.wide(), r_.wide());
    if (r_.gathers) exchange(Exchange::Kind::scatter, r_.wide());
    if (r_.dealt > 1) exchange(Exchange::Kind::all_to_all, product({r_.routed, r_.hidden}));
  }

  std::vector<Kernel> kernels;
  std::vector<Exchange> exchanges;

 private:
  const Pass pass_;
  const Routing& r_;
  const int64_t size_;
};

/// Gate and the other half clamped separately and concatenated, which no activation kernel does
/// (megatron/core/fusions/fused_bias_geglu.py). In backward a comparison makes a mask for each limit (one for
/// the gate, two for the other half), and the gradients are concatenated.
std::vector<Kernel> limits_of(const Routing& r, Pass pass, int64_t size) {
  if (!r.limited) return {};
  const int64_t inner = r.inner();
  const Kernel both = apart(copy_kernel(pass, 2 * inner, 2 * inner, size));
  if (pass == Pass::forward)
    return {apart(elementwise(pass, inner, 1, size)), apart(elementwise(pass, inner, 1, size)), both};
  Kernel masks = apart(elementwise(pass, 3 * inner, 1, size));
  masks.written = Bytes{1} * 3 * inner;
  Kernel chosen = apart(elementwise(pass, 2 * inner, 1, size));
  chosen.read += Bytes{1} * 2 * inner;
  return {std::move(masks), std::move(chosen), both};
}

/// The bias of the last product, weighted like its tokens: computed expert by expert, added and concatenated
/// (TEGroupedMLP._apply_bias in megatron/core/transformer/moe/experts.py). In backward the parts of the
/// gradient are concatenated, and multiplied for the bias and for the weights.
std::vector<Kernel> weighted_bias_of(const Routing& r, Pass pass, int64_t size) {
  if (!r.bias) return {};
  const int64_t wide = r.wide();
  const Kernel together = apart(copy_kernel(pass, wide, wide, size));
  if (pass == Pass::forward)
    return {apart(copy_kernel(pass, r.held, wide, size)), apart(elementwise(pass, wide, 2, size)), together};
  const Kernel multiplied = apart(elementwise(pass, wide, 1, size));
  return {together, multiplied, multiplied, apart(reduction(pass, wide, r.held, size))};
}

/// Products with a low-rank pair for a matrix of these inputs and outputs, for each of `parts`, and the sum
/// with the matrix's result. Gate and up have one pair of twice the rank, since they are one stack of
/// matrices in PEFT's code (0.21, lora.ParamWrapper).
std::vector<Kernel> pair_of(Pass pass, int64_t parts, int64_t rows, int64_t rank, int64_t in, int64_t out,
                            int64_t size) {
  if (rank == 0) return {};
  if (pass == Pass::backward_weights)
    return {gemm(pass, parts, in, rank, rows, size), gemm(pass, parts, rank, out, rows, size)};
  const bool forward = pass == Pass::forward;
  return {apart(gemm(pass, parts, rows, rank, forward ? in : out, size)),
          apart(gemm(pass, parts, rows, forward ? out : in, rank, size)),
          apart(elementwise(pass, product({parts, rows, forward ? out : in}), 2, size))};
}
std::vector<Kernel> router_pair(const Routing& r, Pass pass, int64_t size) {
  return pair_of(pass, 1, r.rows, r.router_rank, r.judged, r.count, size);
}
std::vector<Kernel> into_pair(const Routing& r, Pass pass, int64_t size) {
  return pair_of(pass, r.own, r.each, r.matrices() * r.rank, r.hidden, r.matrices() * r.feed, size);
}
std::vector<Kernel> out_pair(const Routing& r, Pass pass, int64_t size) {
  return pair_of(pass, r.own, r.each, r.rank, r.feed, r.hidden, size);
}

/// Limits; of the gate, and its product with the other half.
std::vector<Kernel> activations_of(const Routing& r, int64_t size) {
  std::vector<Kernel> all = limits_of(r, Pass::forward, size);
  all.push_back(elementwise(Pass::forward, r.inner(), 1, size, 4));
  if (r.gated) all.push_back(elementwise(Pass::forward, r.inner(), 2, size));
  return all;
}

/// The products of all experts with one of their matrices are one kernel (grouped gemm, MegaBlocks).
Writing forward_of(const Routing& r, int64_t size) {
  const Pass pass = Pass::forward;
  const int64_t routed = product({r.routed, r.hidden});
  const Kernel into = gemm(pass, r.own, r.each, r.feed, r.hidden, size);
  Writing w(pass, r, size);
  w.add(gemm(pass, 1, r.rows, r.count, r.judged, size));  // router
  w.add_all(router_pair(r, pass, size));
  Kernel choice = elementwise(pass, product({r.rows, r.count}), 1, 4, 5);  // softmax, choice
  choice.counts = !r.drops;
  w.add(std::move(choice));
  w.move(routed, routed);  // to the experts' order
  w.to_experts();
  if (r.gated) w.add(into);  // gate
  w.add(into);               // up
  w.add_all(into_pair(r, pass, size));
  w.add_all(limits_of(r, pass, size));
  w.add(elementwise(pass, r.inner(), 1, size, 4));            // of the gate
  if (r.gated) w.add(elementwise(pass, r.inner(), 2, size));  // its product with the other half
  w.add(gemm(pass, r.own, r.each, r.hidden, r.feed, size));   // down
  w.add_all(out_pair(r, pass, size));
  w.add_all(weighted_bias_of(r, pass, size));
  w.from_experts();
  w.gather_up();
  return w;
}

Writing backward_of(const Routing& r, int64_t size) {
  const Pass pass = Pass::backward_data;
  const int64_t routed = product({r.routed, r.hidden}), inner = r.inner();
  const Kernel into = gemm(pass, r.own, r.each, r.hidden, r.feed, size);
  Writing w(pass, r, size);
  w.move(product({r.rows, r.hidden}), routed);
  w.to_experts();
  w.add_all(weighted_bias_of(r, pass, size));
  w.add(gemm(pass, r.own, r.each, r.feed, r.hidden, size));
  w.add_all(out_pair(r, pass, size));
  if (r.gated) w.add(elementwise(pass, inner, 3, size, 2));
  w.add(elementwise(pass, inner, 2, size, 6));
  w.add_all(limits_of(r, pass, size));
  if (r.gated) w.add(into);
  w.add(into);
  w.add_all(into_pair(r, pass, size));
  w.from_experts();
  w.gather_up();
  w.add(elementwise(pass, product({r.rows, r.count}), 2, 4, 4));
  // Devices with a part of every expert each know a part of the gradient of the choice.
  if (r.sums) w.exchange(Exchange::Kind::sum, product({r.rows, r.count}));
  w.add(gemm(pass, 1, r.rows, r.judged, r.count, size));
  w.add_all(router_pair(r, pass, size));
  return w;
}

/// How the experts lie on the devices.
void divide(const LayerInput& in, Routing& r) {
  const bool splits = in.split({Split::experts}) == Split::experts;
  r.own = r.count;
  if (!splits && in.experts > 1)
    in.attributes.fail("its experts are dealt over devices, but it has no \"split\": \"experts\"");
  if (!splits) return;
  const bool parts = in.ways > 1 && !in.whole_experts;
  if (in.ways > 1 && in.whole_experts && !in.sequence)
    in.attributes.fail("devices that share layers hold whole experts only where they divide the sequence");
  r.dealt = in.experts * (in.whole_experts ? in.ways : 1);
  if (r.count % r.dealt != 0)
    in.attributes.fail(fmt::format(
        "{} experts do not divide over {} devices{}", r.count, r.dealt,
        r.dealt == in.experts ? ""
                              : fmt::format(": {} that experts are dealt over times {} that share layers, "
                                            "since each holds whole experts (experts=whole)",
                                            in.experts, in.ways)));
  r.own = r.count / r.dealt;
  if (parts) r.feed = in.part(r.feed, "inner features of an expert");
  r.gathers = parts && in.sequence;
  r.sums = parts && !in.sequence;
}

/// Options that only affect routing and weights have no effect on cost.
void read_scores(const Attributes& attributes) {
  attributes.boolean("sigmoid", false);
  attributes.boolean("normalized", true);
  attributes.integer("scale_percent", 100);
}

Routing routing_of(const LayerInput& in, const Shape& shape) {
  Routing r;
  r.hidden = shape[1];
  r.judged = in.shapes.back()[1];
  r.count = in.attributes.integer("count");
  r.feed = in.attributes.integer("feed");
  r.bias = in.attributes.boolean("bias", false);
  r.score_bias = in.attributes.boolean("score_bias", false);
  r.gated = in.attributes.boolean("gated", true);
  if (!r.gated && r.bias) in.attributes.fail("experts without a gate have no biases");
  r.limited = in.attributes.real("limit", 0, 0) > 0;
  in.attributes.text("pairs", "all");  // with_adapter() asks
  r.rank = in.attributes.integer("adapter_rank", 0, 0);
  r.router_rank = in.attributes.integer("router_rank", 0, 0);
  if ((r.rank > 0 || r.router_rank > 0) && !in.frozen)
    in.attributes.fail("low-rank pairs need frozen weights");
  read_scores(in.attributes);
  r.active = in.attributes.integer("active");
  const int64_t active = r.active;
  if (active > r.count)
    in.attributes.fail(fmt::format("{} active experts of {}: at most all of them", active, r.count));
  divide(in, r);
  r.rows = in.total(shape) / r.hidden;
  r.routed = product({r.rows, active});
  if (in.capacity > 0) {
    const double each = in.capacity * static_cast<double>(r.routed) / static_cast<double>(r.count);
    r.routed = product({r.count, static_cast<int64_t>(std::ceil(each))});
    r.drops = true;
  }
  r.held = product({r.routed, r.gathers ? in.ways : 1});
  r.each = parts_of(r.held, r.own);
  return r;
}

void add_parameters(const Routing& r, Lowered& out) {
  const int64_t matrix = product({r.own, r.hidden, r.feed});
  out.parameters = {{"router", product({r.judged, r.count})}};
  if (r.gated) out.parameters.push_back({"gate", matrix, true});
  out.parameters.insert(out.parameters.end(), {{"up", matrix, true}, {"down", matrix, true}});
  for (std::size_t i = 0; i < out.parameters.size(); ++i) {
    out.parameters[i].hidden = i == 0 ? 1 : r.own;
    out.parameters[i].inner = i == 0 ? r.judged : i + 1 < out.parameters.size() ? r.hidden : r.feed;
  }
  if (r.score_bias) out.parameters.push_back({"score_bias", r.count});
  if (!r.bias) return;
  out.parameters.push_back({"router_bias", r.count});
  out.parameters.push_back({"gate_up_bias", product({r.own, 2, r.feed}), true});
  out.parameters.push_back({"down_bias", product({r.own, r.hidden}), true});
}

/// Learned pairs on frozen weights: Graph keeps parameters named "adapter_..." out of the frozen ones.
void add_adapters(const Routing& r, int64_t size, Lowered& out) {
  const Pass pass = Pass::backward_weights;
  out.backward_weights.clear();
  for (const auto& pair : {out_pair(r, pass, size), into_pair(r, pass, size), router_pair(r, pass, size)})
    out.backward_weights.insert(out.backward_weights.end(), pair.begin(), pair.end());
  const auto learned = [&](const char* name, std::initializer_list<int64_t> sizes, bool dealt) {
    out.parameters.push_back({name, product(sizes), dealt});
  };
  if (r.router_rank > 0) {
    learned("adapter_router_a", {r.judged, r.router_rank}, false);
    learned("adapter_router_b", {r.router_rank, r.count}, false);
  }
  if (r.rank == 0) return;
  learned("adapter_gate_up_a", {r.own, r.hidden, r.matrices() * r.rank}, true);
  learned("adapter_gate_up_b", {r.own, r.matrices() * r.rank, r.matrices() * r.feed}, true);
  learned("adapter_down_a", {r.own, r.feed, r.rank}, true);
  learned("adapter_down_b", {r.own, r.rank, r.hidden}, true);
}

Lowered experts(const LayerInput& in) {
  const Shape& shape = in.shapes.size() == 2 ? in.shapes[0] : in.only(2);
  if (shape.size() != 2) in.attributes.fail(fmt::format("takes {{time, width}}, not {}", to_text(shape)));
  const Shape& judged = in.shapes.back();
  if (judged.size() != 2 || judged[0] != shape[0])
    in.attributes.fail(fmt::format("its router takes {{{}, width}}, not {}", shape[0], to_text(judged)));
  const Routing r = routing_of(in, shape);
  const int64_t size = in.element_size();
  Writing forward = forward_of(r, size), backward = backward_of(r, size);
  Lowered out;
  out.output = shape;
  out.forward = std::move(forward.kernels);
  out.backward_data = std::move(backward.kernels);
  out.forward_exchanges = std::move(forward.exchanges);
  out.backward_exchanges = std::move(backward.exchanges);
  const Kernel into = gemm(Pass::backward_weights, r.own, r.hidden, r.feed, r.each, size);
  out.backward_weights = {gemm(Pass::backward_weights, r.own, r.feed, r.hidden, r.each, size)};
  out.backward_weights.insert(out.backward_weights.end(), r.gated ? 2 : 1, into);
  out.backward_weights.push_back(gemm(Pass::backward_weights, 1, r.judged, r.count, r.rows, size));
  if (r.bias)
    out.backward_weights.push_back(
        reduction(Pass::backward_weights, product({r.held, r.hidden + 2 * r.feed}), r.own * r.hidden, size));
  add_parameters(r, out);
  if (r.rank > 0 || r.router_rank > 0) add_adapters(r, size, out);
  if (r.sums) {
    out.input_join = Join::copy;
    out.output_join = Join::sum;
  }
  // The routed input; gate, its activation, up, their product; probabilities. Tokens are weighted before the
  // last product (Megatron-Core's weighted activations), so the experts' outputs need not be kept.
  const int64_t held = parts_of(r.held, in.batch), wide = product({held, r.hidden}),
                inner = product({held, r.feed});
  constexpr auto kKept = OwnTensor::Life::kept;
  out.own = {{wide}, {inner}, {inner, 0, kKept, true}, {product({shape[0], r.count}), 4}};
  out.own[2].composed = true;
  if (r.gated) out.own.insert(out.own.begin() + 3, {{inner}, {inner, 0, kKept, true}});
  if (r.limited) out.own.push_back({2 * inner, 0, kKept, true});
  if (r.rank > 0) out.own.push_back({product({held, (1 + r.matrices()) * r.rank})});
  if (r.router_rank > 0) out.own.push_back({product({shape[0], r.router_rank})});
  out.remade = activations_of(r, size);
  out.keeps_input = true;
  return out;
}

}  // namespace

void register_experts(Registry<LayerType>& registry) {
  registry.add({"experts", "mixture of experts: each token passes through some of many feed-forward networks",
                experts});
}

}  // namespace tandem::models
