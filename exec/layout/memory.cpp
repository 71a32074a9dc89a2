// SPDX-License-Identifier: Apache-2.0
#include "exec/layout/memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "exec/comm/ranks.h"
#include "exec/layout/copies.h"
#include "exec/layout/half_gradients.h"
#include "exec/layout/optimizer_state.h"
#include "exec/layout/shares.h"
#include "schemes/compression.h"

namespace tandem::exec {

namespace {

Bytes words(int64_t count) { return Bytes{4} * count; }

/// The number behind `key`, or in a file of one number (key ""); -1 where there is none ("max").
int64_t number_in(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    std::istringstream rest(line.substr(key.size()));
    int64_t value = 0;
    return rest >> value ? value : -1;
  }
  return -1;
}

/// What one control group leaves: its limit less what is used and cannot be given back; -1 without a limit.
int64_t left_in(const std::string& folder, bool second) {
  const int64_t limit = number_in(folder + (second ? "/memory.max" : "/memory.limit_in_bytes"), "");
  const int64_t used = number_in(folder + (second ? "/memory.current" : "/memory.usage_in_bytes"), "");
  if (limit < 0 || used < 0 || limit > INT64_MAX / 2) return -1;
  const int64_t cached = std::max<int64_t>(
      0, number_in(folder + "/memory.stat", second ? "inactive_file " : "total_inactive_file "));
  return std::max<int64_t>(0, limit - used + cached);
}

/// The least of all groups around this process; -1 without a limit. Versions 1 and 2 of control groups.
int64_t left_in_groups(const std::string& root) {
  int64_t least = -1;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const bool second = line.starts_with("0::"), first = line.find(":memory:") != std::string::npos;
    if (!second && !first) continue;
    const std::string top = root + (second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    std::filesystem::path at = line.substr(line.rfind(':') + 1);
    for (bool up = true; up; at = at.parent_path()) {
      up = at.has_relative_path();
      const int64_t left = left_in(top + at.string(), second);
      if (left >= 0) least = least < 0 ? left : std::min(least, left);
    }
  }
  return least;
}

/// What the address space may still grow by; -1 without a limit.
int64_t left_of_address_space() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  const int64_t pages = std::max<int64_t>(0, number_in("/proc/self/statm", ""));
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - pages * sysconf(_SC_PAGE_SIZE));
}

}  // namespace

int64_t vectors_of_stores(const Program& program, const Optimizer& optimizer) {
  const auto& ops = program.roles[0].ops;
  const bool state = std::any_of(ops.begin(), ops.end(), [](const Op& op) {
    return op.kind == OpKind::send && op.payload == Payload::state;
  });
  return state ? 1 + optimizer.state : 1;
}

int64_t narrowed_words(const Program& program, const Op& op) {
  if (op.kind != OpKind::collective || op.payload != Payload::parameters ||
      program.collectives[op.what].kind != CollKind::all_gather)
    return 0;
  const Bucket& bucket = program.buckets[op.key];
  if (op.bytes.n != 2 * bucket.elements) return 0;
  const int64_t members = program.roles[bucket.role].mesh.members(program.collectives[op.what].axes);
  return members * ((bucket.elements + 2 * members - 1) / (2 * members));
}

int64_t reloaded_words(const Program& program, const Role& role, Precision precision) {
  if (element_bytes(precision) == 4) return 0;
  int64_t most = 0;
  for (const Op& op : role.ops) {
    if (op.lane == Lane::reload) most = std::max(most, (program.buckets[op.key].elements + 1) / 2);
  }
  return most;
}

namespace {

/// Of the optimiser's state of a worker.
int64_t own_state_words(const Execution& e, const Program& program, const Stages& stages, uint32_t worker) {
  const Optimizer& rule = *e.job.optimizer;
  return rule.flat() ? rule.state * kept_state(program, stages, worker).elements()
                     : OptimizerState(rule, stages.lowered(worker)).words();
}

}  // namespace

int64_t offloaded_words(const Execution& e, const Program& program, const Stages& stages, uint32_t worker) {
  const int64_t state = own_state_words(e, program, stages, worker);
  if (!e.job.offload.optimizer) return e.job.optimizer->paged ? state : 0;
  const bool sums = program.micro_batches > 1 && e.job.offload.gradients;
  return kept_state(program, stages, worker).elements() * (sums ? 3 : 2) + state +
         reloaded_words(program, program.roles[stages.place(worker).role], e.job.precision);
}

bool has_stage(const Program& program, const Role& role, CopyKind stage) {
  return std::any_of(role.ops.begin(), role.ops.end(), [&](const Op& op) {
    return op.kind == OpKind::copy && program.copies[op.what].kind == stage;
  });
}

