// SPDX-License-Identifier: Apache-2.0
#include "schemes/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include "base/json_writer.h"

namespace tandem::schemes {

namespace {

/// The time shares in the order of the document.
constexpr std::pair<const char*, double TimeShare::*> kShares[] = {
    {"compute", &TimeShare::compute},
    {"launch", &TimeShare::launch},
    {"exposed_communication", &TimeShare::exposed_communication},
    {"waiting", &TimeShare::waiting},
    {"bubble", &TimeShare::bubble},
    {"input", &TimeShare::input},
    {"server", &TimeShare::server},
    {"idle", &TimeShare::idle}};

constexpr std::string_view kSchema = "tandem-reports-2";

double read_loss(const Json& training, const char* key) {
  const Json* loss = training.find(key);
  if (loss == nullptr) return 0;
  return loss->kind() == Json::Kind::null ? std::nan("") : loss->as_real();
}

JsonWriter inputs_json(const Report& r) {
  JsonWriter out = JsonWriter::object();
  for (const auto& [key, value] : r.setup.inputs) out[key] = value;
  out["devices"] = r.setup.devices;
  out["batch_per_device"] = r.setup.batch_per_device;
  return out;
}

JsonWriter bins_json(const Histogram& h) {
  JsonWriter bins = JsonWriter::array();
  for (const Histogram::Bin& b : h.bins()) bins.push_back({{"versions", b.value}, {"count", b.count}});
  return bins;
}

void read_bins(const Json& parent, Histogram& h) {
  const Json* bins = parent.find("histogram");
  if (bins == nullptr) return;
  for (const Json& bin : bins->items()) h.add(bin.at("versions").as_int(0), bin.at("count").as_int(0));
}

JsonWriter staleness_json(const Report& report) {
  const Histogram& h = report.staleness.all;
  JsonWriter out = {
      {"mean", h.mean()}, {"p95", h.quantile(0.95)}, {"max", h.max()}, {"histogram", bins_json(h)}};
  for (const Histogram& worker : report.staleness.by_worker)
    out["by_worker"].push_back({{"mean", worker.mean()}, {"histogram", bins_json(worker)}});
  return out;
}

JsonWriter memory_json(const MemoryUse& m) {
  JsonWriter out = {
      {"parameters", m.parameters.n},   {"gradients", m.gradients.n}, {"optimizer", m.optimizer.n},
      {"activations", m.activations.n}, {"workspace", m.workspace.n}, {"buffers", m.buffers.n},
      {"total", m.total().n},           {"reserved", m.reserved.n},   {"nvidia_smi", m.nvidia_smi.n},
      {"capacity", m.capacity.n},       {"fits", m.may_fit()},        {"barely_fits", m.barely_fits()}};
  if (m.within_error()) out["within_error"] = true;
  if (m.host.n > 0) out["host"] = m.host.n;
  return out;
}

/// Of a host whose memory nobody knows the capacity is null.
JsonWriter host_memory_json(const HostMemory& m) {
  JsonWriter out = {{"needed", m.needed.n}, {"capacity", nullptr}, {"fits", m.fits()}};
  if (m.capacity.n > 0) out["capacity"] = m.capacity.n;
  return out;
}

JsonWriter link_json(const LinkUse& l) { return {{"name", l.name}, {"busy", l.busy}, {"bytes", l.bytes.n}}; }

JsonWriter links_json(const std::vector<LinkUse>& links) {
  JsonWriter out = JsonWriter::array();
  for (const LinkUse& l : links) out.push_back(link_json(l));
  return out;
}

JsonWriter link_groups_json(const std::vector<LinkGroup>& groups) {
  JsonWriter out = JsonWriter::array();
  for (const LinkGroup& g : groups) {
    out.push_back({{"name", g.name},
                   {"links", g.links},
                   {"busy_mean", g.busy_mean},
                   {"busy_max", g.busy_max},
                   {"bytes", g.bytes.n}});
  }
  return out;
}

JsonWriter library_json(const LibraryUse& u) {
  JsonWriter out = {{"call", u.call},
                    {"library", u.library},
                    {"engine", u.engine},
                    {"calls", u.calls},
                    {"workspace_bytes", u.workspace.n},
                    {"share", u.share}};
  if (!u.refused.empty()) out["refused"] = u.refused;
  return out;
}

JsonWriter shares_json(const std::vector<NamedShare>& shares) {
  JsonWriter out = JsonWriter::array();
  for (const auto& [name, share] : shares) out.push_back({{"name", name}, {"share", share}});
  return out;
}

JsonWriter kernels_json(const std::vector<KernelShare>& kernels) {
  JsonWriter out = JsonWriter::array();
  for (const KernelShare& k : kernels) {
    out.push_back({{"name", k.kind},
                   {"share", k.share},
                   {"heaviest_pass", k.heaviest_pass},
                   {"heaviest_pass_share", k.heaviest}});
  }
  return out;
}

JsonWriter bottleneck_json(const Report::Bottleneck& b) {
  JsonWriter out = {{"resource", b.resource}, {"share", b.share}};
  if (b.elasticity) out["elasticity"] = *b.elasticity;
  if (b.gain_if_unlimited) out["gain_if_unlimited"] = *b.gain_if_unlimited;
  out["explanation"] = b.explanation;
  return out;
}

constexpr std::pair<const char*, double Goodput::Times::*> kGoodputTimes[] = {
    {"useful", &Goodput::Times::useful},     {"checkpoints", &Goodput::Times::checkpoints},
    {"repeated", &Goodput::Times::repeated}, {"restarts", &Goodput::Times::restarts},
    {"waiting", &Goodput::Times::waiting},   {"fewer_nodes", &Goodput::Times::fewer_nodes}};
constexpr std::pair<const char*, double Goodput::*> kGoodputNumbers[] = {
    {"share", &Goodput::share},
    {"share_by_events", &Goodput::share_by_events},
    {"samples_per_second", &Goodput::samples_per_second},
    {"mtbf_seconds", &Goodput::mtbf},
    {"checkpoint_seconds", &Goodput::checkpoint},
    {"checkpoint_interval_seconds", &Goodput::interval},
    {"optimal_interval_seconds", &Goodput::optimal_interval},
    {"restart_seconds", &Goodput::restart},
    {"repair_seconds", &Goodput::repair}};

JsonWriter goodput_json(const Goodput& g) {
  JsonWriter out;
  for (const auto& [key, value] : kGoodputNumbers) out[key] = g.*value;
  out["checkpoint_bytes"] = g.checkpoint_bytes.n;
  out["checkpoint_interval_steps"] = g.interval_steps;
  out["spares"] = g.spares;
  out["elastic"] = g.elastic;
  for (const auto& [key, value] : kGoodputTimes) out["time"][key] = g.times.*value;
  if (g.fewer_devices > 0)
    out["one_node_less"] = {{"devices", g.fewer_devices}, {"samples_per_second", g.fewer_samples_per_second}};
  for (const Goodput::Alternative& a : g.alternatives)
    out["alternatives"].push_back({{"spares", a.spares},
                                   {"elastic", a.elastic},
                                   {"share", a.share},
                                   {"share_by_events", a.share_by_events}});
  return out;
}

JsonWriter incast_json(const IncastRound& r) {
  return {{"what", r.what},
          {"senders", r.senders},
          {"bytes", r.bytes.n},
          {"ports", r.ports},
          {"port_buffer_bytes", r.buffer.n},
          {"timeouts", r.timeouts},
          {"goodput_share", r.goodput},
          {"delay_seconds", r.delay_seconds}};
}

JsonWriter side_by_side_json(const std::vector<SharedRate>& jobs) {
  JsonWriter out = JsonWriter::array();
  for (const SharedRate& job : jobs)
    out.push_back({{"model", job.model},
                   {"devices", job.devices},
                   {"samples_per_second", job.shared},
                   {"samples_per_second_alone", job.alone}});
  return out;
}

JsonWriter timeline_json(const std::vector<TimelineEntry>& timeline) {
  JsonWriter out = JsonWriter::array();
  for (const TimelineEntry& t : timeline) {
    out.push_back({{"role", t.role},
                   {"instance", t.instance},
                   {"lane", t.lane},
                   {"label", t.label},
                   {"iteration", t.iteration},
                   {"start", t.start_seconds},
                   {"end", t.end_seconds}});
  }
  return out;
}

/// Only that which a model that does not fit has.
JsonWriter head_json(const Report& r) {
  JsonWriter out;
  out["engine"] = r.evaluation.engine;
  out["evaluator"] = r.evaluation.evaluator;
  out["evaluator_reason"] = r.evaluation.reason;
  out["tandem_version"] = TANDEM_VERSION;
  out["seed"] = r.evaluation.seed;
  out["inputs"] = inputs_json(r);
  out["devices"] = r.setup.devices;
  out["samples_per_iteration"] = r.setup.samples_per_iteration;
  out["recipe"] = r.basis.recipe;
  out["fits"] = r.fits;
  if (!r.fits) out["needs_bytes"] = r.memory.needed().n;
  for (const Remedy& remedy : r.remedies) out["remedies"].push_back(remedy_json(remedy));
  out["memory_bytes_per_device"] = memory_json(r.memory);
  if (r.memory.node.needed.n > 0) out["host_memory_bytes"] = host_memory_json(r.memory.node);
  out["memory_by_role"] = JsonWriter::array();
  for (const RoleMemory& role : r.memory_by_role) {
    JsonWriter one = {{"role", role.role}, {"devices", role.devices}, {"memory", memory_json(role.memory)}};
    for (const MemoryPoint& p : role.over_step)
      one["over_step"].push_back(
          {{"pass", p.pass}, {"micro_batch", p.micro_batch}, {"layer", p.layer}, {"bytes", p.bytes.n}});
    out["memory_by_role"].push_back(std::move(one));
  }
  return out;
}

/// What was simulated or measured.
void add_results(JsonWriter& out, const Report& r) {
  out["samples_per_second"] = r.rate.samples_per_second;
  if (r.rate.tokens_per_second > 0) out["tokens_per_second"] = r.rate.tokens_per_second;
  out["samples_per_second_interval"] = {
      {"low", r.rate.interval.low}, {"high", r.rate.interval.high}, {"level", r.rate.interval.level}};
  for (const ErrorSource& e : r.rate.errors) {
    JsonWriter source = {{"source", e.source}, {"relative_standard_error", e.sigma}};
    if (e.above) source["above"] = *e.above;
    out["error_sources"].push_back(std::move(source));
  }
  out["iteration_seconds"] = {
      {"median", r.iteration.median}, {"p05", r.iteration.p05}, {"p95", r.iteration.p95}};
  if (r.iteration.eager > 0) out["iteration_seconds"]["eager"] = r.iteration.eager;
  if (r.iteration.replayed > 0) out["iteration_seconds"]["replayed"] = r.iteration.replayed;
  out["speedup"] = r.scaling.speedup;
  out["scaling_efficiency"] = r.scaling.efficiency;
  out["speedup_base_devices"] = r.scaling.base_devices;
  out["staleness"] = staleness_json(r);
  for (const auto& [key, share] : kShares) out["time_share"][key] = r.time.share.*share;
  out["exposed_communication_by_kind"] = shares_json(r.time.communication_kinds);
  out["waiting_for"] = shares_json(r.time.waiting_for);
  out["compute_by_kernel"] = kernels_json(r.time.kernels);
  out["compute_slowed_by_collectives"] = r.time.slowed;
  out["bottleneck"] = bottleneck_json(r.bottleneck);
  if (!r.network.busiest.name.empty()) out["busiest_link"] = link_json(r.network.busiest);
  out["links"] = links_json(r.network.links);
  if (!r.network.groups.empty()) out["link_groups"] = link_groups_json(r.network.groups);
  if (r.time.power) out["power"] = power_json(*r.time.power);
  for (const LibraryUse& u : r.libraries) out["libraries"].push_back(library_json(u));
}

constexpr std::string_view kResults[] = {"samples_per_second", "samples_per_second_interval",
                                         "iteration_seconds",  "speedup",
                                         "scaling_efficiency", "speedup_base_devices",
                                         "staleness",          "time_share",
                                         "bottleneck",         "links"};

JsonWriter report_json(const Report& r, bool reproducible) {
  JsonWriter out = head_json(r);
  if (r.fits) add_results(out, r);
  for (const std::string_view key : kResults)
    if (!r.fits) out[key] = nullptr;
  if (r.goodput) out["goodput"] = goodput_json(*r.goodput);
  if (!r.rate.side_by_side.empty()) out["side_by_side"] = side_by_side_json(r.rate.side_by_side);
  if (r.progress) out["progress"] = progress_json(*r.progress);
  out["calibrated"] = r.basis.calibrated;
  out["extrapolates"] = r.basis.extrapolates;
  for (const IncastRound& round : r.network.incast) out["incast"].push_back(incast_json(round));
  out["notes"] = r.notes;
  if (r.training.real) {
    // Null after training that diverged.
    out["training"] = {{"first_loss", JsonWriter::finite_or_null(r.training.first_loss)},
                       {"last_loss", JsonWriter::finite_or_null(r.training.last_loss)}};
    if (r.training.accuracy >= 0) out["training"]["accuracy"] = r.training.accuracy;
    if (const auto& noise = r.training.noise)
      out["training"]["noise_scale_samples"] = {
          {"value", noise->samples}, {"low", noise->low}, {"high", noise->high}};
  }
  if (r.network.all_reduces_per_step > 0) out["all_reduces_per_step"] = r.network.all_reduces_per_step;
  out["simulated_events"] = r.evaluation.events;
  if (!r.setup.question.is_null()) out["question"] = r.setup.question;
  out["timeline"] = timeline_json(r.timeline);
  if (!reproducible) out["run"] = {{"wall_seconds", r.evaluation.wall_seconds}};
  return out;
}

/// Object member that may be absent or null: an empty object then.
const Json& part(const Json& document, std::string_view key) {
  static const Json none = Json::make_object({});
  const Json* found = document.find(key);
  return found == nullptr || found->kind() == Json::Kind::null ? none : *found;
}

Bytes bytes_of(const Json& object, std::string_view key) { return {object.integer(key, 0, 0)}; }

std::vector<std::string> texts(const Json& document, std::string_view key) {
  std::vector<std::string> out;
  if (const Json* list = document.find(key)) {
    for (const Json& item : list->items()) out.push_back(item.as_text());
  }
  return out;
}

void read_named(const Json& document, std::string_view key, std::vector<NamedShare>& out) {
  const Json* list = document.find(key);
  if (list == nullptr) return;
  for (const Json& item : list->items()) out.emplace_back(item.at("name").as_text(), item.real("share", 0));
}

void read_head(Report& r, const Json& d) {
  r.evaluation.engine = d.at("engine").as_text();
  r.evaluation.evaluator = d.text("evaluator", "");
  r.evaluation.reason = d.text("evaluator_reason", "");
  r.evaluation.seed = static_cast<uint64_t>(d.integer("seed", 0));
  for (const auto& [key, value] : part(d, "inputs").members()) {
    if (key != "devices" && key != "batch_per_device") r.setup.inputs.emplace_back(key, value.as_text());
  }
  r.setup.devices = d.at("devices").as_int(1);
  r.setup.batch_per_device = part(d, "inputs").integer("batch_per_device", 1, 1);
  r.setup.samples_per_iteration =
      d.integer("samples_per_iteration", r.setup.batch_per_device * r.setup.devices, 1);
  r.basis.recipe = d.text("recipe", r.basis.recipe);
  r.fits = d.boolean("fits", true);
  if (const Json* remedies = d.find("remedies")) {
    for (const Json& remedy : remedies->items()) r.remedies.push_back(read_remedy(remedy));
  }
  if (!r.fits) return;
  r.rate.samples_per_second = d.at("samples_per_second").as_real(0);
  r.rate.tokens_per_second = d.real("tokens_per_second", 0, 0);
  const Json& interval = part(d, "samples_per_second_interval");
  r.rate.interval = {interval.real("low", 0), interval.real("high", 0), interval.real("level", 0.9)};
  if (const Json* errors = d.find("error_sources")) {
    for (const Json& e : errors->items()) {
      r.rate.errors.push_back({e.at("source").as_text(), e.real("relative_standard_error", 0)});
      if (e.find("above") != nullptr) r.rate.errors.back().above = e.real("above", 0);
    }
  }
  const Json& iteration = part(d, "iteration_seconds");
  r.iteration.median = iteration.real("median", 0);
  r.iteration.p05 = iteration.real("p05", 0);
  r.iteration.p95 = iteration.real("p95", 0);
  r.iteration.eager = iteration.real("eager", 0, 0);
  r.iteration.replayed = iteration.real("replayed", 0, 0);
  r.scaling.speedup = d.real("speedup", 1);
  r.scaling.efficiency = d.real("scaling_efficiency", 1);
  r.scaling.base_devices = d.integer("speedup_base_devices", 1, 1);
}

MemoryUse read_memory(const Json& m) {
  return {bytes_of(m, "parameters"),  bytes_of(m, "gradients"), bytes_of(m, "optimizer"),
          bytes_of(m, "activations"), bytes_of(m, "workspace"), bytes_of(m, "buffers"),
          bytes_of(m, "capacity"),    bytes_of(m, "reserved"),  bytes_of(m, "nvidia_smi"),
          bytes_of(m, "host")};
}

std::vector<MemoryPoint> read_points(const Json* points) {
  std::vector<MemoryPoint> out;
  for (std::size_t i = 0; points != nullptr && i < points->items().size(); ++i) {
    const Json& p = points->items()[i];
    out.push_back(
        {p.at("pass").as_text(), p.integer("micro_batch", 0, 0), p.text("layer", ""), bytes_of(p, "bytes")});
  }
  return out;
}

void read_links(Report& r, const Json& d) {
  if (const Json* links = d.find("links")) {
    for (const Json& l : links->items())
      r.network.links.push_back({l.at("name").as_text(), l.real("busy", 0), bytes_of(l, "bytes")});
  }
  if (const Json* groups = d.find("link_groups")) {
    for (const Json& g : groups->items())
      r.network.groups.push_back({g.at("name").as_text(), g.integer("links", 1, 1), g.real("busy_mean", 0),
                                  g.real("busy_max", 0), bytes_of(g, "bytes")});
  }
}

void read_shares(Report& r, const Json& d) {
  const Json& staleness = part(d, "staleness");
  read_bins(staleness, r.staleness.all);
  if (const Json* workers = staleness.find("by_worker")) {
    for (const Json& w : workers->items()) read_bins(w, r.staleness.by_worker.emplace_back());
  }
  const Json& share = part(d, "time_share");
  for (const auto& [key, value] : kShares) r.time.share.*value = share.real(key, 0);
  read_named(d, "exposed_communication_by_kind", r.time.communication_kinds);
  read_named(d, "waiting_for", r.time.waiting_for);
  if (const Json* kernels = d.find("compute_by_kernel")) {
    for (const Json& k : kernels->items())
      r.time.kernels.push_back({k.at("name").as_text(), k.text("heaviest_pass", ""), k.real("share", 0),
                                k.real("heaviest_pass_share", 0)});
  }
  r.time.slowed = d.real("compute_slowed_by_collectives", 0);
  const Json& m = part(d, "memory_bytes_per_device");
  r.memory = read_memory(m);
  if (const Json* host = d.find("host_memory_bytes")) {
    const Json& capacity = host->at("capacity");
    r.memory.node = {bytes_of(*host, "needed"),
                     {capacity.kind() == Json::Kind::null ? 0 : capacity.as_int(0)}};
  }
  if (const Json* roles = d.find("memory_by_role")) {
    for (const Json& role : roles->items())
      r.memory_by_role.push_back({role.at("role").as_text(), role.at("devices").as_int(0),
                                  read_memory(role.at("memory")), read_points(role.find("over_step"))});
    for (RoleMemory& role : r.memory_by_role) role.memory.node = r.memory.node;
  }
  const Json& b = part(d, "bottleneck");
  r.bottleneck.resource = b.text("resource", "");
  r.bottleneck.explanation = b.text("explanation", "");
  r.bottleneck.share = b.real("share", 0);
  if (const Json* e = b.find("elasticity")) r.bottleneck.elasticity = e->as_real();
  if (const Json* gain = b.find("gain_if_unlimited")) r.bottleneck.gain_if_unlimited = gain->as_real();
  if (const Json* l = d.find("busiest_link"))
    r.network.busiest = {l->at("name").as_text(), l->real("busy", 0), bytes_of(*l, "bytes")};
  if (r.fits) read_links(r, d);
}

void read_libraries(Report& r, const Json& d) {
  const Json* list = d.find("libraries");
  if (list == nullptr) return;
  for (const Json& u : list->items())
    r.libraries.push_back({u.at("call").as_text(), u.at("library").as_text(), u.text("engine", ""),
                           u.text("refused", ""), u.integer("calls", 1, 1), bytes_of(u, "workspace_bytes"),
                           u.real("share", 0)});
}

void read_goodput(Report& r, const Json& d) {
  const Json* json = d.find("goodput");
  if (json == nullptr) return;
  Goodput& g = r.goodput.emplace();
  for (const auto& [key, value] : kGoodputNumbers) g.*value = json->real(key, 0, 0);
  g.checkpoint_bytes = bytes_of(*json, "checkpoint_bytes");
  g.interval_steps = json->integer("checkpoint_interval_steps", 1, 1);
  g.spares = json->integer("spares", 0, 0);
  g.elastic = json->boolean("elastic", false);
  const Json& time = part(*json, "time");
  for (const auto& [key, value] : kGoodputTimes) g.times.*value = time.real(key, 0);
  const Json& fewer = part(*json, "one_node_less");
  g.fewer_devices = fewer.integer("devices", 0, 0);
  g.fewer_samples_per_second = fewer.real("samples_per_second", 0, 0);
  if (const Json* all = json->find("alternatives")) {
    for (const Json& a : all->items())
      g.alternatives.push_back({a.integer("spares", 0, 0), a.boolean("elastic", false), a.real("share", 0),
                                a.real("share_by_events", 0)});
  }
}

void read_side_by_side(Report& r, const Json& d) {
  const Json* jobs = d.find("side_by_side");
  if (jobs == nullptr) return;
  for (const Json& job : jobs->items())
    r.rate.side_by_side.push_back({job.at("model").as_text(), job.integer("devices", 1, 1),
                                   job.real("samples_per_second", 0, 0),
                                   job.real("samples_per_second_alone", 0, 0)});
}

void read_incast(Report& r, const Json& d) {
  const Json* rounds = d.find("incast");
  if (rounds == nullptr) return;
  for (const Json& round : rounds->items())
    r.network.incast.push_back({round.at("what").as_text(), round.real("senders", 1, 0),
                                Bytes{round.integer("bytes", 0, 0)}, round.integer("ports", 1, 1),
                                Bytes{round.integer("port_buffer_bytes", 0, 0)}, round.real("timeouts", 0, 0),
                                round.real("goodput_share", 1, 0, 1), round.real("delay_seconds", 0, 0)});
}

constexpr double kMostSeconds = 1e15;  // of a timeline: what is added to it in other units stays finite

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
    e.start_seconds = t.at("start").as_real(-kMostSeconds, kMostSeconds);
    e.end_seconds = t.at("end").as_real(-kMostSeconds, kMostSeconds);
    r.timeline.push_back(std::move(e));
  }
}

