#include "calibration/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <mutex>
#include <thread>

#include "base/data.h"
#include "sim/placement.h"
#include "sim/simulate.h"

namespace tandem {

namespace {

constexpr std::string_view kFolder = "calibration/data/published";

/// One line of a published table: the same run on several device counts.
struct Series {
  std::string file, source;
  const Json* json = nullptr;
  std::vector<std::pair<int64_t, double>> values;  ///< devices -> value, in file order
};

int64_t device_count(const std::string& key, const Json& value) {
  int64_t n = 0;
  const auto r = std::from_chars(key.data(), key.data() + key.size(), n);
  if (r.ec != std::errc{} || r.ptr != key.data() + key.size() || n < 1) {
    value.fail(fmt::format("\"{}\" is not a device count", printable(key)));
  }
  return n;
}

/// A number, or an object of device count -> number.
int64_t batch_at(const Json& series, int64_t devices) {
  const Json& batch = series.at("batch");
  if (!batch.is_object()) return batch.as_int(1, 1'000'000);
  return batch.at(std::to_string(devices)).as_int(1, 1'000'000);
}

std::string family_of(const Graph& graph) {
  bool conv = false, attention = false, recurrent = false;
  for (const Layer& l : graph.layers()) {
    if (l.type == nullptr) continue;
    conv = conv || l.type->name.find("conv") != std::string_view::npos;
    attention = attention || l.type->name == "attention";
    recurrent = recurrent || l.type->name == "lstm" || l.type->name == "gru" || l.type->name == "rnn";
  }
  return attention ? "transformer" : recurrent ? "recurrent" : conv ? "cnn" : "other";
}

std::vector<Series> read_series(const Json& document) {
  document.only({"title", "source", "note", "series"});
  std::vector<Series> out;
  for (const Json& s : document.at("series").items()) {
    s.only({"system", "set", "model", "scheme", "precision", "input", "batch", "optimizer", "recompute",
            "unit", "values", "relative", "rate_assumed", "note", "doubtful", "anchor"});
    Series series{*document.place().file, document.at("source").as_text(), &s, {}};
    for (const auto& [key, value] : s.at("values").members()) {
      series.values.emplace_back(device_count(key, value), value.as_real(1e-12));
    }
    if (series.values.empty()) s.at("values").fail("no value");
    out.push_back(std::move(series));
  }
  return out;
}

/// All that the predictions of one series share.
struct Setting {
  System system;
  Graph graph;
  ResolvedScheme scheme;
  Prediction prediction;
};

Setting make_setting(const Json& s) {
  std::vector<std::pair<std::string, std::string>> sets;
  if (const Json* set = s.find("set")) {
    for (const auto& [path, value] : set->members()) sets.emplace_back(path, value.as_text());
  }
  Setting out{System::load(s.at("system").as_text(), sets, s.at("system").place()),
              Graph::load(s.at("model").as_text(), s.at("model").place()),
              resolve_scheme(s.at("scheme").as_text(), s.at("scheme").place()),
              {}};
  Prediction& p = out.prediction;
  p.precision = parse_precision(s.text("precision", "fp32"), s.place());
  p.optimizer = &optimizer(s.text("optimizer", "momentum"), s.place());
  p.recompute = s.boolean("recompute", false);
  p.input = s.text("input", "synthetic") == "real";
  p.check_memory = false;  // it ran
  return out;
}

ValidationRow row_of(const Series& series, const Setting& setting, int64_t devices, double value) {
  const Json& s = *series.json;
  ValidationRow row;
  row.file = series.file.substr(series.file.rfind('/') + 1);
  row.source = series.source;
  row.system = setting.system.name();
  if (const Json* set = s.find("set")) {
    for (const auto& [path, value] : set->members())
      row.system += fmt::format(" ({})", path == "nodes" ? value.as_text() + " nodes" : value.as_text());
  }
  row.model = s.at("model").as_text();
  row.scheme = s.at("scheme").as_text();
  row.precision = s.text("precision", "fp32");
  row.input = s.text("input", "synthetic");
  row.note = s.text("note", "");
  row.doubtful = s.text("doubtful", "");
  row.family = family_of(setting.graph);
  row.unit = s.text("unit", setting.graph.sample().unit + "/s");
  row.relative = s.boolean("relative", false);
  row.rate_assumed = s.boolean("rate_assumed", false);
  row.devices = devices;
  row.batch = batch_at(s, devices);
  row.published = value;
  return row;
}

void predict_row(ValidationRow& row, Setting& setting, const Anchor& anchor, double unanchored_at_anchor) {
  Prediction p = setting.prediction;
  p.graph = &setting.graph;
  p.system = &setting.system;
  p.scheme = &setting.scheme;
  p.devices = row.devices;
  p.batch = row.batch;
  row.nodes = make_cluster(setting.system, row.devices).nodes;
  row.unanchored = simulate(p).samples_per_second;
  if (row.relative) {
    row.predicted_speedup = row.is_anchor ? 0 : row.unanchored / unanchored_at_anchor;
    return;
  }
  p.anchor = anchor;
  const Report r = simulate(p);
  row.anchored = r.samples_per_second;
  row.low = r.interval.low;
  row.high = r.interval.high;
  if (!row.is_anchor) row.predicted_speedup = row.anchored / anchor.rate;
}

std::vector<ValidationRow> run_series(const Series& series) {
  Setting setting = make_setting(*series.json);
  const Json* wanted = series.json->find("anchor");
  const auto anchor_at = wanted != nullptr
                             ? std::find_if(series.values.begin(), series.values.end(),
                                            [&](const auto& v) { return v.first == wanted->as_int(1); })
                             : std::min_element(series.values.begin(), series.values.end());
  if (anchor_at == series.values.end()) wanted->fail("no value for the anchor's device count");
  const Anchor anchor{anchor_at->second, anchor_at->first, batch_at(*series.json, anchor_at->first)};

  std::vector<ValidationRow> rows;
  auto ordered = series.values;  // the anchor first: relative series need its prediction
  std::iter_swap(ordered.begin(), ordered.begin() + (anchor_at - series.values.begin()));
  double unanchored_at_anchor = 0;
  for (const auto& [devices, value] : ordered) {
    ValidationRow row = row_of(series, setting, devices, value);
    row.is_anchor = devices == anchor.devices;
    row.anchor_devices = static_cast<double>(anchor.devices);
    if (!row.is_anchor) row.published_speedup = value / anchor.rate;
    try {
      predict_row(row, setting, anchor, unanchored_at_anchor);
    } catch (const InputError& e) {
      row.error = e.what();
    }
    if (row.is_anchor) unanchored_at_anchor = row.unanchored;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::vector<ValidationRow> validate(const std::vector<std::string>& files, int threads,
                                    const std::function<void(int, int)>& progress) {
  std::vector<Json> documents;
  const auto names = files.empty() ? list_data(kFolder) : files;
  for (const std::string& name : names)
    documents.push_back(Json::load(find_data(kFolder, "published table", name)));
  std::vector<Series> all;
  for (const Json& d : documents) {
    auto series = read_series(d);
    all.insert(all.end(), std::make_move_iterator(series.begin()), std::make_move_iterator(series.end()));
  }
  std::vector<std::vector<ValidationRow>> results(all.size());
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  int done = 0;
  std::exception_ptr failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < all.size(); i = next++) {
      try {
        results[i] = run_series(all[i]);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      if (progress) progress(++done, static_cast<int>(all.size()));
    }
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
  for (std::thread& t : pool) t.join();
  if (failure) std::rethrow_exception(failure);
  std::vector<ValidationRow> out;
  for (auto& r : results)
    out.insert(out.end(), std::make_move_iterator(r.begin()), std::make_move_iterator(r.end()));
  return out;
}

}  // namespace tandem
