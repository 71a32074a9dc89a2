// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention; scores are recomputed in the backward pass.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "exec/lower/call_shapes.h"
#include "exec/lower/gradient_flow.h"
#include "exec/lower/passes/calls.h"

namespace tandem::exec {

namespace {

/// Learned scores start small compared with the 1 that scores vary by.
constexpr float kScoreBound = 0.02F;

/// Vectors of `size` elements side by side in rows of a tensor {batch x time, row}, from `offset` on.
struct Vectors {
  int64_t time = 0, count = 0, size = 0, row = 0, offset = 0;
};

/// Packed {T, (heads + 2 kv heads) x head size}, or three tensors.
class Attention {
 public:
  explicit Attention(LayerCalls& l) : l_(l), w_(l.lowered()), attributes_(l.layer().attributes) {
    const auto kernel = std::find_if(w_.forward.begin(), w_.forward.end(),
                                     [](const Kernel& k) { return k.kind == KernelKind::attention; });
    // {batch, heads, kv heads, query, key, head size, causal}: of the model's own kernel.
    shape_ = kernel->shape;
    shape_.resize(7);  // up to `causal`: whether scores are kept is the backend's own choice
    packed_ = l.inputs() == 1;
    const int64_t heads = shape_[1], kv = shape_[2], size = shape_[5], all = (heads + 2 * kv) * size;
    queries_ = {shape_[3], heads, size, packed_ ? all : heads * size, 0};
    keys_ = {shape_[4], kv, size, packed_ ? all : kv * size, packed_ ? heads * size : 0};
    shape_.insert(shape_.end(),
                  {queries_.row, keys_.row, 0, keys_.offset, packed_ ? (heads + kv) * size : 0});
    rotary_ = attributes_.boolean("rotary", false);
    norms_ = attributes_.boolean("qk_norm", false);
    if (attributes_.text("qk_norm_over", "head") != "head" || !attributes_.boolean("qk_norm_affine", true) ||
        attributes_.boolean("qk_norm_bias", false))
      refuse("with norms of queries and keys other than of each head with one scale is only simulated");
    const bool other_values =
        attributes_.boolean("keys_as_values", false) || attributes_.boolean("shared_keys", false) ||
        attributes_.boolean("value_norm", false) || attributes_.integer("v_head_dim", size) != size;
    if (other_values) refuse("with values that are keys too, normed or of another width is only simulated");
    sinks_ = attributes_.boolean("sinks", false);
    buckets_ = attributes_.integer("bias_buckets", 0, 0);
    if (attributes_.integer("relative", 0, 0) > 0) refuse("with relative positions is only simulated");
    const int64_t grid = attributes_.integer("grid", 0);
    if (grid > 0)
      see_windows(grid);
    else if (attributes_.integer("window", 0, 0) > 0 || buckets_ > 0)
      limit();
    if ((sinks_ || buckets_ > 0) && contexts() > 1)
      refuse("with learned scores over a sequence that devices divide is only simulated");
  }

