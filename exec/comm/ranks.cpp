// SPDX-License-Identifier: Apache-2.0
#include "exec/comm/ranks.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/error.h"
#include "exec/device/cpu/kernel.h"

#ifdef TANDEM_HAS_MPI
#define OMPI_SKIP_MPICXX 1  // the C interface only
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <map>
#include <numeric>
#include <thread>
#endif

namespace tandem::exec {

namespace {

int number(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

/// mpirun of Open MPI and of MPICH leave their mark.
bool started_by_mpirun() { return number("OMPI_COMM_WORLD_SIZE") > 1 || number("PMI_SIZE") > 1; }

/// SLURM's srun says how many tasks its step has; of what mpirun starts that is none of our business.
bool started_by_srun() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr && number("SLURM_STEP_NUM_TASKS") > 1;
}

}  // namespace

#ifndef TANDEM_HAS_MPI

const Ranks& ranks() {
  static const Ranks one;
  if (started_by_mpirun() || started_by_srun())
    throw InputError(fmt::format(
        "started by {}, but built without MPI: install libopenmpi-dev and configure with -DTANDEM_MPI=ON",
        started_by_mpirun() ? "mpirun" : "srun"));
  return one;
}
void sum_over_ranks(std::span<double>) {}
std::vector<std::string> gather_over_ranks(const std::string& own) { return {own}; }
void answer_ranks(const std::function<std::string(const std::string&)>&, const std::function<bool()>&) {}
std::string ask_rank_0(int, const std::string&, std::chrono::seconds) { return ""; }
void meet_ranks() {}
void abort_ranks(int) {}
std::unique_ptr<exec::Transport> mpi_transport(Abort&) { return nullptr; }

#else

namespace {

void sure(int result, const char* what) {
  if (result != MPI_SUCCESS) throw DeviceError(std::string(what) + " failed");
}

/// Waiting threads look again after this long: the cores are the computation's.
void nap() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

class MpiTransport : public exec::Transport {
 public:
  explicit MpiTransport(Abort& abort) : abort_(abort) {}
  ~MpiTransport() override { MpiTransport::stop(); }

  bool here(uint32_t node) const override { return node == ranks().rank; }
  void connect(uint32_t, uint32_t) override {}
  std::unique_ptr<Receive> make_receive() override { return std::make_unique<Posted>(); }

  void handle(uint32_t channel, Handler handler) override {
    MPI_Comm own = MPI_COMM_NULL;
    sure(MPI_Comm_dup(MPI_COMM_WORLD, &own), "MPI_Comm_dup");
    handled_[channel] = own;
    servers_.emplace_back(
        [this, channel, own, handler = std::move(handler)] { serve(channel, own, handler); });
  }

  void send(uint32_t, uint32_t to_node, const MessageHead& head, const float* payload, int64_t elements,
            bool) override {
    count_sent(elements);
    MPI_Request request = MPI_REQUEST_NULL;
    const auto own = handled_.find(head.channel);
    const bool handled = own != handled_.end();
    sure(MPI_Isend(payload, count(elements), MPI_FLOAT, static_cast<int>(to_node),
                   handled ? tag(head.key, head) : tag(head.channel, head),
                   handled ? own->second : MPI_COMM_WORLD, &request),
         "MPI_Isend");
    finish(request);
  }

  void post(uint32_t from_node, uint32_t, const MessageHead& stream, Receive& receive) override {
    auto& r = static_cast<Posted&>(receive);
    if (r.add) r.arrived.resize(static_cast<std::size_t>(r.elements));
    sure(MPI_Irecv(r.add ? r.arrived.data() : r.to, count(r.elements), MPI_FLOAT, static_cast<int>(from_node),
                   tag(stream.channel, stream), MPI_COMM_WORLD, &r.request),
         "MPI_Irecv");
  }

  void wait(Receive& receive) override {
    auto& r = static_cast<Posted&>(receive);
    finish(r.request);
    if (r.add) cpu::accumulate(r.to, r.arrived.data(), r.elements);
  }
  void stop() override {  // only what handlers take in: a failed run ends the process
    closing_ = true;
    for (std::thread& t : servers_) t.join();
    servers_.clear();
  }

