// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts. Tokens are put in the order of their experts, where these are dealt over devices they
// travel there and back, and each expert multiplies the rows that it has. Devices that have a part of each
// expert and of the sequence take each other's tokens, and what comes back is the sum of what all make of
// them. Outputs are weighted where tokens come from, so that the router's gradient is made there.
#include <algorithm>

#include "exec/lower/call_shapes.h"
#include "exec/lower/passes/calls.h"

namespace tandem::exec {

namespace {

/// The kernels of a pass in the model's order (models/layers/experts.cpp): those that put tokens in order
/// once more after an exchange are left out, since whoever takes tokens puts them where they belong.
class KernelsInOrder {
 public:
  explicit KernelsInOrder(const std::vector<Kernel>& all, bool sorts) : all_(all), sorts_(sorts) {}
  std::vector<Kernel> next(std::size_t count = 1) {
    std::vector<Kernel> out;
    for (; count > 0 && at_ < all_.size(); --count) out.push_back(all_[at_++]);
    return out;
  }
  void sort() { at_ += sorts_ ? 1 : 0; }

 private:
  const std::vector<Kernel>& all_;
  bool sorts_;
  std::size_t at_ = 0;
};

/// Tensors and sizes of one layer while its calls are written.
class Experts {
 public:
  explicit Experts(LayerCalls& l) : l_(l), attributes_(l.layer().attributes) {
    const Shape& shape = l.shape(0);
    hidden_ = shape[1];
    rows_ = l.batch() * shape[0];
    count_ = attributes_.integer("count");
    active_ = attributes_.integer("active");
    bias_ = attributes_.boolean("bias", false);
    const Kernel& into = expert_kernel();
    own_ = into.shape[0];
    feed_ = into.shape[2];
    dealt_ = count_ / own_;
    const double capacity = l.sharing().capacity;
    if (capacity > 0)
      capacity_ = static_cast<int64_t>(
          std::ceil(capacity * static_cast<double>(rows_ * active_) / static_cast<double>(count_)));
    routed_ = capacity_ > 0 ? count_ * capacity_ : rows_ * active_;
    most_ = capacity_ > 0 ? routed_ : dealt_ * rows_ * std::min(active_, own_);
    sums_ = l.lowered().output_join == Join::sum;
    const auto& exchanges = l.lowered().forward_exchanges;
    gathers_ = std::any_of(exchanges.begin(), exchanges.end(),
                           [](const Exchange& e) { return e.kind == Exchange::Kind::gather; });
    sources_ = gathers_ ? l.partners() : dealt_;
    worked_ = gathers_ ? l.partners() * most_ : most_;
  }

  void build() {
    if (!attributes_.boolean("gated", true) || attributes_.boolean("score_bias", false))
      refuse("without a gate, or whose scores have a learned bias, are only simulated");
    if (l_.inputs() > 1) refuse("whose router reads something else are only simulated");
    if (attributes_.integer("adapter_rank", 0, 0) > 0 || attributes_.integer("router_rank", 0, 0) > 0)
      refuse("with adapters are only simulated");
    if ((dealt_ > 1 || parts()) && l_.learns() && !l_.needs_d_in(0))
      refuse("that devices divide and that read what is not learned are only simulated");
    forward();
    if (!l_.learns() && !l_.needs_d_in(0)) return;
    backward();
    if (l_.learns()) weights();
  }

 private:
  [[noreturn]] void refuse(const char* what) const {
    throw InputError(l_.layer().attributes.place(), std::string("experts ") + what);
  }
  bool parts() const { return sums_ || gathers_; }
  bool sorts() const { return dealt_ > 1 && own_ > 1; }
  /// The first product of the experts: {experts here, rows each, inner features, width}.
  const Kernel& expert_kernel() const {
    const auto& all = l_.lowered().forward;
    return *std::find_if(all.begin() + 1, all.end(),
                         [](const Kernel& k) { return k.kind == KernelKind::gemm; });
  }
  std::vector<int64_t> route_shape() const {
    const auto score =
        attributes_.boolean("sigmoid", false) ? RouteShape::Score::sigmoid : RouteShape::Score::softmax;
    return {rows_,
            count_,
            active_,
            capacity_,
            static_cast<int64_t>(score),
            attributes_.boolean("normalized", true) ? 1 : 0};
  }
  std::vector<float> scale() const {
    return {static_cast<float>(attributes_.integer("scale_percent", 100)) / 100};
  }
  /// Kernels of the model's limits, in each pass.
  std::size_t limits() const { return attributes_.real("limit", 0) > 0 ? 3 : 0; }
  std::vector<float> limit() const { return {static_cast<float>(attributes_.real("limit", 0))}; }
  std::vector<int64_t> dispatch_shape() const {
    return {rows_, active_, hidden_, capacity_ > 0 ? routed_ : 0};
  }
  std::vector<int64_t> groups(std::initializer_list<int64_t> more) const {
    std::vector<int64_t> out{own_, sources_, worked_};
    out.insert(out.end(), more);
    return out;
  }
  void call(Function f, Pass pass, std::vector<TensorId> operands, std::vector<int64_t> shape,
            std::vector<Kernel> kernels, std::vector<float> scalars = {}) {
    l_.call(
        make_call(f, pass, std::move(operands), std::move(shape), std::move(kernels), std::move(scalars)));
  }

