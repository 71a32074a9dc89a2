// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/memory.h"

#include <algorithm>

#include "sim/memory/memory_walk.h"

namespace tandem::sim {

namespace {

/// A CUDA context with the code of the kernels that a training loop uses. CUDA 11.7 and later load a kernel
/// when it is first used: 426 MiB on an RTX 6000 Ada with PyTorch 2.10 and CUDA 13.0
/// (github.com/unslothai/unsloth-zoo pull 1053), "around 400MB" (github.com/pytorch/pytorch issue 109888).
/// Before, all of PyTorch's came at once: 1113 MiB on a V100 (BigScience, experiments/tr3m-1B3.md) and 1343
/// MiB (Hugging Face, perf_train_gpu_one.mdx).
Bytes context(MemoryHabits::Cuda cuda) {
  constexpr int64_t kMiB = 1 << 20;
  return {cuda == MemoryHabits::Cuda::lazy ? 426 * kMiB : (1113 + 1343) / 2 * kMiB};
}

/// Buffers of NCCL's channels: 544 MB between two A100 on NVLink, 688 MB among more (github.com/NVIDIA/nccl
/// issue 964); they grow with the channels (issue 986), of which boards without NVLink have two of 24.
Bytes nccl_buffers(const Device& device, int64_t devices) {
  if (devices < 2) return {};
  const bool nvlink = device.name.find("sxm") != std::string::npos || device.name.starts_with("gb") ||
                      device.name.starts_with("b200") || device.name.starts_with("gh");
  const int64_t full = devices == 2 ? 544'000'000 : 688'000'000;
  return {nvlink ? full : full / 12};
}

/// cuBLAS takes one workspace for the thread that runs forward and one for the thread that runs backward
/// (aten/src/ATen/cuda/CublasHandlePool.cpp: 4096 KiB x 2 + 16 KiB x 8, on Hopper 32 MiB).
Bytes workspaces(const Device& device) {
  const bool hopper = device.architecture == "hopper" || device.architecture == "blackwell";
  return {2 * (hopper ? int64_t{32} << 20 : int64_t{8'519'680})};
}

/// Outputs gathered on a root say that one process drives all devices, and that worker 0 is its master.
bool has_master(const Program& program) {
  return program.roles[0].ops.any([&](const Op& op) {
    return op.kind == OpKind::collective && op.payload == Payload::activations &&
           program.collectives[op.what].kind == CollKind::reduce;
  });
}

constexpr std::size_t kMostPoints = 400;

/// At most kMostPoints: of neighbours the one with the most.
std::vector<schemes::MemoryPoint> fewer(std::vector<schemes::MemoryPoint> points) {
  const std::size_t together = (points.size() + kMostPoints - 1) / kMostPoints;
  if (together < 2) return points;
  std::vector<schemes::MemoryPoint> out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i % together == 0)
      out.push_back(std::move(points[i]));
    else if (points[i].bytes > out.back().bytes)
      out.back() = std::move(points[i]);
  }
  return out;
}

RoleMemory use(std::string role, int64_t devices, WalkInput in, const Device& device) {
  const bool gpu = device.kind == Device::Kind::gpu;
  const Program& program = *in.program;
  const int64_t workers = program.grid.axes.empty() ? program.roles[0].mesh.size() : program.grid.size();
  const Bytes outside = gpu ? context(in.habits.cuda) + nccl_buffers(device, workers) : Bytes{};
  if (gpu) in.workspace = workspaces(device);
  WalkResult w = walk_memory(in);
  if (gpu && outside + w.peak_reserved > device.usable) {
    in.limit = {std::max<int64_t>(0, device.usable.n - outside.n)};
    w = walk_memory(in);
  }
  MemoryUse m;
  m.parameters = w.parameters;
  m.gradients = w.gradients;
  m.optimizer = w.optimizer;
  m.buffers = w.buffers;
  m.host = w.host;
  m.workspace = in.workspace;
  m.activations = w.peak_allocated - m.total();
  m.reserved = gpu ? w.peak_reserved : w.peak_allocated;
  m.nvidia_smi = m.reserved + outside;
  m.capacity = device.usable;
  return {std::move(role), devices, m, fewer(std::move(w.over_step))};
}

