// SPDX-License-Identifier: Apache-2.0
// tandem import and export as a user meets them: pastes, several sources of one machine, wrong files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/app/tool.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

constexpr int kUsage = 2, kInput = 3;

std::string fixture(const std::string& name) {
  return std::string(TANDEM_ROOT) + "/tests/fuzz/corpus/" + name;
}

void expect_refusal(const ChildResult& result, int code, const std::string& says) {
  EXPECT_EQ(result.status, code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr(says));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST(Import, APasteFromATerminalBecomesASystemThatPredicts) {
  const Scratch scratch;
  const std::string box = scratch.file("box.json");
  const ChildResult imported = tool({"import", "topo-m", "-", "--out", box}, slurp(fixture("topo_m/paste")));
  ASSERT_EQ(imported.status, 0) << imported.err;
  EXPECT_THAT(imported.err, HasSubstr("hides PCIe behind NVLink"));
  const System system = System::load(box);
  EXPECT_EQ(system.accelerator_count(), 2);
  EXPECT_EQ(system.device(system.accelerator(1)).name, "v100-sxm2-16gb");
  EXPECT_EQ(system.link_kind(system.route(system.accelerator(0), system.accelerator(1)).links[0]), "nvlink");
  const ChildResult predicted = tool({"predict", "--model", "lenet5", "--system", box, "--devices", "1,2"});
  EXPECT_EQ(predicted.status, 0) << predicted.err;
  EXPECT_EQ(tool({"collective", "--system", box}).status, 0);
  EXPECT_EQ(tool({"show", "system", box}).status, 0);
}

TEST(Import, AGraphOfOnnxBecomesAModelThatPredicts) {
  const Scratch scratch;
  const std::string model = scratch.file("model.json"), file = fixture("onnx/images");
  const ChildResult imported = tool({"import", "onnx", file, "--loss", "cross-entropy", "--out", model});
  if (imported.status == 4) {
    expect_refusal(imported, 4, "built without protobuf");
    GTEST_SKIP() << "built without protobuf";
  }
  ASSERT_EQ(imported.status, 0) << imported.err;
  EXPECT_THAT(imported.err, HasSubstr("images: 833 parameters"));
  const ChildResult predicted =
      tool({"predict", "--model", model, "--system", "dgx1-v100", "--devices", "1,8"});
  EXPECT_EQ(predicted.status, 0) << predicted.err;
  expect_refusal(tool({"import", "onnx", file, "--dim", "N"}), kUsage, "--dim N: wanted is NAME=N");
  expect_refusal(tool({"import", "onnx", file, "--loss", "mes"}), kUsage, "mse");
  expect_refusal(tool({"import", "onnx", file, "--dim", "N=4"}), kInput, "a batch of 1");
}

TEST(Import, KindsAreToldByContent) {
  for (const char* name :
       {"nccl_xml/switches.xml", "nccl_xml/amd.xml", "hwloc_xml/power.xml", "topo_m/paste"}) {
    const ChildResult result = tool({"import", fixture(name), "--name", "mine"});
    ASSERT_EQ(result.status, 0) << name << ": " << result.err;
    EXPECT_EQ(System::from_json(Json::parse(result.out, name)).name(), "mine");
  }
}

TEST(Import, TheSameFileGivesTheSameBytes) {
  const std::vector<std::string> words = {"import", fixture("nccl_xml/switches.xml")};
  EXPECT_EQ(tool(words).out, tool(words).out);
}

TEST(Import, SourcesOfOneMachineAreJoinedAndTheirContradictionsNamed) {
  const Scratch scratch;
  // The XML of "switches" has GPU 0 and 1 on two sockets with two cables.
  const std::string agrees = scratch.write("agrees.txt", "GPU0 GPU1\nGPU0 X NV2\nGPU1 NV2 X\n");
  const std::string differs = scratch.write("differs.txt", "GPU0 GPU1\nGPU0 X NV12\nGPU1 NV12 X\n");
  const std::string xml = fixture("nccl_xml/switches.xml");
  const ChildResult one = tool({"import", agrees, xml});
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_THAT(one.err, Not(HasSubstr("is believed")));
  const ChildResult two = tool({"import", "topo-m", differs, "nccl-xml", xml});
  ASSERT_EQ(two.status, 0) << two.err;
  EXPECT_THAT(two.err,
              HasSubstr("topo-m says NV12 between GPU0 and GPU1, nccl-xml NV2: nccl-xml is believed"));
  const System system = System::from_json(Json::parse(two.out, "joined"));
  const Route route = system.route(system.accelerator(0), system.accelerator(1));
  EXPECT_DOUBLE_EQ(system.link(route.links[0]).bandwidth.bytes_per_second, 50e9);
}

TEST(Import, WhatADumpCannotSayIsAskedForByName) {
  const std::string matrix = "GPU0 GPU1\nGPU0 X PHB\nGPU1 PHB X\n";
  expect_refusal(tool({"import", "topo-m", "-"}, matrix), kInput, "give their model with --device");
  expect_refusal(tool({"import", "topo-m", "-", "--device", "rtx-4095"}, matrix), kInput, "rtx-4090");
  expect_refusal(tool({"import", "topo-m", "-", "--device", "epyc-7742"}, matrix), kInput, "is a CPU");
  expect_refusal(tool({"import", "topo-m", "-", "--device", "rtx-4090", "--cpu", "rtx-4090"}, matrix), kInput,
                 "is no CPU");
  expect_refusal(tool({"import", "topo-m", "-", "--device", "4090"}, matrix), kInput,
                 "Did you mean rtx-4090?");
  expect_refusal(tool({"import", "topo-m", "-", "--device", "rtx-4090", "--library", "nkcl-2.28"}, matrix),
                 kInput, "Did you mean nccl?");
  EXPECT_EQ(tool({"import", "topo-m", "-", "--device", "rtx-4090"}, matrix).status, 0);
}

const std::string kThree = "GPU0 GPU1 GPU2\nGPU0 X PHB PHB\nGPU1 PHB X PHB\nGPU2 PHB PHB X\n";

TEST(Import, UnlikeCardsAreNamedInTheOrderOfTheDump) {
  const ChildResult result =
      tool({"import", "topo-m", "-", "--device", "rtx-4090,rtx-5090,rtx-a6000"}, kThree);
  ASSERT_EQ(result.status, 0) << result.err;
  const System system = System::from_json(Json::parse(result.out, "mixed"));
  EXPECT_EQ(system.device(system.accelerator(0)).name, "rtx-4090");
  EXPECT_EQ(system.device(system.accelerator(1)).name, "rtx-5090");
  EXPECT_EQ(system.device(system.accelerator(2)).name, "rtx-a6000");
  expect_refusal(tool({"import", "topo-m", "-", "--device", "rtx-4090,rtx-5090"}, kThree), kInput,
                 "--device names 2 models, topo-m shows 3 GPUs");
}

const std::string kMeasured =
    "Device: 0, NVIDIA GeForce RTX 4090, pciBusID: 2, pciDeviceID: 0, pciDomainID:0\n"
    "Device: 1, NVIDIA GeForce RTX 5090, pciBusID: 1, pciDeviceID: 0, pciDomainID:0\n"
    "Device: 2, NVIDIA RTX A6000, pciBusID: 6, pciDeviceID: 0, pciDomainID:0\n"
    "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1      2\n"
    "     0 1008.06   6.34   6.30\n     1   6.34 1500.75  6.10\n     2   6.31  6.20  680.00\n";

TEST(Import, AMatrixAndMeasuredLinksOfOneMachineJoin) {
  const Scratch scratch;
  const std::string topo = scratch.write("topo.txt", kThree), p2p = scratch.write("p2p.txt", kMeasured);
  for (const auto& words : {std::vector<std::string>{"import", topo, p2p},
                            {"import", p2p, topo},
                            {"import", "p2p", p2p, "topo-m", topo}}) {
    const ChildResult result = tool(words);
    ASSERT_EQ(result.status, 0) << result.err;
    const System system = System::from_json(Json::parse(result.out, "joined"));
    // The cards are named by the measurement, and counted by their buses as the matrix does.
    EXPECT_EQ(system.device(system.accelerator(0)).name, "rtx-5090");
    EXPECT_EQ(system.device(system.accelerator(2)).name, "rtx-a6000");
    EXPECT_NEAR(system.route(system.accelerator(0), system.accelerator(1)).cap, 6.3e9, 1e8);
    EXPECT_THAT(result.out, HasSubstr("links measured: "));
    EXPECT_THAT(result.err, HasSubstr("gpu0 and on are its devices 1,0,2"));
  }
  const ChildResult other = tool({"import", topo, p2p, "--device", "rtx-4090,rtx-5090,rtx-a6000"});
  EXPECT_THAT(other.err,
              HasSubstr("by the measurement gpu0 is a rtx-5090, here rtx-4090, gpu1 is a rtx-4090"));
  expect_refusal(tool({"import", topo, p2p, "--system", "workstation-2x"}), kUsage,
                 "--system names the machine");
}

TEST(Import, ADeviceOfOnesOwnIsFoundFromWhereTheSystemLies) {
  const Scratch scratch;
  const std::string card =
      scratch.write("my-card.json", slurp(std::string(TANDEM_ROOT) + "/topologies/devices/l20.json"));
  const std::string topo = scratch.write("topo.txt", kThree);
  const std::string box = scratch.file("box.json");
  const ChildResult written = tool({"import", topo, "--device", card, "--out", box});
  ASSERT_EQ(written.status, 0) << written.err;
  EXPECT_THAT(slurp(box), HasSubstr("\"my-card.json\""));
  EXPECT_EQ(System::load(box).device(0).name, "l20");
  EXPECT_EQ(System::load(box).name(), "box");
  const ChildResult shown = tool({"import", topo, "--device", card});  // to stdout: it may lie anywhere
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("\"" + card + "\""));
  const std::string p2p = scratch.write("p2p.txt", kMeasured), measured = scratch.file("measured.json");
  ASSERT_EQ(tool({"import", "p2p", p2p, "--system", box, "--out", measured}).status, 0);
  EXPECT_EQ(System::load(measured).device(0).name, "l20");
  EXPECT_EQ(tool({"predict", "--model", "lenet5", "--system", "workstation-2x", "--devices", "1", "--swap",
                  "device=" + card})
                .status,
            0);
}

