// SPDX-License-Identifier: Apache-2.0
// Collectives by NCCL, opened at run time: a machine with one GPU needs none.
#include <dlfcn.h>
#include <fmt/format.h>
#include <nccl.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "exec/device/cuda/session.h"

/// Its header knows ncclGroupSimulateEnd.
#define TANDEM_NCCL_ESTIMATES (NCCL_VERSION_CODE >= NCCL_VERSION(2, 22, 0))

namespace tandem::exec::cuda {

namespace {

/// NCCL's functions, by name.
struct Nccl {
  void* library = nullptr;
#define TANDEM_NCCL(name) decltype(&::name) name = nullptr
  TANDEM_NCCL(ncclGetVersion);
  TANDEM_NCCL(ncclGetUniqueId);
  TANDEM_NCCL(ncclCommInitRankConfig);
  TANDEM_NCCL(ncclCommGetAsyncError);
  TANDEM_NCCL(ncclGetLastError);
  TANDEM_NCCL(ncclCommDestroy);
  TANDEM_NCCL(ncclCommAbort);
  TANDEM_NCCL(ncclGetErrorString);
  TANDEM_NCCL(ncclGroupStart);
  TANDEM_NCCL(ncclGroupEnd);
  TANDEM_NCCL(ncclAllReduce);
  TANDEM_NCCL(ncclReduce);
  TANDEM_NCCL(ncclBroadcast);
  TANDEM_NCCL(ncclReduceScatter);
  TANDEM_NCCL(ncclAllGather);
  TANDEM_NCCL(ncclSend);
  TANDEM_NCCL(ncclRecv);
#if TANDEM_NCCL_ESTIMATES
  TANDEM_NCCL(ncclCommSplit);         // null before 2.18
  TANDEM_NCCL(ncclGroupSimulateEnd);  // null before 2.22
#endif
#undef TANDEM_NCCL

  Nccl() {
    library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    bool all = true;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      all = all && function != nullptr;
    };
    find(ncclGetVersion, "ncclGetVersion");
    find(ncclGetUniqueId, "ncclGetUniqueId");
    find(ncclCommInitRankConfig, "ncclCommInitRankConfig");
    find(ncclCommGetAsyncError, "ncclCommGetAsyncError");
    find(ncclGetLastError, "ncclGetLastError");
    find(ncclCommDestroy, "ncclCommDestroy");
    find(ncclCommAbort, "ncclCommAbort");
    find(ncclGetErrorString, "ncclGetErrorString");
    find(ncclGroupStart, "ncclGroupStart");
    find(ncclGroupEnd, "ncclGroupEnd");
    find(ncclAllReduce, "ncclAllReduce");
    find(ncclReduce, "ncclReduce");
    find(ncclBroadcast, "ncclBroadcast");
    find(ncclReduceScatter, "ncclReduceScatter");
    find(ncclAllGather, "ncclAllGather");
    find(ncclSend, "ncclSend");
    find(ncclRecv, "ncclRecv");
    if (!all) library = nullptr;
#if TANDEM_NCCL_ESTIMATES
    find(ncclCommSplit, "ncclCommSplit");
    find(ncclGroupSimulateEnd, "ncclGroupSimulateEnd");
#endif
  }
};
const Nccl& nccl() {
  static const Nccl found;
  return found;
}

/// The last error's own words say what a status does not: a full /dev/shm, say.
std::string words(ncclResult_t status, ncclComm_t communicator) {
  const char* last = nccl().ncclGetLastError(communicator);
  const std::string more = last == nullptr || *last == 0 ? "" : fmt::format(" ({})", last);
  return nccl().ncclGetErrorString(status) + more;
}

void check(ncclResult_t status, const char* what, ncclComm_t communicator = nullptr) {
  if (status != ncclSuccess && status != ncclInProgress)
    throw DeviceError(fmt::format("NCCL could not {}: {}", what, words(status, communicator)));
}

class Group : public DeviceGroup {
 public:
  Group(CollKind kind, std::size_t ranks, const std::string& id)
      : kind_(kind), communicators_(ranks), asked_(ranks), splits_(ranks), even_(ranks) {
    TANDEM_CHECK(id.size() == sizeof(id_));
    std::memcpy(&id_, id.data(), sizeof(id_));
  }
  ~Group() override {
    if (stopper_.joinable()) stopper_.join();
    if (!stopped_) end_all(nccl().ncclCommDestroy);
  }

