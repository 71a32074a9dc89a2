// SPDX-License-Identifier: Apache-2.0
#include "sim/networks.h"

#include <algorithm>

#include "sim/intervals.h"

namespace tandem::sim {

namespace {

/// Adds `weight` times the shares of one network's time.
void add_shares(Report& r, const Report& part, double weight) {
  constexpr double TimeShare::*kShares[] = {
      &TimeShare::compute, &TimeShare::launch, &TimeShare::exposed_communication,
      &TimeShare::waiting, &TimeShare::bubble, &TimeShare::input,
      &TimeShare::server,  &TimeShare::idle};
  for (const auto share : kShares) r.time.share.*share += weight * part.time.share.*share;
  r.time.slowed += weight * part.time.slowed;
  const auto add_named = [&](std::vector<NamedShare>& to, const std::vector<NamedShare>& from) {
    for (const auto& [name, share] : from) {
      const auto at =
          std::find_if(to.begin(), to.end(), [&name = name](const auto& t) { return t.first == name; });
      if (at != to.end())
        at->second += weight * share;
      else
        to.emplace_back(name, weight * share);
    }
    std::stable_sort(to.begin(), to.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  };
  add_named(r.time.communication_kinds, part.time.communication_kinds);
  add_named(r.time.waiting_for, part.time.waiting_for);
}

/// A kind of kernel is named by the pass that takes most of it in one of the networks.
void add_kernels(Report& r, const Report& part, double weight) {
  for (KernelShare k : part.time.kernels) {
    k.share *= weight;
    k.heaviest *= weight;
    const auto at = std::find_if(r.time.kernels.begin(), r.time.kernels.end(),
                                 [&](const KernelShare& known) { return known.kind == k.kind; });
    if (at == r.time.kernels.end()) {
      r.time.kernels.push_back(k);
    } else {
      at->share += k.share;
      if (at->heaviest_pass == k.heaviest_pass)
        at->heaviest += k.heaviest;
      else if (k.heaviest > at->heaviest)
        at->heaviest = k.heaviest, at->heaviest_pass = k.heaviest_pass;
    }
  }
  std::stable_sort(r.time.kernels.begin(), r.time.kernels.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
}

void add_links(Report& r, const Report& part, double weight) {
  for (const LinkUse& use : part.network.links) {
    const auto at = std::find_if(r.network.links.begin(), r.network.links.end(),
                                 [&](const LinkUse& l) { return l.name == use.name; });
    LinkUse& link =
        at != r.network.links.end() ? *at : r.network.links.emplace_back(LinkUse{use.name, 0, {}});
    link.busy += weight * use.busy;
    link.bytes = link.bytes + use.bytes;
  }
  std::stable_sort(r.network.links.begin(), r.network.links.end(),
                   [](const LinkUse& a, const LinkUse& b) { return a.busy > b.busy; });
  if (!r.network.links.empty()) r.network.busiest = r.network.links.front();
}

void add_remarks(std::vector<std::string>& to, const std::vector<std::string>& from) {
  for (const std::string& text : from) {
    if (std::find(to.begin(), to.end(), text) == to.end()) to.push_back(text);
  }
}

/// The same source errs in the same direction in every network, and counts by its share of the time.
void add_errors(Report& r, const Report& part, double weight) {
  for (const ErrorSource& e : part.rate.errors) {
    auto at = std::find_if(r.rate.errors.begin(), r.rate.errors.end(),
                           [&](const ErrorSource& known) { return known.source == e.source; });
    if (at == r.rate.errors.end()) at = r.rate.errors.insert(at, {e.source, 0});
    if (e.above || at->above) at->above = at->sigma_above() + weight * e.sigma_above();
    at->sigma += weight * e.sigma;
  }
}

void add_network(Report& r, const Report& part, double weight, double steps) {
  add_shares(r, part, weight);
  add_kernels(r, part, weight);
  add_links(r, part, weight);
  add_errors(r, part, weight);
  add_remarks(r.notes, part.notes);
  add_remarks(r.basis.extrapolates, part.basis.extrapolates);
  r.iteration.median += steps * part.iteration.median;
  r.iteration.p05 += steps * part.iteration.p05;
  r.iteration.p95 += steps * part.iteration.p95;
  r.evaluation.events += part.evaluation.events;
  r.basis.calibrated = r.basis.calibrated && part.basis.calibrated;
}

}  // namespace

std::vector<Network> networks_of(const Request& p) {
  if (p.anchor) throw InputError("an anchor is the rate of one network: several networks cannot meet it");
  if (!p.beside.empty())
    throw InputError("several networks (--then) and other jobs (--with) cannot be combined");
  std::vector<Network> out = {{p, 1}};
  out.front().prediction.then.clear();
  out.front().prediction.check_memory = false;  // all together decide
  for (const NetworkThen& then : p.then) {
    Network network{out.front().prediction, then.passes};
    network.prediction.job.graph = then.graph;
    network.prediction.job.batch = then.batch;
    network.prediction.job.input = false;  // it goes on with what the first network loaded
    network.prediction.timeline = false;
    out.push_back(std::move(network));
  }
  return out;
}

MemoryUse memory_in_turn(const std::vector<MemoryUse>& networks) {
  MemoryUse out;
  Bytes cache, context;
  for (const MemoryUse& m : networks) {
    out.parameters = out.parameters + m.parameters;
    out.gradients = out.gradients + m.gradients;
    out.optimizer = out.optimizer + m.optimizer;
    out.buffers = out.buffers + m.buffers;
    out.activations = std::max(out.activations, m.activations);
    out.workspace = std::max(out.workspace, m.workspace);
    out.host = out.host + m.host;
    out.node = {out.node.needed + m.node.needed, m.node.capacity};
    out.capacity = m.capacity;
    cache = std::max(cache, m.reserved - m.total());
    context = std::max(context, m.nvidia_smi - m.reserved);
  }
  out.reserved = out.total() + cache;
  out.nvidia_smi = out.reserved + context;
  return out;
}

void add_networks(Report& r, const std::vector<Network>& networks, const std::vector<Report>& each) {
  const Report& first = each.front();
  double seconds = 0;  // of a sample
  for (std::size_t i = 0; i < each.size(); ++i)
    seconds += networks[i].passes / each[i].rate.samples_per_second;
  r.setup.samples_per_iteration = first.setup.samples_per_iteration;
  r.evaluation.evaluator = first.evaluation.evaluator;
  r.evaluation.reason = first.evaluation.reason;
  r.rate.samples_per_second = 1 / seconds;
  r.rate.tokens_per_second =
      r.rate.samples_per_second * first.rate.tokens_per_second / first.rate.samples_per_second;
  r.staleness = first.staleness;
  r.timeline = first.timeline;
  r.basis.calibrated = true;
  for (std::size_t i = 0; i < each.size(); ++i) {
    const double of_sample = networks[i].passes / each[i].rate.samples_per_second;
    add_network(r, each[i], of_sample / seconds,
                of_sample * static_cast<double>(r.setup.samples_per_iteration) / each[i].iteration.median);
  }
  r.rate.interval = interval(r.rate.samples_per_second, r.rate.errors);
  r.largest_share_is_bottleneck();
}

}  // namespace tandem::sim
