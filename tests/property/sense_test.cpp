// SPDX-License-Identifier: Apache-2.0
// Plain questions whose answers common sense knows. Each rule is tried on questions drawn from fixed seeds; a
// rule returns how an answer offends it, or nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "answers/elasticity.h"
#include "answers/failures.h"
#include "answers/progress.h"
#include "base/json.h"
#include "models/adapter.h"
#include "models/optimizer.h"
#include "sim/bound/placement.h"
#include "sim/simulation.h"
#include "tests/property/questions.h"

namespace tandem::tests {
namespace {

constexpr uint64_t kSeeds[] = {1, 2, 3};

double rate(const Report* r) { return r == nullptr ? 0 : r->rate.samples_per_second; }

Asked with(Asked a, const std::string& option) {
  a.scheme += (a.scheme.find(':') == std::string::npos ? ":" : ",") + option;
  return a;
}

Asked on(Asked a, int64_t devices) {
  a.devices = devices;
  return a;
}

/// "1.23 times <what>" unless `after` is at least `factor` times `before`; nothing where either is missing.
std::string less(const char* what, double after, double before, double factor) {
  if (after <= 0 || before <= 0 || after >= factor * before) return "";
  return fmt::format("{}: {:.3f} times", what, after / before);
}

struct Rule {
  const char* name;
  std::string (*broken)(Answers&, const Asked&);
};

std::ostream& operator<<(std::ostream& out, const Rule& rule) { return out << rule.name; }

// --- what a report says of itself
// -----------------------------------------------------------------------------

std::string SharesAddUpToOne(Answers& answers, const Asked& a) {
  const Report* r = answers.ask(a);
  if (r == nullptr) return "";
  const Json document = Json::parse(reports_to_json({*r}, true), "report");
  double sum = 0;
  for (const auto& [key, share] : document.at("reports").items()[0].at("time_share").members()) {
    if (share.as_real() < 0) return key + " is below 0";
    sum += share.as_real();
  }
  return std::abs(sum - 1) < 1e-6 ? "" : fmt::format("shares add up to {}", sum);
}

std::string RateLiesInItsInterval(Answers& answers, const Asked& a) {
  const Report* r = answers.ask(a);
  if (r == nullptr) return "";
  const bool inside = 0 < r->rate.interval.low && r->rate.interval.low <= r->rate.samples_per_second &&
                      r->rate.samples_per_second <= r->rate.interval.high &&
                      std::isfinite(r->rate.interval.high);
  return inside ? "" : "the rate lies outside its interval";
}

std::string RateIsSamplesOverSeconds(Answers& answers, const Asked& a) {
  const Report* r = answers.ask(a);
  if (r == nullptr) return "";
  const double ratio =
      r->rate.samples_per_second * r->iteration.median / static_cast<double>(r->setup.samples_per_iteration);
  return ratio > 0.97 && ratio < 1.03 ? "" : fmt::format("rate and median step differ by {:.3f}", ratio);
}

std::string SpeedupIsAgainstItsBase(Answers& answers, const Asked& a) {
  const Report* r = answers.ask(a);
  const Report* base = r == nullptr ? nullptr : answers.ask(on(a, r->scaling.base_devices));
  if (base == nullptr) return r == nullptr ? "" : "the base does not hold the model";
  const double ratio = rate(r) / rate(base) / r->scaling.speedup;
  return std::abs(ratio - 1) < 1e-9 ? "" : fmt::format("speed-up is off by {:.6f}", ratio);
}

std::string SeedsHardlyMatter(Answers& answers, const Asked& a) {
  Asked other = a;
  other.seed = 7;
  const double ratio = rate(answers.ask(other)) / rate(answers.ask(a));
  return !(ratio > 0) || (ratio > 0.95 && ratio < 1.05) ? ""
                                                        : fmt::format("another seed: {:.3f} times", ratio);
}

/// A step is as long after a hundred as after ten: nothing that only its first ones find is counted.
std::string LongerSimulationsTellTheSame(Answers& answers, const Asked& a) {
  Asked longer = a;
  longer.iterations = 100;
  const double ratio = rate(answers.ask(longer)) / rate(answers.ask(a));
  return !(ratio > 0) || (ratio > 0.985 && ratio < 1.015)
             ? ""
             : fmt::format("a hundred iterations: {:.3f} times", ratio);
}

// --- more of a machine never hurts
// ----------------------------------------------------------------------------

std::string WiderLinksNeverSlow(Answers& answers, const Asked& a) {
  const double before = rate(answers.ask(a));
  const Json links = System::document(a.system, a.sets).at("links");
  for (const auto& [kind, spec] : links.members()) {
    const double now = spec.at("bandwidth").as_bandwidth().bytes_per_second;
    Asked wide = a;
    wide.sets.emplace_back("links." + kind + ".bandwidth", fmt::format("{:.17g}B/s", 3 * now));
    if (const auto text =
            less(("three times the " + kind + " bandwidth").c_str(), rate(answers.ask(wide)), before, 0.995);
        !text.empty())
      return text;
  }
  return "";
}

std::string FasterKernelsNeverSlow(Answers& answers, const Asked& a) {
  Asked fast = a;
  fast.compute_speed = 2;
  return less("kernels twice as fast", rate(answers.ask(fast)), rate(answers.ask(a)), 0.999);
}

std::string TwiceTheKernelSpeedGivesAtMostTwice(Answers& answers, const Asked& a) {
  Asked fast = a;
  fast.compute_speed = 2;
  return less("half the kernel speed", rate(answers.ask(a)), rate(answers.ask(fast)), 0.4999);
}

/// Bandwidth, kernels, storage and cores twice as fast, latencies as they are.
std::string TwiceTheMachineGivesMoreAndAtMostTwice(Answers& answers, const Asked& a) {
  Asked twice = a;
  twice.compute_speed = 2;
  const Json document = System::document(a.system, a.sets);
  for (const auto& [kind, spec] : document.at("links").members())
    twice.sets.emplace_back(
        "links." + kind + ".bandwidth",
        fmt::format("{:.17g}B/s", 2 * spec.at("bandwidth").as_bandwidth().bytes_per_second));
  const Json* host = document.find("host");
  if (host == nullptr || host->find("local_storage") == nullptr) return "";
  twice.sets.emplace_back(
      "host.local_storage",
      fmt::format("{:.17g}B/s", 2 * host->at("local_storage").as_bandwidth().bytes_per_second));
  twice.sets.emplace_back("host.core_speed", fmt::format("{:.17g}", 2 * host->real("core_speed", 1)));
  const double ratio = rate(answers.ask(twice)) / rate(answers.ask(a));
  return !(ratio > 0) || (ratio > 1 && ratio < 2.001) ? ""
                                                      : fmt::format("twice of everything: {:.3f}", ratio);
}

/// Without servers: there a slow worker's messages leave the link to the others'.
std::string SlowDevicesNeverHelp(Answers& answers, const Asked& a) {
  if (a.scheme == "parameter-server" || a.scheme == "mxnet-device") return "";
  Asked slow = a;
  slow.sets.emplace_back("faults.gpu1", "0.7");
  return less("without a slow device", rate(answers.ask(a)), rate(answers.ask(slow)), 0.999);
}

// --- less work never hurts
// ------------------------------------------------------------------------------------

std::string InputThatIsThereNeverSlows(Answers& answers, const Asked& a) {
  Asked there = a;
  there.input = false;
  return less("synthetic input", rate(answers.ask(there)), rate(answers.ask(a)), 0.999);
}

/// Peaks that tell nothing apart: an allocator rounds, and buckets that form with time differ with the
/// devices.
bool more(const Report& a, const Report& b) {
  return static_cast<double>(a.memory.total().n) > 1.05 * static_cast<double>(b.memory.total().n);
}

std::string RecomputationCostsTimeAndSavesMemory(Answers& answers, const Asked& a) {
  Asked again = a;
  again.recompute = true;
  const Report *keeps = answers.ask_memory(a), *makes = answers.ask_memory(again);
  if (keeps == nullptr || makes == nullptr) return "";
  if (more(*makes, *keeps)) return "recomputation needs more memory";
  return less("keeping activations", rate(answers.ask(a)), rate(answers.ask(again)), 0.999);
}

std::string OffloadingTheOptimizerSavesMemory(Answers& answers, const Asked& a) {
  Asked offloaded = a;
  offloaded.offload = {.optimizer = true};
  const Report *device = answers.ask_memory(a), *host = answers.ask_memory(offloaded);
  if (device == nullptr || host == nullptr) return "";
  if (more(*host, *device)) return "a device needs more memory for what is not on it";
  return host->memory.host > Bytes{} ? "" : "what is offloaded is nowhere";
}

/// What stays of a model's states in the memory of a host is no more than that has.
std::string HostsHoldWhatTheyHave(Answers& answers, const Asked& a) {
  if (answers.ask(on(a, 1)) == nullptr) return "";
  Asked large = a;
  large.model = a.batch % 2 == 0 ? "llama3-70b:sequence=1024" : "llama2-70b:sequence=1024";
  large.system = "workstation-2x";
  large.sets = {{"device", a.precision == Precision::fp16 ? "rtx-4090" : "rtx-5090"}};
  large.scheme = "deepspeed-zero3";
  large.optimizer = "adamw";
  large.precision = Precision::bf16;
  large.batch = 1;
  large.devices = 2;
  large.recompute = true;
  large.offload = {.optimizer = true, .gradients = true, .parameters = true};
  const Report* r = answers.ask_memory(large);
  return r != nullptr && r->fits ? "a terabyte of states fits a workstation's host" : "";
}

std::string CompiledModelsKeepLess(Answers& answers, const Asked& a) {
  Asked eager = a;
  eager.model = a.batch % 2 == 0 ? "llama2-7b:sequence=1024" : "llama2-7b:sequence=2048";
  eager.system = "dgx-h100";
  eager.scheme = "pytorch-fsdp";
  eager.optimizer = "adamw";
  eager.precision = Precision::bf16;
  eager.batch = 1;
  eager.devices = 8;
  eager.recipe = "pytorch";
  Asked compiled = eager;
  compiled.recipe = "pytorch-compiled";
  const Report *much = answers.ask_memory(eager), *little = answers.ask_memory(compiled);
  if (much == nullptr || little == nullptr) return "";
  return static_cast<double>(little->memory.activations.n) <
                 0.9 * static_cast<double>(much->memory.activations.n)
             ? ""
             : "a compiled model keeps as many activations";
}

// --- more samples, more devices
// -------------------------------------------------------------------------------

std::string MoreSamplesADeviceNeverLowerTheRate(Answers& answers, const Asked& a) {
  Asked twice = on(a, 1);
  twice.batch *= 2;
  return less("twice the samples", rate(answers.ask(twice)), rate(answers.ask(on(a, 1))), 0.97);
}

std::string MemoryGrowsWithTheBatch(Answers& answers, const Asked& a) {
  Asked twice = a;
  twice.batch *= 2;
  const Report *small = answers.ask_memory(a), *large = answers.ask_memory(twice);
  if (small == nullptr || large == nullptr) return "";
  return large->memory.total() > small->memory.total() ? "" : "twice the samples need no more memory";
}

std::string MemoryNeverGrowsWithTheDevices(Answers& answers, const Asked& a) {
  const Report *few = answers.ask_memory(on(a, 2)), *many = answers.ask_memory(on(a, 8));
  if (few == nullptr || many == nullptr) return "";
  return more(*many, *few) ? "8 devices hold more each than 2" : "";
}

std::string ShardingNeverNeedsMoreMemory(Answers& answers, const Asked& a) {
  Asked copies = a;
  copies.scheme = "allreduce";
  const Report* whole = answers.ask_memory(copies);
  // Stage 3 holds two gathered units: more than it saves on two devices where one layer is most of the model.
  for (const char* scheme : {"zero:stage=1", "zero:stage=2", "zero:stage=3"}) {
    if (std::string_view(scheme) == "zero:stage=3" && (a.model == "vgg16" || a.model == "alexnet")) continue;
    Asked sharded = a;
    sharded.scheme = scheme;
    const Report* r = answers.ask_memory(sharded);
    if (r == nullptr || whole == nullptr) continue;
    if (static_cast<double>(r->memory.total().n) > 1.02 * static_cast<double>(whole->memory.total().n))
      return fmt::format("{} needs more than copies", scheme);
  }
  return "";
}

/// Where the rate falls, the report must name something other than the devices.
std::string MoreDevicesLoseOnlyToCommunication(Answers& answers, const Asked& a) {
  Asked all = a;
  all.scheme = "allreduce";
  const Report *few = answers.ask(on(all, 4)), *many = answers.ask(on(all, 8));
  if (few == nullptr || many == nullptr || rate(many) >= rate(few)) return "";
  const bool stated = many->bottleneck.resource.rfind("compute", 0) != 0;
  return stated ? ""
                : fmt::format("8 devices give {:.3f} of 4, bound by {}", rate(many) / rate(few),
                              many->bottleneck.resource);
}

/// Without servers: a second node's take work off the first one's links too.
std::string SecondNodesNeverMoreThanDouble(Answers& answers, const Asked& a) {
  if (a.scheme == "parameter-server" || a.scheme == "mxnet-device") return "";
  Asked two = on(a, 16);
  two.sets.emplace_back("nodes", "2");
  return less("half of two nodes", rate(answers.ask(on(a, 8))), rate(answers.ask(two)), 1 / 2.04);
}

/// What a port drops costs time, and the less it holds the more.
std::string DeeperBuffersNeverSlow(Answers& answers, const Asked& a) {
  Asked whole = on(a, 16);
  whole.system = "ethernet-cluster";
  whole.scheme = "parameter-server";
  whole.sets = {{"nodes", "4"}};
  Asked deep = whole, shallow = whole;
  deep.sets.insert(deep.sets.end(), {{"network.transport.loss", "tcp"}, {"network.transport.buffer", "1MB"}});
  shallow.sets.insert(shallow.sets.end(),
                      {{"network.transport.loss", "tcp"}, {"network.transport.buffer", "32KB"}});
  const double most = rate(answers.ask(whole)), less_lost = rate(answers.ask(deep));
  const std::string text = less("nothing lost", most, less_lost, 0.9999);
  return text.empty() ? less("1 MB of buffer beside 32 KB", less_lost, rate(answers.ask(shallow)), 0.9999)
                      : text;
}

// --- wait for the cost model of chip and host, and for accumulation under ZeRO
// ---------------------------------

std::string SmallerFormatsNeverSlow(Answers& answers, const Asked& a) {
  Asked half = a, full = a;
  half.precision = Precision::fp16;
  full.precision = Precision::fp32;
  // Autocast costs the host something for every operation.
  if (const Report* r = answers.ask(half); r != nullptr && r->time.share.launch > 0.02) return "";
  return less("fp16", rate(answers.ask(half)), rate(answers.ask(full)), 0.97);
}

std::string AccumulationNeverLowersTheRate(Answers& answers, const Asked& a) {
  if (a.scheme != "allreduce" && a.scheme != "pytorch-ddp" && a.scheme != "zero:stage=1") return "";
  return less("accumulate=4", rate(answers.ask(with(a, "accumulate=4"))), rate(answers.ask(a)), 0.98);
}

std::string NothingScalesBetterThanPerfectly(Answers& answers, const Asked& a) {
  return less("as many devices alone", most_samples(answers, a), rate(answers.ask(a)), 1 / 1.02);
}

std::string ShardedUpdatesSaveLittle(Answers& answers, const Asked& a) {
  Asked copies = a, sharded = a;
  copies.scheme = "allreduce";
  sharded.scheme = "zero:stage=1";
  return less("all-reduce beside ZeRO-1", rate(answers.ask(copies)), rate(answers.ask(sharded)), 1 / 1.35);
}

std::string NewerGenerationsAreNoSlower(Answers& answers, const Asked& a) {
  static const std::map<Precision, std::vector<const char*>> generations = {
      {Precision::fp16, {"p3.2xlarge", "dgx-a100", "dgx-h100"}},
      {Precision::fp32, {"dgx1-p100", "dgx1-v100"}}};
  Asked one = on(a, 1);
  one.scheme = "pytorch-ddp";
  double before = 0;
  for (const char* system : generations.at(a.precision)) {
    one.system = system;
    const double now = rate(answers.ask(one));
    if (const auto text = less(system, now, before, 0.97); !text.empty()) return text;
    before = now;
  }
  return "";
}

// --- what is beside a report
// -------------------------------------------------------------------------------------

/// As the program asks.
Question question(const Asked& a) {
  Values values;
  for (const auto& [option, value] : {std::pair<const char*, std::string>{"model", a.model},
                                      {"system", a.system},
                                      {"scheme", a.scheme},
                                      {"devices", std::to_string(a.devices)},
                                      {"batch", std::to_string(a.batch)},
                                      {"precision", std::string(name(a.precision))},
                                      {"optimizer", a.optimizer}})
    values.add(option, value);
  for (const auto& [path, value] : a.sets) values.add("set", path + "=" + value);
  return Question::read(values);
}

std::string ElasticitiesAreNotBelowZero(Answers& answers, const Asked& a) {
  const Report* r = answers.ask(a);
  if (r == nullptr || a.devices < 8) return "";  // each is some ten predictions
  Report report = *r;
  find_bottleneck(question(a), report);
  const double elasticity = report.bottleneck.elasticity.value_or(0);
  if (report.bottleneck.gain_if_unlimited.value_or(0) < 0) return "no limit to the bottleneck is a loss";
  return elasticity >= 0 ? "" : fmt::format("elasticity of {}: {}", report.bottleneck.resource, elasticity);
}

std::string TimeToATargetCountsFailures(Answers& answers, const Asked& a) {
  const Report* r = answers.ask(a);
  if (r == nullptr) return "";
  const Question q = question(a);
  const auto program = Simulation(q.request(a.devices)).program(make_cluster(q.system, a.devices));
  const ProgressQuestion target{.target = TrainingProgress::Target::samples, .value = 1e9};
  Report whole = *r, failing = *r;
  add_progress(target, q.graph, *program, whole);
  add_goodput(q, Failures{.node_mtbf = 1000 * 3600.0}, failing);
  add_progress(target, q.graph, *program, failing);
  const double longer = *failing.progress->seconds / *whole.progress->seconds, kept = failing.goodput->share;
  return kept < 1 && std::abs(longer * kept - 1) < 1e-6
             ? ""
             : fmt::format("{:.4f} of the rate, {:.4f} times as long", kept, longer);
}

std::string NamesOfNothingAreRefused(Answers& answers, const Asked& a) {
  const Graph& graph = answers.graph(a.model);
  for (const char* on : {"attention+mpl", "qvk", "fc1+nothing"}) {
    try {
      with_adapter(graph, parse_adapter(fmt::format("lora:rank=8,on={}", on), Place{}), Place{});
      return fmt::format("an adapter on {} is made", on);
    } catch (const InputError&) {
    }
  }
  return "";
}

/// Tries a rule on `questions` questions of every seed; prints every answer that offends it.
void try_rule(const Rule& rule, int questions) {
  Answers answers;
  for (const uint64_t seed : kSeeds) {
    SplitMix64 random(seed);
    for (int i = 0; i < questions; ++i) {
      const Asked asked = draw(random);
      const std::string offence = rule.broken(answers, asked);
      EXPECT_EQ(offence, "") << "seed " << seed << ": tandem predict " << asked.text();
    }
  }
  EXPECT_TRUE(answers.asked() == 0 || answers.given() > answers.asked() / 2)
      << "most questions must have an answer";
}

#define TANDEM_RULE(name) \
  Rule { #name, name }

class Sense : public testing::TestWithParam<Rule> {};
TEST_P(Sense, Holds) { try_rule(GetParam(), 15); }

const auto rule_name = [](const testing::TestParamInfo<Rule>& info) { return std::string(info.param.name); };

INSTANTIATE_TEST_SUITE_P(
    Of, Sense,
    testing::Values(TANDEM_RULE(SharesAddUpToOne), TANDEM_RULE(RateLiesInItsInterval),
                    TANDEM_RULE(RateIsSamplesOverSeconds), TANDEM_RULE(SpeedupIsAgainstItsBase),
                    TANDEM_RULE(SeedsHardlyMatter), TANDEM_RULE(LongerSimulationsTellTheSame),
                    TANDEM_RULE(HostsHoldWhatTheyHave), TANDEM_RULE(CompiledModelsKeepLess),
                    TANDEM_RULE(ElasticitiesAreNotBelowZero), TANDEM_RULE(TimeToATargetCountsFailures),
                    TANDEM_RULE(NamesOfNothingAreRefused), TANDEM_RULE(WiderLinksNeverSlow),
                    TANDEM_RULE(DeeperBuffersNeverSlow), TANDEM_RULE(FasterKernelsNeverSlow),
                    TANDEM_RULE(TwiceTheKernelSpeedGivesAtMostTwice),
                    TANDEM_RULE(TwiceTheMachineGivesMoreAndAtMostTwice), TANDEM_RULE(SlowDevicesNeverHelp),
                    TANDEM_RULE(InputThatIsThereNeverSlows),
                    TANDEM_RULE(RecomputationCostsTimeAndSavesMemory),
                    TANDEM_RULE(OffloadingTheOptimizerSavesMemory),
                    TANDEM_RULE(MoreSamplesADeviceNeverLowerTheRate), TANDEM_RULE(MemoryGrowsWithTheBatch),
                    TANDEM_RULE(MemoryNeverGrowsWithTheDevices), TANDEM_RULE(ShardingNeverNeedsMoreMemory),
                    TANDEM_RULE(MoreDevicesLoseOnlyToCommunication),
                    TANDEM_RULE(SecondNodesNeverMoreThanDouble), TANDEM_RULE(AccumulationNeverLowersTheRate),
                    TANDEM_RULE(NothingScalesBetterThanPerfectly), TANDEM_RULE(ShardedUpdatesSaveLittle),
                    TANDEM_RULE(SmallerFormatsNeverSlow), TANDEM_RULE(NewerGenerationsAreNoSlower)),
    rule_name);

}  // namespace
}  // namespace tandem::tests
