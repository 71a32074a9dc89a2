// SPDX-License-Identifier: Apache-2.0
#pragma once
// Between workers and the shards of a parameter server on other nodes: gradients go there, parameters come
// back (semantics.md 4).
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "exec/comm/store.h"
#include "exec/comm/transport.h"

namespace tandem::exec {

/// A gradient runs the store's ops in the connection's own thread at the server's end; replies leave from a
/// thread for each pair of nodes, so that neither direction waits for the other. Of several processes each
/// one has those of its own nodes.
class StoreLinks {
 public:
  struct Setup {
    std::vector<uint32_t> worker_node, shard_node;
    uint32_t keys = 1;
    uint32_t channel = 0;  ///< first of 1 + keys that are free on the transport
    /// What a worker sends to a shard under a key.
    std::function<Slice(uint32_t key, uint32_t worker, uint32_t shard)> slice;
    std::function<int64_t(uint32_t key)> words = {};  ///< of a push, where that is no gradient
    bool asked = false;  ///< Store::reader: a push is answered by a word, parameters are asked for
  };
  /// `transport` and `store` outlive it; before any message.
  StoreLinks(Setup setup, exec::Transport& transport, ParameterStore& store, Abort& abort);
  ~StoreLinks();  ///< as stop()
  /// Ends all taking in, on the transport as well: from here nothing is written to workers' memory.
  void stop();

  bool apart(uint32_t worker, uint32_t shard) const {
    return setup_.worker_node[worker] != setup_.shard_node[shard];
  }
  bool here(uint32_t shard) const { return transport_.here(setup_.shard_node[shard]); }
  /// Returns when the gradient has left; the parameters come into `reply` whenever they come. One thread at a
  /// time per worker. Throws Stopped.
  void push(uint32_t worker, uint32_t shard, uint32_t key, const float* gradient, float* reply);
  /// Asks for parameters, after the answer to the push. Throws Stopped.
  void pull(uint32_t worker, uint32_t shard, uint32_t key, float* reply);
  /// Until the reply to the last push or pull is in place. Throws Stopped.
  void await(uint32_t worker, uint32_t shard, uint32_t key);
  /// The worker has sent its last gradient.
  void leave(uint32_t worker, uint32_t shard);

 private:
  struct Reply {
    uint32_t worker = 0, shard = 0, key = 0;
    std::vector<float> values;
  };
  struct Outbox {  ///< from a server's node to a worker's
    uint32_t from = 0, to = 0;
    std::mutex mutex;
    std::deque<std::unique_ptr<Reply>> replies;
    std::vector<std::unique_ptr<Reply>> spare;
    Counter posted;
    std::thread sender;
  };
  std::size_t port(uint32_t worker, uint32_t shard, uint32_t key) const {
    return (std::size_t{worker} * setup_.shard_node.size() + shard) * setup_.keys + key;
  }
  exec::Transport::Receive& receive(uint32_t worker, uint32_t shard, uint32_t key) {
    return *receives_[port(worker, shard, key)];
  }
  void expect(uint32_t worker, uint32_t shard, uint32_t key, float* to, int64_t elements);
  void take(const MessageHead& head, const float* gradient);
  void serve(Outbox& box);

  Setup setup_;
  exec::Transport& transport_;
  ParameterStore& store_;
  Abort& abort_;
  std::atomic<bool> closing_{false};
  std::vector<std::unique_ptr<exec::Transport::Receive>>
      receives_;                ///< [(worker, shard, key)], null on one node
  std::vector<float> answers_;  ///< [(worker, shard, key)]: the word that answers a push, where asked
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<Outbox>> boxes_;  ///< [server's node, worker's]
};

}  // namespace tandem::exec
