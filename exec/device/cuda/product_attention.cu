// SPDX-License-Identifier: Apache-2.0
// The kernels between the products of an attention, and in which slices they run.
//
// What it takes, of a score (an estimate): forward it is written by a product, read and written by softmax,
// and read, 16 bytes; backward two matrices are written, read and written by one kernel, and read three times
// in all, 36 bytes. At 4 TB/s, which is an H200's memory (4.8 by its datasheet) and less than its cache, 75
// million scores (gpt2: 8 samples, 12 heads, 1024 queries and keys, cut where they are causal) want 0.3 and
// 0.7 ms in addition to the products; an H200 was measured at 3.3 ms for all of the backward pass. Short rows
// fill no tensor cores and are launches more than anything else. Which way is faster is tried
// (cublas_attention.cpp).
#include <vector>

#include "exec/device/cuda/attention_tiles.h"
#include "exec/device/cuda/product_attention.h"
#include "exec/device/cuda/storage.h"

namespace tandem::exec::cuda {

namespace {

constexpr int64_t kLeastRows = 256;  ///< of a slice of queries, so that keys are not read too often
constexpr int64_t kRowStep = 64;     ///< slices begin at multiples
constexpr int64_t kMostHeads = 32768;
constexpr int kFour = kWide<float>;  ///< elements in 16 bytes
constexpr float kLn2 = 0.693147181F;

int64_t up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
int64_t parts(int64_t n, int64_t of) { return (n + of - 1) / of; }

/// Where vectors of heads lie in a tensor: elements from one to the next. A head is one of keys and values
/// here; its `members` of queries share it.
struct Vectors {
  float* at;
  int64_t sample, head, member, row;
};

/// A slice: `heads` heads from head `z` of all samples on, `rows` queries of each member from `first` on.
/// Its scores lie as {heads, members, rows, columns}.
struct Slice {
  AttentionShape a;
  unsigned z, heads, members, rows;
  int64_t first, columns;

