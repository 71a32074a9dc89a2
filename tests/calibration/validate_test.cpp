// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validate.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/data.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

/// Runs a table of one series of lenet5 and alexnet on one and four GPUs.
std::vector<ValidationRow> table(const std::string& name, const std::string& model) {
  const auto path = std::filesystem::temp_directory_path() / ("tandem_validate_" + name + ".json");
  std::ofstream(path)
      << R"({"title": "t", "source": "s", "series": [{"system": "2080ti-pcie-4x", "scheme": "allreduce",
    "relative": true, "batch": 8, "values": {"1": 1, "4": 2}, "model": )"
      << model << "}]}";
  auto rows = validate({path.string()}, 1, {});
  std::filesystem::remove(path);
  return rows;
}

TEST(Validate, AddsTheTimesOfTheParts) {
  const auto lenet = table("one", R"("lenet5")"), alexnet = table("two", R"("alexnet")");
  const auto both = table("both", R"([{"model": "lenet5", "count": 2}, {"model": "alexnet", "count": 3}])");
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].model, "lenet5 + alexnet");
  for (std::size_t i : {0u, 1u}) {
    EXPECT_GT(lenet[i].rate.samples_per_second, alexnet[i].rate.samples_per_second);
    EXPECT_NEAR(1 / both[i].rate.samples_per_second,
                2 / lenet[i].rate.samples_per_second + 3 / alexnet[i].rate.samples_per_second,
                1e-9 / both[i].rate.samples_per_second);
  }
  EXPECT_NEAR(both[1].predicted_speedup, both[1].rate.samples_per_second / both[0].rate.samples_per_second,
              1e-12);
}

/// An anchor says how much faster all parts are than predicted; what no device does takes its time.
TEST(Validate, AnchorsSeveralPartsTogether) {
  const auto path = std::filesystem::temp_directory_path() / "tandem_validate_anchored.json";
  std::ofstream(path) << R"({"title": "t", "source": "s", "series": [{"system": "2080ti-pcie-4x",
    "scheme": "allreduce", "batch": 8, "values": {"1": 50, "4": 100}, "model": [
      {"model": "alexnet", "count": 0.5, "batch": 64},
      {"model": "futuregan-generator:image=8,start=512,level128=0,level64=0,level32=0,level16=0",
       "input": "serial", "count": 0.01}]}]})";
  const auto rows = validate({path.string()}, 1, {});
  std::filesystem::remove(path);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_NEAR(rows[0].anchored, 50, 1e-4);
  const double unread = 0.01 * 0.2 / System::load("2080ti-pcie-4x").host().core_speed;
  const double scale = (1.0 / 50 - unread) / (1 / rows[0].rate.samples_per_second - unread);
  EXPECT_GT(scale, 1);
  EXPECT_LT(1 / rows[1].anchored, unread + scale * (1 / rows[1].rate.samples_per_second - unread))
      << "communication is not scaled";
  EXPECT_GT(1 / rows[1].anchored, 1 / rows[1].rate.samples_per_second) << "the rest is";
  EXPECT_LT(rows[1].low, rows[1].anchored);
  EXPECT_GT(rows[1].high, rows[1].anchored);
  EXPECT_NEAR(rows[1].predicted_speedup, rows[1].anchored / 50, 1e-9);
}

TEST(Validate, GivesAPartItsOwnBatch) {
  const auto own = table("own", R"([{"model": "alexnet", "batch": 64}])"), row = table("row", R"("alexnet")");
  EXPECT_GT(own[1].rate.samples_per_second, 1.5 * row[1].rate.samples_per_second)
      << "the gradients are summed an eighth as often";
}

TEST(Validate, RowsMeasuredWithoutAnUpdateArePredictedWithoutOne) {
  int marked = 0;
  for (const std::string& name : list_data("calibration/data/published")) {
    const Json document = Json::load(find_data("calibration/data/published", "published table", name));
    for (const Json& s : document.at("series").items()) {
      const bool none = s.text("optimizer", "momentum") == "none";
      EXPECT_EQ(s.text("note", "").find("no optimiser") != std::string::npos, none) << name;
      marked += none ? static_cast<int>(s.at("values").members().size()) : 0;
    }
  }
  EXPECT_GE(marked, 402);
}

/// Rows of one series in a file of this name.
std::vector<ValidationRow> series(const std::string& file, const std::string& rest) {
  const auto path = std::filesystem::temp_directory_path() / (file + ".json");
  std::ofstream(path)
      << R"({"title": "t", "source": "s", "series": [{"system": "2080ti-pcie-4x", "model": "alexnet", )"
      << rest << "}]}";
  auto rows = validate({path.string()}, 1, {});
  std::filesystem::remove(path);
  return rows;
}

TEST(Validate, AccumulatesMicroBatchesByDeviceCount) {
  const auto speedup = [](const std::string& accumulate) {
    return series("tandem_accumulate",
                  R"("scheme": "allreduce", "batch": 8, "values": {"1": 500, "4": 900})" + accumulate)
        .at(1)
        .predicted_speedup;
  };
  EXPECT_GT(speedup(R"(, "accumulate": 16)"), 1.2 * speedup("")) << "summed once in 16 micro-batches";
  const double mixed = speedup(R"(, "accumulate": {"1": 16, "4": 1})");
  EXPECT_LT(mixed, speedup(R"(, "accumulate": 16)"));
  // The anchor is met under its own scheme: with an update in every 16th micro-batch alone, its kernels are
  // slower.
  EXPECT_LT(mixed, speedup(""));
}

TEST(Validate, OnAHeldOutRowNothingWasSet) {
  const std::string values = R"("scheme": "allreduce", "batch": 8, "values": {"1": 500, "4": 900})";
  EXPECT_TRUE(series("held_out_x", values).at(1).held_out);
  EXPECT_FALSE(series("x", values).at(1).held_out);
  EXPECT_FALSE(series("held_out_x", values + R"(, "fitted": "a constant")").at(1).held_out);
  const auto gave = series("held_out_x", values + R"(, "gives": {"4": "a figure"})");
  EXPECT_TRUE(gave.at(0).held_out);
  EXPECT_FALSE(gave.at(1).held_out);
  EXPECT_EQ(gave.at(1).gives, "a figure");
}

TEST(Validate, RefusesAnUnknownRecipe) {
  EXPECT_THROW(series("x", R"("scheme": "allreduce", "recipe": "nwhc", "batch": 8, "values": {"1": 1})"),
               InputError);
}

TEST(Validate, RefusesPartsWithoutAnything) {
  EXPECT_THROW(table("none", "[]"), InputError);
  EXPECT_THROW(table("unknown", R"([{"model": "alexnet", "weight": 2}])"), InputError);
}

}  // namespace
}  // namespace tandem::tests
