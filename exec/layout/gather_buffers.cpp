// SPDX-License-Identifier: Apache-2.0
#include "exec/layout/gather_buffers.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "exec/layout/happens_before.h"
#include "exec/lower/arena.h"

namespace tandem::exec {

namespace {

using Keys = std::set<uint32_t>;

/// Buckets of the role by their start.
std::map<int64_t, uint32_t> buckets_of(const Program& program, uint32_t role) {
  std::map<int64_t, uint32_t> out;
  for (uint32_t key = 0; key < program.buckets.size(); ++key) {
    const Bucket& b = program.buckets[key];
    if (b.role == role && b.elements > 0) out.emplace(b.first, key);
  }
  return out;
}

/// [layer]: buckets whose parameters the calls of the layer's passes read, or whose gradients they write. A
/// backward pass may run calls of forward once more.
class Uses {
 public:
  Uses(const Program& program, uint32_t role, const ExecutionGraph& lowered, TensorKind kind)
      : program_(program), buckets_(buckets_of(program, role)), lowered_(lowered), kind_(kind) {
    const auto layers = static_cast<uint32_t>(lowered.graph().layers().size());
    forward_.resize(layers);
    backward_.resize(layers);
    for (uint32_t i = 0; i < layers; ++i) {
      add(lowered.forward(i), forward_[i]);
      backward_[i] = forward_[i];
      add(lowered.backward(i), backward_[i]);
    }
  }

  Keys of(const Op& op) const {
    Keys out;
    if (op.kind != OpKind::compute || op.payload != Payload::none) return out;
    const Task& task = program_.tasks[op.what];
    const auto& uses = task.pass == Pass::forward || task.again ? forward_ : backward_;
    for (uint32_t i = task.layer; i < task.layer + task.layers; ++i)
      out.insert(uses[i].begin(), uses[i].end());
    return out;
  }

 private:
  void add(const std::vector<Call>& calls, Keys& to) const {
    for (const Call& c : calls) {
      for (const TensorId t : c.operands) {
        const Tensor& x = lowered_.tensors()[t];
        if (x.kind != kind_ || x.elements == 0) continue;
        const auto behind = buckets_.upper_bound(x.offset);
        TANDEM_CHECK(behind != buckets_.begin());
        to.insert(std::prev(behind)->second);
      }
    }
  }

