// SPDX-License-Identifier: Apache-2.0
#pragma once
// What carries messages between nodes: TCP between nodes that one machine emulates (tcp_transport.h), MPI
// between machines (ranks.h).
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/rooms.h"

namespace tandem::exec {

/// Says what a message is. Messages of one (channel, from, to) form a stream: they arrive in the order sent.
struct MessageHead {
  uint32_t channel = 0, key = 0;
  uint32_t from = 0, to = 0;  ///< ranks or instances, as the channel's users count them
  int64_t version = 0;
};

/// connect() and handle() by one thread, before any message; here() by any. send(), post() and wait() by any
/// threads as they say, stop() by one when those have returned or the run has failed. A Receive belongs to
/// one thread at a time.
class Transport {
 public:
  virtual ~Transport() = default;
  /// One message that somebody waits for; may be posted again once it was waited for.
  struct Receive {
    virtual ~Receive() = default;
    float* to = nullptr;
    int64_t elements = 0;
    bool add = false;  ///< to what is in `to`, as it arrives
  };

  /// Is this node emulated by this process?
  virtual bool here(uint32_t node) const = 0;
  /// Before the first message between the two; not thread-safe. Throws DeviceError.
  virtual void connect(uint32_t a, uint32_t b) = 0;
  virtual std::unique_ptr<Receive> make_receive() = 0;
  using Handler = std::function<void(const MessageHead& head, const float* payload, int64_t elements)>;
  /// Messages of the channel run `handler` whole, one at a time per connection, in its thread; it must not
  /// wait for other messages. By all nodes, in the same order, before connect(). Channels without one are
  /// received by post().
  virtual void handle(uint32_t channel, Handler handler) = 0;
  /// Returns when the payload may be changed again, with `until_left` when its last byte has left the node's
  /// port, as far as that can be known. One thread at a time per stream; any number of streams. Throws
  /// Stopped.
  virtual void send(uint32_t from_node, uint32_t to_node, const MessageHead& head, const float* payload,
                    int64_t elements, bool until_left) = 0;
  /// The next message of the stream goes to `receive`, whose elements must be the message's.
  virtual void post(uint32_t from_node, uint32_t to_node, const MessageHead& stream, Receive& receive) = 0;
  /// Until it has arrived and the link's latency has passed. Throws Stopped.
  virtual void wait(Receive& receive) = 0;
  /// Ends all taking in. After a failed run, before the memory of posted receives goes.
  virtual void stop() = 0;
  /// Bytes of all messages that nodes of this process have sent, without what frames them; by any thread.
  int64_t sent_bytes() const { return sent_bytes_.load(); }

 protected:
  void count_sent(int64_t elements) { sent_bytes_ += elements * static_cast<int64_t>(sizeof(float)); }

 private:
  std::atomic<int64_t> sent_bytes_{0};
};

}  // namespace tandem::exec
