// SPDX-License-Identifier: Apache-2.0
#include "calibration/logs/link_tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "base/text.h"
#include "calibration/logs/log_text.h"

namespace tandem::calibration {
namespace {

constexpr double kMost = 1e9;              // of a figure, in the unit of its text
constexpr std::size_t kMostDevices = 256;  // bounds what a hostile text can ask for

bool has(std::string_view line, std::string_view word) { return line.find(word) != std::string_view::npos; }

void grow(PairMatrix& m, std::size_t n) {
  if (m.size() < n) m.resize(n);
  for (auto& row : m) row.resize(std::max(row.size(), n));
}

/// nvbandwidth copies between two devices only where they have peer access.
void access_by_figures(LinkTests& tests) {
  grow(tests.access, tests.peer.size());
  for (std::size_t i = 0; i < tests.peer.size(); ++i) {
    for (std::size_t j = 0; j < tests.peer.size(); ++j) {
      if (i != j) tests.access[i][j] = tests.peer[i][j] > 0 ? 1 : -1;
    }
  }
}

/// What the next numbers are about.
enum class Section : uint8_t {
  none,
  peer,
  staged,
  peer_latency,
  staged_latency,
  to_device,
  from_device,
  access,
  ignored
};

class TextReader {
 public:
  TextReader(std::string_view text, const std::string& file)
      : text_(text), file_(std::make_shared<const std::string>(file)) {}

  LinkTests read() {
    for (std::size_t at = 0; at <= text_.size();) {
      const std::size_t end = std::min(text_.find('\n', at), text_.size());
      ++line_;
      take(text_.substr(at, end - at));
      at = end + 1;
    }
    close();
    return std::move(out_);
  }

 private:
  Place place() const { return {file_, line_, 1}; }

  void take(std::string_view line) {
    const Words words = words_of(line);
    if (words.empty()) return;
    if (words[0] == "Device:" || (words[0] == "Device" && words.size() > 2 && words[1].ends_with(':'))) {
      device(line, words);
    } else if (has(line, " Access Peer Device=") && words[0].starts_with("Device=")) {
      access(words);
    } else if (has(line, "Matrix") || has(line, "bandwidth (GB/s)") || has(line, "Bandwidth, ") ||
               words[0] == "Running") {
      close();
      open(line);
    } else if (has(line, "Bandwidth(")) {
      unit_ = has(line, "MB/s") ? 1e6 : 1e9;
    } else if (section_ == Section::to_device || section_ == Section::from_device) {
      if (by_size_)
        host_row(words);
      else
        matrix_row(words);
    } else if (section_ != Section::none && section_ != Section::ignored) {
      matrix_row(words);
    }
  }

  /// "Device: 0, Tesla V100, pciBusID: b1, ..." and "Device 0: Tesla T4".
  void device(std::string_view line, const Words& words) {
    if (words.size() < 3) return;
    std::size_t index = 0;
    const bool old = words[0] == "Device:";
    const std::string_view digits = words[1].substr(0, words[1].size() - 1);
    if (!read_number(digits, index) || index >= kMostDevices) return;
    const std::size_t name = static_cast<std::size_t>(words[2].data() - line.data());
    const std::size_t comma = old ? line.find(',', name) : std::string_view::npos;
    std::string model(line.substr(name, comma == std::string_view::npos ? comma : comma - name));
    while (!model.empty() && (model.back() == '\r' || model.back() == ' ')) model.pop_back();
    if (out_.devices.size() <= index) out_.devices.resize(index + 1);
    out_.devices[index] = model;
    current_ = index;
    if (old) bus(words, index);
  }

  /// "pciBusID: b1, pciDeviceID: 0, pciDomainID:0", hexadecimal.
  void bus(const Words& words, std::size_t index) {
    int64_t number[3] = {-1, -1, -1};  // domain, bus, device
    constexpr std::string_view kKeys[] = {"pciDomainID:", "pciBusID:", "pciDeviceID:"};
    for (std::size_t i = 0; i < words.size(); ++i) {
      for (std::size_t k = 0; k < 3; ++k) {
        if (!words[i].starts_with(kKeys[k])) continue;
        std::string_view digits = words[i].substr(kKeys[k].size());
        if (digits.empty() && i + 1 < words.size()) digits = words[i + 1];
        if (digits.ends_with(',')) digits.remove_suffix(1);
        int64_t value = -1;
        const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
        if (read.ec == std::errc{} && value >= 0 && value < 1 << 16) number[k] = value;
      }
    }
    if (out_.buses.size() <= index) out_.buses.resize(index + 1, -1);
    if (number[1] >= 0)
      out_.buses[index] =
          (std::max<int64_t>(0, number[0]) << 32) + (number[1] << 16) + std::max<int64_t>(0, number[2]);
  }

