// SPDX-License-Identifier: Apache-2.0
#include "answers/why.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <vector>

#include "answers/elasticity.h"
#include "answers/labels.h"
#include "sim/bound/placement.h"
#include "sim/cost/link_cost.h"

namespace tandem::answers {

namespace {

constexpr double kSame = 0.005;  // relative difference below which nothing changes
constexpr double kEndless = 1e3;

/// A part of a step, and how to describe a step with more or less of it.
struct Cause {
  const char* words;  ///< "a step ... X instead of Y ms"
  double (*share)(const Report&);
};
constexpr Cause kCauses[] = {
    {"computes for", [](const Report& r) { return r.time.share.compute - r.time.slowed; }},
    {"loses to collectives that slow its kernels", [](const Report& r) { return r.time.slowed; }},
    {"waits for the host's launches for", [](const Report& r) { return r.time.share.launch; }},
    {"waits for communication for", [](const Report& r) { return r.time.share.exposed_communication; }},
    {"waits for slower workers for", [](const Report& r) { return r.time.share.waiting; }},
    {"waits for other stages for", [](const Report& r) { return r.time.share.bubble; }},
    {"waits for input for", [](const Report& r) { return r.time.share.input; }},
    {"waits for the server's processor for", [](const Report& r) { return r.time.share.server; }},
    {"is idle for", [](const Report& r) { return r.time.share.idle; }}};
constexpr std::size_t kComputes = 0, kSlowed = 1, kCommunication = 3, kWaits = 4;

double step_seconds(const Report& r) {
  return static_cast<double>(r.setup.samples_per_iteration) / r.rate.samples_per_second;
}

/// Milliseconds.
std::string two_digits(double seconds) {
  const double ms = 1e3 * seconds;
  return ms >= 99.5 ? fmt::format("{:.0f}", ms) : ms >= 0.095 ? fmt::format("{:.2g}", ms) : "0";
}

std::string times(double count) {
  if (count == 1) return "once";
  return count == 2 ? "twice" : fmt::format("{:.0f} times", count);
}

/// "scheme=horovod, batch_per_device=64": inputs of `r` that `other` lacks.
std::string differences(const Report& r, const Report& other) {
  std::string out;
  int count = 0;
  for (const auto& [key, value] : r.setup.inputs) {
    if (key == "devices" || key == "model" || key.rfind("system", 0) == 0) continue;
    const bool option = key.rfind("scheme.", 0) == 0;
    if (option && report_input(r, "scheme") != report_input(other, "scheme")) continue;
    if (report_input(other, key) == value) continue;
    if (++count == 3) return out + ", ...";
    const std::string name = key.rfind("set.", 0) == 0 ? key.substr(4) : key;
    out += fmt::format("{}{}={}", out.empty() ? "" : ", ", name, value);
  }
  return out;
}

/// The change of its system, if that is all that `r` has and `other` lacks; else empty names.
std::pair<std::string, std::string> sole_change(const Report& r, const Report& other) {
  std::pair<std::string, std::string> out;
  for (const auto& [key, value] : r.setup.inputs) {
    if (key.rfind("set.", 0) != 0 || report_input(other, key) == value) continue;
    if (!out.first.empty()) return {};
    out = {key.substr(4), value};
  }
  return out;
}

/// "on dgx1-v100", or the difference of systems or choices: "with scheme=horovod".
std::string place_of(const Report& r, const Report& other) {
  const std::string system = report_input(r, "system");
  if (system != report_input(other, "system")) return "on " + report_system(r);
  if (const auto [name, value] = sole_change(r, other); !name.empty()) return change_words(name, value);
  if (const std::string own = differences(r, other); !own.empty()) return "with " + own;
  if (const auto [name, value] = sole_change(other, r); !name.empty()) return lack_words(name, value);
  const std::string theirs = differences(other, r);
  return theirs.empty() ? "there" : "without " + theirs;
}

/// The collective of the workers that moves most bytes, if it is a ring inside one node: how often that ring
/// crosses the cable of `link`, both directions together; 0 if it does not or is shared out.
double ring_crossings(const Question& q, int64_t devices, LinkId link) {
  const BoundProgram plan = make_plan(request_on(q, q.system, devices));
  const auto cluster = make_cluster(q.system, devices);
  if (cluster.nodes > 1 || devices < 2) return 0;
  const Program& program = *plan.program;
  const Op* most = nullptr;
  for (const Op& op : program.roles[0].ops) {
    if (op.kind == OpKind::collective && (most == nullptr || op.bytes > most->bytes)) most = &op;
  }
  if (most == nullptr) return 0;
  if (program.roles[0].mesh.members(program.collectives[most->what].axes) != devices) return 0;
  std::vector<VertexId> members;
  for (int64_t i = 0; i < devices; ++i) members.push_back(used_accelerator(q.system, cluster, i));
  const Collective& c = program.collectives[most->what];
  const double count =
      LinkCost(q.system, q.scheme.overheads).crossings(c.kind, c.algorithm, most->bytes, members, link);
  return std::abs(count - std::round(count)) < 0.01 ? std::round(count) : 0;
}

/// Samples/s with practically unlimited bandwidth of these kinds of links ("socket", "network").
double rate_without(const Question& q, const std::vector<Resource>& endless, int64_t devices) {
  auto sets = q.sets;
  for (const Resource& r : endless) r.turn(sets, r.most());
  const System system = q.system.with(sets);
  return throughput(request_on(q, system, devices));
}

std::string kind_of(const Resource& r) {
  return r.path == "network.bandwidth" ? "network" : r.path.substr(6, r.path.rfind('.') - 6);
}

struct Unlimited {
  std::vector<Resource> kinds;
  double rate = 0;
};

/// The busiest link of a kind in a report.
std::optional<std::pair<LinkUse, LinkId>> busiest(const Report& r, const System& system,
                                                  const std::string& kind) {
  for (const LinkUse& use : r.network.links) {
    for (LinkId id = 0; id < system.link_count(); ++id) {
      if (system.link_kind(id) == kind && system.link(id).name == use.name) return std::make_pair(use, id);
    }
  }
  return std::nullopt;
}

/// The fewest kinds of links without whose limits the slower side comes most of the way to the faster one:
/// starts with all and restores the limits of the least busy first. Several can be limiting at once, so that
/// none alone would help.
Unlimited unlimited_for(const Question& q, const Report& slow, const Report& fast) {
  Unlimited out;
  for (Resource& r : resources_of(q)) {
    if (r.path == "network.bandwidth" || r.path.rfind("links.", 0) == 0) out.kinds.push_back(std::move(r));
  }
  const auto busy = [&](const Resource& r) {
    const auto link = busiest(slow, q.system, kind_of(r));
    return link ? link->first.busy : 0.0;
  };
  std::stable_sort(out.kinds.begin(), out.kinds.end(),
                   [&](const Resource& a, const Resource& b) { return busy(a) < busy(b); });
  out.rate = rate_without(q, out.kinds, slow.setup.devices);
  const double most_of_the_way =
      slow.rate.samples_per_second + 0.8 * (fast.rate.samples_per_second - slow.rate.samples_per_second);
  const double goal = std::min(0.98 * out.rate, most_of_the_way);
  for (std::size_t i = 0; i < out.kinds.size();) {
    auto fewer = out.kinds;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    const double rate = rate_without(q, fewer, slow.setup.devices);
    if (rate < goal) {
      ++i;
    } else {
      out = {std::move(fewer), rate};
    }
  }
  std::reverse(out.kinds.begin(), out.kinds.end());
  return out;
}

/// "a, b and c".
std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i)
    out += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return out;
}

