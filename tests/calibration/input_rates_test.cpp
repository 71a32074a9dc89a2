// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "calibration/fit/estimates.h"

#include "tests/calibration/made_up_machine.h"

namespace tandem::tests {
namespace {

/// Pictures of 1 Mpixel to 4, 100 KB to 300 KB, into inputs of three sizes.
Measurements with_input(const DecodeRate& jpeg, const ReadRate& files) {
  Measurements m = made();
  for (const double pixels : {1e6, 2e6, 4e6}) {
    for (const double bytes : {1e5, 3e5}) {
      m.input.push_back({false, ImageFormat::jpeg, true, bytes, pixels, 0, files.seconds(bytes)});
      for (const double values : {1e3, 1e5, 3e5})
        m.input.push_back(
            {true, ImageFormat::jpeg, true, bytes, pixels, values, jpeg.seconds(bytes, pixels, values)});
    }
  }
  return m;
}

TEST(InputRates, AreThoseThatMeasurementsWereMadeFrom) {
  const DecodeRate jpeg{1e-4, 2e-8, 3e-9, 5e-9};
  const ReadRate files{2e-5, 1e-10};
  const Measurements m = with_input(jpeg, files);
  const Measurements again = Measurements::from_json(Json::parse(m.to_json(), "test"));
  const InputRates direct = input_rates(again);
  const InputRates written =
      InputRates::from_json(Json::parse(fit_machine(again).profile, "test").find("input"));
  for (const InputRates& rates : {direct, written}) {
    ASSERT_TRUE(rates.decode[0] && rates.read[1]);
    EXPECT_FALSE(rates.decode[1] || rates.read[0]) << "neither PNG nor records were measured";
    EXPECT_NEAR(rates.decode[0]->base, jpeg.base, 1e-9);
    EXPECT_NEAR(rates.decode[0]->per_byte, jpeg.per_byte, 1e-13);
    EXPECT_NEAR(rates.decode[0]->per_pixel, jpeg.per_pixel, 1e-14);
    EXPECT_NEAR(rates.decode[0]->per_value, jpeg.per_value, 1e-14);
    EXPECT_NEAR(rates.read[1]->base, files.base, 1e-10);
    EXPECT_NEAR(rates.read[1]->per_byte, files.per_byte, 1e-15);
  }
}

TEST(InputRates, AreNeverNegative) {
  // Falling with the pixels: the least error without a negative rate is at 0 of them.
  Measurements m = made();
  for (const double pixels : {1e6, 2e6, 4e6})
    m.input.push_back({true, ImageFormat::png, true, 1e5, pixels, 1e3, 2e-3 - 1e-10 * pixels});
  const InputRates rates = input_rates(m);
  ASSERT_TRUE(rates.decode[1]);
  EXPECT_EQ(rates.decode[1]->per_pixel, 0);
  EXPECT_NEAR(rates.decode[1]->seconds(1e5, 2e6, 1e3), 1.8e-3, 1e-4);
}

/// What decodes to one channel has rates of its own, and those of three where it was not measured.
TEST(InputRates, AreOfGreyByItself) {
  Measurements m = with_input({1e-4, 2e-8, 3e-9, 5e-9}, {2e-5, 1e-10});
  EXPECT_EQ(input_rates(m).decoding(ImageFormat::jpeg, true)->per_pixel,
            input_rates(m).decoding(ImageFormat::jpeg, false)->per_pixel);
  const DecodeRate grey{5e-5, 1e-8, 1e-9, 4e-9};
  for (const double pixels : {1e6, 2e6, 4e6}) {
    for (const double bytes : {1e5, 3e5}) {
      for (const double values : {1e3, 1e5})
        m.input.push_back({true, ImageFormat::jpeg, true, bytes, pixels, values,
                           grey.seconds(bytes, pixels, values), true});
    }
  }
  const Measurements again = Measurements::from_json(Json::parse(m.to_json(), "test"));
  const InputRates rates =
      InputRates::from_json(Json::parse(fit_machine(again).profile, "test").find("input"));
  EXPECT_NEAR(rates.decoding(ImageFormat::jpeg, true)->per_pixel, 1e-9, 1e-14);
  EXPECT_NEAR(rates.decoding(ImageFormat::jpeg, false)->per_pixel, 3e-9, 1e-14);
}

/// A step of 32 pictures takes as long as the slower of computing and decoding, on machines with a core for
/// each; else what there is to do over the cores.
TEST(InputRates, DecideTogetherWithTheCores) {
  const std::string profile =
      profile_of(with_input({1.0, 0, 0, 0}, {0, 0}), "input");  // far more than a step computes
  const Graph graph = Graph::load("cifar10-cnn");
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  const System system = System::load("local");
  const auto step = [&](int64_t devices, int64_t workers) {
    Request p;
    p.job = {&graph, &scheme, 32, Precision::fp32, &optimizer("momentum")};
    p.job.loading.workers = workers;
    p.job.loading.data = StoredData{1000, 2e5, 2e6, ImageFormat::jpeg, true};
    p.system = &system;
    p.devices = devices;
    p.profile = profile;
    p.check_memory = false;
    p.disturbance = Disturbance{};
    return 32 * static_cast<double>(devices) / simulate(p).rate.samples_per_second;
  };
  EXPECT_NEAR(step(1, 1), 32, 0.02 * 32);
  EXPECT_NEAR(step(1, 2), 16, 0.02 * 16) << "two threads on two cores";
  EXPECT_NEAR(step(2, 2), 32, 0.02 * 32) << "four threads on two cores";
}

}  // namespace
}  // namespace tandem::tests
