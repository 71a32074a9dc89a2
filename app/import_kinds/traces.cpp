// SPDX-License-Identifier: Apache-2.0
#include "app/import_kinds/traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "app/console/output.h"
#include "app/console/table.h"
#include "base/json_writer.h"
#include "base/units.h"
#include "calibration/traces/trace_summary.h"

namespace tandem::app {

namespace {

using calibration::Trace;
using calibration::TraceSummary;

struct TracedRank {
  Trace trace;  ///< without its kernels
  TraceSummary summary;
};

TracedRank read_rank(const ImportFile& file, TraceReader* read) {
  TracedRank out;
  out.trace =
      read(file.name == "stdin" ? calibration::bytes_of(file.text) : calibration::open_bytes(file.name),
           printable(file.name));
  out.summary = summary_of(out.trace);
  out.trace.kernels = {};
  return out;
}

std::string milliseconds(double seconds) {
  return fmt::format("{:.{}f}", seconds * 1e3, seconds < 0.1 ? 2 : 1);
}
std::string share(double part, double whole) { return fmt::format("{:.0f} %", 100 * part / whole); }
std::string times(double count) { return fmt::format("{:.{}f}", count, count < 10 ? 1 : 0); }
std::string bytes_text(int64_t bytes) { return bytes == 0 ? "?" : to_text(Bytes{bytes}); }

std::string heading(const TracedRank& r) {
  std::string out = r.trace.device.empty() ? "device not recorded" : r.trace.device;
  out += fmt::format(" · rank {} of {}", r.trace.rank, r.trace.world_size);
  if (!r.trace.nccl.empty()) out += " · NCCL " + r.trace.nccl;
  out += fmt::format(" · {} step{}", r.summary.steps, r.summary.steps == 1 ? "" : "s");
  return out + (r.trace.marks.empty() ? "" : fmt::format(" by {}", r.trace.marks));
}

std::string step_text(const TraceSummary& s) {
  std::string out = fmt::format("A step takes {} ms", milliseconds(s.step_median));
  if (s.steps > 1) out += fmt::format(" ({} .. {})", milliseconds(s.step_low), milliseconds(s.step_high));
  if (std::abs(s.step_mean / s.step_median - 1) > 0.1)
    out += fmt::format(", {} on average,", milliseconds(s.step_mean));
  return out + fmt::format(" and launches {:.0f} kernels and copies.\n", s.launches);
}

Table time_table(const TraceSummary& s) {
  Table out({{"where the time goes"}, {"ms of a step", true}, {"share", true}});
  const auto row = [&](const char* what, double seconds) {
    out.add({what, milliseconds(seconds), share(seconds, s.step_mean)});
  };
  row("computes", s.compute);
  row("only communicates", s.exposed_communication);
  row("only copies", s.exposed_copies);
  row("waits for the host", s.idle_for_host);
  row("idle otherwise", s.idle - s.idle_for_host);
  if (s.communication > 0) row("(communicates, in all)", s.communication);
  return out;
}

Table kind_table(const TraceSummary& s) {
  Table out({{"kernels"}, {"a step", true}, {"ms of a step", true}, {"share", true}});
  for (const TraceSummary::Kind& k : s.kinds)
    out.add(
        {std::string(name(k.kind)), times(k.count), milliseconds(k.seconds), share(k.seconds, s.step_mean)});
  return out;
}

Table collective_table(const TraceSummary& s) {
  Table out({{"collective"},
             {"bytes", true},
             {"ranks", true},
             {"a step", true},
             {"ms each", true},
             {"shortest", true, true}});
  for (const TraceSummary::Collective& c : s.collectives)
    out.add({c.kind, bytes_text(c.bytes), c.group > 1 ? std::to_string(c.group) : "?", times(c.count),
             milliseconds(c.seconds / c.count), milliseconds(c.least)});
  return out;
}

/// Without the words that most kernels of PyTorch share, and cut.
std::string short_name(std::string name) {
  constexpr std::size_t kMost = 50;
  for (const std::string_view word :
       {"void ", "at::native::", "(anonymous namespace)::", "at::detail::", "std::"}) {
    for (auto at = name.find(word); at != std::string::npos; at = name.find(word, at))
      name.erase(at, word.size());
  }
  return printable(name.size() > kMost ? name.substr(0, kMost - 3) + "..." : name);
}

Table kernel_table(const TraceSummary& s, std::size_t most) {
  Table out({{"longest"}, {"a step", true}, {"ms of a step", true}});
  for (std::size_t i = 0; i < std::min(most, s.kernels.size()); ++i) {
    const TraceSummary::Kernel& k = s.kernels[i];
    out.add({short_name(k.name), times(k.count), milliseconds(k.seconds)});
  }
  return out;
}

Table rank_table(const std::vector<TracedRank>& ranks) {
  Table out({{"rank", true},
             {"step ms", true},
             {"computes", true},
             {"only communicates", true},
             {"for the host", true},
             {"idle otherwise", true}});
  for (const TracedRank& r : ranks) {
    const TraceSummary& s = r.summary;
    out.add({std::to_string(r.trace.rank), milliseconds(s.step_median), share(s.compute, s.step_mean),
             share(s.exposed_communication, s.step_mean), share(s.idle_for_host, s.step_mean),
             share(s.idle - s.idle_for_host, s.step_mean)});
  }
  return out;
}

/// The rate that --anchor takes.
std::string anchor_of(const TracedRank& r, int64_t batch) {
  return fmt::format("{:.6g}@{}", static_cast<double>(batch * r.trace.world_size) / r.summary.step_median,
                     r.trace.world_size);
}

JsonWriter rank_json(const TracedRank& r, std::optional<int64_t> batch) {
  const TraceSummary& s = r.summary;
  JsonWriter out = {
      {"file", r.trace.file},
      {"device", r.trace.device},
      {"rank", r.trace.rank},
      {"world_size", r.trace.world_size},
      {"backend", r.trace.backend},
      {"nccl", r.trace.nccl},
      {"steps", s.steps},
      {"marks", r.trace.marks},
      {"step_seconds",
       {{"low", s.step_low}, {"median", s.step_median}, {"high", s.step_high}, {"mean", s.step_mean}}},
      {"busy_seconds", s.busy},
      {"compute_seconds", s.compute},
      {"communication_seconds", s.communication},
      {"exposed_communication_seconds", s.exposed_communication},
      {"exposed_copies_seconds", s.exposed_copies},
      {"idle_seconds", s.idle},
      {"idle_for_host_seconds", s.idle_for_host},
      {"launches", s.launches},
      {"kinds", JsonWriter::array()},
      {"kernels", JsonWriter::array()},
      {"collectives", JsonWriter::array()},
      {"notes", s.notes}};
  for (const auto& k : s.kinds)
    out["kinds"].push_back({{"kind", name(k.kind)}, {"count", k.count}, {"seconds", k.seconds}});
  for (const auto& k : s.kernels)
    out["kernels"].push_back(
        {{"name", printable(k.name)}, {"kind", name(k.kind)}, {"count", k.count}, {"seconds", k.seconds}});
  for (const auto& c : s.collectives) {
    JsonWriter one = {{"kind", c.kind},
                      {"group", c.group},
                      {"count", c.count},
                      {"seconds", c.seconds},
                      {"shortest_seconds", c.least}};
    one["bytes"] = c.bytes == 0 ? JsonWriter{} : JsonWriter(c.bytes);
    out["collectives"].push_back(std::move(one));
  }
  if (batch) out["anchor"] = anchor_of(r, *batch);
  return out;
}

std::string trace_text(const std::vector<TracedRank>& ranks, std::optional<int64_t> batch, int columns) {
  const TracedRank& first = ranks[0];
  std::string out = heading(first) + "\n" + step_text(first.summary) + "\n";
  if (ranks.size() > 1)
    out += rank_table(ranks).text(true, columns) + fmt::format("\nRank {}:\n\n", first.trace.rank);
  out += time_table(first.summary).text(true, columns) + "\n" + kind_table(first.summary).text(true, columns);
  if (!first.summary.collectives.empty()) out += "\n" + collective_table(first.summary).text(true, columns);
  out += "\n" + kernel_table(first.summary, 8).text(true, columns);
  if (batch)
    out += fmt::format("\nWith {} samples a step on each device this calibrates a prediction: --anchor {}\n",
                       *batch, anchor_of(first, *batch));
  return out;
}

}  // namespace

int import_traces(const Arguments& arguments, const std::vector<ImportFile>& files, TraceReader* read) {
  const std::string format =
      arguments.choice("format", arguments.has("out") ? "json" : "text", {"text", "json"});
  std::optional<int64_t> batch;
  if (arguments.has("batch")) batch = arguments.integer("batch", 1, 1, 1 << 24);
  std::vector<TracedRank> ranks;
  for (const ImportFile& file : files) ranks.push_back(read_rank(file, read));
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const TracedRank& a, const TracedRank& b) { return a.trace.rank < b.trace.rank; });
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Trace& t = ranks[i].trace;
    if (t.world_size != ranks[0].trace.world_size)
      throw InputError(fmt::format("{} is of {} ranks and {} of {}: not one training", ranks[0].trace.file,
                                   ranks[0].trace.world_size, t.file, t.world_size));
    if (i > 0 && t.rank == ranks[i - 1].trace.rank)
      throw InputError(fmt::format("{} and {} are both of rank {}", ranks[i - 1].trace.file, t.file, t.rank));
    for (const std::string& remark : ranks[i].summary.notes) note(arguments, t.file + ": " + remark);
  }
  if (format == "text") {
    put_result(arguments, trace_text(ranks, batch, result_columns(arguments)));
    return 0;
  }
  JsonWriter out = {{"schema", "tandem-trace-1"}, {"ranks", JsonWriter::array()}};
  for (const TracedRank& r : ranks) out["ranks"].push_back(rank_json(r, batch));
  put_result(arguments, out.dump());
  return 0;
}

std::vector<Option> trace_flags() {
  return {{"batch", "N",
           "samples of a pass on each device: of a trace, to add the rate that --anchor takes; of a "
           "training, where its configuration does not say them"},
          {"format", "FORMAT", "of a trace: text (default) or json (default with --out)"}};
}

}  // namespace tandem::app
