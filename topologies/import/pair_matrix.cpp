// SPDX-License-Identifier: Apache-2.0
#include "topologies/import/pair_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

namespace tandem::topologies {

namespace {

/// More cables than any GPU has (NVLink 4 and 5: 18): then what joins them is a switch.
constexpr int kMostDirect = 18;

std::string text(const PairMatrix::Cell& cell) {
  return cell.cables > 0 ? fmt::format("NV{}", cell.cables) : std::string(name(cell.nearness));
}

/// Groups of rows: group[i] is the least row of the group that i is in.
class Groups {
 public:
  explicit Groups(std::size_t n) : of_(n) { std::iota(of_.begin(), of_.end(), 0); }
  int operator[](int i) const {
    while (of_[static_cast<std::size_t>(i)] != i) i = of_[static_cast<std::size_t>(i)];
    return i;
  }
  void join(int a, int b) {
    a = (*this)[a], b = (*this)[b];
    of_[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
  }

 private:
  std::vector<int> of_;
};

class Inference {
 public:
  explicit Inference(const PairMatrix& matrix) : rows_(matrix.rows), n_(static_cast<int>(rows_.size())) {}
  Machine run();

 private:
  const PairMatrix::Row& row(int i) const { return rows_[static_cast<std::size_t>(i)]; }
  const PairMatrix::Cell& cell(int i, int j) const { return row(i).cells[static_cast<std::size_t>(j)]; }
  Groups within(Nearness most) const;
  bool flat_but_numbered() const;
  std::vector<std::vector<char>> apart(const Groups& groups) const;
  void sockets();
  void tree();
  void devices();
  void cables();
  void hidden();

