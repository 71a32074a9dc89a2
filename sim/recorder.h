#pragma once
// Fills a Trace, in the same way for every evaluator. Floor 3.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "sim/evaluate.h"

namespace tandem {

/// All that a Trace tells about op executions. Ops of one lane are to be reported in order, and an op after
/// its dependencies; everything else may come in any order.
class Recorder {
 public:
  Recorder(const Plan& plan, const EvaluateOptions& options, Trace& trace);

  /// The hash of one execution is a * weight(role, instance), a = mark(...), so that `n` instances with equal
  /// times take one product with the sum of their weights.
  static uint64_t stem(uint32_t role, uint32_t iteration, uint32_t op) {
    return mix64(uint64_t{role} << 56 ^ uint64_t{op} << 32 ^ iteration);
  }
  static uint64_t mark(uint64_t stem, int64_t start, int64_t end) {
    return mix64(stem ^ static_cast<uint64_t>(start) * 0xd6e8feb86659fd93ULL ^
                 std::rotl(static_cast<uint64_t>(end) * 0xff51afd7ed558ccdULL, 31));
  }
  static uint64_t weight(uint32_t role, uint32_t instance) {
    return mix64(uint64_t{role} << 32 ^ instance ^ 0x5851f42d4c957f2dULL) | 1;
  }

  /// One execution. `weight` as above, `count` how many instances it stands for (from `instance` on).
  void op(uint32_t role, uint32_t instance, uint32_t iteration, uint32_t op, int64_t start, int64_t end,
          uint64_t weight, uint32_t count = 1) {
    hash(mark(stem(role, iteration, op), start, end) * weight, count);
    if (instance < kept_) keep(role, instance, iteration, op, start, end, count);
  }
  /// Only the order-free part, for rows of instances; kept instances then go through keep().
  void hash(uint64_t sum, int64_t executions) {
    trace_.fingerprint += sum;
    trace_.events += executions;
  }
  void keep(uint32_t role, uint32_t instance, uint32_t iteration, uint32_t op, int64_t start, int64_t end,
            uint32_t count = 1) {
    keep(role, instance, iteration, op, start, end, count, role == 0 ? instance : 0);
  }
  /// Of a server, in the iteration of the worker that asked for it.
  void keep(uint32_t role, uint32_t instance, uint32_t iteration, uint32_t op, int64_t start, int64_t end,
            uint32_t count, uint32_t worker);
  uint32_t kept() const { return kept_; }
  /// Worker 0 starts an op of its compute lane: what did it wait for? Before keep() of that op, and after
  /// that of all ops ended by then that it depends on.
  void compute_starts(uint32_t iteration, uint32_t op, int64_t start);
  /// An op of worker 0's compute lane ended so much later because it was not issued earlier. Before its keep().
  void launch(int64_t late) {
    trace_.exposed_launch.ps += late;
    trace_.busy[static_cast<int>(Lane::compute)].ps -= late;
  }
  /// Iteration `iteration` of `count` workers from `instance` on ended at `end`. Of a free-running program in
  /// the order of time.
  void iteration(uint32_t instance, uint32_t iteration, int64_t end, uint32_t count = 1);
  /// Plan::transfers[index] ran once more, `count` times.
  void transfer(int32_t index, int64_t count = 1) { runs_[static_cast<std::size_t>(index)] += count; }
  void message(const Transfer& transfer);
  void makespan(int64_t end) { trace_.makespan.ps = std::max(trace_.makespan.ps, end); }
  /// Settles sums and orders the spans. Call once.
  void finish();

 private:
  enum class Wait : uint8_t { comm, input, other };
  Wait wait_of(const Op& op) const;
  void charge(Wait wait, int64_t time);
  void forget_early();
  void worker0(uint32_t iteration, uint32_t op, int64_t start, int64_t end);

  const Plan& plan_;
  EvaluateOptions options_;
  Trace& trace_;
  uint32_t kept_;
  bool free_running_;
  std::vector<int64_t> runs_;  ///< [transfer]
  /// [worker]: iterations that it makes, so far where the program is free-running, and the end of the last.
  std::vector<uint32_t> made_;
  std::vector<int64_t> last_;
  /// Spans of the last iterations and, where how many will come is not known, some before.
  std::vector<std::pair<Span, uint32_t>> spans_;  ///< with the worker whose iteration it is
  std::size_t most_spans_ = 4096;
  // Worker 0: ends of its ops in the last `ring_` iterations, where its compute lane got to, its last op.
  struct Ended {
    uint32_t iteration = UINT32_MAX;
    int64_t at = 0;
  };
  std::vector<std::vector<Ended>> ends_;
  uint32_t ring_ = 1;
  int64_t compute_end_ = 0, last_end_ = 0;
  uint32_t last_op_ = 0;
};

}  // namespace tandem
