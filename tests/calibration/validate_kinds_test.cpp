// SPDX-License-Identifier: Apache-2.0
// Which kinds two files have, on rows made by hand.
#include "calibration/validate/validate_kinds.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace tandem::tests {
namespace {

ValidationRow row(const char* file, const char* family, const char* generation, const char* width,
                  const char* recipe) {
  ValidationRow r;
  r.file = file;
  r.family = family;
  r.generation = generation;
  r.width = width;
  r.recipe_run = recipe;
  r.devices = 1;
  r.published = 100;
  r.rate.samples_per_second = 150;
  r.rate.interval.low = 120;
  r.rate.interval.high = 180;
  r.held_out = true;
  return r;
}

std::vector<ValidationRow> rows() {
  std::vector<ValidationRow> out{
      row("a.json", "cnn", "volta", "half", "mxnet"), row("b.json", "cnn", "volta", "half", "mxnet"),
      row("b.json", "cnn", "volta", "single", "mxnet"), row("a.json", "cnn", "turing", "half", "mxnet"),
      row("a.json", "cnn", "volta", "half", "pytorch")};
  out.push_back(out[2]);
  out.back().file = "c.json";
  out.back().doubtful = "contradicts itself";
  return out;
}

TEST(Kinds, AreThoseOfTwoFiles) {
  const Json json = Json::parse(kinds_json(rows()), "kinds");
  const Json &families = json.at("families"), &recipes = json.at("recipes");
  ASSERT_EQ(families.members().size(), 1u);
  ASSERT_EQ(families.at("cnn").members().size(), 1u);
  const Json& volta = families.at("cnn").at("volta");
  ASSERT_EQ(volta.items().size(), 1u);
  EXPECT_EQ(volta.items()[0].as_text(), "half");
  ASSERT_EQ(recipes.members().size(), 1u);
  EXPECT_EQ(recipes.at("mxnet").items().size(), 1u);
}

TEST(Kinds, TheirErrorsAreToldApart) {
  const std::string text = kinds_markdown(rows());
  EXPECT_NE(text.find("| another source has it | 2 | 2 | 0.41 | 0.12 | 0 % |"), std::string::npos) << text;
  EXPECT_NE(text.find("| no other has the family there | 2 |"), std::string::npos) << text;
  EXPECT_NE(text.find("| no other has the recipe | 2 |"), std::string::npos) << text;
  EXPECT_NE(text.find("| no other has one of the two | 3 |"), std::string::npos) << text;
}

}  // namespace
}  // namespace tandem::tests
