// SPDX-License-Identifier: Apache-2.0
// `nvidia-smi topo -m`, as printed or as it comes back from a terminal, a mail or an issue: tabs or blanks,
// ANSI codes, prompts around it, header cells run together.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>

#include "base/text.h"
#include "topologies/import/importer.h"
#include "topologies/import/pair_matrix.h"

namespace tandem::topologies {

namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }
bool word_char(char c) {
  return digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.';
}
bool blank(char c) { return c == ' ' || c == '\t'; }

/// "GPU7" -> 7, else -1.
int gpu_number(std::string_view name) {
  if (!name.starts_with("GPU")) return -1;
  int value = -1;
  const auto read = std::from_chars(name.data() + 3, name.data() + name.size(), value);
  return read.ec == std::errc{} && read.ptr == name.data() + name.size() && value < 100000 ? value : -1;
}

bool relation(std::string_view word) {
  static const std::set<std::string_view> words = {"X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC"};
  return words.count(word) != 0 || (word.size() > 2 && word.starts_with("NV") && digit(word[2]));
}

/// The cells of a row of a Markdown table, between tabs.
std::string without_pipes(std::string_view line) {
  std::string out;
  for (const std::string& cell : split(line, '|')) {
    const auto first = cell.find_first_not_of(" \t`*"), last = cell.find_last_not_of(" \t`*");
    out += "\t" + (first == std::string::npos ? "" : cell.substr(first, last - first + 1));
  }
  return out.substr(std::min<std::size_t>(2, out.size()));  // nothing stands in front of the first pipe
}

/// Without escape sequences (ESC [ ... letter), carriage returns, what quotes a mail or a list, and the pipes
/// of a Markdown table.
std::string plain(std::string_view raw) {
  const std::string line = with_plain_blanks(raw);
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      ++i;
      if (i < line.size() && line[i] == '[') {
        while (++i < line.size() && (line[i] < '@' || line[i] > '~')) {
        }
      }
    } else if (line[i] != '\r') {
      out += line[i];
    }
  }
  const auto text = out.find_first_not_of(" \t>");
  if (text != std::string::npos && out[text] == '|' && out.find('|', text + 1) != std::string::npos)
    return without_pipes(std::string_view(out).substr(text));
  const auto quoted = out.find_first_not_of(" \t>|");
  return quoted != std::string::npos && out.find_first_of(">|") < quoted ? out.substr(quoted) : out;
}

struct Token {
  std::string text;
  std::size_t at = 0;
};

std::vector<Token> tokens(const std::string& line, std::size_t from = 0) {
  std::vector<Token> out;
  for (std::size_t i = from; i < line.size();) {
    if (blank(line[i])) {
      ++i;
      continue;
    }
    const std::size_t start = i;
    while (i < line.size() && !blank(line[i])) ++i;
    out.push_back({line.substr(start, i - start), start});
  }
  return out;
}

/// Where the row of a device begins: at the first word that `is_name` says is one and that a relation follows
/// within that many words. What a log puts in front ("[1,0]<stdout>:", "node7:", a date) may touch it. npos:
/// no row.
template <typename IsName>
std::size_t row_start(const std::vector<Token>& words, const IsName& is_name, std::size_t within) {
  constexpr std::size_t kMostPrefix = 8;  // words
  for (std::size_t i = 0; i + 1 < words.size() && i <= kMostPrefix; ++i) {
    bool followed = false;
    for (std::size_t k = i + 1; k <= i + within && k < words.size(); ++k) followed |= relation(words[k].text);
    const std::string_view word = words[i].text;
    const auto mark = word.find_last_of(":>])");
    const std::size_t skip = mark == std::string_view::npos || is_name(word) ? 0 : mark + 1;
    if (followed && is_name(word.substr(skip))) return words[i].at + skip;
  }
  return std::string::npos;
}

