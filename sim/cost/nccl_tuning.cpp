// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/nccl_tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/data.h"
#include "sim/cost/library_version.h"

namespace tandem::sim {
namespace {

constexpr int kMostCount = 1024;  // of channels, heads and rounds

/// Every entry says where its figures stand.
void need_source(const Json& json) {
  if (json.at("source").as_text().empty()) json.at("source").fail("NCCL's file and version expected");
}

double rate_of(const Json& json) {
  const double rate = json.as_bandwidth().bytes_per_second;
  if (rate <= 0) json.fail("a rate above 0 expected");
  return rate;
}

NcclTuning::Generation read_generation(const Json& json) {
  json.only({"cable", "channels", "split", "switch_efficiency", "source"});
  need_source(json);
  NcclTuning::Generation out;
  out.cable = rate_of(json.at("cable"));
  for (const Json& rate : json.at("channels").items()) out.channels.push_back(rate_of(rate));
  if (out.channels.empty()) json.at("channels").fail("at least one rate expected");
  out.split = rate_of(json.at("split"));
  out.switch_efficiency = json.at("switch_efficiency").as_real(0, 1);
  return out;
}

NcclTuning::Search read_search(const Json& json) {
  json.only({"most_channels", "least_rate", "split_least", "split_few", "source"});
  need_source(json);
  NcclTuning::Search out;
  out.most_channels = static_cast<double>(json.at("most_channels").as_int(1, kMostCount));
  out.least_rate = json.at("least_rate").as_real(0, 1);
  out.split_least = rate_of(json.at("split_least"));
  out.split_few = static_cast<double>(json.at("split_few").as_int(0, kMostCount));
  return out;
}

/// A rate for each of the generations; none at all without the key.
std::map<std::string, double> read_by_generation(const Json& row, std::string_view key,
                                                 const NcclTuning& tuning) {
  std::map<std::string, double> out;
  const Json* json = row.find(key);
  if (json == nullptr) return out;
  std::vector<std::string> names;
  for (const auto& [name, generation] : tuning.generations) {
    out[name] = rate_of(json->at(name));
    names.push_back(name);
  }
  json->only(names);
  return out;
}

NcclTuning::Protocol read_protocol(const Json& json, const NcclTuning& tuning) {
  json.only({"base", "step", "rates", "source"});
  need_source(json);
  NcclTuning::Protocol out;
  out.base = json.at("base").as_time().seconds();
  out.step = json.at("step").as_time().seconds();
  for (const Json& row : json.at("rates").items()) {
    row.only({"from", "share", "reducing", "most", "most_per_channel", "source"});
    need_source(row);
    NcclTuning::Rate rate;
    const Json& from = row.at("from");
    rate.from = library_version(from.as_text(), from.place());
    if (!out.rates.empty() && rate.from <= out.rates.back().from)
      from.fail("rows stand in ascending order of versions");
    rate.share = row.at("share").as_real(1e-6, 1);
    rate.share_reducing = row.real("reducing", rate.share, 1e-6, 1);
    rate.most = read_by_generation(row, "most", tuning);
    rate.most_per_channel = read_by_generation(row, "most_per_channel", tuning);
    out.rates.push_back(std::move(rate));
  }
  if (out.rates.empty()) json.at("rates").fail("at least one row expected");
  return out;
}

double size_of(const Json& json) {
  if (json.as_bytes().n <= 0) json.fail("a size above 0 expected");
  return static_cast<double>(json.as_bytes().n);
}

std::vector<NcclTuning::Smaller> read_smaller(const Json& json) {
  std::vector<NcclTuning::Smaller> out;
  for (const Json& row : json.items()) {
    row.only({"rounds", "chunk"});
    out.push_back({row.at("rounds").as_real(1, kMostCount), size_of(row.at("chunk"))});
  }
  return out;
}

NcclTuning::Tree read_tree(const Json& json) {
  json.only({"share", "smallest", "corrections", "chunk", "smaller", "source"});
  need_source(json);
  NcclTuning::Tree out;
  out.share = json.at("share").as_real(1e-6, 1);
  out.smallest = size_of(json.at("smallest"));
  for (const Json& part : json.at("corrections").items()) out.corrections.push_back(part.as_real(1e-6, 1));
  if (out.corrections.empty()) json.at("corrections").fail("at least one expected");
  out.chunk = size_of(json.at("chunk"));
  out.smaller = read_smaller(json.at("smaller"));
  return out;
}

NcclTuning::Switch read_switch(const Json& json) {
  json.only({"protocol", "base", "most_heads", "chunk", "smaller", "source"});
  need_source(json);
  NcclTuning::Switch out;
  out.protocol = json.at("protocol").as_text();
  out.base = json.at("base").as_time().seconds();
  out.most_heads = static_cast<std::size_t>(json.at("most_heads").as_int(2, kMostCount));
  out.chunk = size_of(json.at("chunk"));
  out.smaller = read_smaller(json.at("smaller"));
  return out;
}

NcclTuning::Exchange read_exchange(const Json& json) {
  json.only(
      {"channels", "channels_pcie", "chunk", "part", "part_ll", "whole_from", "whole_before", "source"});
  need_source(json);
  NcclTuning::Exchange out;
  out.channels = json.at("channels").as_real(1, kMostCount);
  out.channels_pcie = json.at("channels_pcie").as_real(1, kMostCount);
  out.chunk = size_of(json.at("chunk"));
  out.part = size_of(json.at("part"));
  out.part_ll = size_of(json.at("part_ll"));
  const auto version = [&](const char* key) {
    return library_version(json.at(key).as_text(), json.at(key).place());
  };
  out.whole_from = version("whole_from");
  out.whole_before = version("whole_before");
  return out;
}

template <typename T>
const T* find(const std::map<std::string, T>& all, std::string_view name) {
  const auto at = all.find(std::string(name));
  return at == all.end() ? nullptr : &at->second;
}

}  // namespace

double NcclTuning::Tree::efficiency(double bytes) const {
  const double doublings = std::floor(std::log2(std::max(1.0, bytes / smallest)));
  return share * corrections[std::min(static_cast<std::size_t>(doublings), corrections.size() - 1)];
}

const NcclTuning::Rate& NcclTuning::Protocol::rate(int version) const {
  const Rate* best = &rates.front();
  for (const Rate& r : rates) {
    if (r.from <= version) best = &r;
  }
  return *best;
}

NcclTuning::Channels NcclTuning::channels(const Generation& generation, double whole) const {
  Channels out;
  double rate = 0;  // of one channel
  for (const double r : generation.channels) {
    const double count = std::min(std::floor(whole / r), search.most_channels);
    if (count * r <= out.rate || (rate > 0 && r <= search.least_rate * rate)) continue;
    out = {count, count * r};
    rate = r;
  }
  if (rate >= generation.split || (rate >= search.split_least && out.count <= search.split_few))
    out.count *= 2;
  return out;
}

const NcclTuning::Generation* NcclTuning::generation(std::string_view architecture) const {
  return find(generations, architecture);
}

const NcclTuning::Protocol* NcclTuning::protocol(std::string_view name) const { return find(ring, name); }

double NcclTuning::channel_rate(std::string_view architecture) const {
  const Protocol* ll128 = protocol("ll128");
  const double* rate = ll128 == nullptr ? nullptr : find(ll128->rates.back().most_per_channel, architecture);
  return rate == nullptr ? 0 : *rate;
}

NcclTuning read_nccl_tuning(const Json& json) {
  json.only({"source", "generations", "search", "ring", "tree", "switch", "exchange"});
  need_source(json);
  NcclTuning out;
  for (const auto& [name, entry] : json.at("generations").members())
    out.generations[name] = read_generation(entry);
  out.search = read_search(json.at("search"));
  for (const auto& [name, entry] : json.at("ring").members()) out.ring[name] = read_protocol(entry, out);
  out.in_switch = read_switch(json.at("switch"));
  out.tree = read_tree(json.at("tree"));
  out.exchange = read_exchange(json.at("exchange"));
  if (out.protocol(out.in_switch.protocol) == nullptr) {
    const Json& name = json.at("switch").at("protocol");
    name.fail(fmt::format("no protocol \"{}\" among those of rings.{}", printable(name.as_text()),
                          did_you_mean(name.as_text(), json.at("ring").keys())));
  }
  return out;
}

const NcclTuning& nccl_tuning() {
  static const NcclTuning tuning =
      read_nccl_tuning(Json::load(data_root() + "/calibration/profiles/nccl_tuning.json"));
  return tuning;
}

}  // namespace tandem::sim
