// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a byte and a message between nodes cost the threads that move them: serialisation, system calls and
// copies through host memory, by library and transport. Where a NIC moves the bytes itself (verbs), nothing.
// Data: calibration/profiles/network_software.json, a source for every figure.
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/link_profile.h"
#include "topologies/system.h"

namespace tandem::sim {

/// The threads of one process of a library, on the hosts of one system.
struct NetworkSoftware {
  std::string thread;  ///< what one is called: "gRPC thread"; empty: no thread touches the bytes
  int threads = 1;     ///< of one process; each serves some of its connections, both ways
  double send = 0;     ///< seconds of a thread per byte
  double receive = 0;  ///< the same at the other end
  double message = 0;  ///< seconds of a thread per message, at each end
  double handling =
      0;            ///< bytes/s at which a server process sums and applies gradients; 0 = its memory's rate
  double step = 0;  ///< seconds that a collective's step between nodes takes besides wire and library
  bool whole = false;  ///< the transport's latency holds what the library takes for a step
  int trips = 1;       ///< one-way messages that must follow each other before a receiver has the data
  bool flush = false;  ///< one trip more for bulk data, which a read after it makes visible to the device
  std::vector<std::string> protocols;   ///< of collectives that the transport can carry; empty: all
  std::vector<std::string> algorithms;  ///< that collectives over several nodes may take; empty: all
  bool sleeps = false;                  ///< while it waits; else the thread polls
  bool binds() const { return !thread.empty(); }
  /// Seconds of a thread that one end spends on a message, per byte of it.
  double per_byte(bool sends, double bytes) const { return (sends ? send : receive) + message / bytes; }
};

/// `library`: "nccl", "grpc", "zeromq" ...; one without an entry, like "", costs no thread anything. Figures
/// of a core are scaled by the host's core speed. Throws InputError naming the libraries if `required`.
NetworkSoftware network_software(std::string_view library, const System& system, bool required);

/// What the transport, with `latency` seconds of one message, does to a library's steps between nodes.
void carry(Library& library, const NetworkSoftware& transport, double latency);

/// Seconds that a process takes to send or receive a small message of a control plane: MPI's over the
/// system's communication.control where that is said ("rdma": verbs in addition to sockets), else over its
/// transport.
double control_message(const System& system);

}  // namespace tandem::sim