/// The device names of a header line; empty when it is none. GPU names may stand together: "GPU0GPU1mlx5_0".
std::vector<std::string> header_names(const std::string& line) {
  std::vector<std::string> out;
  auto i = line.find("GPU");
  while (i != std::string::npos && i + 3 < line.size() && !digit(line[i + 3])) i = line.find("GPU", i + 1);
  if (i == std::string::npos) return out;
  while (i < line.size()) {
    while (i < line.size() && blank(line[i])) ++i;
    const std::size_t start = i;
    if (line.compare(i, 3, "GPU") == 0 && i + 3 < line.size() && digit(line[i + 3])) {
      for (i += 3; i < line.size() && digit(line[i]);) ++i;
    } else {
      while (i < line.size() && word_char(line[i]) && !(i > start && line.compare(i, 3, "GPU") == 0)) ++i;
    }
    const std::string word = line.substr(start, i - start);
    if (word.empty() || word == "CPU" || word == "NUMA" || word == "GPU") break;
    out.push_back(word);
    if (out.size() > kMaxImported) break;
  }
  return out;
}

class TopoReader {
 public:
  TopoReader(std::string_view text, const std::string& file)
      : file_(std::make_shared<const std::string>(printable(file))) {
    for (const std::string& line : split(text, '\n')) lines_.push_back(plain(line));
  }
  Machine read();

 private:
  Place place(std::size_t line, std::size_t column = 0) const {
    return {file_, static_cast<int>(line) + 1, static_cast<int>(column) + 1};
  }
  void find_header();
  void read_row(std::size_t line);
  PairMatrix::Cell cell(const Token& token, std::size_t line, const std::string& row) const;
  void affinity(PairMatrix::Row& row, std::size_t line, std::size_t from) const;
  void cpu_list(PairMatrix::Row& row, const Token& token, std::size_t line) const;
  void check_complete() const;
  void models(Machine& machine) const;
  void labels(Machine& machine) const;

  std::shared_ptr<const std::string> file_;
  std::vector<std::string> lines_;
  std::size_t header_ = 0;
  std::vector<std::string> names_;
  std::vector<std::string> self_cables_;  ///< rows that say NV# of themselves
  PairMatrix matrix_;
};

/// The last line above the first row that names devices and no relation.
void TopoReader::find_header() {
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const auto names = header_names(lines_[i]);
    const auto a_gpu = [](std::string_view word) { return gpu_number(word) >= 0; };
    if (row_start(tokens(lines_[i]), a_gpu, 1) != std::string::npos) {
      if (!names_.empty()) return;
      throw InputError(place(i), "a row without a header line above it (\"GPU0 GPU1 ... CPU Affinity\")");
    }
    if (!names.empty() && gpu_number(names[0]) >= 0) {
      names_ = names;
      header_ = i;
    }
  }
  if (names_.empty()) {
    throw InputError(place(0),
                     "no matrix of nvidia-smi topo -m in it: a line of \"GPU0 GPU1 ...\" is looked for");
  }
  throw InputError(place(header_), "cut short: no rows below the header");
}

PairMatrix::Cell TopoReader::cell(const Token& token, std::size_t line, const std::string& row) const {
  static const std::map<std::string, Nearness, std::less<>> words = {
      {"PIX", Nearness::pix}, {"PXB", Nearness::pxb}, {"PHB", Nearness::phb}, {"NODE", Nearness::node},
      {"SYS", Nearness::sys}, {"SOC", Nearness::sys}, {"X", Nearness::pix}};
  if (const auto at = words.find(token.text); at != words.end()) return {at->second, 0};
  int cables = 0;
  const char* end = token.text.data() + token.text.size();
  if (token.text.starts_with("NV")) {
    const auto read = std::from_chars(token.text.data() + 2, end, cables);
    if (read.ec == std::errc{} && read.ptr == end && cables >= 1 && cables <= kMostCables)
      return {Nearness::sys, cables};
    if (read.ec != std::errc::invalid_argument && read.ptr == end) {
      throw InputError(place(line, token.at),
                       fmt::format("\"{}\" in the row of {}: a GPU has 1 to {} NVLinks",
                                   printable(token.text), row, kMostCables));
    }
  }
  throw InputError(
      place(line, token.at),
      fmt::format("\"{}\" in the row of {} is no relation of devices.{} Valid: X, NV1.., PIX, PXB, PHB, "
                  "NODE, SYS, SOC",
                  printable(token.text), row,
                  did_you_mean(token.text, {"PIX", "PXB", "PHB", "NODE", "SYS", "SOC"})));
}

