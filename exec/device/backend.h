// SPDX-License-Identifier: Apache-2.0
#pragma once
// All that a kind of device must supply to run Programs. A backend is one file in exec/device/backends and
// one word in exec/CMakeLists.txt.
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/precision.h"
#include "base/registry.h"
#include "base/units.h"
#include "exec/lower/call.h"
#include "schemes/program/program.h"

namespace tandem::exec {

/// Of what is put into 2 bytes: that of the activations, and fp16 where these have 4.
constexpr Precision half_format(Precision p) {
  return p == Precision::bf16 || p == Precision::fp8 ? Precision::bf16 : Precision::fp16;
}

/// A mark in what a lane was given.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
};
/// What lanes were given between begin_capture() and end_capture(), to be given again as a whole.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
};

/// What a prepared call runs on, where a library was asked for it.
struct LibraryChoice {
  Function function = Function::fill;
  std::string library;  ///< "cuDNN", "cuBLASLt"; "Tandem" where its own kernels are the faster way
  std::string engine;   ///< by the library's own number or name; empty where it has none
  int64_t workspace_bytes = 0;
  std::string refused;  ///< why the backend's own kernel computes it; empty where the library does
  double flops = 0;     ///< of one launch
};

/// One instance's device. Opened and used from that instance's threads: at any time one thread per lane.
/// Memory is the device's (host memory for the CPU); addresses may be offset.
class DeviceSession {
 public:
  virtual ~DeviceSession() = default;
  /// Zeroed and touched by the calling thread; owned by the device until it is destroyed.
  virtual float* allocate(int64_t elements) = 0;
  /// Makes everything that repeated launches of the call need; the handle is an index. Slow.
  virtual uint32_t prepare(const Call& call) = 0;
  /// Called once by each further thread that will work for the device: makes it compute as the one that
  /// opened it does, wherever it runs.
  virtual void join() {}
  /// Of the calls prepared so far for which a library was asked, in their order.
  virtual std::vector<LibraryChoice> choices() const { return {}; }
  /// Enqueues on the lane; `operands` as in Call. Asynchronous devices return before completion and take
  /// `step` from the slot that it names (set_state). Allocates nothing.
  virtual void launch(uint32_t prepared, std::span<float* const> operands, const IterationState& step,
                      Lane lane) = 0;
  virtual void copy(float* to, const float* from, int64_t elements, Lane lane) = 0;
  /// to += from. `from` may be another session's, of the same backend, as in copy().
  virtual void accumulate(float* to, const float* from, int64_t elements, Lane lane) = 0;
  virtual void scale(float* values, float factor, int64_t elements, Lane lane) = 0;
  /// To numbers of 2 bytes in the session's half_format(), two a word, and back. Enqueue, as copy().
  virtual void narrow(float* to, const float* from, int64_t elements, Lane lane) = 0;
  virtual void upcast(float* to, const float* from, int64_t elements, Lane lane) = 0;
  /// Makes what the copies have of the range again, those of 2 bytes in the session's half_format().
  /// `vector`: its element 0. Enqueues. Only asked of backends that want `copies`.
  virtual void renew(const CopiedRange& /*range*/, const float* /*vector*/, Lane) {}
  /// The same of gradients on their way to others, in fp16 times the loss's scale, which small ones need in 2
  /// bytes, and back: the scale of slot 0's iteration, on which all who sum them must agree.
  virtual void narrow_gradients(float* to, const float* from, int64_t elements, Lane lane) {
    narrow(to, from, elements, lane);
  }
  virtual void upcast_gradients(float* to, const float* from, int64_t elements, Lane lane) {
    upcast(to, from, elements, lane);
  }
  /// accumulate() of numbers of 2 bytes, two in each of `words`.
  virtual void accumulate_half(float* to, const float* from, int64_t words, Lane lane) = 0;
  /// Takes the loss's scale, which fp16 has (DeviceOptions), out of gradients that a pass has left, and notes
  /// whether all are finite: if not, iterations from the next one on have half the scale. `alone`: no update
  /// here checks for non-finite values, so they become 0. After slot 0 was given the iteration's state.
  virtual void unscale(float* /*gradients*/, int64_t /*elements*/, bool /*alone*/, Lane) {}
  /// fp16: where one of these is not finite, no update changes anything until the next iteration begins; else
  /// an update leaves out such elements alone.
  virtual void judge(const float* /*gradients*/, int64_t /*elements*/, Lane) {}
  /// Between host memory and the device's; the host waits.
  virtual void upload(float* to, const float* host, int64_t elements) = 0;
  virtual void download(float* host, const float* from, int64_t elements) = 0;
  /// The host waits for all that the lane was given; throws DeviceError.
  virtual void synchronize(Lane) {}

