// SPDX-License-Identifier: Apache-2.0
// What a system's name or file may stand for: systems that extend others, cards of one model, files of
// devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/json.h"
#include "topologies/devices/device_paths.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(SystemNames, CardsOfOneModelNeedNoFile) {
  for (const char* name : {"rtx-4080-2x", "4080-2x", "4080-pcie-2x", "RTX-4080-2x"}) {
    const System s = System::load(name);
    EXPECT_EQ(s.name(), "rtx-4080-2x") << name;
    EXPECT_EQ(s.accelerator_count(), 2);
    const LinkInfo link = s.link(0);
    EXPECT_DOUBLE_EQ(link.bandwidth.bytes_per_second, 15.75e9) << "half of sixteen lanes of PCIe 4.0";
  }
  for (const auto& entry : list_devices()) {
    const Device device = Device::load(entry.name);
    if (!entry.name.starts_with("rtx-") || entry.name.find("laptop") != std::string::npos) continue;
    for (const char* count : {"-1x", "-4x", "-8x"})
      EXPECT_EQ(System::load(entry.name + count).device(0).name, device.name) << entry.name << count;
  }
  EXPECT_EQ(System::load("l20-4x").accelerator_count(), 4);
  EXPECT_EQ(System::load("5090-2x").summary().find("stock"), std::string::npos) << "a file comes first";
  for (const char* none : {"rtx-4080-9x", "rtx-4080-0x", "h100-sxm-4x", "epyc-7742-2x", "rtx-9999-2x", "-2x"})
    EXPECT_THAT(message([&] { System::load(none); }), HasSubstr("no system")) << none;
}

TEST(SystemNames, NewerSystemsAreWhatTheyExtend) {
  struct Row {
    const char *name, *device;
    int64_t devices;
    double link;
  };
  for (const Row& row : {Row{"mi355x-8x", "mi355x", 8, 76.5e9}, Row{"mi350x-8x", "mi350x", 8, 76.5e9},
                         Row{"mi325x-8x", "mi325x", 8, 64e9}, Row{"hgx-h20", "h20", 8, 450e9},
                         Row{"hgx-b300", "b300", 8, 900e9}, Row{"gb300-nvl72", "gb300", 72, 900e9},
                         Row{"dgx-spark-2x", "gb10", 2, 300e9}}) {
    const System s = System::load(row.name);
    EXPECT_EQ(s.name(), row.name);
    EXPECT_EQ(s.device(s.accelerator(0)).name, row.device);
    EXPECT_EQ(s.accelerator_count(), row.devices) << row.name;
    EXPECT_DOUBLE_EQ(s.link(0).bandwidth.bytes_per_second, row.link) << row.name;
  }
  const auto refused = [](const std::string& text) {
    return message([&] { System::from_json(Json::parse(text, "mine.json")); });
  };
  EXPECT_THAT(refused(R"({"name": "x", "summary": "s", "extends": "hgx-h2000"})"),
              HasSubstr("Did you mean hgx-h200"));
  EXPECT_THAT(refused(R"({"name": "x", "summary": "s", "extends": "hgx-h20"})"),
              HasSubstr("cannot extend one itself"));
  EXPECT_THAT(refused(R"({"name": "x", "summary": "s", "extends": "hgx-h200", "nodes": 2})"),
              HasSubstr("unknown key"));
  EXPECT_THAT(
      refused(
          R"({"name": "x", "summary": "s", "extends": "hgx-h200", "set": {"links.nvlnk.bandwidth": "1GB/s"}})"),
      HasSubstr("nvlink"));
}

