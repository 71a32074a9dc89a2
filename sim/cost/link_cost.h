// SPDX-License-Identifier: Apache-2.0
#pragma once
// What messages and collectives put on the links of a System: latency, payload, weights.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "schemes/program/program.h"
#include "schemes/setup/scheme.h"
#include "sim/bound/bound_program.h"
#include "sim/bound/speeds.h"
#include "sim/cost/priced_collectives.h"
#include "topologies/system.h"

namespace tandem::sim {

struct Harness;
struct Laid;
struct Library;
struct NetworkSoftware;
struct Pattern;
struct PatternPrice;
struct Protocol;

/// Turns routes and collective algorithms into Transfers. Resources 0..system.link_count()-1 are the
/// system's links (half-duplex pairs share one); further ones (storage, decoding cores, threads) are appended
/// by input(), post() and collective(). Keeps references to `system`. Not thread safe.
class LinkCost {
 public:
  /// `priced`: collectives of this system that others have priced, and where its own are kept; may be null.
  LinkCost(const System& system, const Overheads& overheads, const Speeds& speeds = {},
           PricedCollectives* priced = nullptr);
  ~LinkCost();

  /// One point-to-point copy; free when from == to.
  Transfer message(VertexId from, VertexId to, Bytes bytes);

  /// One message between processes of the scheme's network library (Overheads::network): as message(), and
  /// its threads at both ends serialise and copy the bytes. Devices belong to their node's worker process,
  /// other vertices to its server. Where threads bind, the last two uses are the sender's and the receiver's.
  Transfer post(VertexId from, VertexId to, Bytes bytes);
  /// Makes of a transfer of post() one of `bytes` > 0, whose cost per message weighs differently.
  void resize(Transfer& posted, double bytes) const;
  /// The resource of the thread that serves the connection of v's process to that of `peer`, both ways: they
  /// alternate by the peer's node. kNoThread where no thread touches the bytes.
  uint32_t thread_of(VertexId v, VertexId peer);
  static constexpr uint32_t kNoThread = UINT32_MAX;
  /// Of the scheme's messages.
  const NetworkSoftware& software() const { return *messages_; }

  /// What priced a collective.
  struct Choice {
    std::string algorithm;  ///< a name in layouts_registry() or collectives_registry()
    std::string protocol;   ///< of the library: "ll", "ll128", "simple", ...
    double spread = 0;      ///< nine of ten are measured within this factor, less 1; 0: not known
    double overlap = 0;     ///< seconds of its latency that hide under the next call of the same kind
    double blocks = 1;      ///< thread blocks that its kernel has on each member
  };
  /// `bytes`: all_reduce, broadcast, reduce: the buffer; reduce_scatter, all_gather: the whole (unsharded)
  /// buffer; all_to_all: what each rank holds. members[0] is the root. `algorithm` "auto" picks the fastest
  /// that the system's library offers for this size, with its fastest protocol. Free for one member or no
  /// bytes. Throws InputError when a named algorithm is unknown or cannot serve the kind and group. Cost: the
  /// first call per (kind, algorithm, members) lays out the routes (at most kEnumeratedRanks of them
  /// enumerated, the rest by representative nodes), later sizes are O(links used).
  Transfer collective(CollKind kind, const std::string& algorithm, Bytes bytes,
                      std::span<const VertexId> members, Choice* chosen = nullptr);

  /// How often the rings that collective() would choose cross the cable of `link`, both ways together: each
  /// ring counts by its share of the payload, so that a cable that one of two equal rings crosses once gives
  /// 0.5. 0 where it chooses something else than rings. Of groups above kEnumeratedRanks the first node's
  /// links alone.
  double crossings(CollKind kind, const std::string& algorithm, Bytes bytes,
                   std::span<const VertexId> members, LinkId link);

  /// Grouped sends, priced as the library's point-to-point messages.
  enum class Exchange : uint8_t {
    gather,    ///< every member but the root sends its part to members[0]; `bytes`: the whole buffer
    scatter,   ///< the reverse
    sendrecv,  ///< every member sends `bytes` to the next one, all at once (sendrecv_perf of nccl-tests)
  };
  Transfer exchange(Exchange what, Bytes bytes, std::span<const VertexId> members, Choice* chosen = nullptr);

