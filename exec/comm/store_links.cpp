// SPDX-License-Identifier: Apache-2.0
#include "exec/comm/store_links.h"

namespace tandem::exec {

namespace {

constexpr int kSpins = 20;

}  // namespace

StoreLinks::StoreLinks(Setup setup, exec::Transport& transport, ParameterStore& store, Abort& abort)
    : setup_(std::move(setup)), transport_(transport), store_(store), abort_(abort) {
  const auto workers = static_cast<uint32_t>(setup_.worker_node.size()),
             shards = static_cast<uint32_t>(setup_.shard_node.size());
  receives_.resize(std::size_t{workers} * shards * setup_.keys);
  if (setup_.asked) answers_.resize(receives_.size());
  for (uint32_t w = 0; w < workers; ++w) {
    for (uint32_t s = 0; s < shards; ++s) {
      if (!apart(w, s)) continue;
      const bool waits = transport_.here(setup_.worker_node[w]);
      for (uint32_t key = 0; waits && key < setup_.keys; ++key)
        receives_[(std::size_t{w} * shards + s) * setup_.keys + key] = transport_.make_receive();
      const std::pair nodes{setup_.shard_node[s], setup_.worker_node[w]};
      if (!transport_.here(nodes.first)) continue;
      auto& box = boxes_[nodes];
      if (box) continue;
      box = std::make_unique<Outbox>();
      box->from = nodes.first;
      box->to = nodes.second;
      abort_.watch(&box->posted);
    }
  }
  // Another process may send as soon as there is a handler.
  transport_.handle(setup_.channel, [this](const MessageHead& head, const float* gradient, int64_t) {
    take(head, gradient);
  });
  for (uint32_t w = 0; w < workers; ++w) {
    for (uint32_t s = 0; s < shards; ++s) {
      if (apart(w, s)) transport_.connect(setup_.shard_node[s], setup_.worker_node[w]);
    }
  }
  for (auto& [nodes, box] : boxes_) box->sender = std::thread([this, &box = *box] { serve(box); });
}

StoreLinks::~StoreLinks() { stop(); }

void StoreLinks::stop() {
  if (closing_.exchange(true)) return;
  transport_.stop();
  for (auto& [nodes, box] : boxes_) {
    box->posted.add();
    box->sender.join();
  }
}

void StoreLinks::expect(uint32_t worker, uint32_t shard, uint32_t key, float* to, int64_t elements) {
  exec::Transport::Receive& back = receive(worker, shard, key);
  back.to = to;
  back.elements = elements;
  // Replies under different keys overtake each other at a gate: each key has its own stream.
  transport_.post(setup_.shard_node[shard], setup_.worker_node[worker],
                  {setup_.channel + 1 + key, key, shard, worker, 0}, back);
}

void StoreLinks::push(uint32_t worker, uint32_t shard, uint32_t key, const float* gradient, float* reply) {
  const int64_t elements = setup_.slice(key, worker, shard).elements;
  if (setup_.asked)
    expect(worker, shard, key, &answers_[port(worker, shard, key)], 1);
  else
    expect(worker, shard, key, reply, elements);
  transport_.send(setup_.worker_node[worker], setup_.shard_node[shard],
                  {setup_.channel, key, worker, shard, 0}, gradient,
                  setup_.words ? setup_.words(key) : elements, true);
}

void StoreLinks::pull(uint32_t worker, uint32_t shard, uint32_t key, float* reply) {
  expect(worker, shard, key, reply, setup_.slice(key, worker, shard).elements);
  const float word = 0;
  transport_.send(setup_.worker_node[worker], setup_.shard_node[shard],
                  {setup_.channel, setup_.keys + 1 + key, worker, shard, 0}, &word, 1, false);
}

void StoreLinks::await(uint32_t worker, uint32_t shard, uint32_t key) {
  transport_.wait(receive(worker, shard, key));
}

void StoreLinks::leave(uint32_t worker, uint32_t shard) {
  const uint32_t here = setup_.worker_node[worker], there = setup_.shard_node[shard];
  transport_.send(here, there, {setup_.channel, setup_.keys, worker, shard, 0}, nullptr, 0, false);
}

/// At the server's end.
void StoreLinks::take(const MessageHead& head, const float* gradient) {
  const uint32_t worker = head.from, shard = head.to;
  if (head.key == setup_.keys) return store_.leave(worker, shard);
  const bool asks = head.key > setup_.keys;
  const uint32_t key = asks ? head.key - setup_.keys - 1 : head.key;
  const Slice slice = setup_.slice(key, worker, shard);
  Outbox& box = *boxes_.at({setup_.shard_node[shard], setup_.worker_node[worker]});
  std::unique_ptr<Reply> reply;
  {
    const std::lock_guard guard(box.mutex);
    if (!box.spare.empty()) {
      reply = std::move(box.spare.back());
      box.spare.pop_back();
    }
  }
  if (!reply) reply = std::make_unique<Reply>();
  reply->worker = worker;
  reply->shard = shard;
  reply->key = key;
  const bool answers = setup_.asked && !asks;
  reply->values.resize(answers ? 1 : static_cast<std::size_t>(slice.elements));
  float* values = answers ? nullptr : reply->values.data();
  const auto post = [&box, held = std::make_shared<std::unique_ptr<Reply>>(std::move(reply))] {
    const std::lock_guard guard(box.mutex);
    box.replies.push_back(std::move(*held));
    box.posted.add();
  };
  if (!asks) return store_.push(shard, key, worker, slice, gradient, values, post);
  store_.pull(shard, key, worker, slice, values);
  post();
}

void StoreLinks::serve(Outbox& box) {
  try {
    for (uint32_t next = 1;; ++next) {
      box.posted.wait(next, abort_, kSpins);
      std::unique_ptr<Reply> reply;
      {
        const std::lock_guard guard(box.mutex);
        if (closing_.load() || box.replies.empty()) return;
        reply = std::move(box.replies.front());
        box.replies.pop_front();
      }
      transport_.send(box.from, box.to,
                      {setup_.channel + 1 + reply->key, reply->key, reply->shard, reply->worker, 0},
                      reply->values.data(), static_cast<int64_t>(reply->values.size()), false);
      const std::lock_guard guard(box.mutex);
      box.spare.push_back(std::move(reply));
    }
  } catch (const Stopped&) {
  } catch (...) {
    abort_.fail(std::current_exception());
  }
}

}  // namespace tandem::exec