TEST(Import, FilesOfTheWrongKindAreRefused) {
  const Scratch scratch;
  const std::string empty = scratch.write("empty.txt", " \n\n");
  const std::string binary = scratch.write("a.out", std::string("\x7f"
                                                                "ELF\0\1\2",
                                                                7));
  const std::string prose = scratch.write("readme.txt", "This is my machine.\n");
  expect_refusal(tool({"import", "topo-m", empty}), kInput, "nothing in it");
  expect_refusal(tool({"import", binary}), kInput, "not a text file");
  expect_refusal(tool({"import", prose}), kInput, "cannot tell what this is");
  expect_refusal(tool({"import", "topo-m", prose}), kInput, "no matrix of nvidia-smi topo -m");
  expect_refusal(tool({"import", "topo-m", fixture("nccl_xml/amd.xml")}), kInput, "it looks like nccl-xml");
  expect_refusal(tool({"import", "nccl-xnl", fixture("nccl_xml/amd.xml")}), kUsage, "Did you mean nccl-xml?");
  expect_refusal(tool({"import", scratch.file("no.txt")}), kInput, "no.txt");
  expect_refusal(tool({"import", "nccl-xml"}), kUsage, "no file after \"nccl-xml\"");
}

TEST(Export, SystemsInTheWordsOfOtherSimulators) {
  const ChildResult platform = tool({"export", "simgrid", "z10pe-2x1080ti"});
  ASSERT_EQ(platform.status, 0) << platform.err;
  EXPECT_THAT(platform.out, HasSubstr("<platform version=\"4.1\">"));
  const ChildResult network = tool({"export", "astra-sim", "dgx-h100", "--set", "nodes=4"});
  ASSERT_EQ(network.status, 0) << network.err;
  EXPECT_THAT(network.out, HasSubstr("npus_count: [ 8, 4 ]"));
  expect_refusal(tool({"export", "simgrit", "dgx-h100"}), kUsage, "Did you mean simgrid?");
  expect_refusal(tool({"export", "simgrid", "dgx-h100", "--set", "nodes=100"}), kInput, "--set nodes=N");
  expect_refusal(tool({"export", "chrome-trace", "a.json", "--set", "nodes=1"}), kUsage,
                 "--set changes a system");
}

}  // namespace
}  // namespace tandem::tests