  void build() {
    TensorId q = l_.in(0), k = l_.in(packed_ ? 0 : 1);
    const TensorId v = l_.in(packed_ ? 0 : 2), log_sums = l_.keep(shape_[0] * shape_[1] * shape_[3]);
    if (rotary_ || norms_) {
      const TensorId tq = l_.keep(rows(queries_) * queries_.row, true),
                     tk = packed_ ? tq : l_.keep(rows(keys_) * keys_.row, true);
      if (norms_) {
        normed_[1] = norm(tk, k, true);  // the model's order
        normed_[0] = norm(tq, q, false);
      }
      if (rotary_) {
        turn(Pass::forward, tq, norms_ ? tq : q, false, {w_.forward.at(first_kernel() + (norms_ ? 2 : 0))});
        turn(Pass::forward, tk, norms_ ? tk : k, true, {});
      }
      q = tq;
      k = tk;
    }
    if (contexts() > 1)
      ring(q, k, v, log_sums);
    else
      attend(q, k, v, log_sums);
    const bool needed = l_.needs_d_in(0) || (!packed_ && (l_.needs_d_in(1) || l_.needs_d_in(2)));
    if (!needed && !learns()) return;
    const TensorId dq = gradient(0), dk = packed_ ? dq : gradient(1), dv = packed_ ? dq : gradient(2);
    const auto& kernels = w_.backward_data;  // none where nothing before it learns
    const auto kernel = [&](std::size_t i) {
      return i < kernels.size() ? std::vector<Kernel>{kernels[i]} : std::vector<Kernel>{};
    };
    std::size_t next = 1;  // of the kernels
    if (contexts() > 1) {
      next = ring_backward({dq, dk, dv}, q, log_sums);
    } else {
      attend_backward({dq, dk, dv, q, k, v, l_.out(), l_.d_out(), log_sums}, kernel(0));
    }
    if (rotary_) {
      turn(Pass::backward_data, dq, dq, false, kernel(next));
      turn(Pass::backward_data, dk, dk, true, {});
    }
    if (!norms_) return;
    const std::size_t first = next + (rotary_ ? 1 : 0);
    norm_backward(dq, false, kernel(first));
    norm_backward(dk, true, kernel(first + 1));
  }

 private:
  /// What the backward pass of a norm needs.
  struct Normed {
    TensorId plain = kNoTensor, statistics = kNoTensor, scale = kNoTensor;
  };
  const Vectors& vectors(bool keys) const { return keys ? keys_ : queries_; }
  int64_t rows(const Vectors& v) const { return shape_[0] * v.time; }
  int64_t elements_of(const Vectors& v) const { return rows(v) * v.count * v.size; }
  bool learns() const { return (norms_ || sinks_ || buckets_ > 0) && l_.learns(); }
  void call(Function f, Pass pass, std::vector<TensorId> operands, std::vector<int64_t> shape,
            std::vector<Kernel> kernels, std::vector<float> scalars = {}) {
    l_.call(
        make_call(f, pass, std::move(operands), std::move(shape), std::move(kernels), std::move(scalars)));
  }
  TensorId gradient(std::size_t i) {
    return l_.needs_d_in(i) ? l_.d_in(i) : l_.scratch(l_.batch() * elements(l_.shape(i)), true);
  }
  /// In the forward pass by their positions, in the backward pass back.
  void turn(Pass pass, TensorId to, TensorId from, bool keys, std::vector<Kernel> kernels) {
    const Vectors& v = vectors(keys);
    const int64_t chunks = contexts() > 1 ? 2 : 1, time = v.time / chunks;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      std::vector<int64_t> shape{shape_[0],
                                 time,
                                 v.count,
                                 v.size,
                                 v.row,
                                 v.offset + chunk * time * v.row,
                                 pass == Pass::forward ? 0 : 1};
      if (chunks > 1)
        shape.insert(shape.end(),
                     {v.time, position_in_sequence(chunk * time, v.time, l_.context(), contexts())});
      call(Function::rotary, pass, {to, from}, std::move(shape), std::move(kernels));
      kernels.clear();
    }
  }

  // ---- what queries do not see, and learned scores (models/layers/attention.cpp) ----

