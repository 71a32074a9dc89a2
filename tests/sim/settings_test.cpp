// SPDX-License-Identifier: Apache-2.0
// Predictions as recorded, one for each thing that can be set beside scheme, model and machine. Small models,
// so that every figure of a report can stand here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "answers/fitting.h"
#include "base/json.h"
#include "sim/capacity.h"
#include "tests/sim/prediction.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

using Change = std::function<void(Request&)>;

struct Setting {
  const char* name;
  const char* scheme;
  const char* model;
  const char* system;
  System::Sets sets;
  int64_t devices;
  Change change = [](Request&) {};
};

const std::string kMachine = std::string(TANDEM_ROOT) + "/tests/sim/machine_profile.json";
const std::string kDevices = std::string(TANDEM_ROOT) + "/tests/sim/device_profile.json";
const System::Sets kThinned{
    {"nodes", "8"}, {"network.block", "fat_tree"}, {"network.down", "2"}, {"network.oversubscription", "4"}};

void measured(Request& p) { p.profile = kMachine; }
void measured_apart(Request& p) { p.profile = kDevices; }

void disturbed(Request& p) {
  Disturbance& d = p.disturbance.emplace();
  d.compute_sigma = 0.1;
  d.iteration_sigma = 0.05;
  d.network_sigma = 0.2;
  d.straggle_probability = 0.1;
  d.straggle_factor = 3;
  d.slow = {{2, 1.5}};
}

void trained_with(Request& p, Precision precision, const char* rule) {
  p.job.precision = precision;
  p.job.optimizer = &optimizer(rule);
}

