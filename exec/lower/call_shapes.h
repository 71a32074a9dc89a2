// SPDX-License-Identifier: Apache-2.0
#pragma once
// Call::shape of the functions with their own geometry, read once for the kernels of all backends. What
// is constexpr also runs on GPUs.
#include <cmath>
#include <cstdint>

#include "exec/lower/call.h"

namespace tandem::exec {

/// batch_norm and its kin: statistics of each channel over `outer` and `inner`, of that many devices.
struct ChannelShape {
  int64_t outer, channels, inner, devices;
  int64_t everywhere;  ///< elements of one channel on all of them; 0: as many on each
  explicit ChannelShape(const Call& c)
      : outer(c.shape[0]),
        channels(c.shape[1]),
        inner(c.shape[2]),
        devices(c.shape.size() > 3 ? c.shape[3] : 1),
        everywhere(c.shape.size() > 4 ? c.shape[4] : 0) {}
  constexpr int64_t rows() const { return outer * inner; }  ///< elements of one channel
  constexpr int64_t all_rows() const { return everywhere > 0 ? everywhere : rows() * devices; }
  constexpr int64_t count() const { return outer * channels * inner; }
};

/// row_norm and its kin: statistics of each (outer, group) over space and the group's channels, which lie
/// innermost, after the groups.
struct RowShape {
  int64_t outer, groups, space, channels;
  bool rms;
  explicit RowShape(const Call& c)
      : outer(c.shape[0]),
        groups(c.shape[1]),
        space(c.shape[2]),
        channels(c.shape[3]),
        rms(c.shape[4] != 0) {}
  constexpr int64_t rows() const { return outer * groups; }
  constexpr int64_t count() const { return space * channels; }  ///< elements that share statistics
};

/// cross_entropy_part and its kin: one of `parts` equal parts of the classes. The last ones may be padding,
/// which is no class.
struct ClassesShape {
  static constexpr int64_t kNumbers = 3;  ///< of a row of one part
  int64_t rows, columns;                  ///< as they lie
  int64_t part, parts;
  int64_t classes;  ///< among the columns
  explicit ClassesShape(const Call& c)
      : rows(c.shape[0]), columns(c.shape[1]), part(c.shape[2]), parts(c.shape[3]), classes(c.shape[4]) {}
  /// All classes as one part.
  ClassesShape(int64_t r, int64_t n) : rows(r), columns(n), part(0), parts(1), classes(n) {}
  constexpr int64_t first() const { return part * columns; }
  constexpr bool holds(int64_t label) const { return label >= first() && label < first() + classes; }
  /// Of a row of a part, among those of all parts.
  constexpr int64_t numbers(int64_t of, int64_t row) const { return (of * rows + row) * kNumbers; }
};

/// Pooling, as packed in exec/lower/passes/pool.cpp. Windows are adaptive where the stride is 0. `I` counts
/// elements: on GPUs divisions of 64-bit numbers would take longer than the memory.
template <typename I>
struct PoolShape {
  using Space = I[3];
  I batch, channels;
  Space in{}, out{}, kernel{}, stride{}, pad{};
  bool counts_padding, last;  ///< last: channels innermost, else before the positions

  explicit PoolShape(const Call& c) {
    auto at = c.shape.begin();
    batch = static_cast<I>(*at++);
    channels = static_cast<I>(*at++);
    for (I* s : {in, out, kernel, stride, pad}) {
      for (int d = 0; d < 3; ++d) s[d] = static_cast<I>(*at++);
    }
    counts_padding = *at++ != 0;
    last = *at++ != 0;
  }
  static constexpr I positions(const Space& s) { return s[0] * s[1] * s[2]; }
  int64_t elements(const Space& s) const {
    return static_cast<int64_t>(batch) * channels * s[0] * s[1] * s[2];
  }

