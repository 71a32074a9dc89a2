// SPDX-License-Identifier: Apache-2.0
// Predictions as recorded: every scheme and preset on four machines. A change of the cost model changes them
// and says so; a change of structure must not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "base/json.h"
#include "tests/sim/prediction.h"

namespace tandem::tests {
namespace {

struct Machine {
  const char* system;
  System::Sets sets;
  int64_t devices;
};
const std::vector<Machine> kMachines{{"v100-pcie-8x", {}, 8},
                                     {"dgx-a100", {{"nodes", "2"}}, 16},
                                     {"hkbu-ipoib", {}, 16},
                                     {"2080ti-pcie-8x", {}, 3}};
struct Model {
  const char* name;
  int64_t batch;
  Precision precision;
  const char* optimizer;
};
const std::vector<Model> kModels{{"resnet50", 16, Precision::fp32, "momentum"},
                                 {"bert-base", 8, Precision::fp16, "adamw"}};

/// One line: what was asked, samples a second with their interval, staleness, bytes of memory and the shares
/// of time.
std::string predicted(const Machine& machine, const System& system, const Model& model, const Graph& graph,
                      const std::string& scheme, const std::string& key) {
  std::string line = key;
  try {
    const ResolvedScheme resolved = resolve_scheme(scheme, {});
    Request p = prediction_of(graph, system, resolved, machine.devices, model.batch);
    p.job.optimizer = &optimizer(model.optimizer);
    p.job.input = true;
    p.job.precision = model.precision;
    p.seed = 1;
    const Report r = simulate(p);
    const TimeShare& t = r.time.share;
    line +=
        fmt::format("{:.7g} [{:.7g}, {:.7g}] stale {:.5g} memory {}", r.rate.samples_per_second,
                    r.rate.interval.low, r.rate.interval.high, r.staleness.all.mean(), r.memory.needed().n);
    line += fmt::format(" shares {:.5g} {:.5g} {:.5g} {:.5g} {:.5g} {:.5g} {:.5g}\n", t.compute, t.launch,
                        t.exposed_communication, t.waiting, t.server, t.input, t.idle);
  } catch (const InputError& e) {
    std::string why = e.what();  // the same wherever the sources lie
    const std::string root = std::string(TANDEM_ROOT) + "/";
    for (std::size_t at; (at = why.find(root)) != std::string::npos;) why.erase(at, root.size());
    line += fmt::format("refused: {}\n", why);
  }
  return line;
}

/// Under a sanitizer half do, as the models of a scheme differ in figures, not in what is run: of each scheme
/// one model, in turn. P3 has seven million messages with BERT, a quarter of them with ResNet-50.
bool left_out([[maybe_unused]] std::size_t scheme, [[maybe_unused]] std::size_t model,
              [[maybe_unused]] std::string_view name) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return model != (name == "p3" ? 0 : scheme % kModels.size());
#else
  return false;
#endif
}

/// Lines of the recorded text by what they predict, "p3 hkbu-ipoib x16 bert-base ".
std::map<std::string, std::string> recorded(const std::string& text) {
  std::map<std::string, std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::size_t end = 0;
    for (int word = 0; word < 4; ++word) end = line.find(' ', end) + 1;
    out[line.substr(0, end)] = line + "\n";
  }
  return out;
}

class Golden : public testing::TestWithParam<Machine> {};

TEST_P(Golden, PredictionsAreAsRecorded) {
  const Machine& machine = GetParam();
  const System system = System::load(machine.system, machine.sets);
  const std::string path = fmt::format("{}/tests/golden/predictions/{}.txt", TANDEM_ROOT, machine.system);
  std::map<std::string, std::string> known = recorded(read_file(path));
  std::string now;
  const auto schemes = list_schemes();
  for (std::size_t m = 0; m < kModels.size(); ++m) {
    const Model& model = kModels[m];
    const Graph graph = Graph::load(model.name);
    for (std::size_t i = 0; i < schemes.size(); ++i) {
      const std::string& name = schemes[i].name;
      const std::string key = fmt::format("{} {} x{} {} ", name, machine.system, machine.devices, model.name);
      now += left_out(i, m, name) ? known[key] : predicted(machine, system, model, graph, name, key);
    }
  }
  if (std::getenv("TANDEM_UPDATE_GOLDENS") != nullptr) write_file(path, now);
  EXPECT_EQ(read_file(path), now) << "rewrite with TANDEM_UPDATE_GOLDENS=1 and explain the change";
}

INSTANTIATE_TEST_SUITE_P(On, Golden, testing::ValuesIn(kMachines), [](const auto& info) {
  std::string name = info.param.system;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace tandem::tests