  /// The least seconds that the links allow for a collective, whatever the library does; without latency.
  double least_seconds(CollKind kind, Bytes bytes, std::span<const VertexId> members) const;

  /// What a benchmark driven as `harness` says reports for a collective of `seconds`. It calls it again and
  /// again: Choice::overlap counts once for all iterations.
  double reported(double seconds, const Choice& choice, const Harness& harness) const;

  /// Samples on their way to accelerator `to` (schemes/setup/loading.h), one stage of input each.
  struct Read {
    double samples = 0, bytes = 0;  ///< bytes of a sample
    bool files = false;             ///< a file each: opened, then read from its beginning
    bool staged = false;            ///< read from the node's own disks, though storage is shared
    double missed = 1;              ///< share that the page cache does not hold; what it holds takes no time
    double threads = 0;  ///< that wait for storage at the same time; 0: as many cores as the node has
  };
  /// Operations are of read-ahead size, 128 KiB (the default of Linux, queue/read_ahead_kb); a file takes one
  /// operation of its metadata. A thread waits twice for a file, to open and to read it, once for a record.
  Transfer read(VertexId to, const Read& read);
  /// To `decoded` bytes in `seconds` of one core of speed 1, by at most `threads` (0: all) of the cores that
  /// the node's devices share.
  Transfer decode(VertexId to, Bytes decoded, double seconds, double threads);
  Transfer input(VertexId to, Bytes bytes);  ///< from its host

  /// Usable bytes/s (decoding cores: core-seconds per second) of every resource known so far.
  const std::vector<double>& capacity() const { return capacity_; }
  std::string resource_name(uint32_t resource) const;

  /// Whether the thread of the system's library that carries out collectives polls while it waits.
  bool polls() const;
  /// Share of the `seconds` of a collective alone in which that thread of `member` works; 1 where that is not
  /// known.
  double busy(const Transfer& collective, double seconds, VertexId member) const;

 private:
  struct Patterns;
  const Patterns& patterns(CollKind kind, const std::string& algorithm, std::span<const VertexId> members);
  /// Seconds that rank patterns and protocols, given what they would take.
  using Rank = std::function<double(const Laid&, const Protocol&, double seconds)>;
  struct Winner;
  PatternPrice priced(const Laid& laid, const std::map<uint32_t, double>& threads, const Protocol& protocol,
                      double size) const;
  /// The pattern and protocol of the lowest rank. Where one ends at a size, the next takes no less than it
  /// did there.
  Winner first(const Patterns& known, double size, std::string_view what, const Rank& rank) const;
  /// What the library would choose. Needs two members and some bytes.
  Winner winner(CollKind kind, const std::string& algorithm, Bytes bytes, std::span<const VertexId> members);
  /// Nine of ten are measured within this factor, less 1. `large`: above 1 MiB.
  double spread(const Pattern& pattern, bool large) const;
  Transfer transfer(const Winner& winner, CollKind kind, Bytes bytes, std::span<const VertexId> members,
                    Choice* chosen) const;
  /// Bytes that the payload's way between nodes puts on threads, per byte of it.
  std::map<uint32_t, double> threads(const Pattern& p);
  uint32_t resource(const std::string& name, double capacity);
  /// Speed of the cores of v's node, for which threads are priced on those of the first kind of nodes.
  double core_share(VertexId v) const;

  const System& system_;
  Overheads overheads_;
  std::vector<double> capacity_;
  std::vector<std::string> extra_names_;
  std::map<std::string, uint32_t> extra_;
  std::map<VertexId, uint32_t> threads_;  ///< resources of members' threads
  std::map<std::tuple<CollKind, std::string, std::vector<VertexId>>, std::unique_ptr<Patterns>> patterns_;
  std::unique_ptr<const Library> library_;
  std::shared_ptr<PricedCollectives::Shelf> shelf_;  ///< null: nothing is kept
  std::unique_ptr<const NetworkSoftware> messages_,
      collectives_;  ///< of the scheme's library and of library_
};

}  // namespace tandem::sim