  // ---- only asked of backends that are `asynchronous`; every lane is then an in-order queue ----
  /// Host memory that load() and save() reach; owned by the device, as allocate().
  virtual float* allocate_host(int64_t) { return nullptr; }
  /// Enqueue a copy between memory of allocate_host() and the device's.
  virtual void load(float* /*to*/, const float* /*host*/, int64_t /*elements*/, Lane) {}
  virtual void save(float* /*host*/, const float* /*from*/, int64_t /*elements*/, Lane) {}
  /// Gives `state` to slot `state.slot` (below kStateSlots), on the lane: later launches there see it.
  virtual void set_state(const IterationState& /*state*/, Lane) {}
  /// `timed`: seconds_between() may be asked of it.
  virtual std::unique_ptr<DeviceEvent> make_event(bool /*timed*/) { return nullptr; }
  virtual void record(DeviceEvent&, Lane) {}
  /// The lane waits for the event's last record(); the host does not. The event may be another session's.
  virtual void wait(Lane, DeviceEvent&) {}
  /// The host waits for the event; throws DeviceError.
  virtual void synchronize(DeviceEvent&) {}
  /// Does the host not have to wait for it any more? Throws DeviceError.
  virtual bool finished(DeviceEvent& event) {
    synchronize(event);
    return true;
  }
  virtual double seconds_between(DeviceEvent& /*first*/, DeviceEvent& /*second*/) { return 0; }
  /// From now on what is given to the compute lane, and to lanes that wait for events recorded since, is
  /// kept and not run, until end_capture(); by then these lanes' work must have been waited for by the
  /// compute lane. No host waiting, allocation or upload in between.
  virtual void begin_capture() {}
  virtual std::unique_ptr<DeviceGraph> end_capture() { return nullptr; }
  /// Enqueues it all on the compute lane.
  virtual void replay(DeviceGraph&) {}
};

/// What a member of a group sends to, or receives from, another one.
struct DeviceMessage {
  uint32_t peer = 0;    ///< its rank
  float* at = nullptr;  ///< memory of the caller's device
  int64_t elements = 0;
};

/// One group's collectives, made by the device's own library (NCCL). Members call in the same order.
class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;
  /// Before join(): the memory that run() on that many elements will need besides them. Memory that is
  /// allocated while others' collectives wait for this rank may have to wait for those.
  virtual void reserve(uint32_t /*rank*/, DeviceSession&, int64_t /*elements*/) {}
  /// Once per rank, each in its own thread: returns when all have joined; called when every session is
  /// open, since those who join wait for each other. Throws DeviceError.
  virtual void join(uint32_t rank, DeviceSession& session) = 0;
  /// Enqueues; in place on `elements` floats. Chunks of ranks differ by at most one element, larger first.
  /// With bf16 or fp16 as `format` an element is two numbers of that.
  virtual void run(uint32_t rank, DeviceSession& session, float* buffer, int64_t elements, Lane lane,
                   Precision format) = 0;
  /// Enqueues messages that travel at once, for schedules that are not the library's: all are sent and have
  /// arrived before the lane goes on. The k-th that a rank sends to a peer is the k-th that this peer
  /// receives from it, and of the same size. What arrives must lie apart from all else that is sent or
  /// arrives.
  virtual void exchange(uint32_t rank, DeviceSession& session, std::span<const DeviceMessage> sends,
                        std::span<const DeviceMessage> receives, Lane lane) = 0;
  /// Seconds that the library expects such a run() to take; 0 where it does not say. By all members together,
  /// when the lanes are done with what they were given.
  virtual double estimate(uint32_t /*rank*/, DeviceSession&, float* /*buffer*/, int64_t /*elements*/, Lane,
                          Precision /*format*/) {
    return 0;
  }
  /// What the library found out since about collectives under way, in its own words; empty while all is well.
  virtual std::string failure() { return ""; }
  /// After a failure, from any thread: what is under way ends without its result, so that nobody waits for
  /// ever. Returns at once; what it sets going has ended when the group is destroyed, graphs with the group's
  /// collectives before it.
  virtual void stop() noexcept {}
};