  const Program& program_;
  std::map<int64_t, uint32_t> buckets_;
  const ExecutionGraph& lowered_;
  TensorKind kind_;
  std::vector<Keys> forward_, backward_;
};

bool is_collective(const Program& program, const Op& op, CollKind kind, Payload payload) {
  return op.kind == OpKind::collective && op.payload == payload && program.collectives[op.what].kind == kind;
}

/// Buckets whose gradients each micro-batch scatters, and which no later op uses whole.
Keys scattered_each(const Program& program, const OpList& ops) {
  std::map<uint32_t, int32_t> count;
  int32_t micros = 1;
  bool whole = false;
  for (const Op& op : ops) {
    micros = std::max(micros, op.micro + 1);
    whole = whole || op.payload == Payload::sequence_gradients;
    if (op.always() && is_collective(program, op, CollKind::reduce_scatter, Payload::gradients))
      ++count[op.key];
  }
  Keys out;
  for (const auto& [key, scatters] : count) {
    if (scatters == micros && !whole) out.insert(key);
  }
  return out;
}

}  // namespace

std::vector<Life> parameter_lives(const Program& program, uint32_t role, const ExecutionGraph& lowered,
                                  bool offloaded) {
  std::vector<Life> out;
  if (program.sharding.parameters <= 1 && !offloaded) return out;
  const OpList& ops = program.roles[role].ops;
  const Uses uses(program, role, lowered, TensorKind::parameter);
  struct Open {
    std::size_t life;
    bool used;
  };
  std::map<uint32_t, Open> open;  // [bucket]: its latest lifetime, and whether a pass has read it
  std::map<uint32_t, std::vector<uint32_t>> odd;  // read before what brings it
  for (uint32_t i = 0; i < ops.size(); ++i) {
    const Op& op = ops[i];
    const bool comes = op.kind == OpKind::copy && op.lane == Lane::reload && offloaded;
    if (op.payload == Payload::parameters &&
        (comes || is_collective(program, op, CollKind::all_gather, Payload::parameters))) {
      const auto at = open.find(op.key);
      if (at == open.end() || at->second.used) {
        open[op.key] = {out.size(), false};
        out.push_back({op.key, {}});
      }
      out[open[op.key].life].ops.push_back(i);
      out[open[op.key].life].ends &= op.always();
    }
    for (const uint32_t key : uses.of(op)) {
      const auto at = open.find(key);
      if (at == open.end()) {
        odd[key].push_back(i);
        continue;
      }
      at->second.used = true;
      out[at->second.life].ops.push_back(i);
    }
  }
  for (Life& life : out) life.ends = life.ends && odd.count(life.key) == 0;
  return out;
}

std::vector<Life> gradient_lives(const Program& program, uint32_t role, const ExecutionGraph& lowered) {
  std::vector<Life> out;
  if (program.sharding.gradients <= 1) return out;
  const OpList& ops = program.roles[role].ops;
  const Keys scattered = scattered_each(program, ops);
  const Uses uses(program, role, lowered, TensorKind::parameter_gradient);
  std::map<uint32_t, std::size_t> open;  // [bucket]: its lifetime, until it is scattered
  const auto touches = [&](uint32_t key, uint32_t op) {
    const auto [at, fresh] = open.try_emplace(key, out.size());
    if (fresh) out.push_back({key, {}, false});
    out[at->second].ops.push_back(op);
    return at;
  };
  for (uint32_t i = 0; i < ops.size(); ++i) {
    for (const uint32_t key : uses.of(ops[i])) {
      if (scattered.count(key) > 0) touches(key, i);
    }
    if (!is_collective(program, ops[i], CollKind::reduce_scatter, Payload::gradients) ||
        scattered.count(ops[i].key) == 0)
      continue;
    const auto at = touches(ops[i].key, i);
    out[at->second].ends = true;
    open.erase(at);
  }
  return out;
}

namespace {

/// The last op of each lane, or the first, of those in the order of the list.
std::vector<uint32_t> ends_of_lanes(const OpList& ops, const Life& life, bool last) {
  std::map<Lane, uint32_t> at;
  for (const uint32_t op : life.ops) {
    if (last)
      at[ops[op].lane] = op;
    else
      at.try_emplace(ops[op].lane, op);
  }
  std::vector<uint32_t> out;
  for (const auto& [lane, op] : at) out.push_back(op);
  return out;
}

/// Pairs of buckets that must not share memory.
class Conflicts {
 public:
  Conflicts(const OpList& ops, const std::vector<Life>& lives) : order_(ops) {
    for (const Life& life : lives)
      spans_.push_back({life, ends_of_lanes(ops, life, false), ends_of_lanes(ops, life, true)});
    for (std::size_t a = 0; a < spans_.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const uint32_t x = spans_[a].life.key, y = spans_[b].life.key;
        if (x == y || between(x, y) || apart(spans_[a], spans_[b])) continue;
        pairs_.emplace(std::min(x, y), std::max(x, y));
      }
    }
  }
  bool between(uint32_t a, uint32_t b) const { return pairs_.count({std::min(a, b), std::max(a, b)}) > 0; }

 private:
  struct Span {
    const Life& life;
    std::vector<uint32_t> begins, ends;
  };
  bool before(const Span& a, const Span& b, bool next) {
    for (const uint32_t end : a.ends) {
      for (const uint32_t begin : b.begins) {
        if (!order_.before(end, begin, next)) return false;
      }
    }
    return true;
  }
  bool apart(const Span& a, const Span& b) {
    return a.life.ends && b.life.ends && (before(a, b, false) || before(b, a, false)) && before(a, b, true) &&
           before(b, a, true);
  }

