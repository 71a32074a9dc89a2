// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts (Shazeer et al. 2017; Jiang et al. 2024, Mixtral): a router sends each token to
// `active` of `count` gated feed-forward networks and adds up what they return, weighted. All experts get as
// many tokens. Over several devices as in Megatron-Core and DeepSpeed-MoE: experts are dealt, tokens travel
// to theirs and back, and devices that share layers hold a part of each expert or whole ones of their own.
#include <fmt/format.h>

#include <cmath>

#include "models/layer.h"

namespace tandem::models {

namespace {

struct Routing {
  int64_t rows = 0;            ///< tokens of the batch that this device routes
  int64_t routed = 0;          ///< of these, once for each expert that takes them
  int64_t held = 0;            ///< what the experts of this device take
  int64_t each = 0;            ///< an expert of them, rounded up
  int64_t count = 0, own = 0;  ///< experts in all and on this device
  int64_t active = 0;          ///< of all, for each token
  int64_t feed = 0, hidden = 0;
  int64_t dealt = 1;     ///< devices that hold different experts
  bool gathers = false;  ///< partners bring their parts of the sequence together for their parts of experts
  bool sums = false;     ///< partners sum what their parts of experts make
  bool bias = false;
  bool drops = false;  ///< every expert takes as many tokens as its capacity, whatever the router says

  int64_t wide() const { return product({held, hidden}); }
  /// Behind an exchange tokens lie by where they came from, and are put in order once more.
  bool sorts() const { return dealt > 1 && own > 1; }
};

int64_t parts_of(int64_t count, int64_t parts) { return (count + parts - 1) / parts; }

/// Kernels of a pass, and what is exchanged between them.
class Writing {
 public:
  Writing(Pass pass, const Routing& routing, int64_t size) : pass_(pass), r_(routing), size_(size) {}
  void add(Kernel kernel) {
    kernel.routed = true;
    kernels.push_back(std::move(kernel));
  }
  void move(int64_t read, int64_t written) { add(copy_kernel(pass_, read, written, size_)); }
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

/// Of the gate, and its product with the other half.
std::vector<Kernel> activations_of(const Routing& r, int64_t size) {
  const int64_t inner = product({r.held, r.feed});
  return {elementwise(Pass::forward, inner, 1, size, 4), elementwise(Pass::forward, inner, 2, size)};
}

/// The products of all experts with one of their matrices are one kernel (grouped gemm, MegaBlocks).
Writing forward_of(const Routing& r, int64_t size) {
  const Pass pass = Pass::forward;
  const int64_t routed = product({r.routed, r.hidden});
  const Kernel into = gemm(pass, r.own, r.each, r.feed, r.hidden, size);
  Writing w(pass, r, size);
  w.add(gemm(pass, 1, r.rows, r.count, r.hidden, size));                   // router
  Kernel choice = elementwise(pass, product({r.rows, r.count}), 1, 4, 5);  // softmax, choice
  choice.counts = !r.drops;
  w.add(std::move(choice));
  w.move(routed, routed);  // to the experts' order
  w.to_experts();
  const std::vector<Kernel> activations = activations_of(r, size);
  w.add(into);  // gate
  w.add(activations[0]);
  w.add(into);  // up
  w.add(activations[1]);
  w.add(gemm(pass, r.own, r.each, r.hidden, r.feed, size));  // down
  w.from_experts();
  w.add(elementwise(pass, routed, 1, size, 2));  // weighted, back into order, summed
  return w;
}

Writing backward_of(const Routing& r, int64_t size) {
  const Pass pass = Pass::backward_data;
  const int64_t routed = product({r.routed, r.hidden}), inner = product({r.held, r.feed});
  const Kernel into = gemm(pass, r.own, r.each, r.hidden, r.feed, size);
  Writing w(pass, r, size);
  w.move(product({r.rows, r.hidden}), routed);
  w.to_experts();
  w.add(gemm(pass, r.own, r.each, r.feed, r.hidden, size));
  w.add(elementwise(pass, inner, 3, size, 2));
  w.add(elementwise(pass, inner, 2, size, 6));
  w.add(into);
  w.add(into);
  w.from_experts();
  w.add(elementwise(pass, routed, 1, size));
  w.add(elementwise(pass, product({r.rows, r.count}), 2, 4, 4));
  w.add(gemm(pass, 1, r.rows, r.hidden, r.count, size));
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
    in.attributes.fail(fmt::format("{} experts do not divide over {} devices", r.count, r.dealt));
  r.own = r.count / r.dealt;
  if (parts) r.feed = in.part(r.feed, "inner features of an expert");
  r.gathers = parts && in.sequence;
  r.sums = parts && !in.sequence;
}

Routing routing_of(const LayerInput& in, const Shape& shape) {
  Routing r;
  r.hidden = shape[1];
  r.count = in.attributes.integer("count");
  r.feed = in.attributes.integer("feed");
  r.bias = in.attributes.boolean("bias", false);
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
  out.parameters = {{"router", product({r.hidden, r.count})},
                    {"gate", matrix, true},
                    {"up", matrix, true},
                    {"down", matrix, true}};
  if (!r.bias) return;
  out.parameters.push_back({"router_bias", r.count});
  out.parameters.push_back({"gate_up_bias", product({r.own, 2, r.feed}), true});
  out.parameters.push_back({"down_bias", product({r.own, r.hidden}), true});
}

Lowered experts(const LayerInput& in) {
  const Shape& shape = in.only(2);
  if (shape.size() != 2) in.attributes.fail(fmt::format("takes {{time, width}}, not {}", to_text(shape)));
  const Routing r = routing_of(in, shape);
  const int64_t size = in.element_size();
  Writing forward = forward_of(r, size), backward = backward_of(r, size);
  Lowered out;
  out.output = shape;
  out.forward = std::move(forward.kernels);
  out.backward_data = std::move(backward.kernels);
  out.forward_exchanges = std::move(forward.exchanges);
  out.backward_exchanges = std::move(backward.exchanges);
  out.backward_weights = {gemm(Pass::backward_weights, r.own, r.feed, r.hidden, r.each, size),
                          gemm(Pass::backward_weights, r.own, r.hidden, r.feed, r.each, size),
                          gemm(Pass::backward_weights, r.own, r.hidden, r.feed, r.each, size),
                          gemm(Pass::backward_weights, 1, r.hidden, r.count, r.rows, size)};
  if (r.bias)
    out.backward_weights.push_back(
        reduction(Pass::backward_weights, product({r.held, r.hidden + 2 * r.feed}), r.own * r.hidden, size));
  add_parameters(r, out);
  if (r.sums) {
    out.input_join = Join::copy;
    out.output_join = Join::sum;
  }
  // The routed input; gate, its activation, up, their product; probabilities. Tokens are weighted in front of
  // the last product (Megatron-Core's weighted activations), so what leaves the experts need not stay.
  const int64_t held = parts_of(r.held, in.batch), wide = product({held, r.hidden}),
                inner = product({held, r.feed});
  constexpr auto kKept = OwnTensor::Life::kept;
  out.own = {{wide},
             {inner},
             {inner, 0, kKept, true},
             {inner},
             {inner, 0, kKept, true},
             {product({shape[0], r.count}), 4}};
  out.own[2].composed = true;
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