  /// "Device=0 CAN Access Peer Device=1", "Device=0 CANNOT ...".
  void access(const Words& words) {
    std::size_t a = 0, b = 0;
    if (words.size() < 5 || !read_number(words[0].substr(7), a) || !words[4].starts_with("Device=") ||
        !read_number(words[4].substr(7), b) || std::max(a, b) >= kMostDevices) {
      return;
    }
    grow(out_.access, std::max(a, b) + 1);
    out_.access[a][b] = words[1] == "CAN" ? 1 : -1;
  }

  void open(std::string_view line) {
    section_ = Section::ignored;
    by_size_ = false;
    transposed_ = false;
    if (has(line, "Connectivity Matrix")) {
      section_ = Section::access;
      unit_ = 1;
    } else if (has(line, "Matrix")) {
      const bool enabled = has(line, "P2P=Enabled");
      if (has(line, "Latency")) {
        section_ = enabled ? Section::peer_latency : Section::staged_latency;
        unit_ = 1e-6;
      } else if (has(line, "Unidirectional")) {
        section_ = enabled ? Section::peer : Section::staged;
        unit_ = 1e9;
      }
    } else if (has(line, "(row)")) {  // nvbandwidth: "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)"
      unit_ = 1e9;
      if (has(line, "<->") || !has(line, " CE ")) return;  // both ways at once; copies by SMs
      const bool leaves_row = has(line, "(row) ->");
      if (has(line, "GPU(row)") && has(line, "GPU(column)")) {
        section_ = Section::peer;
        transposed_ = !leaves_row;
      } else if (has(line, "CPU(row)")) {
        section_ = leaves_row ? Section::to_device : Section::from_device;
      }
    } else if (has(line, "Bandwidth, ")) {  // bandwidthTest: "Host to Device Bandwidth, 1 Device(s)"
      if (has(line, "Host to Device")) section_ = Section::to_device;
      if (has(line, "Device to Host")) section_ = Section::from_device;
      by_size_ = true;
      unit_ = 1e6;
      if (section_ != Section::ignored) fresh_host_figure();
    }
  }

  std::vector<double>& host_figures() {
    return section_ == Section::to_device ? out_.to_device : out_.from_device;
  }

  void fresh_host_figure() {
    auto& figures = host_figures();
    if (figures.size() > current_ && figures[current_] > 0)
      throw InputError(place(), "the same copy is measured twice; one machine per file");
  }

  /// "33554432   12106.9": the best over the sizes is what large copies reach.
  void host_row(const Words& words) {
    double bytes = 0, rate = 0;
    if (words.size() != 2 || !read_number(words[0], bytes) || !read_number(words[1], rate) || bytes <= 0 ||
        rate <= 0)
      return;
    if (rate > kMost) throw InputError(place(), fmt::format("\"{}\" is no figure", printable(words[1])));
    auto& figures = host_figures();
    figures.resize(std::max(figures.size(), current_ + 1));
    figures[current_] = std::max(figures[current_], rate * unit_);
  }