std::vector<Setting> settings() {
  return {
      {"one device", "allreduce", "lenet5", "2080ti-pcie-8x", {}, 1},
      {"input",
       "allreduce",
       "resnet20-cifar",
       "ethernet-cluster",
       {},
       16,
       [](auto& p) { p.job.input = true; }},
      {"input from shared storage alone",
       "horovod",
       "alexnet",
       "zenith",
       {{"host.local_storage", "0B/s"}},
       8,
       [](auto& p) { p.job.input = true; }},
      {"recomputing",
       "zero:stage=3",
       "transformer-tiny",
       "dgx-a100",
       {},
       4,
       [](auto& p) {
         p.job.recompute = {.blocks = true};
         trained_with(p, Precision::bf16, "adamw");
       }},
      {"micro-batches",
       "zero:stage=2,accumulate=3",
       "transformer-tiny",
       "mi300x-8x",
       {},
       8,
       [](auto& p) { trained_with(p, Precision::fp16, "adam"); }},
      {"an anchor",
       "pytorch-ddp",
       "lenet5",
       "v100-pcie-8x",
       {},
       4,
       [](auto& p) {
         p.anchor = Anchor{20'000, 1};
       }},
      {"an anchor of several devices",
       "horovod",
       "lenet5",
       "hkbu-ipoib",
       {},
       8,
       [](auto& p) {
         p.anchor = Anchor{60'000, 4, 16};
       }},
      {"speeds",
       "parameter-server",
       "lenet5",
       "2080ti-pcie-8x",
       {},
       4,
       [](auto& p) {
         p.speeds = {1.5, 0.7, 2.5, 0.4};
       }},
      {"speeds of a node's one process",
       "pytorch-dataparallel",
       "densenet121",
       "2080ti-pcie-8x",
       {},
       3,
       [](auto& p) {
         p.speeds = {1.5, 0.7, 2.5, 0.4};
         p.job.batch = 2;
       }},
      {"fewer iterations",
       "local-sgd:every=3",
       "lenet5",
       "dgx1-v100",
       {},
       8,
       [](auto& p) { p.iterations = 7; }},
      {"noise", "allreduce", "lenet5", "dgx1-v100", {}, 4, disturbed},
      {"noise of servers", "parameter-server:mode=async", "lenet5", "hkbu-ipoib", {}, 8, disturbed},
      {"slow devices of the system", "allreduce", "lenet5", "2080ti-pcie-8x", {{"faults.gpu1", "0.5"}}, 4},
      {"half of a cable", "allreduce", "alexnet", "2080ti-pcie-8x", {{"faults.cpu0:cpu1", "0.5"}}, 8},
      {"a node that is slow",
       "parameter-server:mode=backup,backup=2",
       "lenet5",
       "hkbu-ipoib",
       {{"faults.node2/gpu0", "0.4"}},
       16},
      {"late gradients", "parameter-server:mode=backup,backup=1,push=node", "lenet5", "hkbu-ipoib", {}, 12},
      {"bounded staleness",
       "parameter-server:mode=ssp,slack=1",
       "lenet5",
       "hkbu-ipoib",
       {},
       8,
       [](auto& p) { p.disturbance.emplace().compute_sigma = 0.3; }},
      {"softsync", "parameter-server:mode=softsync,n=2,server=nodes,shards=3", "lenet5", "hkbu-ipoib", {}, 8},
      {"servers on devices",
       "parameter-server:server=gpu,overlap=off,pull=all",
       "lenet5",
       "v100-pcie-8x",
       {},
       4},
      {"a thinned network", "allreduce", "alexnet", "ethernet-cluster", kThinned, 64},
      {"messages over a thinned network", "byteps", "lenet5", "ethernet-cluster", kThinned, 32},
      {"rails", "zero:stage=1", "alexnet", "h100-superpod", {}, 32},
      {"trees of an odd number of nodes",
       "allreduce:algorithm=double-tree",
       "alexnet",
       "p3.16xlarge",
       {{"nodes", "5"}},
       40},
      {"a master alone", "pytorch-dataparallel", "lenet5", "v100-pcie-8x", {}, 1},
      {"a torus", "allreduce", "resnet20-cifar", "tpu-v3-pod", {}, 32},
      {"processors", "allreduce", "lenet5", "skylake-opa", {}, 8},
      {"trees", "allreduce:algorithm=double-tree", "alexnet", "p3.16xlarge", {{"nodes", "4"}}, 32},
      {"halving and doubling", "allreduce:algorithm=halving-doubling", "alexnet", "hkbu-10gbe", {}, 16},
      {"more devices than schedules are laid out for",
       "allreduce:algorithm=halving-doubling",
       "lenet5",
       "infiniband-cluster",
       {{"nodes", "96"}},
       700},
      {"resolved transfers",
       "zero:stage=3",
       "lenet5",
       "infiniband-cluster",
       {{"nodes", "96"}},
       700,
       [](auto& p) { p.job.input = true; }},
      {"parts of layers", "one-weird-trick", "alexnet", "titan-xp-pcie-4x", {}, 4},
      {"staged copies", "data-parallel-master", "alexnet", "1080ti-dual-root-8x", {}, 8},
      {"memory's habits",
       "fsdp",
       "transformer-tiny",
       "dgx-h100",
       {},
       8,
       [](auto& p) {
         trained_with(p, Precision::bf16, "adamw");
         p.memory = {{"weights", "master"}, {"update", "each"}, {"gradients", "whole"}, {"buckets", "copies"},
                     {"modules", "eager"},  {"loss", "fused"},  {"logits", "fp32"}};
       }},
      {"more memory than there is",
       "allreduce",
       "bert-large",
       "2080ti-pcie-8x",
       {},
       2,
       [](auto& p) { p.job.optimizer = &optimizer("adam"); }},
      {"memory that just holds it",
       "zero:stage=3",
       "bert-large",
       "2080ti-pcie-8x",
       {},
       8,
       [](auto& p) {
         trained_with(p, Precision::fp16, "adam");
         p.job.batch = 1;
       }},
      {"recorded steps",
       "parameter-server:mode=async",
       "lenet5",
       "2080ti-pcie-8x",
       {},
       3,
       [](auto& p) {
         p.disturbance.emplace().recorded = {{1, 1.5, 0.8}, {2, 0.7, 1.1}};
       }},
      {"jobs beside",
       "allreduce",
       "alexnet",
       "hkbu-ipoib",
       {},
       8,
       [](auto& p) {
         static const Graph graph = Graph::load("lenet5");
         static const ResolvedScheme servers = resolve_scheme("parameter-server:mode=async", {}),
                                     horovod = resolve_scheme("horovod", {});
         p.beside = {{p.job, 4}, {p.job, 8}};
         p.beside[0].job.graph = p.beside[1].job.graph = &graph;
         p.beside[0].job.scheme = &servers;
         p.beside[1].job.scheme = &horovod;
       }},
      {"jobs of one node",
       "mg-wfbp",
       "lenet5",
       "1080ti-dual-root-8x",
       {},
       2,
       [](auto& p) {
         p.beside = {{p.job, 4}};
         p.job.input = true;
       }},
      {"merged gradients", "mg-wfbp", "resnet20-cifar", "hkbu-10gbe", {}, 16},
      {"reduced in the switch",
       "allreduce",
       "alexnet",
       "dgx-h100",
       {{"nodes", "4"}},
       32,
       [](auto& p) { trained_with(p, Precision::bf16, "sgd"); }},
      {"depthwise convolutions",
       "tf-mirrored",
       "mobilenet-v2",
       "v100-pcie-8x",
       {},
       2,
       [](auto& p) { trained_with(p, Precision::fp16, "rmsprop"); }},
      {"grouped convolutions",
       "mxnet-device",
       "resnext50-32x4d",
       "3080-pcie-4x",
       {},
       2,
       [](auto& p) { trained_with(p, Precision::tf32, "momentum"); }},
      {"transposed convolutions",
       "keras-multi-gpu",
       "unet",
       "2080ti-nvlink-8x",
       {},
       2,
       [](auto& p) { p.job.batch = 1; }},
      {"recurrent layers", "byteps", "lstm-ptb-small", "p2.8xlarge", {}, 4},
      {"measured costs", "allreduce", "lenet5", "local", {}, 1, measured},
      {"measured costs, several devices",
       "allreduce",
       "lenet5",
       "local",
       {},
       4,
       [](auto& p) {
         measured(p);
         p.job.batch = 100;
       }},
      {"measured costs, emulated nodes", "allreduce", "lenet5", "local-nodes", {{"nodes", "4"}}, 4, measured},
      {"measured costs, servers",
       "parameter-server:mode=async",
       "lenet5",
       "local-nodes",
       {{"nodes", "4"}},
       4,
       measured},
      {"measured costs, a server beside workers",
       "parameter-server",
       "digits-cnn",
       "local-nodes",
       {{"nodes", "3"}},
       3,
       [](auto& p) {
         measured(p);
         p.speeds = {1.5, 0.7, 2.5, 0.4};
       }},
      {"measured devices, servers on processors",
       "parameter-server",
       "lenet5",
       "2080ti-pcie-4x",
       {},
       2,
       measured_apart},
      {"measured devices, servers on devices",
       "parameter-server:server=gpu,mode=async",
       "lenet5",
       "2080ti-pcie-4x",
       {},
       3,
       measured_apart},
      {"measured devices, several nodes",
       "allreduce",
       "lenet5",
       "hkbu-10gbe",
       {},
       2,
       [](auto& p) {
         measured_apart(p);
         p.speeds = {1.5, 0.7, 2.5, 0.4};
       }},
      {"measured devices, a tree",
       "allreduce:algorithm=tree",
       "lenet5",
       "2080ti-pcie-4x",
       {},
       4,
       measured_apart},
      {"measured costs, nodes of several", "allreduce", "lenet5", "local", {}, 128, measured},
      {"a master's memory",
       "pytorch-dataparallel",
       "transformer-tiny",
       "v100-pcie-8x",
       {},
       4,
       [](auto& p) { trained_with(p, Precision::fp16, "adam"); }},
      {"a master's memory with a fused loss",
       "pytorch-dataparallel",
       "transformer-tiny",
       "v100-pcie-8x",
       {},
       4,
       [](auto& p) {
         trained_with(p, Precision::fp16, "sgd");
         p.memory = {{"loss", "fused"}, {"logits", "dropped"}, {"gradients", "zeroed"}};
       }},
      {"2-byte parameters only",
       "zero:stage=2,accumulate=2",
       "transformer-tiny",
       "dgx-a100",
       {},
       4,
       [](auto& p) {
         trained_with(p, Precision::bf16, "adam");
         p.memory = {{"weights", "half"}, {"loss", "sum"}, {"update", "foreach"}};
       }},
      {"a master copy",
       "allreduce:accumulate=2",
       "transformer-tiny",
       "dgx-a100",
       {},
       4,
       [](auto& p) {
         trained_with(p, Precision::bf16, "adamw");
         p.job.recompute = {.blocks = true};
         p.memory = {{"weights", "master"}, {"buckets", "views"}, {"update", "foreach"}, {"logits", "fp32"}};
       }},
      {"attention in eager operations",
       "pytorch-ddp",
       "gnmt",
       "dgx1-v100",
       {},
       2,
       [](auto& p) {
         trained_with(p, Precision::fp16, "adam");
         p.job.batch = 1;
       }},
      {"does not fit on one",
       "allreduce",
       "bert-large",
       "2080ti-pcie-8x",
       {},
       1,
       [](auto& p) { p.job.batch = 64; }},
      {"does not fit on any",
       "zero:stage=1",
       "gpt2-large",
       "2080ti-pcie-8x",
       {},
       4,
       [](auto& p) {
         trained_with(p, Precision::fp16, "adam");
         p.job.batch = 16;
       }},
      {"not a precision of the device",
       "allreduce",
       "lenet5",
       "titan-xp-pcie-4x",
       {},
       1,
       [](auto& p) { p.job.precision = Precision::fp8; }},
      {"a shared storage",
       "allreduce",
       "lenet5",
       "hkbu-ipoib",
       {{"host.shared_storage", "1MB/s"}},
       8,
       [](auto& p) { p.job.input = true; }},
      {"too many to share alike",
       "parameter-server:mode=async",
       "digits-mlp",
       "infiniband-cluster",
       {{"nodes", "40"}},
       320,
       [](auto& p) { p.iterations = 4; }},
  };
}

std::string of_memory(const RoleMemory& role) {
  const MemoryUse& m = role.memory;
  return fmt::format("  memory of {} x{}: {} {} {} {} {} {} reserved {} seen {} of {}\n", role.role,
                     role.devices, m.parameters.n, m.gradients.n, m.optimizer.n, m.activations.n,
                     m.workspace.n, m.buffers.n, m.reserved.n, m.nvidia_smi.n, m.capacity.n);
}

std::string named(const char* what, const std::vector<NamedShare>& shares) {
  std::string out;
  for (const auto& [name, share] : shares) out += fmt::format("  {} {} {:.5g}\n", what, name, share);
  return out;
}

std::string of_times(const Report& r) {
  const TimeShare& t = r.time.share;
  std::string out =
      fmt::format("  rate {:.7g} [{:.7g}, {:.7g}] step {:.6g} {:.6g} {:.6g} speedup {:.6g} of {}\n",
                  r.rate.samples_per_second, r.rate.interval.low, r.rate.interval.high, r.iteration.p05,
                  r.iteration.median, r.iteration.p95, r.scaling.speedup, r.scaling.base_devices);
  out += fmt::format("  shares {:.5g} {:.5g} {:.5g} {:.5g} {:.5g} {:.5g} {:.5g} slowed {:.5g}\n", t.compute,
                     t.launch, t.exposed_communication, t.waiting, t.server, t.input, t.idle, r.time.slowed);
  out += named("exposed", r.time.communication_kinds) + named("waits for", r.time.waiting_for);
  for (const KernelShare& k : r.time.kernels)
    out += fmt::format("  {} {:.5g} {} {:.5g}\n", k.kind, k.share, k.heaviest_pass, k.heaviest);
  return out;
}

std::string told(const Report& r) {
  std::string out = " ";
  for (const auto& [key, value] : r.setup.inputs)
    if (key != "profile") out += fmt::format(" {}={}", key, value);
  out += '\n';
  if (r.fits) out += of_times(r);
  for (const RoleMemory& m : r.memory_by_role) out += of_memory(m);
  if (r.staleness.all.count() > 0)
    out += fmt::format("  stale {:.6g} of {}\n", r.staleness.all.mean(), r.staleness.all.count());
  for (const Histogram& h : r.staleness.by_worker) out += fmt::format(" {:.5g}", h.mean());
  if (!r.staleness.by_worker.empty()) out += '\n';
  for (const ErrorSource& e : r.rate.errors) {
    std::string source = e.source;  // wherever the tree is
    if (const std::size_t at = source.find(TANDEM_ROOT "/"); at != std::string::npos)
      source.erase(at, sizeof(TANDEM_ROOT));
    out += fmt::format("  error {:.5g} {}\n", e.sigma, source);
  }
  out += fmt::format("  {} links, {} groups, busiest {}\n", r.network.links.size(), r.network.groups.size(),
                     r.network.busiest.name);
  for (std::size_t i = 0; i < std::min<std::size_t>(r.network.links.size(), 8); ++i)
    out += fmt::format("  link {} {:.5g} {}\n", r.network.links[i].name, r.network.links[i].busy,
                       r.network.links[i].bytes.n);
  for (const std::string& e : r.basis.extrapolates) out += fmt::format("  extrapolates: {}\n", e);
  for (const std::string& n : r.notes) out += fmt::format("  note: {}\n", n);
  return out + fmt::format("  {} in {} events: {}\n", r.evaluation.evaluator, r.evaluation.events,
                           r.evaluation.reason);
}

std::string predicted(const Setting& s) {
  const Graph graph = Graph::load(s.model);
  const System system = System::load(s.system, s.sets);
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  Request p = prediction_of(graph, system, scheme, s.devices, 8);
  s.change(p);
  const Report report = simulate(p);
  if (report.fits) return told(report);
  const auto remedies = sim::remedies(p, report.memory, resolve_scheme("zero:stage=3", {}));
  return told(report) + "  " + fit_text(p, report.memory, remedies) + '\n';
}

/// The indented lines below `title`.
std::string recorded_under(const std::string& all, const std::string& title) {
  const auto at = ("\n" + all).find("\n" + title + "\n");
  if (at == std::string::npos) return "nothing";
  std::size_t end = at + title.size() + 1;
  const std::size_t begin = end;
  while (end < all.size() && all[end] == ' ') end = all.find('\n', end) + 1;
  return all.substr(begin, end - begin);
}

TEST(Settings, PredictionsAreAsRecorded) {
  const std::string path = TANDEM_ROOT "/tests/golden/predictions/settings.txt";
  const std::string recorded = read_file(path);
  const bool updates = std::getenv("TANDEM_UPDATE_GOLDENS") != nullptr;
  std::string now;
  for (const Setting& s : settings()) {
    const std::string title =
        fmt::format("{}: {} {} on {} x{}", s.name, s.scheme, s.model, s.system, s.devices);
    std::string text;
    try {
      text = predicted(s);
    } catch (const InputError& e) {
      text = fmt::format("  refused: {}\n", e.what());
    }
    now += title + '\n' + text;
    if (updates) continue;
    EXPECT_EQ(recorded_under(recorded, title), text)
        << title << ": rewrite with TANDEM_UPDATE_GOLDENS=1 and explain the change";
  }
  if (updates) write_file(path, now);
}

/// "GH200" has another's model number in it, and is another model.
TEST(Settings, KernelsOfAnotherModelSaySo) {
  const auto notes_on = [&](const std::string& model) {
    std::string text = read_file(TANDEM_ROOT "/topologies/systems/hgx-h200.json");
    const std::string own = "h200-sxm";
    text.replace(text.find(own), own.size(), model);
    const System system = System::from_json(Json::parse(text, model));
    const Graph graph = Graph::load("lenet5");
    const ResolvedScheme scheme = resolve_scheme("allreduce", {});
    Request p = prediction_of(graph, system, scheme, 2, 8);
    p.profile = "h200";
    const std::vector<std::string> all = simulate(p).basis.extrapolates;
    return std::count_if(all.begin(), all.end(), [](const std::string& note) {
      return note.find("measured on h200-sxm") != std::string::npos;
    });
  };
  EXPECT_EQ(notes_on("h200-sxm"), 0);
  EXPECT_EQ(notes_on("gh200"), 1);
  EXPECT_EQ(notes_on("h100-sxm"), 1);
}

}  // namespace
}  // namespace tandem::tests
