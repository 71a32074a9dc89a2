// SPDX-License-Identifier: Apache-2.0
#include "calibration/fit/collective_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include "base/json_writer.h"

namespace tandem::calibration {
namespace {

constexpr std::string_view kSchema = "tandem-collective-profile-1";

void sort_by_size(std::vector<NcclRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const NcclRow& a, const NcclRow& b) { return a.bytes < b.bytes; });
}

}  // namespace

CollectiveProfile profile_of(const NcclLog& log, const std::string& source, const std::string& kind) {
  CollectiveProfile out{.source = source,
                        .kind = kind.empty() ? log.kind : kind,
                        .library = log.version.empty() ? "" : "nccl-" + log.version,
                        .devices = log.devices,
                        .harness = log.harness,
                        .points = log.rows};
  if (!kind.empty() && !log.kind.empty() && kind != log.kind) {
    throw InputError(fmt::format("{}: the log is one of {}, not {}", printable(source), log.kind, kind));
  }
  if (out.kind.empty()) {
    throw InputError(fmt::format(
        "{}: the log does not tell which collective it measured; name it with --kind", printable(source)));
  }
  sort_by_size(out.points);
  return out;
}

void join(CollectiveProfile& profile, const CollectiveProfile& more) {
  const auto differ = [&](const std::string& what) {
    throw InputError(fmt::format("{} and {} differ in {}; import them one by one", printable(profile.source),
                                 printable(more.source), what));
  };
  if (profile.kind != more.kind) differ(fmt::format("kind: {} and {}", profile.kind, more.kind));
  if (profile.devices != more.devices)
    differ(fmt::format("devices: {} and {}", profile.devices, more.devices));
  if (profile.harness != more.harness) differ("how the benchmark was driven (threads, GPUs, iterations)");
  profile.source += ", " + more.source;
  for (const NcclRow& row : more.points) {
    const auto same = std::find_if(profile.points.begin(), profile.points.end(),
                                   [&](const NcclRow& p) { return p.bytes == row.bytes; });
    if (same == profile.points.end()) {
      profile.points.push_back(row);
    } else {
      same->seconds = std::sqrt(same->seconds * row.seconds);
    }
  }
  sort_by_size(profile.points);
}

std::string profile_json(const CollectiveProfile& profile) {
  JsonWriter out = {{"schema", kSchema},
                    {"source", profile.source},
                    {"kind", profile.kind},
                    {"devices", profile.devices},
                    {"library", profile.library},
                    {"harness",
                     {{"threads", profile.harness.threads},
                      {"gpus_per_thread", profile.harness.gpus_per_thread},
                      {"iterations", profile.harness.iterations}}},
                    {"points", JsonWriter::array()}};
  for (const NcclRow& p : profile.points)
    out["points"].push_back({{"bytes", p.bytes}, {"seconds", p.seconds}});
  return out.dump(2);
}

CollectiveProfile read_collective_profile(const Json& document) {
  document.only({"schema", "source", "kind", "devices", "library", "harness", "points"});
  if (document.at("schema").as_text() != kSchema)
    document.at("schema").fail(fmt::format("not a profile of collectives: {} expected", kSchema));
  CollectiveProfile out;
  out.source = document.text("source", "");
  out.kind = document.at("kind").as_text();
  out.library = document.text("library", "");
  out.devices = document.integer("devices", 0, 0, 1'000'000);
  if (const Json* harness = document.find("harness")) {
    harness->only({"threads", "gpus_per_thread", "iterations"});
    out.harness.threads = static_cast<int>(harness->integer("threads", 1, 1, 1 << 20));
    out.harness.gpus_per_thread = static_cast<int>(harness->integer("gpus_per_thread", 1, 1, 1 << 20));
    out.harness.iterations = static_cast<int>(harness->integer("iterations", 20, 1, 1 << 20));
  }
  for (const Json& point : document.at("points").items()) {
    point.only({"bytes", "seconds"});
    NcclRow row;
    row.bytes = point.at("bytes").as_int(1, int64_t{1} << 60);
    row.seconds = point.at("seconds").as_real(1e-9, 1e6);
    out.points.push_back(row);
  }
  if (out.points.empty()) document.at("points").fail("a profile needs a point at least");
  sort_by_size(out.points);
  return out;
}

CollectiveCorrection::CollectiveCorrection(const std::vector<NcclRow>& points,
                                           std::function<double(int64_t)> predict)
    : predict_(std::move(predict)) {
  std::vector<Point> all;
  for (const NcclRow& p : points) {
    const double predicted = predict_(p.bytes);
    if (predicted > 0) all.push_back({p.bytes, p.seconds, predicted});
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool between = i > 0 && i + 1 < all.size();
    const double left = between ? std::log(all[i].ratio() / all[i - 1].ratio()) : 0;
    const double right = between ? std::log(all[i].ratio() / all[i + 1].ratio()) : 0;
    const bool stall = std::min(std::abs(left), std::abs(right)) >= std::log(2.0) && left * right > 0;
    if (!stall) points_.push_back(all[i]);
  }
}

double CollectiveCorrection::factor(int64_t bytes) const {
  if (points_.empty()) return 1;
  const auto after =
      std::find_if(points_.begin(), points_.end(), [&](const Point& p) { return p.bytes >= bytes; });
  if (after == points_.begin()) return after->ratio();
  if (after == points_.end()) return points_.back().ratio();
  const Point &a = *(after - 1), &b = *after;
  const double predicted = predict_(bytes), growth = b.predicted - a.predicted;
  // Where the prediction does not grow, start-up is all there is: then over the logarithm of the size.
  const auto log_size = [](int64_t n) { return std::log(static_cast<double>(n)); };
  const double share = growth > 0
                           ? (predicted - a.predicted) / growth
                           : (log_size(bytes) - log_size(a.bytes)) / (log_size(b.bytes) - log_size(a.bytes));
  return (a.measured + std::clamp(share, 0.0, 1.0) * (b.measured - a.measured)) / predicted;
}

std::vector<NcclRow> every_second_size(const std::vector<NcclRow>& rows) {
  std::vector<NcclRow> sorted = rows;
  sort_by_size(sorted);
  std::vector<NcclRow> out;
  int first = -1;
  for (const NcclRow& r : sorted) {
    const auto size = static_cast<uint64_t>(r.bytes);
    if (!std::has_single_bit(size)) continue;
    const int power = std::bit_width(size);
    if (first < 0) first = power;
    if ((power - first) % 2 == 0) out.push_back(r);
  }
  return out;
}

}  // namespace tandem::calibration