  // Grid of the kernels on scores: (members x rows, heads).
  __device__ int64_t row() const { return int64_t{blockIdx.y} * gridDim.x + blockIdx.x; }
  __device__ int64_t seen() const { return a.seen(first + blockIdx.x % rows); }
  __device__ int64_t log_sum() const {
    const unsigned head = z + blockIdx.y, kv_heads = static_cast<unsigned>(a.kv_heads),
                   sample = head / kv_heads;
    return a.row(sample, (head - sample * kv_heads) * members + blockIdx.x / rows) + first +
           blockIdx.x % rows;
  }
};

/// Between a tensor and {heads, members, rows, width} side by side. What lies beyond `size` elements and
/// `valid` rows is 0 there. Grid: (tiles of members and rows, heads).
struct Copy {
  Vectors tensor;
  unsigned z, kv_heads, members, rows;
  int64_t first, valid, size, width;
};
template <bool Back>
__global__ void pack_kernel(Copy c, float* packed) {
  const unsigned r = blockIdx.x * blockDim.y + threadIdx.y, head = c.z + blockIdx.y, all = c.members * c.rows;
  if (r >= all) return;
  const unsigned sample = head / c.kv_heads, member = r / c.rows;
  const int64_t row = c.first + (r - member * c.rows), n = row < c.valid ? c.size : 0;
  float* const there = c.tensor.at + sample * c.tensor.sample + (head - sample * c.kv_heads) * c.tensor.head +
                       member * c.tensor.member + row * c.tensor.row;
  float* const here = packed + (int64_t{blockIdx.y} * all + r) * c.width;
  for (int64_t d = threadIdx.x; d < c.width; d += blockDim.x) {
    if (!Back)
      here[d] = d < n ? there[d] : 0;
    else if (d < n)
      there[d] = here[d];
  }
}

/// Scores become probabilities. A block for each row, which begins at a multiple of 16 bytes.
__global__ void probabilities_kernel(Slice s, float* scores, float* log_sums) {
  const int64_t n = s.seen(), step = kFour * blockDim.x;
  float* const row = scores + s.row() * s.columns;
  const float factor = s.a.scale * kLog2E;
  float most = kLowest, part[1] = {0};
  for (int64_t c = kFour * threadIdx.x; c < n; c += step) {
    const Pack<float> v = *reinterpret_cast<const Pack<float>*>(row + c);
    float larger = most, added = 0;
#pragma unroll
    for (int k = 0; k < kFour; ++k) {
      if (c + k < n) larger = fmaxf(larger, factor * v.v[k]);
    }
#pragma unroll
    for (int k = 0; k < kFour; ++k) added += c + k < n ? exp2f(factor * v.v[k] - larger) : 0.0F;
    part[0] = part[0] * exp2f(most - larger) + added;
    most = larger;
  }
  const float top = block_max(most);
  part[0] *= exp2f(most - top);  // threads without an element hold 0
  block_sum(part);
  const float share = 1 / part[0];
  for (int64_t c = kFour * threadIdx.x; c < s.columns; c += step) {
    auto* const at = reinterpret_cast<Pack<float>*>(row + c);
    Pack<float> v{};
    if (c < n) {
      v = *at;
#pragma unroll
      for (int k = 0; k < kFour; ++k) v.v[k] = c + k < n ? share * exp2f(factor * v.v[k] - top) : 0.0F;
    }
    *at = v;
  }
  if (threadIdx.x == 0) log_sums[s.log_sum()] = kLn2 * top + logf(part[0]);
}

/// Scores become probabilities, `d` (dout v^T) the gradient of q k^T. Blocks as above.
__global__ void score_gradients_kernel(Slice s, float* scores, float* d, const float* log_sums,
                                       const float* inner) {
  const int64_t n = s.seen(), at = s.log_sum(), step = kFour * blockDim.x, begin = s.row() * s.columns;
  const float factor = s.a.scale * kLog2E, shift = log_sums[at] * kLog2E, in = inner[at];
  for (int64_t c = kFour * threadIdx.x; c < s.columns; c += step) {
    auto* const to_p = reinterpret_cast<Pack<float>*>(scores + begin + c);
    auto* const to_d = reinterpret_cast<Pack<float>*>(d + begin + c);
    Pack<float> p{}, g{};
    if (c < n) {
      p = *to_p;
      g = *to_d;
#pragma unroll
      for (int k = 0; k < kFour; ++k) {
        const bool seen = c + k < n;
        p.v[k] = seen ? exp2f(factor * p.v[k] - shift) : 0.0F;
        g.v[k] = seen ? s.a.scale * p.v[k] * (g.v[k] - in) : 0.0F;
      }
    }
    *to_p = p;
    *to_d = g;
  }
}

/// How a call is cut: into slices of heads, of each into slices of queries.
struct Cut {
  AttentionShape a;
  bool backward;
  int64_t members, size, keys;  ///< size and keys filled up to 16 bytes
  /// Operands are multiplied where they lie, and a slice's heads are of one sample; else copies are.
  bool direct;
  int64_t rows, heads;  ///< of a slice; the last ones may have fewer

  Cut(const Call& call, int64_t bytes)
      : a(call),
        backward(call.function == Function::attention_backward),
        members(a.heads / a.kv_heads),
        size(up(a.size, kFour)),
        keys(up(a.key, kFour)) {
    const int64_t budget = bytes / static_cast<int64_t>(sizeof(float)), of_row = matrices() * keys;
    direct = members == 1 && 4 * a.kv_heads * a.query * of_row >= budget && a.key % kFour == 0 &&
             a.in_steps_of(kFour);
    // Copies may be of any heads, so that there are enough of them for narrow slices of queries.
    int64_t most = budget / (of_row * members * (direct ? a.kv_heads : 1));
    if (!direct && a.causal) most = std::min(most, a.query / 4);
    most = up(std::max(most, kLeastRows), kRowStep);
    rows = std::min(a.query, up(parts(a.query, parts(a.query, most)), kRowStep));
    const int64_t of_head = members * rows * of_row + copies();
    heads = std::clamp<int64_t>(budget / of_head, 1, std::min(of_whole(), kMostHeads));
    heads = parts(of_whole(), parts(of_whole(), heads));
  }
  int64_t matrices() const { return backward ? 2 : 1; }  ///< of scores
  /// Heads that slices are taken of.
  int64_t of_whole() const { return direct ? a.kv_heads : a.batch * a.kv_heads; }
  int64_t scores() const { return heads * members * rows * keys; }
  /// Elements of a head's copies: of q and out or of q, dout and dq; of k and v and their gradients.
  int64_t query_copy() const { return direct ? 0 : members * rows * size; }
  int64_t key_copy() const { return direct ? 0 : keys * size; }
  int64_t copies() const { return (backward ? 3 : 2) * query_copy() + (backward ? 4 : 2) * key_copy(); }

