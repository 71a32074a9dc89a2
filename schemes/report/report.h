// SPDX-License-Identifier: Apache-2.0
#pragma once
// What both engines return: the reports of a "tandem-reports-2" document. JSON in, JSON out; plots read only
// the JSON.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "base/json.h"
#include "base/units.h"
#include "schemes/learning/progress.h"
#include "schemes/program/program.h"
#include "schemes/report/device_power.h"
#include "schemes/setup/remedy.h"

namespace tandem::schemes {

/// One execution of one op by one instance.
struct Span {
  uint32_t role = 0, instance = 0, iteration = 0, op = 0;
  Time start, end;
  /// Of a collective: from `ready` until `start` the instance waited for the others, last for `last`.
  Time ready;
  uint32_t last = 0;
  auto operator<=>(const Span&) const = default;
};

struct LinkUse {
  std::string name;
  double busy = 0;  ///< share of wall time, of its usable capacity
  Bytes bytes;      ///< in all steady iterations
};

/// Links with the same position in every node, or in the network, aggregated.
struct LinkGroup {
  std::string name;  ///< of its links with "*" for what tells them apart: "node*/gpu0>plx0", "leaf*>spine1-*"
  int64_t links = 0;     ///< of those that carried anything
  double busy_mean = 0;  ///< as LinkUse::busy, over these links
  double busy_max = 0;
  Bytes bytes;
};

/// The memory of a node's host.
struct HostMemory {
  Bytes needed;    ///< by all devices of the node and the system itself; 0: nobody looked
  Bytes capacity;  ///< 0: unknown, and not checked
  bool fits() const { return capacity.n == 0 || needed <= capacity; }
};

/// sim/memory/memory.h says what is counted. An executor that has no allocator of its own leaves the last two
/// at 0.
struct MemoryUse {
  Bytes parameters, gradients, optimizer, activations, workspace, buffers, capacity;
  Bytes reserved;        ///< by the framework's allocator
  Bytes nvidia_smi;      ///< reserved, the driver's context and the communication library
  Bytes host;            ///< of the host's memory, for what is offloaded; in addition to all else
  HostMemory node = {};  ///< of the node whose host has the least to spare
  Bytes total() const { return parameters + gradients + optimizer + activations + workspace + buffers; }
  Bytes needed() const { return std::max(total(), nvidia_smi); }
  bool fits() const { return needed() <= capacity && node.fits(); }
  /// It fits, but with less room than published figures of kept-aside files lay off their predictions in the
  /// mean (VALIDATION.md, Memory).
  bool barely_fits() const { return fits() && needed().n * (1 + kMeanError) > capacity.n; }
  /// It needs more than there is, by no more than figures of those files that were predicted too high were so
  /// on average: it may fit.
  bool within_error() const {
    return needed() > capacity && static_cast<double>(needed().n) <= (1 + kMeanAbove) * capacity.n &&
           node.fits();
  }
  bool may_fit() const { return fits() || within_error(); }
  static constexpr double kMeanError = 0.09, kMeanAbove = 0.03;
};

/// A layer's forward or backward pass of a micro-batch, or the update, in the order that a device makes them.
struct MemoryPoint {
  std::string pass;  ///< "forward", "backward", "update"
  int64_t micro_batch = 0;
  std::string layer;  ///< "" of the update
  Bytes bytes;        ///< of tensors in use, at the most
  bool operator==(const MemoryPoint&) const = default;
};

/// Of each device of a role.
struct RoleMemory {
  std::string role;
  int64_t devices = 1;
  MemoryUse memory;
  /// A step, where it was asked for, of the role that needs most. Of several hundred passes neighbours are
  /// one point, the one with the most.
  std::vector<MemoryPoint> over_step = {};
};

/// Where worker 0's wall time goes; the sum is 1. All but `compute` are what its compute lane stood still
/// for.
struct TimeShare {
  double compute = 0;
  double launch = 0;                 ///< the host had not issued the next op yet
  double exposed_communication = 0;  ///< bytes on their way, once all that take part were there
  double waiting = 0;                ///< for other workers: of a collective, a peer, whoever opens a gate
  double bubble = 0;                 ///< other stages of a pipeline
  double input = 0;
  double server = 0;  ///< a server's processor: gradients that queue for it or that it applies
  double idle = 0;    ///< none of these
};

/// A part of a whole by name, e.g. ("all-reduce", 0.31).
using NamedShare = std::pair<std::string, double>;

/// What makes a prediction uncertain: its part in the relative standard error of the samples/s. The same
/// source errs in the same direction in every report that names it, so that it cancels in their ratio.
struct ErrorSource {
  std::string source;
  double sigma = 0;                  ///< of rates below the predicted one
  std::optional<double> above = {};  ///< of rates above it, where that differs
  double sigma_above() const { return above.value_or(sigma); }
};
/// Of this source each run has its own error.
inline constexpr std::string_view kRunToRun = "run to run";

/// Time of one kind of kernel, all its passes, and of the pass that takes most of it: shares of the step.
struct KernelShare {
  std::string kind, heaviest_pass;
  double share = 0, heaviest = 0;
};

/// Calls of an execution for which a library was asked, equal ones together.
struct LibraryUse {
  std::string call, library;
  std::string engine;   ///< by the library's own number or name
  std::string refused;  ///< why own kernels compute them; empty where the library does
  int64_t calls = 0;
  Bytes workspace = {};  ///< the largest of one call
  double share = 0;      ///< of the operations that libraries were asked for
};

/// What failures leave of the rate, where an MTBF was given (answers/goodput.h has the formulas). Times
/// in seconds.
struct Goodput {
  double share = 0;            ///< useful work over what the time would give without failures, in closed form
  double share_by_events = 0;  ///< the same from a simulation of failures
  double samples_per_second = 0;
  double mtbf = 0;  ///< of all devices together
  Bytes checkpoint_bytes;
  double checkpoint = 0;  ///< in which the job stands still
  double interval = 0;    ///< work between two checkpoints: whole steps
  int64_t interval_steps = 1;
  double optimal_interval = 0;
  double restart = 0;
  double repair = 0;  ///< mean time that a failed node is away; 0: it is back at once
  int64_t spares = 0;
  bool elastic = false;  ///< goes on with fewer nodes while some are away
  struct Times {
    double useful = 0, checkpoints = 0, repeated = 0, restarts = 0, waiting = 0, fewer_nodes = 0;
  } times;  ///< shares that add up to 1
  /// Of a job that could do without one node, where nodes are away: that many devices, at this rate.
  int64_t fewer_devices = 0;
  double fewer_samples_per_second = 0;
  /// Where nodes are away: what the same job would make of it otherwise.
  struct Alternative {
    int64_t spares = 0;
    bool elastic = false;
    double share = 0, share_by_events = 0;
  };
  std::vector<Alternative> alternatives;
};

/// One of the jobs on a shared machine: its rate there and by itself on the same devices, in samples/s.
struct SharedRate {
  std::string model;
  int64_t devices = 1;
  double shared = 0, alone = 0;
};

/// Senders that all send to one port at once, of a network that loses packets or pauses who sends
/// (sim/cost/incast.h), while the receiver waits for the last of them.
struct IncastRound {
  std::string what;    ///< "worker to server", "all-to-all"
  double senders = 1;  ///< as many as that on average
  Bytes bytes;         ///< of each
  int64_t ports = 1;   ///< into which they send so
  Bytes buffer{};      ///< of the port; 0: nothing is lost
  double timeouts = 0;
  double goodput = 1;        ///< share of the link
  double delay_seconds = 0;  ///< beyond what the link needs
};

/// A span with its names, for timelines (JSON key "timeline": role, instance, lane, label, iteration, start,
/// end).
struct TimelineEntry {
  std::string role, lane, label;
  uint32_t instance = 0, iteration = 0;
  double start_seconds = 0, end_seconds = 0;
  /// No op: its lane waited for other members of a collective. Label "waiting", or with the last of them.
  bool waits() const { return label.rfind("waiting", 0) == 0; }
};

struct Report {
  /// How its figures were made.
  struct Evaluation {
    std::string engine = "sim", evaluator, reason;  ///< `reason`: why this evaluator
    uint64_t seed = 0;
    int64_t events = 0;  ///< simulated
    double wall_seconds = 0;
  };
  /// What was asked.
  struct Setup {
    std::vector<std::pair<std::string, std::string>> inputs;  ///< resolved, in order; values are text
    int64_t devices = 1, batch_per_device = 1;
    int64_t samples_per_iteration = 1;  ///< of all devices together, all micro-batches of a step
    JsonWriter question;  ///< the "tandem-question-1" document that it answers; null: not at hand
  };
  /// What the costs rest on.
  struct Basis {
    std::string recipe =
        "default";  ///< what the costs of kernels and issuing assume (schemes/setup/recipe.h)
    bool calibrated = false;
    std::vector<std::string> extrapolates;
  };
  struct Interval {
    double low = 0, high = 0, level = 0.9;
  };
  struct Rate {
    double samples_per_second = 0;
    double tokens_per_second = 0;     ///< 0 where samples are no sequences of tokens
    Interval interval;                ///< of samples_per_second
    std::vector<ErrorSource> errors;  ///< of the interval of a prediction, in quadrature
    /// Of a prediction with other jobs: its own first, then theirs in order; else empty.
    std::vector<SharedRate> side_by_side;
  };
  /// Seconds.
  struct IterationTimes {
    double median = 0, p05 = 0, p95 = 0;
    /// Medians of an execution on an asynchronous device: of steps issued op by op, and of such as were
    /// replayed as a captured graph; 0 where there were none.
    double eager = 0, replayed = 0;
  };
  /// Against the fewest devices that hold the model, same batch per device.
  struct Scaling {
    double speedup = 1, efficiency = 1;
    int64_t base_devices = 1;
  };
  /// In versions; empty without stores.
  struct Staleness {
    Histogram all;
    std::vector<Histogram> by_worker;  ///< of the first 64, where known
  };
  /// Where a step's time goes.
  struct TimeUse {
    TimeShare share;
    std::vector<NamedShare> communication_kinds;  ///< of exposed_communication, largest first; sums up to it
    std::vector<NamedShare> waiting_for;          ///< of waiting, by worker, longest first; at most 8
    std::vector<KernelShare> kernels;             ///< of compute, largest first; empty where unknown
    double slowed = 0;                 ///< of compute: what kernels lose to simultaneous collectives
    std::optional<DevicePower> power;  ///< what devices draw; unset where neither a model nor a meter knows
  };
  /// What limits the throughput. Of predictions by app: the resource with the largest elasticity. Else the
  /// largest time share.
  struct Bottleneck {
    std::string resource, explanation;
    double share = 0;  ///< of the step
    /// d log(samples/s) / d log(resource), and the relative gain if there were no limit to the resource.
    /// Absent where changes were not tried out.
    std::optional<double> elasticity, gain_if_unlimited;
  };
  struct NetworkUse {
    LinkUse busiest;             ///< of the links that the job itself uses; not always the one that limits
    std::vector<LinkUse> links;  ///< busiest first; at most the busiest 400
    /// Every link that carried anything, where those are more than `links` holds; else empty. The group of
    /// the busiest link first.
    std::vector<LinkGroup> groups;
    /// The round of each kind that waits longest; empty where nothing is lost and nobody paused.
    std::vector<IncastRound> incast;
    /// That a coordinator (option "cycle") makes of a step's gradients, on average; 0: there is none.
    double all_reduces_per_step = 0;
  };
  /// Of a real run on real data or numbers; JSON key "training", left out when there was none.
  struct Training {
    bool real = false;
    double first_loss = 0, last_loss = 0;  ///< mean over workers, of the first and the last iteration;
                                           ///< not a number after training that diverged
    double accuracy = -1;  ///< share of held-out samples classified rightly; < 0: not measured
    /// Gradient noise scale in samples with its 90 % interval; unset: not measured.
    struct Noise {
      double samples = 0, low = 0, high = 0;
    };
    std::optional<Noise> noise;
  };

