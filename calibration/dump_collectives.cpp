// Prints predicted beside measured times of collectives: for calibration/fit_collectives.py and for people.
//   dump_collectives <file.csv> ...   rows: system, sets ("path=value;..."), kind, devices, bytes,
//   microseconds
// A system that ends in .json lies in the "systems" folder beside the CSV file. Output: the same rows with
// the prediction in microseconds, the algorithm and the protocol; rows of systems that fail say why on
// stderr.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <map>

#include "base/text.h"
#include "sim/cost/link_cost.h"

namespace tandem {
namespace {

CollKind kind_of(const std::string& text) {
  for (int k = 0; k < kCollKinds; ++k) {
    if (name(static_cast<CollKind>(k)) == text) return static_cast<CollKind>(k);
  }
  throw InputError(fmt::format("no collective \"{}\"", printable(text)));
}

struct Machine {
  System system;
  LinkCost links;
  explicit Machine(System s) : system(std::move(s)), links(system, Overheads{}) {}
};

class Table {
 public:
  void row(const std::string& folder, const std::string& line) {
    const auto cell = split(line, ',');
    if (cell.size() != 6) throw InputError(fmt::format("six columns expected: {}", printable(line)));
    Machine& m = machine(folder, cell[0], cell[1]);
    std::vector<VertexId> members;
    for (int64_t i = 0; i < std::stoll(cell[3]); ++i) members.push_back(m.system.accelerator(i));
    LinkCost::Choice choice;
    const Transfer t = m.links.collective(kind_of(cell[2]), "auto", {std::stoll(cell[4])}, members, &choice);
    fmt::print("{},{:.6g},{},{}\n", line, t.alone(m.links.capacity()).seconds() * 1e6, choice.algorithm,
               choice.protocol);
  }

 private:
  Machine& machine(const std::string& folder, const std::string& system, const std::string& sets) {
    auto& slot = machines_[system + "|" + sets];
    if (slot) return *slot;
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const std::string& set : split(sets, ';')) {
      if (set.empty()) continue;
      const std::size_t at = set.find('=');
      pairs.emplace_back(set.substr(0, at), set.substr(at + 1));
    }
    const bool file = system.ends_with(".json");
    slot = std::make_unique<Machine>(System::load(file ? folder + "/systems/" + system : system, pairs));
    return *slot;
  }
  std::map<std::string, std::unique_ptr<Machine>> machines_;
};

int run(int argc, char** argv) {
  Table table;
  int failed = 0;
  for (int a = 1; a < argc; ++a) {
    const std::string path = argv[a];
    const std::size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
    std::ifstream file(path);
    if (!file) throw InputError(fmt::format("cannot read {}", path));
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#' || line.starts_with("system,")) continue;
      try {
        table.row(folder, line);
      } catch (const InputError& e) {
        if (++failed <= 10) fmt::print(stderr, "{}: {}\n", line, e.what());
      }
    }
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  try {
    return tandem::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 3;
  }
}
