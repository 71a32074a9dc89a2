// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gradients that travel in 2 bytes (gradients=fp16|auto, compression=fp16): which memory they use, and which
// parts of a bucket are where. Internal to exec.
#include <cstdint>

#include "schemes/program/program.h"

namespace tandem::exec {

/// The 2-byte gradients of an instance in a collective, or in a cast before or after one. Two share a word of
/// 4 bytes. Collectives cut whole words, so each member's part begins with a word.
struct HalfGradients {
  int64_t elements = 0;  ///< of the bucket, or of a share of it; 0: they travel in 4 bytes
  int64_t parts = 1;     ///< of a reduce-scatter: one per member, cut as chunk_begin() says
  int64_t each() const { return (elements + 2 * parts - 1) / (2 * parts); }  ///< words of a part
  int64_t words() const { return each() * parts; }
};
/// Of an op with payload gradients or shard.
HalfGradients half_gradients(const Program& program, const Op& op);

/// Whether separate compute ops cast gradients to 2 bytes and back; else the ops of the sums do.
bool casts_gradients(const Program& program);

/// Words of a worker's memory for them, and the offset of each op's. With casts each bucket has its own; else
/// the ops of a lane share it.
int64_t half_words(const Program& program, const Role& role);
int64_t half_place(const Program& program, const Role& role, const Op& op);

}  // namespace tandem::exec
