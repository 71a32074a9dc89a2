// SPDX-License-Identifier: Apache-2.0
#include "calibration/fit/collective_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include "base/json_writer.h"

namespace tandem::calibration {
namespace {

constexpr std::string_view kSchema = "tandem-collective-profile-1", kSeveral = "tandem-collective-profiles-1";

void sort_by_size(std::vector<CollectivePoint>& points) {
  std::stable_sort(points.begin(), points.end(),
                   [](const CollectivePoint& a, const CollectivePoint& b) { return a.bytes < b.bytes; });
}

JsonWriter profile_json(const CollectiveProfile& profile) {
  const MeasuredCollective& m = profile.measured;
  JsonWriter out = {{"schema", kSchema},
                    {"source", profile.source},
                    {"kind", m.kind},
                    {"devices", m.devices},
                    {"library", profile.library},
                    {"harness",
                     {{"threads", m.harness.threads},
                      {"gpus_per_thread", m.harness.gpus_per_thread},
                      {"iterations", m.harness.iterations}}},
                    {"points", JsonWriter::array()}};
  for (const CollectivePoint& p : m.points)
    out["points"].push_back({{"bytes", p.bytes}, {"seconds", p.seconds}});
  return out;
}

CollectiveProfile read_profile(const Json& document) {
  document.only({"schema", "source", "kind", "devices", "library", "harness", "points"});
  if (document.at("schema").as_text() != kSchema)
    document.at("schema").fail(fmt::format("not a profile of collectives: {} expected", kSchema));
  CollectiveProfile out;
  MeasuredCollective& m = out.measured;
  out.source = document.text("source", "");
  m.kind = document.at("kind").as_text();
  out.library = document.text("library", "");
  m.devices = document.integer("devices", 0, 0, 1'000'000);
  if (const Json* harness = document.find("harness")) {
    harness->only({"threads", "gpus_per_thread", "iterations"});
    m.harness.threads = static_cast<int>(harness->integer("threads", 1, 1, 1 << 20));
    m.harness.gpus_per_thread = static_cast<int>(harness->integer("gpus_per_thread", 1, 1, 1 << 20));
    m.harness.iterations = static_cast<int>(harness->integer("iterations", 20, 1, 1 << 20));
  }
  for (const Json& point : document.at("points").items()) {
    point.only({"bytes", "seconds"});
    m.points.push_back(
        {point.at("bytes").as_int(1, int64_t{1} << 60), point.at("seconds").as_real(1e-9, 1e6)});
  }
  if (m.points.empty()) document.at("points").fail("a profile needs a point at least");
  sort_by_size(m.points);
  return out;
}

}  // namespace

std::vector<CollectivePoint> points_of(const std::vector<NcclRow>& rows) {
  std::vector<CollectivePoint> out;
  for (const NcclRow& row : rows) out.push_back({row.bytes, row.seconds});
  sort_by_size(out);
  return out;
}

CollectiveProfile profile_of(const NcclLog& log, const std::string& source, const std::string& kind) {
  if (!kind.empty() && !log.kind.empty() && kind != log.kind) {
    throw InputError(fmt::format("{}: the log is one of {}, not {}", printable(source), log.kind, kind));
  }
  if (kind.empty() && log.kind.empty()) {
    throw InputError(
        fmt::format("{}: the log does not tell which collective it measured{}; name it with --kind",
                    printable(source), log.undecided.empty() ? "" : ": " + log.undecided));
  }
  return {.source = source,
          .library = log.version.empty() ? "" : "nccl-" + log.version,
          .measured = {.kind = kind.empty() ? log.kind : kind,
                       .devices = log.devices,
                       .harness = log.harness,
                       .points = points_of(log.rows)}};
}

std::vector<CollectiveProfile> profiles_of(const NcclRuns& log, const std::string& source,
                                           const std::string& kind, std::vector<std::string>& notes) {
  if (log.runs.size() == 1) return {profile_of(log.runs[0], source, kind)};
  std::vector<CollectiveProfile> out;
  for (const NcclLog& run : log.runs) {
    const bool asked = kind.empty() ? !run.kind.empty() : run.kind.empty() || run.kind == kind;
    if (asked) {
      add(out, profile_of(run, source, kind));
    } else if (run.kind.empty()) {
      notes.push_back(fmt::format(
          "{}: a run of {} sizes is left out, for it does not tell what it measured{}", printable(source),
          run.rows.size(), run.undecided.empty() ? "" : " (" + run.undecided + ")"));
    }
  }
  if (out.empty()) return {profile_of(log.runs[0], source, kind)};  // says why not
  return out;
}

void add(std::vector<CollectiveProfile>& profiles, CollectiveProfile more) {
  const auto same = std::find_if(profiles.begin(), profiles.end(), [&](const CollectiveProfile& p) {
    return p.measured.kind == more.measured.kind && p.measured.devices == more.measured.devices &&
           p.measured.harness == more.measured.harness;
  });
  if (same == profiles.end()) {
    profiles.push_back(std::move(more));
    return;
  }
  if (same->source.find(more.source) == std::string::npos) same->source += ", " + more.source;
  std::vector<CollectivePoint>& points = same->measured.points;
  for (const CollectivePoint& p : more.measured.points) {
    const auto at = std::find_if(points.begin(), points.end(),
                                 [&](const CollectivePoint& own) { return own.bytes == p.bytes; });
    if (at == points.end()) {
      points.push_back(p);
    } else {
      at->seconds = std::sqrt(at->seconds * p.seconds);
    }
  }
  sort_by_size(points);
}

std::string profiles_json(const std::vector<CollectiveProfile>& profiles) {
  if (profiles.size() == 1) return profile_json(profiles[0]).dump(2);
  JsonWriter out = {{"schema", kSeveral}, {"profiles", JsonWriter::array()}};
  for (const CollectiveProfile& profile : profiles) out["profiles"].push_back(profile_json(profile));
  return out.dump(2);
}

std::vector<CollectiveProfile> read_collective_profiles(const Json& document) {
  if (document.at("schema").as_text() != kSeveral) return {read_profile(document)};
  document.only({"schema", "profiles"});
  std::vector<CollectiveProfile> out;
  for (const Json& each : document.at("profiles").items()) out.push_back(read_profile(each));
  if (out.empty()) document.at("profiles").fail("a profile at least");
  return out;
}

double interpolated(const std::vector<CollectivePoint>& points, int64_t bytes) {
  const auto after =
      std::find_if(points.begin(), points.end(), [&](const CollectivePoint& p) { return p.bytes >= bytes; });
  if (after == points.begin()) return after->seconds;
  const CollectivePoint& a = *(after - 1);
  if (after == points.end()) return a.seconds * static_cast<double>(bytes) / static_cast<double>(a.bytes);
  const auto log_size = [](int64_t n) { return std::log(static_cast<double>(n)); };
  const double share = (log_size(bytes) - log_size(a.bytes)) / (log_size(after->bytes) - log_size(a.bytes));
  return a.seconds * std::pow(after->seconds / a.seconds, share);
}

std::vector<CollectivePoint> every_second_size(const std::vector<CollectivePoint>& rows) {
  std::vector<CollectivePoint> sorted = rows;
  sort_by_size(sorted);
  std::vector<CollectivePoint> out;
  int first = -1;
  for (const CollectivePoint& r : sorted) {
    const auto size = static_cast<uint64_t>(r.bytes);
    if (!std::has_single_bit(size)) continue;
    const int power = std::bit_width(size);
    if (first < 0) first = power;
    if ((power - first) % 2 == 0) out.push_back(r);
  }
  return out;
}

std::shared_ptr<const MeasuredCollectives> measured_collectives(const std::string& file) {
  auto out = std::make_shared<MeasuredCollectives>();
  for (const CollectiveProfile& profile : read_collective_profiles(Json::load(file))) {
    out->all.push_back(profile.measured);
    if (out->source.find(profile.source) == std::string::npos)
      out->source += (out->source.empty() ? "" : ", ") + profile.source;
  }
  return out;
}

}  // namespace tandem::calibration
