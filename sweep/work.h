// SPDX-License-Identifier: Apache-2.0
#pragma once
// Cells given out to the threads that answer them, here and in other processes.
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tandem::sweep {

/// Each cell is counted once, whoever answers it and how often. Any thread may call.
class Work {
 public:
  /// Cells next to each other in an order: [begin, end).
  struct Part {
    std::size_t begin = 0, end = 0;
    bool empty() const { return begin == end; }
  };

  /// Positions of cells in the order to answer them. `takers`: how many threads there are, all processes
  /// together.
  Work(std::vector<int64_t> order, int64_t takers);

  /// The next cells for a thread of this process. Once all are given out: one that another process has not
  /// answered, as that may be lost. Empty where nothing is left to do.
  Part take_here();
  /// The next cells for a thread of another process; empty once all are given out.
  Part take_away();

  int64_t position(std::size_t index) const { return order_[index]; }
  std::size_t cells() const { return order_.size(); }
  /// A cell is answered: true for the first to say so.
  bool answered(std::size_t index);
  bool all_answered() const;

 private:
  enum class State : uint8_t { waiting, here, away, answered };
  Part take(State state);

  const std::vector<int64_t> order_;
  const int64_t takers_;
  mutable std::mutex mutex_;
  std::vector<State> states_;
  std::size_t next_ = 0, lost_ = 0, answered_ = 0;
};

}  // namespace tandem::sweep