  struct Range {
    I begin, end, whole;  ///< clipped to the input; size before clipping
  };
  /// Inputs of window `o` along dimension d.
  constexpr Range window(int d, I o) const {
    if (stride[d] == 0) {
      const I b = o * in[d] / out[d], e = ((o + 1) * in[d] + out[d] - 1) / out[d];
      return {b, e, e - b};
    }
    const I b = o * stride[d] - pad[d];
    const I e = b + kernel[d] < in[d] + pad[d] ? b + kernel[d] : in[d] + pad[d];
    return {b > 0 ? b : 0, e < in[d] ? e : in[d], e - b};
  }
  /// Elements that a mean over the window divides by.
  constexpr I divisor(const Range& z, const Range& y, const Range& x) const {
    return counts_padding ? z.whole * y.whole * x.whole
                          : (z.end - z.begin) * (y.end - y.begin) * (x.end - x.begin);
  }
};

/// Places of heads in q, k, v and the output; `kv`: a head of keys and values, which several may share.
struct AttentionShape {
  int64_t batch = 0, heads = 0, kv_heads = 0, query = 0, key = 0, size = 0;
  int64_t q_row = 0, kv_row = 0, q_offset = 0, k_offset = 0, v_offset = 0;
  /// Rows of a sample as they lie, of which these queries and keys may be some; in the output from `first`
  /// on.
  int64_t q_rows = 0, kv_rows = 0, out_rows = 0, first = 0;
  int64_t window = 0;   ///< keys that a query of a causal attention sees at most; 0: all
  int64_t buckets = 0;  ///< of distances, for which each head has learned scores; 0: none (DistanceBuckets)
  /// Samples are windows of grid x grid elements of an image that has that many of them across and down,
  /// which was moved by `shift` rows and columns; 0: they are not.
  int64_t grid = 0, across = 0, shift = 0;
  float scale;
  bool causal;

  explicit AttentionShape(const Call& c) {
    auto at = c.shape.begin();
    for (int64_t* v : {&batch, &heads, &kv_heads, &query, &key, &size}) *v = *at++;
    causal = *at++ != 0;
    for (int64_t* v : {&q_row, &kv_row, &q_offset, &k_offset, &v_offset}) *v = *at++;
    q_rows = out_rows = query;
    kv_rows = key;
    for (int64_t* v : {&q_rows, &kv_rows, &out_rows, &first, &window, &buckets, &grid, &across, &shift})
      *v = at == c.shape.end() ? *v : *at++;
    scale = 1 / std::sqrt(static_cast<float>(size));
  }
  constexpr int64_t out_row() const { return heads * size; }
  constexpr int64_t kv_head(int64_t h) const { return h * kv_heads / heads; }
  constexpr int64_t q(int64_t b, int64_t h) const { return b * q_rows * q_row + q_offset + h * size; }
  constexpr int64_t k(int64_t b, int64_t kv) const { return b * kv_rows * kv_row + k_offset + kv * size; }
  constexpr int64_t v(int64_t b, int64_t kv) const { return b * kv_rows * kv_row + v_offset + kv * size; }
  constexpr int64_t out(int64_t b, int64_t h) const { return (b * out_rows + first) * out_row() + h * size; }
  /// Of the log sums.
  constexpr int64_t row(int64_t b, int64_t h) const { return (b * heads + h) * out_rows + first; }
  constexpr bool whole() const { return q_rows == query && kv_rows == key && out_rows == query; }
  /// Of the last windows down or across, only one of the two came in from the image's other side: they do not
  /// see each other (Liu et al. 2021, Swin Transformer, section 3.2).
  constexpr bool apart(int64_t b, int64_t i, int64_t j) const {
    if (shift == 0) return false;
    const int64_t edge = grid - shift, down = b / across % across;
    return (down == across - 1 && (i / grid >= edge) != (j / grid >= edge)) ||
           (b % across == across - 1 && (i % grid >= edge) != (j % grid >= edge));
  }
  /// Do heads have that many elements or multiples of them, and begin and follow each other in such steps?
  constexpr bool in_steps_of(int64_t n) const {
    for (const int64_t x : {size, q_row, kv_row, q_offset, k_offset, v_offset}) {
      if (x % n != 0) return false;
    }
    return true;
  }
  /// Of query `i` among the keys.
  constexpr int64_t position(int64_t i) const { return i + (causal && key > query ? key - query : 0); }
  /// Keys that query `i` sees end there: the last query sees all. They begin at unseen().
  constexpr int64_t seen(int64_t i) const {
    if (!causal) return key;
    const int64_t n = position(i) + 1;
    return n < key ? n : key;
  }
  constexpr int64_t unseen(int64_t i) const {
    const int64_t n = position(i) + 1 - window;
    return window == 0 || n < 0 ? 0 : n < key ? n : key;
  }
};

/// What is added to the scores of pairs that do not see each other in windows of an image, as Swin's code
/// does.
inline constexpr float kApart = -100;

/// Which of a head's learned scores a pair of query and key gets, by their distance (Raffel et al. 2020, T5,
/// section 2.1 and `_relative_position_bucket` of its code): half of the buckets are for one distance each,
/// the others for ranges that grow up to 128, the last for all beyond. Where queries see what comes after
/// them, half of all buckets are for that. In windows of an image each pair of distances has its own, down
/// and across.
struct DistanceBuckets {
  static constexpr int64_t kFurthest = 128, kMost = 256;
  uint8_t of[kFurthest + 1] = {};
  int64_t one_way = 0, grid = 0;
  bool both = false;

