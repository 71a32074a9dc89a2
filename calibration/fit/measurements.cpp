// SPDX-License-Identifier: Apache-2.0
#include "calibration/fit/measurements.h"

#include <fmt/format.h>

#include <algorithm>
#include "base/json_writer.h"

namespace tandem::calibration {

namespace {

JsonWriter kernel_json(const Kernel& k) {
  JsonWriter out = {{"kind", name(k.kind)}, {"pass", name(k.pass)}, {"shape", k.shape},
                    {"flops", k.flops.n},   {"read", k.read.n},     {"written", k.written.n}};
  if (k.fused) out["fused"] = true;
  return out;
}

template <typename E>
E named(const Json& json, int count) {
  for (int i = 0; i < count; ++i) {
    if (name(static_cast<E>(i)) == json.as_text()) return static_cast<E>(i);
  }
  json.fail(fmt::format("\"{}\" is not known here", printable(json.as_text())));
}

Kernel read_kernel(const Json& j) {
  Kernel k;
  k.kind = named<KernelKind>(j.at("kind"), kKernelKinds);
  k.pass = named<Pass>(j.at("pass"), kPasses);
  for (const Json& n : j.at("shape").items()) k.shape.push_back(n.as_int(0));
  if (k.kind == KernelKind::conv && k.shape.size() != 23) j.fail("a convolution's shape has 23 numbers");
  k.flops.n = j.at("flops").as_int(0);
  k.read.n = j.at("read").as_int(0);
  k.written.n = j.at("written").as_int(0);
  k.fused = j.boolean("fused", false);
  return k;
}

JsonWriter transfers_json(const std::vector<MeasuredTransfer>& list) {
  JsonWriter out = JsonWriter::array();
  for (const MeasuredTransfer& t : list) {
    out.push_back({{"ranks", t.ranks}, {"bytes", t.bytes}, {"seconds", t.seconds}});
    if (t.estimate > 0) out.back()["library_seconds"] = t.estimate;
    if (t.in_row > 0) out.back()["in_row_seconds"] = t.in_row;
    if (t.way != CopyWay::memory) out.back()["way"] = name(t.way);
  }
  return out;
}

std::vector<MeasuredTransfer> read_transfers(const Json& list) {
  std::vector<MeasuredTransfer> out;
  for (const Json& t : list.items()) {
    const auto seconds_of = [&](const char* key) {
      const Json* value = t.find(key);
      return value == nullptr ? 0 : value->as_real(0, 1e6);
    };
    out.push_back({t.at("ranks").as_int(1, 65536), t.at("bytes").as_real(0, 1e15),
                   t.at("seconds").as_real(0, 1e6), seconds_of("library_seconds"), CopyWay::memory,
                   seconds_of("in_row_seconds")});
    if (const Json* way = t.find("way")) out.back().way = named<CopyWay>(*way, kCopyWays);
  }
  return out;
}

std::vector<MeasuredInput> read_input(const Json& list) {
  std::vector<MeasuredInput> out;
  for (const Json& s : list.items())
    out.push_back({s.at("decodes").as_bool(), named<ImageFormat>(s.at("format"), kImageFormats),
                   s.at("files").as_bool(), s.at("bytes").as_real(0, 1e12), s.at("pixels").as_real(0, 1e12),
                   s.at("values").as_real(0, 1e12), s.at("seconds").as_real(0, 1e6),
                   s.boolean("grey", false)});
  return out;
}

}  // namespace

std::string Measurements::to_json() const {
  JsonWriter d = {{"schema", "tandem-measurements-1"},
                  {"machine", machine},
                  {"date", date},
                  {"versions", versions},
                  {"cores", cores},
                  {"graphs", JsonWriter::array()},
                  {"kernels", JsonWriter::array()}};
  for (const MeasuredGraph& g : graphs) {
    d["graphs"].push_back({{"model", g.model},
                           {"batch", g.batch},
                           {"workers", g.workers},
                           {"ops", g.ops},
                           {"step_seconds", g.step_median},
                           {"all_reduce_seconds", g.all_reduce},
                           {"spread", g.step_spread}});
    if (g.precision != Precision::fp32) d["graphs"].back()["precision"] = name(g.precision);
    if (g.power) d["graphs"].back()["power"] = power_json(*g.power);
  }
  for (const MeasuredKernel& k : kernels) {
    JsonWriter row = kernel_json(k.kernel);
    row["repeat"] = k.kernel.repeat;
    row["graph"] = k.graph;
    row["workers"] = k.workers;
    row["seconds"] = k.median;
    row["cv"] = k.cv;
    row["samples"] = k.samples;
    row["dropped"] = k.dropped;
    d["kernels"].push_back(row);
  }
  d["workers"] = JsonWriter::array();
  for (const MeasuredWorkers& w : workers)
    d["workers"].push_back({{"model", w.model}, {"step_seconds", w.steps}});
  d["turns"] = turns;
  d["all_reduce"] = transfers_json(all_reduce);
  d["copy"] = transfers_json(copy);
  if (launch.issue > 0)
    d["launch"] = {{"issue_seconds", launch.issue}, {"round_trip_seconds", launch.round_trip}};
  d["tcp"] = JsonWriter::array();
  for (const MeasuredTcp& w : tcp)
    d["tcp"].push_back({{"ranks", w.ranks},
                        {"bytes_per_second", w.rate},
                        {"bytes", w.bytes},
                        {"seconds", w.seconds},
                        {"cpu_seconds", w.cpu_seconds}});
  for (const MeasuredInput& s : input)
    d["input"].push_back({{"decodes", s.decodes},
                          {"format", name(s.format)},
                          {"files", s.files},
                          {"bytes", s.bytes},
                          {"pixels", s.pixels},
                          {"values", s.values},
                          {"seconds", s.seconds},
                          {"grey", s.grey}});
  if (load.processors > 0 || load.preempted > 0) d["run"] = load.to_json();
  return d.dump(2) + "\n";
}

Measurements Measurements::from_json(const Json& d) {
  if (d.text("schema", "") != "tandem-measurements-1") d.fail("is no \"tandem-measurements-1\" document");
  Measurements m;
  m.machine = d.at("machine").as_text();
  m.date = d.at("date").as_text();
  m.versions = d.at("versions").as_text();
  m.cores = d.at("cores").as_int(1, 65536);
  for (const Json& g : d.at("graphs").items()) {
    m.graphs.push_back({g.at("model").as_text(), g.at("batch").as_int(1), g.at("workers").as_int(1, 65536),
                        g.at("ops").as_int(0), g.at("step_seconds").as_real(0, 1e6),
                        g.at("spread").as_real(0, 1e3), g.at("all_reduce_seconds").as_real(0, 1e6),
                        parse_precision(g.text("precision", "fp32"), g.place())});
    if (const Json* power = g.find("power")) m.graphs.back().power = read_power(*power);
  }
  for (const Json& k : d.at("kernels").items()) {
    MeasuredKernel row;
    row.kernel = read_kernel(k);
    row.kernel.repeat = k.at("repeat").as_int(1);
    row.graph = static_cast<uint32_t>(k.at("graph").as_int(0, static_cast<int64_t>(m.graphs.size()) - 1));
    row.workers = k.at("workers").as_int(1, 65536);
    row.median = k.at("seconds").as_real(0, 1e6);
    row.cv = k.at("cv").as_real(0, 1e3);
    row.samples = k.at("samples").as_int(0);
    row.dropped = k.at("dropped").as_int(0);
    m.kernels.push_back(std::move(row));
  }
  if (const Json* list = d.find("workers")) {  // else measured before there were any
    for (const Json& w : list->items()) {
      MeasuredWorkers& row = m.workers.emplace_back();
      row.model = w.at("model").as_text();
      for (const Json& steps : w.at("step_seconds").items()) {
        row.steps.emplace_back();
        for (const Json& t : steps.items()) row.steps.back().push_back(t.as_real(1e-12, 1e6));
        if (row.steps.back().empty() || row.steps.back().size() != row.steps.front().size())
          steps.fail("has not as many steps as the others, or none");
      }
      if (row.steps.empty()) w.fail("has no worker's steps");
    }
  }
  if (const Json* list = d.find("turns")) {  // else measured before there were any
    for (const Json& t : list->items()) m.turns.push_back(t.as_real(1e-12, 1e6));
  }
  m.all_reduce = read_transfers(d.at("all_reduce"));
  m.copy = read_transfers(d.at("copy"));
  if (const Json* launch = d.find("launch"))
    m.launch = {launch->at("issue_seconds").as_real(0, 1), launch->at("round_trip_seconds").as_real(0, 1)};
  if (const Json* run = d.find("run")) m.load = HostLoad::from_json(*run);  // else nobody looked at it
  if (const Json* list = d.find("input")) m.input = read_input(*list);  // else measured before there was any
  if (const Json* old = d.find("wire"))
    throw InputError(old->place(), "\"wire\" is of version 0.1: measure again (tandem measure)");
  if (d.find("tcp") == nullptr) return m;  // measured before there was any
  for (const Json& w : d.at("tcp").items())
    m.tcp.push_back({w.at("ranks").as_int(2, 65536), w.at("bytes_per_second").as_real(0, 1e15),
                     w.at("bytes").as_real(1, 1e15), w.at("seconds").as_real(1e-12, 1e6),
                     w.at("cpu_seconds").as_real(0, 1e6)});
  return m;
}

Measurements fastest_of(const Measurements& one, const Measurements& other) {
  Measurements out = one;
  const auto both = [](auto& a, const auto& b, const auto& same, const auto& join) {
    bool matches = a.size() == b.size();
    for (std::size_t i = 0; matches && i < a.size(); ++i) matches = same(a[i], b[i]);
    if (!matches) throw InputError("two measurements that are not of the same suite cannot be joined");
    for (std::size_t i = 0; i < a.size(); ++i) join(a[i], b[i]);
  };
  /// 0 stands for "not measured": every launch was disturbed.
  const auto shorter = [](double& a, double b) {
    if (b > 0 && (a <= 0 || b < a)) a = b;
  };
  std::vector<bool> faster;
  both(
      out.graphs, other.graphs,
      [](const auto& a, const auto& b) {
        return a.model == b.model && a.batch == b.batch && a.workers == b.workers &&
               a.precision == b.precision;
      },
      [&](auto& a, const auto& b) {
        faster.push_back(b.step_median < a.step_median);
        const std::optional<DevicePower> power = a.power ? a.power : b.power;
        if (faster.back()) a = b;
        a.power = power;
      });
  both(
      out.kernels, other.kernels,
      [](const auto& a, const auto& b) {
        return a.graph == b.graph && a.workers == b.workers &&
               KernelNeighbours::group(a.kernel) == KernelNeighbours::group(b.kernel) &&
               a.kernel.shape == b.kernel.shape;
      },
      [&](auto& a, const auto& b) {
        // A graph's measurements follow each other by their number of workers.
        const std::size_t timed_in = a.graph + static_cast<std::size_t>(a.workers) - 1;
        if (b.median > 0 && (a.median <= 0 || (timed_in < faster.size() && faster[timed_in]))) a = b;
      });
  out.workers.insert(out.workers.end(), other.workers.begin(), other.workers.end());
  out.turns.insert(out.turns.end(), other.turns.begin(), other.turns.end());
  const auto same_transfer = [](const auto& a, const auto& b) {
    return a.ranks == b.ranks && a.bytes == b.bytes && a.way == b.way;
  };
  const auto shorter_seconds = [&](auto& a, const auto& b) { shorter(a.seconds, b.seconds); };
  both(out.all_reduce, other.all_reduce, same_transfer, [&](auto& a, const auto& b) {
    shorter(a.seconds, b.seconds);
    shorter(a.in_row, b.in_row);
  });
  both(out.copy, other.copy, same_transfer, shorter_seconds);
  const auto same_tcp = [](const auto& a, const auto& b) {
    return a.ranks == b.ranks && a.bytes == b.bytes && a.rate == b.rate;
  };
  both(out.tcp, other.tcp, same_tcp, [&](auto& a, const auto& b) {
    shorter(a.seconds, b.seconds);
    shorter(a.cpu_seconds, b.cpu_seconds);
  });
  const auto same_input = [](const auto& a, const auto& b) {
    return a.decodes == b.decodes && a.format == b.format && a.files == b.files && a.bytes == b.bytes &&
           a.values == b.values && a.grey == b.grey;
  };
  both(out.input, other.input, same_input, shorter_seconds);
  shorter(out.launch.issue, other.launch.issue);
  shorter(out.launch.round_trip, other.launch.round_trip);
  return out;
}

}  // namespace tandem::calibration
