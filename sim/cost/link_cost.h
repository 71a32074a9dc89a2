#pragma once
// What messages and collectives put on the links of a System: latency, payload, weights. Floor 3.
#include <cstdint>
#include <span>
#include <vector>

#include "schemes/program.h"
#include "schemes/scheme.h"
#include "sim/plan.h"
#include "topologies/system.h"

namespace tandem {

/// Turns routes and collective algorithms into Transfers. Resources 0..system.link_count()-1 are the
/// system's links (half-duplex pairs share one); further ones (storage, decoding cores) are appended by
/// resource(). Not thread safe.
class LinkCost {
 public:
  LinkCost(const System& system, const Overheads& overheads);
  Transfer message(VertexId from, VertexId to, Bytes bytes);
  /// `algorithm` "auto" picks the fastest that applies for this size, as the system's library would.
  /// On return `*chosen` (if given) is its name. Throws InputError when a named algorithm cannot serve the group.
  Transfer collective(CollKind kind, const std::string& algorithm, Bytes bytes, std::span<const VertexId> members,
                      std::string* chosen = nullptr);
  /// Storage read, decode and host-to-device copy of `samples` samples for accelerator `to`, pipelined.
  Transfer input(VertexId to, int64_t samples, Bytes stored, Bytes decoded, double decode_seconds);
  /// Usable bytes/s of every resource known so far.
  const std::vector<double>& capacity() const;
  std::string resource_name(uint32_t resource) const;

 private:
  const System& system_;
  Overheads overheads_;
  std::vector<double> capacity_;
  std::vector<std::string> extra_names_;
};

}  // namespace tandem