  DistanceBuckets() = default;
  explicit DistanceBuckets(const AttentionShape& a)
      : one_way(a.causal ? a.buckets : a.buckets / 2), grid(a.grid), both(!a.causal) {
    if (grid > 0) return;
    const int64_t exact = one_way / 2;
    for (int64_t n = 0; n <= kFurthest; ++n) {
      int64_t bucket = n;
      if (n > exact && exact > 0) {
        const auto times = [&](int64_t of_exact) {
          return std::log(static_cast<double>(of_exact) / static_cast<double>(exact));
        };
        bucket =
            exact + static_cast<int64_t>(times(n) / times(kFurthest) * static_cast<double>(one_way - exact));
      }
      of[n] = static_cast<uint8_t>(bucket < one_way ? bucket : one_way - 1);
    }
  }
  constexpr int64_t bucket(int64_t query, int64_t key) const {
    if (grid > 0)
      return (query / grid - key / grid + grid - 1) * (2 * grid - 1) + query % grid - key % grid + grid - 1;
    const bool after = key > query;
    const int64_t apart = after ? (both ? key - query : 0) : query - key;
    return (both && after ? one_way : 0) + of[apart < kFurthest ? apart : kFurthest];
  }
};

/// attention_sinks and its backward pass, of an output of rows {heads, size}.
struct SinksShape {
  int64_t batch, heads, query, size;
  explicit SinksShape(const Call& c)
      : batch(c.shape[0]), heads(c.shape[1]), query(c.shape[2]), size(c.shape[3]) {}
  constexpr int64_t rows() const { return batch * heads * query; }
  constexpr int64_t head(int64_t row) const { return row / query % heads; }
  /// Where row r, counted as log sums are, begins in the output.
  constexpr int64_t out(int64_t r) const {
    return ((r / query / heads * query + r % query) * heads + head(r)) * size;
  }
};

/// Weights that stay as they are, in fewer bits: shape {elements, columns, Format}. Words of 4 bytes, first
/// the scales and then, byte by byte, what is scaled:
///   nf4     a scale of each 64 elements; two elements a byte, the first in the low half: levels of a normal
///           distribution (Dettmers et al. 2023, QLoRA, arXiv 2305.14314, section 3 and appendix E)
///   nf4_dq  as nf4, but scales in 8 bits around their mean, which comes first, then a scale of each 256 of
///           them
///   int8    a scale of each column of the matrix; a byte an element (Dettmers et al. 2022, LLM.int8, arXiv
///           2208.07339, section 2.1)
struct StoredShape {
  enum class Format : uint8_t { nf4, nf4_dq, int8 };
  static constexpr int64_t kBlock = 64, kScales = 256;
  int64_t elements, columns;
  Format format;
  explicit StoredShape(const std::vector<int64_t>& shape)
      : elements(shape[0]), columns(shape[1]), format(static_cast<Format>(shape[2])) {}
  constexpr int64_t blocks() const { return (elements + kBlock - 1) / kBlock; }
  constexpr int64_t floats() const {
    return format == Format::int8  ? columns
           : format == Format::nf4 ? blocks()
                                   : 1 + (blocks() + kScales - 1) / kScales;
  }
  /// Behind the floats: bytes before those of the elements.
  constexpr int64_t scale_bytes() const { return format == Format::nf4_dq ? blocks() : 0; }
  constexpr int64_t words() const {
    const int64_t codes = format == Format::int8 ? elements : (elements + 1) / 2;
    return floats() + (scale_bytes() + codes + 3) / 4;
  }
  static constexpr int kLevels = 16;
  static constexpr float level(int code) {
    constexpr float levels[kLevels] = {-1.0F,        -0.69619280F, -0.52507305F, -0.39491749F,
                                       -0.28444138F, -0.18477343F, -0.09105004F, 0.0F,
                                       0.07958030F,  0.16093020F,  0.24611230F,  0.33791524F,
                                       0.44070983F,  0.56261700F,  0.72295684F,  1.0F};
    return levels[code];
  }
  /// Of the scales and of what stands after them.
  constexpr float scale(const float* f, const int8_t* bytes, int64_t block) const {
    if (format == Format::nf4) return f[block];
    return f[0] + f[1 + block / kScales] * static_cast<float>(bytes[block]) / 127;
  }
  constexpr float value(const float* f, const int8_t* bytes, int64_t i) const {
    if (format == Format::int8) return f[i % columns] * static_cast<float>(bytes[i]) / 127;
    const int pair = static_cast<unsigned char>(bytes[scale_bytes() + i / 2]);
    return scale(f, bytes, i / kBlock) * level(i % 2 == 0 ? pair % 16 : pair / 16);
  }
};

/// Which experts rows go to: shape {rows, experts, active, capacity, Score, 1 where weights are normalised}.
/// The largest scores of a row are chosen, of equal ones the first expert's. Tokens lie expert by expert, an
/// expert's in the order of the rows. With a capacity each expert has that many places: all first choices are
/// served before all second ones, each in the order of the rows (Lepikhin et al. 2021, GShard, algorithm 1),
/// and what finds none is dropped; places that are left are padding, which lies in memory as zeros.
struct RouteShape {
  enum class Score : uint8_t { softmax, sigmoid };
  int64_t rows, experts, active, capacity;
  Score score;
  bool normalised;  ///< a row's weights sum up to the scale
  float scale;
  explicit RouteShape(const Call& c)
      : rows(c.shape[0]),
        experts(c.shape[1]),
        active(c.shape[2]),
        capacity(c.shape[3]),
        score(static_cast<Score>(c.shape[4])),
        normalised(c.shape[5] != 0),
        scale(c.scalars[0]) {}
};

/// Tokens on their way to experts: shape {rows, active, width, places to be filled with zeros before}.
struct DispatchShape {
  int64_t rows, active, width, padded;
  explicit DispatchShape(const Call& c)
      : rows(c.shape[0]), active(c.shape[1]), width(c.shape[2]), padded(c.shape[3]) {}
};

/// Rows of a tensor, expert by expert: shape {experts, sources, rows at most, ...}. `counts` is [source,
/// expert]: that many of an expert's rows came from each device.
struct ExpertGroups {
  int64_t experts, sources, most;
  static constexpr std::size_t kSizes = 3;  ///< of Call::shape, before the function's own
  explicit ExpertGroups(const Call& c) : experts(c.shape[0]), sources(c.shape[1]), most(c.shape[2]) {}
  constexpr int64_t rows(const int32_t* counts, int64_t expert) const {
    int64_t sum = 0;
    for (int64_t s = 0; s < sources; ++s) sum += counts[s * experts + expert];
    return sum;
  }
  /// Where the expert's rows begin; of one after the last: how many rows there are.
  constexpr int64_t begin(const int32_t* counts, int64_t expert) const {
    int64_t sum = 0;
    for (int64_t e = 0; e < expert; ++e) sum += rows(counts, e);
    return sum;
  }
};

/// An expert's gate: swish(gate) up; or with a limit gate sigmoid(1.702 gate) (up + 1), the gate at most the
/// limit and `up` within it (OpenAI 2025, gpt-oss, swiglu of gpt_oss/torch/model.py).
struct GateOf {
  float limit;
  struct Gradient {
    float gate, up;  ///< of value() by either
  };
  template <typename Sigmoid>
  constexpr float value(float gate, float up, Sigmoid sigmoid) const {
    if (limit == 0) return gate * sigmoid(gate) * up;
    const float g = clamped(gate, false);
    return g * sigmoid(kSharp * g) * (clamped(up, true) + 1);
  }
  template <typename Sigmoid>
  constexpr Gradient gradient(float gate, float up, Sigmoid sigmoid) const {
    if (limit == 0) {
      const float s = sigmoid(gate);
      return {s * (1 + gate * (1 - s)) * up, gate * s};
    }
    const float g = clamped(gate, false), u = clamped(up, true), s = sigmoid(kSharp * g);
    return {g == gate ? s * (1 + kSharp * g * (1 - s)) * (u + 1) : 0, u == up ? g * s : 0};
  }

