// SPDX-License-Identifier: Apache-2.0
#include "schemes/program/program.h"

#include <algorithm>

#include "base/random.h"

namespace tandem::schemes {

std::string_view name(Lane lane) {
  constexpr std::string_view names[] = {"compute", "comm",    "copy",   "host", "reduce", "send",
                                        "recv",    "offload", "reload", "read", "decode"};
  return names[static_cast<std::size_t>(lane)];
}

std::string_view name(OpKind kind) {
  constexpr std::string_view names[] = {"compute", "copy", "collective", "send", "recv", "apply", "gate"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name(Payload payload) {
  constexpr std::string_view names[] = {"none",
                                        "gradients",
                                        "parameters",
                                        "state",
                                        "shard",
                                        "sequence-gradients",
                                        "mean",
                                        "compressed",
                                        "activations",
                                        "activation-gradients",
                                        "exchanged",
                                        "received-activations",
                                        "received-gradients",
                                        "tied-gradients"};
  return names[static_cast<std::size_t>(payload)];
}

std::string_view name(CopyKind kind) {
  constexpr std::string_view names[] = {"input", "host_to_device", "device_to_host",
                                        "read",  "decode",         "decode_device"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name(CollKind kind) {
  constexpr std::string_view names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                        "reduce",     "all_to_all",     "shift"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name(Address address) {
  constexpr std::string_view names[] = {"shards", "same_index", "reply", "sampled_peer", "next_peer"};
  return names[static_cast<std::size_t>(address)];
}

std::string_view name(Averaging::Rule rule) { return Averaging::kNames[static_cast<std::size_t>(rule)]; }

std::string_view name(Compression::Kind kind) {
  constexpr std::string_view names[] = {"none", "int8", "topk", "powersgd"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name(Store::Rate rate) {
  constexpr std::string_view names[] = {"fixed", "staleness", "delay"};
  return names[static_cast<std::size_t>(rate)];
}

std::string_view name(Site site) {
  constexpr std::string_view names[] = {"accelerators", "hosts", "extra_nodes"};
  return names[static_cast<std::size_t>(site)];
}

int64_t Mesh::size() const {
  int64_t product = 1;
  for (const Axis& axis : axes) product = checked_mul(product, axis.size, "the size of a mesh");
  return product;
}

int64_t Mesh::members(uint32_t along) const {
  int64_t product = 1;
  for (std::size_t a = 0; a < axes.size(); ++a) product *= (along >> a & 1U) != 0 ? axes[a].size : 1;
  return product;
}

int64_t Op::times(int64_t iterations) const {
  const int64_t end = std::min<int64_t>(iterations, until);
  return std::max<int64_t>(0, end / every - std::min<int64_t>(from, end) / every);
}

int64_t averaging_vectors(const Program& program) {
  const auto own = [](const Store& s) { return s.own_models; };
  int64_t most = std::any_of(program.stores.begin(), program.stores.end(), own) ? 1 : 0;
  for (const Task& t : program.tasks) {
    if (t.averaging.rule == Averaging::Rule::none) continue;
    most = std::max<int64_t>(most,
                             t.averaging.rule != Averaging::Rule::elastic && t.averaging.weight != 0 ? 2 : 1);
  }
  return most;
}

int64_t samples_per_step(const Program& program) {
  return checked_mul(program.samples_per_iteration, program.micro_batches, "the samples of a step");
}

int64_t replicas(const Program& program) {
  return program.replicas > 0 ? program.replicas : program.roles[0].mesh.size();
}

int64_t working_roles(const Program& program) {
  return std::count_if(program.roles.begin(), program.roles.end(),
                       [](const Role& role) { return role.works(); });
}

int64_t executions(const Program& program) {
  int64_t sum = 0;
  for (const Role& role : program.roles) sum += role.mesh.size() * static_cast<int64_t>(role.ops.size());
  return sum;
}

uint32_t peer_of(Address address, uint32_t instance, uint32_t count, uint64_t seed, uint32_t iteration) {
  const uint64_t further = address == Address::sampled_peer && count > 1
                               ? 1 + draw_bits(seed, instance, iteration) % (count - 1)
                               : 1;
  return static_cast<uint32_t>((instance + further) % count);
}

int64_t grid_device(const Program& program, const Role& role, int64_t i) {
  if (program.grid.axes.empty()) return i;
  int64_t device = 0, stride = 1;
  for (std::size_t a = program.grid.axes.size(); a-- > 0;) {
    const int64_t size = program.grid.axes[a].size;
    const bool own = role.at[a] < 0;
    device += (own ? i % size : role.at[a]) * stride;
    if (own) i /= size;
    stride *= size;
  }
  return device;
}

bool is_static(const Program& program) {
  const auto to_any = [](const Channel& c) {
    return c.address != Address::same_index || c.from_role == c.to_role;
  };
  const auto by_arrival = [&](const Op& op) {
    return op.kind == OpKind::apply || op.kind == OpKind::gate ||
           ((op.kind == OpKind::send || op.kind == OpKind::recv) && to_any(program.channels[op.what]));
  };
  // No need to look at millions of ops.
  if (program.stores.empty() && std::none_of(program.channels.begin(), program.channels.end(), to_any))
    return std::none_of(program.roles.begin(), program.roles.end(),
                        [](const Role& role) { return role.on_channel >= 0; });
  return std::all_of(program.roles.begin(), program.roles.end(),
                     [&](const Role& role) { return role.on_channel < 0 && !role.ops.any(by_arrival); });
}

bool in_lock_step(const Program& program, uint32_t roles) {
  const int64_t workers = program.roles[0].mesh.size();
  return std::all_of(program.stores.begin(), program.stores.end(), [&](const Store& s) {
    return (roles > 0 && s.role >= roles) || (int64_t{s.quorum} * s.shares >= workers && s.slack == 0);
  });
}

bool free_running(const Program& program, uint32_t roles) {
  if (in_lock_step(program, roles)) return false;
  const auto counted = [&](uint32_t r) { return roles == 0 || r < roles; };
  for (uint32_t r = 1; r < program.roles.size(); ++r) {
    if (counted(r) && program.roles[r].on_channel < 0) return false;
  }
  return std::none_of(program.channels.begin(), program.channels.end(),
                      [&](const Channel& c) { return counted(c.from_role) && c.from_role == c.to_role; });
}

uint32_t meeting_axes(const Program& program) {
  uint32_t axes = 0;
  program.roles[0].ops.each_distinct([&](const Op& op, int64_t) {
    if (op.kind == OpKind::collective) axes |= program.collectives[op.what].axes;
  });
  return axes;
}

uint64_t fingerprint(const Program& program) {
  uint64_t hash = 0;
  for (const char c : print(program)) hash = mix64(hash ^ static_cast<unsigned char>(c));
  return hash;
}

}  // namespace tandem::schemes