/// What the slower side's communication waits for: "; on v100-pcie-8x the ring crosses ...".
std::string in_the_way(const Report& slow, const Report& fast, const Question* q) {
  const std::string where = place_of(slow, fast);
  if (q == nullptr || q->system.link_count() > kMostLinksVaried) {
    if (slow.network.links.empty()) return "";
    return fmt::format("; {} {} is {:.0f} % busy", where, slow.network.links[0].name,
                       100 * slow.network.links[0].busy);
  }
  const Unlimited unlimited = unlimited_for(*q, slow, fast);
  const double missing = fast.rate.samples_per_second - slow.rate.samples_per_second;
  if (unlimited.kinds.empty() || unlimited.rate - slow.rate.samples_per_second < 0.1 * missing) {
    Request p = request_on(*q, q->system, slow.setup.devices);
    p.speeds.latency = kEndless;
    const double rate = throughput(p);
    const bool helps = rate - slow.rate.samples_per_second >= 0.1 * missing;
    return fmt::format("; {} no link is too narrow{}", where,
                       helps ? fmt::format(": messages without latency would give {}", grouped(rate)) : "");
  }
  std::vector<std::string> links, kinds;
  bool ring = false;
  for (const Resource& r : unlimited.kinds) {
    const std::string kind = kind_of(r);
    kinds.push_back(kind);
    const auto link = busiest(slow, q->system, kind);
    if (!link) continue;
    const auto& [use, id] = *link;
    const double crossings = ring_crossings(*q, slow.setup.devices, id);
    ring = ring || crossings > 0;
    links.push_back(fmt::format("the {} link {} ({} usable, {:.0f} % busy){}", kind, use.name,
                                to_text(Bandwidth{q->system.usable(id)}), 100 * use.busy,
                                crossings > 0 ? " " + times(crossings) : ""));
  }
  std::string shared;
  if (!links.empty()) shared = (ring ? "the ring crosses " : "the flows share ") + listed(links) + "; ";
  return fmt::format("; {} {}unlimited {} bandwidth would give {}", where, shared, listed(kinds),
                     grouped(unlimited.rate));
}

/// "k80", of several models "k80 and p100-pcie".
std::string device_name(const Question& q) {
  std::vector<std::string> models;
  for (const DeviceSort& sort :
       device_sorts(q.system, make_cluster(q.system, q.system.accelerator_count()))) {
    const std::string& model = q.system.device(sort.first).name;
    if (std::find(models.begin(), models.end(), model) == models.end()) models.push_back(model);
  }
  return listed(models);
}