  void reserve(uint32_t rank, DeviceSession& session, int64_t elements) override {
    const auto ranks = static_cast<int64_t>(communicators_.size());
    if (moves_chunks() && elements % ranks != 0) even_[rank].grow(session, ranks * (elements / ranks + 1));
  }

  void join(uint32_t rank, DeviceSession& session) override {
    static_cast<Session&>(session).use();
    load_kernels(static_cast<Session&>(session).gpu());
    // Calls return at once, so that who waits for a member that failed can be told.
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t joined = nullptr;
    const ncclResult_t status = nccl().ncclCommInitRankConfig(
        &joined, static_cast<int>(communicators_.size()), id_, static_cast<int>(rank), &config);
    communicators_[rank] = joined;
    complete(status, joined, "join a group");
  }
  /// ncclCommAbort waits until all graphs that hold calls of the communicator are destroyed, which the caller
  /// does later: a thread waits there.
  void stop() noexcept override {
    if (stopped_.exchange(true)) return;
    try {
      stopper_ = std::thread([this] {
        { const std::lock_guard guard(asking_); }  // who asks now has asked before it ends
        end_all(nccl().ncclCommAbort);
      });
    } catch (const std::exception&) {  // without a thread nothing is aborted
    }
  }
  std::string failure() override {
    const std::lock_guard guard(asking_);
    for (const auto& c : communicators_) {
      ncclResult_t state = ncclSuccess;
      if (stopped_ || c == nullptr || nccl().ncclCommGetAsyncError(c, &state) != ncclSuccess) continue;
      if (state != ncclSuccess && state != ncclInProgress) return words(state, c);
    }
    return "";
  }

  void run(uint32_t rank, DeviceSession& session, float* buffer, int64_t elements, Lane lane,
           Precision format) override {
    static_cast<Session&>(session).use();
    if (stopped_) throw DeviceError("NCCL was stopped after a failure elsewhere");
    const auto n = static_cast<std::size_t>(elements);
    const cudaStream_t stream = static_cast<Session&>(session).stream(lane);
    if (moves_chunks() && n % communicators_.size() != 0)
      return uneven(rank, buffer, n, Numbers(format), stream);
    enqueue(communicators_[rank], rank, buffer, n, Numbers(format), stream);
  }

  /// One group of calls, so that none waits for another: a ring's would otherwise wait for each other.
  void exchange(uint32_t rank, DeviceSession& session, std::span<const DeviceMessage> sends,
                std::span<const DeviceMessage> receives, Lane lane) override {
    static_cast<Session&>(session).use();
    if (stopped_) throw DeviceError("NCCL was stopped after a failure elsewhere");
    const ncclComm_t c = communicators_[rank];
    const cudaStream_t stream = static_cast<Session&>(session).stream(lane);
    check(nccl().ncclGroupStart(), "begin a group of calls");
    for (const DeviceMessage& m : receives)
      check(nccl().ncclRecv(m.at, static_cast<std::size_t>(m.elements), ncclFloat, static_cast<int>(m.peer),
                            c, stream),
            "receive");
    for (const DeviceMessage& m : sends)
      check(nccl().ncclSend(m.at, static_cast<std::size_t>(m.elements), ncclFloat, static_cast<int>(m.peer),
                            c, stream),
            "send");
    complete(nccl().ncclGroupEnd(), c, "end a group of calls");
  }