Report read_report(const Json& document) {
  Report r;
  read_head(r, document);
  read_shares(r, document);
  read_libraries(r, document);
  read_goodput(r, document);
  read_side_by_side(r, document);
  read_incast(r, document);
  if (const Json* power = document.find("power")) r.time.power = read_power(*power);
  if (const Json* progress = document.find("progress")) r.progress = read_progress(*progress);
  r.basis.calibrated = document.boolean("calibrated", false);
  r.basis.extrapolates = texts(document, "extrapolates");
  r.notes = texts(document, "notes");
  r.network.all_reduces_per_step = document.real("all_reduces_per_step", 0, 0);
  r.evaluation.events = document.integer("simulated_events", 0, 0);
  if (const Json* question = document.find("question")) r.setup.question = JsonWriter(*question);
  if (const Json* training = document.find("training")) {
    r.training = {true,
                  read_loss(*training, "first_loss"),
                  read_loss(*training, "last_loss"),
                  training->real("accuracy", -1),
                  {}};
    if (const Json* noise = training->find("noise_scale_samples"))
      r.training.noise = {noise->real("value", 0, 0), noise->real("low", 0, 0), noise->real("high", 0, 0)};
  }
  r.evaluation.wall_seconds = part(document, "run").real("wall_seconds", 0);
  read_timeline(r, document);
  return r;
}

}  // namespace

