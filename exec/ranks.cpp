#include "exec/ranks.h"

#include <cstdlib>

#include "base/error.h"
#include "exec/cpu/kernel.h"

#ifdef TANDEM_HAS_MPI
#define OMPI_SKIP_MPICXX 1  // the C interface only
#include <mpi.h>

#include <chrono>
#include <thread>
#include <vector>
#endif

namespace tandem {

namespace {

/// mpirun of Open MPI and of MPICH leave their mark.
bool started_by_mpirun() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* size = std::getenv(name);
    if (size != nullptr && std::atoi(size) > 1) return true;
  }
  return false;
}

}  // namespace

#ifndef TANDEM_HAS_MPI

const Ranks& ranks() {
  static const Ranks one;
  if (started_by_mpirun())
    throw InputError(
        "started by mpirun, but built without MPI: install libopenmpi-dev and configure with "
        "-DTANDEM_MPI=ON");
  return one;
}
void sum_over_ranks(std::span<double>) {}
void meet_ranks() {}
void abort_ranks(int) {}
std::unique_ptr<Transport> mpi_transport(Abort&) { return nullptr; }

#else

namespace {

void sure(int result, const char* what) {
  if (result != MPI_SUCCESS) throw DeviceError(std::string(what) + " failed");
}

/// Waiting threads look again after this long: the cores are the computation's.
void nap() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

class MpiTransport : public Transport {
 public:
  explicit MpiTransport(Abort& abort) : abort_(abort) {}

  bool here(uint32_t node) const override { return node == ranks().rank; }
  void connect(uint32_t, uint32_t) override {}
  std::unique_ptr<Receive> make_receive() override { return std::make_unique<Posted>(); }

  void send(uint32_t, uint32_t to_node, const MessageHead& head, const float* payload,
            int64_t elements) override {
    MPI_Request request = MPI_REQUEST_NULL;
    sure(MPI_Isend(payload, count(elements), MPI_FLOAT, static_cast<int>(to_node), tag(head), MPI_COMM_WORLD,
                   &request),
         "MPI_Isend");
    finish(request);
  }

  void post(uint32_t from_node, uint32_t, const MessageHead& stream, Receive& receive) override {
    auto& r = static_cast<Posted&>(receive);
    if (r.add) r.arrived.resize(static_cast<std::size_t>(r.elements));
    sure(MPI_Irecv(r.add ? r.arrived.data() : r.to, count(r.elements), MPI_FLOAT, static_cast<int>(from_node),
                   tag(stream), MPI_COMM_WORLD, &r.request),
         "MPI_Irecv");
  }

  void wait(Receive& receive) override {
    auto& r = static_cast<Posted&>(receive);
    finish(r.request);
    if (r.add) cpu::accumulate(r.to, r.arrived.data(), r.elements);
  }
  void stop() override {}  // a failed run ends the process

 private:
  struct Posted : Receive {
    MPI_Request request = MPI_REQUEST_NULL;
    std::vector<float> arrived;
  };

  static int count(int64_t elements) {
    if (elements > INT32_MAX) throw InputError("messages above 2^31 elements do not travel over MPI");
    return static_cast<int>(elements);
  }
  /// One number a stream, as MPI keeps the order of those alone. Ranks of a group are below 2^10.
  static int tag(const MessageHead& head) {
    return static_cast<int>(((head.channel & 0x7ffU) << 20U) | (head.from << 10U) | head.to);
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
};

}  // namespace

const Ranks& ranks() {
  static const Ranks all = [] {
    Ranks r;
    if (!started_by_mpirun()) return r;
    int given = 0, rank = 0, size = 1;
    sure(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &given), "MPI_Init_thread");
    if (given < MPI_THREAD_MULTIPLE) throw InputError("this MPI does not let several threads communicate");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::atexit([] { MPI_Finalize(); });
    r.rank = rank;
    r.size = size;
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

std::unique_ptr<Transport> mpi_transport(Abort& abort) { return std::make_unique<MpiTransport>(abort); }

#endif

}  // namespace tandem
