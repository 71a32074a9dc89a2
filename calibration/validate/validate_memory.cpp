// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validate_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/data.h"
#include "base/text.h"
#include "calibration/validate/validation_statistics.h"
#include "models/adapter.h"
#include "schemes/setup/job.h"
#include "sim/memory/memory.h"

namespace tandem::calibration {

namespace {

constexpr std::string_view kTables = "calibration/data/memory";

/// A row's own value, else the file's default.
const Json* value_of(const Json& row, const Json* defaults, std::string_view key) {
  if (const Json* own = row.find(key)) return own;
  return defaults != nullptr ? defaults->find(key) : nullptr;
}

void predict(MemoryRow& row, const Device& device, const ResolvedScheme& scheme) {
  Graph graph = Graph::load(row.model);
  if (!row.adapter.empty()) graph = with_adapter(graph, parse_adapter(row.adapter, {}), {});
  const Job job{&graph, &scheme,       row.batch,  parse_precision(row.precision), &optimizer(row.optimizer),
                true,   row.recompute, row.offload};
  const Workload work = make_workload(job);
  auto settings = scheme.memory;
  if (!row.habits.empty()) {
    const auto own = parse_selection("memory:" + row.habits, {}).settings;
    settings.insert(settings.end(), own.begin(), own.end());
  }
  constexpr int64_t kNode = 8;
  const int64_t nodes = (row.devices + kNode - 1) / kNode;
  const Cluster cluster{row.devices, nodes, row.devices / nodes};
  const Program program = compile(job, work, cluster);
  const auto roles = memory_by_role(work, device, program, memory_habits(settings, "memory", {}));
  const MemoryUse m = row.first && row.metric != "fits" ? roles.front().memory : largest(roles);
  row.predicted = row.metric == "allocated"  ? m.total()
                  : row.metric == "reserved" ? m.reserved
                                             : m.nvidia_smi;
  if (row.metric == "fits") row.published = m.capacity;
}

MemoryRow read_row(const Json& document, const Json& json, const Json* defaults) {
  json.only({"gpu", "devices", "model", "batch", "precision", "optimizer", "scheme", "recompute", "offload",
             "memory", "adapter", "metric", "role", "value", "note", "doubtful"});
  const auto text = [&](std::string_view key, std::string_view fallback) {
    const Json* value = value_of(json, defaults, key);
    return value != nullptr ? value->as_text() : std::string(fallback);
  };
  const auto count = [&](std::string_view key) {
    const Json* value = value_of(json, defaults, key);
    return value != nullptr ? value->as_int(1, 1'000'000) : 1;
  };
  MemoryRow row;
  row.file = document.place().file->substr(document.place().file->rfind('/') + 1);
  row.source = document.at("source").as_text();
  row.held_out = document.boolean("held_out", false);
  row.gpu = text("gpu", "");
  row.devices = count("devices");
  row.model = text("model", "");
  row.batch = count("batch");
  row.precision = text("precision", "fp32");
  row.optimizer = text("optimizer", "adamw");
  row.scheme = text("scheme", "allreduce");
  row.recompute = parse_recompute(text("recompute", "off"), json.place());
  row.offload = parse_offload(text("offload", "off"), json.place());
  row.habits = text("memory", "");
  row.adapter = text("adapter", "");
  row.metric = text("metric", "allocated");
  const std::string role = text("role", "largest");
  if (role != "largest" && role != "first")
    throw InputError(json.place(),
                     fmt::format("\"role\": no \"{}\"; valid: largest, first", printable(role)));
  row.first = role == "first";
  row.note = json.text("note", "");
  row.doubtful = json.text("doubtful", "");
  if (row.metric == "fits")
    row.fitted = json.at("value").as_bool();
  else
    row.published = json.at("value").as_bytes();
  const Device device = Device::load(row.gpu, json.place());
  const ResolvedScheme scheme = resolve_scheme(row.scheme, json.place());
  try {
    predict(row, device, scheme);
  } catch (const InputError& e) {
    row.failure = e.what();
  }
  return row;
}

bool judged(const MemoryRow& r) { return r.failure.empty() && r.doubtful.empty(); }

std::string table(const std::vector<MemoryRow>& rows, bool held_out) {
  std::map<std::string, Errors> errors;
  for (const MemoryRow& r : rows) {
    if (!judged(r) || r.metric == "fits" || r.held_out != held_out) continue;
    errors[fmt::format("{} | {}", r.file.substr(0, r.file.rfind('.')), r.metric)].all.push_back(r.error());
    errors[" all | "].all.push_back(r.error());
  }
  std::string out =
      "\n| file | figure | rows | bias | mean | largest | within 5 % |\n|---|---|---:|---:|---:|---:|---:|\n";
  for (const auto& [key, e] : errors) {
    out += fmt::format("| {} | {} | {:+.1f} % | {:.1f} % | {:.1f} % | {} |\n", key, e.all.size(),
                       100 * e.bias(), 100 * e.mean(), 100 * e.quantile(1), e.within(0.05));
  }
  return out;
}

std::string fits_text(const std::vector<MemoryRow>& rows) {
  int64_t ran = 0, right_ran = 0, failed = 0, right_failed = 0;
  std::string wrong;
  for (const MemoryRow& r : rows) {
    if (!judged(r) || r.metric != "fits") continue;
    (r.fitted ? ran : failed) += 1;
    const bool right = r.fitted == r.predicted_to_fit();
    (r.fitted ? right_ran : right_failed) += right ? 1 : 0;
    if (!right)
      wrong += fmt::format("- {} on {} {}, batch {}, {}: {}, needs {} of {}\n", r.model, r.devices, r.gpu,
                           r.batch, r.scheme, r.fitted ? "ran" : "ran out of memory", to_text(r.predicted),
                           to_text(r.published));
  }
  return fmt::format(
      "\n{} of {} runs that are known to have fitted are predicted to fit, {} of {} that ran out of memory "
      "not "
      "to.{}\n{}",
      right_ran, ran, right_failed, failed, wrong.empty() ? "" : " Wrong:\n", wrong);
}

}  // namespace

std::vector<MemoryRow> validate_memory() {
  std::vector<MemoryRow> out;
  for (const std::string& name : list_data(kTables)) {
    const Json document = Json::load(find_data(kTables, "table of memory", name));
    document.only({"title", "source", "note", "held_out", "defaults", "rows"});
    for (const Json& row : document.at("rows").items())
      out.push_back(read_row(document, row, document.find("defaults")));
  }
  return out;
}

std::string memory_markdown(const std::vector<MemoryRow>& rows) {
  std::string out =
      "\n## Memory\n\nThree figures are told apart: what tensors take at the peak (`allocated`, PyTorch's "
      "max_memory_allocated), what the allocator holds for them (`reserved`), and what nvidia-smi shows "
      "(`nvidia_smi`: reserved, the driver's context and NCCL's buffers), which decides whether a model "
      "fits.\n"
      "\nFiles that were in view when constants were chosen:\n" +
      table(rows, false) + "\nHeld-out files:\n" + table(rows, true) + fits_text(rows);
  std::vector<const MemoryRow*> worst;
  for (const MemoryRow& r : rows) {
    if (judged(r) && r.metric != "fits") worst.push_back(&r);
  }
  std::stable_sort(worst.begin(), worst.end(), [](const MemoryRow* a, const MemoryRow* b) {
    return std::abs(a->error()) > std::abs(b->error());
  });
  out +=
      "\nFurthest off:\n\n| file | model | batch | figure | published | predicted | error |\n"
      "|---|---|---:|---|---:|---:|---:|\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(10, worst.size()); ++i) {
    const MemoryRow& r = *worst[i];
    out += fmt::format("| {} | {} | {} | {} | {} | {} | {:+.1f} % |\n", r.file, r.model, r.batch, r.metric,
                       to_text(r.published), to_text(r.predicted), 100 * r.error());
  }
  return out;
}

std::string memory_csv(const std::vector<MemoryRow>& rows) {
  std::string out =
      "file,gpu,devices,model,adapter,batch,precision,optimizer,scheme,recompute,offload,memory,metric,"
      "published,"
      "predicted,"
      "error,"
      "fitted,held_out,doubtful,failure\n";
  const auto quoted = [](const std::string& text) { return '"' + text + '"'; };
  for (const MemoryRow& r : rows) {
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.4f},{},{},{},{}\n", r.file, r.gpu,
                       r.devices, quoted(r.model), quoted(r.adapter), r.batch, r.precision, r.optimizer,
                       quoted(r.scheme), r.recompute.text(), r.offload.text(), quoted(r.habits), r.metric,
                       r.published.n, r.predicted.n, r.published.n > 0 ? r.error() : 0.0,
                       r.metric == "fits" ? (r.fitted ? "yes" : "no") : "", r.held_out ? "yes" : "no",
                       quoted(r.doubtful), quoted(r.failure));
  }
  return out;
}

}  // namespace tandem::calibration