void Report::largest_share_is_bottleneck() {
  struct Part {
    double TimeShare::*share;
    const char *resource, *words;
  };
  constexpr Part kParts[] = {
      {&TimeShare::compute, "compute", "computes"},
      {&TimeShare::launch, "launch", "waits for the host to issue operations"},
      {&TimeShare::exposed_communication, "communication", "is exposed communication"},
      {&TimeShare::waiting, "waiting", "waits for other workers"},
      {&TimeShare::bubble, "bubble", "waits for other stages of the pipeline"},
      {&TimeShare::input, "input", "waits for input"},
      {&TimeShare::server, "server", "waits for a server's processor"},
      {&TimeShare::idle, "host", "waits for the host: threads to be woken, or other work on its processors"}};
  const Part& most = *std::max_element(
      std::begin(kParts), std::end(kParts),
      [&](const Part& a, const Part& b) { return time.share.*a.share < time.share.*b.share; });
  bottleneck = {};
  bottleneck.resource = most.resource;
  bottleneck.share = time.share.*most.share;
  bottleneck.explanation = fmt::format("{:.0f} % of the step {}", 100 * bottleneck.share, most.words);
  if (bottleneck.resource == "waiting" && !time.waiting_for.empty())
    bottleneck.explanation += fmt::format(", most for {}", time.waiting_for[0].first);
}

std::string reports_to_json(const std::vector<Report>& reports, bool reproducible) {
  JsonWriter out;
  out["schema"] = kSchema;
  out["reports"] = JsonWriter::array();
  for (const Report& r : reports) out["reports"].push_back(report_json(r, reproducible));
  return out.dump(2) + "\n";
}

std::vector<Report> reports_from_json(const Json& document) {
  const Json& schema = document.at("schema");
  const std::string& name = schema.as_text();
  if (name == "tandem-report-1" || name == "tandem-reports-1")
    schema.fail(
        fmt::format("\"{}\" was written by version 0.1; this version reads \"{}\": ask again with "
                    "tandem predict or tandem run",
                    name, kSchema));
  if (name != kSchema)
    schema.fail(fmt::format("\"{}\" is no document of reports; expected \"{}\"", printable(name), kSchema));
  std::vector<Report> out;
  for (const Json& r : document.at("reports").items()) out.push_back(read_report(r));
  if (out.empty()) document.at("reports").fail("no report");
  return out;
}

std::vector<Report> load_reports(const std::string& path) { return reports_from_json(Json::load(path)); }

}  // namespace tandem::schemes