  Slice slice(int64_t z, int64_t of_heads, int64_t first) const {
    const int64_t valid = std::min(rows, a.query - first);
    // Keys that these queries see: in steps, since products of odd sizes are slow.
    const int64_t columns = std::min(keys, up(a.seen(first + valid - 1), kRowStep));
    return {a,
            static_cast<unsigned>(z),
            static_cast<unsigned>(of_heads),
            static_cast<unsigned>(members),
            static_cast<unsigned>(valid),
            first,
            columns};
  }
};

/// A tensor of the call, and where its copy is; null where it is multiplied as it lies.
struct Tensor {
  Vectors vectors;
  bool of_keys;
  float* copy;
};

/// The products of a slice.
struct Step {
  int64_t first = 0;
  RunProduct scores, out;                 ///< forward: S = q k^T; out = P v
  RunProduct gradient, to_v, to_q, to_k;  ///< backward: dP = dout v^T; dv, dq, dk
};

class Slices {
 public:
  explicit Slices(const Cut& cut) : cut_(cut) {
    full_ = plan(cut.heads);
    if (cut.of_whole() % cut.heads != 0) rest_ = plan(cut.of_whole() % cut.heads);
  }
  bool direct() const { return cut_.direct; }

  int64_t scratch() const {
    Room room{nullptr};
    if (cut_.backward) room.take(inner());
    for (int64_t k = 0; k < cut_.matrices(); ++k) room.take(cut_.scores());
    for (int k = 0; k < (cut_.backward ? 3 : 2); ++k) room.take(cut_.heads * cut_.query_copy());
    for (int k = 0; k < (cut_.backward ? 4 : 2); ++k) room.take(cut_.heads * cut_.key_copy());
    return room.taken;
  }

  void forward(const Launch& l) const {
    float* const* o = l.operands;
    Room room{l.scratch};
    float* const p = room.take(cut_.scores());
    const Tensor out = outputs(o[0], room), q = queries(o[1], room), k = keys(o[2], cut_.a.k(0, 0), room),
                 v = keys(o[3], cut_.a.v(0, 0), room);
    for_each_slice([&](int64_t z, int64_t heads, const std::vector<Step>& steps) {
      const Slice whole = cut_.slice(z, heads, 0);
      for (const Tensor& t : {k, v}) move<false>(t, whole, l);
      for (const Step& step : steps) {
        const Slice s = cut_.slice(z, heads, step.first);
        move<false>(q, s, l);
        step.scores(p, place(q, s), place(k, s), l);
        on_scores(probabilities_kernel, s, l, p, o[4]);
        step.out(place(out, s), p, place(v, s), l);
        move<true>(out, s, l);
      }
    });
  }

