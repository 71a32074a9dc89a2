// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>

#include "base/data.h"
#include "base/in_parallel.h"
#include "calibration/validate/asking.h"
#include "calibration/validate/series.h"
#include "sim/bound/placement.h"
#include "sim/met_kinds.h"
#include "sim/simulate.h"

namespace tandem::calibration {

namespace {

constexpr std::string_view kPublished = "calibration/data/published";

/// Keys of a series about the published runs, not about the prediction.
constexpr std::string_view kToldOfSeries[] = {"values",   "relative", "rate_assumed", "note",
                                              "doubtful", "reason",   "fitted",       "gives",
                                              "anchor",   "unit",     "deviations"};

/// One line of a published table: the same run on several device counts.
struct Series {
  std::string file, source, left_out;
  const Json *json = nullptr, *document = nullptr;
  std::vector<std::pair<int64_t, double>> values;  ///< devices -> value, in file order
};

/// A number, or an object of device count -> number.
int64_t count_at(const Json& value, int64_t devices) {
  if (!value.is_object()) return value.as_int(1, 1'000'000);
  return value.at(std::to_string(devices)).as_int(1, 1'000'000);
}
int64_t batch_at(const Json& series, int64_t devices) { return count_at(series.at("batch"), devices); }

/// With "accumulate" the scheme sums that many micro-batches of "batch" before it updates.
ResolvedScheme scheme_at(const Json& series, int64_t devices) {
  const Json& scheme = series.at("scheme");
  std::string text = scheme.as_text();
  if (const Json* accumulate = series.find("accumulate")) {
    const char* joint = text.find(':') == std::string::npos ? ":" : ",";
    text += fmt::format("{}accumulate={}", joint, count_at(*accumulate, devices));
  }
  ResolvedScheme out = resolve_scheme(text, scheme.place());
  if (const Json* recipe = series.find("recipe"))
    out.recipe = load_recipe(recipe->as_text(), recipe->place());
  return out;
}

std::vector<Series> read_series(const Json& document) {
  document.only({"title", "source", "note", "left_out", "series"});
  std::vector<Series> out;
  for (const Json& s : document.at("series").items()) {
    s.only({"system",       "set",        "model",     "scheme",    "accumulate", "precision", "recipe",
            "input",        "batch",      "optimizer", "recompute", "unit",       "values",    "relative",
            "rate_assumed", "note",       "doubtful",  "reason",    "fitted",     "gives",     "anchor",
            "batch_norm",   "deviations", "memory",    "adapter",   "offload"});
    Series series{*document.place().file,
                  document.at("source").as_text(),
                  document.text("left_out", ""),
                  &s,
                  &document,
                  {}};
    for (const auto& [key, value] : s.at("values").members()) {
      series.values.emplace_back(device_count(key, value), value.as_real(1e-12));
    }
    if (series.values.empty()) s.at("values").fail("no value");
    out.push_back(std::move(series));
  }
  return out;
}

/// A model that each sample passes through `count` times: the whole model, or one of several trained
/// alternately.
struct Part {
  Graph graph;
  double count = 1;
  int64_t batch = 0;   ///< 0 = the row's
  bool input = false;  ///< read ahead, while the devices train
  double unread = 0;   ///< seconds in which one core decodes a sample while the devices wait
};

/// Shared by all predictions of one series.
struct Setting {
  std::shared_ptr<const Question> question;  ///< of the first part
  std::vector<Part> parts;
  Request prediction;
  const System& system() const { return question->system; }
};

/// "model" is a name or a list of parts whose times add up: the networks of a GAN, the stages of training on
/// growing images.
std::vector<Part> parts_of(const Json& s, const Question& question) {
  const Json& model = s.at("model");
  const auto load = [&](const Json& name, const Json& of) {
    return Part{Graph::load(name.as_text(), name.place()), 1, 0, of.text("input", "synthetic") == "real", 0};
  };
  std::vector<Part> out;
  if (model.kind() != Json::Kind::array) {
    out.push_back(Part{question.graph, 1, 0, s.text("input", "synthetic") == "real", 0});
    return out;
  }
  for (const Json& item : model.items()) {
    item.only({"model", "count", "batch", "input"});
    out.push_back(load(item.at("model"), item));
    out.back().count = item.real("count", 1, 1e-9, 1e9);
    // A new torch DataLoader iterator in every step starts empty: one worker reads the whole batch.
    if (item.text("input", "synthetic") == "serial") {
      out.back().unread = out.back().graph.sample().decode_seconds / question.system.host().core_speed;
    }
    out.back().batch = item.find("batch") != nullptr ? item.at("batch").as_int(1, 1'000'000) : 0;
  }
  if (out.empty()) model.fail("no part");
  return out;
}

/// "resnet50", or the names of all parts.
std::string name_of(const std::vector<Part>& parts) {
  std::vector<std::string> names;
  for (const Part& part : parts) {
    if (std::find(names.begin(), names.end(), part.graph.name()) == names.end())
      names.push_back(part.graph.name());
  }
  return fmt::format("{}", fmt::join(names, " + "));
}

Setting make_setting(const Json& s) {
  const Json& model = s.at("model");
  std::vector<std::pair<std::string, std::string>> first;
  if (model.is_array() && model.items().empty()) model.fail("no part");
  if (model.is_array()) first.emplace_back("model", model.items()[0].at("model").as_text());
  Setting out;
  out.question = std::make_shared<const Question>(question_of(s, first));
  out.parts = parts_of(s, *out.question);
  out.prediction = out.question->request(1);
  out.prediction.check_memory = false;  // it ran
  return out;
}

ValidationRow row_of(const Series& series, const Setting& setting, int64_t devices, double value) {
  const Json& s = *series.json;
  ValidationRow row;
  row.file = series.file.substr(series.file.rfind('/') + 1);
  row.source = series.source;
  row.left_out = series.left_out;
  row.system = setting.system().name();
  if (const Json* set = s.find("set")) {
    for (const auto& [path, value] : set->members())
      row.system += fmt::format(" ({})", path == "nodes" ? value.as_text() + " nodes" : value.as_text());
  }
  row.model = s.at("model").kind() == Json::Kind::array ? name_of(setting.parts) : s.at("model").as_text();
  row.scheme = s.at("scheme").as_text();
  row.precision = s.text("precision", "fp32");
  row.recipe = s.text("recipe", "");
  row.input = s.text("input", "synthetic");
  row.note = s.text("note", "");
  row.doubtful = s.text("doubtful", "");
  row.reason = s.text("reason", "");
  row.fitted = s.text("fitted", "");
  if (const Json* gives = s.find("gives")) row.gives = gives->text(std::to_string(devices), "");
  const System& system = setting.system();
  row.generation = system.device(system.accelerators()[0]).architecture;
  row.held_out = row.file.starts_with("held_out_") && row.fitted.empty() && row.gives.empty();
  row.family = sim::family_of(setting.parts.front().graph);
  row.width = sim::width_of(setting.prediction.job.precision);
  row.unit = s.text("unit", setting.parts.front().graph.sample().unit + "/s");
  row.relative = s.boolean("relative", false);
  row.rate_assumed = s.boolean("rate_assumed", false);
  row.devices = devices;
  row.batch = batch_at(s, devices);
  row.published = value;
  if (const Json* deviations = s.find("deviations"))
    row.deviation = deviations->real(std::to_string(devices), 0, 0);
  return row;
}

/// For samples that pass through every part.
struct Rate {
  double rate = 0, low = 0, high = 0;  ///< samples/s
  double unread = 0;                   ///< seconds per sample in which no device works
  std::vector<double> parts;           ///< samples/s that pass through each
  std::vector<ErrorSource> errors;     ///< of the only part; empty with several
};

/// `anchors`: of each part; none: not anchored. The errors of parts are fully correlated.
Rate rate_of(Request p, const Setting& setting, std::vector<Anchor>* anchors = nullptr) {
  double seconds = 0, most = 0, least = 0;
  Rate out;
  const int64_t batch = p.job.batch;
  for (const Part& part : setting.parts) {
    p.job.graph = &part.graph;
    p.job.input = part.input;
    p.job.batch = part.batch > 0 ? part.batch : batch;
    if (anchors != nullptr) {
      Anchor& own = (*anchors)[out.parts.size()];
      p.anchor = own;
      if (!own.scale) own.scale = anchored_scale(p);
      p.anchor->scale = own.scale;
    }
    const Report r = simulate_rate(p);
    out.parts.push_back(r.rate.samples_per_second);
    if (setting.parts.size() == 1) out.errors = r.rate.errors;
    out.unread += part.count * part.unread;
    seconds += part.count / r.rate.samples_per_second;
    most += part.count / r.rate.interval.low;
    least += part.count / r.rate.interval.high;
  }
  out.rate = 1 / (seconds + out.unread);
  out.low = 1 / (most + out.unread);
  out.high = 1 / (least + out.unread);
  return out;
}

/// With one part the anchor itself. Several get equal shares of the time that is left after work outside the
/// devices, of which `alone`, the prediction for the anchor's devices, gives the amount.
std::vector<Anchor> anchors_of(const Setting& setting, const Anchor& anchor, const Rate& alone) {
  if (setting.parts.size() == 1) return {anchor};
  const double scale = (1 / anchor.rate - alone.unread) / (1 / alone.rate - alone.unread);
  if (!(scale > 0))
    throw InputError(
        fmt::format("input alone takes {} s of a sample, more than the published rate allows", alone.unread));
  std::vector<Anchor> out;
  for (std::size_t i = 0; i < setting.parts.size(); ++i) {
    Anchor& own = out.emplace_back(anchor);
    own.rate = alone.parts[i] / scale;
    if (setting.parts[i].batch > 0) own.batch = setting.parts[i].batch;
  }
  return out;
}

/// What the first row of a series, its anchor, determines for the others.
struct AtAnchor {
  Rate alone;
  std::vector<Anchor> anchors;
};

/// Without an anchor, by devices.
using SeriesRates = std::map<int64_t, Rate>;

void predict_row(ValidationRow& row, const Json& series, const Setting& setting, const Anchor& anchor,
                 AtAnchor& at_anchor, SeriesRates& known) {
  Request p = setting.prediction;
  const ResolvedScheme scheme = scheme_at(series, row.devices);
  p.system = &setting.system();
  p.job.scheme = &scheme;
  row.recipe_run = scheme.recipe.name;
  p.devices = row.devices;
  p.job.batch = row.batch;
  row.nodes = make_cluster(setting.system(), row.devices).nodes;
  if (!known.contains(row.devices)) known.emplace(row.devices, rate_of(p, setting));
  const Rate& alone = known.at(row.devices);
  if (row.is_anchor) at_anchor.alone = alone;
  row.rate.samples_per_second = alone.rate;
  row.rate.interval.low = alone.low;
  row.rate.interval.high = alone.high;
  row.rate.errors = alone.errors;
  if (row.relative) {
    row.predicted_speedup = row.is_anchor ? 0 : row.rate.samples_per_second / at_anchor.alone.rate;
    return;
  }
  if (at_anchor.anchors.empty()) at_anchor.anchors = anchors_of(setting, anchor, at_anchor.alone);
  const Rate r = rate_of(p, setting, &at_anchor.anchors);
  row.anchored = r.rate;
  row.low = r.low;
  row.high = r.high;
  if (!row.is_anchor) row.predicted_speedup = row.anchored / anchor.rate;
}

/// The cells of a line of CSV, some quoted.
std::vector<std::string> csv_cells(const std::string& line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

/// Whether the one-device rate of these rows is in calibration/data/kernels/steps.csv (device, precision,
/// model, batch, what, seconds, framework, source), from which the stock curves come. Rates there have five
/// digits.
bool in_stock_kernels(const std::vector<ValidationRow>& rows) {
  static const std::vector<std::vector<std::string>> steps = [] {
    std::vector<std::vector<std::string>> all;
    std::istringstream lines(read_file(data_root() + "/calibration/data/kernels/steps.csv"));
    for (std::string line; std::getline(lines, line);) all.push_back(csv_cells(line));
    return all;
  }();
  return std::any_of(rows.begin(), rows.end(), [](const ValidationRow& row) {
    return row.devices == 1 && std::any_of(steps.begin() + 1, steps.end(), [&](const auto& step) {
             const bool whole = step.at(4) == "train" || step.at(4) == "forward+backward";
             if (!whole || step.at(1) != row.precision || step.at(2) != row.model ||
                 step.at(3) != std::to_string(row.batch))
               return false;
             return std::abs(std::stod(step.at(5)) * row.published / static_cast<double>(row.batch) - 1) <
                    2e-4;
           });
  });
}

/// `known`: answers to series with the same question.
std::vector<ValidationRow> run_series(const Series& series, SeriesRates& known) {
  Setting setting = make_setting(*series.json);
  const Json* wanted = series.json->find("anchor");
  const auto anchor_at = wanted != nullptr
                             ? std::find_if(series.values.begin(), series.values.end(),
                                            [&](const auto& v) { return v.first == wanted->as_int(1); })
                             : std::min_element(series.values.begin(), series.values.end());
  if (anchor_at == series.values.end()) wanted->fail("no value for the anchor's device count");
  const ResolvedScheme anchor_scheme = scheme_at(*series.json, anchor_at->first);
  Anchor anchor{anchor_at->second, anchor_at->first, batch_at(*series.json, anchor_at->first)};
  if (const Json* a = series.json->find("accumulate"); a != nullptr && a->is_object())
    anchor.scheme = &anchor_scheme;  // else that of every row

  std::vector<ValidationRow> rows;
  auto ordered = series.values;  // the anchor first: relative series need its prediction
  std::iter_swap(ordered.begin(), ordered.begin() + (anchor_at - series.values.begin()));
  AtAnchor at_anchor;
  for (const auto& [devices, value] : ordered) {
    ValidationRow row = row_of(series, setting, devices, value);
    row.is_anchor = devices == anchor.devices;
    row.anchor_devices = static_cast<double>(anchor.devices);
    if (!row.is_anchor) row.published_speedup = value / anchor.rate;
    try {
      predict_row(row, *series.json, setting, anchor, at_anchor, known);
    } catch (const InputError& e) {
      row.error = e.what();
    }
    rows.push_back(std::move(row));
  }
  if (in_stock_kernels(rows)) {
    for (ValidationRow& row : rows) row.in_kernels = true;
  }
  return rows;
}

}  // namespace

std::vector<ValidationRow> validate(const std::vector<std::string>& files, int threads,
                                    const std::function<void(int, int)>& progress) {
  std::vector<Json> documents;
  const auto names = files.empty() ? list_data(kPublished) : files;
  for (const std::string& name : names)
    documents.push_back(Json::load(find_data(kPublished, "published table", name)));
  std::vector<Series> all;
  for (const Json& d : documents) {
    auto series = read_series(d);
    all.insert(all.end(), std::make_move_iterator(series.begin()), std::make_move_iterator(series.end()));
  }
  std::vector<Asked> asked;
  for (const Series& series : all) {
    int64_t devices = 0;
    for (const auto& [count, value] : series.values) devices += count;
    asked.push_back({series.json, series.document, devices});
  }
  std::vector<std::vector<ValidationRow>> results(all.size());
  const std::vector<AskedOnce> groups = asked_once(asked, kToldOfSeries);
  std::mutex mutex;
  int done = 0;
  in_parallel(groups.size(), threads, [&](std::size_t group) {
    SeriesRates known;
    for (const std::size_t i : groups[group].members) {
      results[i] = run_series(all[i], known);
      const std::lock_guard lock(mutex);
      if (progress) progress(++done, static_cast<int>(all.size()));
    }
  });
  std::vector<ValidationRow> out;
  for (auto& r : results)
    out.insert(out.end(), std::make_move_iterator(r.begin()), std::make_move_iterator(r.end()));
  return out;
}

}  // namespace tandem::calibration