 private:
  struct Posted : Receive {
    MPI_Request request = MPI_REQUEST_NULL;
    std::vector<float> arrived;
  };

  static int count(int64_t elements) {
    if (elements > INT32_MAX) throw InputError("messages above 2^31 elements do not travel over MPI");
    return static_cast<int>(elements);
  }
  /// One number a stream, as MPI keeps the order of those alone: its channel, or on a communicator of the
  /// channel's own its key. Ranks of a group are below 2^10.
  static int tag(uint32_t kind, const MessageHead& head) {
    if (kind > 0x7ffU) throw InputError("a program of more than 2,047 parts does not travel over MPI");
    return static_cast<int>((kind << 20U) | (head.from << 10U) | head.to);
  }
  /// One thread for a channel: whatever comes runs its handler.
  void serve(uint32_t channel, MPI_Comm comm, const Handler& handler) {
    try {
      for (std::vector<float> payload; !closing_ && !abort_.failed();) {
        int found = 0, elements = 0;
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Status status;
        sure(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, &message, &status), "MPI_Improbe");
        if (found == 0) {
          nap();
          continue;
        }
        sure(MPI_Get_count(&status, MPI_FLOAT, &elements), "MPI_Get_count");
        payload.resize(static_cast<std::size_t>(elements));
        sure(MPI_Mrecv(payload.data(), elements, MPI_FLOAT, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
        const auto bits = static_cast<uint32_t>(status.MPI_TAG);
        handler({channel, bits >> 20U, bits >> 10U & 0x3ffU, bits & 0x3ffU, 0}, payload.data(), elements);
      }
    } catch (const Stopped&) {
    } catch (...) {
      abort_.fail(std::current_exception());
    }
  }
  void finish(MPI_Request& request) {
    for (int done = 0;;) {
      sure(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done != 0) return;
      abort_.check();
      nap();
    }
  }
  Abort& abort_;
  std::atomic<bool> closing_{false};
  std::map<uint32_t, MPI_Comm> handled_;  ///< channels with a handler
  std::vector<std::thread> servers_;
};

/// Where srun did not say how its processes find each other.
std::string srun_advice() {
  return fmt::format(
      "srun started {} processes, which this MPI cannot join: say srun --mpi=pmix (srun --mpi=list names "
      "what "
      "there is), or start them by mpirun",
      number("SLURM_STEP_NUM_TASKS"));
}

/// Has srun told the processes how to find each other, in a way that this MPI understands? Open MPI, which
/// would end the process in MPI_Init, knows PMIx alone.
bool told_by_srun() {
#ifdef OPEN_MPI
  return std::getenv("PMIX_RANK") != nullptr;
#else
  return std::getenv("PMIX_RANK") != nullptr || std::getenv("PMI_RANK") != nullptr;
#endif
}

}  // namespace

const Ranks& ranks() {
  static const Ranks all = [] {
    Ranks r;
    if (!started_by_mpirun() && !started_by_srun()) return r;
    int given = 0, rank = 0, size = 1;
    if (started_by_srun() && !told_by_srun()) throw InputError(srun_advice());
    sure(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &given), "MPI_Init_thread");
    if (given < MPI_THREAD_MULTIPLE) throw InputError("this MPI does not let several threads communicate");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::atexit([] { MPI_Finalize(); });
    if (size == 1 && started_by_srun()) throw InputError(srun_advice());
    r.rank = rank;
    r.size = size;
    MPI_Comm machine = MPI_COMM_NULL;
    sure(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine),
         "MPI_Comm_split_type");
    int local = 0;
    MPI_Comm_rank(machine, &local);
    MPI_Comm_free(&machine);
    r.local = local;
    return r;
  }();
  return all;
}

void sum_over_ranks(std::span<double> values) {
  if (!ranks().several()) return;
  sure(MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_SUM,
                     MPI_COMM_WORLD),
       "MPI_Allreduce");
}

