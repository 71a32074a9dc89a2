// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cores.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <utility>

namespace tandem::exec {

namespace {

/// Of the calling thread, in order.
std::vector<int> allowed() {
  cpu_set_t set;
  std::vector<int> out;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return out;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) out.push_back(i);
  }
  return out;
}

/// "0-3,8" as Linux writes lists of processors.
std::vector<int> read_list(const std::string& text) {
  std::vector<int> out;
  const char* at = text.c_str();
  while (*at >= '0' && *at <= '9') {
    char* end = nullptr;
    const long first = std::strtol(at, &end, 10);
    const long last = *end == '-' ? std::strtol(end + 1, &end, 10) : first;
    for (long i = first; i <= last && i < CPU_SETSIZE; ++i) out.push_back(static_cast<int>(i));
    at = *end == ',' ? end + 1 : end;
  }
  return out;
}

std::string write_list(const std::vector<int>& list) {
  std::string out;
  for (std::size_t i = 0; i < list.size();) {
    std::size_t last = i;
    while (last + 1 < list.size() && list[last + 1] == list[last] + 1) ++last;
    out += fmt::format("{}{}{}", out.empty() ? "" : ",", list[i],
                       last > i ? fmt::format("-{}", list[last]) : "");
    i = last + 1;
  }
  return out;
}

/// Takes `count` processors from the back.
std::vector<int> take(std::vector<int>& from, std::size_t count) {
  std::vector<int> out(from.end() - static_cast<std::ptrdiff_t>(count), from.end());
  from.resize(from.size() - count);
  return out;
}

void need(const BindRequest& r, std::size_t workers, std::size_t there, const char* where) {
  const std::size_t needed =
      workers * (static_cast<std::size_t>(r.threads) + static_cast<std::size_t>(r.comm_cores));
  if (needed <= there) return;
  throw InputError(fmt::format(
      "comm-cores={}: {} worker{} of {} thread{} need{} {} processors with those that communicate, of which "
      "{} has {}",
      r.comm_cores, workers, workers == 1 ? "" : "s", r.threads, r.threads == 1 ? "" : "s",
      workers == 1 ? "s" : "", needed, where, there));
}

std::vector<WorkerCores> by_core(const Processors& processors, const BindRequest& r) {
  std::vector<int> all;
  for (const auto& node : processors.nodes) all.insert(all.end(), node.begin(), node.end());
  if (r.comm_cores > 0) need(r, r.workers, all.size(), "this machine");
  std::vector<WorkerCores> out(r.workers);
  std::size_t next = 0;
  const auto give = [&](std::vector<int>& to, int count) {
    for (int i = 0; i < count && !all.empty(); ++i) {
      const int processor = all[next++ % all.size()];
      if (std::find(to.begin(), to.end(), processor) == to.end()) to.push_back(processor);
    }
  };
  for (WorkerCores& w : out) {
    give(w.compute, r.threads);
    give(w.communicate, r.comm_cores);
  }
  return out;
}

std::vector<WorkerCores> by_node(const Processors& processors, const BindRequest& r) {
  std::vector<WorkerCores> out(r.workers);
  const std::size_t nodes = processors.nodes.size();
  for (std::size_t n = 0; n < nodes; ++n) {
    std::vector<int> left = processors.nodes[n];
    const std::size_t first = (n * r.workers + nodes - 1) / nodes,
                      end = ((n + 1) * r.workers + nodes - 1) / nodes;
    if (r.comm_cores > 0) need(r, end - first, left.size(), nodes > 1 ? "their NUMA node" : "this machine");
    for (std::size_t w = end; w-- > first;)
      out[w].communicate = take(left, static_cast<std::size_t>(r.comm_cores));
    for (std::size_t w = first; w < end; ++w) out[w].compute = left;
  }
  return out;
}

}  // namespace

std::size_t Processors::count() const {
  std::size_t sum = 0;
  for (const auto& node : nodes) sum += node.size();
  return sum;
}

std::string Processors::text() const {
  std::string out;
  for (const auto& node : nodes) out += (out.empty() ? "" : ";") + write_list(node);
  return out;
}

Processors machine_processors() {
  std::vector<int> usable = allowed();
  Processors out;
  for (int n = 0; !usable.empty(); ++n) {
    std::ifstream file(fmt::format("/sys/devices/system/node/node{}/cpulist", n));
    std::string line;
    if (!std::getline(file, line)) break;
    std::vector<int> mine, others;
    const std::vector<int> list = read_list(line);
    for (const int p : usable)
      (std::find(list.begin(), list.end(), p) != list.end() ? mine : others).push_back(p);
    if (!mine.empty()) out.nodes.push_back(std::move(mine));
    usable = std::move(others);
  }
  if (!usable.empty()) out.nodes.push_back(std::move(usable));
  return out;
}

std::string_view name(Bind bind) {
  constexpr std::string_view names[] = {"core", "numa", "none"};
  return names[static_cast<std::size_t>(bind)];
}

Bind parse_bind(std::string_view text, const Place& place) {
  for (const Bind b : {Bind::core, Bind::numa, Bind::none}) {
    if (name(b) == text) return b;
  }
  throw InputError(place, fmt::format("\"{}\" is none of core, numa and none.{}", printable(text),
                                      did_you_mean(text, {"core", "numa", "none"})));
}

std::vector<WorkerCores> assign_cores(const Processors& processors, const BindRequest& r) {
  TANDEM_CHECK(r.workers > 0 && r.threads > 0);
  if (r.bind == Bind::none || processors.nodes.empty()) {
    if (r.comm_cores > 0)
      throw InputError(
          fmt::format("comm-cores={}: cores that only communicate need threads that are bound "
                      "(--bind core or numa)",
                      r.comm_cores));
    return std::vector<WorkerCores>(r.workers);
  }
  return r.bind == Bind::numa ? by_node(processors, r) : by_core(processors, r);
}

void bind_thread(const std::vector<int>& processors) {
  if (processors.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int p : processors) CPU_SET(p, &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

BoundThread::BoundThread(const std::vector<int>& processors) {
  if (processors.empty()) return;
  before_ = allowed();
  bind_thread(processors);
}

BoundThread::~BoundThread() { bind_thread(before_); }

}  // namespace tandem::exec
