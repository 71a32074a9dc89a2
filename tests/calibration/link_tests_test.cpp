// SPDX-License-Identifier: Apache-2.0
#include "calibration/logs/link_tests.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem::tests {
namespace {

const std::string kP2p = R"([P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Device: 0, GeForce GTX 1080, pciBusID: 5, pciDeviceID: 0, pciDomainID:0
Device: 1, GeForce GTX 1080, pciBusID: 6, pciDeviceID: 0, pciDomainID:0
Device=0 CAN Access Peer Device=1
Device=1 CANNOT Access Peer Device=0

P2P Connectivity Matrix
     D\D     0     1
     0	     1     1
     1	     0     1
Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\D     0      1
     0 771.60  6.50
     1   6.25 774.28
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\D     0      1
     0 708.94  11.25
     1  6.25 773.90
Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\D     0      1
     0 712.33  16.60
     1  16.42 775.05
P2P=Disabled Latency Matrix (us)
   GPU     0      1
     0   1.96  14.50
     1  14.25   1.97

   CPU     0      1
     0   2.63   6.44
     1   6.42   2.59
P2P=Enabled Latency (P2P Writes) Matrix (us)
   GPU     0      1
     0   1.91   1.75
     1   1.75   1.97
)";

TEST(LinkTests, ReadsThePeerTestOfBothGenerations) {
  std::string old = kP2p;
  for (const char* part : {" (P2P Writes)", " (P2P Writes)"})
    old.erase(old.find(part), std::string(part).size());
  for (const std::string& text : {kP2p, old}) {
    const LinkTests t = read_link_tests(text, "p2p.txt");
    EXPECT_EQ(t.devices, (std::vector<std::string>{"GeForce GTX 1080", "GeForce GTX 1080"}));
    EXPECT_EQ(t.access[0][1], 1);
    EXPECT_EQ(t.access[1][0], -1);
    EXPECT_DOUBLE_EQ(t.staged[0][1], 6.5e9);
    EXPECT_DOUBLE_EQ(t.peer[0][1], 11.25e9);
    EXPECT_DOUBLE_EQ(t.staged_latency[0][1], 14.5e-6);  // the device's clock, not the host's block below
    EXPECT_DOUBLE_EQ(t.peer_latency[1][0], 1.75e-6);
  }
}

TEST(LinkTests, ReadsHostCopiesInMegabytesAndGigabytes) {
  const auto text = [](const std::string& unit, const std::string& first, const std::string& second) {
    return "[CUDA Bandwidth Test] - Starting...\n Device 0: Tesla K80\n Range Mode\n\n Host to Device "
           "Bandwidth, 1 "
           "Device(s)\n PINNED Memory Transfers\n   Transfer Size (Bytes)\tBandwidth(" +
           unit + ")\n   67108864\t\t\t" + first + "\n   134217728\t\t\t" + second +
           "\n\n Device to Device Bandwidth, 1 Device(s)\n   Transfer Size "
           "(Bytes)\tBandwidth(" +
           unit + ")\n   67108864\t\t\t157051.0\n";
  };
  for (const LinkTests& t : {read_link_tests(text("MB/s", "7755.5", "8747.0"), "b.txt"),
                             read_link_tests(text("GB/s", "7.7", "8.747"), "b.txt")}) {
    ASSERT_EQ(t.to_device.size(), 1u);
    EXPECT_DOUBLE_EQ(t.to_device[0], 8.747e9);
    EXPECT_TRUE(t.from_device.empty());
    EXPECT_EQ(t.devices[0], "Tesla K80");
  }
  EXPECT_THROW(read_link_tests(text("MB/s", "1", "2") + text("MB/s", "3", "4"), "b.txt"), InputError);
}