 private:
  static constexpr float kSharp = 1.702F;
  constexpr float clamped(float x, bool below) const {
    return x > limit ? limit : below && x < -limit ? -limit : x;
  }
};

/// attention_merge: places of a head's row i of a sample's, in all of the output and in the block.
struct MergeShape {
  int64_t batch, heads, query, size, out_rows, first;
  explicit MergeShape(const Call& c)
      : batch(c.shape[0]),
        heads(c.shape[1]),
        query(c.shape[2]),
        size(c.shape[3]),
        out_rows(c.shape[4]),
        first(c.shape[5]) {}
  constexpr int64_t rows() const {
    return batch * heads * query;
  }  ///< (b * heads + h) * query + i counts them
  constexpr int64_t out(int64_t b, int64_t h, int64_t i) const {
    return ((b * out_rows + first + i) * heads + h) * size;
  }
  constexpr int64_t block(int64_t b, int64_t h, int64_t i) const {
    return ((b * query + i) * heads + h) * size;
  }
  constexpr int64_t log_sum(int64_t b, int64_t h, int64_t i) const {
    return (b * heads + h) * out_rows + first + i;
  }
};

struct RecurrentShape {
  int64_t batch, time, hidden;
  Cell cell;
  int64_t row, offset;
  bool reverse;
  int64_t width, kept;  ///< of the pre-activations; of `gates` (GRU keeps its recurrent candidate too)

  explicit RecurrentShape(const Call& c)
      : batch(c.shape[0]),
        time(c.shape[1]),
        hidden(c.shape[2]),
        cell(static_cast<Cell>(c.shape[3])),
        row(c.shape[4]),
        offset(c.shape[5]),
        reverse(c.shape[6] != 0) {
    const int64_t gates = cell == Cell::rnn ? 1 : cell == Cell::lstm ? 4 : 3;
    width = gates * hidden;
    kept = cell == Cell::gru ? width + hidden : width;
  }
  int64_t step(int64_t n) const { return reverse ? time - 1 - n : n; }  ///< time of the n-th step
  int64_t before(int64_t t) const { return reverse ? t + 1 : t - 1; }
  int64_t out(int64_t b, int64_t t) const { return (b * time + t) * row + offset; }
  /// Of tensors with `size` elements a step.
  int64_t at(int64_t b, int64_t t, int64_t size) const { return (b * time + t) * size; }
};

}  // namespace tandem::exec
