// SPDX-License-Identifier: Apache-2.0
#include "sim/capacity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <vector>

#include "sim/memory/memory.h"
#include "sim/plan/placement.h"

namespace tandem::sim {

namespace {

constexpr int64_t kMostDevices = 1 << 20;

using MemoryOf = std::function<MemoryUse(int64_t devices)>;

MemoryOf memory_of(const Prediction& p) {
  return [&p](int64_t devices) { return memory_on(p, devices); };
}

/// Nothing where the scheme refuses that many devices.
std::optional<MemoryUse> try_memory(const MemoryOf& memory, int64_t devices) {
  try {
    return memory(devices);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

bool fits(const MemoryOf& memory_of, int64_t devices) {
  const auto memory = try_memory(memory_of, devices);
  return memory && memory->fits();
}

/// The largest batch that fits, by bisection; 0 when not even one sample does.
int64_t largest_batch(Prediction p) {
  int64_t low = 0, high = p.job.batch;
  while (high - low > 1) {
    p.job.batch = low + (high - low) / 2;
    (fits(memory_of(p), p.devices) ? low : high) = p.job.batch;
  }
  return low;
}

/// "at least 4 devices", with the nodes that takes where the system has fewer.
std::string devices_text(const Prediction& p, int64_t devices) {
  const int64_t per_node = static_cast<int64_t>(p.system->accelerators().size());
  const bool has = devices <= p.system->accelerator_count();
  return fmt::format("at least {} device{}{}", devices, devices == 1 ? "" : "s",
                     has ? "" : fmt::format(" (--set nodes={})", (devices + per_node - 1) / per_node));
}

/// All that the scheme can leave in the host's memory but activations, and those of `has`.
Offload most_offloaded(const ResolvedScheme& scheme, Offload has) {
  if (scheme.scheme->offloads == nullptr) return has;
  const Offload can = scheme.scheme->offloads(scheme.options);
  return {can.optimizer, can.gradients, can.parameters, has.activations};
}

/// What lets it fit, in words; each tried, from the changes that cost least time on. A change of more things
/// is named only where it takes fewer devices, and offload only where more devices than asked are needed
/// without.
std::vector<std::string> remedies(const Prediction& p) {
  const ResolvedScheme sharded = resolve_scheme("zero:stage=3", Place{});
  Prediction spread = p;
  spread.job.scheme = &sharded;
  const auto own = try_memory(memory_of(p), 64), other = try_memory(memory_of(spread), 64);
  const bool may_spread = own && other && other->needed() < own->needed();
  std::vector<std::string> out;
  int64_t least = INT64_MAX;
  for (int i = 0; i < 8; ++i) {
    const bool offload = (i & 4) != 0, change_scheme = (i & 2) != 0, again = (i & 1) != 0;
    if ((change_scheme && !may_spread) || (again && p.job.recompute.blocks)) continue;
    if (offload && least <= p.devices) break;
    Prediction changed = change_scheme ? spread : p;
    if (again) changed.job.recompute = {.blocks = true};
    if (offload) changed.job.offload = most_offloaded(*changed.job.scheme, p.job.offload);
    if (offload && changed.job.offload == p.job.offload) continue;
    const int64_t devices = fewest_devices(changed);
    if (devices == 0 || devices >= least) continue;
    least = devices;
    std::vector<std::string> words;
    if (change_scheme) words.push_back("--scheme zero:stage=3");
    if (again) words.push_back("--recompute blocks");
    if (offload) words.push_back("--offload " + changed.job.offload.text());
    std::string text = fmt::format("{}", fmt::join(words, " and "));
    if (devices > p.devices) text += (text.empty() ? "" : " on ") + devices_text(p, devices);
    out.push_back(std::move(text));
  }
  return out;
}

}  // namespace

MemoryHabits habits_of(const Prediction& p) {
  auto settings = p.job.scheme->memory;
  settings.insert(settings.end(), p.memory.begin(), p.memory.end());
  const auto unless_told = [&](const char* key, const char* value) {
    const bool told =
        std::any_of(settings.begin(), settings.end(), [&](const auto& s) { return s.first == key; });
    if (!told) settings.emplace_back(key, value);
  };
  // A recipe that updates in one kernel needs no temporaries for it.
  if (p.job.scheme->recipe.fused_update) unless_told("update", "fused");
  if (p.job.scheme->recipe.fused_kernels) unless_told("kernels", "fused");
  return memory_habits(settings, "--memory", {});
}

MemoryUse memory_on(const Prediction& p, int64_t devices) {
  const Workload work = make_workload(p.job);
  const Program program = compile(p.job, work, grown_cluster(*p.system, devices));
  return device_memory(work, p.system->device(p.system->accelerator(0)), program, habits_of(p));
}

int64_t fewest_devices(const Prediction& p) { return fewest_devices(p, memory_of(p)); }

int64_t fewest_devices(const Prediction& p, const std::function<MemoryUse(int64_t)>& needs) {
  const Scheme& scheme = *p.job.scheme->scheme;
  const int64_t each = scheme.replica_devices == nullptr ? 1 : scheme.replica_devices(p.job.scheme->options);
  if (fits(needs, each)) return each;
  int64_t low = 1, high = 2;  // multiples of what one model takes
  std::optional<MemoryUse> before;
  for (;; low = high, high *= 2) {
    const auto memory = try_memory(needs, high * each);
    if (memory && memory->fits()) break;
    // From four on, what did not shrink by doubling the devices never will.
    if (high * each >= kMostDevices || (before && memory && memory->needed() >= before->needed())) return 0;
    before = memory;
  }
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(needs, middle * each) ? high : low) = middle;
  }
  return high * each;
}

std::string fit_advice(const Prediction& p) {
  const MemoryUse m = memory_on(p, p.devices);
  const int64_t batch = largest_batch(p);
  std::string out = fmt::format(
      "{} with batch {} needs {} on {}{} ({} usable): parameters, gradients and optimiser {}, activations "
      "{}, "
      "workspace and buffers {}, the allocator's rounding and cache {}, the driver and communication {}; ",
      p.job.graph->name(), p.job.batch, to_text(m.needed()),
      p.devices == 1 ? "" : fmt::format("each of {} ", p.devices),
      p.system->device(p.system->accelerator(0)).name, to_text(m.capacity),
      to_text(m.parameters + m.gradients + m.optimizer), to_text(m.activations),
      to_text(m.workspace + m.buffers), to_text(m.reserved - m.total()), to_text(m.nvidia_smi - m.reserved));
  out += batch > 0 ? fmt::format("the largest batch that fits is {}", batch) : "not even one sample fits";
  const auto helps = remedies(p);
  return out + (helps.empty() ? "; with this batch only devices with more memory would hold it"
                              : fmt::format("; what would fit: {}", fmt::join(helps, ", or ")));
}

}  // namespace tandem::sim