  [[noreturn]] void refuse(const std::string& why) const {
    throw InputError(l_.layer().attributes.place(), "attention " + why);
  }
  /// The rest of the shape: the model's kernel counts the keys of a window alone.
  void limit() {
    const int64_t window = attributes_.integer("window", 0, 0);
    const bool causal = attributes_.boolean("causal", false);
    if (window > 0 && !causal) refuse("with a window that is not causal is only simulated");
    if (buckets_ > DistanceBuckets::kMost || (buckets_ == 1 && !causal))
      refuse(
          fmt::format("is executed with 2 to {} \"bias_buckets\", not {}", DistanceBuckets::kMost, buckets_));
    keys_.time = shape_[4] = l_.shape(packed_ ? 0 : 1)[0];
    if (window > 0 && keys_.time != queries_.time)
      refuse("with a window is executed where there are as many keys as queries");
    shape_[6] = causal ? 1 : 0;
    shape_.insert(shape_.end(), {queries_.time, keys_.time, queries_.time, 0, window, buckets_});
  }
  /// Windows of an image, as many down as across.
  void see_windows(int64_t grid) {
    const int64_t side = 2 * grid - 1, parts = attributes_.integer("parts", 1);
    buckets_ = side * side;
    shape_.insert(shape_.end(), {queries_.time, keys_.time, queries_.time, 0, 0, buckets_, grid,
                                 std::llround(std::sqrt(static_cast<double>(parts))),
                                 attributes_.boolean("shifted", false) ? grid / 2 : 0});
  }
  /// Of the model's forward kernels that of the bias comes first.
  std::size_t first_kernel() const { return buckets_ > 0 ? 1 : 0; }
  std::size_t sinks_index() const { return norms_ ? 2 : 0; }
  std::size_t bias_index() const { return sinks_index() + (sinks_ ? 1 : 0); }
  std::vector<int64_t> sinks_shape() const { return {shape_[0], shape_[1], shape_[3], shape_[5]}; }

  void attend(TensorId q, TensorId k, TensorId v, TensorId log_sums) {
    std::vector<TensorId> operands{l_.out(), q, k, v, log_sums};
    std::vector<Kernel> kernels{w_.forward.back()};
    if (buckets_ > 0) {
      bias_ = l_.parameter(bias_index(), kScoreBound);
      operands.push_back(bias_);
      kernels.insert(kernels.begin(), w_.forward.front());
    }
    call(Function::attention, Pass::forward, std::move(operands), shape_, std::move(kernels));
    if (!sinks_) return;
    sinks_of_ = l_.parameter(sinks_index(), kScoreBound);
    call(Function::attention_sinks, Pass::forward, {l_.out(), log_sums, sinks_of_}, sinks_shape(), {});
  }
  /// `operands`: of attention_backward, without the bias.
  void attend_backward(std::vector<TensorId> operands, std::vector<Kernel> kernels) {
    const TensorId out = operands[6], dout = operands[7], log_sums = operands[8];
    const std::vector<TensorId> read(operands.begin() + 3, operands.end());
    if (buckets_ > 0) operands.push_back(bias_);
    call(Function::attention_backward, Pass::backward_data, std::move(operands), shape_, std::move(kernels));
    if (!l_.learns()) return;
    const Pass pass = Pass::backward_weights;
    if (sinks_)
      call(Function::attention_sinks_backward, pass,
           {l_.gradient(sinks_index()), sinks_of_, log_sums, out, dout}, sinks_shape(), {});
    if (buckets_ == 0) return;
    std::vector<TensorId> of_bias{l_.gradient(bias_index())};
    of_bias.insert(of_bias.end(), read.begin(), read.end());
    of_bias.push_back(bias_);
    call(Function::attention_bias_backward, pass, std::move(of_bias), shape_, {w_.backward_weights.back()});
  }

  // ---- sequences that devices divide: keys and values go round (models/layers/attention.cpp) ----

  int64_t contexts() const { return l_.sharing().context; }
  int64_t width() const { return keys_.count * keys_.size; }  ///< of keys or values
  TensorId packed_keys() { return l_.scratch(rows(keys_) * 2 * width(), true); }
  /// Keys or values between their place and the packed ones, in which each row has its keys and then its
  /// values.
  void pack(Pass pass, TensorId packed, TensorId apart, bool values, std::vector<Kernel> kernels) {
    const std::vector<int64_t> there{keys_.row, 1}, here{2 * width(), 1};
    const int64_t at = values ? shape_[11] : keys_.offset, in = values ? width() : 0;
    const bool forward = pass == Pass::forward;
    l_.call(make_move(pass, forward ? packed : apart, forward ? apart : packed,
                      {{rows(keys_), width()},
                       {forward ? here : there, forward ? there : here},
                       {forward ? in : at, forward ? at : in},
                       false},
                      std::move(kernels)));
  }

