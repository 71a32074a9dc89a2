// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "app/analysis/question.h"
#include "app/collective_table.h"
#include "app/console/cli.h"
#include "app/console/output.h"
#include "base/json.h"
#include "base/text.h"
#include "calibration/fit/collective_profile.h"
#include "calibration/fit/machine_fit.h"
#include "sim/cost/layout.h"
#include "sim/cost/libraries.h"
#include "sim/plan/placement.h"

namespace tandem::app {

namespace {

const std::vector<std::string>& kind_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (int k = 0; k < kCollKinds; ++k) out.emplace_back(name(static_cast<CollKind>(k)));
    for (std::string& n : out) std::replace(n.begin(), n.end(), '_', '-');
    out.insert(out.end(), {"gather", "scatter", "sendrecv"});  // in the order of LinkCost::Exchange
    return out;
  }();
  return names;
}

/// Bus bandwidth over algorithm bandwidth, as nccl-tests defines it (its doc/PERFORMANCE.md).
double bus_factor(const std::string& kind, double n) {
  if (kind == "all-reduce") return 2 * (n - 1) / n;
  if (kind == "broadcast" || kind == "reduce" || kind == "sendrecv") return 1;
  return (n - 1) / n;
}

constexpr const char* kFirstSize = "sizes begin at 1 B";

std::vector<int64_t> doubling(int64_t from, int64_t to, int64_t factor, std::string_view option) {
  if (from < 1) refuse_option(option, kFirstSize);
  if (to < from) refuse_option(option, "the end is smaller than the begin");
  std::vector<int64_t> sizes;
  for (int64_t size = from;; size *= factor) {
    sizes.push_back(size);
    if (size > to / factor) return sizes;
  }
}

/// "8B..1GiB", from one to the other by `factor`, or "1MiB,3MiB".
std::vector<int64_t> listed_sizes(const std::string& text, int64_t factor, const Place& place) {
  const std::size_t dots = text.find("..");
  if (dots != std::string::npos) {
    return doubling(parse_bytes(text.substr(0, dots), place).n, parse_bytes(text.substr(dots + 2), place).n,
                    factor, "sizes");
  }
  std::vector<int64_t> sizes;
  for (const std::string& size : split(text, ',')) sizes.push_back(parse_bytes(size, place).n);
  if (*std::min_element(sizes.begin(), sizes.end()) < 1) refuse_option("sizes", kFirstSize);
  return sizes;
}

std::vector<int64_t> read_sizes(const Arguments& arguments, const std::vector<NcclRow>& measured) {
  const int64_t factor = arguments.integer("factor", 2, 2, 1 << 20);
  if (arguments.has("sizes")) {
    return arguments.value("sizes", "", [&](const std::string& text, const Place& place) {
      return listed_sizes(text, factor, place);
    });
  }
  if (!measured.empty() && !arguments.has("from") && !arguments.has("to")) {
    std::vector<int64_t> sizes;
    for (const NcclRow& row : measured) sizes.push_back(row.bytes);
    return sizes;
  }
  return doubling(arguments.value("from", "1KiB", parse_bytes).n,
                  arguments.value("to", "1GiB", parse_bytes).n, factor, arguments.has("to") ? "to" : "from");
}

Harness read_harness(const Arguments& arguments, const Harness& fallback) {
  if (!arguments.has("harness")) return fallback;
  const auto part = split(arguments.text("harness", ""), 'x');
  if (part.size() != 3)
    refuse_option("harness", "threads x devices per thread x iterations expected: 1x8x20");
  const auto whole = [&](const std::string& text) {
    return static_cast<int>(parse_integer(text, 1, 1'000'000, option_place("harness")));
  };
  return {whole(part[0]), whole(part[1]), whole(part[2])};
}

/// Everything that the options say.
struct CollectiveRequest {
  System system;
  std::string kind, algorithm;
  int64_t devices = 0;
  std::optional<NcclLog> log;
  std::optional<CollectiveProfile> profile;
  Harness harness;
};