std::vector<std::string> gather_over_ranks(const std::string& own) {
  if (!ranks().several()) return {own};
  const int size = static_cast<int>(own.size());
  std::vector<int> sizes(static_cast<std::size_t>(ranks().size)), begins(sizes.size());
  sure(MPI_Allgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather");
  std::exclusive_scan(sizes.begin(), sizes.end(), begins.begin(), 0);
  std::string all(static_cast<std::size_t>(begins.back() + sizes.back()), '\0');
  sure(MPI_Allgatherv(own.data(), size, MPI_CHAR, all.data(), sizes.data(), begins.data(), MPI_CHAR,
                      MPI_COMM_WORLD),
       "MPI_Allgatherv");
  std::vector<std::string> out;
  for (std::size_t r = 0; r < sizes.size(); ++r)
    out.push_back(all.substr(static_cast<std::size_t>(begins[r]), static_cast<std::size_t>(sizes[r])));
  return out;
}

namespace {

using Over = std::function<bool()>;

/// With one that is on its way to or from a rank that may be lost, before others are served.
constexpr std::chrono::seconds kMessagePatience{10};

Over after(std::chrono::seconds patience) {
  return
      [end = std::chrono::steady_clock::now() + patience] { return std::chrono::steady_clock::now() > end; };
}

/// Tries until it succeeds or is `over`, mostly asleep: the processors are for what is asked.
bool try_until(const std::function<bool()>& attempt, const Over& over) {
  while (!attempt()) {
    if (over()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

bool send_text(const std::string& text, int rank, int tag, const Over& over) {
  if (text.size() > INT32_MAX) throw InputError("texts above 2 GiB do not travel over MPI");
  MPI_Request request = MPI_REQUEST_NULL;
  sure(MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_CHAR, rank, tag, MPI_COMM_WORLD, &request),
       "MPI_Isend");
  const auto sent = [&] {
    int done = 0;
    sure(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  };
  if (try_until(sent, over)) return true;
  MPI_Cancel(&request);
  MPI_Request_free(&request);
  return false;
}

/// `status`: from whom it is. False once it is over, and if the sender is lost in the middle of a long text.
bool receive_text(std::string& text, MPI_Status& status, int rank, int tag, const Over& over) {
  MPI_Message message = MPI_MESSAGE_NULL;
  const auto came = [&] {
    int found = 0;
    sure(MPI_Improbe(rank, tag, MPI_COMM_WORLD, &found, &message, &status), "MPI_Improbe");
    return found != 0;
  };
  if (!try_until(came, over)) return false;
  int size = 0;
  sure(MPI_Get_count(&status, MPI_CHAR, &size), "MPI_Get_count");
  auto bytes = std::make_unique<std::string>(static_cast<std::size_t>(size), '\0');
  MPI_Request request = MPI_REQUEST_NULL;
  sure(MPI_Imrecv(bytes->data(), size, MPI_CHAR, &message, &request), "MPI_Imrecv");
  const auto whole = [&] {
    int done = 0;
    sure(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  };
  if (!try_until(whole, after(kMessagePatience))) {
    bytes.release();  // NOLINT: stays MPI's
    return false;
  }
  text = std::move(*bytes);
  return true;
}

}  // namespace

void answer_ranks(const std::function<std::string(const std::string&)>& answer, const Over& over) {
  std::string asked;
  MPI_Status status;
  while (!over()) {
    if (receive_text(asked, status, MPI_ANY_SOURCE, MPI_ANY_TAG, over))
      send_text(answer(asked), status.MPI_SOURCE, status.MPI_TAG, after(kMessagePatience));
  }
}

std::string ask_rank_0(int thread, const std::string& asked, std::chrono::seconds patience) {
  std::string out;
  MPI_Status status;
  if (!send_text(asked, 0, thread, after(patience)) || !receive_text(out, status, 0, thread, after(patience)))
    throw DeviceError(fmt::format("rank 0 has not answered for {} s", patience.count()));
  return out;
}

void meet_ranks() {
  if (!ranks().several()) return;
  MPI_Request request = MPI_REQUEST_NULL;
  sure(MPI_Ibarrier(MPI_COMM_WORLD, &request), "MPI_Ibarrier");
  for (int done = 0; done == 0;) {
    sure(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void abort_ranks(int exit_code) {
  if (ranks().several()) MPI_Abort(MPI_COMM_WORLD, exit_code);
}

std::unique_ptr<exec::Transport> mpi_transport(Abort& abort) { return std::make_unique<MpiTransport>(abort); }

#endif

}  // namespace tandem::exec
