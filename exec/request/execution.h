// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is to be executed, and what an execution leaves behind. Plain values: whoever makes them owns them,
// and what an Execution points to outlives the run. `progress` is called by a worker's thread.
#include <atomic>
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
#include "schemes/job.h"
#include "schemes/program.h"
#include "schemes/report.h"

namespace tandem::exec {

struct Execution {
  /// Its `input` is not read: there is some where there is data; and `loading.data` is what is stored.
  Job job;
  const Backend* backend = nullptr;
  /// More than one node: messages between them go over TCP, or MPI where each is a process.
  Cluster cluster;
  /// Steps of each worker's optimiser; of a free-running program their mean, fast workers making more
  /// (semantics.md 1.7). Among several processes each deals out its own workers'.
  int32_t iterations = 30;
  int32_t warmup = 3;
  uint64_t seed = 1;
  int threads = 1;                            ///< per worker
  Bind bind = Bind::core;                     ///< of workers on processors
  std::optional<Processors> processors = {};  ///< that they have; else machine_processors()
  Processors available_processors() const { return processors ? *processors : machine_processors(); }
  std::optional<RateLimit> rate_limit;  ///< of TCP between nodes; none: as fast as the machine is
  /// (worker, how many times as long its calls take, >= 1): devices of other speeds, emulated
  /// (exec/device/throttled.h). Not of backends that are asynchronous.
  std::vector<std::pair<uint32_t, double>> throttle = {};
  PeerRoute route = PeerRoute::automatic;  ///< between devices with memories of their own
  const Dataset* data = nullptr;           ///< in memory ...
  const StoredImages* stored = nullptr;    ///< ... or read and decoded while training, as job.loading says
  const TokenFiles* tokens = nullptr;      ///< ... or text, mapped; of token_sequence() of the job's model
  /// Else samples are made once, on the device.
  bool loads() const { return data != nullptr || stored != nullptr || tokens != nullptr; }
  struct Rate {
    double base = 0.01;
    int64_t warmup = 0;         ///< iterations of linear rise from base to base x workers (Goyal 2017)
    bool scale = false;         ///< base x workers (linear scaling)
    bool by_staleness = false;  ///< as Store::Rate::staleness, whatever the program says
  } rate;
  /// Gradients are small integers that depend on (worker, iteration, element) only: sums are then exact
  /// whatever the order. For the tests of schemes.
  bool integer_gradients = false;
  /// Parameters that are sharded and gathered where they are needed are no numbers outside of the worker's
  /// own share until a gather brings them, and again when what it was for has ended. For the same tests.
  bool poison = false;
  /// The run ends when it is reached. On processors alone, of models that no stages divide, in one process.
  std::optional<LossTarget> target = {};
  const Checkpoint* start = nullptr;                ///< null: start values drawn from the seed
  std::function<void(int32_t iteration)> progress;  ///< called by worker 0 after each of its iterations
  const std::atomic<bool>* stop = nullptr;          ///< Ctrl-C: ends after the running iterations
};

/// In-situ times of one call, all workers and iterations together.
struct CallTime {
  Call call;
  std::vector<double> seconds;  ///< one a launch; those with an involuntary context switch left out
  int64_t dropped = 0;          ///< so many were
};
/// In-situ times of one op of the program.
struct OpTime {
  uint32_t role = 0, op = 0;
  int64_t collective_bytes = 0;  ///< that a worker hands to a collective, else 0
  int64_t sent_bytes = 0;        ///< that it sends to servers, else 0
  std::vector<double> seconds;   ///< busy time, waiting for dependencies excluded; collectives: from the last
                                 ///< member's arrival
  double estimate =
      0;  ///< with Keep::calls: what the device's library expected of a collective; 0: it did not say
  double in_row = 0;  ///< likewise, without Keep::parameters: of each of 20 of the library's one behind the
                      ///< other, after the run; 0: not the library's
};

struct ExecutionResult {
  Report report;
  std::vector<OpTime> ops;
  std::vector<CallTime> calls;  ///< with Keep::calls
  std::vector<Span> spans;      ///< all of them when kept
  /// Of steady iterations, from the last worker's end to the next; of a free-running program from one to the
  /// next time that as many iterations have ended as there are workers. On an asynchronous device only those
  /// that were replayed, or else those whose ops were not timed.
  std::vector<double> iteration_seconds;
  std::vector<std::vector<double>> worker_seconds;  ///< [worker]: of its steady iterations, end to end
  std::vector<int32_t> worker_iterations;           ///< [worker]: of the program, that it made
  std::vector<double> losses;  ///< per step as above, mean over workers and micro-batches
  /// With Keep::parameters: worker 0's, or the store's, at the end: flat parameters, the optimiser's state
  /// (one flat vector after the other), and worker 0's buffers in tensor order.
  std::vector<float> parameters, state, buffers;
  /// Likewise, worker 0's: what averaging keeps, one flat vector after the other (averaging_vectors()).
  std::vector<float> averaging;
  std::vector<float> frozen;  ///< likewise, flat: of the weights that stay as they are
  int64_t versions = 0, dropped = 0, updates = 0;
  int64_t sent_between_nodes = 0;  ///< bytes of all messages in the whole run, without what frames them
  /// With a target that was reached: samples that all workers had trained on, and the seconds until then.
  std::optional<int64_t> samples_to_target;
  double seconds_to_target = 0;
  std::vector<GradientNorms> norms;  ///< with Keep::norms, of steady steps
};

struct Keep {
  bool calls = false;  ///< a timer around every call
  bool spans = false;
  bool parameters = false;
  /// Squared lengths of gradients, for noise_scale(): of workers on processors whose gradients an all-reduce
  /// sums; InputError of others. A pass over the gradients twice a step.
  bool norms = false;
};

/// What execute() runs: the simulator's Program of the same question (with input where there is data); on
/// asynchronous devices without a coordinator's cycle. Throws InputError.
Program make_program(const Execution& execution);
/// The same execution. Throws InputError with the reason where its scheme is only simulated; before anything
/// is compiled.
const Execution& executable(const Execution& execution);

/// The gradient that takes part with integer_gradients: -8 .. 7.
int integer_gradient(uint32_t worker, uint32_t iteration, int64_t element);

}  // namespace tandem::exec