  /// Queries of this device that see keys of another: with a causal mask all see the first chunk of an
  /// earlier one, and the second chunk sees both of a later one.
  struct Block {
    int64_t query = 0, key = 0, first = 0;
    bool causal = false;
  };
  Block block(int64_t owner) const {
    const int64_t own = l_.context(), all = queries_.time;
    if (shape_[6] == 0 || owner == own) return {all, all, 0, shape_[6] != 0};
    return owner < own ? Block{all, all / 2, 0, false} : Block{all / 2, all, all / 2, false};
  }
  /// Of attention to packed keys; `apart`: the output is the block's alone.
  std::vector<int64_t> block_shape(const Block& b, bool apart) const {
    const int64_t all = queries_.time;
    return {shape_[0],
            shape_[1],
            shape_[2],
            b.query,
            b.key,
            shape_[5],
            b.causal ? 1 : 0,
            queries_.row,
            2 * width(),
            queries_.offset + b.first * queries_.row,
            0,
            width(),
            all,
            all,
            apart ? b.query : all,
            apart ? 0 : b.first};
  }

  void ring(TensorId q, TensorId k, TensorId v, TensorId log_sums) {
    const Pass pass = Pass::forward;
    const int64_t n = contexts(), heads = shape_[1], size = shape_[5];
    auto kernel = w_.forward.begin() + (norms_ ? 2 : 0) + (rotary_ ? 1 : 0);
    std::vector<TensorId> keys{packed_keys()};
    pack(pass, keys[0], k, false, {*kernel++});
    pack(pass, keys[0], v, true, {});
    for (int64_t part = 1; part < n; ++part) {
      keys.push_back(packed_keys());
      l_.exchange(pass, {keys[keys.size() - 2], keys.back()});
    }
    call(Function::attention, pass, {l_.out(), q, k, v, log_sums}, shape_, {*kernel++});
    for (int64_t part = 1; part < n; ++part) {
      l_.await(pass, static_cast<std::size_t>(part - 1));
      const Block b = block((l_.context() - part + n) % n);
      const TensorId of = keys[static_cast<std::size_t>(part)],
                     out = l_.scratch(shape_[0] * b.query * heads * size, true),
                     sums = l_.scratch(shape_[0] * heads * b.query);
      call(Function::attention, pass, {out, q, of, of, sums}, block_shape(b, true), {*kernel++});
      call(Function::attention_merge, pass, {l_.out(), log_sums, out, sums},
           {shape_[0], heads, b.query, size, queries_.time, b.first}, {*kernel++});
    }
    kept_ = keys[1];
  }

  /// Begins with the keys that came first, so that the gradients, which follow one part later, end where
  /// their keys are. `made`: the gradients of q, k and v. Returns how many kernels these are.
  std::size_t ring_backward(const std::vector<TensorId>& made, TensorId q, TensorId log_sums) {
    const Pass pass = Pass::backward_data;
    const int64_t n = contexts(), all = rows(queries_) * queries_.row;
    auto kernel = w_.backward_data.begin();
    const auto begin = kernel;
    std::vector<TensorId> keys{kept_};
    for (int64_t part = 1; part < n; ++part) {
      keys.push_back(packed_keys());
      l_.exchange(pass, {keys[keys.size() - 2], keys.back()});
    }
    l_.call(make_fill(pass, made[0], all, 0));
    TensorId sum = kNoTensor;
    for (int64_t part = 0; part < n; ++part) {
      const auto waits = static_cast<std::size_t>(n - 1 + part - 1);
      const TensorId of = keys[static_cast<std::size_t>(part)], dq = l_.scratch(all, true), d = packed_keys(),
                     came = part > 0 ? packed_keys() : kNoTensor;
      if (part > 0) {
        l_.exchange(pass, {sum, came});
        l_.await(pass, static_cast<std::size_t>(part - 1));
      }
      const Block b = block((l_.context() - part - 1 + n) % n);
      if (b.key < keys_.time) l_.call(make_fill(pass, d, rows(keys_) * 2 * width(), 0));
      call(Function::attention_backward, pass, {dq, d, d, q, of, of, l_.out(), l_.d_out(), log_sums},
           block_shape(b, false), {*kernel++});
      if (part > 0) {
        l_.await(pass, waits);
        call(Function::sum, pass, {came, came, d}, {rows(keys_) * 2 * width()}, {*kernel++});
      }
      sum = part > 0 ? came : d;
      add_queries(made[0], dq, b);
    }
    pack(pass, sum, made[1], false, {*kernel++});
    pack(pass, sum, made[2], true, {});
    return static_cast<std::size_t>(kernel - begin);
  }
  void add_queries(TensorId to, TensorId from, const Block& b) {
    const int64_t row = queries_.row, offset = queries_.offset + b.first * row;
    const std::vector<int64_t> steps{queries_.time * row, row, 1};
    l_.call(make_move(
        Pass::backward_data, to, from,
        {{shape_[0], b.query, queries_.count * queries_.size}, {steps, steps}, {offset, offset}, true}));
  }

