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

namespace tandem::exec {

namespace {

Bytes words(int64_t count) { return Bytes{4} * count; }

/// The number after `key`, or in a file with a single number (key ""); -1 if there is none ("max").
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

/// What one control group has left: its limit minus use that cannot be reclaimed; -1 without a limit.
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

}  // namespace tandem::exec
