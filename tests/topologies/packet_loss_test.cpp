// SPDX-License-Identifier: Apache-2.0
#include "topologies/packet_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "topologies/system.h"

namespace tandem::tests {
namespace {

System with(const System::Sets& sets) { return System::load("ethernet-cluster", sets); }

std::string refusal(const System::Sets& sets) {
  try {
    with(sets);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(PacketLoss, IsNoneUnlessTheSystemSaysSo) {
  EXPECT_EQ(with({}).packet_loss().kind, PacketLoss::Kind::none);
  EXPECT_EQ(with({{"network.transport.loss", "pfc"}}).packet_loss().kind, PacketLoss::Kind::pause);
  for (const auto& entry : list_systems())
    EXPECT_EQ(System::load(entry.name).packet_loss().kind, PacketLoss::Kind::none) << entry.name;
}

TEST(PacketLoss, HasTheDefaultsOfLinuxOnEthernet) {
  const PacketLoss loss =
      with({{"network.transport.loss", "tcp"}, {"network.transport.buffer", "512KB"}}).packet_loss();
  EXPECT_EQ(loss.kind, PacketLoss::Kind::tcp);
  EXPECT_EQ(loss.buffer.n, 512'000);
  EXPECT_DOUBLE_EQ(loss.min_rto.seconds(), 0.2);
  EXPECT_EQ(loss.segment.n, 1460);
  EXPECT_EQ(loss.initial_window, 10);
  EXPECT_EQ(loss.mark.n, 0);
}

TEST(PacketLoss, IsListed) {
  const System system = with({{"network.transport.loss", "tcp"},
                              {"network.transport.buffer", "1MB"},
                              {"network.transport.min_rto", "10ms"},
                              {"network.transport.ecn", "100KB"}});
  const auto network = nlohmann::json::parse(system.to_json_text()).at("network");
  EXPECT_EQ(network.at("loss"), "tcp");
  EXPECT_EQ(network.at("port_buffer_bytes"), 1'000'000);
  EXPECT_EQ(network.at("min_rto_seconds"), 0.01);
  EXPECT_EQ(network.at("ecn_threshold_bytes"), 100'000);
}

TEST(PacketLoss, RefusesWhatMakesNoSense) {
  const std::string at = "network.transport.";
  const auto tcp = [&](const std::string& key, const std::string& value) {
    return refusal({{at + "loss", "tcp"}, {at + "buffer", "1MB"}, {at + key, value}});
  };
  EXPECT_THAT(refusal({{at + "loss", "tpc"}}), testing::HasSubstr("Did you mean tcp?"));
  EXPECT_THAT(refusal({{at + "loss", "tcp"}}), testing::HasSubstr("needs \"buffer\""));
  EXPECT_THAT(refusal({{at + "buffer", "1MB"}}), testing::HasSubstr("\"loss\": \"tcp\""));
  EXPECT_THAT(refusal({{at + "loss", "pfc"}, {at + "ecn", "30KB"}}), testing::HasSubstr("\"loss\": \"tcp\""));
  EXPECT_THAT(refusal({{at + "loss", "tcp"}, {at + "bufer", "1MB"}}),
              testing::HasSubstr("Did you mean buffer?"));
  EXPECT_THAT(tcp("buffer", "1KB"), testing::HasSubstr("are possible here"));
  EXPECT_THAT(tcp("min_rto", "0s"), testing::HasSubstr("1us to 60s"));
  EXPECT_THAT(tcp("min_rto", "2h"), testing::HasSubstr("1us to 60s"));
  EXPECT_THAT(tcp("segment", "1B"), testing::HasSubstr("are possible here"));
  EXPECT_THAT(tcp("initial_window", "0"), testing::HasSubstr("1"));
  EXPECT_THAT(tcp("ecn", "2MB"), testing::HasSubstr("are possible here"));
  EXPECT_EQ(tcp("ecn", "100KB"), "");
}

}  // namespace
}  // namespace tandem::tests