TEST(LinkTests, ReadsNvbandwidth) {
  const LinkTests t = read_link_tests(
      "Running host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n           0   "
      "      1\n"
      " 0     55.63     55.61\n\nSUM host_to_device_memcpy_ce 111.24\n\n"
      "Running device_to_device_memcpy_write_ce.\nmemcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)\n"
      "           0         1\n 0       N/A    276.07\n 1    270.50       N/A\n\nSUM "
      "device_to_device_memcpy_write_ce 5\n"
      "Running host_to_device_bidirectional_memcpy_ce.\nmemcpy CE CPU(row) <-> GPU(column) bandwidth (GB/s)\n"
      "           0         1\n 0     18.56     18.37\n",
      "n.txt");
  EXPECT_EQ(t.to_device, (std::vector<double>{55.63e9, 55.61e9}));
  EXPECT_DOUBLE_EQ(t.peer[1][0], 276.07e9);  // row 0 is written by column 1
  EXPECT_DOUBLE_EQ(t.peer[0][1], 270.5e9);
  const LinkTests j = read_link_tests(R"({"nvbandwidth": {"testcases": [
      {"name": "host_to_device_memcpy_ce", "bandwidth_matrix": [["55.63", 55.61]]},
      {"name": "device_to_device_memcpy_write_ce", "bandwidth_matrix": [["N/A", "276.07"], ["270.50", "N/A"]]}]}})",
                                      "n.json");
  EXPECT_EQ(j.to_device, t.to_device);
  EXPECT_EQ(j.peer, t.peer);
}

TEST(LinkTests, RefusesCutAndForeignTextsWithTheLine) {
  const auto refusal = [](const std::string& text) {
    try {
      read_link_tests(text, "p2p.txt");
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(refusal(kP2p.substr(0, kP2p.find("     1   6.25 774.28"))).find("cut short"), std::string::npos);
  std::string broken = kP2p;
  broken.replace(broken.find("6.50"), 4, "6,50");
  EXPECT_NE(refusal(broken).find("p2p.txt:13"), std::string::npos) << refusal(broken);
  EXPECT_NE(refusal("hello\n").find("no figures"), std::string::npos);
  EXPECT_NE(refusal("Device:\nDevice: 0,\n").find("no figures"), std::string::npos);
  EXPECT_NE(refusal(kP2p + kP2p).find("twice"), std::string::npos);
}

TEST(LinkTests, ReadsConnectivityBusesAndWhatTellsOfAccess) {
  const LinkTests t = read_link_tests(
      "Device: 0, NVIDIA GeForce RTX 4090, pciBusID: c1, pciDeviceID: 0, pciDomainID:0\n"
      "Device: 1, NVIDIA GeForce RTX 5090, pciBusID: 1, pciDeviceID: 0, pciDomainID:0\n"
      "P2P Connectivity Matrix\n     D\\D     0     1\n     0       1     0\n     1       1     1\n"
      "P2P Bandwidth Matrix (GB/s) - Unidirectional, P2P=Enabled\n   D\\D      0      1\n"
      "      0 257.84   3.32\n      1   3.31 263.90\n",
      "p2p.txt");
  EXPECT_EQ(t.access[0][1], -1);
  EXPECT_EQ(t.access[1][0], 1);
  EXPECT_LT(t.buses[1], t.buses[0]);
  EXPECT_DOUBLE_EQ(t.peer[0][1], 3.32e9);
  EXPECT_TRUE(looks_like_link_tests("... P2P=Enabled ..."));
}

TEST(LinkTests, TwoMeasurementsOfTheSameAreToldApart) {
  LinkTests a, b;
  a.staged = {{0, 1e9}, {1e9, 0}};
  b.staged = {{0, 2e9}, {2e9, 0}};
  LinkTests same = a;
  EXPECT_FALSE(merge(same, a));
  EXPECT_TRUE(merge(a, b));
  EXPECT_DOUBLE_EQ(a.staged[0][1], 1e9);
}

TEST(LinkTests, CopiesBothWaysAtOnceAreRefusedByName) {
  try {
    read_link_tests(
        "Running host_to_device_bidirectional_memcpy_ce.\nmemcpy CE CPU(row) <-> GPU(column) bandwidth "
        "(GB/s)\n 0 1\n0 18.5 18.4\n",
        "nv.txt");
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("both ways at once"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tandem::tests
