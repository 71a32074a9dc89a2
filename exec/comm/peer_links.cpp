// SPDX-License-Identifier: Apache-2.0
#include "exec/comm/peer_links.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::exec {

PeerLinks::PeerLinks(Transport* transport, uint32_t first, uint32_t channels, Abort& abort, int spins)
    : transport_(transport), first_(first), abort_(abort), spins_(spins) {
  for (uint32_t c = 0; transport_ != nullptr && c < channels; ++c) {
    transport_->handle(first + c, [this, c](const MessageHead& head, const float* payload, int64_t elements) {
      Box& to = box(c, head.key, head.to);
      auto message = blank(to);
      message->values.assign(payload, payload + elements);
      deliver(to, std::move(message));
    });
  }
}

void PeerLinks::open(const Pair& pair) {
  const bool here = transport_ == nullptr || transport_->here(pair.to_node);
  if (here) {
    auto& box = boxes_[{pair.channel, pair.key, pair.receiver}];
    box = std::make_unique<Box>();
    abort_.watch(&box->arrived);
  }
  if (apart(pair)) transport_->connect(pair.from_node, pair.to_node);
}

std::unique_ptr<PeerLinks::Message> PeerLinks::blank(Box& box) {
  const std::lock_guard guard(box.mutex);
  if (box.spare.empty()) return std::make_unique<Message>();
  auto out = std::move(box.spare.back());
  box.spare.pop_back();
  return out;
}

void PeerLinks::deliver(Box& box, std::unique_ptr<Message> message) {
  message->arrived = now_ns();
  {
    const std::lock_guard guard(box.mutex);
    box.waiting.push_back(std::move(message));
  }
  box.arrived.add();
}

void PeerLinks::send(const Pair& pair, std::span<const MessagePart> message) {
  int64_t elements = 0;
  for (const MessagePart& s : message) elements += s.elements;
  if (apart(pair)) {
    std::vector<float> joined;
    const float* payload = message.size() == 1 ? message[0].at : nullptr;
    if (payload == nullptr) {
      for (const MessagePart& s : message) joined.insert(joined.end(), s.at, s.at + s.elements);
      payload = joined.data();
    }
    transport_->send(pair.from_node, pair.to_node,
                     {first_ + pair.channel, pair.key, pair.sender, pair.receiver, 0}, payload, elements,
                     true);
    return;
  }
  Box& to = box(pair.channel, pair.key, pair.receiver);
  auto copy = blank(to);
  copy->values.clear();
  copy->values.reserve(static_cast<std::size_t>(elements));
  for (const MessagePart& s : message) copy->values.insert(copy->values.end(), s.at, s.at + s.elements);
  deliver(to, std::move(copy));
}

int64_t PeerLinks::receive(const Pair& pair, std::span<const MessagePart> to) {
  Box& from = box(pair.channel, pair.key, pair.receiver);
  from.arrived.wait_awake(++from.taken, abort_, spins_);
  std::unique_ptr<Message> message;
  {
    const std::lock_guard guard(from.mutex);
    message = std::move(from.waiting.front());
    from.waiting.erase(from.waiting.begin());
  }
  int64_t at = 0;
  for (const MessagePart& s : to) at += s.elements;
  if (at != static_cast<int64_t>(message->values.size()))
    throw DeviceError(
        fmt::format("a message of {} values came where {} were expected", message->values.size(), at));
  at = 0;
  for (const MessagePart& s : to) {
    std::copy_n(message->values.begin() + at, s.elements, s.at);
    at += s.elements;
  }
  const int64_t arrived = message->arrived;
  const std::lock_guard guard(from.mutex);
  from.spare.push_back(std::move(message));
  return arrived;
}

}  // namespace tandem::exec
