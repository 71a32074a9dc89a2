// SPDX-License-Identifier: Apache-2.0
#include "calibration/logs/nccl_tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "calibration/logs/log_text.h"
#include "calibration/logs/nccl_kinds.h"

namespace tandem::calibration {
namespace {

/// "[1,0]<stdout>:" of mpirun and "3:" of srun.
std::string_view without_prefix(std::string_view line) {
  const std::size_t tag = line.find("<stdout>:");
  if (tag != std::string_view::npos && line.find('[') < tag) return line.substr(tag + 9);
  const std::size_t digit = line.find_first_not_of(" \t");
  const std::size_t colon = line.find(':');
  if (digit != std::string_view::npos && colon != std::string_view::npos && colon > digit &&
      colon - digit <= 6 && line.substr(digit, colon - digit).find_first_not_of("0123456789") == line.npos) {
    return line.substr(colon + 1);
  }
  return line;
}

bool is_type(std::string_view word) {
  static constexpr std::array kTypes = {"int8",    "uint8",   "int32",   "uint32",   "int64",
                                        "uint64",  "half",    "float",   "double",   "bfloat16",
                                        "float16", "float32", "float64", "fp8_e4m3", "fp8_e5m2",
                                        "f8e4m3",  "f8e5m2",  "char",    "int"};
  return std::find(kTypes.begin(), kTypes.end(), word) != kTypes.end();
}

int64_t size_of(std::string_view type) {
  if (type.ends_with("64") || type == "double") return 8;
  if (type.ends_with("16") || type == "half") return 2;
  const bool byte = type.ends_with("int8") || type == "char" || type.find("8_e") != type.npos ||
                    type.find("8e") != type.npos;
  return byte ? 1 : 4;
}

enum class RowShape : uint8_t { other, good, damaged };

/// The words about checks after the times of a row: "0 20.98 0.00 0.00 N/A" for out of place, in
/// place.
void read_checks(const Words& words, std::size_t errors, NcclColumns& columns) {
  columns.checked = errors < words.size() && words[errors] != "N/A";
  columns.in_place = errors + 4 < words.size();
  columns.in_place_checked = columns.in_place && words[errors + 4] != "N/A";
}

struct TableRow {
  NcclRow row;
  NcclColumns columns;
  double ratio = 0;  ///< bus bandwidth over algorithm bandwidth
};

/// Where size, count and type are, after what a log puts in front of its lines; the number of words for no
/// row.
std::size_t row_begin(const Words& words) {
  constexpr std::size_t kMostPrefix = 8;  // words
  int64_t number = 0;
  for (std::size_t i = 0; i + 3 < words.size() && i <= kMostPrefix; ++i) {
    if (is_type(words[i + 2]) && read_number(words[i], number) && read_number(words[i + 1], number)) return i;
  }
  return words.size();
}

/// size count type [redop] [root] time algbw busbw errors [time algbw busbw errors]
RowShape read_row(const Words& line, TableRow& out) {
  const std::size_t begin = row_begin(line);
  if (begin == line.size()) return RowShape::other;
  const Words words(line.begin() + static_cast<std::ptrdiff_t>(begin), line.end());
  NcclRow& row = out.row;
  NcclColumns& columns = out.columns;
  int64_t count = 0;
  read_number(words[0], row.bytes);
  read_number(words[1], count);
  std::size_t at = 3;
  const auto alphabetic = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  if (std::all_of(words[at].begin(), words[at].end(), alphabetic)) columns.operation = words[at++] != "none";
  const std::size_t left = words.size() - at;
  if (left % 4 == 1) {
    int64_t root = -1;
    columns.root_column = read_number(words[at++], root);
    columns.rooted = root >= 0;
  }
  double microseconds = 0, algbw = 0, busbw = 0;
  if (at + 3 >= words.size() || !read_number(words[at], microseconds) || !read_number(words[at + 1], algbw) ||
      !read_number(words[at + 2], busbw)) {
    return RowShape::damaged;
  }
  const bool sane = row.bytes >= 0 && microseconds > 0 && microseconds < 1e12 && algbw >= 0 && algbw < 1e7 &&
                    busbw >= 0 && busbw < 1e7;
  if (!sane) return RowShape::damaged;
  // Two decimals of algbw, four digits of time: a row that was cut or mixed with another contradicts itself.
  // Before 2020 gathers and scatters left a rank's own part out of it: (n-1)/n, half at least.
  const double expected = static_cast<double>(row.bytes) / microseconds * 1e-3;
  const double slack = 0.006 + 0.005 * expected;
  if (algbw > expected + slack || algbw < expected / 2 - slack) return RowShape::damaged;
  row.seconds = microseconds * 1e-6;
  row.busbw = busbw * 1e9;
  out.ratio = algbw > 0 ? busbw / algbw : 0;
  read_checks(words, at + 3, columns);
  const int64_t each = size_of(words[2]);
  const bool divides = count > 0 && count <= row.bytes / each && row.bytes % (count * each) == 0;
  columns.parts = divides ? row.bytes / (count * each) : 0;
  return RowShape::good;
}

/// "Rank 3 Group 0 Pid 17 on HOST device 2 [0x41] NVIDIA A100", with or without "#".
struct Ranks {
  std::set<int64_t> ranks;
  std::set<std::string, std::less<>> hosts;
  std::string device;

