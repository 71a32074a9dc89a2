// SPDX-License-Identifier: Apache-2.0
#pragma once
// One op of a Program, and what it is made of. Meaning of every field: schemes/semantics.md.
#include <cstdint>
#include <string_view>

#include "base/units.h"
#include "schemes/program/deps.h"

namespace tandem::schemes {

/// In-order queue of one instance; one of each per instance. Equals a CUDA stream or a worker thread's FIFO.
/// Sums inside layers that devices share are on `comm`, and the messages of a pipeline and the gradients of a
/// split model have their own lanes, as frameworks give each its own communicator and stream. So have what
/// goes down to the host's memory and what comes up from it: a device has a copy engine for each direction.
/// Samples are read and decoded by threads of the host, in parallel with all else that it does.
enum class Lane : uint8_t { compute, comm, copy, host, reduce, send, recv, offload, reload, read, decode };
inline constexpr int kLanes = 11;
std::string_view name(Lane lane);

enum class OpKind : uint8_t { compute, copy, collective, send, recv, apply, gate };
std::string_view name(OpKind kind);

/// What an op works on or moves, where its kind does not say it.
enum class Payload : uint8_t {
  none,                ///< compute: the layers' own tensors; send, recv: gradients there, parameters back
  gradients,           ///< of bucket `key`; a compute op with this payload casts them (compression)
  parameters,          ///< of bucket `key`; a compute op with this payload is the optimiser's update of them
  state,               ///< parameters of bucket `key` and the optimiser's state that belongs to them
  shard,               ///< of bucket `key`, this instance's, as the reduce-scatter of its gradients cuts it;
                       ///< compute: the optimiser's update of it; collective: its gradients
  sequence_gradients,  ///< collective: of all parameters of the role that are Parameter::in_parts
  mean,                ///< collective: of the parameters of bucket `key`, which stay as they are
  compressed,          ///< gradients of bucket `key` as Program::compression writes them; compute: between
                       ///< the two sums of PowerSGD
  activations,         ///< outputs of a layer; of layer `key` where `key` says so (Op::key)
  activation_gradients,  ///< their gradients, which a backward pass makes
  exchanged,             ///< what devices exchange in the middle of a pass over layer `key`
  received_activations,  ///< collective: outputs of layer `key`, of which each partner received a part
  received_gradients,    ///< collective: their gradients, likewise
  tied_gradients,        ///< send, recv: gradients of a weight of which both roles have a copy
};
inline constexpr int kPayloads = 14;
std::string_view name(Payload payload);
/// Of layers, which a message's or a collective's key then names, and not of a bucket?
inline bool of_layers(Payload p) { return p >= Payload::activations; }
/// Of layers of another stage, from parts that came as messages?
inline bool received(Payload p) {
  return p == Payload::received_activations || p == Payload::received_gradients;
}

struct Op {
  OpKind kind = OpKind::compute;
  Lane lane = Lane::compute;
  Payload payload = Payload::none;
  uint16_t micro = 0;  ///< the micro-batch of the iteration that it works for
  uint16_t every = 1;  ///< runs when (iteration + 1) % every == 0 ...
  uint32_t what = 0;   ///< index into tasks / copies / collectives / channels / stores, by kind
  /// Index into buckets; server roles use the message's; of a channel between working roles index into its
  /// keys; of a collective inside a layer that devices share (a grid has them) the layer whose output it is.
  uint32_t key = 0;
  Bytes bytes;                      ///< payload per instance; 0 for compute, apply and gate
  uint32_t from = 0;                ///< ... in iterations from this one on ...
  uint32_t until = kEver;           ///< ... and before this one
  [[no_unique_address]] Deps deps;  ///< program order within one lane is implied, not listed
  uint32_t label = 0;               ///< index into labels, e.g. "backward conv3"; after `deps`, where room is

  static constexpr uint32_t kEver = UINT32_MAX;
  bool runs(uint32_t iteration) const {
    return (iteration + 1) % every == 0 && iteration >= from && iteration < until;
  }
  bool always() const { return every == 1 && from == 0 && until == kEver; }
  /// How many of the first `iterations`.
  int64_t times(int64_t iterations) const;
};
static_assert(sizeof(Op) == 48, "Programs of messages have millions of ops");

}  // namespace tandem::schemes
