// SPDX-License-Identifier: Apache-2.0
#include "calibration/logs/nccl_tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/json.h"
#include "calibration/logs/log_text.h"

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

enum class RowShape : uint8_t { other, good, damaged };

/// size count type [redop] [root] time algbw busbw errors [time algbw busbw errors]
RowShape read_row(const Words& words, NcclRow& row) {
  int64_t count = 0;
  if (words.size() < 4 || !read_number(words[0], row.bytes) || !read_number(words[1], count) ||
      !is_type(words[2]))
    return RowShape::other;
  std::size_t at = 3;
  const auto alphabetic = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  if (std::all_of(words[at].begin(), words[at].end(), alphabetic)) ++at;
  const std::size_t left = words.size() - at;
  if (left % 4 == 1) ++at;  // a root
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

struct Kind {
  std::string_view program, name;
};
constexpr std::array kKinds = {Kind{"all_reduce", "all-reduce"},
                               Kind{"all_gather", "all-gather"},
                               Kind{"reduce_scatter", "reduce-scatter"},
                               Kind{"broadcast", "broadcast"},
                               Kind{"reduce", "reduce"},
                               Kind{"alltoall", "all-to-all"},
                               Kind{"sendrecv", "sendrecv"},
                               Kind{"gather", "gather"},
                               Kind{"scatter", "scatter"}};

/// By the name of the program ("all_reduce_perf"), which stands in command lines and in newer titles.
std::string kind_by_name(std::string_view text) {
  const std::size_t at = text.find("_perf");
  if (at == std::string_view::npos) return "";
  for (const Kind& kind : kKinds) {
    if (text.substr(0, at).ends_with(kind.program)) return std::string(kind.name);
  }
  return "";
}

/// Only an all-reduce has more bus bandwidth than algorithm bandwidth: 2(n-1)/n times, which also tells n.
void read_ratio(NcclLog& log) {
  constexpr double kMostTold = 128;  // ranks that the printed digits tell apart
  if (log.rows.empty() || log.rows.back().seconds <= 0) return;
  const NcclRow& last = log.rows.back();
  const double ratio = last.busbw * last.seconds / static_cast<double>(last.bytes);
  if (ratio < 1.02 || ratio >= 2) return;
  if (log.kind.empty()) log.kind = "all-reduce";
  const double n = std::round(2 / (2 - ratio));
  if (log.devices == 0 && log.kind == "all-reduce" && n <= kMostTold &&
      std::abs(2 * (n - 1) / n - ratio) < 2e-3)
    log.devices = static_cast<int64_t>(n);
}

void add_row(NcclLog& log, const NcclRow& row) {
  const auto same = [&](const NcclRow& r) { return r.bytes == row.bytes; };
  if (row.bytes > 0 && std::none_of(log.rows.begin(), log.rows.end(), same)) log.rows.push_back(row);
}

NcclLog read_text_log(std::string_view text) {
  constexpr std::size_t kMostRows = 10000;
  NcclLog log;
  Ranks ranks;
  bool headed = false;
  int number_of_line = 0;
  for (std::size_t at = 0; at <= text.size() && log.rows.size() < kMostRows;) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = without_prefix(text.substr(at, end - at));
    at = end + 1;
    ++number_of_line;
    if (log.kind.empty()) log.kind = kind_by_name(line);
    const std::size_t version = line.find("NCCL version ");
    if (log.version.empty() && version != std::string_view::npos) {
      const std::string_view rest = line.substr(version + 13);
      log.version = rest.substr(0, rest.find_first_not_of("0123456789."));
      while (log.version.ends_with('.')) log.version.pop_back();
    }
    const Words words = words_of(line);
    NcclRow row;
    row.line = number_of_line;
    const RowShape shape = read_row(words, row);
    if (shape == RowShape::good) {
      add_row(log, row);
    } else if (shape == RowShape::damaged) {
      ++log.damaged;
    } else if (!headed && line.find("nThread") != std::string_view::npos) {
      read_header(words, log.harness);
      headed = true;
    } else if (line.find("Rank") != std::string_view::npos) {
      ranks.read(words);
    }
  }
  // The list may have lost its first lines.
  log.devices = ranks.ranks.empty() ? 0 : *ranks.ranks.rbegin() + 1;
  log.nodes = static_cast<int64_t>(ranks.hosts.size());
  log.device = ranks.device;
  read_ratio(log);
  return log;
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

NcclLog read_json_log(const Json& document) {
  NcclLog log;
  std::set<std::string> hosts;
  if (const Json* devices = document.find("devices")) {
    for (const Json& device : devices->items()) {
      hosts.insert(device.text("hostname", ""));
      if (log.device.empty()) log.device = device.text("device_info", "");
      ++log.devices;
    }
  }
  log.nodes = static_cast<int64_t>(hosts.size());
  if (const Json* version = document.find("nccl_version"); version != nullptr && version->is_integer()) {
    const int64_t v = version->as_int(0, 1'000'000);  // 22703 is 2.27.3
    log.version = fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
  }
  if (const Json* config = document.find("config")) {
    const auto whole = [&](std::initializer_list<std::string_view> keys, int& value) {
      const double v = in(*config, keys);
      if (v >= 1 && v <= 1 << 20) value = static_cast<int>(v);
    };
    whole({"nthreads", "threads"}, log.harness.threads);
    whole({"ngpus", "gpus"}, log.harness.gpus_per_thread);
    whole({"iterations"}, log.harness.iterations);
  }
  if (const Json* arguments = document.find("args"); arguments != nullptr && arguments->is_array()) {
    for (const Json& a : arguments->items()) {
      if (log.kind.empty() && a.is_text()) log.kind = kind_by_name(a.as_text());
    }
  }
  for (const Json& result : document.at("results").items()) {
    NcclRow row;
    row.bytes = result.integer("size", 0, 0, int64_t{1} << 60);
    const Json* out = result.find("out_of_place");
    if (out == nullptr || !out->is_object()) continue;
    const double algbw = in(*out, {"alg_bw", "algbw"});
    row.seconds = in(*out, {"time"}) * 1e-6;
    if (row.seconds == 0 && algbw > 0) row.seconds = static_cast<double>(row.bytes) / algbw * 1e-9;
    row.busbw = in(*out, {"bus_bw", "busbw"}) * 1e9;
    if (row.seconds > 0 && row.seconds < 1e6 && row.busbw < 1e16) add_row(log, row);
  }
  read_ratio(log);
  return log;
}

}  // namespace

NcclLog read_nccl_tests(std::string_view text, const std::string& file) {
  NcclLog log = begins_as_json(text) ? read_json_log(Json::parse(text, file)) : read_text_log(text);
  if (log.rows.empty()) {
    throw InputError(fmt::format(
        "{}: no row of an nccl-tests log in it{}", printable(file),
        log.damaged > 0 ? fmt::format(" that is whole ({} are cut or mixed with other output)", log.damaged)
                        : ""));
  }
  return log;
}

bool looks_like_nccl_tests(std::string_view text) {
  text = text.substr(0, kRecognised);
  if (begins_as_json(text)) {
    return text.find("\"results\"") != std::string_view::npos &&
           (text.find("\"out_of_place\"") != std::string_view::npos ||
            text.find("\"average_bus_bandwidth\"") != std::string_view::npos);
  }
  return text.find("algbw") != std::string_view::npos ||
         (text.find("nThread") != std::string_view::npos && text.find("nGpus") != std::string_view::npos) ||
         text.find("Avg bus bandwidth") != std::string_view::npos;
}

}  // namespace tandem::calibration
