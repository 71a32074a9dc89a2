// Recipes: what a framework makes of kernels.
#include "schemes/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace tandem {
namespace {

Task update_of(const char* name) {
  return {0, 1, Pass::update, {update_kernel(optimizer(name), 1000)}};
}

TEST(Recipe, AnOptimiserWithoutAKernelOfItsOwnIsWrittenInOperations) {
  const Recipe recipe = load_recipe("tensorflow");
  const auto launched = [&](const char* name) {
    const Task task = update_of(name);
    return launches(with_updates_of(recipe, optimizer(name)), task.kernels[0]);
  };
  const auto issued = [&](const char* name) {
    return issue_time(with_updates_of(recipe, optimizer(name)), update_of(name), Precision::fp32, optimizer(name));
  };
  EXPECT_EQ(launched("adam"), 1);
  EXPECT_EQ(launched("adamw"), recipe.composed_updates.at("adamw").traffic);
  EXPECT_EQ(issued("adamw").ps, issued("adam").ps * recipe.composed_updates.at("adamw").kernels);
}

TEST(Recipe, KernelByKernelUpdatesMoveTheirStateMoreOften) {
  const Recipe loop = load_recipe("pytorch-loop"), fused = load_recipe("pytorch");
  for (const char* name : {"sgd", "momentum", "adam"}) {
    const Optimizer& o = optimizer(name);
    const Task task = update_of(name);
    EXPECT_EQ(launches(with_updates_of(loop, o), task.kernels[0]), 1 + o.state) << name;
    EXPECT_EQ(launches(with_updates_of(fused, o), task.kernels[0]), 1) << name;
  }
}

TEST(Recipe, RefusesAnUnknownOptimiserWithItsPlace) {
  const std::string file = testing::TempDir() + "recipe.json";
  std::ofstream(file) << R"({"name": "x", "summary": "x", "source": "x",
    "composed_updates": {"adamv": {"kernels": 2, "traffic": 2}},
    "host": {"forward": "1us", "backward": "1us", "update": ["1us", "1us", "1us"]}})";
  try {
    load_recipe(file);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("recipe.json:2"));
    EXPECT_THAT(e.what(), testing::HasSubstr("Did you mean adamw"));
  }
}

}  // namespace
}  // namespace tandem
