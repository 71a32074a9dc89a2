// SPDX-License-Identifier: Apache-2.0
#include "calibration/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "answers/labels.h"
#include "answers/question.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "base/text.h"
#include "calibration/fit/collective_profile.h"
#include "calibration/fit/machine_fit.h"
#include "sim/bound/placement.h"
#include "sim/cost/incast_rounds.h"
#include "sim/cost/layout.h"
#include "sim/cost/libraries.h"

namespace tandem::calibration {

namespace {

using Note = std::function<void(std::string_view)>;

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

constexpr int64_t kMostMembers = 1'000'000;
constexpr const char* kFirstSize = "sizes start at 1 B";

std::vector<int64_t> doubling(int64_t from, int64_t to, int64_t factor, std::string_view option) {
  if (from < 1) refuse_option(option, kFirstSize);
  if (to < from) refuse_option(option, "the end is smaller than the start");
  std::vector<int64_t> sizes;
  for (int64_t size = from;; size *= factor) {
    sizes.push_back(size);
    if (size > to / factor) return sizes;
  }
}

/// "8B..1GiB": from one to the other by `factor`; or "1MiB,3MiB".
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

std::vector<int64_t> read_sizes(const Values& values, const std::vector<NcclRow>& measured) {
  const int64_t factor = values.integer("factor", 2, 2, 1 << 20);
  if (values.has("sizes")) {
    return values.value("sizes", "", [&](const std::string& text, const Place& place) {
      return listed_sizes(text, factor, place);
    });
  }
  if (!measured.empty() && !values.has("from") && !values.has("to")) {
    std::vector<int64_t> sizes;
    for (const NcclRow& row : measured) sizes.push_back(row.bytes);
    return sizes;
  }
  return doubling(values.value("from", "1KiB", parse_bytes).n, values.value("to", "1GiB", parse_bytes).n,
                  factor, values.has("to") ? "to" : "from");
}

Harness read_harness(const Values& values, const Harness& fallback) {
  if (!values.has("harness")) return fallback;
  const auto part = split(values.text("harness", ""), 'x');
  if (part.size() != 3)
    refuse_option("harness", "threads x devices per thread x iterations expected: 1x8x20");
  const auto whole = [&](const std::string& text) {
    return static_cast<int>(parse_integer(text, 1, 1'000'000, option_place("harness")));
  };
  return {whole(part[0]), whole(part[1]), whole(part[2])};
}

/// One prediction: the question, and the measurements.
struct CollectiveRequest {
  std::shared_ptr<const System> system;
  std::string kind, algorithm;
  int64_t devices = 0;
  std::optional<NcclLog> log;
  std::vector<CollectivePoint> points;  ///< corrections of the prediction
  std::string points_kind;              ///< what they measured
  Bearing bearing = Bearing::none;
  std::string calibrated_by;
  Harness harness, points_harness;  ///< of the benchmark that is predicted, and of the points
};

/// The all-reduces of tandem measure on that many devices (0: the most it has): back-to-back ones if it timed
/// them, since benchmarks print those.
NcclLog log_of(const Json& document, int64_t devices) {
  const Measurements m = Measurements::from_json(document);
  NcclLog log;
  log.kind = "all-reduce";
  for (const MeasuredTransfer& t : m.all_reduce) log.devices = std::max(log.devices, t.ranks);
  if (devices > 0) log.devices = devices;
  for (const MeasuredTransfer& t : m.all_reduce) {
    if (t.ranks == log.devices)
      log.rows.push_back(
          {static_cast<int64_t>(t.bytes), t.in_row > 0 ? t.in_row : t.seconds, 0, 0, t.estimate});
  }
  std::sort(log.rows.begin(), log.rows.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  if (log.rows.empty())
    document.fail("holds no all-reduce" + (devices > 0 ? fmt::format(" of {} devices", devices) : ""));
  return log;
}

/// The runs selected by --kind and --devices, each with its kind.
std::vector<NcclLog> asked_of(const Values& values, std::vector<NcclLog> runs, const std::string& file,
                              const Note& note) {
  const std::string kind = values.has("kind") ? values.choice("kind", "", kind_names()) : "";
  std::vector<NcclLog> out;
  std::string others, undecided;
  for (NcclLog& run : runs) {
    if (run.kind.empty()) undecided = run.undecided.empty() ? "its columns fit no kind" : run.undecided;
    if (run.kind.empty() && !kind.empty()) run.kind = kind;
    if (run.kind.empty()) continue;
    if (kind.empty() || run.kind == kind) {
      out.push_back(std::move(run));
    } else if (others.find(run.kind) == std::string::npos) {
      others += (others.empty() ? "" : ", ") + run.kind;
    }
  }
  if (out.empty() && !others.empty())
    throw InputError(option_place("kind"),
                     fmt::format("{}: the log is one of {}, not {}", printable(file), others, kind));
  if (out.empty())
    throw InputError(
        fmt::format("{}: the log does not tell which collective it measured: {}; name it with --kind",
                    printable(file), undecided));
  if (out.size() < runs.size() && kind.empty())
    note(fmt::format("{}: runs that do not tell what they measured are left out ({})", printable(file),
                     undecided));
  if (values.has("devices") && out.size() > 1) {
    const int64_t devices = values.integer("devices", 0, 2, kMostMembers);
    const auto other = [&](const NcclLog& run) { return run.devices > 0 && run.devices != devices; };
    if (!std::all_of(out.begin(), out.end(), other)) std::erase_if(out, other);
  }
  return out;
}

std::vector<NcclLog> read_logs(const Values& values, const Note& note) {
  if (values.has("log") && values.has("against"))
    throw UsageError("--against is another name of --log; give one of them");
  const char* option = values.has("log") ? "log" : "against";
  if (!values.has(option)) return {};
  const std::string file = values.text(option, "");
  const std::string text = read_file(file);
  if (text.find("\"tandem-measurements-") != std::string::npos)
    return {log_of(Json::parse(text, file),
                   values.has("devices") ? values.integer("devices", 2, 2, kMostMembers) : 0)};
  NcclRuns log = read_nccl_tests(text, file);
  if (log.damaged > 0) note(fmt::format("{}: {} damaged rows left out", printable(file), log.damaged));
  return asked_of(values, std::move(log.runs), file, note);
}

/// Corrections of a prediction: sizes of its own log, or relevant measurements of the profile.
void calibrate(const Values& values, const std::vector<CollectiveProfile>& profiles,
               CollectiveRequest& request, const Note& note) {
  if (values.has("calibrate")) {
    if (request.log->devices > 0 && request.log->devices != request.devices) return;
    request.points = every_second_size(points_of(request.log->rows));
    request.bearing = Bearing::own;
    request.points_kind = request.kind;
    request.points_harness = request.harness;
    request.calibrated_by =
        fmt::format("every second power of two of the log ({} sizes)", request.points.size());
    return;
  }
  if (profiles.empty()) return;
  MeasuredCollectives measured;
  std::string kinds, counts;
  for (const CollectiveProfile& p : profiles) {
    measured.all.push_back(p.measured);
    if (kinds.find(p.measured.kind) == std::string::npos)
      kinds += (kinds.empty() ? "" : ", ") + p.measured.kind;
    if (bearing(p.measured.kind, request.kind) != Bearing::none)
      counts += fmt::format("{}{}", counts.empty() ? "" : ", ", p.measured.devices);
  }
  if (counts.empty())
    throw InputError(option_place("profile"),
                     fmt::format("is one of {}, which does not help with {}", kinds, request.kind));
  const MeasuredCollective* found = measured.find(request.kind, request.devices);
  if (found == nullptr) {
    note(fmt::format(
        "the profile was measured on {} devices, which does not help with {} among {}: stock figures", counts,
        request.kind, request.devices));
    return;
  }
  const CollectiveProfile& profile = profiles[static_cast<std::size_t>(found - measured.all.data())];
  request.points = found->points;
  request.bearing = bearing(found->kind, request.kind);
  request.points_kind = found->kind;
  request.points_harness = found->harness;
  request.calibrated_by =
      fmt::format("{} sizes of {}{}", request.points.size(), profile.source,
                  request.bearing == Bearing::own ? "" : fmt::format(" (its {})", found->kind));
}

/// The kinds and device counts that are asked about without a log.
std::vector<std::pair<std::string, int64_t>> asked_without_log(const Values& values,
                                                               const std::vector<CollectiveProfile>& profiles,
                                                               const System& system) {
  const int64_t all = std::min(system.accelerator_count(), kMostMembers);
  const auto known = [&](int64_t devices) { return devices > 1 ? devices : all; };
  if (values.has("kind") || profiles.empty())
    return {{values.choice("kind", kind_names()[0], kind_names()),
             profiles.empty() ? all : known(profiles[0].measured.devices)}};
  std::vector<std::pair<std::string, int64_t>> out;
  for (const CollectiveProfile& p : profiles) {
    const auto& names = kind_names();
    if (std::find(names.begin(), names.end(), p.measured.kind) == names.end())
      throw InputError(option_place("profile"), fmt::format("no kind \"{}\"", printable(p.measured.kind)));
    out.emplace_back(p.measured.kind, known(p.measured.devices));
  }
  return out;
}

std::shared_ptr<const System> read_system(const Values& values, const std::vector<NcclLog>& logs,
                                          const std::vector<CollectiveProfile>& profiles, const Note& note) {
  std::string version = !logs.empty() && !logs[0].version.empty() ? "nccl-" + logs[0].version : "";
  if (version.empty() && !profiles.empty()) version = profiles[0].library;
  auto sets = asked_sets(values);
  const bool library_set =
      std::any_of(sets.begin(), sets.end(), [](const auto& s) { return s.first == "communication.library"; });
  if (!version.empty() && !library_set) {
    sets.emplace_back("communication.library", version);
    note(fmt::format("library {} as the measurement says", printable(version)));
  }
  return std::make_shared<const System>(load_system(values.required("system", "dgx1-v100"), sets));
}

std::vector<CollectiveRequest> read_collective_requests(const Values& values, const Note& note) {
  std::vector<NcclLog> logs = read_logs(values, note);
  std::vector<CollectiveProfile> profiles;
  if (values.has("profile")) profiles = read_collective_profiles(Json::load(values.text("profile", "")));
  const auto system = read_system(values, logs, profiles, note);
  CollectiveRequest common{.system = system,
                           .kind = "",
                           .algorithm = "",
                           .log = {},
                           .points = {},
                           .points_kind = "",
                           .calibrated_by = "",
                           .harness = {},
                           .points_harness = {}};
  common.algorithm = values.value("algorithm", "auto", [](const std::string& name, const Place& place) {
    const bool special = name == "auto" || name == "best" || layouts_registry().find(name) != nullptr;
    return special ? name : std::string(collectives_registry().at(name, place).name);
  });
  std::vector<CollectiveRequest> out;
  const auto ask = [&](const std::string& kind, int64_t devices, const Harness& harness,
                       std::optional<NcclLog> log) {
    CollectiveRequest request = common;
    request.kind = kind;
    request.devices = values.integer("devices", devices, 2, kMostMembers);
    request.harness = read_harness(values, harness);
    request.log = std::move(log);
    if (request.log && request.log->devices > 1 && request.log->devices != request.devices)
      note(
          fmt::format("the log was measured on {} devices, not {}: its times are shown, but "
                      "nothing is calibrated to them",
                      request.log->devices, request.devices));
    calibrate(values, profiles, request, note);
    out.push_back(std::move(request));
  };
  const int64_t all = std::min(system->accelerator_count(), kMostMembers);
  for (NcclLog& log : logs) ask(log.kind, log.devices > 1 ? log.devices : all, log.harness, log);
  if (!logs.empty()) return out;
  for (const auto& [kind, devices] : asked_without_log(values, profiles, *system)) {
    if (std::any_of(out.begin(), out.end(),
                    [&, k = kind](const auto& r) { return r.kind == k && values.has("devices"); }))
      continue;
    ask(kind, devices, profiles.empty() ? Harness{} : profiles[0].measured.harness, {});
  }
  return out;
}

/// Prices one kind on one group.
class Pricer {
 public:
  explicit Pricer(const CollectiveRequest& request)
      : request_(request), cost_(*request.system, Overheads{}), incast_(*request.system, 1) {
    const Cluster cluster = make_cluster(*request.system, request.devices);
    for (int64_t i = 0; i < request.devices; ++i)
      members_.push_back(used_accelerator(*request.system, cluster, i));
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
    note_trunk(t, out);
    out.seconds = cost_.reported(t.alone(cost_.capacity()).seconds(), out.choice, request_.harness);
    if (out.choice.algorithm == "direct") out.seconds += timeouts(bytes).seconds();
    return out;
  }
  const std::vector<IncastRound>& incast() const { return incast_.worst(); }

 private:
  /// With all members sending at once, to each other or to the first.
  Time timeouts(int64_t bytes) {
    const bool gather = index_ - kCollKinds == static_cast<int>(LinkCost::Exchange::gather);
    if (index_ >= kCollKinds && !gather) return {};
    return incast_.group(request_.kind, members_,
                         static_cast<double>(bytes) / static_cast<double>(members_.size()), gather);
  }

  /// The busiest resource, if it is a link that several nodes share.
  void note_trunk(const Transfer& t, CollectiveLine& line) const {
    const System& system = *request_.system;
    double most = 0;
    uint32_t busiest = 0;
    for (const Use& use : t.uses) {
      const double share = use.weight / cost_.capacity()[use.link];
      if (share > most) most = share, busiest = use.link;
    }
    if (most <= 0 || busiest >= system.link_count()) return;
    const auto [first, last] = system.nodes_below(busiest);
    if (last - first < 2) return;
    line.trunk = cost_.resource_name(busiest);
    line.trunk_nodes = last - first;
    line.trunk_busy = std::min(1.0, most * t.bytes / t.alone(cost_.capacity()).seconds());
  }

  const CollectiveRequest& request_;
  LinkCost cost_;
  IncastRounds incast_;
  std::vector<VertexId> members_;
  int index_ = 0;
};

CollectiveRun run_of(const Values& values, const CollectiveRequest& request, const Note& note) {
  const Library library = library_of(*request.system);
  const bool corrected = !request.points.empty() && request.algorithm != "best";
  CollectiveRun run{.system = changed_system(request.system->name(), asked_sets(values)),
                    .kind = request.kind,
                    .library = library.name,
                    .source = library.source,
                    .devices = request.devices,
                    .bus_factor = bus_factor(request.kind, static_cast<double>(request.devices)),
                    .harness = request.harness,
                    .calibrated_by = request.calibrated_by,
                    .lines = {}};
  Pricer pricer(request);
  const std::vector<NcclRow> measured = request.log ? request.log->rows : std::vector<NcclRow>{};
  CollectiveRequest of_points = request;
  if (corrected) {
    of_points.kind = request.points_kind;
    of_points.harness = request.points_harness;
  }
  Pricer points_pricer(of_points);
  const CollectiveCorrection correction(request.points,
                                        [&](int64_t b) { return points_pricer.line(b).seconds; });
  for (const int64_t bytes : read_sizes(values, measured)) {
    CollectiveLine line = pricer.line(bytes);
    double within = 1 + line.choice.spread;
    if (corrected) {
      line.seconds = std::max(line.seconds * correction.factor(bytes), line.best);
      if (correction.spans(bytes)) within = 1 + spread(request.bearing, bytes);
      if (request.bearing == Bearing::own) line.plain = interpolated(request.points, bytes);
    }
    if (request.algorithm != "best" && within > 1) {
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
    line.calibrates = values.has("calibrate") && std::any_of(request.points.begin(), request.points.end(),
                                                             [&](const auto& p) { return p.bytes == bytes; });
    run.lines.push_back(std::move(line));
  }
  for (const IncastRound& round : pricer.incast()) {
    if (worth_telling(round)) note(incast_text(round));
  }
  return run;
}

}  // namespace

std::vector<CollectiveRun> predict_collectives(const Values& values, const Note& given) {
  const Note note = given ? given : [](std::string_view) {};
  if (values.has("calibrate") && !values.has("log") && !values.has("against"))
    throw UsageError("--calibrate takes its sizes from a log: add --log FILE");
  if (values.has("calibrate") && values.has("profile"))
    throw UsageError("--calibrate and --profile both correct the prediction; give one of them");
  std::vector<CollectiveRun> runs;
  for (const CollectiveRequest& request : read_collective_requests(values, note))
    runs.push_back(run_of(values, request, note));
  return runs;
}

std::vector<Option> collective_options() {
  std::vector<Option> out = {
      {"system", "NAME|FILE", "the machine (tandem list systems)"},
      {"kind", "KIND",
       "default: every run in the log, else all-reduce; reduce-scatter, all-gather, "
       "broadcast, reduce, "
       "all-to-all, gather, scatter, sendrecv"},
      {"devices", "N", "members of the group; default: the log's, else all the system has"},
      {"algorithm", "NAME",
       "auto (default: what the system's library would pick), best (what the links allow), or one of "
       "tandem list layouts or tandem list collectives"},
      {"sizes", "A..B|A,B,...", "sizes from A doubling to B, or a list; default: the log's, else 1KiB..1GiB"},
      {"from", "BYTES", "smallest size, instead of --sizes"},
      {"to", "BYTES", "largest size, instead of --sizes"},
      {"factor", "N", "ratio of successive sizes; default 2"},
      {"log", "FILE",
       "a log of nccl-tests (text or JSON), nccl_perf.csv, or what tandem measure wrote, to print "
       "beside"},
      {"against", "FILE", "the same"},
      {"calibrate", "", "correct the prediction by every second power of two of the log"},
      {"profile", "FILE",
       "correct it by measured sizes (tandem import nccl-tests); one of all-reduce, all-gather and "
       "reduce-scatter corrects the others"},
      {"harness", "TxGxN",
       "threads, devices per thread and iterations of the benchmark that is predicted; default: the "
       "log's, "
       "else 1x1x20"}};
  const std::vector<Option> board = board_flags();
  out.push_back({"set", "PATH=VALUE", "change one thing of the system", true});
  out.insert(out.end(), board.begin(), board.end());
  return out;
}

namespace {

JsonWriter run_json(const CollectiveRun& run) {
  JsonWriter out = {
      {"schema", "tandem-collective-1"}, {"system", run.system},   {"kind", run.kind},
      {"devices", run.devices},          {"library", run.library}, {"calibrated", !run.calibrated_by.empty()},
      {"rows", JsonWriter::array()}};
  for (const CollectiveLine& l : run.lines) {
    JsonWriter row = {{"bytes", l.bytes},
                      {"seconds", l.seconds},
                      {"algbw_bytes_per_second", l.algbw},
                      {"busbw_bytes_per_second", l.busbw},
                      {"algorithm", l.choice.algorithm},
                      {"protocol", l.choice.protocol}};
    if (l.high > 0) row["seconds_interval"] = {{"low", l.low}, {"high", l.high}, {"level", 0.9}};
    if (l.best > 0) row["best_seconds"] = l.best;
    if (l.estimate > 0) row["library_seconds"] = l.estimate;
    if (l.plain > 0) row["interpolated_seconds"] = l.plain;
    if (l.measured > 0) {
      row["measured_seconds"] = l.measured;
      if (!run.calibrated_by.empty()) row["calibrates"] = l.calibrates;
    }
    out["rows"].push_back(std::move(row));
  }
  return out;
}

}  // namespace

std::string collective_json(const std::vector<CollectiveRun>& runs) {
  if (runs.size() == 1) return run_json(runs[0]).dump(2);
  JsonWriter out = {{"schema", "tandem-collectives-1"}, {"runs", JsonWriter::array()}};
  for (const CollectiveRun& run : runs) out["runs"].push_back(run_json(run));
  return out.dump(2);
}

}  // namespace tandem::calibration