  Evaluation evaluation;
  Setup setup;
  Basis basis;
  bool fits = true;  ///< false: nothing was simulated, only what is above and `memory` is known
  Rate rate;
  IterationTimes iteration;
  Scaling scaling;
  Staleness staleness;
  TimeUse time;
  MemoryUse memory;  ///< of the role that needs most
  std::vector<RoleMemory> memory_by_role;
  std::vector<Remedy> remedies;  ///< what would let it fit, where it does not and nothing else asked did
  Bottleneck bottleneck;
  NetworkUse network;
  std::optional<Goodput> goodput;            ///< under failures
  std::optional<TrainingProgress> progress;  ///< to a target, where one was given
  std::vector<LibraryUse> libraries;         ///< of a worker of an execution; refused ones first
  Training training;
  std::vector<std::string> notes;
  std::vector<TimelineEntry> timeline;  ///< a few instances, a few iterations

  /// The bottleneck by the largest of the time shares, for reports that try no changes.
  void largest_share_is_bottleneck();
};

/// Of b's samples/s over a's: each error source that both have counts by the difference of its parts, every
/// other one in full. A report without sources counts by its interval.
Report::Interval ratio_interval(const Report& a, const Report& b);

/// One "tandem-reports-2" document, also for a single report; `reproducible` leaves out "run" (wall time).
/// Results of a report that does not fit are null. Non-finite numbers never appear.
std::string reports_to_json(const std::vector<Report>& reports, bool reproducible);
/// Throws InputError, also for documents of version 0.1 ("tandem-report-1").
std::vector<Report> reports_from_json(const Json& document);
std::vector<Report> load_reports(const std::string& path);

}  // namespace tandem::schemes
