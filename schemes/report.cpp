#include "schemes/report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace tandem {

namespace {

using Writer = nlohmann::ordered_json;

/// JSON has no infinities: one that reaches a report is a bug of whoever computed it.
double finite(double value) {
  TANDEM_CHECK(std::isfinite(value));
  return value;
}

/// Null after training that diverged.
Writer loss_json(double value) { return std::isfinite(value) ? Writer(value) : Writer(nullptr); }

double read_loss(const Json& training, const char* key) {
  const Json* loss = training.find(key);
  if (loss == nullptr) return 0;
  return loss->kind() == Json::Kind::null ? std::nan("") : loss->as_real();
}

/// Text may hold any bytes (file names); what is not UTF-8 is replaced rather than thrown at.
std::string dump(const Writer& document) {
  return document.dump(2, ' ', false, Writer::error_handler_t::replace) + "\n";
}

Writer inputs_json(const Report& r) {
  Writer out = Writer::object();
  for (const auto& [key, value] : r.inputs) out[key] = value;
  out["devices"] = r.devices;
  out["batch_per_device"] = r.batch_per_device;
  return out;
}

Writer bins_json(const Histogram& h) {
  Writer bins = Writer::array();
  for (const Histogram::Bin& b : h.bins()) bins.push_back({{"versions", b.value}, {"count", b.count}});
  return bins;
}

void read_bins(const Json& parent, Histogram& h) {
  const Json* bins = parent.find("histogram");
  if (bins == nullptr) return;
  for (const Json& bin : bins->items()) h.add(bin.at("versions").as_int(0), bin.at("count").as_int(0));
}

Writer staleness_json(const Report& report) {
  const Histogram& h = report.staleness;
  Writer out = {
      {"mean", finite(h.mean())}, {"p95", h.quantile(0.95)}, {"max", h.max()}, {"histogram", bins_json(h)}};
  for (const Histogram& worker : report.staleness_by_worker)
    out["by_worker"].push_back({{"mean", finite(worker.mean())}, {"histogram", bins_json(worker)}});
  return out;
}

Writer memory_json(const MemoryUse& m) {
  return {{"parameters", m.parameters.n},
          {"gradients", m.gradients.n},
          {"optimizer", m.optimizer.n},
          {"activations", m.activations.n},
          {"workspace", m.workspace.n},
          {"buffers", m.buffers.n},
          {"total", m.total().n},
          {"reserved", m.reserved.n},
          {"nvidia_smi", m.nvidia_smi.n},
          {"capacity", m.capacity.n},
          {"fits", m.fits()}};
}

Writer links_json(const std::vector<LinkUse>& links) {
  Writer out = Writer::array();
  for (const LinkUse& l : links)
    out.push_back({{"name", l.name}, {"busy", finite(l.busy)}, {"bytes", l.bytes.n}});
  return out;
}

Writer timeline_json(const std::vector<TimelineEntry>& timeline) {
  Writer out = Writer::array();
  for (const TimelineEntry& t : timeline) {
    out.push_back({{"role", t.role},
                   {"instance", t.instance},
                   {"lane", t.lane},
                   {"label", t.label},
                   {"iteration", t.iteration},
                   {"start", finite(t.start_seconds)},
                   {"end", finite(t.end_seconds)}});
  }
  return out;
}

Writer report_json(const Report& r, bool reproducible) {
  Writer out;
  out["schema"] = "tandem-report-1";
  out["engine"] = r.engine;
  out["evaluator"] = r.evaluator;
  out["evaluator_reason"] = r.evaluator_reason;
  out["tandem_version"] = TANDEM_VERSION;
  out["seed"] = r.seed;
  out["inputs"] = inputs_json(r);
  out["devices"] = r.devices;
  out["samples_per_iteration"] = r.samples_per_iteration;
  out["samples_per_second"] = finite(r.samples_per_second);
  out["samples_per_second_interval"] = {{"low", finite(r.interval.low)},
                                        {"high", finite(r.interval.high)},
                                        {"level", finite(r.interval.level)}};
  out["iteration_seconds"] = {{"median", finite(r.iteration_median)},
                              {"p05", finite(r.iteration_p05)},
                              {"p95", finite(r.iteration_p95)}};
  out["speedup"] = finite(r.speedup);
  out["scaling_efficiency"] = finite(r.scaling_efficiency);
  out["staleness"] = staleness_json(r);
  out["time_share"] = {{"compute", finite(r.time_share.compute)},
                       {"exposed_communication", finite(r.time_share.exposed_communication)},
                       {"input", finite(r.time_share.input)},
                       {"idle", finite(r.time_share.idle)}};
  out["memory_bytes_per_device"] = memory_json(r.memory);
  out["memory_by_role"] = Writer::array();
  for (const RoleMemory& role : r.memory_by_role)
    out["memory_by_role"].push_back(
        {{"role", role.role}, {"devices", role.devices}, {"memory", memory_json(role.memory)}});
  out["bottleneck"] = {{"resource", r.bottleneck.resource},
                       {"share", finite(r.bottleneck.share)},
                       {"explanation", r.bottleneck.explanation}};
  out["links"] = links_json(r.links);
  out["calibrated"] = r.calibrated;
  out["extrapolates"] = r.extrapolates;
  out["notes"] = r.notes;
  if (r.training.real) {
    out["training"] = {{"first_loss", loss_json(r.training.first_loss)},
                       {"last_loss", loss_json(r.training.last_loss)}};
    if (r.training.accuracy >= 0) out["training"]["accuracy"] = finite(r.training.accuracy);
  }
  out["simulated_events"] = r.simulated_events;
  out["timeline"] = timeline_json(r.timeline);
  if (!reproducible) out["run"] = {{"wall_seconds", finite(r.wall_seconds)}};
  return out;
}

/// Object member that may be absent: an empty object then.
const Json& part(const Json& document, std::string_view key) {
  static const Json none = Json::make_object({});
  const Json* found = document.find(key);
  return found == nullptr ? none : *found;
}

Bytes bytes_of(const Json& object, std::string_view key) { return {object.integer(key, 0, 0)}; }

std::vector<std::string> texts(const Json& document, std::string_view key) {
  std::vector<std::string> out;
  if (const Json* list = document.find(key)) {
    for (const Json& item : list->items()) out.push_back(item.as_text());
  }
  return out;
}

void read_head(Report& r, const Json& d) {
  r.engine = d.at("engine").as_text();
  r.evaluator = d.text("evaluator", "");
  r.evaluator_reason = d.text("evaluator_reason", "");
  r.seed = static_cast<uint64_t>(d.integer("seed", 0));
  for (const auto& [key, value] : part(d, "inputs").members()) {
    if (key != "devices" && key != "batch_per_device") r.inputs.emplace_back(key, value.as_text());
  }
  r.devices = d.at("devices").as_int(1);
  r.batch_per_device = part(d, "inputs").integer("batch_per_device", 1, 1);
  r.samples_per_second = d.at("samples_per_second").as_real(0);
  r.samples_per_iteration = d.integer("samples_per_iteration", r.batch_per_device * r.devices, 1);
  const Json& interval = part(d, "samples_per_second_interval");
  r.interval = {interval.real("low", 0), interval.real("high", 0), interval.real("level", 0.9)};
  const Json& iteration = part(d, "iteration_seconds");
  r.iteration_median = iteration.real("median", 0);
  r.iteration_p05 = iteration.real("p05", 0);
  r.iteration_p95 = iteration.real("p95", 0);
  r.speedup = d.real("speedup", 1);
  r.scaling_efficiency = d.real("scaling_efficiency", 1);
}

MemoryUse read_memory(const Json& m) {
  return {bytes_of(m, "parameters"),  bytes_of(m, "gradients"), bytes_of(m, "optimizer"),
          bytes_of(m, "activations"), bytes_of(m, "workspace"), bytes_of(m, "buffers"),
          bytes_of(m, "capacity"),    bytes_of(m, "reserved"),  bytes_of(m, "nvidia_smi")};
}

void read_shares(Report& r, const Json& d) {
  const Json& staleness = part(d, "staleness");
  read_bins(staleness, r.staleness);
  if (const Json* workers = staleness.find("by_worker")) {
    for (const Json& w : workers->items()) read_bins(w, r.staleness_by_worker.emplace_back());
  }
  const Json& share = part(d, "time_share");
  r.time_share = {share.real("compute", 0), share.real("exposed_communication", 0), share.real("input", 0),
                  share.real("idle", 0)};
  const Json& m = part(d, "memory_bytes_per_device");
  r.memory = read_memory(m);
  if (const Json* roles = d.find("memory_by_role")) {
    for (const Json& role : roles->items())
      r.memory_by_role.push_back(
          {role.at("role").as_text(), role.at("devices").as_int(0), read_memory(role.at("memory"))});
  }
  const Json& b = part(d, "bottleneck");
  r.bottleneck.resource = b.text("resource", "");
  r.bottleneck.explanation = b.text("explanation", "");
  r.bottleneck.share = b.real("share", 0);
  if (const Json* links = d.find("links")) {
    for (const Json& l : links->items())
      r.links.push_back({l.at("name").as_text(), l.real("busy", 0), bytes_of(l, "bytes")});
  }
}

void read_timeline(Report& r, const Json& d) {
  const Json* timeline = d.find("timeline");
  if (timeline == nullptr) return;
  for (const Json& t : timeline->items()) {
    TimelineEntry e;
    e.role = t.at("role").as_text();
    e.lane = t.at("lane").as_text();
    e.label = t.at("label").as_text();
    e.instance = static_cast<uint32_t>(t.integer("instance", 0, 0, UINT32_MAX));
    e.iteration = static_cast<uint32_t>(t.integer("iteration", 0, 0, UINT32_MAX));
    e.start_seconds = t.at("start").as_real();
    e.end_seconds = t.at("end").as_real();
    r.timeline.push_back(std::move(e));
  }
}

}  // namespace