  /// Vectors of a packed tensor to a separate tensor, or back.
  void move(Pass pass, TensorId to, TensorId from, const Vectors& v, bool back) {
    const std::vector<int64_t> there{v.row, v.size, 1}, alone{v.count * v.size, v.size, 1};
    l_.call(make_move(pass, to, from,
                      {{rows(v), v.count, v.size},
                       {back ? there : alone, back ? alone : there},
                       {back ? v.offset : 0, back ? 0 : v.offset},
                       false}));
  }
  std::vector<int64_t> norm_shape(const Vectors& v) const { return {rows(v) * v.count, 1, 1, v.size, 1}; }

  /// Root mean squares of each head's vectors become 1 before these are turned (Henry et al. 2020; Qwen3).
  Normed norm(TensorId to, TensorId from, bool keys) {
    const Vectors& v = vectors(keys);
    Normed n{l_.keep(elements_of(v), true), l_.keep(rows(v) * v.count * 2), l_.parameter(keys ? 1 : 0, 0, 1)};
    const TensorId made = l_.scratch(elements_of(v), true);
    move(Pass::forward, n.plain, from, v, false);
    call(Function::row_norm, Pass::forward, {made, n.plain, n.statistics, n.scale}, norm_shape(v),
         {w_.forward.at(first_kernel() + (keys ? 0 : 1))}, {kNormEpsilon});
    move(Pass::forward, to, made, v, true);
    return n;
  }
  void norm_backward(TensorId gradient, bool keys, std::vector<Kernel> kernels) {
    const Vectors& v = vectors(keys);
    const Normed& n = normed_[keys ? 1 : 0];
    const TensorId d = l_.scratch(elements_of(v), true), made = l_.scratch(elements_of(v), true);
    const Pass pass = Pass::backward_data;
    move(pass, d, gradient, v, false);
    if (l_.learns())
      call(Function::row_norm_sums, Pass::backward_weights,
           {l_.gradient(keys ? 1 : 0), n.plain, d, n.statistics}, norm_shape(v),
           {w_.backward_weights.at(keys ? 1 : 0)});
    call(Function::row_norm_backward, pass, {made, n.plain, d, n.statistics, n.scale}, norm_shape(v),
         std::move(kernels));
    move(pass, gradient, made, v, true);
  }