  void read(const Words& words) {
    const auto rank = std::find(words.begin(), words.end(), "Rank");
    const auto on = std::find(rank, words.end(), "on");
    const auto device_word = std::find(on, words.end(), "device");
    if (rank == words.end() || device_word == words.end() || device_word - on != 2) return;
    int64_t index = 0;
    if (words.end() - device_word < 3 || !read_number(*(rank + 1), index)) return;
    if (index < 0 || index >= 1'000'000) return;
    ranks.insert(index);
    hosts.emplace(*(on + 1));
    auto model = device_word + 2;
    while (model != words.end() && (model->starts_with('[') || model->ends_with(']'))) ++model;
    if (!device.empty() || model == words.end()) return;
    for (; model != words.end(); ++model) device += (device.empty() ? "" : " ") + std::string(*model);
  }
};

/// "nThread 1 nGpus 8 minBytes 8 ... warmup iters: 5 iters: 20"; the first header counts.
void read_header(const Words& words, Harness& harness) {
  const auto after = [&](std::string_view name, int& value) {
    const auto at = std::find(words.begin(), words.end(), name);
    int read = 0;
    if (at != words.end() && at + 1 != words.end() && read_number(*(at + 1), read) && read > 0 &&
        read <= 1 << 20)
      value = read;
  };
  after("nThread", harness.threads);
  after("nGpus", harness.gpus_per_thread);
  const auto warm = std::find(words.begin(), words.end(), "warmup");
  const auto loop = warm == words.end()
                        ? words.end()
                        : std::find(warm + 2 < words.end() ? warm + 2 : words.end(), words.end(), "iters:");
  int iterations = 0;
  if (loop != words.end() && loop + 1 != words.end() && read_number(*(loop + 1), iterations) &&
      iterations > 0)
    harness.iterations = iterations;
}

void add_row(NcclLog& log, const NcclRow& row) {
  const auto same = [&](const NcclRow& r) { return r.bytes == row.bytes; };
  if (row.bytes > 0 && std::none_of(log.rows.begin(), log.rows.end(), same)) log.rows.push_back(row);
}

/// Collects runs from the lines of a text, or from the parts of a document.
class RunBuilder {
 public:
  struct Run {
    NcclLog log;
    NcclColumns columns;
    double ratio = 0;                ///< of the last row
    std::vector<std::string> names;  ///< of programs, in the order they were seen before its rows
    bool headed = false;
    Ranks ranks;
  };