std::string Report::to_json(bool reproducible) const { return dump(report_json(*this, reproducible)); }

Report Report::from_json(const Json& document) {
  const std::string& schema = document.at("schema").as_text();
  if (schema != "tandem-report-1") {
    document.at("schema").fail(
        fmt::format("\"{}\" is not a report; expected \"tandem-report-1\"", printable(schema)));
  }
  Report r;
  read_head(r, document);
  read_shares(r, document);
  r.calibrated = document.boolean("calibrated", false);
  r.extrapolates = texts(document, "extrapolates");
  r.notes = texts(document, "notes");
  r.simulated_events = document.integer("simulated_events", 0, 0);
  if (const Json* training = document.find("training")) {
    r.training = {true, read_loss(*training, "first_loss"), read_loss(*training, "last_loss"),
                  training->real("accuracy", -1)};
  }
  r.wall_seconds = part(document, "run").real("wall_seconds", 0);
  read_timeline(r, document);
  return r;
}

std::string reports_to_json(const std::vector<Report>& reports, bool reproducible) {
  if (reports.size() == 1) return reports[0].to_json(reproducible);
  Writer list = Writer::array();
  for (const Report& r : reports) list.push_back(report_json(r, reproducible));
  Writer out;
  out["schema"] = "tandem-reports-1";
  out["reports"] = std::move(list);
  return dump(out);
}

std::vector<Report> load_reports(const std::string& path) {
  const Json document = Json::load(path);
  std::vector<Report> out;
  if (document.at("schema").as_text() == "tandem-reports-1") {
    for (const Json& r : document.at("reports").items()) out.push_back(Report::from_json(r));
  } else {
    out.push_back(Report::from_json(document));
  }
  return out;
}

}  // namespace tandem