  LayerCalls& l_;
  const Lowered& w_;
  const Attributes attributes_;
  std::vector<int64_t> shape_;
  Vectors queries_, keys_;
  Normed normed_[2];           ///< of queries and of keys
  TensorId kept_ = kNoTensor;  ///< keys and values that came first, for the backward pass
  TensorId bias_ = kNoTensor, sinks_of_ = kNoTensor;
  int64_t buckets_ = 0;  ///< of distances with learned scores
  bool packed_ = false, rotary_ = false, norms_ = false, sinks_ = false;
};

/// Multi-head latent attention (DeepSeek-AI 2024): heads' keys are joined from each head's own part and the
/// rotated part, which all share, and values are padded to the width of keys.
class LatentAttention {
 public:
  explicit LatentAttention(LayerCalls& l) : l_(l) {
    const Attributes attributes(l.layer().attributes);
    const auto refuse = [&](const char* why) {
      throw InputError(l.layer().attributes.place(), std::string("latent attention ") + why);
    };
    if (l.partners() > 1 || l.sharing().context > 1) refuse("that devices share is only simulated");
    for (const char* key : {"window", "sinks", "bias_buckets"}) {
      if (attributes.has(key)) refuse((std::string("with \"") + key + "\" is only simulated").c_str());
    }
    const auto kernel = std::find_if(l.lowered().forward.begin(), l.lowered().forward.end(),
                                     [](const Kernel& k) { return k.kind == KernelKind::attention; });
    shape_ = kernel->shape;
    batch_ = shape_[0];
    heads_ = shape_[1];
    time_ = shape_[3];
    size_ = attributes.integer("head_dim");
    rope_ = attributes.integer("rope_dim");
    value_ = attributes.integer("v_head_dim", size_);
    if (value_ > size_) refuse("with values wider than keys cannot be executed");
    own_ = size_ - rope_;
    const int64_t row = heads_ * size_;
    shape_ = {batch_, heads_, heads_, time_, time_, size_, shape_[6], row, row, 0, 0, 0};
  }

  void build() {
    const auto& kernels = l_.lowered().forward;
    const Pass pass = Pass::forward;
    const Heads q = whole(keep()), k = whole(keep()), v = whole(keep());
    const Heads made = narrow() ? whole(keep()) : whole(l_.out());
    move(pass, q, whole(l_.in(0)), size_);
    turn(pass, q, whole(l_.in(0)), {kernels.at(0)});
    move(pass, k, keys(l_.in(1)), own_);
    move(pass, part(k, own_), turned(pass, shared(l_.in(2)), 1, {}), rope_);
    if (narrow()) fill(pass, v.tensor, rows() * v.row);
    move(pass, v, part(keys(l_.in(1)), own_), value_, {kernels.at(1)});
    const TensorId log_sums = l_.keep(rows() * heads_);
    call(Function::attention, pass, {made.tensor, q.tensor, k.tensor, v.tensor, log_sums}, shape_,
         {kernels.back()});
    if (narrow()) move(pass, values(l_.out()), made, value_);
    if (!l_.needs_d_in(0) && !l_.needs_d_in(1) && !l_.needs_d_in(2)) return;
    backward({made.tensor, q.tensor, k.tensor, v.tensor, log_sums});
  }

