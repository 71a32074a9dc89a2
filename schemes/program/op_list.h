// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ops of a role. A step with hundreds of micro-batches repeats the same passes over and over: the list
// holds such a pass once, and says where it is called. Read as a vector of ops, it is the same list.
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "schemes/program/op.h"

namespace tandem::schemes {

/// A vector of ops, some runs of which are calls of routines. operator[] and iteration write out all ops on
/// first use (O(ops) time and memory, kept); parts() does not. Editing an op writes all out permanently.
/// Const calls: any thread. All else: one thread at a time.
class OpList {
 public:
  using Ops = std::vector<Op>;

  /// Consecutive ops: one call of a routine, or ops that stand alone.
  struct Part {
    uint32_t first = 0, count = 0;  ///< in the list
    int32_t routine = -1;           ///< index into routines(); -1: ops that stand alone
    uint16_t micro = 0;             ///< of a call: Op::micro of its ops
    uint32_t at = 0;                ///< of ops that stand alone: where they are stored
    /// Of a call: what its ops wait for outside of it, as (op within the call, dependency on an op of the
    /// list), in the order in which they were added.
    std::vector<std::pair<uint32_t, Dep>> deps = {};
    uint32_t end() const { return first + count; }
  };

  OpList() = default;
  OpList(std::initializer_list<Op> ops) {
    for (const Op& op : ops) push_back(op);
  }

  // As a vector.
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const Op& operator[](std::size_t i) const { return all()[i]; }
  const Op& at(std::size_t i) const { return all().at(i); }
  const Op& back() const { return all().back(); }
  Ops::const_iterator begin() const { return all().begin(); }
  Ops::const_iterator end() const { return all().end(); }
  Op& operator[](std::size_t i) { return edit()[i]; }
  Ops::iterator begin() { return edit().begin(); }
  Ops::iterator end() { return edit().end(); }
  void pop_back();

  // Writing.
  void push_back(Op&& op);
  void push_back(const Op& op) { push_back(Op(op)); }
  /// Room for that many that stand alone.
  void reserve(std::size_t ops) { alone_.reserve(ops); }
  /// Makes a routine of the ops from `first` on, which stand alone and work for one micro-batch, and puts a
  /// call of it in their place. The list reads the same. Returns its index.
  uint32_t fold(uint32_t first);
  /// Appends a call; returns the index of its first op.
  uint32_t call(uint32_t routine, uint16_t micro);
  /// Op `op` of the list waits for another, too. O(log parts).
  void depend(uint32_t op, Dep dep);
  /// The op, which stands alone and was the last to be added.
  Op& last();

  // Reading without writing out.
  const std::vector<Part>& parts() const { return parts_; }
  const std::vector<Ops>& routines() const { return routines_; }
  /// Op `i` of a part as it is stored: of a call without its micro-batch, its deps within the routine.
  const Op& stored(const Part& part, uint32_t i) const {
    return part.routine < 0 ? alone_[part.at + i] : routines_[static_cast<std::size_t>(part.routine)][i];
  }
  /// Index into parts() of the one that op `op` is in. O(log parts), of the last O(1).
  std::size_t part_of(uint32_t op) const;
  /// f(op, times) for every op that stands alone and every op of a routine that is called, the latter once;
  /// `times`: how often the list has it. In no particular order. O(parts + ops of routines).
  template <typename F>
  void each_distinct(F f) const {
    std::vector<int64_t> calls(routines_.size());
    for (const Part& part : parts_) {
      if (part.routine >= 0) {
        ++calls[static_cast<std::size_t>(part.routine)];
        continue;
      }
      for (uint32_t i = 0; i < part.count; ++i) f(alone_[part.at + i], int64_t{1});
    }
    for (std::size_t r = 0; r < routines_.size(); ++r) {
      for (std::size_t i = 0; i < routines_[r].size() && calls[r] > 0; ++i) f(routines_[r][i], calls[r]);
    }
  }
  /// Whether f(op) holds for any op, as each_distinct() gives them.
  template <typename F>
  bool any(F f) const {
    bool found = false;
    each_distinct([&](const Op& op, int64_t) { found = found || f(op); });
    return found;
  }

 private:
  struct Written {
    std::once_flag once;
    Ops ops;
  };
  const Ops& all() const { return routines_.empty() ? alone_ : written(); }
  const Ops& written() const;
  Ops& edit();
  void write_out(Ops& out) const;
  /// What was written out is so no more; copies of the list keep theirs.
  void changed() {
    if (written_ != nullptr && !written_->ops.empty()) written_ = std::make_shared<Written>();
  }

  Ops alone_;                  ///< those that stand alone; all of them where there are no routines
  std::vector<Ops> routines_;  ///< deps within them by index, lag 0; they neither send nor receive
  std::vector<Part> parts_;
  std::size_t size_ = 0;
  std::shared_ptr<Written> written_;  ///< null: there are no routines
};

}  // namespace tandem::schemes
