// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cuda/shared_keys.h"

#include <array>
#include <utility>
#include <vector>

#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

namespace {

/// One kind of copies, keys or values, and their originals.
class Copies {
 public:
  Copies(const AttentionShape& a, int64_t samples, bool values, Precision stored)
      : own_{a.key * own_key_row(a), own_key_row(a), a.heads / a.kv_heads * a.size, a.size, 1},
        shared_{a.key * a.kv_row, a.kv_row, a.size, 0, 1},
        own_offset_(values ? a.heads * a.size : 0),
        shared_offset_(values ? a.v_offset : a.k_offset),
        sizes_{samples, a.key, a.kv_heads, a.heads / a.kv_heads, a.size},
        stored_(stored) {}

  Prepared spread() const { return move({own_, shared_}, {own_offset_, shared_offset_}, sizes_, false); }
  /// The first head's, written over what was there, and then those of the others that share its keys.
  std::array<Prepared, 2> added() const {
    std::vector<int64_t> first = sizes_, others = sizes_;
    first[3] = 1;
    others[3] -= 1;
    return {move({shared_, own_}, {shared_offset_, own_offset_}, first, false),
            move({shared_, own_}, {shared_offset_, own_offset_ + own_[3]}, others, true)};
  }

 private:
  Prepared move(std::vector<std::vector<int64_t>> strides, std::vector<int64_t> offsets,
                std::vector<int64_t> sizes, bool adds) const {
    return prepare_move({std::move(sizes), std::move(strides), std::move(offsets), adds}, stored_);
  }

  std::vector<int64_t> own_, shared_;  ///< strides of samples, rows, shared heads, heads of one, numbers
  int64_t own_offset_, shared_offset_;
  std::vector<int64_t> sizes_;
  Precision stored_;
};

}  // namespace

Prepared by_own_keys(const Call& shared, const Call& own, const Prepared& prepared, Precision stored) {
  const AttentionShape a(shared);
  const int64_t samples = AttentionShape(own).batch, words = samples * own_key_words(a);
  const Copies keys(a, samples, false, stored), values(a, samples, true, stored);
  const std::array spread{keys.spread(), values.spread()};
  const std::array added{keys.added(), values.added()};
  return {
      [=](const Launch& l) {
        float *const copies = l.scratch, *const gradients = copies + words;
        for (int64_t b = 0; b < a.batch; b += samples) {
          const auto at = [&](std::size_t operand, int64_t numbers) {
            return reinterpret_cast<float*>(reinterpret_cast<uint16_t*>(l.operands[operand]) + b * numbers);
          };
          const int64_t queries = a.query * a.q_row, kept = a.key * a.kv_row, results = a.query * a.out_row();
          for (std::size_t v : {0U, 1U}) run_step(spread[v], {copies, at(4 + v, kept)}, l);
          run_step(prepared,
                   {at(0, queries), gradients, gradients, at(3, queries), copies, copies, at(6, results),
                    at(7, results), l.operands[8] + b * a.heads * a.query},
                   l, gradients + words);
          for (std::size_t v : {0U, 1U}) {
            for (const Prepared& part : added[v]) run_step(part, {at(1 + v, kept), gradients}, l);
          }
        }
      },
      2 * words + prepared.scratch};
}

}  // namespace tandem::exec::cuda
