#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/nccl_log.h"
#include "app/output.h"
#include "app/question.h"
#include "app/table.h"
#include "app/verb.h"
#include "schemes/collectives.h"
#include "sim/cost/link_cost.h"
#include "sim/placement.h"

namespace tandem {

namespace {

struct Row {
  int64_t bytes = 0;
  double seconds = 0, algbw = 0, busbw = 0;
  LinkCost::Choice choice;
  const NcclRow* measured = nullptr;
};

/// Bus bandwidth over algorithm bandwidth, as nccl-tests defines it (its doc/PERFORMANCE.md).
double bus_factor(CollKind kind, double n) {
  switch (kind) {
    case CollKind::all_reduce:
      return 2 * (n - 1) / n;
    case CollKind::reduce_scatter:
    case CollKind::all_gather:
    case CollKind::all_to_all:
      return (n - 1) / n;
    case CollKind::broadcast:
    case CollKind::reduce:
      return 1;
  }
  return 1;
}

CollKind read_kind(const Arguments& arguments) {
  std::vector<std::string> names;
  for (int k = 0; k < kCollKinds; ++k) names.emplace_back(name(static_cast<CollKind>(k)));
  for (std::string& n : names) std::replace(n.begin(), n.end(), '_', '-');
  const std::string wanted = arguments.choice("kind", names[0], names);
  return static_cast<CollKind>(std::find(names.begin(), names.end(), wanted) - names.begin());
}

std::vector<int64_t> read_sizes(const Arguments& arguments, const std::vector<NcclRow>& measured) {
  std::vector<int64_t> sizes;
  if (!measured.empty() && !arguments.has("from") && !arguments.has("to")) {
    for (const NcclRow& row : measured) {
      if (row.bytes > 0 && std::find(sizes.begin(), sizes.end(), row.bytes) == sizes.end())
        sizes.push_back(row.bytes);
    }
    return sizes;
  }
  const int64_t from = parse_bytes(arguments.text("from", "1KiB"), option_place("from")).n;
  const int64_t to = parse_bytes(arguments.text("to", "1GiB"), option_place("to")).n;
  const int64_t factor = arguments.integer("factor", 2, 2, 1 << 20);
  if (from < 1) throw InputError(option_place("from"), "must be at least 1 B");
  if (to < from) throw InputError(option_place("to"), "is smaller than --from");
  for (int64_t size = from;; size *= factor) {
    sizes.push_back(size);
    if (size > to / factor) return sizes;
  }
}

std::vector<Row> rows(const System& system, CollKind kind, const std::string& algorithm, int64_t devices,
                      const std::vector<int64_t>& sizes, const std::vector<NcclRow>& measured) {
  LinkCost cost(system, Overheads{});
  const Cluster cluster = make_cluster(system, devices);
  std::vector<VertexId> members;
  for (int64_t i = 0; i < devices; ++i) members.push_back(used_accelerator(system, cluster, i));
  std::vector<Row> out;
  for (const int64_t bytes : sizes) {
    Row row;
    row.bytes = bytes;
    const Transfer transfer = cost.collective(kind, algorithm, Bytes{bytes}, members, &row.choice);
    row.seconds = transfer.alone(cost.capacity()).seconds();
    row.algbw = row.seconds > 0 ? static_cast<double>(bytes) / row.seconds : 0;
    row.busbw = row.algbw * bus_factor(kind, static_cast<double>(devices));
    for (const NcclRow& m : measured) {
      if (m.bytes == bytes && row.measured == nullptr) row.measured = &m;
    }
    out.push_back(row);
  }
  return out;
}

Table table(const std::vector<Row>& rows, bool with_measured) {
  std::vector<Column> columns = {{"bytes", true},      {"time us", true}, {"algbw GB/s", true},
                                 {"busbw GB/s", true}, {"algorithm"},     {"protocol"}};
  if (with_measured)
    columns.insert(columns.end(), {{"measured us", true}, {"measured busbw GB/s", true}, {"error", true}});
  Table out(std::move(columns));
  for (const Row& r : rows) {
    std::vector<std::string> row = {std::to_string(r.bytes),
                                    fmt::format("{:.2f}", r.seconds * 1e6),
                                    fmt::format("{:.2f}", r.algbw * 1e-9),
                                    fmt::format("{:.2f}", r.busbw * 1e-9),
                                    r.choice.algorithm,
                                    r.choice.protocol};
    if (with_measured) {
      if (r.measured != nullptr) {
        row.insert(row.end(), {fmt::format("{:.2f}", r.measured->seconds * 1e6),
                               fmt::format("{:.2f}", r.measured->busbw * 1e-9),
                               fmt::format("{:+.0f} %", 100 * (r.seconds / r.measured->seconds - 1))});
      } else {
        row.insert(row.end(), 3, "");
      }
    }
    out.add(std::move(row));
  }
  return out;
}

std::string document(const System& system, CollKind kind, int64_t devices, const std::vector<Row>& rows) {
  nlohmann::ordered_json out = {{"schema", "tandem-collective-1"},
                                {"system", system.name()},
                                {"kind", name(kind)},
                                {"devices", devices},
                                {"rows", nlohmann::ordered_json::array()}};
  for (const Row& r : rows) {
    nlohmann::ordered_json row = {{"bytes", r.bytes},
                                  {"seconds", r.seconds},
                                  {"algbw_bytes_per_second", r.algbw},
                                  {"busbw_bytes_per_second", r.busbw},
                                  {"algorithm", r.choice.algorithm},
                                  {"protocol", r.choice.protocol}};
    if (r.measured != nullptr) row["measured_seconds"] = r.measured->seconds;
    out["rows"].push_back(std::move(row));
  }
  return out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

int collective(const Arguments& arguments) {
  const std::string format = format_of(arguments);
  const System system = System::load(arguments.required("system", "dgx1-v100"), read_sets(arguments));
  const CollKind kind = read_kind(arguments);
  const std::string algorithm = arguments.text("algorithm", "auto");
  if (algorithm != "auto" && algorithm != "nvls") collectives_registry().at(algorithm);
  const int64_t devices =
      arguments.integer("devices", std::min<int64_t>(system.accelerator_count(), 1024), 2, 1'000'000);
  std::vector<NcclRow> measured;
  if (arguments.has("against")) {
    const std::string file = arguments.text("against", "");
    measured = read_nccl_log(read_file(file), file);
  }
  const auto result = rows(system, kind, algorithm, devices, read_sizes(arguments, measured), measured);
  if (format == "json") {
    put_result(arguments, document(system, kind, devices, result));
    return 0;
  }
  const Table out = table(result, !measured.empty());
  put_result(arguments, format == "csv" ? out.csv()
                                        : fmt::format("{} of {} devices on {}\n\n{}", name(kind), devices,
                                                      system.name(), out.as(format)));
  return 0;
}

}  // namespace

void register_collective(Registry<Verb>& registry) {
  registry.add(
      {.name = "collective",
       .summary = "one collective over a range of sizes, as nccl-tests prints it, next to a measured log",
       .usage = "--system NAME [options]",
       .flags = {{"system", "NAME|FILE", "the machine (tandem list systems)"},
                 {"kind", "KIND",
                  "all-reduce (default), reduce-scatter, all-gather, broadcast, reduce, all-to-all"},
                 {"devices", "N", "members of the group; default: all the system has"},
                 {"algorithm", "NAME",
                  "auto (default: what the system's library would pick), or tandem list collectives"},
                 {"from", "BYTES", "smallest size; default 1KiB, or the log's sizes"},
                 {"to", "BYTES", "largest size; default 1GiB"},
                 {"factor", "N", "from one size to the next; default 2"},
                 {"against", "FILE", "a log of nccl-tests to print beside"},
                 {"set", "PATH=VALUE", "change one thing of the system", true},
                 format_flag(),
                 out_flag(),
                 quiet_flag()},
       .run = collective});
}

}  // namespace tandem