  /// To the experts' devices (`back`: from them): the tensor in which the tokens then are.
  TensorId travel(Pass pass, TensorId from, bool back) {
    if (back) from = gather(pass, from, true);
    if (dealt_ > 1) {
      const TensorId to = l_.keep((back ? routed_ : most_) * hidden_);
      l_.exchange(pass, {from, to, 0, counts_, dealt_to_, back});
      from = to;
    }
    return back ? from : gather(pass, from, false);
  }
  /// From all that have a part of these experts (`back`: what they made of this one's tokens, summed).
  TensorId gather(Pass pass, TensorId from, bool back) {
    if (!gathers_) return from;
    const TensorId to = l_.keep((back ? most_ : worked_) * hidden_);
    l_.exchange(pass, {from, to, 0, dealt_to_, arrived_, back});
    return to;
  }

  /// One of the products of the experts.
  void multiply(Pass pass, TensorId c, TensorId a, TensorId b, int64_t n, int64_t k, bool transposed,
                bool adds, std::vector<Kernel> kernels, TensorId bias = kNoTensor, int64_t bias_row = 0,
                int64_t bias_at = 0) {
    std::vector<TensorId> operands{c, a, b, arrived_};
    if (bias != kNoTensor) operands.push_back(bias);
    call(Function::expert_gemm, pass, std::move(operands),
         groups({n, k, transposed ? 1 : 0, adds ? 1 : 0, bias_row, bias_at}), std::move(kernels));
  }

  void forward() {
    KernelsInOrder kernels(l_.lowered().forward, sorts());
    const Pass pass = Pass::forward;
    router_ = l_.parameter(0, lecun_bound(hidden_));
    gate_weight_ = l_.parameter(1, he_bound(hidden_));
    up_weight_ = l_.parameter(2, lecun_bound(hidden_));
    down_weight_ = l_.parameter(3, lecun_bound(feed_ * (parts() ? l_.partners() : 1)));
    logits_ = l_.keep(rows_ * count_);
    scores_ = l_.keep(rows_ * count_);
    route_weights_ = l_.keep(rows_ * active_);
    for (TensorId* t : {&choices_, &places_}) *t = l_.keep_integers(rows_ * active_);
    counts_ = l_.keep_integers(count_);
    dealt_to_ = dealt_ > 1 ? l_.keep_integers(dealt_ * own_) : counts_;
    arrived_ = gathers_ ? l_.keep_integers(sources_ * own_) : dealt_to_;
    std::vector<TensorId> into{logits_, l_.in(0), router_};
    if (bias_) into.push_back(l_.parameter(4, 0));
    call(Function::gemm, pass, into, {rows_, count_, hidden_, 0, 0, 0}, kernels.next());
    call(Function::route, pass, {route_weights_, choices_, places_, counts_, scores_, logits_}, route_shape(),
         kernels.next(), scale());
    const TensorId sorted = l_.keep(routed_ * hidden_);
    call(Function::dispatch, pass, {sorted, l_.in(0), places_}, dispatch_shape(), kernels.next());
    taken_ = travel(pass, sorted, false);
    kernels.sort();
    for (TensorId* t : {&gate_, &up_, &inner_}) *t = l_.keep(worked_ * feed_);
    const TensorId biases = bias_ ? l_.parameter(5, 0) : kNoTensor;
    multiply(pass, gate_, taken_, gate_weight_, feed_, hidden_, false, false, kernels.next(), biases,
             2 * feed_, 0);
    multiply(pass, up_, taken_, up_weight_, feed_, hidden_, false, false, kernels.next(), biases, 2 * feed_,
             feed_);
    call(Function::gate, pass, {inner_, gate_, up_, arrived_}, groups({feed_}), kernels.next(limits() + 2),
         limit());
    const TensorId made = l_.keep(worked_ * hidden_);
    // Of the devices that each make a part of the sum one adds the bias.
    const bool adds = bias_ && (!parts() || l_.partner() == 0);
    multiply(pass, made, inner_, down_weight_, hidden_, feed_, false, false, kernels.next(bias_ ? 4 : 1),
             adds ? l_.parameter(6, 0) : kNoTensor, hidden_, 0);
    if (bias_ && !adds) l_.parameter(6, 0);
    kernels.sort();
    returned_ = travel(pass, made, true);
    call(Function::combine, pass, {l_.out(), returned_, places_, route_weights_}, dispatch_shape(),
         kernels.next());
  }

