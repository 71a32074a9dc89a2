// SPDX-License-Identifier: Apache-2.0
#include "calibration/judged_visit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/hash.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "calibration/collectives.h"
#include "models/optimizer.h"
#include "sim/simulate.h"

namespace tandem::calibration {

namespace {

constexpr double kMostRate = 1e12, kMostWatts = 1e6, kMostSeconds = 1e6;
constexpr int64_t kMostOfVisit = 65536, kMostSummed = int64_t{1} << 50;

/// The name of a system for predict_collectives(), which takes no other: one that lies in a visit gets a file
/// of its own for as long.
class FileOf {
 public:
  FileOf(const Json* described, const Values& given) : name_(given.text("system", "")) {
    if (described == nullptr) return;
    const std::string text = JsonWriter(*described).dump(1);
    Hash key;
    key.add(text);
    name_ = (std::filesystem::temp_directory_path() / fmt::format("tandem-visited-{:016x}.json", key.value()))
                .string();
    own_ = true;
    write_file(name_, text);
  }
  ~FileOf() {
    std::error_code none;
    if (own_) std::filesystem::remove(name_, none);
  }
  FileOf(const FileOf&) = delete;
  FileOf& operator=(const FileOf&) = delete;
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  bool own_ = false;
};

Report predict_training(const VisitTraining& one, const System& system, const std::string& profile,
                        const VisitTraining* anchor, const Json& row) {
  const Graph graph = Graph::load(one.model);
  const ResolvedScheme scheme = resolve_scheme(one.scheme, row.at("scheme").place());
  std::optional<ResolvedScheme> other;
  Request p;
  p.job.graph = &graph;
  p.job.scheme = &scheme;
  p.job.batch = one.batch;
  p.job.precision = parse_precision(one.precision, row.at("precision").place());
  p.job.optimizer = &optimizer("momentum");
  p.job.input = false;
  p.system = &system;
  p.devices = one.devices;
  p.profile = profile;
  p.check_memory = false;  // it ran
  if (anchor != nullptr) {
    other = resolve_scheme(anchor->scheme, row.at("scheme").place());
    p.anchor = Anchor{anchor->measured, 1, anchor->batch, nullptr, &*other};
  }
  return simulate(p);
}

VisitTraining read_training(const Json& row) {
  VisitTraining out;
  out.model = row.at("model").as_text();
  out.precision = row.at("precision").as_text();
  out.scheme = row.at("scheme").as_text();
  out.batch = row.at("batch").as_int(1, 1'000'000);
  out.devices = row.at("devices").as_int(1, kMostOfVisit);
  out.measured = row.at("samples_per_second").as_real(1e-9, kMostRate);
  if (const Json* mean = row.find("staleness")) out.staleness = mean->as_real(0, 1e9);
  if (const Json* watts = row.find("watts")) out.watts = watts->as_real(1e-3, kMostWatts);
  return out;
}

/// The same training on one device, of the same scheme where it was run.
const VisitTraining* one_device(const std::vector<VisitTraining>& all, const VisitTraining& of) {
  const VisitTraining* out = nullptr;
  for (const VisitTraining& t : all) {
    if (t.devices != 1 || t.model != of.model || t.precision != of.precision || t.batch != of.batch) continue;
    if (out == nullptr || t.scheme == of.scheme) out = &t;
  }
  return out;
}

std::vector<VisitTraining> judge_trainings(const Json& list, const System& system,
                                           const std::string& profile) {
  std::vector<VisitTraining> out;
  for (const Json& row : list.items()) {
    out.push_back(read_training(row));
    out.back().predicted = predict_training(out.back(), system, profile, nullptr, row);
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const VisitTraining* anchor = out[i].devices > 1 ? one_device(out, out[i]) : nullptr;
    if (anchor != nullptr)
      out[i].anchored = predict_training(out[i], system, profile, anchor, list.items()[i]);
  }
  return out;
}

/// In a row, as nccl-tests measures, where that was done; else within training.
std::vector<VisitAllReduce> judge_all_reduces(const Json& list, const std::string& system) {
  std::map<int64_t, std::map<int64_t, double>> measured;  // devices, bytes: seconds
  for (const Json& row : list.items()) {
    const int64_t ranks = row.at("ranks").as_int(1, kMostOfVisit);
    const auto bytes = static_cast<int64_t>(row.at("bytes").as_real(1, static_cast<double>(kMostSummed)));
    const Json& seconds =
        row.find("in_row_seconds") != nullptr ? row.at("in_row_seconds") : row.at("seconds");
    if (ranks > 1) measured[ranks][bytes] = seconds.as_real(1e-12, kMostSeconds);
  }
  std::vector<VisitAllReduce> out;
  for (const auto& [ranks, by_size] : measured) {
    std::vector<std::string> sizes;
    for (const auto& [bytes, seconds] : by_size) sizes.push_back(fmt::format("{}B", bytes));
    Values asked;
    asked.set("system", {system});
    asked.set("devices", {std::to_string(ranks)});
    asked.set("sizes", {fmt::format("{}", fmt::join(sizes, ","))});
    const std::vector<CollectiveRun> runs = predict_collectives(asked, {});
    for (const CollectiveLine& line : runs.at(0).lines)
      out.push_back({ranks, line.bytes, by_size.at(line.bytes), line.seconds, line.low, line.high});
  }
  return out;
}

}  // namespace

bool is_visit(const std::string& file) {
  const Json document = Json::load(file);
  return document.is_object() && document.text("schema", "") == kVisitSchema;
}

VisitJudged judge_visit(const std::string& file, const Values& given) {
  const Json visit = Json::load(file);
  const Json *trainings = visit.find("trainings"), *sums = visit.find("collectives");
  const auto empty = [](const Json* list) { return list == nullptr || list->items().empty(); };
  if (empty(trainings) && empty(sums))
    throw InputError(visit.place(),
                     "has nothing of several GPUs: gpu_visit.py --call multi writes \"trainings\" and "
                     "\"collectives\"");
  VisitJudged out{printable(file),
                  printable(visit.text("machine", "an unnamed machine")),
                  printable(visit.text("date", "")),
                  {},
                  {},
                  {}};
  const Json* own = given.has("system") ? nullptr : visit.find("system");
  if (own == nullptr && !given.has("system"))
    throw InputError(visit.place(),
                     "does not say on what: give --system NAME|FILE (tandem list systems; tandem import "
                     "makes one of nvidia-smi topo -m)");
  const System described = own != nullptr ? System::from_json(*own) : System::load(given.text("system", ""));
  out.system = described.name();
  if (trainings != nullptr)
    out.trainings =
        judge_trainings(*trainings, described, given.text("profile", std::string(kExecutorProfile)));
  if (sums != nullptr) out.all_reduces = judge_all_reduces(*sums, FileOf(own, given).name());
  return out;
}

}  // namespace tandem::calibration