Bytes loaded_bytes(const Execution& e, const Program& program, const Stages& stages, uint32_t worker) {
  const Role& role = program.roles[stages.place(worker).role];
  Bytes batch;
  for (const Op& op : role.ops) {
    if (op.kind == OpKind::copy && program.copies[op.what].kind == CopyKind::read) batch = op.bytes;
  }
  if (batch.n == 0) return {};
  batch.n = batch.n * stages.lowered(worker).batch() / stages.whole().batch();
  return (batch + words(stages.lowered(worker).input_elements())) *
         std::max<int64_t>(1, e.job.loading.prefetch);
}

int64_t tied_words(const Program& program, const Role& role) {
  int64_t most = 0;
  for (const Op& op : role.ops) {
    if (op.kind == OpKind::recv && op.payload == Payload::tied_gradients)
      most = std::max(most, program.channels[op.what].key_bytes[op.key].n / 4);
  }
  return most;
}

int64_t sequence_words(const Role& role) {
  for (const Op& op : role.ops) {
    if (op.payload == Payload::sequence_gradients) return op.bytes.n / 4;
  }
  return 0;
}

std::vector<Slice> in_parts(const ExecutionGraph& lowered) {
  std::vector<Slice> out;
  for (const LearnedTensor& l : lowered.learned()) {
    const Tensor& t = lowered.tensors()[l.gradient];
    if (lowered.graph().layers()[l.layer].parameters[l.index].in_parts) out.push_back({t.offset, t.elements});
  }
  return out;
}

MemoryUse worker_memory(const Execution& e, const Program& program, const Stages& stages, uint32_t worker) {
  const ExecutionGraph& lowered = stages.lowered(worker);
  const int64_t parameters = lowered.parameters(), slots = stages.slots(worker).count;
  const Role& role = program.roles[stages.place(worker).role];
  MemoryUse m;
  const Held held = held_parameters(program, stages, worker, e.job.offload.parameters),
             made = held_gradients(program, stages, worker);
  m.parameters = words(held.shares + lowered.frozen_words() + Copies(e, program, stages, worker).all_words());
  const bool sums = program.micro_batches * stages.micros() > 1 && !e.job.offload.gradients;
  m.gradients = words(made.shares + (sums ? summed_apart(program, stages, worker).elements() : 0));
  const bool on_host = e.job.offload.optimizer || e.job.optimizer->paged;
  m.optimizer = words(on_host ? 0 : own_state_words(e, program, stages, worker)) +
                words(kept_state(program, stages, worker).elements()) * averaging_vectors(program);
  m.activations = words(lowered.arena()) * slots + words(lowered.passing());
  m.host = words(offloaded_words(e, program, stages, worker));
  m.host += loaded_bytes(e, program, stages, worker);
  const int64_t batches = stages.split() ? slots : e.loads() ? kInputBatches : 1;
  m.buffers = words(lowered.input_elements()) * batches + words(parameters) * program.delay +
              words(compressed_words(program, lowered.graph())) +
              words(parameters) * feedback_vectors(program);
  int64_t activations = 0, narrowed = 0;
  for (const Op& op : role.ops) {
    if (op.kind == OpKind::collective && op.payload == Payload::activations && !stages.split())
      activations = std::max(activations, op.bytes.n / 4);
    narrowed = std::max(narrowed, narrowed_words(program, op));
  }
  m.workspace = words(activations) + words(narrowed) + words(tied_words(program, role)) +
                words(sequence_words(role)) + words(reloaded_words(program, role, e.job.precision)) +
                words(held.elements - held.shares + made.elements - made.shares) +
                words(half_words(program, role));
  return m;
}

Bytes host_memory(const Execution& e, const Keep& keep, const Program& program, const Stages& stages,
                  uint32_t first, uint32_t workers) {
  const Bytes whole = words(stages.whole().parameters()),
              state = words(OptimizerState(*e.job.optimizer, stages.whole()).words()),
              frozen = words(stages.whole().frozen_elements()),
              exchanged = whole * vectors_of_stores(program, *e.job.optimizer);
  Bytes sum = whole + state + frozen;  // start values
  for (uint32_t w = first; w < first + workers; ++w) {
    if (!e.backend->asynchronous) sum += worker_memory(e, program, stages, w).total();
    sum += words(offloaded_words(e, program, stages, w)) + loaded_bytes(e, program, stages, w);
    if (e.backend->asynchronous && !program.stores.empty()) sum += exchanged * 2;  // to and from the servers
  }
  // With the state what servers begin with is a vector of its own.
  if (exchanged > whole) sum += exchanged;
  if (!program.stores.empty()) sum += exchanged * (program.stores[0].batch > 1 ? 2 : 1);
  // Models that others reach, room for all in each process, and of each worker the one that it sent and what
  // came back.
  if (!program.stores.empty() && program.stores[0].own_models)
    sum += whole * (program.roles[0].mesh.size() - 1 + 2 * int64_t{workers});
  // What is pushed in another form: of each shard the gradient, and from devices the messages.
  if (!program.stores.empty() && program.compression.kind != Compression::Kind::none) {
    sum += whole;
    if (e.backend->asynchronous)
      sum += words(compressed_words(program, stages.whole().graph())) * int64_t{workers};
  }
  // Without a lock: what each worker read and what it moved, and its optimiser's state.
  if (!program.stores.empty() && !program.stores[0].locked) sum += (whole * 2 + state) * int64_t{workers};
  if (keep.parameters) sum += (whole + state) * 2 + frozen;  // the result, and one worker's on its way there
  return sum;
}