 private:
  /// A vector of each head and row: steps between rows and heads.
  struct Heads {
    TensorId tensor = kNoTensor;
    int64_t row = 0, head = 0, offset = 0;
  };
  int64_t rows() const { return batch_ * time_; }
  bool narrow() const { return value_ < size_; }
  TensorId keep() { return l_.keep(rows() * heads_ * size_, true); }
  Heads whole(TensorId t) const { return {t, heads_ * size_, size_, 0}; }
  Heads keys(TensorId t) const { return {t, heads_ * (own_ + value_), own_ + value_, 0}; }
  Heads values(TensorId t) const { return {t, heads_ * value_, value_, 0}; }
  Heads shared(TensorId t) const {  // all heads' at the end of each row
    const int64_t width = l_.shape(2)[1];
    return {t, width, 0, width - rope_};
  }
  static Heads part(Heads of, int64_t offset) {
    of.offset += offset;
    return of;
  }
  void call(Function f, Pass pass, std::vector<TensorId> operands, std::vector<int64_t> shape,
            std::vector<Kernel> kernels) {
    l_.call(make_call(f, pass, std::move(operands), std::move(shape), std::move(kernels)));
  }
  void fill(Pass pass, TensorId t, int64_t elements) { l_.call(make_fill(pass, t, elements, 0)); }
  void move(Pass pass, const Heads& to, const Heads& from, int64_t width, std::vector<Kernel> kernels = {},
            int64_t heads = 0, bool adds = false) {
    l_.call(make_move(pass, to.tensor, from.tensor,
                      {{rows(), heads > 0 ? heads : heads_, width},
                       {{to.row, to.head, 1}, {from.row, from.head, 1}},
                       {to.offset, from.offset},
                       adds},
                      std::move(kernels)));
  }
  /// What turns of `heads` vectors of each row, turned, in a separate tensor.
  Heads turned(Pass pass, const Heads& from, int64_t heads, std::vector<Kernel> kernels) {
    const Heads alone{l_.scratch(rows() * heads * rope_, true), heads * rope_, heads > 1 ? rope_ : 0, 0};
    move(pass, alone, from, rope_, {}, heads);
    rotate(pass, alone.tensor, heads, std::move(kernels));
    return alone;
  }
  void rotate(Pass pass, TensorId t, int64_t heads, std::vector<Kernel> kernels) {
    call(Function::rotary, pass, {t, t},
         {batch_, time_, heads, rope_, heads * rope_, 0, pass == Pass::forward ? 0 : 1}, std::move(kernels));
  }
  void turn(Pass pass, const Heads& to, const Heads& from, std::vector<Kernel> kernels) {
    move(pass, part(to, own_), turned(pass, part(from, own_), heads_, std::move(kernels)), rope_);
  }
  Heads gradient(std::size_t i, Heads (LatentAttention::*layout)(TensorId) const) {
    return (this->*layout)(l_.needs_d_in(i) ? l_.d_in(i)
                                            : l_.scratch(l_.batch() * elements(l_.shape(i)), true));
  }

  /// `of`: what the forward pass made, its inputs and the log sums.
  void backward(const std::vector<TensorId>& of) {
    const Pass pass = Pass::backward_data;
    const auto& kernels = l_.lowered().backward_data;
    Heads d_made = whole(l_.d_out());
    if (narrow()) {
      d_made = whole(l_.scratch(rows() * heads_ * size_, true));
      fill(pass, d_made.tensor, rows() * d_made.row);
      move(pass, d_made, values(l_.d_out()), value_);
    }
    const Heads dq = gradient(0, &LatentAttention::whole),
                dk = whole(l_.scratch(rows() * heads_ * size_, true)),
                dv = whole(l_.scratch(rows() * heads_ * size_, true));
    call(Function::attention_backward, pass,
         {dq.tensor, dk.tensor, dv.tensor, of[1], of[2], of[3], of[0], d_made.tensor, of[4]}, shape_,
         {kernels.at(0)});
    turn(pass, dq, dq, {kernels.at(1)});
    const Heads dkv = gradient(1, &LatentAttention::keys);
    move(pass, dkv, dk, own_, {kernels.at(2)});
    move(pass, part(dkv, own_), dv, value_);
    if (!l_.needs_d_in(2)) return;
    const Heads sum{l_.scratch(rows() * rope_, true), rope_, 0, 0}, d = shared(l_.d_in(2));
    fill(pass, sum.tensor, rows() * rope_);
    move(pass, sum, part(dk, own_), rope_, {}, heads_, true);
    rotate(pass, sum.tensor, 1, {});
    fill(pass, d.tensor, rows() * d.row);
    move(pass, d, sum, rope_, {}, 1);
  }

  LayerCalls& l_;
  std::vector<int64_t> shape_;
  int64_t batch_ = 0, heads_ = 0, time_ = 0;
  int64_t size_ = 0, own_ = 0, rope_ = 0, value_ = 0;  ///< of a key: in all, its own, what turns; of a value
};

void attention(LayerCalls& l) {
  const Attributes attributes(l.layer().attributes);
  if (attributes.has("rope_dim")) return LatentAttention(l).build();
  Attention(l).build();
}

}  // namespace

void register_attention(Registry<LayerExecution>& registry) {
  registry.add({"attention", "a head at a time: two gemms and a softmax", attention});
}

}  // namespace tandem::exec
