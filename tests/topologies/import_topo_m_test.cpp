// SPDX-License-Identifier: Apache-2.0
// topologies/import/topo_m.cpp and pair_matrix.cpp: the traps of nvidia-smi topo -m, each in a matrix of our
// own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "topologies/import/importer.h"

namespace tandem::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Machine read(const std::string& text) { return import_registry().at("topo-m").read(text, "topo.txt"); }

std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string corpus(const std::string& name) {
  std::ifstream file(std::string(TANDEM_ROOT) + "/tests/fuzz/corpus/topo_m/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<int> numas(const Machine& m) {
  std::vector<int> out;
  for (const auto& gpu : m.gpus) out.push_back(m.cpus[m.tree[gpu.slot].cpu].numa);
  return out;
}

std::size_t bridges(const Machine& m) {
  std::size_t count = 0;
  for (const auto& slot : m.tree) count += slot.kind == Machine::Slot::Kind::bridge;
  return count;
}

Nearness gpus(const Machine& m, int a, int b) { return m.nearness(m.gpus[a].slot, m.gpus[b].slot); }

bool notes(const Machine& m, const std::string& what) {
  for (const std::string& note : m.notes) {
    if (note.find(what) != std::string::npos) return true;
  }
  return false;
}

constexpr const char* kPair = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-5\nGPU1\tPIX\t X \t0-5\n";

TEST(TopoM, TabsAnsiNicsAndTheirLegend) {
  const Machine m = read(corpus("tabs_ansi"));
  EXPECT_EQ(m.gpus.size(), 4u);
  ASSERT_EQ(m.nics.size(), 2u);
  EXPECT_EQ(m.nics[0].label, "mlx5_0");
  EXPECT_EQ(m.nics[1].label, "mlx5_bond_1");
  EXPECT_THAT(numas(m), ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(gpus(m, 0, 1), Nearness::pix);
  EXPECT_EQ(gpus(m, 2, 3), Nearness::pxb);
  EXPECT_EQ(gpus(m, 1, 2), Nearness::sys);
  EXPECT_EQ(m.nearness(m.gpus[0].slot, m.nics[0].slot), Nearness::pix);
  EXPECT_EQ(m.nearness(m.gpus[2].slot, m.nics[1].slot), Nearness::phb);
  EXPECT_EQ(m.cpus[0].threads, 16);
  EXPECT_EQ(m.cpus[0].cores, 8) << "two equal ranges are the threads of the same cores";
}

TEST(TopoM, PasteWithPromptsBlanksAndModelNames) {
  const Machine m = read(corpus("paste"));
  ASSERT_EQ(m.gpus.size(), 2u);
  EXPECT_EQ(m.gpus[1].model, "Tesla V100-SXM2-16GB");
  ASSERT_EQ(m.cables.size(), 1u);
  EXPECT_EQ(m.cables[0].count, 2);
  EXPECT_TRUE(notes(m, "hides PCIe behind NVLink"));
}

TEST(TopoM, HeaderRunTogetherCarriageReturnsSocAndCgroupAffinity) {
  const Machine m = read(corpus("old_mesh"));
  EXPECT_EQ(m.gpus.size(), 4u);
  EXPECT_EQ(m.nics.size(), 1u);
  EXPECT_EQ(m.cables.size(), 4u) << "a ring of single cables";
  EXPECT_TRUE(notes(m, "virtual machine or a container"));
  EXPECT_EQ(m.cpus.size(), 2u) << "SOC is SYS, whatever the affinity says";
}

TEST(TopoM, MoreCablesThanAGpuHasAreASwitch) {
  const Machine m = read(corpus("switch"));
  ASSERT_EQ(m.cables.size(), 4u);
  for (const auto& cable : m.cables) {
    EXPECT_EQ(cable.to, Machine::Cable::To::nvswitch);
    EXPECT_EQ(cable.count, 12);
  }
  EXPECT_THAT(numas(m), ElementsAre(0, 0, 8, 8)) << "NUMA ids need not be dense";
}

TEST(TopoM, FourWayBridgesAreDirectCables) {
  const Machine m = read(
      "GPU0 GPU1 GPU2 GPU3\nGPU0 X NV4 NV4 NV4\nGPU1 NV4 X NV4 NV4\nGPU2 NV4 NV4 X NV4\nGPU3 NV4 NV4 NV4 "
      "X\n");
  EXPECT_EQ(m.cables.size(), 6u) << "3 x 4 cables fit one GPU";
}

TEST(TopoM, AffinityColumnsMayBeMissingEmptyOrNotAvailable) {
  EXPECT_EQ(read("GPU0 GPU1\nGPU0 X PHB\nGPU1 PHB X\n").cpus.size(), 1u);
  const Machine na = read(
      "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tSYS\t0-7,16-23\t\tN/A\t\tN/A\n"
      "GPU1\tSYS\t X \t8-15,24-31\t1\t\tN/A\n");
  EXPECT_THAT(numas(na), ElementsAre(0, 1));
  const Machine list = read("GPU0 GPU1 CPU Affinity\nGPU0 X PIX 0,2,4,6\nGPU1 PIX X 0,2,4,6\n");
  EXPECT_EQ(list.cpus[0].cores, 4);
  const Machine empty = read("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t\t3\n");
  EXPECT_THAT(numas(empty), ElementsAre(3));
  EXPECT_EQ(empty.cpus[0].threads, 0);
}

TEST(TopoM, FlattenedByAVirtualMachineIsSaidAndNotGuessed) {
  const Machine m = read("GPU0 GPU1 GPU2\nGPU0 X PHB PHB\nGPU1 PHB X PHB\nGPU2 PHB PHB X\n");
  EXPECT_TRUE(notes(m, "hides the topology"));
  EXPECT_EQ(bridges(m), 0u);
}

TEST(TopoM, AllAcrossSocketsIsFlatTooWhateverTheWord) {
  for (const char* word : {"SYS", "SOC"}) {
    std::string text = "GPU0 GPU1 GPU2\n";
    for (int i = 0; i < 3; ++i) {
      text += "GPU" + std::to_string(i);
      for (int j = 0; j < 3; ++j) text += std::string(" ") + (i == j ? "X" : word);
      text += "\n";
    }
    const Machine m = read(text);
    EXPECT_TRUE(notes(m, "all pairs are SYS")) << word;
    EXPECT_EQ(m.cpus.size(), 3u) << word;
  }
}

TEST(TopoM, WordsBeforeTheHeaderAndDoubledTabs) {
  const Machine m = read(
      "box: \tGPU0\t\tGPU1\tmlx4_0\nGPU0\t\t X \tNV1\tPIX\nGPU1\tNV1\t\t X \tSOC\nmlx4_0\tPIX\tSOC\t X\n");
  EXPECT_EQ(m.gpus.size(), 2u);
  EXPECT_EQ(m.nics.size(), 1u);
  EXPECT_EQ(m.cpus.size(), 2u);
}

TEST(TopoM, MarkdownTablesLogPrefixesAndNoBreakSpaces) {
  const Machine table = read(
      "| | GPU0 | GPU1 | `mlx5_0` | CPU Affinity | NUMA Affinity |\n|---|:-:|---|---|---|---|\n| **GPU0** | "
      "X | "
      "PIX | PIX | 0-5,12-17 | 1 |\n| **GPU1** | PIX | X | PIX | | 1 |\n| mlx5_0 | PIX | PIX | X | | |\n");
  EXPECT_EQ(table.gpus.size(), 2u);
  EXPECT_EQ(table.nics.size(), 1u);
  EXPECT_THAT(numas(table), ElementsAre(1, 1)) << "an empty cell is one";
  EXPECT_EQ(table.cpus[0].cores, 6);
  for (const char* prefix :
       {"[1,0]<stdout>:", "3: ", "node7:", "2026-05-01 12:00:03 INFO ", "> ", "\xC2\xA0 "}) {
    std::string text;
    for (const char* line : {"\tGPU0\tGPU1\tCPU Affinity", "GPU0\t X \tPHB\t0-5", "GPU1\tPHB\t X \t0-5"})
      text += std::string(prefix) + line + "\n";
    const Machine m = read(text);
    EXPECT_EQ(m.gpus.size(), 2u) << prefix;
    EXPECT_EQ(m.cpus[0].threads, 6) << prefix;
  }
  EXPECT_EQ(
      read("\xEF\xBB\xBFGPU0\xC2\xA0GPU1\nGPU0\xC2\xA0X\xE2\x80\xAFSYS\nGPU1\xC2\xA0SYS X\n").gpus.size(),
      2u);
  EXPECT_THAT(refusal("a: GPU0 GPU1\na: GPU0 X PIX\na: GPU1 P1X X\n"), HasSubstr("topo.txt:3:"));
}

TEST(TopoM, NumbersOfCablesHaveBoundsAndSelfCablesANote) {
  EXPECT_THAT(refusal("GPU0 GPU1\nGPU0 X NV37\nGPU1 NV37 X\n"),
              HasSubstr("topo.txt:2:8: \"NV37\" in the row of GPU0: a GPU has 1 to 36"));
  EXPECT_THAT(refusal("GPU0 GPU1\nGPU0 X NV0\nGPU1 NV0 X\n"), HasSubstr("a GPU has 1 to 36"));
  EXPECT_THAT(refusal("GPU0 GPU1\nGPU0 X NV99999999999\nGPU1 NV0 X\n"), HasSubstr("a GPU has 1 to 36"));
  EXPECT_EQ(read("GPU0 GPU1\nGPU0 X NV18\nGPU1 NV18 X\n").cables[0].count, 18);
  const Machine self = read("GPU0 GPU1\nGPU0 NV2 NV4\nGPU1 NV4 X\n");
  EXPECT_TRUE(notes(self, "lead back to itself are left out"));
  ASSERT_EQ(self.cables.size(), 1u);
  EXPECT_EQ(self.cables[0].count, 4);
}

TEST(TopoM, TheNumaColumnIsBelievedWhereAllGpusAreSysApart) {
  std::string text = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n";
  for (int i = 0; i < 4; ++i) {
    text += "GPU" + std::to_string(i);
    for (int j = 0; j < 4; ++j) text += i == j ? "\t X " : "\tSYS";
    text += i < 2 ? "\t0-7\t0\n" : "\t8-15\t1\n";
  }
  const Machine m = read(text);
  EXPECT_THAT(numas(m), ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(m.cpus.size(), 2u);
  EXPECT_EQ(m.cpus[1].cores, 8);
  EXPECT_TRUE(notes(m, "the NUMA column is believed"));
  const Machine twice = merge({m, m});
  EXPECT_FALSE(notes(twice, "says")) << "the source does not contradict itself";
  // A pair that is nearer says that the distances are real.
  EXPECT_EQ(
      read("GPU0 GPU1 GPU2 CPU NUMA\nGPU0 X PHB SYS 0-7 0\nGPU1 PHB X SYS 0-7 0\nGPU2 SYS SYS X 0-7 0\n")
          .cpus.size(),
      2u);
}

TEST(TopoM, CablesOfADeviceThatHasNoneAreQuestioned) {
  const Machine m = read("GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4 X\n");
  ImportChoices choices;
  for (const auto& [device, questioned] : {std::pair("rtx-4090", true), std::pair("rtx-3090", false)}) {
    choices.device = device;
    std::vector<std::string> said;
    system_text(m, choices, said);
    EXPECT_EQ(
        std::any_of(said.begin(), said.end(),
                    [](const std::string& note) { return note.find("does not have") != std::string::npos; }),
        questioned)
        << device;
  }
}

TEST(TopoM, FewCoresAreQuestioned) {
  EXPECT_TRUE(notes(read("GPU0 GPU1\nGPU0 X SYS 1-1\nGPU1 SYS X 1-1\n"), "1 core for 2 GPUs"));
  ImportChoices choices;
  choices.device = "t4";
  std::vector<std::string> said;
  system_text(read("GPU0 GPU1\nGPU0 X PHB 1-1\nGPU1 PHB X 1-1\n"), choices, said);
  EXPECT_THAT(said, ::testing::Contains(HasSubstr("1 core for 2 GPUs")));
  said.clear();
  system_text(read("GPU0 GPU1\nGPU0 X PHB 0-1\nGPU1 PHB X 0-1\n"), choices, said);
  EXPECT_THAT(said, ::testing::Not(::testing::Contains(HasSubstr("for 2 GPUs"))));
}

TEST(TopoM, TruncatedTextIsRefusedAtItsLine) {
  const std::string whole = corpus("tabs_ansi");
  EXPECT_THAT(refusal(whole.substr(0, whole.find("\nNIC1\t"))),
              HasSubstr("cut short: the header names NIC1"));
  const auto row = whole.find("GPU3\tSYS");
  EXPECT_THAT(refusal(whole.substr(0, row + 12)),
              HasSubstr("topo.txt:5:1: cut short: the row of GPU3 has 2 of 6"));
  EXPECT_THAT(refusal("GPU0 GPU1 CPU Affinity\nGPU0 X PIX 0-5\nGPU1 PIX X 0-"), HasSubstr("cut short"));
  EXPECT_THAT(refusal("GPU0 GPU1 CPU Affinity\n"), HasSubstr("no rows below the header"));
}

TEST(TopoM, DamagedMatricesAreRefused) {
  EXPECT_THAT(refusal("GPU0 GPU1\nGPU0 X NV2\nGPU1 SYS X\n"),
              HasSubstr("GPU0 to GPU1 is NV2, but GPU1 to GPU0 is SYS"));
  EXPECT_THAT(refusal("GPU0 GPU1\nGPU0 X PIX\nGPU1 X PIX\n"), HasSubstr("the X of GPU1"));
  EXPECT_THAT(refusal("GPU0 GPU1\nGPU0 X PIXX\nGPU1 PIX X\n"), HasSubstr("2:8: \"PIXX\""));
  EXPECT_THAT(refusal("GPU0 GPU1 GPU2\nGPU0 X PIX SYS\nGPU1 PIX X PIX\nGPU2 SYS PIX X\n"),
              HasSubstr("no PCI tree has these distances"));
  EXPECT_THAT(refusal(std::string(kPair) + kPair), HasSubstr("one matrix at a time"));
  EXPECT_THAT(refusal("hello\nworld\n"), HasSubstr("no matrix of nvidia-smi topo -m"));
}

TEST(TopoM, BlanksOrTabsMakeNoDifference) {
  std::string blanks;
  for (const char c : corpus("tabs_ansi")) blanks += c == '\t' ? std::string("     ") : std::string(1, c);
  const Machine a = read(corpus("tabs_ansi")), b = read(blanks);
  EXPECT_EQ(a.said, b.said);
  EXPECT_EQ(a.tree.size(), b.tree.size());
  EXPECT_EQ(numas(a), numas(b));
}

}  // namespace
}  // namespace tandem::tests
