// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of check() that looks at messages between roles.
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "schemes/program/program.h"

namespace tandem::schemes {

/// Does every message find who receives it, and does nobody wait for himself? A port is what a recv can wait
/// for: a (channel, key). Time and memory O(ports + messages). For one thread at a time.
class MessageCheck {
 public:
  struct Place {
    uint32_t role, op;
  };
  /// [port]: the ops that send to it and those that receive there, in their order.
  struct PortOps {
    std::vector<std::vector<Place>> send, receive;
  };

  explicit MessageCheck(const Program& program);
  /// The next op of a role that stands alone, whose indices are right; no op of a routine sends or receives.
  void add(uint32_t role, const Op& op);
  /// Behind the ops of all roles. Throws ProgramError.
  void check();

 private:
  struct Move {
    uint32_t port : 30, receives : 1, served : 1;  ///< `served`: by a role that replies
  };
  using Thinned = std::map<std::pair<uint32_t, uint16_t>, uint32_t>;  ///< by port and `every`

  [[noreturn]] static void refuse(uint32_t channel, uint32_t key, uint32_t sends, uint32_t receives);
  std::pair<uint32_t, uint32_t> channel_and_key(uint32_t port) const;
  template <typename F>
  void each_reply(uint32_t port, F f);
  void match();
  bool goes_in_order();
  PortOps port_ops();
  void check_waits();

  const Program& p_;
  std::vector<uint32_t> first_;              ///< [channel]: its first port; then how many there are
  std::vector<uint32_t> sent_, received_;    ///< [port]: in an iteration
  Thinned thinned_sent_, thinned_received_;  ///< of these, where `every` is not 1
  std::vector<std::vector<Move>> moves_;     ///< [role]: of its sends and recvs, in order
  std::vector<std::optional<std::vector<uint32_t>>> replies_;  ///< [channel] that is served, once asked for
};

}  // namespace tandem::schemes