  void matrix_row(const Words& words) {
    std::size_t index = 0;
    if (words[0] == "CPU") in_cpu_block_ = true;  // latency by the host's clock follows the device's
    if (words[0] == "D\\D" || words[0] == "GPU") in_cpu_block_ = false;
    if (in_cpu_block_ || !read_number(words[0], index)) return;
    // nvbandwidth numbers its columns in a separate line.
    bool numbered = header_ == 0 && rows_.empty();
    for (std::size_t k = 0; numbered && k < words.size(); ++k) {
      std::size_t i = 0;
      numbered = read_number(words[k], i) && i == k;
    }
    if (numbered) {
      header_ = words.size();
      return;
    }
    if (index >= kMostDevices || words.size() - 1 > kMostDevices)
      throw InputError(place(), "too many devices");
    std::vector<double> row;
    for (std::size_t k = 1; k < words.size(); ++k) {
      double value = 0;
      if (words[k] == "N/A")
        value = 0;
      else if (!read_number(words[k], value) || value < 0 || value > kMost)
        throw InputError(place(), fmt::format("\"{}\" is no figure", printable(words[k])));
      row.push_back(value * unit_);
    }
    if (index != rows_.size()) throw InputError(place(), fmt::format("row {} expected", rows_.size()));
    rows_.push_back(std::move(row));
  }

  void close() {
    const auto rows = std::exchange(rows_, {});
    const Section section = std::exchange(section_, Section::none);
    const bool transposed = std::exchange(transposed_, false);
    const std::size_t header = std::exchange(header_, 0);
    in_cpu_block_ = false;
    if (rows.empty()) return;
    const std::size_t n = rows[0].size();
    for (const auto& row : rows) {
      if (row.size() != n || n == 0 || (header > 0 && n != header))
        throw InputError(place(), "the matrix above is cut short: its rows differ in length");
    }
    if (section == Section::to_device || section == Section::from_device) {
      auto& figures = section == Section::to_device ? out_.to_device : out_.from_device;
      if (!figures.empty())
        throw InputError(place(), "the same copies are measured twice; one machine per file");
      figures = rows[0];
      return;
    }
    if (rows.size() != n)
      throw InputError(place(), fmt::format("the matrix above is cut short: {} of {} rows", rows.size(), n));
    if (section == Section::access) return connectivity(rows);
    PairMatrix& to = section == Section::peer           ? out_.peer
                     : section == Section::staged       ? out_.staged
                     : section == Section::peer_latency ? out_.peer_latency
                                                        : out_.staged_latency;
    if (!to.empty()) {
      if (header > 0) return;  // nvbandwidth measures pairs twice: by reading and by writing
      throw InputError(place(), "the same matrix stands here twice; one machine per file");
    }
    grow(to, n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        if (i != j) (transposed ? to[j][i] : to[i][j]) = rows[i][j];
      }
    }
    if (header > 0) access_by_figures(out_);
  }

  /// 1: access, 0: none; the lines "Device=0 CAN ..." say the same, and are believed where they stand.
  void connectivity(const std::vector<std::vector<double>>& rows) {
    grow(out_.access, rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j < rows.size(); ++j) {
        if (i != j && out_.access[i][j] == 0) out_.access[i][j] = rows[i][j] > 0 ? 1 : -1;
      }
    }
  }

  std::string_view text_;
  std::shared_ptr<const std::string> file_;
  int line_ = 0;
  LinkTests out_;
  Section section_ = Section::none;
  bool by_size_ = false, transposed_ = false, in_cpu_block_ = false;
  double unit_ = 1e9;
  std::size_t current_ = 0, header_ = 0;
  std::vector<std::vector<double>> rows_;
};

/// nvbandwidth --json.
LinkTests read_nvbandwidth(const Json& document) {
  LinkTests out;
  for (const Json& test : document.at("nvbandwidth").at("testcases").items()) {
    const std::string name = test.text("name", "");
    const Json* matrix = test.find("bandwidth_matrix");
    if (matrix == nullptr || !name.ends_with("_ce") || has(name, "bidirectional") || has(name, "all"))
      continue;
    std::vector<std::vector<double>> rows;
    for (const Json& row : matrix->items()) {
      auto& figures = rows.emplace_back();
      for (const Json& cell : row.items()) {
        double value = 0;
        if (cell.is_text()) {
          if (cell.as_text() != "N/A" &&
              (!read_number(std::string_view(cell.as_text()), value) || value < 0 || value > kMost))
            cell.fail("no figure");
        } else {
          value = cell.as_real(0, kMost);
        }
        figures.push_back(value * 1e9);
      }
      if (rows.size() > kMostDevices || figures.size() > kMostDevices) matrix->fail("too many devices");
      if (figures.size() != rows[0].size()) row.fail("the rows differ in length");
    }
    if (rows.empty() || rows[0].empty()) continue;
    if (name.starts_with("host_to_device")) out.to_device = rows[0];
    if (name.starts_with("device_to_host")) out.from_device = rows[0];
    if (!name.starts_with("device_to_device") || !out.peer.empty()) continue;
    if (rows.size() != rows[0].size()) matrix->fail("the matrix is not square");
    grow(out.peer, rows.size());
    const bool write = has(name, "_write_");  // the row's device is written to
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j < rows.size(); ++j) {
        if (i != j) (write ? out.peer[j][i] : out.peer[i][j]) = rows[i][j];
      }
    }
    access_by_figures(out);
  }
  return out;
}

