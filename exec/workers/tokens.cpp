// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/tokens.h"

#include <algorithm>
#include <numeric>

#include "exec/device/cpu/kernel.h"

namespace tandem::exec {

namespace {

const int32_t* integers(const float* p) { return reinterpret_cast<const int32_t*>(p); }

/// One member's view of an exchange, on memory that the host reaches. For one thread at a time.
class TokenExchange {
 public:
  struct Setup {
    Run& run;
    uint32_t collective = 0, group = 0, rank = 0, ranks = 1;
    bool all = false;                ///< each member takes the tokens of all, for its part of every expert
    int64_t experts = 1, width = 1;  ///< experts of each member
    float *from = nullptr, *to = nullptr, *counts = nullptr, *arrived = nullptr;
    int64_t count_words = 0;  ///< of `counts`
  };
  explicit TokenExchange(const Setup& setup) : s_(setup) {}

  /// Fills `arrived`. Returns when the last of the others' had come, as the next two do.
  int64_t tell() {
    const auto own = [&](uint32_t to) {
      return Parts{
          {s_.all ? reinterpret_cast<float*>(held().data()) : s_.counts + to * s_.experts, s_.experts}};
    };
    return swap(own, [&](uint32_t from) { return Parts{{s_.arrived + from * s_.experts, s_.experts}}; });
  }
  /// Tokens to their experts, expert by expert, in the order of members.
  int64_t go() {
    return swap([&](uint32_t to) { return at_home(s_.from, to); },
                [&](uint32_t from) { return at_experts(s_.to, from); });
  }
  int64_t come_back() {
    const auto sent = [&](uint32_t to) { return at_experts(s_.from, to); };
    if (!s_.all) return swap(sent, [&](uint32_t from) { return at_home(s_.to, from); });
    const Parts home = at_home(s_.to, s_.rank);
    parts_.resize(static_cast<std::size_t>(s_.ranks * home[0].elements));
    const auto part = [&](uint32_t member) { return parts_.data() + member * home[0].elements; };
    const int64_t latest = swap(sent, [&](uint32_t from) { return Parts{{part(from), home[0].elements}}; });
    std::copy_n(part(0), home[0].elements, home[0].at);  // in one order, so that sums do not depend on timing
    for (uint32_t m = 1; m < s_.ranks; ++m) cpu::accumulate(home[0].at, part(m), home[0].elements);
    return latest;
  }

 private:
  using Parts = std::vector<MessagePart>;

  /// If each member takes all: the number of this member's tokens for each expert, whoever sent them here.
  std::vector<int32_t>& held() {
    const int32_t* counts = integers(s_.counts);
    held_.assign(static_cast<std::size_t>(s_.experts), 0);
    for (int64_t i = 0; i < s_.count_words; ++i) held_[static_cast<std::size_t>(i % s_.experts)] += counts[i];
    return held_;
  }
  /// This member's tokens that belong to the experts of `member`.
  Parts at_home(float* tokens, uint32_t member) const {
    const int32_t* counts = integers(s_.counts);
    if (s_.all) return {{tokens, std::accumulate(counts, counts + s_.count_words, int64_t{0}) * s_.width}};
    const auto sum = [&](uint32_t members) {
      return std::accumulate(counts, counts + members * s_.experts, int64_t{0});
    };
    return {{tokens + sum(member) * s_.width, (sum(member + 1) - sum(member)) * s_.width}};
  }
  /// The tokens of `member` that this member's experts work on.
  Parts at_experts(float* tokens, uint32_t member) const {
    const int32_t* counts = integers(s_.arrived);
    Parts out;
    for (int64_t e = 0; e < s_.experts; ++e) {
      for (uint32_t m = 0; m < s_.ranks; ++m) {
        const int64_t elements = counts[m * s_.experts + e] * s_.width;
        if (m == member) out.push_back({tokens, elements});
        tokens += elements;
      }
    }
    return out;
  }

  /// Sends every member its part of the local tokens, and receives its. Empty messages are not sent.
  template <typename Sent, typename Taken>
  int64_t swap(const Sent& sent, const Taken& taken) {
    int64_t latest = 0;
    for (uint32_t k = 1; k < s_.ranks; ++k) {
      const uint32_t to = (s_.rank + k) % s_.ranks;
      const Parts parts = sent(to);
      if (any(parts)) s_.run.token_paths().links().send(way(s_.rank, to), parts);
    }
    copy(sent(s_.rank), taken(s_.rank));
    for (uint32_t k = 1; k < s_.ranks; ++k) {
      const uint32_t from = (s_.rank + s_.ranks - k) % s_.ranks;
      const Parts parts = taken(from);
      if (any(parts))
        latest = std::max(latest, s_.run.token_paths().links().receive(way(from, s_.rank), parts));
    }
    return latest;
  }
  static bool any(const Parts& parts) {
    return std::any_of(parts.begin(), parts.end(), [](const MessagePart& p) { return p.elements > 0; });
  }
  PeerLinks::Pair way(uint32_t from, uint32_t to) const {
    return s_.run.token_paths().of(s_.collective, s_.group, from, to);
  }
  /// One of the two is a single part.
  static void copy(const Parts& from, const Parts& to) {
    float *read = from[0].at, *write = to[0].at;
    for (const MessagePart& p : from.size() > 1 ? from : to) {
      std::copy_n(from.size() > 1 ? p.at : read, p.elements, from.size() > 1 ? write : p.at);
      read += p.elements;
      write += p.elements;
    }
  }

  Setup s_;
  std::vector<int32_t> held_;  ///< [expert]
  std::vector<float> parts_;   ///< [member]: partial sums of each
};

}  // namespace

OpHandler::Act Tokens::bind(uint32_t index) {
  const Op& op = role().ops[index];
  const GroupMember m = plan_.member(plan_.program().collectives[op.what], instance_);
  const ExchangedTensors& x = pass_plan_.exchanged(graph(), op.key, index);
  const SliceTensors& slice = graph().slice(op.key);
  const bool tells = !x.back && pass_plan_.exchanges_before(index) < slice.forward.size();
  struct Memory {
    float *device, *host;
    int64_t elements;
  };
  const auto memory = [&](TensorId t) {
    const int64_t elements = graph().tensors()[t].elements;
    float* at = tensor(t, slot(op));
    return Memory{at, driver_->host_memory(at, elements), elements};
  };
  const Memory from = memory(x.from), to = memory(x.to), counts = memory(x.counts),
               arrived = memory(x.arrived);
  const bool all = plan_.program().collectives[op.what].kind != CollKind::all_to_all;
  bench_.bytes[index] = all ? op.bytes.n : 4 * (x.back ? to : from).elements;  // what this device routes
  TokenExchange exchange({run_, op.what, m.group, m.rank, m.ranks, all, arrived.elements / m.ranks,
                          graph().graph().layers()[op.key].output.back(), from.host, to.host, counts.host,
                          arrived.host, counts.elements});
  return [=, this, lane = op.lane, back = x.back](int32_t) mutable {
    for (const Memory& read : {from, counts}) driver_->to_host(read.host, read.device, read.elements, lane);
    int64_t latest = 0;
    if (tells) {
      latest = exchange.tell();
      driver_->to_device(arrived.device, arrived.host, arrived.elements, lane);
    } else {
      driver_->to_host(arrived.host, arrived.device, arrived.elements, lane);
    }
    latest = std::max(latest, back ? exchange.come_back() : exchange.go());
    driver_->to_device(to.device, to.host, to.elements, lane);
    device_->synchronize(lane);
    return latest;
  };
}

}  // namespace tandem::exec
