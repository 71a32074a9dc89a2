// SPDX-License-Identifier: Apache-2.0
#include "answers/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "models/description.h"
#include "schemes/step/model_cuts.h"

namespace tandem::answers {

namespace {

constexpr int64_t kMostMicroBatches = 4096;  // the most that a scheme accepts
/// Each device of ring attention keeps at least this many tokens of a sequence.
constexpr int64_t kLeastTokens = 4096;
/// Largest number of devices on which servers and a master are tried.
constexpr int64_t kMostServed = 64;
/// On more devices every replica updates only its shard.
constexpr int64_t kMostWhole = 64;
/// A device gets no more tokens at once than this, which would not be faster, unless it has a single sample.
constexpr int64_t kMostTokens = 32768;
/// The most stages that may have unequal numbers of blocks.
constexpr int64_t kMostUnequal = 8;
const Place kNowhere{};

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> out;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    out.push_back(d);
    if (d * d != n) out.push_back(n / d);
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// A scheme as it was asked for, and which of its options are free.
class Family {
 public:
  explicit Family(const std::string& text) : text_(text), resolved_(resolve_scheme(text, kNowhere)) {
    for (const auto& [key, value] : parse_selection(text, kNowhere).settings) said_.insert(key);
    for (const OptionSpec& spec : resolved_.scheme->options) {
      if (resolved_.options.text(spec.name) != spec.fallback) said_.insert(std::string(spec.name));
    }
  }
  bool has(std::string_view option) const {
    const auto& specs = resolved_.scheme->options;
    return std::any_of(specs.begin(), specs.end(), [&](const OptionSpec& s) { return s.name == option; });
  }
  bool open(std::string_view option) const { return has(option) && said_.count(std::string(option)) == 0; }
  int64_t count(std::string_view option) const { return has(option) ? resolved_.options.count(option) : 1; }
  std::string option(std::string_view name) const { return has(name) ? resolved_.options.text(name) : ""; }
  bool preset() const { return resolved_.name != resolved_.scheme->name; }
  std::string_view scheme() const { return resolved_.scheme->name; }
  /// Together the devices hold the model, whatever their number.
  bool one_replica() const {
    return resolved_.scheme->pipeline != nullptr && resolved_.scheme->replica_devices == nullptr;
  }
  std::string with(const std::string& settings) const { return with_settings(text_, settings); }

 private:
  std::string text_;
  ResolvedScheme resolved_;
  std::set<std::string> said_;
};

/// The ways to divide the model, each computed once.
class Divisions {
 public:
  explicit Divisions(const Graph& graph) : graph_(graph), blocks_(repeated(graph)) {
    most_ = blocks_ > 1 ? blocks_ : static_cast<int64_t>(graph.layers().size());
  }
  bool tensor(int64_t n) {
    return known(tensor_, n, [&] { graph_.slice({.ways = static_cast<int32_t>(n)}); });
  }
  bool stages(int64_t n) { return n == 1 || (n <= most_ && level(n) && divides_into(graph_, n)); }
  bool experts(int64_t n) {
    if (graph_.dealt_elements() == 0) return n == 1;
    return known(experts_, n, [&] { graph_.slice({.experts = static_cast<int32_t>(n)}); });
  }
  bool context(int64_t n) {
    if (n > 1 && graph_.tokens_per_sample() < kLeastTokens * n) return false;
    return known(context_, n, [&] { graph_.slice({.context = static_cast<int32_t>(n)}); });
  }

 private:
  /// A stage has at least a block of a model that repeats one.
  static int64_t repeated(const Graph& graph) {
    std::set<std::string_view> blocks;
    for (const Layer& layer : graph.layers()) blocks.insert(block_of(layer));
    blocks.erase("");
    return static_cast<int64_t>(blocks.size());
  }
  /// Many stages have equally many blocks, the input and output layers counting as one or not.
  bool level(int64_t n) const {
    return n <= kMostUnequal || blocks_ <= 1 || blocks_ % n == 0 || (blocks_ + 1) % n == 0 ||
           (blocks_ + 2) % n == 0;
  }
  template <typename Try>
  static bool known(std::map<int64_t, bool>& answers, int64_t n, Try attempt) {
    if (n == 1) return true;
    const auto at = answers.find(n);
    if (at != answers.end()) return at->second;
    bool can = true;
    try {
      attempt();
    } catch (const InputError&) {
      can = false;
    }
    return answers[n] = can;
  }
  const Graph& graph_;
  int64_t blocks_, most_;  ///< of stages
  std::map<int64_t, bool> tensor_, experts_, context_;
};

/// One family's candidates, with settings and what they stand for.
class Enumeration {
 public:
  Enumeration(const Space& space, std::size_t family, Divisions& divisions, std::vector<Candidate>& out)
      : space_(space),
        family_(space.schemes[family]),
        number_(family),
        divisions_(divisions),
        per_node_(static_cast<int64_t>(space.system->accelerators().size())),
        out_(out) {}

