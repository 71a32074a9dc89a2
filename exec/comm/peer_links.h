// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages between workers that hold different stages of a model (semantics.md 3): activations and their
// gradients.
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <vector>

#include "exec/comm/sync.h"
#include "exec/comm/transport.h"
#include "exec/device/backend.h"

namespace tandem::exec {

/// A stretch of host memory; a message is several, one after another.
struct MessagePart {
  float* at = nullptr;
  int64_t elements = 0;
};

/// What is sent waits at the receiver's end until it is asked for, so that no sender waits for a receiver.
/// Between nodes it goes over a transport, else it is copied once. open() by one thread before any message;
/// then send() by one thread at a time for each (channel, key, sender), receive() likewise.
class PeerLinks {
 public:
  /// `transport`, which may be null, takes `channels` channels from `first` on. Both outlive it.
  PeerLinks(Transport* transport, uint32_t first, uint32_t channels, Abort& abort, int spins);

  /// A sender and the receiver of the messages of one channel and key. Nodes are the transport's.
  struct Pair {
    uint32_t channel = 0, key = 0;
    uint32_t sender = 0, receiver = 0;  ///< devices
    uint32_t from_node = 0, to_node = 0;
  };
  void open(const Pair& pair);

  /// Returns when the stretches may be changed again; over a transport when the last byte has left the node.
  /// Throws Stopped.
  void send(const Pair& pair, std::span<const MessagePart> message);
  /// The next message. Returns when it is there, with the time at which it was (now_ns()). Throws Stopped,
  /// and DeviceError where it has another length.
  int64_t receive(const Pair& pair, std::span<const MessagePart> to);

 private:
  struct Message {
    std::vector<float> values;
    int64_t arrived = 0;
  };
  /// Of one channel, key and receiver.
  struct Box {
    std::mutex mutex;
    std::vector<std::unique_ptr<Message>> waiting, spare;  ///< first come, first taken
    Counter arrived;
    uint32_t taken = 0;  ///< by receive() alone
  };
  using Key = std::tuple<uint32_t, uint32_t, uint32_t>;
  Box& box(uint32_t channel, uint32_t key, uint32_t receiver) { return *boxes_.at({channel, key, receiver}); }
  static std::unique_ptr<Message> blank(Box& box);
  static void deliver(Box& box, std::unique_ptr<Message> message);
  bool apart(const Pair& pair) const { return transport_ != nullptr && pair.from_node != pair.to_node; }

  Transport* transport_;
  uint32_t first_;
  Abort& abort_;
  int spins_;
  std::map<Key, std::unique_ptr<Box>> boxes_;
};

}  // namespace tandem::exec