/// `work` of the whole model, with the layers that devices of that role hold.
struct RoleWork {
  RoleWork(const Workload& work, const Graph& whole, const Role& role)
      : slice(whole.slice(role.slice)),
        work(make_workload(slice, work.batch, work.precision, *work.optimizer, work.input, work.recompute,
                           work.offload, work.loading)) {}
  Graph slice;
  Workload work;
};

/// The model as the devices of a stage divide it.
Graph divided(const Workload& work, const Program& program) {
  ModelSlice division = program.roles[0].slice;  // roles differ in their layers alone
  division.ranges.clear();
  return work.graph->slice(division);
}

/// Of a model that is split: each role holds a slice of it.
std::vector<RoleMemory> of_stages(const Workload& work, const Device& device, const Program& program,
                                  const MemoryHabits& habits, Bytes most, bool over_step) {
  std::vector<RoleMemory> out;
  const Graph whole = divided(work, program);
  std::vector<uint32_t> roles;
  for (uint32_t r = 0; r < program.roles.size(); ++r) {
    if (program.roles[r].works()) roles.push_back(r);
  }
  if (most < kAnyMemory && roles.size() > 2) std::swap(roles[1], roles.back());
  for (const uint32_t r : roles) {
    const Role& role = program.roles[r];
    if (!out.empty() && out.back().memory.needed() > most) break;
    const RoleWork part(work, whole, role);
    out.push_back(use(role.name, role.mesh.size(),
                      {&part.work, &program, r, habits, {}, CachingAllocator::kEndless, 0, over_step},
                      device));
  }
  return out;
}

std::vector<RoleMemory> of_roles(const Workload& work, const Device& device, const Program& program,
                                 const MemoryHabits& habits, Bytes most, bool over_step) {
  if (!program.grid.axes.empty()) return of_stages(work, device, program, habits, most, over_step);
  WalkInput in{&work, &program, 0, habits, {}, CachingAllocator::kEndless, 0, over_step};
  const Role& workers = program.roles[0];
  if (!has_master(program)) return {use(workers.name, workers.mesh.size(), in, device)};
  in.gathers = workers.mesh.size();
  RoleMemory master = use("master", 1, in, device);
  in.gathers = -1;
  return {std::move(master), use("replica", workers.mesh.size() - 1, in, device)};
}

/// Whether b needs more, or lacks more.
bool needs_less(const RoleMemory& a, const RoleMemory& b) {
  return a.memory.needed() - a.memory.capacity < b.memory.needed() - b.memory.capacity;
}

}  // namespace

std::vector<RoleMemory> memory_by_role(const Workload& work, const Device& device, const Program& program,
                                       const MemoryHabits& habits, Bytes most, bool over_step) {
  std::vector<RoleMemory> out = of_roles(work, device, program, habits, most, over_step);
  const auto most_needed = std::max_element(out.begin(), out.end(), needs_less);
  for (auto row = out.begin(); row != out.end(); ++row) {
    if (row != most_needed) row->over_step.clear();
  }
  return out;
}

Bytes kept_by_forward(const Workload& work, const Program& program, const MemoryHabits& habits) {
  const auto of = [&](const Workload& part) {
    const WalkInput in{&part, &program, 0, habits, {}, CachingAllocator::kEndless, 0, false};
    return Walk(in).kept_by_forward();
  };
  if (program.grid.axes.empty()) return of(work);
  return of(RoleWork(work, divided(work, program), program.roles[0]).work);
}

MemoryUse largest(const std::vector<RoleMemory>& roles) {
  return std::max_element(roles.begin(), roles.end(), needs_less)->memory;
}

MemoryUse device_memory(const Workload& work, const Device& device, const Program& program,
                        const MemoryHabits& habits) {
  return largest(memory_by_role(work, device, program, habits));
}

}  // namespace tandem::sim