/// The all-reduces of tandem measure among so many devices (0: the most it saw).
NcclLog log_of(const Json& document, int64_t devices) {
  const Measurements m = Measurements::from_json(document);
  NcclLog log;
  log.kind = "all-reduce";
  for (const MeasuredTransfer& t : m.all_reduce) log.devices = std::max(log.devices, t.ranks);
  if (devices > 0) log.devices = devices;
  for (const MeasuredTransfer& t : m.all_reduce) {
    if (t.ranks == log.devices)
      log.rows.push_back({static_cast<int64_t>(t.bytes), t.seconds, 0, 0, t.estimate});
  }
  std::sort(log.rows.begin(), log.rows.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  if (log.rows.empty())
    document.fail("holds no all-reduce" + (devices > 0 ? fmt::format(" of {} devices", devices) : ""));
  return log;
}

std::optional<NcclLog> read_log(const Arguments& arguments) {
  if (arguments.has("log") && arguments.has("against"))
    throw UsageError("--against is another name of --log; give one of them");
  const char* option = arguments.has("log") ? "log" : "against";
  if (!arguments.has(option)) return {};
  const std::string file = arguments.text(option, "");
  const std::string text = read_file(file);
  if (text.find("\"tandem-measurements-") != std::string::npos)
    return log_of(Json::parse(text, file),
                  arguments.has("devices") ? arguments.integer("devices", 2, 2, 65536) : 0);
  NcclLog log = read_nccl_tests(text, file);
  if (log.damaged > 0)
    note(arguments, fmt::format("{}: {} damaged rows left out", printable(file), log.damaged));
  return log;
}

CollectiveRequest read_collective_request(const Arguments& arguments) {
  auto log = read_log(arguments);
  std::optional<CollectiveProfile> profile;
  if (arguments.has("profile")) profile = read_collective_profile(Json::load(arguments.text("profile", "")));
  std::string version = log && !log->version.empty() ? "nccl-" + log->version : "";
  if (version.empty() && profile) version = profile->library;
  auto sets = read_sets(arguments);
  const bool library_set =
      std::any_of(sets.begin(), sets.end(), [](const auto& s) { return s.first == "communication.library"; });
  if (!version.empty() && !library_set) {
    sets.emplace_back("communication.library", version);
    note(arguments, fmt::format("library {} as the measurement says", printable(version)));
  }
  CollectiveRequest out{.system = System::load(arguments.required("system", "dgx1-v100"), sets),
                        .kind = "",
                        .algorithm = "",
                        .devices = 0,
                        .log = {},
                        .profile = {},
                        .harness = {}};
  std::string kind = kind_names()[0];
  if (profile) kind = profile->kind;
  if (log && !log->kind.empty()) kind = log->kind;
  out.kind = arguments.choice("kind", kind, kind_names());
  if (profile && profile->kind != out.kind)
    throw InputError(option_place("profile"), fmt::format("is one of {}, not {}", profile->kind, out.kind));
  out.algorithm = arguments.value("algorithm", "auto", [](const std::string& name, const Place& place) {
    const bool special = name == "auto" || name == "best" || layouts_registry().find(name) != nullptr;
    return special ? name : std::string(collectives_registry().at(name, place).name);
  });
  int64_t devices = std::min<int64_t>(out.system.accelerator_count(), 1024);
  if (profile && profile->devices > 1) devices = profile->devices;
  if (log && log->devices > 1) devices = log->devices;
  out.devices = arguments.integer("devices", devices, 2, 1'000'000);
  Harness harness = profile ? profile->harness : Harness{};
  if (log) harness = log->harness;
  out.harness = read_harness(arguments, harness);
  out.log = std::move(log);
  out.profile = std::move(profile);
  return out;
}

/// Prices one kind on one group.
class Pricer {
 public:
  explicit Pricer(const CollectiveRequest& request) : request_(request), cost_(request.system, Overheads{}) {
    const Cluster cluster = make_cluster(request.system, request.devices);
    for (int64_t i = 0; i < request.devices; ++i)
      members_.push_back(used_accelerator(request.system, cluster, i));
    const auto& names = kind_names();
    index_ = static_cast<int>(std::find(names.begin(), names.end(), request.kind) - names.begin());
  }
  CollectiveLine line(int64_t bytes) {
    CollectiveLine out;
    out.bytes = bytes;
    if (index_ < kCollKinds) out.best = cost_.least_seconds(static_cast<CollKind>(index_), {bytes}, members_);
    if (request_.algorithm == "best") {
      if (index_ >= kCollKinds) refuse_option("algorithm", "no bound is known for this kind");
      out.seconds = out.best;
      out.choice = {"best", "links", 0, 0};
      return out;
    }
    const Transfer t = index_ < kCollKinds
                           ? cost_.collective(static_cast<CollKind>(index_), request_.algorithm, {bytes},
                                              members_, &out.choice)
                           : cost_.exchange(static_cast<LinkCost::Exchange>(index_ - kCollKinds), {bytes},
                                            members_, &out.choice);
    out.seconds = cost_.reported(t.alone(cost_.capacity()).seconds(), out.choice.overlap, request_.harness);
    return out;
  }

 private:
  const CollectiveRequest& request_;
  LinkCost cost_;
  std::vector<VertexId> members_;
  int index_ = 0;
};

CollectiveRun run_of(const Arguments& arguments, const CollectiveRequest& request) {
  const Library library = library_of(request.system);
  CollectiveRun run{.system = request.system.name(),
                    .kind = request.kind,
                    .library = library.name,
                    .source = library.source,
                    .devices = request.devices,
                    .bus_factor = bus_factor(request.kind, static_cast<double>(request.devices)),
                    .harness = request.harness,
                    .calibrated_by = "",
                    .lines = {}};
  Pricer pricer(request);
  const std::vector<NcclRow> measured = request.log ? request.log->rows : std::vector<NcclRow>{};
  std::vector<NcclRow> points;
  if (request.profile) points = request.profile->points;
  if (arguments.has("calibrate")) points = every_second_size(measured);
  const CollectiveCorrection correction(points, [&](int64_t b) { return pricer.line(b).seconds; });
  if (request.profile)
    run.calibrated_by = fmt::format("{} sizes of {}", points.size(), request.profile->source);
  if (arguments.has("calibrate"))
    run.calibrated_by = fmt::format("every second power of two of the log ({} sizes)", points.size());
  const bool corrected = !points.empty() && request.algorithm != "best";
  for (const int64_t bytes : read_sizes(arguments, measured)) {
    CollectiveLine line = pricer.line(bytes);
    if (corrected) line.seconds = std::max(line.seconds * correction.factor(bytes), line.best);
    const double within = 1 + line.choice.spread;
    if (request.algorithm != "best" && within > 1 && !corrected) {
      line.low = std::max(line.seconds / within, line.best);
      line.high = line.seconds * within;
    }
    line.algbw = line.seconds > 0 ? static_cast<double>(bytes) / line.seconds : 0;
    line.busbw = line.algbw * run.bus_factor;
    for (const NcclRow& m : measured) {
      if (m.bytes != bytes || line.measured > 0) continue;
      line.measured = m.seconds;
      line.estimate = m.estimate;
    }
    line.calibrates =
        arguments.has("calibrate") &&
        std::any_of(points.begin(), points.end(), [&](const auto& p) { return p.bytes == bytes; });
    run.lines.push_back(std::move(line));
  }
  return run;
}

int collective(const Arguments& arguments) {
  const std::string format = format_of(arguments);
  check_out(arguments);
  if (arguments.has("calibrate") && !arguments.has("log") && !arguments.has("against"))
    throw UsageError("--calibrate takes its sizes from a log: add --log FILE");
  if (arguments.has("calibrate") && arguments.has("profile"))
    throw UsageError("--calibrate and --profile both correct the prediction; give one of them");
  const CollectiveRequest request = read_collective_request(arguments);
  const CollectiveRun run = run_of(arguments, request);
  if (arguments.has("plot")) {
    for (const std::string& file : draw_collective(run, arguments.text("plot", ""))) note(arguments, file);
  }
  if (format == "json") {
    put_result(arguments, collective_json(run));
  } else if (format == "csv") {
    put_result(arguments, collective_csv(run));
  } else {
    put_page(arguments, fmt::format("{} of {} devices on {}\n\n{}\n{}", run.kind, run.devices, run.system,
                                    collective_table(run).as(format, result_columns(arguments)),
                                    collective_remarks(run)));
  }
  return 0;
}

}  // namespace