/// "0-23,48-71": how many processors, and how many cores if two equal ranges are the two threads of each.
void TopoReader::cpu_list(PairMatrix::Row& row, const Token& token, std::size_t line) const {
  std::vector<int> sizes;
  for (const std::string& range : split(token.text, ',')) {
    int first = 0, last = 0;
    const char *at = range.data(), *end = at + range.size();
    auto read = std::from_chars(at, end, first);
    last = first;
    if (read.ec == std::errc{} && read.ptr != end && *read.ptr == '-')
      read = std::from_chars(read.ptr + 1, end, last);
    if (read.ec != std::errc{} || read.ptr != end || first < 0 || last < first || last > 65'535) {
      throw InputError(
          place(line, token.at),
          fmt::format("the CPU affinity \"{}\" of {} is damaged or cut short; it reads like 0-23,48-71",
                      printable(token.text), row.name));
    }
    sizes.push_back(last - first + 1);
    if (sizes.size() > 10'000)
      throw InputError(place(line, token.at), "more than 10000 ranges of processors");
  }
  row.affinity = token.text;
  std::tie(row.threads, row.cores) = count_processors(sizes);
}

/// What follows the relations: CPU affinity, NUMA affinity, GPU NUMA ID; any of them may be missing.
void TopoReader::affinity(PairMatrix::Row& row, std::size_t line, std::size_t from) const {
  const std::string& text = lines_[line];
  const auto tab = text.find_first_not_of(' ', from);  // the X has blanks around it
  const bool empty_cell = tab != std::string::npos && text.compare(tab, 2, "\t\t") == 0;
  std::vector<Token> cells = tokens(text, from);
  if (empty_cell) cells.insert(cells.begin(), Token{"N/A", from});
  if (!cells.empty() && cells[0].text != "N/A") cpu_list(row, cells[0], line);
  if (cells.size() < 2 || cells[1].text == "N/A") return;
  const std::string& numa = cells[1].text;
  const char* end = numa.data() + numa.size();
  const auto read = std::from_chars(numa.data(), end, row.numa);
  const bool list = read.ptr != end && (*read.ptr == '-' || *read.ptr == ',');  // several: the first
  if (read.ec != std::errc{} || (read.ptr != end && !list) || row.numa < 0 || row.numa > 1023) {
    throw InputError(
        place(line, cells[1].at),
        fmt::format("the NUMA affinity \"{}\" of {} is no node from 0 to 1023", printable(numa), row.name));
  }
}

void TopoReader::read_row(std::size_t line) {
  const auto words = tokens(lines_[line]);
  PairMatrix::Row row{.name = words[0].text, .place = place(line)};
  row.number = gpu_number(row.name);
  row.gpu = row.number >= 0;
  for (const PairMatrix::Row& other : matrix_.rows) {
    if (other.name == row.name)
      throw InputError(place(line),
                       fmt::format("the row of {} stands twice: one matrix at a time", row.name));
  }
  const std::size_t column = matrix_.rows.size();
  if (column >= names_.size() || names_[column] != row.name) {
    throw InputError(place(line), fmt::format("the row of {} stands where the header has {}", row.name,
                                              column < names_.size() ? names_[column] : "no more devices"));
  }
  std::size_t end = words[0].at + words[0].text.size();
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (i + 1 >= words.size()) {
      throw InputError(place(line), fmt::format("cut short: the row of {} has {} of {} relations", row.name,
                                                i, names_.size()));
    }
    const Token& token = words[i + 1];
    row.cells.push_back(cell(token, line, row.name));
    const bool self = i == column && row.cells.back().cables > 0;
    if (self) {  // a loop-back plug
      self_cables_.push_back(row.name);
      row.cells.back() = {Nearness::pix, 0};
    } else if ((token.text == "X") != (i == column)) {
      throw InputError(place(line, token.at),
                       fmt::format("damaged: the X of {} must stand below its own name, and "
                                   "only there",
                                   row.name));
    }
    end = token.at + token.text.size();
  }
  if (row.gpu) affinity(row, line, end);
  matrix_.rows.push_back(std::move(row));
}

