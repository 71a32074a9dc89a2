#pragma once
// Links between the nodes that one machine plays: a TCP connection over loopback for each pair of nodes in
// use, paced where wanted. Floor 3.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <vector>

#include "exec/pace.h"
#include "exec/sync.h"

namespace tandem {

/// Says what a message is. Messages of one (channel, from, to) form a stream: they arrive in the order sent.
struct MessageHead {
  uint32_t channel = 0, key = 0;
  uint32_t from = 0, to = 0;  ///< ranks or instances, as the channel's users count them
  int64_t version = 0;
};

/// Every end of a connection has a thread that takes in what arrives, always, so that senders never wait for
/// each other in a circle. A lost connection fails the run with a DeviceError that names both nodes.
///
/// Pacing is the kernel's (SO_MAX_PACING_RATE): an idle connection passes its first 64-128 KB faster. With
/// more than two nodes, connections of one port also take turns, so that together they keep to its rate.
class Wire {
 public:
  using Handler = std::function<void(const MessageHead& head, const float* payload, int64_t elements)>;

  /// One message that somebody waits for; may be posted again once it was waited for.
  struct Receive {
    float* to = nullptr;
    int64_t elements = 0;
    bool add = false;  ///< to what is in `to`, as it arrives
   private:
    friend class Wire;
    int64_t done = 0, due = 0;
    uint32_t posted = 0;
    Counter finished;
  };

  Wire(uint32_t nodes, std::optional<Pace> pace, Abort& abort);
  ~Wire();
  /// Ends all taking in. After a failed run, before the memory of posted receives goes.
  void stop();

  /// Makes the connection unless it is there. Before the first message; not thread-safe. Throws DeviceError.
  void connect(uint32_t a, uint32_t b);
  /// Messages of the channel run `handler` whole, one at a time per connection, in its thread; it must not
  /// wait for other messages. Before connect(). Channels without one are received by post().
  void handle(uint32_t channel, Handler handler);

  /// Returns when the payload may be changed again; with `until_left`, when the last byte has left the node's
  /// port. One thread at a time per stream; any number of streams. Throws Stopped.
  void send(uint32_t from_node, uint32_t to_node, const MessageHead& head, const float* payload,
            int64_t elements, bool until_left = false);
  /// Once per Receive, before it is used.
  void watch(Receive& receive) { abort_.watch(&receive.finished); }
  /// The next message of the stream goes to `receive`, whose elements must be the message's.
  void post(uint32_t from_node, uint32_t to_node, const MessageHead& stream, Receive& receive);
  /// Until it has arrived and the link's latency has passed. Throws Stopped.
  void wait(Receive& receive);

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
    uint32_t node = 0, peer = 0;
    int socket = -1;
    TicketLock out;  ///< frames of several senders take turns
    std::mutex mutex;
    std::map<StreamId, Stream> streams;
    std::deque<Message> due;  ///< of the reader alone, as are the next two
    std::vector<std::vector<float>> spare;
    std::vector<float> piece;
    std::thread reader;
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
  void take_turn(uint32_t from, uint32_t to, int64_t bytes);
  void sleep_until(int64_t ns) const;
  void lost(const End& end, const char* why);
  int64_t due_now() const { return now_ns() + latency_ns_; }

  Abort& abort_;
  double rate_ = 0;  ///< bytes per second; 0 = not paced
  int64_t latency_ns_ = 0;
  std::atomic<bool> closing_{false};
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<End>> ends_;  ///< (node, peer)
  std::map<uint32_t, Handler> handlers_;
  std::mutex ports_;
  std::vector<int64_t> out_free_, in_free_;  ///< [node]: when its port has passed what was given to it
};

}  // namespace tandem
