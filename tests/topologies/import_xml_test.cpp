// SPDX-License-Identifier: Apache-2.0
// topologies/import/nccl_xml.cpp, hwloc_xml.cpp and xml.cpp: the traps of both formats and of hostile XML.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "topologies/import/hardware.h"
#include "topologies/import/importer.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

std::string corpus(const std::string& name) {
  std::ifstream file(std::string(TANDEM_ROOT) + "/tests/fuzz/corpus/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
Machine nccl(const std::string& text) { return import_registry().at("nccl-xml").read(text, "topo.xml"); }
Machine hwloc(const std::string& text) { return import_registry().at("hwloc-xml").read(text, "lstopo.xml"); }

template <typename Read>
std::string refusal(Read read, const std::string& text) {
  try {
    read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string all_notes(const Machine& m) {
  std::string out;
  for (const std::string& note : m.notes) out += note + "\n";
  return out;
}

template <typename Device>
const Machine::Slot& slot_of(const Machine& m, const Device& device) {
  return m.tree[device.slot];
}

TEST(NcclXml, SwitchesPortsVirtualNicsAndMissingNumbers) {
  const Machine m = nccl(corpus("nccl_xml/switches.xml"));
  ASSERT_EQ(m.gpus.size(), 2u);
  ASSERT_EQ(m.nics.size(), 2u);
  EXPECT_EQ(m.nearness(m.gpus[0].slot, m.nics[0].slot), Nearness::pix) << "a port of a switch is no switch";
  EXPECT_EQ(m.nearness(m.gpus[0].slot, m.gpus[1].slot), Nearness::sys);
  EXPECT_EQ(m.gpus[0].pci_id, "10de:1db1");
  EXPECT_EQ(m.nics[0].ports, 2);
  EXPECT_DOUBLE_EQ(m.nics[0].megabits, 110'000) << "-1 counts as 10 Gbit/s";
  EXPECT_FALSE(m.tree[m.nics[1].slot].on_pci);
  EXPECT_EQ(m.cpus[0].cores, 8);
  EXPECT_EQ(m.cpus[1].numa, 1) << "-1 becomes the least free number";
  ASSERT_EQ(m.cables.size(), 1u);
  EXPECT_EQ(m.cables[0].count, 2);
  EXPECT_EQ(slot_of(m, m.gpus[1]).link.gigatransfers, 0) << "unknown";
  EXPECT_THAT(all_notes(m), HasSubstr("mlx5_1 has no valid speed"));
}

TEST(NcclXml, AmdDialect) {
  const Machine m = nccl(corpus("nccl_xml/amd.xml"));
  ASSERT_EQ(m.gpus.size(), 2u);
  EXPECT_TRUE(m.xgmi);
  EXPECT_EQ(m.gpus[0].gcn, "908");
  EXPECT_EQ(m.gpus[0].sm, 0) << "the attribute counts compute units there";
  EXPECT_EQ(m.cables.size(), 1u);
  EXPECT_DOUBLE_EQ(slot_of(m, m.gpus[0]).link.gigatransfers, 16) << "the slower of a GPU and its port";
  EXPECT_EQ(m.cpus[0].family, 23) << "cpuid's family behind NCCL's 143";
}

TEST(NcclXml, PlatformFilesTellDevicesByClass) {
  const Machine m = nccl(corpus("nccl_xml/platform.xml"));
  EXPECT_EQ(m.gpus.size(), 2u);
  EXPECT_EQ(m.nics.size(), 1u);
  EXPECT_FALSE(m.knows_cables);
  EXPECT_EQ(m.cpus[0].numa, 3);
  EXPECT_EQ(m.cpus[0].cores, 2) << "c0c0: two threads each of two cores";
  const std::string bare =
      "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:00:16.0\"/><pci "
      "busid=\"0000:00:17.0\"/></cpu></system>";
  EXPECT_THAT(refusal(nccl, bare), HasSubstr("GPUs cannot be told from NICs"));
}

TEST(NcclXml, SwitchChipsAreOneFabricAlsoWhenAVmHidesThem) {
  const Machine m = nccl(corpus("nccl_xml/nvswitch.xml"));
  ASSERT_EQ(m.cables.size(), 2u);
  EXPECT_EQ(m.cables[0].to, Machine::Cable::To::nvswitch);
  EXPECT_EQ(m.cables[0].count, 18);
  EXPECT_EQ(m.cables[1].count, 18);
  EXPECT_DOUBLE_EQ(m.gpus[1].c2c, 50);
}

TEST(NcclXml, CablesToTheCpuStayOnItsSide) {
  const std::string cable = "<nvlink target=\"0000:92:00.0\" count=\"2\" tclass=\"0x030200\"/>";
  const std::string text =
      replaced(corpus("nccl_xml/switches.xml"), cable,
               cable + "<nvlink target=\"0004:00:00.0\" count=\"3\" tclass=\"0x068001\"/>");
  const Machine m = nccl(text);
  ASSERT_EQ(m.cables.size(), 2u);
  EXPECT_EQ(m.cables[1].to, Machine::Cable::To::cpu);
  EXPECT_EQ(m.cables[1].b, 0);
  EXPECT_EQ(m.cables[1].count, 3);
}

TEST(NcclXml, OneHostOfSeveral) {
  std::string text = corpus("nccl_xml/amd.xml");
  const auto cpu = text.find("  <cpu"), end = text.find("</system>");
  const std::string second = replaced(text.substr(cpu, end - cpu), "host_hash=\"0x1\"", "host_hash=\"0x2\"");
  const Machine m = nccl(text.insert(end, second));
  EXPECT_EQ(m.gpus.size(), 2u);
  EXPECT_THAT(all_notes(m), HasSubstr("several hosts"));
}

TEST(NcclXml, CablesThatDoNotReturnAreDamage) {
  const std::string text = corpus("nccl_xml/switches.xml");
  EXPECT_THAT(refusal(nccl, replaced(text, "count=\"2\"", "count=\"1\"")),
              HasSubstr("1 cables from GPU 0 to GPU 1, but 2 back"));
  const Machine outside = nccl(replaced(replaced(text, "0000:92:00.0\" count", "0000:b2:00.0\" count"),
                                        "0000:12:00.0\" count", "0000:c2:00.0\" count"));
  EXPECT_TRUE(outside.cables.empty());
  EXPECT_THAT(all_notes(outside), HasSubstr("not in this dump"));
}

TEST(NcclXml, CablesToItselfAreANoteAndCountsHaveBounds) {
  const std::string text = corpus("nccl_xml/switches.xml");
  const std::string cable = "<nvlink target=\"0000:92:00.0\" count=\"2\" tclass=\"0x030200\"/>";
  const Machine m = nccl(
      replaced(text, cable, cable + "<nvlink target=\"0000:12:00.0\" count=\"1\" tclass=\"0x030200\"/>"));
  EXPECT_EQ(m.cables.size(), 1u);
  EXPECT_THAT(all_notes(m), HasSubstr("lead from a GPU back to itself are left out: 1"));
  EXPECT_THAT(refusal(nccl, replaced(text, "count=\"2\"", "count=\"37\"")), HasSubstr("36"));
}

TEST(NcclXml, TruncatedAndHostileTextIsRefusedWithItsLine) {
  const std::string text = corpus("nccl_xml/switches.xml");
  for (const double part : {0.2, 0.5, 0.8, 0.98}) {
    const std::string cut = text.substr(0, static_cast<std::size_t>(part * static_cast<double>(text.size())));
    EXPECT_THAT(refusal(nccl, cut), HasSubstr("topo.xml:")) << part;
    EXPECT_NE(refusal(nccl, cut), "accepted") << part;
  }
  std::string deep = "<system>";
  for (int i = 0; i < 100; ++i) deep += "<pci>";
  for (int i = 0; i < 100; ++i) deep += "</pci>";
  EXPECT_THAT(refusal(nccl, deep + "</system>"), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(refusal(nccl, "<topology/>"), HasSubstr("the root element is <topology>, not <system>"));
  EXPECT_THAT(refusal(nccl, replaced(text, "link_width=\"16\"", "link_width=\"-4\"")),
              HasSubstr("topo.xml:5:"));
  std::string many = "<system version=\"1\"><cpu numaid=\"0\">";
  for (int i = 0; i < 1000; ++i) many += "<pci class=\"0x030200\"/>";
  EXPECT_THAT(refusal(nccl, many + "</cpu></system>"), HasSubstr("more than 128 GPUs"));
  // Entities of its own are not expanded: they stay text.
  const std::string bomb =
      "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]><system><cpu "
      "numaid=\"&b;\"/></system>";
  EXPECT_THAT(refusal(nccl, bomb), HasSubstr("no whole number"));
}

/// A switch of a virtual machine, whose bridges and devices report these links.
std::string virtual_machine(const std::string& bridge, const std::string& device) {
  const auto pci = [](const std::string& bus, const std::string& type, const std::string& link) {
    return "<pci busid=\"0000:" + bus + ":00.0\" class=\"" + type +
           "\" vendor=\"0x10de\" device=\"0x2330\" " + link + ">";
  };
  return "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\">" + pci("01", "0x060400", bridge) +
         pci("02", "0x030200", device) + "<gpu dev=\"0\" sm=\"90\"/></pci>" + pci("03", "0x020000", device) +
         "<nic><net name=\"mlx5_0\" speed=\"400000\"/></nic></pci></pci></cpu></system>";
}

TEST(NcclXml, BridgesOfAVirtualMachineAreNoWires) {
  const std::string x16 = "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"";
  for (const std::string one : {"2.5", "5.0", "8.0", "16.0"}) {
    const Machine m = nccl(virtual_machine("link_speed=\"" + one + " GT/s PCIe\" link_width=\"1\"", x16));
    ASSERT_EQ(m.tree.size(), 3u);
    for (const Machine::Slot& slot : m.tree) EXPECT_EQ(slot.link.lanes * slot.link.gigatransfers, 512) << one;
    EXPECT_THAT(all_notes(m), HasSubstr("0000:01:00.0: the bridge reports a link more than 4 times slower"));
  }
  // Devices that know nothing do not sit on one lane either.
  const Machine unknown = nccl(virtual_machine("link_speed=\"2.5 GT/s PCIe\" link_width=\"1\"", ""));
  EXPECT_EQ(unknown.tree[0].link.lanes, 0);
  // A NIC of 400 Gbit/s is on no such lane; a switch's narrow uplink is one.
  const Machine nic = nccl(virtual_machine(x16, "link_speed=\"2.5 GT/s PCIe\" link_width=\"1\""));
  EXPECT_EQ(slot_of(nic, nic.nics[0]).link.lanes, 0);
  EXPECT_THAT(all_notes(nic), HasSubstr("mlx5_0: one slow lane is reported"));
  const Machine narrow = nccl(virtual_machine("link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"", x16));
  EXPECT_EQ(narrow.tree[0].link.gigatransfers, 16);
}

TEST(HwlocXml, BridgesOfAVirtualMachineAreNoWires) {
  for (const char* rate : {"1.969231", "0.250000", "0.984615"}) {
    const std::string link = std::string("pci_link_speed=\"") + rate + "\"";
    const Machine m = hwloc(
        "<topology version=\"2.0\"><object type=\"Machine\" nodeset=\"0x1\"><object type=\"Core\"><object "
        "type=\"PU\"/></object><object type=\"Bridge\" bridge_type=\"0-1\"><object type=\"Bridge\" "
        "bridge_type=\"1-1\" "
        "pci_busid=\"0000:20:00.0\" " +
        link + "><object type=\"Bridge\" bridge_type=\"1-1\" pci_busid=\"0000:21:00.0\" " + link +
        "><object type=\"PCIDev\" pci_busid=\"0000:23:00.0\" pci_type=\"0200 [1d0f:efa3]\" "
        "pci_link_speed=\"63.015385\"/><object type=\"PCIDev\" pci_busid=\"0000:25:00.0\" pci_type=\"0302 "
        "[10de:2941]\" pci_link_speed=\"63.015385\"/></object></object></object></object></topology>");
    ASSERT_EQ(m.tree.size(), 3u);
    for (const Machine::Slot& slot : m.tree) EXPECT_EQ(slot.link.gigatransfers, 32) << rate;
    EXPECT_THAT(all_notes(m), HasSubstr("0000:20:00.0 and 1 more: the bridge reports"));
    // A GPU with a way of its own to the processor keeps the switch that it shares with the NIC.
    std::vector<std::string> notes;
    const System system = System::from_json(
        Json::parse(system_text(m, {.name = "", .nic = parse_bandwidth("400Gbit/s")}, notes), "vm"),
        {{"nodes", "2"}});
    EXPECT_EQ(system.route(system.accelerator(0), system.accelerator(1)).staged, 0);
  }
}

TEST(NcclXml, WidthsThatLinuxDoesNotKnowAreUnknown) {
  for (const char* width : {"0", "63", "255"}) {
    const Machine m =
        nccl(virtual_machine("", std::string("link_speed=\"Unknown\" link_width=\"") + width + "\""));
    EXPECT_EQ(slot_of(m, m.gpus[0]).link.lanes, 0) << width;
    EXPECT_EQ(slot_of(m, m.nics[0]).link.gigatransfers, 0) << width;
  }
}

TEST(NcclXml, ACardAsleepHasItsOwnGeneration) {
  const Machine m = nccl(virtual_machine("link_speed=\"2.5 GT/s PCIe\" link_width=\"16\"",
                                         "link_speed=\"2.5 GT/s PCIe\" link_width=\"16\""));
  EXPECT_EQ(slot_of(m, m.gpus[0]).link.gigatransfers, 0);
  EXPECT_EQ(slot_of(m, m.gpus[0]).link.lanes, 16);
  EXPECT_THAT(all_notes(m), HasSubstr("as of a card asleep"));
}

TEST(GpuModels, AreToldByTheirNamesAndNoLongerOnes) {
  const auto model = [](const std::string& marketing, const std::string& id = "") {
    bool sure = false;
    return gpu_model({.pci_id = id, .model = marketing}, Joined::cards, sure);
  };
  EXPECT_EQ(model("NVIDIA GeForce RTX 4070 Ti SUPER"), "rtx-4070-ti-super");
  EXPECT_EQ(model("NVIDIA GeForce RTX 4070 Ti"), "rtx-4070-ti");
  EXPECT_EQ(model("NVIDIA GeForce RTX 4070"), "rtx-4070");
  EXPECT_EQ(model("NVIDIA GeForce RTX 4070 Laptop GPU"), "");
  EXPECT_EQ(model("NVIDIA GeForce RTX 3080 Ti Laptop GPU"), "rtx-3080-ti-laptop");
  EXPECT_EQ(model("NVIDIA H20"), "h20");
  EXPECT_EQ(model("NVIDIA H200"), "h200-sxm");
  EXPECT_EQ(model("NVIDIA H200 NVL"), "");
  EXPECT_EQ(model("NVIDIA GB10"), "gb10");
  EXPECT_EQ(model("AMD Instinct MI355X"), "mi355x");
  EXPECT_EQ(model("NVIDIA RTX PRO 6000 Blackwell Server Edition"), "rtx-pro-6000-server");
  EXPECT_EQ(model("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"), "rtx-pro-6000-max-q");
  EXPECT_EQ(model("", "1002:75a0"), "mi350x");
  EXPECT_EQ(model("", "10de:2c02"), "rtx-5080");
}

TEST(HwlocXml, PackagesGpusNicsAndCablesToTheCpu) {
  const Machine m = hwloc(corpus("hwloc_xml/power.xml"));
  ASSERT_EQ(m.gpus.size(), 2u);
  ASSERT_EQ(m.nics.size(), 1u) << "the console's graphics is no GPU";
  EXPECT_EQ(m.nics[0].label, "mlx5_0");
  EXPECT_EQ(m.cpus[1].numa, 8);
  EXPECT_EQ(m.cpus[1].cores, 1);
  EXPECT_EQ(m.cpus[1].threads, 2);
  EXPECT_EQ(slot_of(m, m.gpus[0]).link.lanes, 8) << "7.88 GB/s at its port, 15.75 at the card";
  ASSERT_EQ(m.cables.size(), 3u);
  EXPECT_EQ(m.cables[0].count, 1) << "20 GB/s between the GPUs";
  EXPECT_EQ(m.cables[1].to, Machine::Cable::To::cpu);
  EXPECT_EQ(m.cables[1].count, 2) << "40 GB/s";
}

TEST(HwlocXml, NvswitchesAreToldByTheirSubtype) {
  const Machine m = hwloc(corpus("hwloc_xml/nvswitch.xml"));
  ASSERT_EQ(m.gpus.size(), 2u);
  ASSERT_EQ(m.cables.size(), 2u) << "both switches are one fabric";
  for (const Machine::Cable& cable : m.cables) {
    EXPECT_EQ(cable.to, Machine::Cable::To::nvswitch);
    EXPECT_EQ(cable.count, 18) << "450 GB/s";
  }
  EXPECT_THAT(refusal(hwloc, replaced(corpus("hwloc_xml/nvswitch.xml"), "1000000 0 250000 200000",
                                      "1000000 0 950000 200000")),
              HasSubstr("46 cables: a GPU has 36 at most"));
}

TEST(HwlocXml, WithoutDevicesItIsAMachineOfCpus) {
  const Machine m = hwloc(corpus("hwloc_xml/cpus.xml"));
  EXPECT_TRUE(m.gpus.empty());
  EXPECT_EQ(m.cpus[0].cores, 2);
  EXPECT_THAT(all_notes(m), HasSubstr("no PCI devices"));
  EXPECT_THAT(refusal(hwloc, "<topology version=\"2.0\"><object type=\"Machine\"/></topology>"),
              HasSubstr("no processors"));
  std::string cut = corpus("hwloc_xml/power.xml");
  EXPECT_THAT(refusal(hwloc, cut.substr(0, cut.size() / 2)), HasSubstr("lstopo.xml:"));
  EXPECT_THAT(refusal(hwloc, replaced(cut, "1000000 20000 40000", "1000000 20000")),
              HasSubstr("15 values for 4 x 4"));
}

}  // namespace
}  // namespace tandem::tests
