// SPDX-License-Identifier: Apache-2.0
#include "tests/property/questions.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/optimizer.h"
#include "schemes/setup/scheme.h"
#include "tests/sim/prediction.h"

namespace tandem::tests {

namespace {

struct Model {
  const char* name;
  int64_t batches[3];
};

constexpr Model kModels[] = {
    {"resnet50", {8, 32, 128}},     {"vgg16", {8, 32, 64}}, {"alexnet", {32, 128, 256}},
    {"bert-large", {2, 8, 16}},     {"gpt2", {1, 4, 8}},    {"inception3", {16, 32, 64}},
    {"mobilenet-v2", {16, 64, 128}}};
constexpr const char* kSystems[] = {"dgx1-v100", "v100-pcie-8x", "dgx-a100",     "dgx-h100",
                                    "3090-pcie", "l40s-pcie-8x", "a100-pcie-8x", "2080ti-pcie-8x",
                                    "mi300x-8x", "dgx1-p100"};
constexpr const char* kSchemes[] = {"allreduce",    "pytorch-ddp",      "horovod",     "zero:stage=1",
                                    "zero:stage=3", "parameter-server", "mxnet-device"};

template <class T, std::size_t N>
const T& one_of(const T (&all)[N], SplitMix64& random) {
  return all[random.next() % N];
}

}  // namespace

std::string Asked::text() const {
  std::string out = fmt::format("--model {} --system {} --scheme {} --precision {} --batch {} --devices {}",
                                model, system, scheme, name(precision), batch, devices);
  if (optimizer != "momentum") out += fmt::format(" --optimizer {}", optimizer);
  for (const auto& [path, value] : sets) out += fmt::format(" --set {}={}", path, value);
  if (recompute) out += " --recompute blocks";
  if (offload.any()) out += " --offload " + offload.text();
  if (!recipe.empty()) out += " --recipe " + recipe;
  if (!input) out += " --input synthetic";
  if (compute_speed != 1) out += fmt::format(" (kernels {} times as fast)", compute_speed);
  if (seed != 1) out += fmt::format(" --seed {}", seed);
  if (iterations != 0) out += fmt::format(" --iterations {}", iterations);
  return out;
}

const System& Answers::system(const std::string& name,
                              const std::vector<std::pair<std::string, std::string>>& sets) {
  std::string key = name;
  for (const auto& [path, value] : sets) key += " " + path + "=" + value;
  const auto at = systems_.find(key);
  return at != systems_.end() ? at->second : systems_.emplace(key, System::load(name, sets)).first->second;
}

const Graph& Answers::graph(const std::string& model) {
  const auto at = graphs_.find(model);
  return at != graphs_.end() ? at->second : graphs_.emplace(model, Graph::load(model)).first->second;
}

const Report* Answers::ask_memory(const Asked& asked) {
  const auto [at, fresh] = reports_.try_emplace(asked.text());
  std::optional<Report>& answer = at->second;
  if (!fresh) return answer ? &*answer : nullptr;
  try {
    ResolvedScheme scheme = resolve_scheme(asked.scheme, Place{});
    if (!asked.recipe.empty()) scheme.recipe = load_recipe(asked.recipe, Place{});
    Request p = prediction_of(graph(asked.model), system(asked.system, asked.sets), scheme, asked.devices,
                              asked.batch);
    p.job.optimizer = &optimizer(asked.optimizer);
    p.job.input = asked.input;
    p.job.precision = asked.precision;
    p.job.recompute = {.blocks = asked.recompute};
    p.job.offload = asked.offload;
    p.speeds.compute = asked.compute_speed;
    p.seed = asked.seed;
    p.iterations = asked.iterations;
    answer = simulate(p);
    if (asked.devices > 1) answer->timeline.clear();  // most of a report
  } catch (const InputError&) {
  }
  return answer ? &*answer : nullptr;
}

const Report* Answers::ask(const Asked& asked) {
  const Report* r = ask_memory(asked);
  return r != nullptr && r->fits ? r : nullptr;
}

std::size_t Answers::given() const {
  return static_cast<std::size_t>(std::count_if(reports_.begin(), reports_.end(), [](const auto& entry) {
    return entry.second && entry.second->fits;
  }));
}

bool spreads_update(const std::string& scheme) {
  for (const char* name : {"zero", "fsdp", "pytorch-fsdp", "parameter-server", "mxnet"})
    if (scheme.starts_with(name)) return true;
  return false;
}

double most_samples(Answers& answers, const Asked& asked) {
  Asked one = asked;
  one.devices = 1;
  const auto seconds = [&] {
    const Report* alone = answers.ask(one);
    return alone == nullptr ? 0 : static_cast<double>(asked.batch) / alone->rate.samples_per_second;
  };
  const double whole = seconds();
  if (whole == 0) return 0;
  double least = whole;
  if (spreads_update(asked.scheme)) {
    one.optimizer = "none";
    least = seconds() + (whole - seconds()) / static_cast<double>(asked.devices);
  }
  return static_cast<double>(asked.devices * asked.batch) / least;
}

Asked draw(SplitMix64& random) {
  const Model& model = one_of(kModels, random);
  Asked out{.model = model.name, .system = one_of(kSystems, random), .scheme = one_of(kSchemes, random)};
  out.batch = one_of(model.batches, random);
  out.precision = random.next() % 2 == 0 ? Precision::fp32 : Precision::fp16;
  out.devices = int64_t{2} << random.next() % 3;
  return out;
}

}  // namespace tandem::tests