  void name(const std::string& kind) {
    if (!kind.empty() && std::find(names_.begin(), names_.end(), kind) == names_.end())
      names_.push_back(kind);
  }
  /// The header of a program.
  void header(const Words& words) {
    begin_if_used();
    if (!open().headed) read_header(words, open().log.harness);
    open().headed = true;
  }
  /// The line of column names.
  void columns(const Words& words) {
    begin_if_used();
    const auto has = [&](std::string_view word) {
      return std::find(words.begin(), words.end(), word) != words.end();
    };
    open().columns.headed = true;
    open().columns.redop_named = has("redop");
  }
  void ranks(const Words& words) {
    begin_if_used();
    open().ranks.read(words);
  }
  void row(const TableRow& read) {
    if (!names_.empty() && !open().log.rows.empty() && names_ != open().names) begin_if_used();
    Run& run = open();
    if (run.log.rows.empty()) run.names = std::exchange(names_, {});
    if (names_ == run.names) names_.clear();  // named once more: as programs do when they end
    NcclColumns now = read.columns;
    now.headed = run.columns.headed;
    now.redop_named = run.columns.redop_named;
    run.columns = now;
    if (read.ratio > 0) run.ratio = read.ratio;
    add_row(run.log, read.row);
    ++rows_;
  }
  std::size_t rows() const { return rows_; }
  Run& open() {
    if (runs_.empty()) runs_.emplace_back();
    return runs_.back();
  }
  std::vector<NcclLog> finish(const std::string& version);

 private:
  static constexpr std::size_t kMostRuns = 1024;
  /// What stands between two tables belongs to the next.
  void begin_if_used() {
    if (!open().log.rows.empty() && runs_.size() < kMostRuns) runs_.emplace_back();
  }