bool empty(const PairMatrix& m) {
  return std::all_of(m.begin(), m.end(), [](const auto& row) {
    return std::all_of(row.begin(), row.end(), [](double v) { return v == 0; });
  });
}

}  // namespace

std::size_t LinkTests::count() const {
  return std::max({devices.size(), access.size(), peer.size(), staged.size(), peer_latency.size(),
                   staged_latency.size(), to_device.size(), from_device.size()});
}

LinkTests read_link_tests(std::string_view text, const std::string& file) {
  const std::string blanks = with_plain_blanks(text);
  LinkTests out =
      begins_as_json(blanks) ? read_nvbandwidth(Json::parse(blanks, file)) : TextReader(blanks, file).read();
  const bool nothing =
      empty(out.peer) && empty(out.staged) && out.to_device.empty() && out.from_device.empty();
  if (nothing && (has(blanks, "<->") || has(blanks, "Bidirectional"))) {
    throw InputError(fmt::format(
        "{}: its figures are of copies both ways at once, which do not tell what a link carries one way; "
        "give the one-way figures too (nvbandwidth without -t bidirectional tests, the Unidirectional matrix "
        "of p2pBandwidthLatencyTest)",
        printable(file)));
  }
  if (nothing) {
    throw InputError(fmt::format(
        "{}: no figures of p2pBandwidthLatencyTest, bandwidthTest or nvbandwidth in it", printable(file)));
  }
  return out;
}

bool looks_like_link_tests(std::string_view text) {
  text = text.substr(0, kRecognised);
  return has(text, "P2P=Disabled") || has(text, "P2P=Enabled") || has(text, "CUDA Bandwidth Test") ||
         has(text, "\"nvbandwidth\"") || has(text, "(column) bandwidth (GB/s)") ||
         has(text, "Host to Device Bandwidth, ");
}

bool merge(LinkTests& tests, const LinkTests& more) {
  bool left_out = false;
  const auto fill = [&](auto& into, const auto& from) {
    left_out = left_out || (!into.empty() && !from.empty() && into != from);
    if (into.empty()) into = from;
  };
  if (tests.devices.empty()) tests.buses = more.buses;
  if (tests.devices.empty()) tests.devices = more.devices;
  fill(tests.access, more.access);
  fill(tests.peer, more.peer);
  fill(tests.staged, more.staged);
  fill(tests.peer_latency, more.peer_latency);
  fill(tests.staged_latency, more.staged_latency);
  for (const auto member : {&LinkTests::to_device, &LinkTests::from_device}) {
    auto& into = tests.*member;
    const auto& from = more.*member;
    into.resize(std::max(into.size(), from.size()));
    for (std::size_t i = 0; i < from.size(); ++i) {
      left_out = left_out || (into[i] != 0 && from[i] != 0 && into[i] != from[i]);
      if (into[i] == 0) into[i] = from[i];
    }
  }
  return left_out;
}

std::string link_tests_json(const LinkTests& tests) {
  JsonWriter out = {{"schema", "tandem-links-1"}, {"devices", tests.devices}};
  const auto put = [&](const char* name, const auto& figures) {
    if (!figures.empty()) out[name] = figures;
  };
  put("peer_access", tests.access);
  put("peer_bytes_per_second", tests.peer);
  put("staged_bytes_per_second", tests.staged);
  put("peer_latency_seconds", tests.peer_latency);
  put("staged_latency_seconds", tests.staged_latency);
  put("host_to_device_bytes_per_second", tests.to_device);
  put("device_to_host_bytes_per_second", tests.from_device);
  return out.dump(2);
}

}  // namespace tandem::calibration
