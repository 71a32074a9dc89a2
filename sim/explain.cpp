// SPDX-License-Identifier: Apache-2.0
#include "sim/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/statistics.h"
#include "schemes/report/stage_timeline.h"
#include "schemes/setup/uneven_batches.h"
#include "sim/cost/incast_rounds.h"
#include "sim/device_power.h"
#include "sim/intervals.h"
#include "sim/link_uses.h"
#include "sim/met_kinds.h"
#include "sim/time_shares.h"
#include "topologies/devices/device_power.h"

namespace tandem::sim {

namespace {

/// The busiest link that the measured job itself uses: with concurrent jobs it may not be the busiest of all.
LinkUse own_busiest(const Report& r, const Simulated& run) {
  const BoundProgram& plan = run.bound.plan;
  if (r.network.links.empty() || plan.measured_roles == 0 || !is_static(*run.program))
    return r.network.links.empty() ? LinkUse{} : r.network.links.front();
  std::set<std::string> own;
  for (uint32_t role = 0; role < plan.measured_roles; ++role) {
    for (const auto& of_class : plan.roles[role].transfer) {
      for (const int32_t t : of_class) {
        if (t < 0) continue;
        for (const Use& u : plan.transfers[static_cast<std::size_t>(t)].uses)
          own.insert(plan.link_name(u.link));
      }
    }
  }
  const auto at = std::find_if(r.network.links.begin(), r.network.links.end(),
                               [&](const LinkUse& use) { return own.contains(use.name); });
  return at == r.network.links.end() ? LinkUse{} : *at;
}

/// "worker 1 on gpu1", with the device's model where the job has several.
std::string worker_name(const Request& p, const Cluster& cluster, uint32_t worker) {
  const auto at = [&](int64_t i) { return used_accelerator(*p.system, cluster, i); };
  const VertexId v = at(worker);
  const std::string& model = p.system->device(v).name;
  bool uniform = true;
  for (int64_t i = 0; i < cluster.devices && uniform; ++i) uniform = p.system->device(at(i)).name == model;
  return fmt::format("worker {} on {}{}", worker, p.system->vertex_name(v),
                     uniform ? "" : fmt::format(" ({})", model));
}

/// The first instances of each role, as many as keep a report file below about 400 KB: (instance, role).
/// Worker 0 always, and next the worker that the others wait for a noticeable time; a server that answers
/// everybody with thousands of ops is left out.
std::set<std::pair<uint32_t, uint32_t>> shown_instances(const Report& r, const Trace& trace) {
  constexpr std::size_t kMostEntries = 1700;
  constexpr double kNoticeable = 0.02;  // of the time
  std::map<std::pair<uint32_t, uint32_t>, std::size_t> counts;
  for (const Span& s : trace.spans) ++counts[{s.instance, s.role}];
  std::vector<std::pair<std::pair<uint32_t, uint32_t>, std::size_t>> entries(counts.begin(), counts.end());
  const auto awaited =
      std::max_element(trace.awaited.begin(), trace.awaited.end(),
                       [](const auto& a, const auto& b) { return a.second.ps < b.second.ps; });
  if (!r.time.waiting_for.empty() && r.time.waiting_for.front().second > kNoticeable &&
      awaited != trace.awaited.end())
    std::stable_partition(entries.begin(), entries.end(), [&](const auto& e) {
      return e.first.second == 0 && (e.first.first == 0 || e.first.first == awaited->first);
    });
  std::set<std::pair<uint32_t, uint32_t>> shown;
  std::set<uint32_t> full;  // roles of which no more fit
  std::size_t sum = 0;
  for (const auto& [who, count] : entries) {
    const uint32_t role = who.second;
    if (full.contains(role)) continue;
    if (sum + count > kMostEntries && !(role == 0 && who.first == 0)) {
      full.insert(role);
      continue;
    }
    sum += count;
    shown.insert(who);
  }
  return shown;
}

void add_timeline(Report& r, const Simulated& run) {
  const Program& program = *run.bound.plan.program;
  if (shows_passes(program)) {
    constexpr std::size_t kMostEntries = 2100;  // 16 stages with 64 micro-batches
    r.timeline = stage_timeline(program, run.trace.spans, kMostEntries);
    return;
  }
  const auto shown = shown_instances(r, run.trace);
  for (const Span& s : run.trace.spans) {
    if (!shown.contains({s.instance, s.role})) continue;
    const Role& role = program.roles[s.role];
    const Op& op = role.ops[s.op];
    r.timeline.push_back({role.name, std::string(name(op.lane)), program.labels[op.label], s.instance,
                          s.iteration, s.start.seconds(), s.end.seconds()});
    if (s.ready < s.start) {
      r.timeline.push_back({role.name, std::string(name(op.lane)),
                            fmt::format("waiting for worker {}", s.last), s.instance, s.iteration,
                            s.ready.seconds(), s.start.seconds()});
    }
  }
}

std::string too_wide(const Report& r, const Request& p) {
  return fmt::format("{} device{}: an interval of a factor of {:.0f} says next to nothing; {}",
                     r.setup.devices, r.setup.devices == 1 ? "" : "s",
                     r.rate.interval.high / r.rate.interval.low,
                     r.basis.calibrated && !p.anchor
                         ? "the profile's kernels are far from this model's, or were measured in few or "
                           "disturbed runs: tandem measure, without --quick, on an idle machine"
                         : "a measured rate (--anchor) would narrow it");
}

/// What the figures rest on where nothing was measured.
std::vector<std::string> extrapolates(const Request& p, const Bound& bound,
                                      const std::vector<DeviceSort>& sorts) {
  std::vector<std::string> out = bound.extrapolates;
  std::set<std::string> seen;
  for (const DeviceSort& sort : sorts) {
    const Device& device = p.system->device(sort.first);
    if (device.peak_at(p.job.precision).flops_per_second > 0) continue;
    if (bound.measured && device.kind == Device::Kind::cpu)
      continue;  // as it was measured, whatever computes
    if (!seen.insert(device.name).second) continue;
    out.push_back(fmt::format("{} has no {} arithmetic: computed at its {} rate", device.name,
                              name(p.job.precision), name(device.fp32_products)));
  }
  return out;
}

/// That published rates hardly speak of what is asked.
void note_kinds(Report& r, const std::vector<std::string>& kinds) {
  if (kinds.empty()) return;
  r.notes.push_back(fmt::format(
      "unknown kind: fewer than two published sources have {}; the interval is wider by what such "
      "kinds were off before",
      fmt::join(kinds, " or ")));
}

/// That a figure which decides differs from host to host.
void note_host(Report& r, const Request& p, const Cluster& cluster) {
  constexpr double kWorthTelling = 0.05;
  const double spread = host_spread(p, cluster),
               share = r.time.share.exposed_communication + r.time.share.server;
  if (spread * share < kWorthTelling) return;
  r.notes.push_back(
      fmt::format("{} reach each other through the host's memory, where hosts differ by a factor of {:.0f}: "
                  "measure yours "
                  "(tandem import nccl-tests, --collective-profile)",
                  p.system->device(p.system->accelerator(0)).name, std::exp(1.645 * spread)));
}

/// What power limits leave of the devices' speed.
void note_power_limits(Report& r, const Request& p, const std::vector<DeviceSort>& sorts,
                       const Bound& bound) {
  std::set<std::string> told;
  for (const DeviceSort& sort : sorts) {
    const auto limited = bound.limited_speeds.find(p.system->info(sort.first).device);
    if (limited == bound.limited_speeds.end()) continue;
    const std::string words = describe_power_limit(p.system->device(sort.first), limited->second);
    if (told.insert(words).second) r.notes.push_back(words);
  }
}

/// What a choice of the scheme comes down to on a machine that it was not worded for.
std::string scheme_remark(const Request& p, const Device& device) {
  const Scheme& scheme = *p.job.scheme->scheme;
  if (p.devices == 1 || device.kind == Device::Kind::gpu || scheme.without_gpus == nullptr) return "";
  return scheme.without_gpus(p.job.scheme->options, device.name);
}

/// Which devices were drawn as stragglers, and how likely it is that any are.
void note_stragglers(Report& r, const Request& p, const Cluster& cluster, const BoundProgram& plan) {
  constexpr std::size_t kMostNamed = 8;
  if (p.stragglers.share == 0) return;
  std::vector<std::string> slow;
  for (uint32_t role = 0; role < plan.program->roles.size(); ++role) {
    const Role& of = plan.program->roles[role];
    for (uint32_t i = 0; i < of.mesh.size() && plan.measured(role); ++i) {
      if (!plan.straggles(role, i)) continue;
      const int64_t device = grid_device(*plan.program, of, i);
      slow.push_back(p.system->vertex_name(used_accelerator(*p.system, cluster, device % cluster.devices)));
    }
  }
  const std::size_t count = slow.size();
  if (count > kMostNamed) slow.resize(kMostNamed);
  const std::string names =
      slow.empty() ? "" : fmt::format(" ({}{})", fmt::join(slow, ", "), count > kMostNamed ? ", ..." : "");
  const double any = 1 - std::pow(1 - p.stragglers.share, static_cast<double>(p.devices));
  r.notes.push_back(
      fmt::format("seed {} makes {} of {} device{} stragglers{}; {:.3g} % of all seeds make any", p.seed,
                  count, p.devices, p.devices == 1 ? "" : "s", names, 100 * any));
}

/// Of rare pauses few are drawn, and then their part in the rate is a matter of luck.
void note_pauses(Report& r, const Request& p, const Simulated& run) {
  if (!(p.pauses.every > 0)) return;
  const double drawn =
      pauses_per_iteration(run.bound.plan) * static_cast<double>(run.trace.iteration_end.size());
  if (drawn < 30)
    r.notes.push_back(
        fmt::format("about {:.2g} pauses come in the steps that were simulated, too few for their mean: "
                    "--iterations simulates more",
                    drawn));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> resolved_inputs(const Request& p) {
  std::vector<std::pair<std::string, std::string>> in = {{"model", p.job.graph->name()},
                                                         {"system", p.system->name()},
                                                         {"scheme", p.job.scheme->name},
                                                         {"devices", std::to_string(p.devices)},
                                                         {"batch_per_device", std::to_string(p.job.batch)},
                                                         {"precision", std::string(name(p.job.precision))},
                                                         {"optimizer", std::string(p.job.optimizer->name)},
                                                         {"input", p.job.input ? "real" : "synthetic"},
                                                         {"recipe", p.job.scheme->recipe.name},
                                                         {"profile", p.profile}};
  if (p.split == BatchSplit::speed) in.emplace_back("batch_split", "speed");
  if (!p.job.batches.empty()) in.emplace_back("batch_split", batches_text(p.job.batches));
  if (p.measured) in.emplace_back("collective_profile", p.measured->source);
  if (p.job.recompute != Recompute{}) in.emplace_back("recompute", p.job.recompute.text());
  if (p.job.sync_batch_norm) in.emplace_back("batch_norm", "sync");
  if (p.job.offload.any()) in.emplace_back("offload", p.job.offload.text());
  for (const auto& [key, value] : p.job.scheme->options.all()) in.emplace_back("scheme." + key, value);
  for (const auto& [key, value] : p.memory) in.emplace_back("memory." + key, value);
  for (std::size_t i = 0; i < p.beside.size(); ++i) {
    const JobBeside& beside = p.beside[i];
    in.emplace_back(fmt::format("beside.{}", i + 1),
                    fmt::format("{} {} {} {}", beside.devices, beside.job.graph->name(),
                                beside.job.scheme->name, beside.job.batch));
  }
  for (std::size_t i = 0; i < p.then.size(); ++i) {
    const NetworkThen& then = p.then[i];
    in.emplace_back(fmt::format("then.{}", i + 1),
                    fmt::format("{:.10g} {} {}", then.passes, then.graph->name(), then.batch));
  }
  if (p.stragglers.share > 0)
    in.emplace_back("stragglers",
                    fmt::format("share={:.10g},slow={:.10g}", p.stragglers.share, p.stragglers.slow));
  if (p.pauses.every > 0)
    in.emplace_back("pauses", fmt::format("every={:.10g}s,for={:.10g}s", p.pauses.every, p.pauses.length));
  if (p.anchor) in.emplace_back("anchor", fmt::format("{:.10g}@{}", p.anchor->rate, p.anchor->devices));
  return in;
}

void explain(Report& r, const Request& p, const Simulation& simulation, const Simulated& run, bool anchored) {
  const UsedDevices used = used_devices(*p.system, p.devices);
  const auto unmet = p.anchor ? std::vector<std::string>{} : unmet_kinds(p, used.sorts);
  const Device& device = p.system->device(p.system->accelerator(0));
  add_time_shares(r, run.trace, run.bound,
                  [&](uint32_t worker) { return worker_name(p, used.cluster, worker); });
  add_links(r, run.bound.plan, run.trace, p.system->nodes(), p.system->kinds());
  r.network.busiest = own_busiest(r, run);
  r.largest_share_is_bottleneck();
  r.basis.calibrated = p.anchor ? anchored : run.bound.measured.has_value();  // by a profile of this machine
  r.network.incast = run.bound.incast;
  r.time.power = device_power(r, *p.system, used.sorts);
  r.rate.errors = error_sources(r, p, used, unmet, run.bound, link_error(r, p, used, simulation, run));
  r.rate.interval = interval(r.rate.samples_per_second, r.rate.errors);
  if (says_nothing(r.rate.interval.low, r.rate.interval.high)) r.notes.push_back(too_wide(r, p));
  r.basis.extrapolates = extrapolates(p, run.bound, used.sorts);
  note_kinds(r, unmet);
  note_stragglers(r, p, used.cluster, run.bound.plan);
  note_pauses(r, p, run);
  note_host(r, p, used.cluster);
  note_power_limits(r, p, used.sorts, run.bound);
  for (const IncastRound& round : r.network.incast) {
    if (worth_telling(round)) r.notes.push_back(incast_text(round));
  }
  if (const std::string note = scheme_remark(p, device); !note.empty()) r.notes.push_back(note);
  if (run.program->comm_cores > 0 && device.kind != Device::Kind::cpu)
    r.notes.push_back(fmt::format("comm-cores: {} has separate engines for communication", device.name));
  if (p.timeline) add_timeline(r, run);
}

}  // namespace tandem::sim