  /// What NCCL's tuning model, which chooses the algorithm by it, says of the same calls.
  double estimate(uint32_t rank, DeviceSession& session, float* buffer, int64_t elements, Lane lane,
                  Precision format) override {
#if TANDEM_NCCL_ESTIMATES
    const std::size_t ranks = communicators_.size(), n = static_cast<std::size_t>(elements) / ranks * ranks;
    if (nccl().ncclGroupSimulateEnd == nullptr || stopped_ || n == 0) return 0;
    static_cast<Session&>(session).use();
    const ncclComm_t c = asked(rank);
    check(nccl().ncclGroupStart(), "begin a group of calls");
    enqueue(c, rank, buffer, n, Numbers(format), static_cast<Session&>(session).stream(lane));
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    // A second opinion: where it fails, there is none. It counts microseconds.
    if (nccl().ncclGroupSimulateEnd(&info) != ncclSuccess || info.estimatedTime <= 0) return 0;
    return static_cast<double>(info.estimatedTime) * 1e-6;
#else
    return DeviceGroup::estimate(rank, session, buffer, elements, lane, format);
#endif
  }

 private:
  /// What an element is to NCCL.
  struct Numbers {
    ncclDataType_t type = ncclFloat;
    std::size_t each = 1;
    explicit Numbers(Precision format) {
      if (element_bytes(format) == 4) return;
      type = format == Precision::fp16 ? ncclHalf : ncclBfloat16;
      each = 2;
    }
  };

  using End = ncclResult_t (*)(ncclComm_t);
  void end_all(End end) {
    for (const auto* all : {&communicators_, &asked_}) {
      for (const auto& c : *all) {
        if (c != nullptr) end(c);
      }
    }
  }

#if TANDEM_NCCL_ESTIMATES
  /// Of the same members, for estimates: on a communicator that does not block, NCCL executes the calls in
  /// the background in place of simulating them (groupLaunchNonBlocking in its src/group.cc).
  ncclComm_t asked(uint32_t rank) {
    if (asked_[rank] != nullptr) return asked_[rank];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    const ncclComm_t of = communicators_[rank];
    complete(nccl().ncclCommSplit(of, 0, static_cast<int>(rank), &splits_[rank], &config), of,
             "split a group");
    asked_[rank] = splits_[rank];
    return asked_[rank];
  }
#endif

  /// Chunks are equal.
  void enqueue(ncclComm_t c, uint32_t rank, float* buffer, std::size_t n, const Numbers& of,
               cudaStream_t stream) const {
    switch (kind_) {
      case CollKind::all_reduce:
        return complete(nccl().ncclAllReduce(buffer, buffer, of.each * n, of.type, ncclSum, c, stream), c,
                        "all-reduce");
      case CollKind::reduce:
        return complete(nccl().ncclReduce(buffer, buffer, of.each * n, of.type, ncclSum, 0, c, stream), c,
                        "reduce");
      case CollKind::broadcast:
        return complete(nccl().ncclBroadcast(buffer, buffer, of.each * n, of.type, 0, c, stream), c,
                        "broadcast");
      default:
        return move_chunks(c, buffer, rank, n / communicators_.size(), of, stream);
    }
  }

  bool moves_chunks() const { return kind_ == CollKind::reduce_scatter || kind_ == CollKind::all_gather; }

  void move_chunks(ncclComm_t c, float* buffer, std::size_t rank, std::size_t each, const Numbers& of,
                   cudaStream_t stream) const {
    float* mine = buffer + rank * each;
    if (kind_ == CollKind::reduce_scatter)
      complete(nccl().ncclReduceScatter(buffer, mine, of.each * each, of.type, ncclSum, c, stream), c,
               "reduce-scatter");
    else
      complete(nccl().ncclAllGather(mine, buffer, of.each * each, of.type, c, stream), c, "all-gather");
  }

