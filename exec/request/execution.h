// SPDX-License-Identifier: Apache-2.0
#pragma once
// The request and the result of an execution. Plain values: whoever makes them owns them, and what an
// Execution points to must outlive the run. `progress` is called by a worker's thread.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/comm/rate_limit.h"
#include "exec/data/data.h"
#include "exec/data/stored_images.h"
#include "exec/data/token_files.h"
#include "exec/device/backend.h"
#include "exec/device/cores.h"
#include "exec/request/checkpoint.h"
#include "exec/request/loss_target.h"
#include "exec/request/noise_scale.h"
#include "schemes/program/program.h"
#include "schemes/report/report.h"
#include "schemes/setup/job.h"

namespace tandem::exec {

struct Execution {
  /// Its `input` is ignored: input is simulated if there is data. `loading.data` describes what is stored.
  Job job;
  const Backend* backend = nullptr;
  /// If more than one, messages between nodes use TCP, or MPI if each is a process.
  Cluster cluster;
  /// Steps of each worker's optimiser; their mean in a free-running program, where fast workers make more
  /// (semantics.md 1.7). Each of several processes deals out its own workers'.
  int32_t iterations = 30;
  int32_t warmup = 3;
  uint64_t seed = 1;
  int threads = 1;                            ///< per worker
  Bind bind = Bind::core;                     ///< binding of workers to processors
  std::optional<Processors> processors = {};  ///< default machine_processors()
  Processors available_processors() const { return processors ? *processors : machine_processors(); }
  std::optional<RateLimit> rate_limit;  ///< of TCP between nodes; none: unlimited
  /// (worker, factor >= 1 on the time of its calls): emulates slower devices (exec/device/throttled.h). Not
  /// for asynchronous backends.
  std::vector<std::pair<uint32_t, double>> throttle = {};
  PeerRoute route = PeerRoute::automatic;  ///< between devices with separate memories
  const Dataset* data = nullptr;           ///< in memory ...
  const StoredImages* stored = nullptr;    ///< ... or read and decoded while training, as job.loading says
  const TokenFiles* tokens = nullptr;      ///< ... or text, mapped; of token_sequence() of the job's model
  /// If none of them is given, samples are generated once, on the device.
  bool loads() const { return data != nullptr || stored != nullptr || tokens != nullptr; }
  struct Rate {
    double base = 0.01;
    int64_t warmup = 0;         ///< iterations of linear rise from base to base x workers (Goyal 2017)
    bool scale = false;         ///< base x workers (linear scaling)
    bool by_staleness = false;  ///< like Store::Rate::staleness, whatever the program says
  } rate;
  /// Gradients are small integers that depend only on (worker, iteration, element), so sums are exact in any
  /// order. For tests of schemes.
  bool integer_gradients = false;
  /// Gathered parameters outside a worker's own share are NaN until a gather brings them, and again after
  /// their last use. For the same tests.
  bool poison = false;
  /// The run ends when it is reached. On processors only, for models without stages, in one process.
  std::optional<LossTarget> target = {};
  const Checkpoint* start = nullptr;                ///< null: start values drawn from the seed
  std::function<void(int32_t iteration)> progress;  ///< called by worker 0 after each of its iterations
  const std::atomic<bool>* stop = nullptr;          ///< Ctrl-C: ends after the running iterations
};

/// In-situ times of one call, all workers and iterations together.
struct CallTime {
  Call call;
  std::vector<double> seconds;  ///< one a launch; those with an involuntary context switch left out
  int64_t dropped = 0;          ///< the number left out
};
/// In-situ times of one op of the program.
struct OpTime {
  uint32_t role = 0, op = 0;
  int64_t collective_bytes = 0;  ///< bytes that a worker passes to a collective, else 0
  int64_t sent_bytes = 0;        ///< bytes that it sends to servers, else 0
  std::vector<double> seconds;   ///< busy time without waiting for dependencies; for collectives from the
                                 ///< arrival of the last member
  double estimate = 0;  ///< with Keep::calls: the device library's own estimate of a collective; 0: none
  double in_row = 0;    ///< likewise, without Keep::parameters: mean time of 20 back-to-back library
                        ///< collectives, measured after the run; 0 if not the library's
};

struct ExecutionResult {
  Report report;
  std::vector<OpTime> ops;
  std::vector<CallTime> calls;  ///< with Keep::calls
  std::vector<Span> spans;      ///< all of them, if kept
  /// Of steady iterations, from the last worker's end to the next; of a free-running program the time in
  /// which all W workers together complete W iterations. On an asynchronous device only replayed iterations,
  /// or without any those whose ops were not timed.
  std::vector<double> iteration_seconds;
  std::vector<std::vector<double>> worker_seconds;  ///< [worker]: of its steady iterations, end to end
  std::vector<int32_t> worker_iterations;           ///< [worker]: iterations of the program it made
  std::vector<double> losses;  ///< per step as above, mean over workers and micro-batches
  /// With Keep::parameters: worker 0's, or the store's, at the end: flat parameters, the optimiser's state
  /// (one flat vector after another), and worker 0's buffers in tensor order.
  std::vector<float> parameters, state, buffers;
  /// Likewise, worker 0's vectors for averaging, one flat vector after another (averaging_vectors()).
  std::vector<float> averaging;
  std::vector<float> frozen;  ///< likewise, flat: the frozen weights
  int64_t versions = 0, dropped = 0, updates = 0;
  int64_t sent_between_nodes = 0;  ///< bytes of all messages in the whole run, without framing
  /// If a target was reached: the samples that all workers had trained on, and the seconds until then.
  std::optional<int64_t> samples_to_target;
  double seconds_to_target = 0;
  std::vector<GradientNorms> norms;  ///< with Keep::norms, of steady steps
};

struct Keep {
  bool calls = false;  ///< a timer around every call
  bool spans = false;
  bool parameters = false;
  /// Squared norms of gradients, for noise_scale(): for workers on processors whose gradients are summed by
  /// an all-reduce; others are an InputError. Two passes over the gradients per step.
  bool norms = false;
  /// Between two readings of what the devices draw, for Report::TimeUse::power (run/meter.h); 0: none.
  std::chrono::milliseconds meter{0};
};
/// Of Keep::meter, usually.
inline constexpr std::chrono::milliseconds kMeter{100};

/// The program that execute() runs: the simulator's Program of the same question (with input if there is
/// data); without a coordinator's cycle on asynchronous devices. Throws InputError.
Program make_program(const Execution& execution);
/// The same execution. Throws InputError with the reason if its scheme is only simulated, before anything is
/// compiled.
const Execution& executable(const Execution& execution);

/// The gradient used with integer_gradients: -8 .. 7.
int integer_gradient(uint32_t worker, uint32_t iteration, int64_t element);

}  // namespace tandem::exec
