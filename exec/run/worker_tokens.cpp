// SPDX-License-Identifier: Apache-2.0
// Tokens on their way between devices that hold different experts: an all-to-all whose parts are as long as
// the router made them. Counts go first, then the tokens, in messages of their own.
#include <algorithm>
#include <numeric>

#include "exec/run/worker.h"

namespace tandem::exec {

namespace {

const int32_t* integers(const float* p) { return reinterpret_cast<const int32_t*>(p); }

/// One exchange as a member of it sees it, on memory that the host reaches. For one thread at a time.
class TokenExchange {
 public:
  struct Setup {
    Run& run;
    uint32_t collective = 0, group = 0, rank = 0, ranks = 1;
    int64_t experts = 1, width = 1;  ///< experts of each member
    float *from = nullptr, *to = nullptr, *counts = nullptr, *arrived = nullptr;
  };
  explicit TokenExchange(const Setup& setup) : s_(setup) {}

  /// Fills `arrived`. Returns when the last of the others' had come, as the next two do.
  int64_t tell() {
    float* own = s_.arrived + s_.rank * s_.experts;
    std::copy_n(s_.counts + s_.rank * s_.experts, s_.experts, own);
    return swap(
        [&](uint32_t to) {
          return Parts{{s_.counts + to * s_.experts, s_.experts}};
        },
        [&](uint32_t from) {
          return Parts{{s_.arrived + from * s_.experts, s_.experts}};
        });
  }
  /// Tokens to their experts, expert by expert, of each those of the first member first.
  int64_t go() {
    return swap([&](uint32_t to) { return at_home(s_.from, to); },
                [&](uint32_t from) { return at_experts(s_.to, from); });
  }
  int64_t come_back() {
    return swap([&](uint32_t to) { return at_experts(s_.from, to); },
                [&](uint32_t from) { return at_home(s_.to, from); });
  }

 private:
  using Parts = std::vector<MessagePart>;

  /// Those of this member's tokens that belong to the experts of `member`.
  Parts at_home(float* tokens, uint32_t member) const {
    const int32_t* counts = integers(s_.counts);
    const auto sum = [&](uint32_t members) {
      return std::accumulate(counts, counts + members * s_.experts, int64_t{0});
    };
    return {{tokens + sum(member) * s_.width, (sum(member + 1) - sum(member)) * s_.width}};
  }
  /// Those of `member`'s tokens that this member's experts work on.
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

  /// To every member its part of what is here, and from each its. Nothing is sent where nothing is to go.
  template <typename Sent, typename Taken>
  int64_t swap(const Sent& sent, const Taken& taken) {
    int64_t latest = 0;
    for (uint32_t k = 1; k < s_.ranks; ++k) {
      const uint32_t to = (s_.rank + k) % s_.ranks;
      const Parts parts = sent(to);
      if (any(parts)) s_.run.tokens().send(way(s_.rank, to), parts);
    }
    copy(sent(s_.rank), taken(s_.rank));
    for (uint32_t k = 1; k < s_.ranks; ++k) {
      const uint32_t from = (s_.rank + s_.ranks - k) % s_.ranks;
      const Parts parts = taken(from);
      if (any(parts)) latest = std::max(latest, s_.run.tokens().receive(way(from, s_.rank), parts));
    }
    return latest;
  }
  static bool any(const Parts& parts) {
    return std::any_of(parts.begin(), parts.end(), [](const MessagePart& p) { return p.elements > 0; });
  }
  PeerLinks::Pair way(uint32_t from, uint32_t to) const {
    return s_.run.token_way(s_.collective, s_.group, from, to);
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
};

}  // namespace

Worker::Act Worker::exchange_tokens(uint32_t index) {
  const Op& op = role().ops[index];
  const Run::Member m = run_.member(run_.program().collectives[op.what], instance_);
  const ExchangedTensors& x = exchanged(index);
  const SliceTensors& slice = graph().slice(op.key);
  const bool tells = !x.back && exchanges_before(op.key, index) < slice.forward.size();
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
  bytes_[index] = 4 * (x.back ? to : from).elements;  // what this device routes
  TokenExchange exchange({run_, op.what, m.group, m.rank, m.ranks, arrived.elements / m.ranks,
                          graph().graph().layers()[op.key].output.back(), from.host, to.host, counts.host,
                          arrived.host});
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
