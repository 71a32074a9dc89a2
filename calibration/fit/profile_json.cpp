// SPDX-License-Identifier: Apache-2.0
#include "calibration/fit/profile_json.h"

#include <fmt/format.h>

#include <cmath>
#include "base/json_writer.h"
#include "topologies/devices/named_device.h"

namespace tandem::calibration {

namespace {

std::string text(std::string_view s) { return std::string(s); }

JsonWriter points(const std::vector<TransferPoint>& list) {
  JsonWriter out = JsonWriter::array();
  for (const TransferPoint& p : list) out.push_back({{"bytes", p.bytes}, {"seconds", p.seconds}});
  return out;
}

JsonWriter noise(const std::vector<StepNoise>& runs) {
  JsonWriter out = JsonWriter::array();
  for (const StepNoise& run : runs) {
    JsonWriter factors = JsonWriter::array();
    for (const auto& of_worker : run.factors) {
      JsonWriter row = JsonWriter::array();
      for (const double f : of_worker) row.push_back(std::round(f * 1e4) / 1e4);
      factors.push_back(std::move(row));
    }
    out.push_back({{"step_seconds", run.step}, {"factors", std::move(factors)}});
  }
  return out;
}

JsonWriter head(const ProfileEstimates& p) {
  JsonWriter d = {{"schema", "tandem-profile-1"},
                  {"summary", fmt::format("{}, {} cores, measured {}", p.machine, p.cores, p.date)},
                  {"machine", p.machine},
                  {"date", p.date},
                  {"versions", p.versions},
                  {"data", fmt::format("{:016x}", p.data)},
                  {"cores", p.cores}};
  const bool gpu = !p.copies[static_cast<std::size_t>(CopyWay::to_device)].empty();
  const std::vector<topologies::Device> alike = topologies::devices_like(p.machine, gpu);
  if (alike.size() == 1) d["device"] = alike[0].name;
  if (!p.busy.empty()) d["busy"] = p.busy;
  return d;
}

JsonWriter input_json(const InputRates& rates) {
  JsonWriter out = {{"read", JsonWriter::array()}, {"decode", JsonWriter::array()}};
  for (const bool files : {false, true}) {
    const auto& rate = rates.read[files ? 1 : 0];
    if (rate)
      out["read"].push_back(
          {{"files", files}, {"seconds", rate->base}, {"seconds_per_byte", rate->per_byte}});
  }
  for (int f = 0; f < kImageFormats; ++f) {
    for (const bool grey : {false, true}) {
      const auto& rate = (grey ? rates.grey : rates.decode)[static_cast<std::size_t>(f)];
      if (rate)
        out["decode"].push_back({{"format", name(static_cast<ImageFormat>(f))},
                                 {"grey", grey},
                                 {"seconds", rate->base},
                                 {"seconds_per_byte", rate->per_byte},
                                 {"seconds_per_pixel", rate->per_pixel},
                                 {"seconds_per_value", rate->per_value}});
    }
  }
  return out;
}

/// What does not depend on the precision.
void add_machine(JsonWriter& d, const ProfileEstimates& p) {
  d["interrupted"] = p.interrupted;
  d["lock_step"] = p.lock_step;
  d["noise"] = noise(p.noise);
  d["turns_seconds"] = p.turns;
  d["all_reduce"] = JsonWriter::array();
  for (const auto& of_ranks : p.all_reduce) d["all_reduce"].push_back(points(of_ranks));
  d["copy"] = points(p.copies[0]);
  for (std::size_t way = 1; way < p.copies.size(); ++way) {
    if (!p.copies[way].empty()) d["copies"][text(name(static_cast<CopyWay>(way)))] = points(p.copies[way]);
  }
  if (p.launch.issue > 0)
    d["launch"] = {{"issue_seconds", p.launch.issue}, {"round_trip_seconds", p.launch.round_trip}};
  if (p.input.decode[0] || p.input.read[0]) d["input"] = input_json(p.input);
  for (const MeasuredGraph& g : p.metered)
    d["energy"].push_back({{"model", g.model},
                           {"batch", g.batch},
                           {"precision", name(g.precision)},
                           {"step_seconds", g.step_median},
                           {"power", power_json(*g.power)}});
  if (p.tcp.empty()) return;
  d["tcp"] = JsonWriter::array();
  for (const TcpSteps& w : p.tcp)
    d["tcp"].push_back({{"bytes_per_second", w.rate}, {"steps", points(w.steps)}});
  d["tcp_cpu"] = points(p.tcp_cpu);
}

JsonWriter slowdowns(const std::vector<std::vector<double>>& by_active) {
  JsonWriter out = JsonWriter::array();
  for (const std::vector<double>& factors : by_active) {
    JsonWriter row = JsonWriter::object();
    for (std::size_t kind = 0; kind < factors.size(); ++kind)
      row[text(name(static_cast<KernelKind>(kind)))] = factors[kind];
    out.push_back(row);
  }
  return out;
}

void add_kernels(JsonWriter& d, const KernelEstimates& k) {
  d["error_per_distance"] = k.errors.per_distance;
  d["error_of_several"] = k.error_of_several;
  if (k.error_of_overhead > 0) d["error_of_overhead"] = k.error_of_overhead;
  d["kernel_error"] = k.errors.kernels;
  d["op_overhead_seconds"] = k.op_overhead;
  if (k.kernel_overhead > 0) d["kernel_overhead_seconds"] = k.kernel_overhead;
  d["wake_seconds"] = k.wake;
  d["step_sigma"] = k.step_sigma;
  d["slowdown"] = slowdowns(k.slowdowns);
  d["curves"] = JsonWriter::array();
  for (std::size_t g = 0; g < k.curves.size(); ++g) {
    const KernelCurve& c = k.curves[g];
    if (c.samples == 0) continue;
    JsonWriter row = {{"kind", name(static_cast<KernelKind>(g / kPasses))},
                      {"pass", name(static_cast<Pass>(g % kPasses))}};
    c.to_json(row);
    d["curves"].push_back(std::move(row));
  }
  d["kernels"] = JsonWriter::array();
  for (const KernelSample& s : k.samples) {
    d["kernels"].push_back({{"kind", name(s.kernel.kind)},
                            {"pass", name(s.kernel.pass)},
                            {"shape", s.kernel.shape},
                            {"flops", s.kernel.flops.n},
                            {"read", s.kernel.read.n},
                            {"written", s.kernel.written.n},
                            {"seconds", s.seconds},
                            {"step_bytes", s.step.n},
                            {"launches", s.launches}});
    if (s.kernel.fused) d["kernels"].back()["fused"] = true;
  }
}

}  // namespace

std::string profile_json(const ProfileEstimates& p) {
  JsonWriter d = head(p);
  d["precision"] = name(p.kernels.at(0).precision);
  add_machine(d, p);
  add_kernels(d, p.kernels[0]);
  for (std::size_t k = 1; k < p.kernels.size(); ++k) {
    JsonWriter more = {{"precision", name(p.kernels[k].precision)}};
    add_kernels(more, p.kernels[k]);
    d["more_precisions"].push_back(std::move(more));
  }
  return d.dump(2) + "\n";
}

}  // namespace tandem::calibration
