// SPDX-License-Identifier: Apache-2.0
// The fuzz targets without a fuzzer: the corpus, then seeded mutations of it (cut, flip, insert, splice).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/fuzz/target.h"

namespace tandem::tests {
namespace {

namespace fs = std::filesystem;

struct Target {
  const char* name;
  void (*run)(std::string_view);
};
void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

constexpr Target kTargets[] = {{"hwloc_xml", fuzz::hwloc_xml},
                               {"json", fuzz::json},
                               {"kineto", fuzz::kineto},
                               {"link_tests", fuzz::link_tests},
                               {"model", fuzz::model},
                               {"nccl_tests", fuzz::nccl_tests},
                               {"nccl_xml", fuzz::nccl_xml},
                               {"options", fuzz::options},
                               {"report", fuzz::report},
                               {"system", fuzz::system},
                               {"hf_config", fuzz::hf_config},
                               {"topo_m", fuzz::topo_m},
                               {"units", fuzz::units},
                               {"image", fuzz::image},
                               {"record_file", fuzz::record_file},
                               {"question", fuzz::question},
                               {"offers", fuzz::offers},
                               {"site", fuzz::site},
                               {"sweep_file", fuzz::sweep_file},
                               {"onnx", fuzz::onnx}};
/// Of a target: $TANDEM_FUZZ_MUTATIONS, else a few.
int64_t mutations() {
  const char* set = std::getenv("TANDEM_FUZZ_MUTATIONS");
  return set == nullptr ? 2000 : std::atoll(set);
}

std::vector<std::string> corpus(const std::string& target) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(fs::path(TANDEM_ROOT) / "tests/fuzz/corpus" / target)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> out;
  for (const fs::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return out;
}

std::string mutate(std::string text, const std::vector<std::string>& all, SplitMix64& random) {
  // clang-format off
  static const std::vector<std::string> tokens = {
      "\"", "{", "}", "[", "]", ":", ",", "-1", "0", "1e308", "NaN", "null", "9223372036854775807", "\\u0000", "/*",
      "=1/0", "=2*x", "GB/s", "in", "<", ">", "/>", "</", "\n", "\t", "GPU0", "NV2", "PIX", "SYS", "<pci ", "0x030200"};
  // clang-format on
  const uint64_t edits = 1 + random.next() % 4;
  for (uint64_t i = 0; i < edits; ++i) {
    const std::size_t at = text.empty() ? 0 : random.next() % text.size();
    const std::size_t length = 1 + random.next() % 16;
    switch (random.next() % 5) {
      case 0:
        text.resize(at);
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, tokens[random.next() % tokens.size()]);
        break;
      case 3:
        if (!text.empty()) text[at] = static_cast<char>(random.next());
        break;
      default: {
        const std::string& other = all[random.next() % all.size()];
        text.insert(at, other.substr(random.next() % (other.size() + 1), 8 * length));
      }
    }
  }
  return text;
}

class Smoke : public ::testing::TestWithParam<Target> {};

TEST_P(Smoke, CorpusAndMutationsAreUnderstoodOrRefused) {
  const auto seeds = corpus(GetParam().name);
  ASSERT_FALSE(seeds.empty());
  for (const std::string& seed : seeds) GetParam().run(seed);
  SplitMix64 random(20200718);
  const int64_t count = mutations();
  for (int64_t i = 0; i < count; ++i) {
    const std::string input = mutate(seeds[random.next() % seeds.size()], seeds, random);
    ASSERT_NO_THROW(GetParam().run(input)) << "mutation " << i << ": " << input.substr(0, 500);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Smoke, ::testing::ValuesIn(kTargets),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::tests