  void backward(const Launch& l) const {
    float* const* o = l.operands;
    const AttentionShape& a = cut_.a;
    Room room{l.scratch};
    float *const in = room.take(inner()), *const p = room.take(cut_.scores()),
                 *const d = room.take(cut_.scores());
    const Tensor dq = queries(o[0], room), dk = keys(o[1], a.k(0, 0), room), dv = keys(o[2], a.v(0, 0), room),
                 q = queries(o[3], room), k = keys(o[4], a.k(0, 0), room), v = keys(o[5], a.v(0, 0), room),
                 dout = outputs(o[7], room);
    inner_products(a, in, o[6], o[7], l.stream);
    for_each_slice([&](int64_t z, int64_t heads, const std::vector<Step>& steps) {
      const Slice whole = cut_.slice(z, heads, 0);
      for (const Tensor& t : {k, v}) move<false>(t, whole, l);
      for (const Step& step : steps) {
        const Slice s = cut_.slice(z, heads, step.first);
        for (const Tensor& t : {q, dout}) move<false>(t, s, l);
        step.scores(p, place(q, s), place(k, s), l);
        step.gradient(d, place(dout, s), place(v, s), l);
        on_scores(score_gradients_kernel, s, l, p, d, o[8], in);
        step.to_v(place(dv, s), p, place(dout, s), l);
        step.to_q(place(dq, s), d, place(k, s), l);
        step.to_k(place(dk, s), d, place(q, s), l);
        move<true>(dq, s, l);
      }
      for (const Tensor& t : {dk, dv}) move<true>(t, whole, l);
    });
  }

 private:
  struct Room {
    float* at;
    int64_t taken = 0;
    float* take(int64_t floats) {
      float* const out = at == nullptr ? nullptr : at + taken;
      taken += up(floats, 64);
      return out;
    }
  };
  int64_t inner() const { return cut_.a.batch * cut_.a.heads * cut_.a.out_rows; }

  Tensor queries(float* at, Room& room) const {
    const AttentionShape& a = cut_.a;
    return {{at + a.q(0, 0), a.q_rows * a.q_row, cut_.members * a.size, a.size, a.q_row},
            false,
            of_queries(room)};
  }
  Tensor outputs(float* at, Room& room) const {
    const AttentionShape& a = cut_.a;
    return {{at + a.out(0, 0), a.out_rows * a.out_row(), cut_.members * a.size, a.size, a.out_row()},
            false,
            of_queries(room)};
  }
  Tensor keys(float* at, int64_t offset, Room& room) const {
    const AttentionShape& a = cut_.a;
    return {{at + offset, a.kv_rows * a.kv_row, a.size, 0, a.kv_row},
            true,
            cut_.direct ? nullptr : room.take(cut_.heads * cut_.key_copy())};
  }
  float* of_queries(Room& room) const {
    return cut_.direct ? nullptr : room.take(cut_.heads * cut_.query_copy());
  }

  /// Where products have a slice's rows.
  float* place(const Tensor& t, const Slice& s) const {
    if (t.copy != nullptr) return t.copy;
    const Vectors& v = t.vectors;
    return v.at + s.z / cut_.a.kv_heads * v.sample + s.z % cut_.a.kv_heads * v.head +
           (t.of_keys ? 0 : s.first) * v.row;
  }
  template <bool Back>
  void move(const Tensor& t, const Slice& s, const Launch& l) const {
    if (t.copy == nullptr) return;
    const auto kv_heads = static_cast<unsigned>(cut_.a.kv_heads);
    const Copy c = t.of_keys ? Copy{t.vectors,  s.z,         kv_heads, 1, static_cast<unsigned>(cut_.keys), 0,
                                    cut_.a.key, cut_.a.size, cut_.size}
                             : Copy{t.vectors, s.z,          kv_heads,    s.members, s.rows,
                                    s.first,   cut_.a.query, cut_.a.size, cut_.size};
    const unsigned lanes = lanes_for(c.width), rows = kThreads / lanes;
    launch(pack_kernel<Back>, dim3(blocks_for(c.members * c.rows, rows), s.heads), dim3(lanes, rows),
           l.stream, c, t.copy);
  }
  template <typename Kernel, typename... A>
  static void on_scores(Kernel kernel, const Slice& s, const Launch& l, A... more) {
    launch(kernel, dim3(s.members * s.rows, s.heads), row_threads(s.columns / kFour), l.stream, s, more...);
  }

  template <typename F>
  void for_each_slice(const F& f) const {
    const int64_t all = cut_.a.batch * cut_.a.kv_heads;
    for (int64_t z = 0; z < all;) {
      const int64_t left = cut_.of_whole() - z % cut_.of_whole(), heads = std::min(cut_.heads, left);
      f(z, heads, heads == cut_.heads ? full_ : rest_);
      z += heads;
    }
  }

