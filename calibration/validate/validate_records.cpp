// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validate_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "answers/answer.h"
#include "base/json.h"
#include "sim/simulate.h"

namespace tandem::calibration {

namespace {

constexpr const char* kRecordSchema = "tandem-record-1";
constexpr double kMostSeconds = 1e6, kMostBytes = 1e15, kMostWatts = 1e5;

struct Recorded {
  RecordRow row;
  Values values;
  Question question;
};

std::string recorded_machine(const Json& machine) {
  std::map<std::string, int64_t> names;
  if (const Json* devices = machine.find("devices")) {
    for (const Json& device : devices->items()) ++names[printable(device.at("name").as_text())];
  }
  std::string out;
  for (const auto& [name, count] : names)
    out += fmt::format("{}{} {}", out.empty() ? "" : " + ", count, name);
  return out.empty() ? printable(machine.text("processor", "unknown")) : out;
}

/// Kernels of a GPU where it has any, else operators of the host.
TraceSummary recorded_kinds(const Json& record) {
  TraceSummary out;
  const Json& step = record.at("step_seconds");
  out.steps = step.at("steps").as_int(1);
  out.step_low = step.at("low").as_real(0, kMostSeconds);
  out.step_median = step.at("median").as_real(1e-9, kMostSeconds);
  out.step_high = step.at("high").as_real(0, kMostSeconds);
  out.step_mean = out.step_median;
  const Json& operators = record.at("operators");
  const auto seconds = [](const Json& row, const char* key) { return row.real(key, 0, 0, kMostSeconds); };
  const bool device = std::any_of(operators.items().begin(), operators.items().end(),
                                  [&](const Json& row) { return seconds(row, "device_seconds") > 0; });
  std::array<TraceSummary::Kind, kTracedKinds> kinds{};
  for (const Json& row : operators.items()) {
    // An operator's time on the device is that of kernels with other rows.
    if (device && seconds(row, "host_seconds") > 0) continue;
    const TracedKind kind = kind_of_kernel(row.at("name").as_text());
    TraceSummary::Kind& sum = kinds.at(static_cast<std::size_t>(kind));
    sum.kind = kind;
    sum.count += row.real("count", 0, 0);
    sum.seconds += seconds(row, device ? "device_seconds" : "host_seconds");
  }
  for (const TraceSummary::Kind& kind : kinds) {
    if (kind.seconds > 0) out.kinds.push_back(kind);
  }
  return out;
}

Values values_of_record(const Json& record, const Values& given) {
  Values out;
  if (const Json* question = record.find("question")) out = answers::values_of(*question);
  for (const Option& option : question_options()) {
    if (given.has(option.name)) {
      out.set(option.name, given.all(option.name));
      out.stands_at(option.name, {});
    }
  }
  return out;
}

Recorded read_record(const std::string& file, const Values& given, const Hooks& hooks) {
  const Json record = Json::load(file);
  const Json& schema = record.at("schema");
  if (schema.as_text() != kRecordSchema)
    schema.fail(fmt::format("\"{}\" is no record; expected \"{}\", which tandem.record writes",
                            printable(schema.as_text()), kRecordSchema));
  RecordRow row;
  row.file = file;
  row.machine = recorded_machine(record.at("machine"));
  row.torch = printable(record.at("versions").text("torch", ""));
  row.devices = record.at("world_size").as_int(1, 1'000'000);
  row.seen = recorded_kinds(record);
  if (const Json* memory = record.find("memory"))
    row.allocated = static_cast<int64_t>(memory->real("allocated_bytes", 0, 0, kMostBytes));
  if (const Json* power = record.find("power"))
    row.watts = power->at("watts_per_device").as_real(1e-3, kMostWatts);

  Values values = values_of_record(record, given);
  for (const auto& [option, what] :
       {std::pair{"model", "what was trained"}, std::pair{"system", "on what"}}) {
    if (!values.has(option))
      throw InputError(
          record.place(),
          fmt::format("does not say {}: give --{}, or question= to tandem.record", what, option));
  }
  const Json* samples = record.find("samples_per_step");
  if (samples == nullptr)
    throw InputError(record.place(),
                     "does not say how many samples a step has: give samples= to tandem.record");
  row.measured = static_cast<double>(samples->as_int(1)) / row.seen.step_median;
  values.set("devices", {std::to_string(row.devices)});
  if (!values.has("batch"))
    values.set("batch", {std::to_string(std::max<int64_t>(1, samples->as_int() / row.devices))});
  if (!values.has("input")) values.set("input", {"synthetic"});
  Recorded out{std::move(row), values, read_located(values, hooks)};
  out.question.timeline = false;
  out.row.batch = out.question.batch;
  out.row.name = printable(record.text("name", ""));
  if (out.row.name.empty()) out.row.name = out.question.graph.name();
  return out;
}

Report rate_of_record(const Recorded& one, const std::optional<Anchor>& anchor = {}) {
  Request p = one.question.request(one.row.devices);
  p.check_memory = false;  // it ran
  if (anchor) p.anchor = *anchor;
  return simulate_rate(p);
}

void predict_record(Recorded& one) {
  RecordRow& row = one.row;
  row.predicted = rate_of_record(one);
  const double said = row.measured * row.seen.step_median;
  if (const int64_t asked = row.predicted.setup.samples_per_iteration; asked != std::llround(said))
    throw InputError(
        fmt::format("{}: {:.0f} samples a step were recorded, and its question has {}: check batch, "
                    "accumulate= and micro-batches=",
                    printable(row.file), said, asked));
  if (row.allocated == 0 && row.watts == 0) return;
  const Report fits = predict(one.question, row.devices, Depth::fit);
  if (row.allocated > 0) row.predicted_bytes = fits.memory.total().n;
  if (row.watts > 0) row.predicted_power = fits.time.power;
}

/// What questions of one training share.
Values of_training(Values values) {
  for (const char* differs : {"devices", "batch", "scheme"}) values.set(differs, {});
  return values;
}

}  // namespace

std::vector<RecordRow> validate_records(const std::vector<std::string>& files, const Values& given,
                                        const Hooks& hooks) {
  std::vector<Recorded> all;
  for (const std::string& file : files) all.push_back(read_record(file, given, hooks));
  for (Recorded& one : all) predict_record(one);
  std::vector<RecordRow> out;
  for (Recorded& one : all) {
    const Recorded* least = &one;
    for (const Recorded& other : all) {
      if (other.row.devices < least->row.devices && of_training(other.values) == of_training(one.values))
        least = &other;
    }
    if (least != &one) {
      one.row.anchor_devices = least->row.devices;
      one.row.anchored = rate_of_record(one, Anchor{least->row.measured, least->row.devices,
                                                    least->question.batch, nullptr, &least->question.scheme});
    }
  }
  for (Recorded& one : all) out.push_back(std::move(one.row));
  return out;
}

}  // namespace tandem::calibration
