// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gradients that travel in 2 bytes (gradients=fp16|auto, compression=fp16): in which memory, and which parts
// of a bucket where. Internal to exec.
#include <cstdint>

#include "schemes/program.h"

namespace tandem::exec {

/// What a collective, or a cast in front of or behind one, has of an instance's gradients in 2 bytes each.
/// Two lie in a word of 4 bytes. Collectives cut whole words, so each member's part begins with a word.
struct HalfGradients {
  int64_t elements = 0;  ///< of the bucket, or of a share of it; 0: they travel in 4 bytes
  int64_t parts = 1;     ///< of a reduce-scatter: one for each member, cut as chunk_begin() says
  int64_t each() const { return (elements + 2 * parts - 1) / (2 * parts); }  ///< words of a part
  int64_t words() const { return each() * parts; }
};
/// Of an op with payload gradients or shard.
HalfGradients half_gradients(const Program& program, const Op& op);

/// Do compute ops make gradients of 2 bytes and back, apart from their sums? Else the sums' ops do.
bool casts_gradients(const Program& program);

/// Words of a worker's memory for them, and where in it an op's lie. With casts each bucket has its own; else
/// the ops of a lane take turns.
int64_t half_words(const Program& program, const Role& role);
int64_t half_place(const Program& program, const Role& role, const Op& op);

}  // namespace tandem::exec