TEST(SystemNames, WhatExtendsTakesFaultsAndWholeParts) {
  const auto from = [](const std::string& set) {
    return System::from_json(Json::parse(
        R"({"name": "x", "summary": "s", "extends": "dgx-h100", "set": {"nodes": "4", )" + set + "}}",
        "mine.json"));
  };
  EXPECT_THAT(from(R"("faults.leaf0:spine1-0": "0.5")").faults(),
              ::testing::ElementsAre("leaf0:spine1-0 at 50 %"));
  const System sites = from(
      R"("network": {"block": "sites", "sites": {"a": {"nodes": 3, "bandwidth": "1GB/s"}, "b": {"bandwidth": "2GB/s"}},
          "attach": "cpu0", "bandwidth": "4GB/s", "latency": "1ms",
          "transport": {"name": "tcp", "latency": "1ms", "gpudirect": "none"}})");
  EXPECT_EQ(sites.nodes(), 4);
  EXPECT_THAT(message([&] { from(R"("network": {"block": "sites"})"); }), HasSubstr("mine.json:1:"));
  EXPECT_THAT(message([&] { from(R"("netwrk": {"block": "single"})"); }), HasSubstr("network"));
  EXPECT_THAT(message([&] { from(R"("name": {})"); }),
              HasSubstr("\"name\" is no part that can be replaced whole"));
  EXPECT_THAT(message([&] { from(R"("nodes": ["4"])"); }), HasSubstr("mine.json:1:"));
}

TEST(SystemNames, WhatNoMachineHasIsRefused) {
  const auto said = [](const System::Sets& sets) { return message([&] { System::load("dgx-a100", sets); }); };
  EXPECT_THAT(said({{"device", "tpu-v2"}}), HasSubstr("tpu-v2 does not go where a100-sxm-40gb is"));
  EXPECT_THAT(said({{"host.cores", "0"}}), HasSubstr("0 is outside 1 .. 1000000"));
}

TEST(SystemNames, AFileOfADeviceCountsFromTheSystemsFile) {
  const std::string folder = ::testing::TempDir() + "tandem_names";
  std::filesystem::create_directories(folder + "/cards");
  std::filesystem::copy_file(std::string(TANDEM_ROOT) + "/topologies/devices/l20.json",
                             folder + "/cards/mine.json", std::filesystem::copy_options::overwrite_existing);
  std::string text = read_file(std::string(TANDEM_ROOT) + "/topologies/systems/workstation-2x.json");
  text.replace(text.find("gtx-1080-ti\"}"), 11, "./cards/mine.json");
  write_file(folder + "/box.json", text);
  EXPECT_EQ(System::load(folder + "/box.json").device(0).name, "l20");
  // What the command line names counts from the current folder.
  EXPECT_EQ(System::load(folder + "/box.json", {{"device", folder + "/cards/mine.json"}}).device(0).name,
            "l20");
  write_file(folder + "/two.json",
             R"({"name": "two", "summary": "s", "extends": "./box.json", "set": {"nodes": "2"}})");
  EXPECT_EQ(System::load(folder + "/two.json").accelerator_count(), 4);
  std::filesystem::remove(folder + "/cards/mine.json");
  const std::string gone = message([&] { System::load(folder + "/box.json"); });
  EXPECT_THAT(gone, HasSubstr("box.json:7:"));
  EXPECT_THAT(gone, HasSubstr("cards/mine.json\" of a device"));
  std::filesystem::remove_all(folder);
}

TEST(SystemNames, PathsMoveWithTheirFile) {
  const std::string here = "/a/b";
  EXPECT_EQ(moved_path("x.json", "/a/b", &here), "x.json");
  EXPECT_EQ(moved_path("x", "/a/b", &here), "./x");
  EXPECT_EQ(moved_path("../x.json", "/a/b/c", &here), "x.json");
  EXPECT_EQ(moved_path("x.json", "/a/c", &here), "../c/x.json");
  EXPECT_EQ(moved_path("x.json", "/a/c", nullptr), "/a/c/x.json");
}

TEST(SystemNames, TheNetworkIsNoClassOfLinks) {
  const std::string said = message([] { System::load("dgx-a100", {{"links.ib.bandwidth", "100Gbit/s"}}); });
  EXPECT_THAT(said, HasSubstr("network.bandwidth=12GB/s is the rate of every port"));
}

}  // namespace
}  // namespace tandem::tests