AvailableMemory available_memory(const std::string& root) {
  AvailableMemory out{{INT64_MAX}, ""};
  const auto take = [&](int64_t bytes, const char* limit) {
    if (bytes >= 0 && bytes < out.bytes.n) out = {{bytes}, limit};
  };
  const int64_t kilobytes = number_in(root + "/proc/meminfo", "MemAvailable:");
  take(kilobytes < 0 ? -1 : kilobytes * 1024, "MemAvailable");
  take(left_in_groups(root), "the control group's limit");
  take(left_of_address_space(), "ulimit -v");
  return out;
}

std::optional<Bytes> device_memory(const Execution& e, uint32_t worker, uint32_t workers) {
  const Backend& backend = *e.backend;
  if (backend.memory == nullptr) return std::nullopt;
  const uint32_t first = static_cast<uint32_t>(ranks().local) * workers;
  const std::string unit = backend.unit(first + worker);
  int64_t sharing = 0;
  for (uint32_t w = 0; w < workers; ++w) sharing += backend.unit(first + w) == unit ? 1 : 0;
  return Bytes{backend.memory(first + worker) / std::max<int64_t>(1, sharing)};
}

Bytes host_capacity() { return {int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE)}; }

Bytes capacity(const Execution& e, uint32_t workers) {
  return device_memory(e, 0, workers).value_or(Bytes{host_capacity().n / workers});
}

namespace {

/// A device's memory is not the host's.
void check_devices(const Execution& e, const Program& program, const Stages& stages, uint32_t first,
                   uint32_t workers) {
  for (uint32_t w = 0; w < workers; ++w) {
    const std::optional<Bytes> there = device_memory(e, w, workers);
    if (!there) return;
    const MemoryUse m = worker_memory(e, program, stages, first + w);
    if (m.total() <= *there) continue;
    throw InputError(fmt::format(
        "worker {} of {} with batch {} needs {}, of which its device has {} for it: parameters, "
        "gradients and "
        "optimiser {}, activations {}, inputs and collectives {}; a smaller batch{} may fit",
        w, e.job.graph->name(), e.job.batch, to_text(m.total()), to_text(*there),
        to_text(m.parameters + m.gradients + m.optimizer), to_text(m.activations),
        to_text(m.buffers + m.workspace),
        element_bytes(e.job.precision) == 4 ? ", --precision bf16, --recompute blocks or --offload optimizer"
                                            : ", --recompute blocks or --offload optimizer"));
  }
}

}  // namespace

void check_memory(const Execution& e, const Keep& keep, const Program& program, const Stages& stages,
                  uint32_t first, uint32_t workers) {
  check_devices(e, program, stages, first, workers);
  const AvailableMemory available = available_memory();
  const Bytes needed = host_memory(e, keep, program, stages, first, workers);
  if (needed <= available.bytes) return;
  const MemoryUse m = worker_memory(e, program, stages, first);
  uint32_t fit = workers - 1;
  while (fit > 0 && host_memory(e, keep, program, stages, first, fit) > available.bytes) --fit;
  throw InputError(fmt::format(
      "{} worker{} of {} with batch {} need{} {}{}, of which this machine has {} ({}): each "
      "holds parameters, gradients and optimiser {}, activations {}, inputs and collectives {}; {}",
      workers, workers == 1 ? "" : "s", e.job.graph->name(), e.job.batch, workers == 1 ? "s" : "",
      to_text(needed), workers == 1 ? "" : " together", to_text(available.bytes), available.limit,
      to_text(m.parameters + m.gradients + m.optimizer), to_text(m.activations),
      to_text(m.buffers + m.workspace),
      fit > 0 && !stages.split() ? fmt::format("{} would fit", fit)
                                 : std::string("a smaller batch may fit")));
}

void check_memory(const Execution& e, const Keep& keep) {
  const Program program = make_program(executable(e));
  const Stages stages(e, program);
  const uint32_t workers = stages.devices();
  check_memory(e, keep, program, stages, 0, workers == 1 ? 1 : workers / static_cast<uint32_t>(ranks().size));
}

}  // namespace tandem::exec
