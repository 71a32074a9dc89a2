// SPDX-License-Identifier: Apache-2.0
#include "schemes/program/check_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tandem::schemes {

namespace {

using OpPlace = MessageCheck::Place;
using PortOps = MessageCheck::PortOps;
constexpr uint64_t kMostPorts = uint64_t{1} << 30;

/// What waits for what within an iteration: a node for each op that stands alone, and for each call.
class Waits {
 public:
  explicit Waits(const Program& program) : p_(program), first_(program.roles.size()) {
    uint32_t nodes = 0;
    for (std::size_t r = 0; r < p_.roles.size(); ++r) {
      for (const OpList::Part& part : p_.roles[r].ops.parts()) {
        first_[r].push_back(nodes);
        nodes += part.routine < 0 ? part.count : 1;
      }
    }
    waits_.resize(nodes);
  }

  /// "" or what to say of one.
  std::string cycle(const PortOps& of) {
    std::vector<uint32_t> begin(waits_.size() + 1);  // [node]: where `next` has the ends of its edges
    each_edge(of, [&](uint32_t from, uint32_t to) {
      ++begin[from + 1];
      ++waits_[to];
    });
    for (std::size_t i = 0; i < waits_.size(); ++i) begin[i + 1] += begin[i];
    std::vector<uint32_t> next(begin.back()), at = begin;
    each_edge(of, [&](uint32_t from, uint32_t to) { next[at[from]++] = to; });
    std::vector<uint32_t> ready;
    for (uint32_t i = 0; i < waits_.size(); ++i) {
      if (waits_[i] == 0) ready.push_back(i);
    }
    for (std::size_t done = 0; done < ready.size(); ++done) {  // Kahn's algorithm
      for (uint32_t e = begin[ready[done]]; e < begin[ready[done] + 1]; ++e) {
        if (--waits_[next[e]] == 0) ready.push_back(next[e]);
      }
    }
    return ready.size() == waits_.size() ? "" : text(waits_.size() - ready.size());
  }

 private:
  uint32_t node(uint32_t role, uint32_t op) const {
    const std::size_t k = p_.roles[role].ops.part_of(op);
    const OpList::Part& part = p_.roles[role].ops.parts()[k];
    return first_[role][k] + (part.routine < 0 ? op - part.first : 0);
  }

  /// f(from, to) for every edge: the same, in the same order, each time.
  template <typename F>
  void each_edge(const PortOps& of, F f) const {
    for (uint32_t r = 0; r < p_.roles.size(); ++r) each_edge_of(r, f);
    for (std::size_t port = 0; port < of.receive.size(); ++port) {
      const auto& from = of.send[port];
      const auto& to = of.receive[port];
      for (std::size_t n = 0; n < to.size(); ++n)
        f(node(from[n].role, from[n].op), node(to[n].role, to[n].op));
    }
  }

  template <typename F>
  void each_edge_of(uint32_t r, F& edge) const {
    const OpList& ops = p_.roles[r].ops;
    int64_t last[kLanes];
    std::fill(std::begin(last), std::end(last), -1);
    for (std::size_t k = 0; k < ops.parts().size(); ++k) {
      const OpList::Part& part = ops.parts()[k];
      for (uint32_t i = 0; i < part.count; ++i) {
        const uint32_t own = first_[r][k] + (part.routine < 0 ? i : 0);
        const Op& o = ops.stored(part, i);
        int64_t& before = last[static_cast<std::size_t>(o.lane)];
        if (before >= 0 && before != own) edge(static_cast<uint32_t>(before), own);
        before = own;
        if (part.routine >= 0) continue;
        for (const Dep& d : o.deps) {
          if (d.lag == 0) edge(node(r, d.op), own);
        }
      }
      for (const auto& [i, dep] : part.deps) {
        if (dep.lag == 0) edge(node(r, dep.op), first_[r][k]);
      }
    }
  }