  /// NCCL's own want equal chunks: in separate memory each has one element more, which the later
  /// ranks leave empty.
  void uneven(uint32_t rank, float* buffer, std::size_t n, const Numbers& of, cudaStream_t stream) const {
    const std::size_t ranks = communicators_.size(), each = n / ranks + 1, long_ones = n % ranks;
    float* const even = even_[rank].at;
    TANDEM_CHECK(even != nullptr && even_[rank].elements >= static_cast<int64_t>(ranks * each));
    const auto move = [&](std::size_t r, bool there) {
      const std::size_t count = each - (r < long_ones ? 0 : 1);
      float *beside = even + r * each, *own = buffer + n / ranks * r + std::min(long_ones, r);
      cuda::check(cudaMemcpyAsync(there ? beside : own, there ? own : beside, count * sizeof(float),
                                  cudaMemcpyDeviceToDevice, stream),
                  "copy");
    };
    const auto move_all = [&](bool there) {
      for (std::size_t r = 0; r < ranks; ++r) move(r, there);
    };
    const bool scatters = kind_ == CollKind::reduce_scatter;
    scatters ? move_all(true) : move(rank, true);
    move_chunks(communicators_[rank], even, rank, each, of, stream);
    scatters ? move(rank, false) : move_all(false);
  }

  /// Waits until the library has taken what it was given.
  void complete(ncclResult_t status, ncclComm_t communicator, const char* what) const {
    while (status == ncclInProgress) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      const std::lock_guard guard(asking_);
      if (stopped_) throw DeviceError("NCCL was stopped after a failure elsewhere");
      check(nccl().ncclCommGetAsyncError(communicator, &status), what, communicator);
    }
    check(status, what, communicator);
  }

  CollKind kind_;
  ncclUniqueId id_{};
  std::vector<std::atomic<ncclComm_t>> communicators_;  ///< [rank]; null: in another process
  std::vector<std::atomic<ncclComm_t>> asked_;          ///< [rank]; null before the first estimate
  std::vector<ncclComm_t> splits_;                      ///< [rank], where NCCL writes them meanwhile
  /// Memory of a rank's session.
  struct Even {
    float* at = nullptr;
    int64_t elements = 0;
    void grow(DeviceSession& session, int64_t to) {
      if (to <= elements) return;
      at = session.allocate(to);
      elements = to;
    }
  };
  std::vector<Even> even_;  ///< [rank], for uneven(): one run at a time
  std::atomic<bool> stopped_{false};
  mutable std::mutex asking_;  ///< held while a communicator that may be aborted is asked
  std::thread stopper_;
};

}  // namespace

namespace {

/// NCCL reads its environment once, when the first group begins. "auto" leaves what the user has set.
void take_route(PeerRoute route) {
  static std::mutex mutex;
  static std::optional<PeerRoute> taken;
  const std::lock_guard guard(mutex);
  if (taken && *taken != route)
    throw DeviceError(fmt::format("NCCL has begun on route {} in this process and cannot take {}",
                                  name(*taken), name(route)));
  if (!taken && route == PeerRoute::staged) setenv("NCCL_P2P_DISABLE", "1", 1);
  if (!taken && route == PeerRoute::peer) {
    setenv("NCCL_P2P_DISABLE", "0", 1);
    setenv("NCCL_P2P_LEVEL", "SYS", 1);  // over any distance
  }
  taken = route;
}

}  // namespace

std::string nccl_version() {
  int version = 0;
  if (nccl().library == nullptr || nccl().ncclGetVersion(&version) != ncclSuccess) return "";
  std::string out = fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
#if TANDEM_NCCL_ESTIMATES
  if (nccl().ncclGroupSimulateEnd != nullptr) return out;
#endif
  return out + " (which tells no estimates: they came with 2.22)";
}

std::string nccl_id(PeerRoute route) {
  if (nccl().library == nullptr) return "";
  take_route(route);
  ncclUniqueId id{};
  check(nccl().ncclGetUniqueId(&id), "begin a group");
  return {reinterpret_cast<const char*>(&id), sizeof(id)};
}

std::unique_ptr<DeviceGroup> nccl_group(const GroupSetup& setup) {
  const std::set<std::string> units(setup.units.begin(), setup.units.end());
  const bool apart = units.size() == setup.units.size();  // NCCL wants a GPU for each rank
  if (setup.kind == CollKind::all_to_all || units.size() < 2 || !apart || nccl().library == nullptr)
    return nullptr;
  take_route(setup.route);
  return std::make_unique<Group>(setup.kind, units.size(),
                                 setup.id.empty() ? nccl_id(setup.route) : setup.id);
}

}  // namespace tandem::exec::cuda