void TopoReader::check_complete() const {
  if (matrix_.rows.size() == names_.size()) return;
  std::string missing;
  for (std::size_t i = matrix_.rows.size(); i < names_.size(); ++i)
    missing += (missing.empty() ? "" : ", ") + names_[i];
  throw InputError(place(lines_.size() - 1),
                   fmt::format("cut short: the header names {}, which {} no row", missing,
                               names_.size() - matrix_.rows.size() == 1 ? "has" : "have"));
}

/// "GPU 0: NVIDIA A100-SXM4-80GB (UUID: ...)", where the paste holds nvidia-smi -L too.
void TopoReader::models(Machine& machine) const {
  for (const std::string& line : lines_) {
    const auto words = tokens(line);
    if (words.size() < 3 || words[0].text != "GPU" || !words[1].text.ends_with(':')) continue;
    const int number = gpu_number("GPU" + words[1].text.substr(0, words[1].text.size() - 1));
    std::string model = line.substr(words[2].at);
    model = model.substr(0, model.find(" (UUID"));
    for (Machine::Gpu& gpu : machine.gpus) {
      if (gpu.number == number) gpu.model = printable(model);
    }
  }
}

/// "NIC0: mlx5_0" of the NIC legend.
void TopoReader::labels(Machine& machine) const {
  for (const std::string& line : lines_) {
    const auto words = tokens(line);
    if (words.size() != 2 || !words[0].text.ends_with(':')) continue;
    const std::string name = words[0].text.substr(0, words[0].text.size() - 1);
    for (Machine::Nic& nic : machine.nics) {
      if (nic.label == name) nic.label = printable(words[1].text);
      nic.names = {nic.label};
    }
  }
}

Machine TopoReader::read() {
  find_header();
  if (names_.size() > kMaxImported)
    throw InputError(place(header_), fmt::format("more than {} devices", kMaxImported));
  const std::set<std::string> known(names_.begin(), names_.end());
  if (known.size() != names_.size()) throw InputError(place(header_), "the header names a device twice");
  const auto is_name = [&](std::string_view word) { return known.count(std::string(word)) != 0; };
  for (std::size_t i = header_ + 1; i < lines_.size(); ++i) {
    auto words = tokens(lines_[i]);
    if (!words.empty() && !is_name(words[0].text)) {
      if (const auto at = row_start(words, is_name, 2); at != std::string::npos) {
        lines_[i].replace(0, at, at, ' ');  // columns of messages stay right
        words = tokens(lines_[i]);
      }
    }
    if (!words.empty() && known.count(words[0].text) != 0) {
      read_row(i);
    } else if (words.size() > 2 && gpu_number(words[0].text) >= 0) {
      throw InputError(place(i), fmt::format("the header does not name {}", printable(words[0].text)));
    }
  }
  check_complete();
  Machine machine = matrix_.machine();
  machine.source = "topo-m";
  machine.file = *file_;
  models(machine);
  labels(machine);
  if (!self_cables_.empty())
    machine.notes.push_back(
        fmt::format("NVLinks of {} that lead back to itself are left out", list_some(self_cables_)));
  machine.number_gpus();
  return machine;
}

bool looks_like_topo_m(std::string_view text) {
  text = text.substr(0, 1 << 16);
  const auto gpu = text.find("GPU0");
  if (gpu == std::string_view::npos || text.find('<') < gpu) return false;
  for (const char* relation : {" X ", "\tX", "X\t"}) {
    if (text.find(relation, gpu) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

void register_topo_m(Registry<SystemImporter>& registry) {
  registry.add(
      {"topo-m", "the matrix that nvidia-smi topo -m prints", looks_like_topo_m,
       [](std::string_view text, const std::string& file) { return TopoReader(text, file).read(); }});
}

}  // namespace tandem::topologies