/// How one device's memory is reached from another.
enum class PeerRoute : uint8_t {
  automatic,  ///< directly where the devices reach each other, else through host memory
  peer,       ///< directly; devices that do not reach each other are refused
  staged,     ///< through host memory, also where they could reach each other
};
std::string_view name(PeerRoute route);  ///< "auto", "peer", "staged"
/// Throws InputError at `place` with the valid names.
PeerRoute parse_peer_route(std::string_view text, const Place& place);

/// What a group is told before it begins.
struct GroupSetup {
  CollKind kind = CollKind::all_reduce;
  std::string algorithm;           ///< "auto": run() will be asked; else exchange() alone, for that schedule
  std::vector<std::string> units;  ///< [rank]: Backend::unit of each member
  PeerRoute route = PeerRoute::automatic;
  std::string id;  ///< Backend::group_id of the process of rank 0; "" where this process has all members
};

struct DeviceOptions {
  uint32_t index = 0;  ///< of the instance, among those of this machine
  Precision precision = Precision::fp32;
  int threads = 1;     ///< that compute together for one instance (CPU)
  bool worker = true;  ///< or what updates for a server, or where an optimiser is offloaded
  PeerRoute route = PeerRoute::automatic;
  float loss_scale = 65536;  ///< a power of two: what multiplies the loss in fp16, at first
};

/// Operands of a call, bit by bit, of which each launch makes numbers of the format that it multiplies.
struct CopyWish {
  uint32_t half = 0, fp8 = 0;     ///< in 2 bytes, in 1; those in 1 as matrices
  int64_t rows = 0, columns = 0;  ///< of the one in 1 byte, as it lies
};

struct PowerGauges;  // gauge.h

struct Backend {
  std::string_view name, summary;
  /// Empty when usable here, else what is missing.
  std::string (*missing)();
  bool (*supports)(const Call& call, Precision precision);
  /// Called in the thread that will run the instance's compute lane. Where denormal numbers are flushed to
  /// zero the thread does so until the last session that it opened ends in it.
  std::unique_ptr<DeviceSession> (*open)(const DeviceOptions& options);
  /// What the device is called in topologies' terms: cores, clock, memory; for provenance.
  std::string (*describe)();
  /// Launches return before completion, memory is not the host's: threads may not reach into it.
  bool asynchronous = false;
  /// The group, or null where the library cannot: then the schedules of schemes/collectives are made of
  /// copy() and accumulate(), or go over links between processes.
  std::unique_ptr<DeviceGroup> (*group)(const GroupSetup& setup) = nullptr;
  /// By which members in several processes find each other; "" without the library. Asked with `group`.
  std::string (*group_id)(PeerRoute route) = nullptr;
  /// The unit that computes for the instance of this index, by a name that is its own on all machines. Asked
  /// with `group`.
  std::string (*unit)(uint32_t index) = nullptr;
  /// Does the instance of index `a` reach `b`'s memory directly? Null: all have the same memory.
  bool (*reaches)(uint32_t a, uint32_t b) = nullptr;
  /// Instances that compute side by side here; null: one per processor.
  int64_t (*units)() = nullptr;
  /// Bytes of the memory of the device on which the instance of this index is; several may share it. Null:
  /// the host's memory. Asked with `unit`.
  int64_t (*memory)(uint32_t index) = nullptr;
  /// Of work before the first iteration, after which an idle device's clocks have risen.
  double warm_seconds = 0;
  /// Has batch_norm_relu and its kin.
  bool fuses_norms = false;
  /// Which operands the call would rather find as copies after them where they are parameters
  /// (Call::copied). Null: none.
  CopyWish (*copies)(const Call& call, Precision precision) = nullptr;
  /// Computes on the processors of the thread that calls, which is then bound (cores.h).
  bool on_processors = false;
  /// Of the devices on which the instances of these indices are. Null: nothing says what they draw.
  PowerGauges (*gauges)(const std::vector<uint32_t>& indices) = nullptr;
};
/// Generated from the list in exec/CMakeLists.txt.
const Registry<Backend>& backends_registry();

}  // namespace tandem::exec