  /// In the order in which they run: backward the last queries, which see all keys, first of all, since they
  /// write the gradients that others add to.
  std::vector<Step> plan(int64_t heads) const {
    std::vector<Step> out;
    for (int64_t first = 0; first < cut_.a.query; first += cut_.rows) {
      const Slice s = cut_.slice(0, heads, first);
      out.push_back(cut_.backward ? plan_backward(s) : plan_forward(s));
      out.back().first = first;
    }
    if (cut_.backward) std::reverse(out.begin(), out.end());
    return out;
  }

  /// Rows of a batched product's operand, and its batches, elements apart.
  struct Apart {
    int64_t row, head;
  };
  Apart of_q(const Slice& s, int64_t row) const {
    if (cut_.direct) return {row, cut_.a.size};
    return {cut_.size, s.members * s.rows * cut_.size};
  }
  Apart of_k() const {
    return cut_.direct ? Apart{cut_.a.kv_row, cut_.a.size} : Apart{cut_.size, cut_.key_copy()};
  }
  static Apart of_scores(const Slice& s) { return {s.columns, s.members * s.rows * s.columns}; }
  /// c = scores op(b), for b of keys or queries.
  RunProduct weigh(const Slice& s, bool transposed, Apart c, Apart b, bool adds) const {
    Product p = batch_of(s, c, of_scores(s), b);
    p.transpose_a = transposed;
    p.m = transposed ? s.columns : s.members * s.rows;
    p.k = transposed ? s.members * s.rows : s.columns;
    p.n = cut_.size;
    p.beta = adds ? 1.0F : 0.0F;
    return make_product()(p);
  }
  /// Scores of rows q and keys k.
  RunProduct score(const Slice& s, Apart q) const {
    Product p = batch_of(s, of_scores(s), q, of_k());
    p.transpose_b = true;
    p.m = s.members * s.rows;
    p.n = s.columns;
    p.k = cut_.size;
    return make_product()(p);
  }
  static Product batch_of(const Slice& s, Apart c, Apart a, Apart b) {
    Product p;
    p.batch = s.heads;
    p.ldc = c.row;
    p.lda = a.row;
    p.ldb = b.row;
    p.stride_c = c.head;
    p.stride_a = a.head;
    p.stride_b = b.head;
    return p;
  }

  Step plan_forward(const Slice& s) const {
    Step out;
    out.scores = score(s, of_q(s, cut_.a.q_row));
    out.out = weigh(s, false, of_q(s, cut_.a.out_row()), of_k(), false);
    return out;
  }
  Step plan_backward(const Slice& s) const {
    const Apart q = of_q(s, cut_.a.q_row), dout = of_q(s, cut_.a.out_row());
    const bool adds = s.first + s.rows < cut_.a.query;
    Step out;
    out.scores = score(s, q);
    out.gradient = q.row == dout.row ? out.scores : score(s, dout);
    out.to_v = weigh(s, true, of_k(), dout, adds);
    out.to_q = weigh(s, false, q, of_k(), false);
    out.to_k = q.row == dout.row ? out.to_v : weigh(s, true, of_k(), q, adds);
    return out;
  }

  Cut cut_;
  std::vector<Step> full_, rest_;
};

}  // namespace

bool multiplies(const AttentionShape& a) {
  return a.heads % a.kv_heads == 0 && a.window == 0 && a.buckets == 0;
}

Prepared attention_by_products(const Call& call, int64_t slice_bytes) {
  const bool backward = call.function == Function::attention_backward;
  const auto slices = std::make_shared<const Slices>(Cut(call, slice_bytes));
  const Prepared own = own_kernels()[static_cast<std::size_t>(call.function)].plain(call);
  return {[=, count = call.operands.size()](const Launch& l) {
            const bool fit = !slices->direct() || std::all_of(l.operands, l.operands + count, wide_aligned);
            if (!fit) return own.run(l);
            backward ? slices->backward(l) : slices->forward(l);
          },
          std::max(slices->scratch(), own.scratch)};
}

}  // namespace tandem::exec::cuda
