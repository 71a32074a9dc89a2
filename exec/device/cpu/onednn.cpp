// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cpu/onednn.h"

#ifdef TANDEM_HAS_ONEDNN
#include <fmt/format.h>

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#endif

#ifdef _OPENMP
#include <omp.h>
#endif

namespace tandem::exec::cpu {

void set_threads([[maybe_unused]] int threads) {
#ifdef _OPENMP
  omp_set_num_threads(threads);
#endif
}

#ifndef TANDEM_HAS_ONEDNN

std::optional<Prepared> onednn_conv(const Call&, int) { return std::nullopt; }
void prepare_onednn() {}
std::string onednn_version() { return ""; }

#else

namespace {

using dnnl::memory;
using Tag = memory::format_tag;
constexpr auto kFloat = memory::data_type::f32;

dnnl::engine& engine() {
  static dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

/// What oneDNN is told of a convolution: two spatial dimensions, or three where depth matters.
struct Geometry {
  memory::dims x, y, w, stride, dilation, before, after;
  Tag image, weights;
  bool transposed;

  explicit Geometry(const Call& c) {
    const ConvShape s = ConvShape::unpack({c.shape.begin(), c.shape.end() - 1});
    const bool last = c.shape.back() != 0, deep = s.in[0] > 1 || s.out[0] > 1 || s.kernel[0] > 1;
    transposed = s.transposed;
    x = {s.batch, s.in_channels};
    y = {s.batch, s.out_channels};
    if (s.groups > 1) w = {s.groups};
    w.push_back(s.out_channels / s.groups);
    w.push_back(s.in_channels / s.groups);
    for (std::size_t d = deep ? 0 : 1; d < 3; ++d) {
      x.push_back(s.in[d]);
      y.push_back(s.out[d]);
      w.push_back(s.kernel[d]);
      stride.push_back(s.stride[d]);
      dilation.push_back(s.dilation[d] - 1);
      before.push_back(s.pad[d]);
      const int64_t reach = (s.kernel[d] - 1) * s.dilation[d] + 1;
      // What the last window needs beyond the input; negative where it does not reach the end.
      const int64_t slid = s.transposed ? s.in[d] : s.out[d], over = s.transposed ? s.out[d] : s.in[d];
      after.push_back((slid - 1) * s.stride[d] + reach - over - s.pad[d]);
    }
    image = last ? (deep ? Tag::ndhwc : Tag::nhwc) : (deep ? Tag::ncdhw : Tag::nchw);
    weights = s.groups > 1 ? (deep ? Tag::gdhwio : Tag::ghwio) : (deep ? Tag::odhwi : Tag::ohwi);
    if (s.groups > 1) weights = deep ? Tag::abdefc : Tag::abdec;  // {groups, out, kernel..., in}
  }
};

#if DNNL_VERSION_MAJOR >= 3
template <typename P, typename... A>
typename P::primitive_desc describe(A&&... arguments) {
  return typename P::primitive_desc(engine(), std::forward<A>(arguments)...);
}
#else
template <typename P, typename... A>
typename P::primitive_desc describe_forward(A&&... arguments) {
  return typename P::primitive_desc(typename P::desc(std::forward<A>(arguments)...), engine());
}
template <typename P, typename H, typename... A>
typename P::primitive_desc describe_backward(const H& hint, A&&... arguments) {
  return typename P::primitive_desc(typename P::desc(std::forward<A>(arguments)...), engine(), hint);
}
#endif

/// A primitive with its memory objects; weights are brought to and from oneDNN's own order where it wants
/// one.
class Conv {
 public:
  template <typename Descriptor, typename Primitive>
  Conv(const Descriptor& d, const Primitive& primitive, const memory::desc& plain, bool makes_weights,
       int weights_slot, const std::vector<std::pair<int, memory::desc> >& operands,
       const std::vector<int>& order)
      : stream_(engine()), primitive_(primitive), makes_weights_(makes_weights), order_(order) {
    const memory::desc inner = makes_weights ? d.diff_weights_desc() : d.weights_desc();
    for (const auto& [slot, desc] : operands) arguments_.emplace(slot, memory(desc, engine(), nullptr));
    plain_ = memory(plain, engine(), nullptr);
    weights_slot_ = weights_slot;
    if (inner != plain) {
      inner_ = memory(inner, engine());
      arguments_.emplace(weights_slot, inner_);
      reorder_ = makes_weights ? dnnl::reorder(inner_, plain_) : dnnl::reorder(plain_, inner_);
      reorders_ = true;
    } else {
      arguments_.emplace(weights_slot, plain_);
    }
    memory::desc pad = d.scratchpad_desc();
    if (pad.get_size() > 0) arguments_.emplace(DNNL_ARG_SCRATCHPAD, memory(pad, engine()));
  }

  void run(std::span<float* const> o) {
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (order_[i] == weights_slot_)
        plain_.set_data_handle(o[i]);
      else
        arguments_.at(order_[i]).set_data_handle(o[i]);
    }
    if (reorders_ && !makes_weights_) reorder_.execute(stream_, plain_, inner_);
    primitive_.execute(stream_, arguments_);
    if (reorders_ && makes_weights_) reorder_.execute(stream_, inner_, plain_);
    stream_.wait();
  }

 private:
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  dnnl::reorder reorder_;
  memory plain_, inner_;
  bool makes_weights_, reorders_ = false;
  int weights_slot_ = 0;
  std::vector<int> order_;  ///< oneDNN's name of each operand
  std::unordered_map<int, memory> arguments_;
};

/// Forward is convolution_forward or deconvolution_forward, and so on.
template <typename Forward, typename Data, typename Weights>
std::shared_ptr<Conv> make(const Call& c, const Geometry& g, dnnl::algorithm algorithm) {
  const memory::desc x(g.x, kFloat, g.image), y(g.y, kFloat, g.image), plain(g.w, kFloat, g.weights),
      any(g.w, kFloat, Tag::any), bias({g.y[1]}, kFloat, Tag::a);
  const auto kind = dnnl::prop_kind::forward_training;
  const bool has_bias = c.function == Function::conv && c.operands.size() > 3;
#if DNNL_VERSION_MAJOR >= 3
  const auto forward =
      has_bias ? describe<Forward>(kind, algorithm, x, any, bias, y, g.stride, g.dilation, g.before, g.after)
               : describe<Forward>(kind, algorithm, x, any, y, g.stride, g.dilation, g.before, g.after);
#else
  const auto forward = has_bias ? describe_forward<Forward>(kind, algorithm, x, any, bias, y, g.stride,
                                                            g.dilation, g.before, g.after)
                                : describe_forward<Forward>(kind, algorithm, x, any, y, g.stride, g.dilation,
                                                            g.before, g.after);
#endif
  if (c.function == Function::conv) {
    std::vector<std::pair<int, memory::desc> > operands{{DNNL_ARG_DST, y}, {DNNL_ARG_SRC, x}};
    std::vector<int> order{DNNL_ARG_DST, DNNL_ARG_SRC, DNNL_ARG_WEIGHTS};
    if (has_bias) {
      operands.emplace_back(DNNL_ARG_BIAS, bias);
      order.push_back(DNNL_ARG_BIAS);
    }
    return std::make_shared<Conv>(forward, Forward(forward), plain, false, DNNL_ARG_WEIGHTS, operands, order);
  }
  if (c.function == Function::conv_backward_data) {
#if DNNL_VERSION_MAJOR >= 3
    const auto d = describe<Data>(algorithm, x, any, y, g.stride, g.dilation, g.before, g.after, forward);
#else
    const auto d =
        describe_backward<Data>(forward, algorithm, x, any, y, g.stride, g.dilation, g.before, g.after);
#endif
    return std::make_shared<Conv>(
        d, Data(d), plain, false, DNNL_ARG_WEIGHTS,
        std::vector<std::pair<int, memory::desc> >{{DNNL_ARG_DIFF_SRC, x}, {DNNL_ARG_DIFF_DST, y}},
        std::vector<int>{DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS});
  }
#if DNNL_VERSION_MAJOR >= 3
  const auto d = describe<Weights>(algorithm, x, any, y, g.stride, g.dilation, g.before, g.after, forward);
#else
  const auto d =
      describe_backward<Weights>(forward, algorithm, x, any, y, g.stride, g.dilation, g.before, g.after);
#endif
  return std::make_shared<Conv>(
      d, Weights(d), plain, true, DNNL_ARG_DIFF_WEIGHTS,
      std::vector<std::pair<int, memory::desc> >{{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, y}},
      std::vector<int>{DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_SRC, DNNL_ARG_DIFF_DST});
}

}  // namespace

void prepare_onednn() {
  static const bool ready = [] {
    const dnnl::stream first(engine());
    const memory::desc any({1, 1}, kFloat, Tag::any), plain({1, 1}, kFloat, Tag::ab);
#if DNNL_VERSION_MAJOR >= 3
    const auto product = describe<dnnl::matmul>(plain, any, plain);
    const dnnl::matmul made(product);
#else
    const dnnl::matmul::primitive_desc product(dnnl::matmul::desc(plain, any, plain), engine());
    const dnnl::matmul made(product);
#endif
    const float one = 1;
    float out = 0;
    return dnnl::sgemm('N', 'N', 1, 1, 1, 1, &one, 1, &one, 1, 0, &out, 1) == dnnl::status::success && made;
  }();
  static_cast<void>(ready);
}

std::optional<Prepared> onednn_conv(const Call& c, int threads) {
  prepare_onednn();
  set_threads(threads);
  try {
    const Geometry g(c);
    const auto conv =
        g.transposed ? make<dnnl::deconvolution_forward, dnnl::deconvolution_backward_data,
                            dnnl::deconvolution_backward_weights>(c, g, dnnl::algorithm::deconvolution_direct)
                     : make<dnnl::convolution_forward, dnnl::convolution_backward_data,
                            dnnl::convolution_backward_weights>(c, g, dnnl::algorithm::convolution_direct);
    return [conv](std::span<float* const> o, const IterationState&) { conv->run(o); };
  } catch (const dnnl::error&) {
    return std::nullopt;  // a shape that it does not have: our own kernel does
  }
}

std::string onednn_version() {
  const auto* v = dnnl::version();
  return fmt::format("oneDNN {}.{}.{}", v->major, v->minor, v->patch);
}

void sgemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
           int64_t ldb, float beta, float* c, int64_t ldc, float alpha) {
  dnnl::sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

#endif

}  // namespace tandem::exec::cpu
