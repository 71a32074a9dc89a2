// SPDX-License-Identifier: Apache-2.0
#include "schemes/program/op_list.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace tandem::schemes {

void OpList::push_back(Op&& op) {
  changed();
  if (parts_.empty() || parts_.back().routine >= 0)
    parts_.push_back({static_cast<uint32_t>(size_), 0, -1, 0, static_cast<uint32_t>(alone_.size())});
  ++parts_.back().count;
  ++size_;
  alone_.push_back(std::move(op));
}

void OpList::pop_back() {
  edit().pop_back();
  --size_;
  if (--parts_.back().count == 0) parts_.pop_back();
}

uint32_t OpList::fold(uint32_t first) {
  TANDEM_CHECK(first < size_ && parts_.back().routine < 0 && parts_.back().first <= first);
  changed();
  const auto count = static_cast<uint32_t>(size_) - first;
  Ops ops(std::make_move_iterator(alone_.end() - count), std::make_move_iterator(alone_.end()));
  alone_.resize(alone_.size() - count);
  parts_.back().count -= count;
  if (parts_.back().count == 0) parts_.pop_back();
  Part part{first, count, static_cast<int32_t>(routines_.size()), ops.front().micro};
  for (uint32_t i = 0; i < count; ++i) {
    TANDEM_CHECK(ops[i].micro == part.micro && ops[i].kind != OpKind::send && ops[i].kind != OpKind::recv);
    Deps inside;
    for (const Dep& dep : ops[i].deps) {
      if (dep.lag == 0 && dep.op >= first)
        inside.push_back({dep.op - first, 0});
      else
        part.deps.emplace_back(i, dep);
    }
    ops[i].deps = std::move(inside);
  }
  parts_.push_back(std::move(part));
  routines_.push_back(std::move(ops));
  if (written_ == nullptr) written_ = std::make_shared<Written>();
  return static_cast<uint32_t>(routines_.size() - 1);
}

uint32_t OpList::call(uint32_t routine, uint16_t micro) {
  const auto first = static_cast<uint32_t>(size_);
  const auto count = static_cast<uint32_t>(routines_.at(routine).size());
  changed();
  parts_.push_back({first, count, static_cast<int32_t>(routine), micro, 0});
  size_ += count;
  return first;
}

std::size_t OpList::part_of(uint32_t op) const {
  if (op >= parts_.back().first) return parts_.size() - 1;
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), op,
                                      [](uint32_t o, const Part& part) { return o < part.first; });
  return static_cast<std::size_t>(after - parts_.begin()) - 1;
}

void OpList::depend(uint32_t op, Dep dep) {
  changed();
  Part& part = parts_[part_of(op)];
  if (part.routine >= 0)
    part.deps.emplace_back(op - part.first, dep);
  else
    alone_[part.at + op - part.first].deps.push_back(dep);
}

Op& OpList::last() {
  TANDEM_CHECK(!parts_.empty() && parts_.back().routine < 0);
  return alone_.back();
}

const OpList::Ops& OpList::written() const {
  std::call_once(written_->once, [&] { write_out(written_->ops); });
  return written_->ops;
}

void OpList::write_out(Ops& out) const {
  out.reserve(size_);
  for (const Part& part : parts_) {
    for (uint32_t i = 0; i < part.count; ++i) {
      Op& op = out.emplace_back(stored(part, i));
      if (part.routine < 0) continue;
      op.micro = part.micro;
      for (Dep& dep : op.deps) dep.op += part.first;
    }
    for (const auto& [i, dep] : part.deps) out[part.first + i].deps.push_back(dep);
  }
}

OpList::Ops& OpList::edit() {
  if (routines_.empty()) return alone_;
  Ops ops;
  write_out(ops);
  alone_ = std::move(ops);
  routines_.clear();
  written_.reset();
  parts_ = {{0, static_cast<uint32_t>(size_), -1, 0, 0}};
  return alone_;
}

}  // namespace tandem::schemes