/// "; with only the devices changed (k80 instead of p100) 1.02x, with only links and host changed 1.3x".
std::string swap_text(const ReportPair& pair, const Swap& swap) {
  std::string out;
  if (swap.devices)
    out += fmt::format("; with only the devices changed ({} instead of {}) {:.2f}x",
                       device_name(*pair.asked_b), device_name(*pair.asked_a), *swap.devices);
  if (swap.rest)
    out += fmt::format("{} with only links and host changed {:.2f}x", swap.devices ? "," : ";", *swap.rest);
  return out;
}

std::string change(double ratio) {
  if (std::abs(ratio - 1) < kSame) return "no different";
  const char* word = ratio > 1 ? "faster" : "slower";
  const double factor = std::max(ratio, 1 / ratio);
  return factor >= 1.1 ? fmt::format("{:.3g}x {}", std::round(100 * factor) / 100, word)
                       : fmt::format("{:.{}f} % {}", 100 * std::abs(ratio - 1),
                                     std::abs(ratio - 1) < 0.02 ? 1 : 0, word);
}

/// The entry of kCauses with the largest part of the difference. Waiting for communication and kernels slowed
/// by collectives are one cause, described by the larger.
std::size_t main_cause(const Report& a, const Report& b) {
  const double sign = a.rate.samples_per_second < b.rate.samples_per_second ? 1 : -1;
  std::vector<double> saved;  // seconds per sample
  for (const Cause& c : kCauses)
    saved.push_back(sign * (c.share(a) / a.rate.samples_per_second - c.share(b) / b.rate.samples_per_second));
  double &slowed = saved[kSlowed], &waited = saved[kCommunication];
  (slowed > waited ? slowed : waited) += std::max(0.0, std::min(slowed, waited));
  return static_cast<std::size_t>(std::max_element(saved.begin(), saved.end()) - saved.begin());
}

/// Of unchanged machines with different numbers of devices: steps and their parts have different sample
/// counts.
std::string unlike_counts(const Report& a, const Report& b) {
  const double ratio = b.rate.samples_per_second / a.rate.samples_per_second;
  const double each = ratio * static_cast<double>(a.setup.devices) / static_cast<double>(b.setup.devices);
  const Report::Interval interval = ratio_interval(a, b);
  return fmt::format(
      "{}: {} device{} {} {} against {} ({} -> {} samples/s; ratio {:.2f}, 90 % interval {:.2f} .. {:.2f}), "
      "{:.2f}x for each device",
      report_input(b, "model"), b.setup.devices, b.setup.devices == 1 ? " is" : "s are", change(ratio),
      place_of(b, a), a.setup.devices, grouped(a.rate.samples_per_second), grouped(b.rate.samples_per_second),
      ratio, interval.low, interval.high, each);
}

}  // namespace

Reason why(const ReportPair& pair) {
  const Report &a = pair.a, &b = pair.b;
  if (a.evaluation.engine != b.evaluation.engine || !(a.rate.samples_per_second > 0) ||
      !(b.rate.samples_per_second > 0))
    return {};
  if (a.setup.devices != b.setup.devices) return {unlike_counts(a, b), {}};
  const double ratio = b.rate.samples_per_second / a.rate.samples_per_second;
  const Report::Interval interval = ratio_interval(a, b);
  Reason out;
  out.text = fmt::format(
      "{} on {} device{}: {} {} ({} -> {} samples/s; ratio {:.2f}, 90 % interval {:.2f} .. "
      "{:.2f})",
      report_input(b, "model"), b.setup.devices, b.setup.devices == 1 ? "" : "s", change(ratio),
      place_of(b, a), grouped(a.rate.samples_per_second), grouped(b.rate.samples_per_second), ratio,
      interval.low, interval.high);
  out.swap = swap_parts(pair);
  const double share = std::min(a.time.share.compute - a.time.slowed, b.time.share.compute - b.time.slowed);
  const std::string both =
      share >= 0.5 ? fmt::format("; both compute for at least {:.0f} % of a step", 100 * share) : "";
  if (std::abs(ratio - 1) < kSame) {
    out.text += swap_text(pair, out.swap) + both;
    return out;
  }
  const double before = step_seconds(a), after = step_seconds(b);
  const std::size_t cause = main_cause(a, b);
  const auto share_of = kCauses[cause].share;
  out.text += fmt::format(", because a step {} {} instead of {} ms", kCauses[cause].words,
                          two_digits(after * share_of(b)), two_digits(before * share_of(a)));
  const Report &slow = ratio > 1 ? a : b, &fast = ratio > 1 ? b : a;
  if (cause == kWaits && !slow.time.waiting_for.empty())
    out.text += fmt::format(", most for {}", slow.time.waiting_for[0].first);
  if (cause == kCommunication || cause == kSlowed)
    out.text += in_the_way(slow, fast, ratio > 1 ? pair.asked_a : pair.asked_b);
  out.text +=
      swap_text(pair, out.swap) + (std::max(ratio, 1 / ratio) < 1.1 && cause != kComputes ? both : "");
  return out;
}

}  // namespace tandem::answers
