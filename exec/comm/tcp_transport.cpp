// SPDX-License-Identifier: Apache-2.0
#include "exec/comm/tcp_transport.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "exec/device/cpu/kernel.h"

namespace tandem::exec {

namespace {

constexpr int64_t kFrame = 32'768;       // elements, at most: large writes
constexpr int64_t kLeast = 2'048;        // elements
constexpr int64_t kRead = 16'384;        // elements: stays in the cache between reading and adding
constexpr int64_t kLook = 100'000'000;   // ns: how often a thread that waits looks for a failed run
constexpr int kSendBuffer = 256 * 1024;  // what may lie in a socket that says it was sent

struct Closing {
  int socket = -1;
  ~Closing() {
    if (socket >= 0) close(socket);
  }
  int release() { return std::exchange(socket, -1); }
};

[[noreturn]] void cannot_connect(uint32_t a, uint32_t b) {
  throw DeviceError(fmt::format("no link between node {} and node {}: {}", a, b, std::strerror(errno)));
}

/// Elements of a frame at that many bytes per second: connections alternate within a millisecond, as ports
/// share by packets.
int64_t frame_of(double rate) {
  return rate > 0 ? std::clamp(static_cast<int64_t>(rate * 1e-3 / sizeof(float)), kLeast, kFrame) : kFrame;
}

/// Two ends of a TCP connection over loopback.
std::pair<int, int> connection(uint32_t a, uint32_t b) {
  Closing listener{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  Closing near{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (listener.socket < 0 || near.socket < 0 || bind(listener.socket, any, size) != 0 ||
      listen(listener.socket, 1) != 0 || getsockname(listener.socket, any, &size) != 0 ||
      ::connect(near.socket, any, size) != 0)
    cannot_connect(a, b);
  Closing far{accept4(listener.socket, nullptr, nullptr, SOCK_CLOEXEC)};
  // Another process of this machine may have come first: take only our own connection.
  sockaddr_in mine{}, theirs{};
  socklen_t mine_size = sizeof mine, theirs_size = sizeof theirs;
  if (far.socket < 0 || getsockname(near.socket, reinterpret_cast<sockaddr*>(&mine), &mine_size) != 0 ||
      getpeername(far.socket, reinterpret_cast<sockaddr*>(&theirs), &theirs_size) != 0)
    cannot_connect(a, b);
  if (mine.sin_port != theirs.sin_port) {
    errno = ECONNABORTED;
    cannot_connect(a, b);
  }
  return {near.release(), far.release()};
}

void set_up(int socket, double rate) {
  const int on = 1, room = kSendBuffer;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  if (rate <= 0) return;
  const auto bytes = static_cast<uint64_t>(rate);
  if (setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes, sizeof bytes) != 0)
    throw DeviceError(fmt::format("the rate of links cannot be limited here: {}", std::strerror(errno)));
}

/// Until the socket is ready or `ns` have passed.
void wait_for(int socket, short events, int64_t ns) {
  pollfd p{socket, events, 0};
  ns = std::max<int64_t>(0, ns);
  const timespec t{ns / 1'000'000'000, ns % 1'000'000'000};
  ppoll(&p, 1, &t, nullptr);
}

}  // namespace

TcpTransport::TcpTransport(uint32_t nodes, std::optional<RateLimit> rate_limit, Abort& abort)
    : abort_(abort),
      rate_(rate_limit ? rate_limit->bandwidth.bytes_per_second : 0),
      latency_ns_(rate_limit ? rate_limit->latency.ps / 1000 : 0),
      out_free_(nodes),
      in_free_(nodes) {}

void TcpTransport::stop() {
  closing_.store(true);
  for (auto& [pair, end] : ends_) shutdown(end->socket, SHUT_RDWR);
  for (auto& [pair, end] : ends_) {
    if (end->reader.joinable()) end->reader.join();
  }
}

TcpTransport::~TcpTransport() {
  TcpTransport::stop();
  for (auto& [pair, end] : ends_) close(end->socket);
}

void TcpTransport::connect(uint32_t a, uint32_t b) {
  TANDEM_CHECK(a != b && a < out_free_.size() && b < out_free_.size());
  if (ends_.count({a, b}) != 0) return;
  const auto [near, far] = connection(a, b);
  for (const auto& [node, peer, socket] : {std::tuple{a, b, near}, std::tuple{b, a, far}}) {
    auto& end = ends_[{node, peer}];
    end = std::make_unique<End>();
    end->node = node;
    end->peer = peer;
    end->socket = socket;
    end->piece.resize(static_cast<std::size_t>(kRead));
    abort_.watch(&end->out.counter());
  }
  for (const auto& pair : {std::pair{a, b}, std::pair{b, a}}) {
    End& end = *ends_.at(pair);
    set_up(end.socket, rate_);
    end.reader = std::thread([this, &end] { serve(end); });
  }
}

void TcpTransport::handle(uint32_t channel, Handler handler) {
  TANDEM_CHECK(ends_.empty());  // readers look without a lock
  handlers_[channel] = std::move(handler);
}

TcpTransport::End& TcpTransport::end(uint32_t node, uint32_t peer) {
  const auto at = ends_.find({node, peer});
  TANDEM_CHECK(at != ends_.end());
  return *at->second;
}

void TcpTransport::cut(uint32_t a, uint32_t b) { shutdown(end(a, b).socket, SHUT_RDWR); }

void TcpTransport::lost(const End& end, const char* why) {
  if (closing_.load()) return;
  abort_.fail(std::make_exception_ptr(
      DeviceError(fmt::format("the link between node {} and node {} is lost: {}",
                              std::min(end.node, end.peer), std::max(end.node, end.peer), why))));
}

// ---- sending: in the thread that has something to send ----

/// With more than two nodes a port has several connections, each limited by itself: they alternate. A frame
/// that waits for its receiver's port does not hold up others at its sender's: switches queue at the port out
/// of them (where queues are at the port into them, ports idle for two fifths of the time: Karol, Hluchyj and
/// Morgan 1987, "Input Versus Output Queueing on a Space-Division Packet Switch").
void TcpTransport::take_turn(End& e, int64_t bytes) {
  if (rate_ <= 0 || out_free_.size() <= 2) return;
  const auto length = static_cast<int64_t>(static_cast<double>(bytes) / rate_ * 1e9);
  int64_t start = 0;
  bool follows = false;
  {
    const std::lock_guard guard(ports_);
    const int64_t leaves = std::max(now_ns(), out_free_[e.node]);
    out_free_[e.node] = leaves + length;
    start = std::max(leaves, in_free_[e.peer]);
    follows = start == e.passed;
    e.passed = in_free_[e.peer] = start + length;
  }
  // One that follows its connection's last is given to the socket a frame ahead, which then always has
  // something to pace. Any other would be sent at once, while the ports belong to another connection.
  sleep_until(follows ? start - length : start, abort_, kLook);
}

void TcpTransport::write(End& e, const Frame& frame, const float* payload) {
  const auto bytes = static_cast<std::size_t>(frame.elements) * sizeof(float);
  for (std::size_t done = 0; done < sizeof frame + bytes;) {
    iovec parts[2] = {{const_cast<Frame*>(&frame), sizeof frame}, {const_cast<float*>(payload), bytes}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    std::size_t skip = done;
    for (iovec& part : parts) {
      const std::size_t gone = std::min(skip, part.iov_len);
      part.iov_base = static_cast<char*>(part.iov_base) + gone;
      part.iov_len -= gone;
      skip -= gone;
    }
    const ssize_t n = sendmsg(e.socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      done += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      abort_.check();
      wait_for(e.socket, POLLOUT, kLook);
    } else if (errno != EINTR) {
      lost(e, std::strerror(errno));
      throw Stopped();
    }
  }
}

void TcpTransport::send(uint32_t from_node, uint32_t to_node, const MessageHead& head, const float* payload,
                        int64_t elements, bool until_left) {
  End& e = end(from_node, to_node);
  count_sent(elements);
  const int64_t most = out_free_.size() > 2 ? frame_of(rate_) : kFrame;
  int64_t sent = 0;
  do {
    Frame frame;
    frame.head = head;
    frame.total = elements;
    frame.elements = std::min(most, elements - sent);
    take_turn(e, frame.elements * 4);
    e.out.lock(abort_, 20);
    write(e, frame, payload + sent);
    e.out.unlock();
    sent += frame.elements;
  } while (sent < elements);
  while (until_left) {
    abort_.check();
    int unsent = 0;
    if (ioctl(e.socket, SIOCOUTQNSD, &unsent) != 0 || unsent <= 0) return;
    const double rate = rate_ > 0 ? rate_ : 1e10;
    sleep_until(now_ns() + static_cast<int64_t>(1e9 * unsent / rate), abort_, kLook);
  }
}

// ---- receiving: in the connection's own thread ----

/// False when the run is over or the link is lost.
///
/// A member's buffer into which this thread receives may be one that send() has read, as where a sum comes
/// back to the place that its part left from. Nothing in this process orders the two but the links: what
/// comes back was made of what was sent, so sendmsg() had read those bytes before recv() can write them. The
/// thread sanitizer does not follow messages through sockets and reports the pair.
bool TcpTransport::read(End& e, void* to, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t n = recv(e.socket, static_cast<char*>(to) + done, bytes - done, MSG_DONTWAIT);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
    } else if (n == 0) {
      lost(e, "connection closed");
      return false;
    } else if (errno == EAGAIN) {
      if (closing_.load() || abort_.failed()) return false;
      handle_due(e);
      wait_for(e.socket, POLLIN, e.due.empty() ? kLook : std::min(kLook, e.due.front().due - now_ns()));
    } else if (errno != EINTR) {
      lost(e, std::strerror(errno));
      return false;
    }
  }
  return true;
}

void TcpTransport::serve(End& e) {
  prctl(PR_SET_TIMERSLACK, 1UL);  // else latencies come 50 us late
  try {
    for (Frame frame; read(e, &frame, sizeof frame);) {
      const auto handler = handlers_.find(frame.head.channel);
      if (!(handler != handlers_.end() ? gather(e, frame, handler->second) : deliver(e, frame))) return;
      handle_due(e);
    }
  } catch (const Stopped&) {
  } catch (...) {
    abort_.fail(std::current_exception());
  }
}

bool TcpTransport::gather(End& e, const Frame& frame, const Handler& handler) {
  const StreamId id{frame.head.channel, frame.head.from, frame.head.to};
  std::vector<float>* message = nullptr;
  {
    const std::lock_guard guard(e.mutex);
    message = &e.streams[id].message;  // maps keep their elements in place
  }
  if (message->capacity() == 0 && !e.spare.empty()) {
    *message = std::move(e.spare.back());
    e.spare.pop_back();
  }
  const std::size_t before = message->size();
  message->resize(before + static_cast<std::size_t>(frame.elements));
  if (!read(e, message->data() + before, static_cast<std::size_t>(frame.elements) * 4)) return false;
  if (static_cast<int64_t>(message->size()) < frame.total) return true;
  e.due.push_back({due_now(), &handler, frame.head, std::move(*message)});
  *message = {};
  return true;
}

void TcpTransport::handle_due(End& e) {
  while (!e.due.empty() && e.due.front().due <= now_ns()) {
    Message m = std::move(e.due.front());
    e.due.pop_front();
    (*m.handler)(m.head, m.payload.data(), static_cast<int64_t>(m.payload.size()));
    m.payload.clear();
    e.spare.push_back(std::move(m.payload));
  }
}

/// A frame for a posted receive goes straight to its place; one that came early is kept.
bool TcpTransport::deliver(End& e, const Frame& frame) {
  const StreamId id{frame.head.channel, frame.head.from, frame.head.to};
  Stream* stream = nullptr;
  Receive* receive = nullptr;
  {
    const std::lock_guard guard(e.mutex);
    stream = &e.streams[id];
    if (!stream->posted.empty()) receive = stream->posted.front();
  }
  Early early;
  if (receive != nullptr) {
    TANDEM_CHECK(frame.total == receive->elements);
    if (!take(e, *receive, frame.elements)) return false;
  } else {
    early.payload.resize(static_cast<std::size_t>(frame.elements));
    if (!read(e, early.payload.data(), early.payload.size() * sizeof(float))) return false;
  }
  const std::lock_guard guard(e.mutex);
  early.due = due_now();
  if (receive == nullptr) {
    if (stream->posted.empty()) {
      stream->early.push_back(std::move(early));
      return true;
    }
    receive = stream->posted.front();  // posted while we read
    put(*receive, early);
  }
  if (receive->done < receive->elements) return true;
  receive->due = early.due;
  stream->posted.pop_front();
  receive->finished.add();
  return true;
}

bool TcpTransport::take(End& e, Receive& receive, int64_t elements) {
  while (elements > 0) {
    float* to = receive.to + receive.done;
    const int64_t n = receive.add ? std::min(elements, kRead) : elements;
    if (!read(e, receive.add ? e.piece.data() : to, static_cast<std::size_t>(n) * sizeof(float)))
      return false;
    if (receive.add) cpu::accumulate(to, e.piece.data(), n);
    receive.done += n;
    elements -= n;
  }
  return true;
}

bool TcpTransport::put(Receive& receive, const Early& frame) {
  const auto n = static_cast<int64_t>(frame.payload.size());
  TANDEM_CHECK(receive.done + n <= receive.elements);
  float* to = receive.to + receive.done;
  if (receive.add)
    cpu::accumulate(to, frame.payload.data(), n);
  else
    std::copy(frame.payload.begin(), frame.payload.end(), to);
  receive.done += n;
  receive.due = frame.due;
  return receive.done == receive.elements;
}

std::unique_ptr<exec::Transport::Receive> TcpTransport::make_receive() {
  auto out = std::make_unique<Receive>();
  watch(*out);
  return out;
}

void TcpTransport::post(uint32_t from_node, uint32_t to_node, const MessageHead& head,
                        exec::Transport::Receive& given) {
  auto& receive = static_cast<Receive&>(given);
  End& e = end(to_node, from_node);
  receive.done = 0;
  ++receive.posted;
  const std::lock_guard guard(e.mutex);
  Stream& stream = e.streams[{head.channel, head.from, head.to}];
  bool whole = false;
  while (!whole && !stream.early.empty()) {
    whole = put(receive, stream.early.front());
    stream.early.pop_front();
  }
  if (whole)
    receive.finished.add();
  else
    stream.posted.push_back(&receive);
}

void TcpTransport::wait(exec::Transport::Receive& given) {
  auto& receive = static_cast<Receive&>(given);
  receive.finished.wait(receive.posted, abort_, 20);
  sleep_until(receive.due, abort_, kLook);
}

}  // namespace tandem::exec
