// SPDX-License-Identifier: Apache-2.0
#pragma once
// One node as a dump describes it, whatever the format: a PCI tree with GPUs and NICs as leaves, direct
// cables between them, and what is known of the CPUs. Readers fill it, merge() joins several, system_text()
// turns it into a system file.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rooms.h"

namespace tandem::topologies {

/// How near two PCI devices are, nearest first: one switch, several switches, one host bridge, one NUMA node,
/// another NUMA node (as nvidia-smi topo -m and NCCL call it).
enum class Nearness : uint8_t { pix, pxb, phb, node, sys };
std::string_view name(Nearness nearness);

/// A PCIe connection as written; 0 where the dump leaves it open.
struct PcieLink {
  double gigatransfers = 0;  ///< GT/s of one lane: 8 is generation 3
  int lanes = 0;
};

struct Machine {
  /// A NUMA node (the dumps know no sockets).
  struct Cpu {
    int numa = 0;
    std::string arch{};           ///< "x86_64", "arm64", "ppc64"; empty = unknown
    std::string vendor{};         ///< "GenuineIntel", "AuthenticAMD"; empty = unknown
    int family = -1, model = -1;  ///< as cpuid says them; -1 = unknown
    int threads = 0;              ///< logical processors, 0 = unknown
    int cores = 0;                ///< physical ones, 0 = unknown
    bool counted = false;         ///< the cores were counted, not inferred from how Linux numbers threads
    std::string description{};    ///< "Intel(R) Xeon(R) ...", where a dump has it
  };
  /// Something in the PCI tree. Parents stand before their children.
  struct Slot {
    enum class Kind : uint8_t { bridge, gpu, nic } kind = Kind::bridge;
    int parent = -1;     ///< index into tree; -1: directly at the CPU
    int cpu = 0;         ///< index into cpus, same as the parent's
    PcieLink link{};     ///< towards the parent
    std::string bus{};   ///< "0000:1b:00.0", lower case; empty = unknown
    bool on_pci = true;  ///< false for an interface that no PCI device carries (virtual, or hidden by a VM)
  };
  struct Gpu {
    int slot = 0;          ///< index into tree
    int number = -1;       ///< as nvidia-smi counts
    std::string pci_id{};  ///< "10de:20b0"; empty = unknown
    std::string model{};   ///< marketing name; empty = unknown
    int sm = 0;            ///< CUDA compute capability, 70; 0 = unknown
    std::string gcn{};     ///< "908", "gfx942"; empty = not an AMD GPU
    int gpudirect = -1;    ///< 1 and 0 as the dump says, -1 = unknown
    double c2c = 0;        ///< GB/s to its own CPU outside of PCIe (Grace); 0 = none said
  };
  struct Nic {
    int slot = 0;         ///< index into tree
    std::string label{};  ///< "mlx5_0"
    double megabits = 0;  ///< all ports together; 0 = unknown
    int ports = 1;
    std::vector<std::string> names{};  ///< of every port, the label among them
  };
  /// Cables between two GPUs, or one GPU and something else.
  struct Cable {
    enum class To : uint8_t { gpu, nvswitch, cpu } to = To::gpu;
    int a = 0, b = 0;  ///< GPU index; b: GPU or CPU index, or the number of the switch fabric
    int count = 1;
  };

  std::string source;  ///< "topo-m", or several joined by " + "
  std::string file;    ///< what messages call the text
  std::vector<Cpu> cpus;
  std::vector<Slot> tree;
  std::vector<Gpu> gpus;
  std::vector<Nic> nics;
  std::vector<Cable> cables;
  bool knows_cables = false;  ///< false: absence of cables means nothing
  bool xgmi = false;          ///< the cables are AMD's
  /// Pairs of tree slots (lower first) whose nearness the dump states; a tree that was only inferred from
  /// these.
  std::map<std::pair<int, int>, Nearness> said;
  bool inferred_tree = false;
  std::vector<std::string> notes;  ///< what a user should know: assumed, hidden, contradictory

  /// From the tree: bridges on the way, or the CPUs. PHB and NODE are one where the tree knows no host
  /// bridges: phb.
  Nearness nearness(int slot_a, int slot_b) const;
  /// Bridges of a virtual machine report a link far slower than what every device below them has, which no
  /// wire between them could be: they get the fastest link below them, and a note says so. So does a NIC
  /// whose own link is a single slow lane, far below its ports. Cards asleep, at generation 1, get their own.
  void doubt_links();
  /// Takes out bridges with fewer than two things below: ports and bridges within a device. The slower of the
  /// two links that become one stays.
  void collapse();
  /// Gives CPUs without a NUMA number (or with one that is taken) the least free one. Returns how many.
  int number_cpus();
  /// Orders the GPUs as nvidia-smi counts them: by number where every one has its own, else by bus.
  void number_gpus();
};

/// The slower of two connections; an unknown one does not bind.
PcieLink slower(const PcieLink& a, const PcieLink& b);
/// Of a set of logical processors given by its ranges' lengths: all of them, and how many cores if two equal
/// ranges are the two threads of each core (as Linux numbers them).
std::pair<int, int> count_processors(const std::vector<int>& ranges);
/// "mlx5_0 and 2 more": for notes.
std::string list_some(const std::vector<std::string>& names);

/// A note that so few cores for that many GPUs are hardly all that the machine has.
std::string few_cores(int cores, int gpus);

/// Most GPUs, NICs and NUMA nodes that one node may have: with them a system file stays within its own
/// bounds, and a hostile file within seconds.
inline constexpr std::size_t kMaxImported = 128;
inline constexpr std::size_t kMaxNumaNodes = 64;
/// Most NVLinks or xGMI links of one GPU that are believed: twice the 18 of NVLink 4 and 5.
inline constexpr int kMostCables = 36;

}  // namespace tandem::topologies