  std::vector<Run> runs_;
  std::vector<std::string> names_;  ///< since the last row
  std::size_t rows_ = 0;
};

/// What the run's own figures and columns say of its kind and ranks.
void decide(RunBuilder::Run& run) {
  NcclLog& log = run.log;
  if (log.devices == 0 && run.columns.parts > 1) log.devices = run.columns.parts;
  const auto kinds = kinds_by_columns(run.columns, log.devices, run.ratio);
  if (run.names.size() == 1) log.kind = run.names[0];
  if (kinds.size() == 1 && run.names.empty()) log.kind = kinds[0];
  for (const std::string& name : run.names) {
    if (log.kind.empty() && std::find(kinds.begin(), kinds.end(), name) != kinds.end()) log.kind = name;
  }
  if (log.kind.empty() && !run.names.empty()) log.kind = run.names[0];
  if (log.kind.empty() && kinds.size() > 1)
    log.undecided = fmt::format("{} and {} print the same columns", kinds[0], kinds[1]);
  // Of an all-reduce bus bandwidth is 2(n-1)/n of algorithm bandwidth, which tells n.
  constexpr double kMostTold = 128;  // ranks that the printed digits tell apart
  const NcclRow& last = log.rows.back();
  const double ratio = last.busbw * last.seconds / static_cast<double>(last.bytes);
  if (ratio < 1.02 || ratio >= 2) return;
  if (log.kind.empty()) log.kind = "all-reduce";
  const double n = std::round(2 / (2 - ratio));
  if (log.devices == 0 && log.kind == "all-reduce" && n <= kMostTold &&
      std::abs(2 * (n - 1) / n - ratio) < 2e-3)
    log.devices = static_cast<int64_t>(n);
}

/// Whether two runs can be parts of one, as where a program is started for every size.
bool continues(const RunBuilder::Run& a, const RunBuilder::Run& b) {
  const auto in_a = [&](const NcclRow& row) {
    return std::any_of(a.log.rows.begin(), a.log.rows.end(),
                       [&](const NcclRow& r) { return r.bytes == row.bytes; });
  };
  return a.names == b.names && a.columns == b.columns && a.log.devices == b.log.devices &&
         a.log.harness == b.log.harness && std::none_of(b.log.rows.begin(), b.log.rows.end(), in_a);
}

/// Puts the rows of a further run of the same question to the others: the geometric mean of equal sizes.
void repeat(NcclLog& log, const NcclLog& more) {
  for (const NcclRow& row : more.rows) {
    const auto same = std::find_if(log.rows.begin(), log.rows.end(),
                                   [&](const NcclRow& r) { return r.bytes == row.bytes; });
    if (same == log.rows.end()) {
      log.rows.push_back(row);
      continue;
    }
    const double n = same->runs;
    same->seconds = std::exp((n * std::log(same->seconds) + std::log(row.seconds)) / (n + 1));
    ++same->runs;
  }
}

std::vector<NcclLog> RunBuilder::finish(const std::string& version) {
  std::vector<Run> whole;
  for (Run& run : runs_) {
    if (run.log.rows.empty()) continue;
    // The list may have lost its first lines.
    if (!run.ranks.ranks.empty()) run.log.devices = *run.ranks.ranks.rbegin() + 1;
    if (run.log.nodes == 0) run.log.nodes = static_cast<int64_t>(run.ranks.hosts.size());
    if (run.log.device.empty()) run.log.device = run.ranks.device;
    run.log.version = version;
    if (!whole.empty() && continues(whole.back(), run)) {
      whole.back().log.rows.insert(whole.back().log.rows.end(), run.log.rows.begin(), run.log.rows.end());
      if (run.ratio > 0) whole.back().ratio = run.ratio;
    } else {
      whole.push_back(std::move(run));
    }
  }
  std::vector<NcclLog> out;
  for (Run& run : whole) {
    decide(run);
    const auto same = std::find_if(out.begin(), out.end(), [&](const NcclLog& log) {
      return !log.kind.empty() && log.kind == run.log.kind && log.devices == run.log.devices &&
             log.harness == run.log.harness && log.device == run.log.device;
    });
    if (same == out.end()) {
      out.push_back(std::move(run.log));
    } else {
      repeat(*same, run.log);
    }
  }
  return out;
}

/// The cells of a Markdown table between blanks.
std::string without_pipes(std::string_view line) {
  std::string out(line);
  const auto first = out.find_first_not_of(" \t");
  if (first != std::string::npos && out[first] == '|') std::replace(out.begin(), out.end(), '|', ' ');
  return out;
}

/// 22803 is 2.28.3; before 2.9 it was 2804 for 2.8.4.
std::string version_text(int64_t v) {
  return v >= 10000 ? fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100)
                    : fmt::format("{}.{}.{}", v / 1000, v / 100 % 10, v % 100);
}

/// The first line of nccl-tests since 2.17: "nccl-headers=22803 nccl-library=22803". The library is what ran.
void take_version(const Words& words, std::string& library, std::string& headers) {
  for (const std::string_view word : words) {
    for (auto* into : {&library, &headers}) {
      const std::string_view key = into == &library ? "nccl-library=" : "nccl-headers=";
      int64_t code = 0;
      if (word.starts_with(key) && read_number(word.substr(key.size()), code) && code >= 2000 &&
          code < 1'000'000)
        *into = version_text(code);
    }
  }
}

NcclRuns read_text_log(std::string_view text) {
  constexpr std::size_t kMostRows = 10000;
  NcclRuns out;
  RunBuilder builder;
  std::string version, library, headers;
  for (std::size_t at = 0; at <= text.size() && builder.rows() < kMostRows;) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = without_pipes(without_prefix(text.substr(at, end - at)));
    at = end + 1;
    if (line.find("concluded") == std::string::npos) builder.name(kind_by_program(line));
    const std::size_t said = line.find("NCCL version ");
    if (version.empty() && said != std::string::npos) {
      version = line.substr(said + 13, line.find_first_not_of("0123456789.", said + 13) - said - 13);
      while (version.ends_with('.')) version.pop_back();
    }
    const Words words = words_of(line);
    take_version(words, library, headers);
    TableRow read;
    const RowShape shape = read_row(words, read);
    if (shape == RowShape::good) {
      builder.row(read);
    } else if (shape == RowShape::damaged) {
      ++out.damaged;
    } else if (line.find("nThread") != std::string::npos) {
      builder.header(words);
    } else if (line.find("algbw") != std::string::npos && line.find("count") != std::string::npos) {
      builder.columns(words);
    } else if (line.find("Rank") != std::string::npos) {
      builder.ranks(words);
    }
  }
  out.runs = builder.finish(!version.empty() ? version : !library.empty() ? library : headers);
  return out;
}