  std::string text(std::size_t stuck) const {
    const auto at = static_cast<uint32_t>(
        std::find_if(waits_.begin(), waits_.end(), [](uint32_t w) { return w > 0; }) - waits_.begin());
    for (uint32_t r = 0; r < p_.roles.size(); ++r) {
      const auto& parts = p_.roles[r].ops.parts();
      for (std::size_t k = parts.size(); k-- > 0;) {
        if (first_[r][k] > at) continue;
        if (at >= first_[r][k] + (parts[k].routine < 0 ? parts[k].count : 1)) break;
        return fmt::format(
            "role \"{}\", op {}: deadlock, it waits for itself through other ops ({} of {} ops never "
            "start)",
            p_.roles[r].name, parts[k].first + at - first_[r][k], stuck, waits_.size());
      }
    }
    return "deadlock";
  }

  const Program& p_;
  std::vector<std::vector<uint32_t>> first_;  ///< [role][part]: its first node
  std::vector<uint32_t> waits_;               ///< [node]: number of others
};

}  // namespace

MessageCheck::MessageCheck(const Program& program)
    : p_(program), first_{0}, moves_(program.roles.size()), replies_(program.channels.size()) {
  uint64_t ports = 0;
  for (const Channel& c : p_.channels) {
    ports += c.key_bytes.size();
    if (ports > kMostPorts) throw ProgramError(fmt::format("more than {} keys of channels", kMostPorts));
    first_.push_back(static_cast<uint32_t>(ports));
  }
  sent_.resize(ports);
  received_.resize(ports);
}

void MessageCheck::add(uint32_t role, const Op& op) {
  const bool receives = op.kind == OpKind::recv;
  if ((!receives && op.kind != OpKind::send) || p_.roles[role].on_channel >= 0) return;
  const bool served = p_.roles[p_.channels[op.what].to_role].on_channel >= 0;
  const uint32_t port = first_[op.what] + op.key;
  Move move;
  move.port = port;
  move.receives = receives;
  move.served = served;
  moves_[role].push_back(move);
  ++(receives ? received_ : sent_)[port];
  if (op.every != 1) ++(receives ? thinned_received_ : thinned_sent_)[{port, op.every}];
}

std::pair<uint32_t, uint32_t> MessageCheck::channel_and_key(uint32_t port) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), port);
  const auto channel = static_cast<uint32_t>(after - first_.begin()) - 1;
  return {channel, port - first_[channel]};
}

/// Where a message to `port` of a role that serves it arrives: as that role's replies.
template <typename F>
void MessageCheck::each_reply(uint32_t port, F f) {
  const auto at = channel_and_key(port);
  const uint32_t channel = at.first, key = at.second;
  if (!replies_[channel]) {
    replies_[channel].emplace();
    p_.roles[p_.channels[channel].to_role].ops.each_distinct([&](const Op& answer, int64_t) {
      if (answer.kind == OpKind::send) replies_[channel]->push_back(answer.what);
    });
  }
  for (const uint32_t c : *replies_[channel]) {
    if (key >= p_.channels[c].key_bytes.size()) refuse(c, key, sent_[port], 0);
    f(first_[c] + key);
  }
}

void MessageCheck::refuse(uint32_t channel, uint32_t key, uint32_t sends, uint32_t receives) {
  throw ProgramError(fmt::format(
      "channel {}, key {}: {} sends but {} receives in an iteration, or at different `every` (rule 3.4)",
      channel, key, sends, receives));
}