  void of(int64_t devices) {
    Candidate c;
    c.family = number_;
    c.devices = devices;
    if (devices > kMostServed && served()) return;
    if (devices == 1 && as_one_does()) return;
    if (family_.has("tensor") && family_.has("pipeline")) return grids(c);
    c.replicas = family_.one_replica() ? 1 : devices;
    if (family_.scheme() == "zero") return stages_of_zero(c);
    if (family_.scheme() == "tensor-parallel") c.tensor = devices;
    if (family_.scheme() == "pipeline" || family_.scheme() == "layer-split") c.pipeline = devices;
    if (!divisions_.tensor(c.tensor) || !divisions_.stages(c.pipeline)) return;
    micro_batches(c, "");
  }

 private:
  std::vector<int64_t> sizes(std::string_view axis, int64_t devices) const {
    if (!family_.open(axis)) return {family_.count(axis)};
    return divisors(devices);
  }

  /// On one device the scheme equals all-reduce, which is tried too.
  bool as_one_does() const {
    const auto& all = space_.schemes;
    if (std::find(all.begin(), all.end(), "allreduce") == all.end()) return false;
    return served() || family_.scheme() == "one-weird-trick" || family_.scheme() == "hybrid";
  }

  bool served() const {
    return family_.scheme() == "parameter-server" || family_.scheme() == "data-parallel-master";
  }

  void grids(Candidate c) {
    for (const int64_t t : sizes("tensor", c.devices)) {
      if ((t > per_node_ && family_.open("tensor")) || !divisions_.tensor(t)) continue;
      for (const int64_t e : sizes("expert", c.devices)) {
        if (!divisions_.experts(e)) continue;
        for (const int64_t k : sizes("context", c.devices)) {
          if (c.devices % (t * e * k) != 0 || !divisions_.context(k)) continue;
          for (const int64_t p : sizes("pipeline", c.devices / (t * e * k))) {
            if (c.devices % (t * e * k * p) != 0 || !divisions_.stages(p)) continue;
            c.tensor = t, c.expert = e, c.context = k, c.pipeline = p;
            grid(c);
          }
        }
      }
    }
  }

  void grid(Candidate c) {
    const int64_t held = c.tensor * c.pipeline * c.expert * c.context;
    c.replicas = c.devices / held * c.expert;
    if (family_.has("data") && !family_.open("data") && family_.count("data") * held != c.devices) return;
    // Pure data parallelism is a separate scheme.
    const bool plain = space_.schemes[number_] == "hybrid" &&
                       std::count(space_.schemes.begin(), space_.schemes.end(), "allreduce") > 0;
    if (plain && held == 1) return;
    std::string axes;
    for (const auto& [name, size] : {std::pair{"tensor", c.tensor}, std::pair{"pipeline", c.pipeline},
                                     std::pair{"expert", c.expert}, std::pair{"context", c.context}}) {
      if (size > 1 && family_.open(name)) add(axes, fmt::format("{}={}", name, size));
    }
    const bool sequence = c.tensor > 1 && family_.open("sequence") && space_.graph->tokens_per_sample() > 0;
    if (sequence) add(axes, "sequence=on");
    c.stage_scheme = fmt::format(
        "tensor={},expert={},context={},pipeline=1,data=1,schedule=1f1b,chunks=0,sharding=none,overlap=off{}",
        c.tensor, c.expert, c.context, sequence ? ",sequence=on" : "");
    for (const std::string& sharding : shardings(c)) {
      c.sharding = sharding[0] == 'n' || sharding.empty() ? 0 : sharding[0] - '0';
      std::string settings = axes;
      if (family_.open("sharding") && c.sharding > 0) add(settings, "sharding=" + sharding);
      schedules(c, settings);
    }
  }

  /// "1", or "3,sharding-group=node"; the given value if there is one.
  std::vector<std::string> shardings(const Candidate& c) const {
    if (!family_.open("sharding")) return {family_.option("sharding")};
    if (c.replicas * c.context == 1) return {"none"};
    std::vector<std::string> out = {"none", "1"};
    if (c.devices > kMostWhole) out = {"1"};
    if (c.pipeline > 1) return out;
    out.push_back("3");
    if (c.devices > per_node_ && family_.open("sharding-group")) out.push_back("3,sharding-group=node");
    return out;
  }

  void schedules(Candidate c, const std::string& settings) {
    if (c.pipeline == 1 || !family_.open("schedule") || !family_.open("chunks")) {
      c.chunks = family_.has("chunks") ? std::max<int64_t>(1, family_.count("chunks")) : 1;
      if (c.pipeline > 1 && family_.option("schedule") == "interleaved" && c.chunks == 1) c.chunks = 2;
      c.zero_bubble = family_.option("schedule") == "zero-bubble";
      return micro_batches(c, settings);
    }
    micro_batches(c, settings);
    for (const int64_t chunks : {2, 4}) {
      if (!divisions_.stages(c.pipeline * chunks)) continue;
      c.chunks = chunks;
      micro_batches(c, joined(settings, fmt::format("schedule=interleaved,chunks={}", chunks)));
    }
    c.chunks = 1;
    c.zero_bubble = true;
    micro_batches(c, joined(settings, "schedule=zero-bubble"));
  }