  void backward() {
    KernelsInOrder kernels(l_.lowered().backward_data, sorts());
    const Pass pass = Pass::backward_data;
    const TensorId spread = l_.scratch(routed_ * hidden_), d_weights = l_.scratch(rows_ * active_);
    call(Function::combine_backward, pass,
         {spread, d_weights, l_.d_out(), returned_, places_, route_weights_}, dispatch_shape(),
         kernels.next());
    d_made_ = travel(pass, spread, false);
    kernels.sort();
    const TensorId d_inner = l_.scratch(worked_ * feed_);
    for (TensorId* t : {&d_gate_, &d_up_}) *t = l_.scratch(worked_ * feed_);
    multiply(pass, d_inner, d_made_, down_weight_, feed_, hidden_, true, false, kernels.next(bias_ ? 5 : 1));
    call(Function::gate_backward, pass, {d_gate_, d_up_, d_inner, gate_, up_, arrived_}, groups({feed_}),
         kernels.next(2 + limits()), limit());
    d_logits_ = l_.scratch(rows_ * count_);
    TensorId d_in = kNoTensor;
    if (l_.needs_d_in(0)) {
      const TensorId d_taken = l_.scratch(worked_ * hidden_);
      multiply(pass, d_taken, d_gate_, gate_weight_, hidden_, feed_, true, false, kernels.next());
      multiply(pass, d_taken, d_up_, up_weight_, hidden_, feed_, true, true, kernels.next());
      kernels.sort();
      const TensorId returned = travel(pass, d_taken, true);
      d_in = l_.d_in(0);
      call(Function::combine, pass, {d_in, returned, places_}, dispatch_shape(), kernels.next());
    }
    call(Function::route_backward, pass, {d_logits_, d_weights, choices_, scores_}, route_shape(),
         kernels.next(), scale());
    const TensorId partial = d_logits_;
    if (sums_) {
      // Each partner knows its part of the outputs alone: the router's weights need the sum, its input's
      // gradient is summed by whoever reads it.
      d_logits_ = l_.scratch(rows_ * count_);
      call(Function::copy, pass, {d_logits_, partial}, {rows_ * count_}, {});
      l_.exchange(pass, {d_logits_, d_logits_});
    }
    if (l_.needs_d_in(0))
      call(Function::gemm, pass, {d_in, partial, router_}, {rows_, hidden_, count_, 0, 1, 1}, kernels.next());
  }

  void weights() {
    const auto& all = l_.lowered().backward_weights;
    KernelsInOrder kernels(all, false);
    const Pass pass = Pass::backward_weights;
    call(Function::expert_gemm_weights, pass, {l_.gradient(3), inner_, d_made_, arrived_},
         groups({hidden_, feed_}), kernels.next());
    call(Function::expert_gemm_weights, pass, {l_.gradient(1), taken_, d_gate_, arrived_},
         groups({feed_, hidden_}), kernels.next());
    call(Function::expert_gemm_weights, pass, {l_.gradient(2), taken_, d_up_, arrived_},
         groups({feed_, hidden_}), kernels.next());
    call(Function::gemm, pass, {l_.gradient(0), l_.in(0), d_logits_}, {hidden_, count_, rows_, 1, 0, 0},
         kernels.next());
    if (!bias_) return;
    call(Function::column_sum, pass, {l_.gradient(4), d_logits_}, {rows_, count_}, kernels.next());
    call(Function::expert_column_sum, pass, {l_.gradient(5), d_gate_, arrived_},
         groups({feed_, 2 * feed_, 0}), {});
    call(Function::expert_column_sum, pass, {l_.gradient(5), d_up_, arrived_},
         groups({feed_, 2 * feed_, feed_}), {});
    call(Function::expert_column_sum, pass, {l_.gradient(6), d_made_, arrived_},
         groups({hidden_, hidden_, 0}), {});
  }

  LayerCalls& l_;
  const Attributes attributes_;
  int64_t hidden_, rows_, count_, active_, own_, feed_, dealt_;
  int64_t capacity_ = 0;      ///< places of an expert for each device's tokens; 0: as many as come
  int64_t routed_, most_;     ///< tokens that this device sends, and may be sent by those with other experts
  int64_t sources_, worked_;  ///< devices whose tokens come together last, and tokens that may come
  bool bias_, sums_, gathers_;  ///< partners with a part of each expert have the same tokens, or others
  TensorId router_, gate_weight_, up_weight_, down_weight_;
  TensorId logits_, scores_, route_weights_, choices_, places_;
  /// Tokens for each expert: of this device, of those with other experts, and of all that it works on, as
  /// ExchangedTensors has them.
  TensorId counts_, dealt_to_, arrived_;
  TensorId taken_, gate_, up_, inner_, returned_;
  TensorId d_made_, d_gate_, d_up_, d_logits_;
};

void experts(LayerCalls& l) { Experts(l).build(); }

}  // namespace

void register_experts(Registry<LayerExecution>& registry) {
  registry.add({"experts", "tokens in the experts' order; a gemm for each expert's rows", experts});
}

}  // namespace tandem::exec
