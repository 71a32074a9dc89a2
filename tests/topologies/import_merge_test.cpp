// SPDX-License-Identifier: Apache-2.0
// topologies/import/merge.cpp: what each source adds, and which contradictions are named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "topologies/import/importer.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string corpus(const std::string& name) {
  std::ifstream file(std::string(TANDEM_ROOT) + "/tests/fuzz/corpus/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
Machine read(const char* kind, const std::string& text, const std::string& file) {
  return import_registry().at(kind).read(text, file);
}
Machine xml(const std::string& name) { return read("nccl-xml", corpus("nccl_xml/" + name), "dumps/" + name); }
Machine matrix(const std::string& text) { return read("topo-m", text, "topo.txt"); }

std::string remarks(const Machine& m) {
  std::string out;
  for (const std::string& note : m.notes) out += note + "\n";
  return out;
}

TEST(Merge, CablesComeFromTheSourceThatKnowsThem) {
  const Machine m = merge({xml("platform.xml"), matrix("GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4 X\n")});
  EXPECT_EQ(m.source, "nccl-xml + topo-m");
  ASSERT_EQ(m.cables.size(), 1u);
  EXPECT_EQ(m.cables[0].count, 4);
  EXPECT_TRUE(m.knows_cables);
  EXPECT_THAT(remarks(m), Not(HasSubstr("is believed")));
}

TEST(Merge, SpeedsAndModelsAreFilledIn) {
  // The XML of "switches" knows the NIC's speed, hwloc the name of a processor.
  Machine bare = xml("switches.xml");
  for (Machine::Nic& nic : bare.nics) nic.megabits = 0;
  for (Machine::Gpu& gpu : bare.gpus) gpu.pci_id.clear();
  Machine known = xml("switches.xml");
  known.cpus[0].description = "Intel(R) Xeon(R) Gold 6230";
  const Machine m = merge({bare, known});
  EXPECT_DOUBLE_EQ(m.nics[0].megabits, 110'000);
  EXPECT_EQ(m.gpus[1].pci_id, "10de:1db1");
  EXPECT_EQ(m.cpus[0].description, "Intel(R) Xeon(R) Gold 6230");
}

TEST(Merge, CountsOfDevicesThatDifferAreNamed) {
  const Machine m = merge(
      {xml("switches.xml"), matrix("GPU0 GPU1 GPU2\nGPU0 X NV2 SYS\nGPU1 NV2 X SYS\nGPU2 SYS SYS X\n")});
  EXPECT_EQ(m.gpus.size(), 2u);
  EXPECT_THAT(remarks(m), HasSubstr("nccl-xml shows 2 GPUs, topo-m shows 3 (without a partner: GPU2)"));
}

TEST(Merge, DistancesThatDifferAreNamed) {
  const Machine m = merge({xml("platform.xml"), matrix("GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\n")});
  EXPECT_THAT(remarks(m),
              HasSubstr("topo-m says SYS between GPU0 and GPU1, nccl-xml PIX: nccl-xml is believed"));
}

TEST(Merge, TwoOfOneKindGoByTheirFiles) {
  Machine other = xml("switches.xml");
  other.file = "dumps/second.xml";
  other.gpus[0].pci_id = "10de:1db5";
  const Machine m = merge({xml("switches.xml"), other});
  EXPECT_THAT(remarks(m), HasSubstr("nccl-xml second.xml says that GPU0 is PCI device 10de:1db5, nccl-xml "
                                    "switches.xml says 10de:1db1: nccl-xml switches.xml is believed"));
}

TEST(Merge, TheSameTwiceIsTheSame) {
  const Machine one = xml("switches.xml");
  std::vector<std::string> notes;
  EXPECT_EQ(merge({one, one}).notes, one.notes);
  const System system = System::from_json(Json::parse(system_text(merge({one, one}), {}, notes), "twice"));
  EXPECT_EQ(system.accelerator_count(), 2);
}

}  // namespace
}  // namespace tandem::tests
