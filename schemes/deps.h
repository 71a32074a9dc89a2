// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an op waits for.
#include <cstdint>
#include <cstring>
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

/// A vector of dependencies that keeps up to two in itself: most ops have no more, and Programs of messages
/// have millions of ops. Const calls: any thread. All else: one thread at a time.
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
  Deps(Deps&& other) noexcept { swap(other); }
  Deps& operator=(Deps other) noexcept {
    swap(other);
    return *this;
  }
  ~Deps() {
    if (room_ > kOwn) delete[] far_;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const Dep* begin() const { return room_ > kOwn ? far_ : near_; }
  const Dep* end() const { return begin() + size_; }
  Dep* begin() { return room_ > kOwn ? far_ : near_; }
  Dep* end() { return begin() + size_; }
  const Dep& operator[](std::size_t i) const { return begin()[i]; }
  Dep& operator[](std::size_t i) { return begin()[i]; }
  /// Throws std::out_of_range.
  const Dep& at(std::size_t i) const {
    if (i >= size_) throw std::out_of_range("no such dependency");
    return begin()[i];
  }
  void push_back(Dep dep) {
    if (size_ == room_) grow();
    begin()[size_++] = dep;
  }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }

 private:
  static constexpr uint32_t kOwn = 2;
  void grow() {
    Dep* const more = new Dep[std::size_t{2} * room_];
    for (uint32_t i = 0; i < size_; ++i) more[i] = begin()[i];
    if (room_ > kOwn) delete[] far_;
    far_ = more;
    room_ *= 2;
  }
  void swap(Deps& other) noexcept {
    unsigned char held[sizeof(near_)];  // bytes: either member, whichever it is
    std::memcpy(held, near_, sizeof(held));
    std::memcpy(near_, other.near_, sizeof(held));
    std::memcpy(other.near_, held, sizeof(held));
    std::swap(size_, other.size_);
    std::swap(room_, other.room_);
  }

  union {
    Dep near_[kOwn] = {};
    Dep* far_;
  };
  uint32_t size_ = 0, room_ = kOwn;
};

}  // namespace tandem::schemes