  HappensBefore order_;
  std::vector<Span> spans_;
  std::set<std::pair<uint32_t, uint32_t>> pairs_;
};

/// Each bucket at the first offset that is free of those it must not share memory with.
GatherBuffers placed(const Program& program, const std::vector<uint32_t>& keys, const Conflicts& conflicts) {
  GatherBuffers out;
  out.at.assign(program.buckets.size(), GatherBuffers::kNone);
  std::vector<uint32_t> there;  // in the order of their offsets
  for (const uint32_t key : keys) {
    const Bucket& bucket = program.buckets[key];
    const int64_t shift = bucket.first % kArenaAlign;
    int64_t at = shift;
    for (const uint32_t other : there) {
      const int64_t begin = out.at[other], end = begin + program.buckets[other].elements;
      if (!conflicts.between(key, other) || end <= at) continue;
      if (begin >= at + bucket.elements) break;
      at = arena_aligned(end - shift) + shift;
    }
    out.at[key] = at;
    out.elements = std::max(out.elements, at + bucket.elements);
    there.insert(std::upper_bound(there.begin(), there.end(), key,
                                  [&](uint32_t a, uint32_t b) { return out.at[a] < out.at[b]; }),
                 key);
  }
  return out;
}

/// Only those that share memory with another.
GatherBuffers shared(const Program& program, std::vector<uint32_t> keys, const Conflicts& conflicts,
                     bool stays) {
  const GatherBuffers all = placed(program, keys, conflicts);
  if (!stays) return all;
  const auto alone = [&](uint32_t a) {
    return std::none_of(keys.begin(), keys.end(), [&](uint32_t b) {
      return a != b && all.at[a] < all.at[b] + program.buckets[b].elements &&
             all.at[b] < all.at[a] + program.buckets[a].elements;
    });
  };
  std::vector<uint32_t> own, others;
  for (const uint32_t key : keys) (alone(key) ? own : others).push_back(key);
  GatherBuffers out = placed(program, others, conflicts);
  for (const uint32_t key : own) out.at[key] = GatherBuffers::kOwn;
  return out;
}

}  // namespace

GatherBuffers gather_buffers_for(const Program& program, uint32_t role, const std::vector<Life>& lives,
                                 bool stays) {
  if (lives.empty()) return {std::vector<int64_t>(program.buckets.size(), GatherBuffers::kNone), 0};
  const Conflicts conflicts(program.roles[role].ops, lives);
  std::vector<uint32_t> keys;
  for (const Life& life : lives) {
    if (std::find(keys.begin(), keys.end(), life.key) == keys.end()) keys.push_back(life.key);
  }
  GatherBuffers as_listed = shared(program, keys, conflicts, stays);
  std::stable_sort(keys.begin(), keys.end(), [&](uint32_t a, uint32_t b) {
    return program.buckets[a].elements > program.buckets[b].elements;
  });
  GatherBuffers by_size = shared(program, keys, conflicts, stays);
  const auto whole = [&](const GatherBuffers& rooms) {
    int64_t sum = rooms.elements;
    for (const uint32_t key : keys)
      sum += rooms.at[key] == GatherBuffers::kOwn ? program.buckets[key].elements : 0;
    return sum;
  };
  return whole(by_size) < whole(as_listed) ? by_size : as_listed;
}

SharedGatherBuffers shared_gather_buffers(const Program& program, uint32_t role,
                                          const ExecutionGraph& lowered, bool parameters_offloaded) {
  const auto& ops = program.roles[role].ops;
  const bool sums = program.micro_batches > 1 ||
                    std::any_of(ops.begin(), ops.end(), [](const Op& op) { return op.micro > 0; });
  return {gather_buffers_for(program, role, parameter_lives(program, role, lowered, parameters_offloaded),
                             !parameters_offloaded),
          gather_buffers_for(program, role, gradient_lives(program, role, lowered), !sums)};
}

}  // namespace tandem::exec