/// Each recv must find the message that rule 3.4 promises it, and no message may be left lying.
void MessageCheck::match() {
  std::vector<uint32_t> arrive(sent_.size());
  std::map<std::pair<uint32_t, uint16_t>, uint32_t> thinned;
  for (uint32_t c = 0; c < p_.channels.size(); ++c) {
    const bool served = p_.roles[p_.channels[c].to_role].on_channel >= 0;
    for (uint32_t port = first_[c]; port < first_[c + 1]; ++port) {
      if (!served) arrive[port] += sent_[port];
      if (served && sent_[port] > 0) each_reply(port, [&](uint32_t to) { arrive[to] += sent_[port]; });
    }
  }
  for (const auto& [at, count] : thinned_sent_) {
    const auto [port, every] = at;
    const auto [channel, key] = channel_and_key(port);
    if (p_.roles[p_.channels[channel].to_role].on_channel < 0)
      thinned[at] += count;
    else
      each_reply(port, [&, e = every, n = count](uint32_t to) { thinned[{to, e}] += n; });
  }
  const bool alike = thinned == thinned_received_;
  for (uint32_t port = 0; port < arrive.size(); ++port) {
    const auto of_port = [&](const auto& all) {
      return std::vector(all.lower_bound({port, 0}), all.upper_bound({port, UINT16_MAX}));
    };
    if (arrive[port] == received_[port] && (alike || of_port(thinned) == of_port(thinned_received_)))
      continue;
    const auto [channel, key] = channel_and_key(port);
    refuse(channel, key, arrive[port], received_[port]);
  }
}

/// Roles one by one, each as far as its list goes without a message that is not sent yet: whether all of them
/// come to the end. What does so never deadlocks.
bool MessageCheck::goes_in_order() {
  constexpr uint32_t kNobody = UINT32_MAX;
  std::vector<uint32_t> unread(sent_.size()), waits(sent_.size(), kNobody), next(moves_.size()), going;
  for (auto r = static_cast<uint32_t>(moves_.size()); r-- > 0;) going.push_back(r);
  const auto arrive = [&](uint32_t port) {
    ++unread[port];
    if (waits[port] != kNobody) going.push_back(std::exchange(waits[port], kNobody));
  };
  while (!going.empty()) {
    const uint32_t r = going.back();
    going.pop_back();
    for (; next[r] < moves_[r].size(); ++next[r]) {
      const Move move = moves_[r][next[r]];
      if (move.receives && unread[move.port] == 0) {
        waits[move.port] = r;
        break;
      }
      if (move.receives)
        --unread[move.port];
      else if (move.served)
        each_reply(move.port, arrive);
      else
        arrive(move.port);
    }
  }
  for (std::size_t r = 0; r < next.size(); ++r) {
    if (next[r] < moves_[r].size()) return false;
  }
  return true;
}

PortOps MessageCheck::port_ops() {
  PortOps out{std::vector<std::vector<OpPlace>>(sent_.size()),
              std::vector<std::vector<OpPlace>>(sent_.size())};
  for (uint32_t r = 0; r < p_.roles.size(); ++r) {
    if (p_.roles[r].on_channel >= 0) continue;
    const OpList& ops = p_.roles[r].ops;
    auto move = moves_[r].begin();
    for (const OpList::Part& part : ops.parts()) {
      for (uint32_t i = 0; i < part.count && part.routine < 0; ++i) {
        const OpKind kind = ops.stored(part, i).kind;
        if (kind != OpKind::send && kind != OpKind::recv) continue;
        const OpPlace at{r, part.first + i};
        if (move->receives)
          out.receive[move->port].push_back(at);
        else if (move->served)
          each_reply(move->port, [&](uint32_t port) { out.send[port].push_back(at); });
        else
          out.send[move->port].push_back(at);
        ++move;
      }
    }
  }
  return out;
}

/// Lag-0 waits of all repeating roles: lane order, deps, and the n-th recv for the n-th send of its port.
/// A cycle among them never starts. Lists are topological, so only waits between lists can close one. A
/// call of a routine counts as one op, which asks for more than its ops do: what looks like a cycle then is
/// looked at op by op.
void MessageCheck::check_waits() {
  const PortOps ops = port_ops();
  const std::string cycle = Waits(p_).cycle(ops);
  if (cycle.empty()) return;
  Program plain = p_;
  bool folded = false;
  for (Role& role : plain.roles) {
    folded = folded || !role.ops.routines().empty();
    role.ops.begin();  // writes all ops out
  }
  const std::string real = folded ? Waits(plain).cycle(ops) : cycle;
  if (!real.empty()) throw ProgramError(real);
}

void MessageCheck::check() {
  match();
  if (!goes_in_order()) check_waits();
}

}  // namespace tandem::schemes
