// SPDX-License-Identifier: Apache-2.0
// FLOPs of a forward pass over 128 tokens against those that PyTorch counts in transformers 5.23.0
// (tests/against/hf_flops.py): of each type, and of each with a field changed that leaves its parameters as
// they are.
#include <fmt/format.h>

#include <cmath>
#include <fstream>

#include "base/data.h"
#include "models/import/hf/config.h"
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

struct Asked {
  std::optional<double> flops;
  std::string why;
};

Asked forward(const Json& row, const std::string& key, const Json* value) {
  Json config = row.at("base");
  config.set("model_type", row.at("type"));
  if (value != nullptr) config.set(key, *value);
  try {
    Json document = models::model_of_hf_config(config);
    if (const Json* own = document.find("parameters"); own != nullptr && own->find("sequence") != nullptr)
      document.set_path("parameters.sequence", "128", document.place(), true);
    return {static_cast<double>(Graph::from_json(document).forward_flops().n), ""};
  } catch (const InputError& e) {
    return {std::nullopt, e.what()};
  }
}

/// Where the class does otherwise than what Tandem predicts: llama4 sends every token through all experts,
/// with zeros for those that were not chosen; the bare SigLIP tower ends in a head of attention that takes no
/// part in what Tandem counts of it; EfficientNet pads odd sizes to the smaller half where a file does not
/// name the block.
constexpr std::string_view kOther[] = {"llama4_text", "siglip_vision_model", "siglip2_vision_model",
                                       "efficientnet"};

TEST(HfFlops, AreThoseThatTheLibraryRuns) {
  std::ifstream file(data_root() + "/tests/models/hf_flops.jsonl");
  int types = 0, exact = 0, refused = 0;
  for (std::string line; std::getline(file, line); ++types) {
    const Json row = Json::parse(line, "hf_flops");
    const std::string& type = row.at("type").as_text();
    if (std::find(std::begin(kOther), std::end(kOther), type) != std::end(kOther)) continue;
    const Asked usual = forward(row, "", nullptr);
    EXPECT_NEAR(usual.flops.value_or(0) / row.at("flops").as_real(), 1, 0.005) << type << ": " << usual.why;
    for (const auto& [key, value] : row.at("cases").members()) {
      const Json& counted = value.items()[1];
      if (counted.kind() == Json::Kind::null) continue;  // the library takes no such value
      const Asked own = forward(row, key, &value.items()[0]);
      ++(own.flops ? exact : refused);
      if (own.flops) EXPECT_NEAR(*own.flops / counted.as_real(), 1, 0.005) << type << ", " << key;
    }
  }
  EXPECT_GE(types, 170);
  EXPECT_GT(exact, 600);
  EXPECT_LT(refused, exact / 10);
}

}  // namespace
}  // namespace tandem::tests