/// nccl_perf.csv of aiconfigurator: "framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,
/// message_size,latency", sizes in elements, milliseconds.
NcclRuns read_perf_table(std::string_view text) {
  NcclRuns out;
  std::map<std::pair<std::string, int64_t>, NcclLog> logs;
  std::vector<std::string> names;
  for (const std::string& line : split(text, '\n')) {
    auto cells = split(line, ',');
    if (!cells.back().empty() && cells.back().back() == '\r') cells.back().pop_back();
    if (names.empty()) {
      names = cells;
      continue;
    }
    const auto cell = [&](std::string_view name) -> std::string_view {
      const auto at = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
      return at < cells.size() ? std::string_view(cells[at]) : std::string_view();
    };
    int64_t ranks = 0, elements = 0;
    double milliseconds = 0;
    const std::string kind = kind_by_operation(cell("op_name"));
    const bool good = !kind.empty() && is_type(cell("nccl_dtype")) && read_number(cell("num_gpus"), ranks) &&
                      read_number(cell("message_size"), elements) &&
                      read_number(cell("latency"), milliseconds) && ranks > 1 && ranks <= 1'000'000 &&
                      elements > 0 && elements < int64_t{1} << 56 && milliseconds > 0 && milliseconds < 1e9;
    if (!good) {
      if (cells.size() > 1) ++out.damaged;
      continue;
    }
    NcclLog& log = logs[{kind, ranks}];
    log.kind = kind;
    log.devices = ranks;
    log.nodes = 1;
    log.version = std::string(cell("version"));
    log.device = std::string(cell("device"));
    NcclRow row;
    row.bytes = elements * size_of(cell("nccl_dtype"));
    row.seconds = milliseconds * 1e-3;
    if (log.rows.size() < 1000) add_row(log, row);
    if (logs.size() > 256) break;
  }
  for (auto& [question, log] : logs) out.runs.push_back(std::move(log));
  return out;
}

bool is_perf_table(std::string_view text) {
  const std::string_view head = text.substr(0, text.find('\n'));
  return head.find("op_name") != head.npos && head.find("message_size") != head.npos &&
         head.find("num_gpus") != head.npos && head.find("latency") != head.npos;
}

double in(const Json& object, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const Json* value = object.find(key);
    // Numbers come as such and, from some versions, as text.
    double number_of_text = 0;
    if (value != nullptr && value->is_text() &&
        read_number(std::string_view(value->as_text()), number_of_text))
      return number_of_text;
    if (value != nullptr && !value->is_text()) return value->as_real(0, 1e300);
  }
  return 0;
}

/// "config" of a document of -J.
void read_config(const Json& config, Harness& harness) {
  const auto whole = [&](std::initializer_list<std::string_view> keys, int& value) {
    const double v = in(config, keys);
    if (v >= 1 && v <= 1 << 20) value = static_cast<int>(v);
  };
  whole({"nthreads", "threads"}, harness.threads);
  whole({"ngpus", "gpus"}, harness.gpus_per_thread);
  whole({"iterations"}, harness.iterations);
}

/// What one of "results" has besides its times; counts and roots come as numbers or as text.
NcclColumns json_columns(const Json& result, int64_t bytes) {
  NcclColumns columns;
  const std::string type =
      result.find("type") != nullptr && result.at("type").is_text() ? result.at("type").as_text() : "";
  const std::string redop =
      result.find("redop") != nullptr && result.at("redop").is_text() ? result.at("redop").as_text() : "";
  columns.operation = !redop.empty() && redop != "none";
  columns.root_column = true;
  const double count = in(result, {"count"});
  if (is_type(type) && count >= 1 && count <= 1e15) {
    const int64_t part = static_cast<int64_t>(count) * size_of(type);
    if (part <= bytes && bytes % part == 0) columns.parts = bytes / part;
  }
  int64_t root = -1;
  if (const Json* said = result.find("root"); said != nullptr && said->is_text())
    read_number(std::string_view(said->as_text()), root);
  else if (said != nullptr && said->is_integer())
    root = said->as_int(-1, 1'000'000);
  columns.rooted = root >= 0;
  return columns;
}

