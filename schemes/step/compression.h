// SPDX-License-Identifier: Apache-2.0
#pragma once
// What compressed gradients are on the way and what making them costs: the layouts that both engines share
// (semantics.md 2.8).
//   int8      the largest of kScaledTogether neighbours is 127 (Alistarh et al. 2017, "QSGD", which scales
//             buckets of 512 by their maximum), rounded to the nearest; all messages are gathered
//   topk      the largest of a bucket by magnitude (Aji and Heafield 2017, "Sparse Communication for
//             Distributed Gradient Descent"; Lin et al. 2018, "Deep Gradient Compression"); gathered
//   powersgd  Vogels et al. 2019, "PowerSGD", algorithm 1: P = M Q is summed, its columns made orthonormal,
//             Q = M^T P summed; M becomes P Q^T, and Q is what the next iteration begins with. What stays as
//             it is, vectors above all, is summed first and alone (torch.distributed's powerSGD_hook)
// What was left out is added to the next gradients (Seide et al. 2014, "1-Bit Stochastic Gradient Descent";
// Karimireddy et al. 2019, "Error Feedback Fixes SignSGD").
#include <vector>

#include "base/options.h"
#include "models/graph.h"
#include "schemes/program/program.h"
#include "schemes/step/factors.h"

namespace tandem::schemes {

/// One bucket's gradients on the way.
/// Immutable once made: any thread may read it.
struct CompressedBucket {
  /// `graph` is the whole model, whose flat vector `bucket` is a part of. O(layers).
  CompressedBucket(const Compression& rule, const Graph& graph, const Bucket& bucket, int64_t workers);
  /// Elements of one worker on the way to a server; not with powersgd, which sums over all workers.
  CompressedBucket(const Compression& rule, int64_t elements);

  Compression rule;
  int64_t elements = 0, workers = 1;
  int64_t kept = 0;              ///< topk: how many elements travel
  std::vector<Factors> factors;  ///< powersgd: of all elements, in order
  /// Are workers' messages gathered, so that each sees all? Else they are summed.
  bool gathered() const { return rule.kind != Compression::Kind::powersgd; }
  int64_t message() const;  ///< words of 4 bytes that a worker brings to the gather, or to the first two sums
  int64_t plain() const;    ///< of these to the first; 0: there is none
  int64_t second() const;   ///< and to the last; 0: there is none
  /// Of a worker's buffer: all messages, or the sums one after another.
  int64_t words() const { return gathered() ? workers * message() : message() + second(); }

  std::vector<Kernel> compress() const;    ///< memory traffic, and products of matrices
  std::vector<Kernel> orthogonal() const;  ///< between the sums
  std::vector<Kernel> decompress() const;  ///< what is left is the sum over workers
};

/// What a worker pushes to each of `shards` servers, in words of 4 bytes: each gets its part of the elements
/// compressed apart, and as much as the one with most.
int64_t pushed_words(const Compression& rule, int64_t elements, int64_t shards);
/// Of options "compression", "density", "rank" and "error-feedback"; fp16 is none.
Compression read_compression(const Options& options);
inline constexpr OptionSpec kDensityOption{
    "density", OptionSpec::Type::real, "0.01", "topk: share of the gradients that travels", "", 1e-6, 1};
inline constexpr OptionSpec kRankOption{
    "rank", OptionSpec::Type::count, "2", "powersgd: columns of the thin matrices", "", 1, 1024};
inline constexpr OptionSpec kErrorFeedbackOption{
    "error-feedback", OptionSpec::Type::flag, "on",
    "int8, topk, powersgd: what was left out is added to the next gradients"};

/// Of the buffers that a device of the role, which holds `graph`, has for all its buckets; 0 without
/// compression.
int64_t compressed_words(const Program& program, uint32_t role, const Graph& graph);
/// Devices whose compressed gradients are summed: members of the role's groups.
int64_t compressing_members(const Program& program, const Role& role);
/// Vectors as long as the flat parameters, in fp32, of what was left out.
inline int64_t feedback_vectors(const Program& program) {
  return program.compression.kind != Compression::Kind::none && program.compression.feedback ? 1 : 0;
}

}  // namespace tandem::schemes