  void stages_of_zero(Candidate c) {
    if (!family_.open("stage") || family_.preset()) {
      c.sharding = family_.count("stage");
      return micro_batches(c, "");
    }
    for (const int64_t stage : {1, 2, 3}) {
      c.sharding = stage;
      micro_batches(c, fmt::format("stage={}", stage));
    }
  }

  /// All samples of a replica at once, or equal micro-batches, a power of two in number.
  void micro_batches(Candidate c, const std::string& settings) {
    if (space_.samples % c.replicas != 0) return;
    const int64_t each = space_.samples / c.replicas;
    const std::string_view option = family_.has("microbatches") ? "microbatches" : "accumulate";
    const int64_t said = family_.has(option) && !family_.open(option) ? family_.count(option) : 0;
    for (const int64_t m : divisors(each)) {
      if (m > kMostMicroBatches || (m > 1 && !family_.has(option))) break;
      if (m > 1 && !std::has_single_bit(static_cast<uint64_t>(each / m))) continue;
      if (said > 0 && m != said) continue;
      if (c.chunks > 1 && m % c.pipeline != 0) continue;
      if (c.pipeline > 1 && m < std::min(c.pipeline, each)) continue;  // some stages would be idle
      c.micro_batches = m;
      c.batch = each / m;
      if (c.devices > kMostWhole && c.batch > 1 && c.batch * space_.graph->tokens_per_sample() > kMostTokens)
        continue;
      const bool names = family_.open(option) && (m > 1 || option == "microbatches");
      emit(c, names ? joined(settings, fmt::format("{}={}", option, m)) : settings);
    }
  }

  void emit(Candidate c, const std::string& settings) {
    c.scheme = family_.with(settings);
    std::string stage = c.stage_scheme;
    if (family_.has("microbatches")) add(stage, "microbatches=1");
    c.stage_scheme = family_.with(stage);
    for (const Precision precision : space_.precisions) {
      c.precision = precision;
      out_.push_back(c);
    }
  }

  static void add(std::string& settings, const std::string& more) { settings = joined(settings, more); }
  static std::string joined(const std::string& settings, const std::string& more) {
    return settings.empty() ? more : settings + "," + more;
  }

  const Space& space_;
  Family family_;
  std::size_t number_;
  Divisions& divisions_;
  int64_t per_node_;
  std::vector<Candidate>& out_;
};

/// All and fewer of one node, whole nodes, and all.
std::vector<int64_t> device_counts(const Space& space) {
  const auto per_node = static_cast<int64_t>(space.system->accelerators().size());
  std::set<int64_t> out = {space.devices};
  if (space.all) return {space.devices};
  for (int64_t n = 1; n <= std::min(per_node, space.devices); ++n) out.insert(n);
  for (int64_t n = per_node; n <= space.devices; n += per_node) out.insert(n);
  return {out.begin(), out.end()};
}

}  // namespace

const std::vector<std::string>& exact_schemes() {
  static const std::vector<std::string> schemes = {
      "allreduce", "zero", "hybrid", "one-weird-trick", "parameter-server:mode=sync", "data-parallel-master"};
  return schemes;
}

bool learns_as_one(const ResolvedScheme& scheme) {
  const std::string_view name = scheme.scheme->name;
  if (name == "parameter-server") return scheme.options.text("mode") == "sync";
  static const std::set<std::string_view> exact = {
      "allreduce", "zero",        "hybrid",          "one-weird-trick",
      "pipeline",  "layer-split", "tensor-parallel", "data-parallel-master"};
  return exact.count(name) != 0;
}

std::vector<Precision> usual_precisions(const System& system) {
  const Device& device = system.device(system.accelerator(0));
  const double plain = device.product_peak(Precision::fp32).flops_per_second;
  const auto faster = [&](Precision p) { return device.peak_at(p).flops_per_second > 1.2 * plain; };
  std::vector<Precision> out = {Precision::fp32};
  if (faster(Precision::tf32)) out.push_back(Precision::tf32);
  if (faster(Precision::bf16)) {
    out.push_back(Precision::bf16);
  } else if (faster(Precision::fp16)) {
    out.push_back(Precision::fp16);
  }
  return out;
}

std::string Candidate::split() const {
  return fmt::format("{} {} {} {} {} {} {} {} {} {}", family, tensor, pipeline, expert, context, chunks,
                     sharding, zero_bubble, name(precision),
                     scheme.find("sharding-group=node") != std::string::npos);
}

std::string Candidate::shape() const {
  return fmt::format("{} {} {} {} {} {}", family, devices, tensor, pipeline, expert, context);
}

std::vector<Candidate> candidates(const Space& space) {
  std::vector<Candidate> out;
  Divisions divisions(*space.graph);
  const std::vector<int64_t> counts = device_counts(space);
  for (std::size_t family = 0; family < space.schemes.size(); ++family) {
    Enumeration enumeration(space, family, divisions, out);
    for (const int64_t devices : counts) enumeration.of(devices);
  }
  return out;
}

}  // namespace tandem::answers
