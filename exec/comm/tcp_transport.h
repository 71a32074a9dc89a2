// SPDX-License-Identifier: Apache-2.0
#pragma once
// Links between the nodes that one machine emulates: a TCP connection over loopback for each pair of nodes in
// use, rate-limited where wanted.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <vector>

#include "exec/comm/rate_limit.h"
#include "exec/comm/sync.h"
#include "exec/comm/transport.h"

namespace tandem::exec {

/// Every end of a connection has a thread that takes in what arrives, always, so that senders never wait for
/// each other in a circle. A lost connection fails the run with a DeviceError that names both nodes.
///
/// Pacing is the kernel's (SO_MAX_PACING_RATE): an idle connection passes its first 64-128 KB faster. With
/// more than two nodes, connections of one port also alternate, so that together they keep to its rate.
///
/// Threads: those of Transport. cut() by any thread, while connections exist.
///
/// Plain sockets and not Boost.Asio, which would take over connecting and the loops around partial reads and
/// writes, about 90 lines, for as many lines here. Its blocking calls end neither with time nor with the run:
/// here a thread looks for a failed run every 100 ms while it waits, and a reader hands on messages whose
/// latency has passed. With its asynchronous ones each frame would become a chain of callbacks. Frames,
/// posted receives, turns and pacing would stay as they are.
class TcpTransport : public exec::Transport {
 public:
  struct Receive : exec::Transport::Receive {
   private:
    friend class TcpTransport;
    int64_t done = 0, due = 0;
    uint32_t posted = 0;
    Counter finished;
  };

  TcpTransport(uint32_t nodes, std::optional<RateLimit> rate_limit, Abort& abort);
  ~TcpTransport() override;
  void stop() override;
  bool here(uint32_t) const override { return true; }
  void connect(uint32_t a, uint32_t b) override;
  void handle(uint32_t channel, Handler handler) override;
  void send(uint32_t from_node, uint32_t to_node, const MessageHead& head, const float* payload,
            int64_t elements, bool until_left) override;
  std::unique_ptr<exec::Transport::Receive> make_receive() override;
  void watch(Receive& receive) { abort_.watch(&receive.finished); }
  void post(uint32_t from_node, uint32_t to_node, const MessageHead& stream,
            exec::Transport::Receive& receive) override;
  void wait(exec::Transport::Receive& receive) override;

  /// Breaks the connection, as a pulled cable would.
  void cut(uint32_t a, uint32_t b);

 private:
  using StreamId = std::tuple<uint32_t, uint32_t, uint32_t>;  ///< channel, from, to
  struct Frame {
    MessageHead head;
    int64_t total = 0, elements = 0;  ///< of the message, of this frame
  };
  struct Early {
    std::vector<float> payload;
    int64_t due = 0;
  };
  struct Stream {
    std::deque<Receive*> posted;
    std::deque<Early> early;     ///< frames that came before their receive was posted
    std::vector<float> message;  ///< for a handler, in the making
  };
  struct Message {
    int64_t due = 0;
    const Handler* handler = nullptr;
    MessageHead head;
    std::vector<float> payload;
  };
  struct End {
    TicketLock out;  ///< frames of several senders alternate
    std::mutex mutex;
    std::map<StreamId, Stream> streams;
    std::deque<Message> due;  ///< of the reader alone, as are the next two
    std::vector<std::vector<float>> spare;
    std::vector<float> piece;
    std::thread reader;
    uint32_t node = 0, peer = 0;
    int socket = -1;
    int64_t passed = 0;  ///< when its last frame has passed both ports
  };

  End& end(uint32_t node, uint32_t peer);
  void serve(End& end);
  bool read(End& end, void* to, std::size_t bytes);
  bool take(End& end, Receive& receive, int64_t elements);
  bool gather(End& end, const Frame& frame, const Handler& handler);
  bool deliver(End& end, const Frame& frame);
  void handle_due(End& end);
  static bool put(Receive& receive, const Early& frame);
  void write(End& end, const Frame& frame, const float* payload);
  void take_turn(End& end, int64_t bytes);
  void lost(const End& end, const char* why);
  int64_t due_now() const { return now_ns() + latency_ns_; }

  Abort& abort_;
  double rate_ = 0;  ///< bytes per second; 0 = not limited
  int64_t latency_ns_ = 0;
  std::atomic<bool> closing_{false};
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<End>> ends_;  ///< (node, peer)
  std::map<uint32_t, Handler> handlers_;
  std::mutex ports_;
  std::vector<int64_t> out_free_, in_free_;  ///< [node]: when its port has passed what was given to it
};

}  // namespace tandem::exec
