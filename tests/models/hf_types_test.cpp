// SPDX-License-Identifier: Apache-2.0
// Every type of the table against what transformers 5.23.0 counts on its meta device
// (tests/against/hf_counts.py), each field changed one at a time.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>

#include "base/data.h"
#include "models/graph.h"
#include "models/import/hf/config.h"

namespace tandem::tests {
namespace {

using models::Graph;

/// A config with the members of `of`, and one more or other.
Json config_of(const Json& row, const std::string& key, const Json* value) {
  Json out = row.at("base");
  out.set("model_type", row.at("type"));
  if (value != nullptr) out.set(key, *value);
  return out;
}

struct Counted {
  std::optional<int64_t> parameters;
  std::string why;
};

Counted count(const Json& config) {
  try {
    return {Graph::from_json(models::model_of_hf_config(config)).parameter_elements(), ""};
  } catch (const InputError& e) {
    return {std::nullopt, e.what()};
  }
}

std::vector<Json> rows() {
  std::vector<Json> out;
  for (const char* name : {"hf_counts", "hf_family_counts"}) {
    std::ifstream file(fmt::format("{}/tests/models/{}.jsonl", data_root(), name));
    for (std::string line; std::getline(file, line);) out.push_back(Json::parse(line, name));
  }
  return out;
}

TEST(HfTypes, CountWhatTheLibraryCounts) {
  const auto all = rows();
  ASSERT_GE(all.size(), 160U);
  for (const Json& row : all) {
    const Counted counted = count(config_of(row, "", nullptr));
    if (row.at("count").kind() == Json::Kind::null) continue;
    EXPECT_EQ(counted.parameters.value_or(0), row.at("count").as_int())
        << row.at("type").as_text() << ": " << counted.why;
  }
}

TEST(HfTypes, AFieldThatChangesIsReadOrRefused) {
  int exact = 0, refused = 0;
  for (const Json& row : rows()) {
    for (const auto& [key, value] : row.at("cases").members()) {
      const Json& counted = value.items()[1];
      const Counted own = count(config_of(row, key, &value.items()[0]));
      if (counted.kind() == Json::Kind::null) continue;  // the library takes no such value
      ++(own.parameters ? exact : refused);
      if (own.parameters)
        EXPECT_EQ(*own.parameters, counted.as_int()) << row.at("type").as_text() << ", " << key;
    }
  }
  EXPECT_GT(exact, 1700);
  EXPECT_LT(refused, 160);
}

}  // namespace
}  // namespace tandem::tests
