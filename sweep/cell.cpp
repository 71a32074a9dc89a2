// SPDX-License-Identifier: Apache-2.0
#include "sweep/cell.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::sweep {

namespace {

Value bytes_of(const Bytes& bytes) { return bytes.n; }

/// Nothing where 0 means that it is unknown.
Value known(int64_t n) { return n == 0 ? Value{} : Value{n}; }

/// Of accelerators whose rated power is known.
Value of_power(const Report& r, double schemes::DevicePower::*figure) {
  return r.time.power ? Value{(*r.time.power).*figure} : Value{};
}

}  // namespace

const std::vector<Figure>& figures() {
  static const std::vector<Figure> all = {
      {"samples_per_second", "REAL", [](const Report& r, Depth) { return Value{r.rate.samples_per_second}; }},
      {"samples_per_second_low", "REAL", [](const Report& r, Depth) { return Value{r.rate.interval.low}; }},
      {"samples_per_second_high", "REAL", [](const Report& r, Depth) { return Value{r.rate.interval.high}; }},
      {"tokens_per_second", "REAL",
       [](const Report& r, Depth) {
         return r.rate.tokens_per_second > 0 ? Value{r.rate.tokens_per_second} : Value{};
       }},
      {"iteration_seconds", "REAL", [](const Report& r, Depth) { return Value{r.iteration.median}; }},
      {"samples_per_iteration", "INTEGER",
       [](const Report& r, Depth) { return Value{r.setup.samples_per_iteration}; }},
      {"staleness_mean", "REAL", [](const Report& r, Depth) { return Value{r.staleness.all.mean()}; }},
      {"staleness_max", "INTEGER",
       [](const Report& r, Depth) { return Value{static_cast<int64_t>(r.staleness.all.max())}; }},
      {"watts_per_device", "REAL",
       [](const Report& r, Depth) { return of_power(r, &schemes::DevicePower::watts); }},
      {"joules_per_sample", "REAL",
       [](const Report& r, Depth) { return of_power(r, &schemes::DevicePower::joules_per_sample); }},
      {"memory_bytes", "INTEGER", [](const Report& r, Depth) { return bytes_of(r.memory.needed()); }, true},
      {"memory_capacity_bytes", "INTEGER", [](const Report& r, Depth) { return known(r.memory.capacity.n); },
       true},
      {"speedup", "REAL",
       [](const Report& r, Depth depth) {
         return depth >= Depth::report ? Value{r.scaling.speedup} : Value{};
       }},
      {"scaling_efficiency", "REAL",
       [](const Report& r, Depth depth) {
         return depth >= Depth::report ? Value{r.scaling.efficiency} : Value{};
       }},
      {"bottleneck", "TEXT",
       [](const Report& r, Depth depth) {
         return depth == Depth::full ? Value{r.bottleneck.resource} : Value{};
       }},
  };
  return all;
}

std::vector<Column> columns(const Grid& grid) {
  std::vector<Column> out = {{"hash", "TEXT PRIMARY KEY NOT NULL"},
                             {"position", "INTEGER UNIQUE NOT NULL"},
                             {"status", "TEXT NOT NULL"},
                             {"reason", "TEXT"}};
  for (const Axis& axis : grid.axes()) {
    const Option::Kind kind = question_option(axis.option).kind();
    const bool number = kind == Option::Kind::number || kind == Option::Kind::numbers || axis.option == "set";
    out.push_back({axis.column, number ? "NUMERIC" : "TEXT"});
  }
  for (const Figure& figure : figures()) out.push_back({std::string(figure.name), figure.type});
  out.push_back({"question", "TEXT NOT NULL"});
  out.push_back({"report", "TEXT"});
  return out;
}

Depth parse_depth(const std::string& text, const Place& place) {
  static const std::vector<std::pair<std::string, Depth>> all = {
      {"rate", Depth::fit}, {"report", Depth::report}, {"full", Depth::full}};
  std::vector<std::string> names;
  for (const auto& [name, depth] : all) {
    if (name == text) return depth;
    names.push_back(name);
  }
  throw InputError(place, fmt::format("no depth \"{}\".{} Valid: rate, report, full", printable(text),
                                      did_you_mean(text, names)));
}

std::string key_text(uint64_t hash) { return fmt::format("{:016x}", hash); }

namespace {

Row begun_row(const Grid& grid, const AskedCell& cell, std::string_view status, const std::string& reason) {
  Row out = {cell.hash, cell.position, std::string(status)};
  out.push_back(reason.empty() ? Value{} : Value{reason});
  for (std::string& value : grid.values(cell.position)) out.emplace_back(std::move(value));
  return out;
}

/// "needs 12.3 GiB a device and has 11 GiB".
std::string misfit_reason(const Report& report) {
  const MemoryUse& memory = report.memory;
  if (memory.needed() > memory.capacity || memory.node.fits())
    return fmt::format("needs {} on each device, which has {}", to_text(memory.needed()),
                       to_text(memory.capacity));
  return fmt::format("needs {} of each node's host, which has {}", to_text(memory.node.needed),
                     to_text(memory.node.capacity));
}

}  // namespace

Row refused_row(const Grid& grid, const AskedCell& cell, const std::string& reason) {
  Row out = begun_row(grid, cell, kRefused, reason);
  out.resize(out.size() + figures().size());
  out.emplace_back(cell.question);
  out.emplace_back();
  return out;
}

Row answer_row(const Grid& grid, const AskedCell& cell, const Question& question, Depth depth) {
  Report report;
  try {
    report = predict(question, question.devices.at(0), depth);
  } catch (const InputError& error) {
    return refused_row(grid, cell, error.what());
  } catch (const UsageError& error) {
    return refused_row(grid, cell, error.what());
  } catch (const std::logic_error& error) {  // a bug in one cell leaves the others alone
    return refused_row(grid, cell, fmt::format("a bug, please report it: {}", error.what()));
  }
  Row out = report.fits ? begun_row(grid, cell, kAnswered, "")
                        : begun_row(grid, cell, kMisfit, misfit_reason(report));
  for (const Figure& figure : figures())
    out.push_back(report.fits || figure.of_memory ? figure.of(report, depth) : Value{});
  out.emplace_back(cell.question);
  out.push_back(depth >= Depth::report ? Value{reports_to_json({report}, true)} : Value{});
  return out;
}

}  // namespace tandem::sweep
