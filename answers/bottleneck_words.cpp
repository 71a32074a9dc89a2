// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "answers/labels.h"

namespace tandem::answers {

namespace {

/// Kernel kinds as people call them.
std::string_view kernel_words(std::string_view kind) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"gemm", "matrix products"},      {"conv", "convolutions"},
      {"norm", "normalisation"},        {"pool", "pooling"},
      {"embedding", "embeddings"},      {"elementwise", "elementwise kernels"},
      {"optimizer", "optimiser update"}};
  for (const auto& [name, words] : kWords) {
    if (name == kind) return words;
  }
  return kind;
}

/// "compute of worker 3 on gpu3, awaited for 40 % of the step"; of all slow workers if there are several.
std::string awaited_words(const Report& r) {
  const auto& [worker, share] = r.time.waiting_for[0];
  const double all = r.time.share.waiting;
  if (share >= 0.8 * all)
    return fmt::format("compute of {}, awaited for {:.0f} % of the step", worker, 100 * share);
  return fmt::format("compute of slower workers, awaited for {:.0f} % of the step (most: {} {:.0f} %)",
                     100 * all, worker, 100 * share);
}

/// "compute: matrix products 54 % (most: forward 20 %)"; of slower workers if others wait for them.
std::string compute_words(const Report& r) {
  if (r.time.share.waiting >= 0.1 && r.time.share.waiting > r.time.share.compute &&
      !r.time.waiting_for.empty())
    return awaited_words(r);
  if (r.time.share.bubble > r.time.share.compute)
    return fmt::format("the pipeline's bubble, {:.0f} % of the step; compute {:.0f} %",
                       100 * r.time.share.bubble, 100 * r.time.share.compute);
  if (r.time.kernels.empty())
    return fmt::format("compute ({:.0f} % of the step)", 100 * r.time.share.compute);
  const KernelShare& k = r.time.kernels[0];
  std::string out = fmt::format("compute: {} {:.0f} %", kernel_words(k.kind), 100 * k.share);
  if (k.heaviest < 0.99 * k.share)
    out += fmt::format(" (most: {} {:.0f} %)", k.heaviest_pass, 100 * k.heaviest);
  return out;
}

/// "NCCL proxy threads, which feed the sockets": named like the busiest one, "NCCL proxy thread of gpu3" or
/// "gRPC thread 1 of node0's worker".
std::string network_threads(const Report& r) {
  for (const LinkUse& use : r.network.links) {
    const std::size_t end = use.name.find(" thread");
    if (end != std::string::npos && use.name.find(" of ") != std::string::npos)
      return use.name.substr(0, end) + " threads, which feed the sockets";
  }
  return "the processes that feed the sockets";
}

}  // namespace

std::string resource_words(const Report& r) {
  const std::string& path = r.bottleneck.resource;
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"network.bandwidth", "network bandwidth"},
      {"host.local_storage", "local storage"},
      {"host.shared_storage", "shared storage"},
      {"host.core_speed", "the cores that decode input"},
      {"host.local_operations", "local storage's operations"},
      {"host.shared_operations", "shared storage's operations"},
      {"host.local_metadata", "opening of files on local storage"},
      {"host.shared_metadata", "opening of files on shared storage"},
      {"launch", "the host's launches"},
      {"server", "the server's processor"},
      {"latency", "latency of messages"},
      {"host", "the host's processors: threads to be woken, or other work on them"},
      {"library", "what the collective library's kernels move"},
      {"timers", "retransmission timeouts (incast)"}};
  if (path == "compute") return compute_words(r);
  if (path == "server" && !report_input(r, "offload").empty()) return "the host's processors, at the update";
  if (path == "threads") return network_threads(r);
  if (path == "waiting" && !r.time.waiting_for.empty()) return "waiting for " + r.time.waiting_for[0].first;
  const std::string& busiest = r.network.busiest.name;
  const bool trunk = busiest.rfind("spine", 0) == 0 || busiest.find(">spine") != std::string::npos;
  if (path == "network.bandwidth" && trunk) return "bandwidth of the leaves' uplinks";
  for (const auto& [name, words] : kWords) {
    if (name == path) return std::string(words);
  }
  if (path.rfind("links.", 0) == 0) return path.substr(6, path.rfind('.') - 6) + " bandwidth";
  return path;
}

}  // namespace tandem::answers