NcclRuns read_json_log(const Json& document) {
  RunBuilder builder;
  NcclLog& log = builder.open().log;
  std::set<std::string> hosts;
  if (const Json* devices = document.find("devices")) {
    for (const Json& device : devices->items()) {
      hosts.insert(device.text("hostname", ""));
      if (log.device.empty()) log.device = device.text("device_info", "");
      ++log.devices;
    }
  }
  log.nodes = static_cast<int64_t>(hosts.size());
  std::string library;
  if (const Json* version = document.find("nccl_version"); version != nullptr && version->is_integer()) {
    const int64_t v = version->as_int(0, 1'000'000);  // 22703 is 2.27.3
    library = version_text(v);
  }
  if (const Json* config = document.find("config")) read_config(*config, log.harness);
  if (const Json* arguments = document.find("args"); arguments != nullptr && arguments->is_array()) {
    for (const Json& a : arguments->items()) {
      if (a.is_text()) builder.name(kind_by_program(a.as_text()));
    }
  }
  for (const Json& result : document.at("results").items()) {
    TableRow read;
    read.row.bytes = result.integer("size", 0, 0, int64_t{1} << 60);
    const Json* out = result.find("out_of_place");
    if (out == nullptr || !out->is_object()) continue;
    const double algbw = in(*out, {"alg_bw", "algbw"}), busbw = in(*out, {"bus_bw", "busbw"});
    read.row.seconds = in(*out, {"time"}) * 1e-6;
    if (read.row.seconds == 0 && algbw > 0)
      read.row.seconds = static_cast<double>(read.row.bytes) / algbw * 1e-9;
    read.row.busbw = busbw * 1e9;
    read.columns = json_columns(result, read.row.bytes);
    read.ratio = algbw > 0 ? busbw / algbw : 0;
    if (read.row.seconds > 0 && read.row.seconds < 1e6 && read.row.busbw < 1e16) builder.row(read);
  }
  return {builder.finish(library), 0};
}

}  // namespace

NcclRuns read_nccl_tests(std::string_view raw, const std::string& file) {
  const std::string text = with_plain_blanks(raw);
  NcclRuns out = begins_as_json(text)  ? read_json_log(Json::parse(text, file))
                 : is_perf_table(text) ? read_perf_table(text)
                                       : read_text_log(text);
  if (out.runs.empty()) {
    throw InputError(fmt::format(
        "{}: no row of an nccl-tests log in it{}", printable(file),
        out.damaged > 0 ? fmt::format(" that is whole ({} are cut or mixed with other output)", out.damaged)
                        : " (size, count, type, time, algbw, busbw)"));
  }
  if (std::all_of(out.runs.begin(), out.runs.end(), [](const NcclLog& log) { return log.devices == 1; }))
    throw InputError(
        fmt::format("{}: it ran on one device: nothing was moved between devices", printable(file)));
  return out;
}

bool looks_like_nccl_tests(std::string_view text) {
  text = text.substr(0, kRecognised);
  if (begins_as_json(text)) {
    return text.find("\"results\"") != std::string_view::npos &&
           (text.find("\"out_of_place\"") != std::string_view::npos ||
            text.find("\"average_bus_bandwidth\"") != std::string_view::npos);
  }
  return is_perf_table(text) || text.find("algbw") != std::string_view::npos ||
         (text.find("nThread") != std::string_view::npos && text.find("nGpus") != std::string_view::npos) ||
         text.find("Avg bus bandwidth") != std::string_view::npos;
}

}  // namespace tandem::calibration