  const std::vector<PairMatrix::Row>& rows_;
  int n_;
  std::vector<int> cpu_of_, slot_of_;
  Machine out_;
};

Groups Inference::within(Nearness most) const {
  Groups groups(rows_.size());
  for (int i = 0; i < n_; ++i) {
    for (int j = i + 1; j < n_; ++j) {
      if (cell(i, j).cables == 0 && cell(i, j).nearness <= most) groups.join(i, j);
    }
  }
  return groups;
}

/// By least rows of two groups: whether the table puts any member of one on another NUMA node than one of the
/// other.
std::vector<std::vector<char>> Inference::apart(const Groups& groups) const {
  std::vector<std::vector<char>> out(rows_.size(), std::vector<char>(rows_.size(), 0));
  for (int i = 0; i < n_; ++i) {
    for (int j = 0; j < n_; ++j) {
      const bool far = cell(i, j).cables == 0 && cell(i, j).nearness == Nearness::sys;
      const bool numbers = row(i).numa >= 0 && row(j).numa >= 0 && row(i).numa != row(j).numa;
      if (i != j && (far || numbers))
        out[static_cast<std::size_t>(groups[i])][static_cast<std::size_t>(groups[j])] = 1;
    }
  }
  return out;
}

/// Whether all pairs of GPUs that no cable hides are SYS although their stated NUMA nodes are fewer than
/// they: then the distances are those of a virtual machine, and the column knows better.
bool Inference::flat_but_numbered() const {
  bool apart = false, shared = false;
  for (int i = 0; i < n_; ++i) {
    if (row(i).gpu && row(i).numa < 0) return false;
    for (int j = i + 1; j < n_; ++j) {
      if (!row(i).gpu || !row(j).gpu || cell(i, j).cables > 0) continue;
      if (cell(i, j).nearness != Nearness::sys) return false;
      apart = true;
      shared |= row(i).numa == row(j).numa;
    }
  }
  return apart && shared;
}

/// NUMA nodes: what is nearer than SYS is on one; so is what has the same affinity and is nowhere SYS apart.
void Inference::sockets() {
  Groups groups = within(Nearness::node);
  const bool numbered = flat_but_numbered();
  if (numbered) {
    for (int i = 0; i < n_; ++i) {
      for (int j = i + 1; j < n_; ++j) {
        if (row(i).gpu && row(j).gpu && row(i).numa == row(j).numa) groups.join(i, j);
      }
    }
    out_.notes.push_back(
        "all GPUs are SYS apart although some share a NUMA node, as in a virtual machine: the NUMA column is "
        "believed");
  }
  auto far = apart(groups);
  const auto join = [&](std::size_t a, std::size_t b) {
    if (a > b) std::swap(a, b);
    for (std::size_t k = 0; k < far.size(); ++k) {
      far[a][k] |= far[b][k];
      far[k][a] |= far[k][b];
    }
    groups.join(static_cast<int>(a), static_cast<int>(b));
  };
  bool contradicts = false;
  for (int a = 0; a < n_; ++a) {
    for (int b = a + 1; b < n_; ++b) {
      if (!row(a).gpu || !row(b).gpu || groups[a] == groups[b]) continue;
      const bool numbers = row(a).numa >= 0 && row(b).numa >= 0;
      const bool same = numbers ? row(a).numa == row(b).numa : row(a).affinity == row(b).affinity;
      const auto of_a = static_cast<std::size_t>(groups[a]), of_b = static_cast<std::size_t>(groups[b]);
      if (same && far[of_a][of_b] == 0) join(of_a, of_b);
      contradicts |= same && !row(a).affinity.empty() && groups[a] != groups[b];
    }
  }
  if (contradicts) {
    out_.notes.push_back(
        "GPUs that are SYS apart list the same CPUs: the command ran in a virtual machine or a container; "
        "the NUMA "
        "nodes are taken from the matrix");
    int gpus = 0, listed = 0;
    for (int i = 0; i < n_; ++i) gpus += row(i).gpu ? 1 : 0, listed = std::max(listed, row(i).threads);
    if (listed < gpus) out_.notes.push_back(few_cores(listed, gpus));
  }
  std::map<int, int> index;
  cpu_of_.resize(rows_.size());
  for (int i = 0; i < n_; ++i) {
    const auto [at, fresh] = index.try_emplace(groups[i], static_cast<int>(out_.cpus.size()));
    cpu_of_[static_cast<std::size_t>(i)] = at->second;
    if (fresh) out_.cpus.push_back({.numa = -1});
  }
  if (out_.cpus.size() > kMaxNumaNodes)
    throw InputError(row(0).place, fmt::format("more than {} NUMA nodes", kMaxNumaNodes));
  std::set<int> taken;
  for (int i = 0; i < n_; ++i) {
    Machine::Cpu& cpu = out_.cpus[static_cast<std::size_t>(cpu_of_[static_cast<std::size_t>(i)])];
    if (cpu.numa < 0 && row(i).numa >= 0 && taken.insert(row(i).numa).second) cpu.numa = row(i).numa;
    if (contradicts) continue;
    cpu.threads = std::max(cpu.threads, row(i).threads);
    cpu.cores = std::max(cpu.cores, row(i).cores);
  }
  out_.number_cpus();
}

/// A switch for every group of PIX, and one above for every group of PXB that holds several.
void Inference::tree() {
  const Groups pix = within(Nearness::pix), pxb = within(Nearness::pxb);
  const auto members = [&](const Groups& groups, int of) {
    int count = 0;
    for (int i = 0; i < n_; ++i) count += groups[i] == of ? 1 : 0;
    return count;
  };
  slot_of_.resize(rows_.size());
  std::map<int, int> upper, lower;
  for (int i = 0; i < n_; ++i) {
    const int cpu = cpu_of_[static_cast<std::size_t>(i)];
    int parent = -1;
    const auto under = [&](std::map<int, int>& made, int group) {
      const auto [at, fresh] = made.try_emplace(group, static_cast<int>(out_.tree.size()));
      if (fresh) out_.tree.push_back({.kind = Machine::Slot::Kind::bridge, .parent = parent, .cpu = cpu});
      parent = at->second;
    };
    const int near = members(pix, pix[i]);
    const bool several = members(pxb, pxb[i]) > near;
    if (several) under(upper, pxb[i]);
    if (several || near > 1) under(lower, pix[i]);
    slot_of_[static_cast<std::size_t>(i)] = static_cast<int>(out_.tree.size());
    out_.tree.push_back({.kind = row(i).gpu ? Machine::Slot::Kind::gpu : Machine::Slot::Kind::nic,
                         .parent = parent,
                         .cpu = cpu});
  }
}

void Inference::devices() {
  for (int i = 0; i < n_; ++i) {
    const int slot = slot_of_[static_cast<std::size_t>(i)];
    if (row(i).gpu) {
      out_.gpus.push_back({.slot = slot, .number = row(i).number});
    } else {
      out_.nics.push_back({.slot = slot, .label = row(i).name});
    }
    for (int j = i + 1; j < n_; ++j) {
      const int other = slot_of_[static_cast<std::size_t>(j)];
      const bool together = cpu_of_[static_cast<std::size_t>(i)] == cpu_of_[static_cast<std::size_t>(j)];
      if (cell(i, j).cables > 0) continue;
      if (cell(i, j).nearness == Nearness::sys && together) continue;  // the NUMA column says otherwise
      out_.said[std::minmax(slot, other)] = cell(i, j).nearness;
    }
  }
}

/// Direct cables, or where they are more than a GPU has, a switch.
void Inference::cables() {
  Groups groups(rows_.size());
  std::vector<int> gpus;
  for (int i = 0; i < n_; ++i) {
    if (row(i).gpu) gpus.push_back(i);
    for (int j = i + 1; j < n_; ++j) {
      if (cell(i, j).cables > 0) groups.join(i, j);
    }
  }
  const auto index = [&](int i) {
    return static_cast<int>(std::lower_bound(gpus.begin(), gpus.end(), i) - gpus.begin());
  };
  int fabrics = 0;
  for (const int first : gpus) {
    std::vector<int> group;
    std::copy_if(gpus.begin(), gpus.end(), std::back_inserter(group),
                 [&](int i) { return groups[i] == first; });
    if (group.size() < 2) continue;
    const int each = cell(group[0], group[1]).cables;
    bool uniform = true;
    for (const int a : group) {
      for (const int b : group) uniform &= a == b || cell(a, b).cables == each;
    }
    if (uniform && each * (static_cast<int>(group.size()) - 1) > kMostDirect) {
      for (const int a : group)
        out_.cables.push_back({Machine::Cable::To::nvswitch, index(a), fabrics, each});
      ++fabrics;
      continue;
    }
    for (const int a : group) {
      for (const int b : group) {
        if (a < b && cell(a, b).cables > 0)
          out_.cables.push_back({Machine::Cable::To::gpu, index(a), index(b), cell(a, b).cables});
      }
    }
  }
  out_.knows_cables = true;
}

/// What the table does not show although the machine has it.
void Inference::hidden() {
  int pairs = 0, bridged = 0;
  std::set<Nearness> kinds;
  for (int i = 0; i < n_; ++i) {
    for (int j = i + 1; j < n_; ++j) {
      if (!row(i).gpu || !row(j).gpu) continue;
      ++pairs;
      if (cell(i, j).cables == 0) kinds.insert(cell(i, j).nearness);
      if (cell(i, j).cables > 0) ++bridged;
    }
  }
  const bool no_nics = out_.nics.empty();
  if (bridged > 0 && no_nics &&
      std::none_of(out_.tree.begin(), out_.tree.end(),
                   [](const Machine::Slot& slot) { return slot.kind == Machine::Slot::Kind::bridge; })) {
    out_.notes.push_back(
        "this dump hides PCIe behind NVLink: each GPU is taken to hang on its CPU alone; NCCL's XML "
        "(NCCL_TOPO_DUMP_FILE) shows the switches");
  }
  const bool flat = bridged == 0 && pairs >= 3 && kinds.size() == 1 && *kinds.begin() >= Nearness::phb;
  if (flat) {
    out_.notes.push_back(
        fmt::format("this dump hides the topology: all pairs are {}, as in a virtual machine; PCIe switches "
                    "that GPUs share, if "
                    "any, are not in the system",
                    name(*kinds.begin())));
  }
}

Machine Inference::run() {
  sockets();
  tree();
  devices();
  cables();
  hidden();
  out_.inferred_tree = true;
  return std::move(out_);
}

}  // namespace

void PairMatrix::check(std::vector<std::string>& notes) const {
  const std::size_t n = rows.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      if (rows[i].cells[j] == rows[j].cells[i]) continue;
      throw InputError(rows[j].place, fmt::format("damaged: {} to {} is {}, but {} to {} is {}", rows[i].name,
                                                  rows[j].name, text(rows[i].cells[j]), rows[j].name,
                                                  rows[i].name, text(rows[j].cells[i])));
    }
  }
  bool noted = false;
  const auto far = [&](std::size_t a, std::size_t b) { return rows[a].cells[b].nearness; };
  const auto cabled = [&](std::size_t a, std::size_t b) { return rows[a].cells[b].cables > 0; };
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = a + 1; b < n; ++b) {
      for (std::size_t c = b + 1; c < n; ++c) {
        if (cabled(a, b) || cabled(b, c) || cabled(a, c)) continue;
        // In a tree the two larger of three distances are equal.
        std::array<Nearness, 3> d = {far(a, b), far(b, c), far(a, c)};
        std::sort(d.begin(), d.end());
        if (d[1] == d[2]) continue;
        const std::string which = fmt::format("{}-{} is {}, {}-{} is {}, {}-{} is {}", rows[a].name,
                                              rows[b].name, name(far(a, b)), rows[b].name, rows[c].name,
                                              name(far(b, c)), rows[a].name, rows[c].name, name(far(a, c)));
        if (rows[a].gpu && rows[b].gpu && rows[c].gpu)
          throw InputError(rows[c].place, fmt::format("damaged: {}: no PCI tree has these distances", which));
        if (!noted)
          notes.push_back(
              fmt::format("{}: no PCI tree has these distances; the nearest are believed", which));
        noted = true;
      }
    }
  }
}

Machine PairMatrix::machine() const {
  std::vector<std::string> notes;
  check(notes);
  Machine out = Inference(*this).run();
  out.notes.insert(out.notes.begin(), notes.begin(), notes.end());
  return out;
}

}  // namespace tandem::topologies
