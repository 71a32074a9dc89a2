// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an op waits for.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <utility>

#include "base/rooms.h"

namespace tandem::schemes {

/// Waits for `op` (index in the same role) of `lag` iterations ago; lag 0 = this iteration (then op must
/// come earlier in the list). Dependencies on iterations before the first are satisfied.
struct Dep {
  uint32_t op = 0;
  uint16_t lag = 0;
};

/// A vector of dependencies that keeps a single one in itself: an op of a Program of messages has no more,
/// and such Programs have millions of ops. Const calls: any thread. All else: one thread at a time.
class Deps {
 public:
  using value_type = Dep;
  using iterator = Dep*;
  using const_iterator = const Dep*;

  Deps() = default;
  Deps(std::initializer_list<Dep> deps) : Deps(deps.begin(), deps.end()) {}
  Deps(const Dep* from, const Dep* to) {
    for (; from != to; ++from) push_back(*from);
  }
  Deps(const Deps& other) : Deps(other.begin(), other.end()) {}
  Deps(Deps&& other) noexcept : in_(other.in_), size_(std::exchange(other.size_, 0)) {}
  Deps& operator=(Deps other) noexcept {
    std::swap(in_, other.in_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Deps() { clear(); }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const Dep* begin() const { return size_ > 1 ? in_.far : &in_.near; }
  const Dep* end() const { return begin() + size_; }
  Dep* begin() { return size_ > 1 ? in_.far : &in_.near; }
  Dep* end() { return begin() + size_; }
  const Dep& operator[](std::size_t i) const { return begin()[i]; }
  Dep& operator[](std::size_t i) { return begin()[i]; }
  /// Throws std::out_of_range.
  const Dep& at(std::size_t i) const {
    if (i >= size_) throw std::out_of_range("no such dependency");
    return begin()[i];
  }
  void push_back(Dep dep) {
    if (size_ == 0) {
      in_.near = dep;
    } else {
      if (std::has_single_bit(size_)) grow();
      in_.far[size_] = dep;
    }
    ++size_;
  }
  void pop_back() {
    if (size_ == 2) {
      Dep* const both = in_.far;
      in_.near = both[0];
      delete[] both;
    }
    --size_;
  }
  void clear() {
    if (size_ > 1) delete[] in_.far;
    size_ = 0;
  }

 private:
  /// There may be room for more than the next power of two, of which push_back() makes no use.
  void grow() {
    Dep* const more = new Dep[std::size_t{2} * size_];
    std::copy(begin(), end(), more);
    if (size_ > 1) delete[] in_.far;
    in_.far = more;
  }

  union {
    Dep near = {};
    Dep* far;  ///< of several: as many as the next power of two
  } in_;
  uint32_t size_ = 0;
};

}  // namespace tandem::schemes