void register_collective(Registry<Verb>& registry) {
  registry.add(
      {.name = "collective",
       .summary = "one collective over a range of sizes, as nccl-tests prints it, next to a measured log",
       .usage = "--system NAME [options]",
       .flags =
           {{"system", "NAME|FILE", "the machine (tandem list systems)"},
            {"kind", "KIND",
             "all-reduce (default, or what the log says), reduce-scatter, all-gather, broadcast, reduce, "
             "all-to-all, gather, scatter, sendrecv"},
            {"devices", "N", "members of the group; default: the log's, else all the system has"},
            {"algorithm", "NAME",
             "auto (default: what the system's library would pick), best (what the links allow), or one of "
             "tandem list layouts or tandem list collectives"},
            {"sizes", "A..B|A,B,...",
             "sizes from A doubling to B, or a list; default: the log's, else 1KiB..1GiB"},
            {"from", "BYTES", "smallest size, instead of --sizes"},
            {"to", "BYTES", "largest size, instead of --sizes"},
            {"factor", "N", "from one size to the next; default 2"},
            {"log", "FILE",
             "a log of nccl-tests (text or JSON), or what tandem measure wrote, to print beside"},
            {"against", "FILE", "the same"},
            {"calibrate", "", "correct the prediction by every second power of two of the log"},
            {"profile", "FILE", "correct it by measured sizes (tandem import nccl-tests)"},
            {"harness", "TxGxN",
             "threads, devices per thread and iterations of the benchmark that is predicted; default: the "
             "log's, "
             "else 1x1x20"},
            {"plot", "BASE", "also draw bus bandwidth over size: BASE.png, BASE.svg"},
            {"set", "PATH=VALUE", "change one thing of the system", true},
            format_flag(),
            out_flag(),
            quiet_flag()},
       .run = collective});
}

}  // namespace tandem::app
