// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/json_writer.h"

#include "answers/question.h"
#include "app/console/output.h"
#include "app/console/table.h"
#include "app/show/show.h"
#include "models/graph.h"
#include "pictures/draw.h"
#include "schemes/collectives/collectives.h"
#include "schemes/setup/scheme.h"
#include "sim/bound/placement.h"

namespace tandem::app {

namespace {

std::string_view type_name(OptionSpec::Type type) {
  switch (type) {
    case OptionSpec::Type::count:
      return "whole number";
    case OptionSpec::Type::real:
      return "number";
    case OptionSpec::Type::bytes:
      return "bytes";
    case OptionSpec::Type::time:
      return "time";
    case OptionSpec::Type::flag:
      return "on|off";
    case OptionSpec::Type::choice:
      return "choice";
    case OptionSpec::Type::text:
      return "text";
  }
  return "";
}

Table option_table(const ResolvedScheme& resolved) {
  Table table({{"option"}, {"value"}, {"takes"}, {"meaning"}});
  for (const OptionSpec& spec : resolved.scheme->options) {
    table.add({std::string(spec.name), resolved.options.text(spec.name),
               std::string(spec.choices.empty() ? type_name(spec.type) : spec.choices),
               std::string(spec.help)});
  }
  return table;
}

/// Only what is not zero: most schemes have none.
Table overhead_table(const Overheads& o) {
  Table table({{"overhead"}, {"value"}});
  const auto time = [&](const char* what, Time t) {
    if (t.ps != 0) table.add({what, to_text(t)});
  };
  const auto share = [&](const char* what, double value, double neutral) {
    if (value != neutral) table.add({what, fmt::format("{:.3g}", value)});
  };
  time("host time per iteration", o.iteration);
  time("per collective, push or pull", o.collective);
  if (o.agreement != Overheads::Agreement::none)
    table.add({"ranks agree on gradients by", o.agreement == Overheads::Agreement::bits ? "bits" : "lists"});
  if (o.merge) table.add({"gradients merge", "if that costs less than a start-up"});
  if (!o.network.empty()) table.add({"messages by", o.network});
  share("compute slowed by", o.compute_slowdown, 0);
  share("memory passes per gradient byte", o.copies_per_byte, 0);
  share("share of link bandwidth", o.link_efficiency, 1);
  return table;
}

std::string page(const ResolvedScheme& resolved, int columns) {
  std::string out = fmt::format("{}: {}\n", resolved.name, resolved.scheme->summary);
  if (resolved.name != resolved.scheme->name) out += fmt::format("A preset of {}.\n", resolved.scheme->name);
  const Table options = option_table(resolved), overheads = overhead_table(resolved.overheads);
  if (!options.empty()) out += "\n" + options.text(true, columns);
  if (!overheads.empty()) out += "\n" + overheads.text(false, columns);
  if (!resolved.source.empty()) out += fmt::format("Source: {}\n", resolved.source);
  return out;
}

/// Devices fall into nodes as on the named system, else all on one node.
Cluster cluster_of(const ShowRequest& request) {
  const int64_t devices = request.arguments.integer("devices", 4, 1, 100'000'000);
  if (!request.arguments.has("system")) return {devices, 1, devices};
  return make_cluster(System::load(request.arguments.text("system", ""), asked_sets(request.arguments)),
                      devices);
}

std::string compiled(const ShowRequest& request, const ResolvedScheme& resolved) {
  const Arguments& a = request.arguments;
  const Graph graph = Graph::load(a.text("model", ""));
  const Job job{&graph,
                &resolved,
                a.integer("batch", 32, 1, 1 << 24),
                a.value("precision", "fp32", parse_precision),
                &a.value("optimizer", "momentum", optimizer),
                true,
                a.value("recompute", resolved.recompute.text(), parse_recompute),
                a.value("offload", "off", parse_offload)};
  return print(compile(job, cluster_of(request)));
}

/// On --devices, of which a split model needs a multiple; by default the devices of one replica.
PipelineUse pipeline_of(const ShowRequest& request, const ResolvedScheme& resolved) {
  const Scheme& scheme = *resolved.scheme;
  if (scheme.pipeline == nullptr) return {};
  const int64_t replica = scheme.replica_devices != nullptr ? scheme.replica_devices(resolved.options) : 4;
  return scheme.pipeline(resolved.options, request.arguments.integer("devices", replica, 1, 100'000'000));
}

std::string ranges(const Move& m) {
  return m.count == 1 ? std::to_string(m.offset) : fmt::format("{}..{}", m.offset, m.offset + m.count - 1);
}

}  // namespace

std::string show_scheme(const ShowRequest& request) {
  const ResolvedScheme resolved = resolve_scheme(request.name, Place{});
  if (request.format == "dot") throw UsageError("a scheme is shown as text or json");
  const bool draws = !picture_kind(request.arguments.text("out", "")).empty();
  const PipelineUse use = pipeline_of(request, resolved);
  if (draws && use.shape.stages == 1)
    throw UsageError(
        fmt::format("{} has no pipeline on this many devices, and nothing to draw; pipeline and "
                    "hybrid:pipeline=P have one",
                    resolved.name));
  if (draws) return show_pipeline(request, *use.schedule, use.shape);
  if (request.format == "text") {
    if (request.arguments.has("model")) return compiled(request, resolved);
    return page(resolved, request.columns) +
           (use.shape.stages == 1 ? "" : "\n" + show_pipeline(request, *use.schedule, use.shape));
  }
  JsonWriter out = {{"name", resolved.name},
                    {"scheme", resolved.scheme->name},
                    {"summary", resolved.scheme->summary},
                    {"options", JsonWriter::object()},
                    {"source", resolved.source}};
  for (const auto& [key, value] : resolved.options.all()) out["options"][key] = value;
  if (request.arguments.has("model")) out["program"] = compiled(request, resolved);
  return out.dump(2);
}

std::string show_layer(const ShowRequest& request) {
  const LayerType& type = layers_registry().at(request.name);
  if (request.format == "json") {
    return JsonWriter{{"name", type.name}, {"summary", type.summary}}.dump(2);
  }
  if (request.format != "text") throw UsageError("a layer is shown as text or json");
  return fmt::format("{}: {}\n", type.name, type.summary);
}

std::string show_collective(const ShowRequest& request) {
  const CollectiveAlgorithm& algorithm = collectives_registry().at(request.name);
  if (request.format == "dot") throw UsageError("a collective is shown as text or json");
  GroupShape group;
  group.ranks = static_cast<uint32_t>(request.arguments.integer("devices", 4, 2, 64));
  std::string out = fmt::format("{}: {}\n", algorithm.name, algorithm.summary);
  JsonWriter document = {{"name", algorithm.name},
                         {"summary", algorithm.summary},
                         {"ranks", group.ranks},
                         {"kinds", JsonWriter::array()}};
  for (int k = 0; k < kCollKinds; ++k) {
    const auto kind = static_cast<CollKind>(k);
    if (!algorithm.supports(kind, group)) continue;
    document["kinds"].push_back(name(kind));
    const Schedule schedule = algorithm.schedule(kind, group);
    out += fmt::format("\n{} of {} ranks, buffer in {} chunks, {} steps\n", name(kind), group.ranks,
                       schedule.chunks, schedule.steps.size());
    for (std::size_t s = 0; s < schedule.steps.size(); ++s) {
      out += fmt::format("  {:>3}  ", s);
      for (const Move& m : schedule.steps[s].moves) {
        out += fmt::format("{}{}{} [{}]  ", m.from, m.reduce ? "=>" : "->", m.to, ranges(m));
      }
      out.erase(out.find_last_not_of(' ') + 1);
      out += "\n";
    }
  }
  if (request.format == "json") return document.dump(2);
  return out + "\na -> b [chunks]: b receives; a => b: b adds\n";
}

}  // namespace tandem::app
