// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <map>
#include <mutex>

#include "base/data.h"
#include "topologies/devices/named_device.h"

namespace tandem::sim {

namespace {

constexpr std::size_t kMostRecorded = 65536;  ///< steps of a few microseconds would be millions

double real(int64_t n) { return static_cast<double>(n); }

template <typename E>
E named(const Json& json, int count) {
  const std::string& text = json.as_text();
  for (int i = 0; i < count; ++i) {
    if (name(static_cast<E>(i)) == text) return static_cast<E>(i);
  }
  json.fail(fmt::format("\"{}\" is not known here", printable(text)));
}

}  // namespace

std::string_view name(CopyWay way) {
  constexpr std::array<std::string_view, kCopyWays> names = {"memory",
                                                             "pinned-to-device",
                                                             "pinned-from-device",
                                                             "pageable-to-device",
                                                             "pageable-from-device",
                                                             "device",
                                                             "peer",
                                                             "host-update"};
  return names.at(static_cast<std::size_t>(way));
}

double normal_score(int64_t rank, int64_t n) {
  return boost::math::quantile(boost::math::normal(), (real(rank) - 0.375) / (real(n) + 0.25));
}

std::shared_ptr<const MachineProfile> MachineProfile::find(const std::string& name, Precision precision) {
  if (name == "stock") return nullptr;
  static std::mutex mutex;
  static std::map<std::pair<std::string, Precision>, std::shared_ptr<const MachineProfile>> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find({name, precision});
  if (found != known.end()) return found->second;
  const Json document = Json::load(find_data("calibration/profiles", "profile", name));
  std::shared_ptr<const MachineProfile> profile;
  if (document.text("schema", "") == "tandem-profile-1") {
    const auto has = [formats = measured_precisions(document)](Precision p) {
      return std::find(formats.begin(), formats.end(), p) != formats.end();
    };
    if (precision == Precision::fp8 && !has(precision) && has(Precision::bf16)) {
      profile = std::make_shared<MachineProfile>(document, Precision::bf16);
      if (!profile->apart() || profile->device().empty()) profile = nullptr;
    }
    if (!profile) profile = std::make_shared<MachineProfile>(document, precision);
  }
  return known.emplace(std::pair(name, precision), profile).first->second;
}

namespace {

/// The document itself and its siblings, a format each.
std::vector<std::pair<Precision, const Json*>> parts_of(const Json& d) {
  std::vector<const Json*> parts{&d};
  if (const Json* more = d.find("more_precisions")) {
    for (const Json& part : more->items()) parts.push_back(&part);
  }
  std::vector<std::pair<Precision, const Json*>> out;
  for (const Json* part : parts) {
    const Json* format = part->find("precision");
    out.emplace_back(format == nullptr ? Precision::fp32 : named<Precision>(*format, kPrecisions), part);
  }
  return out;
}

/// What was measured in `precision`.
const Json& measured_in(const Json& d, Precision precision) {
  std::vector<std::string_view> others;
  for (const auto& [format, part] : parts_of(d)) {
    if (format == precision) return *part;
    others.push_back(name(format));
  }
  d.fail(fmt::format("kernels were measured in {} alone, not in {}: tandem measure --precision {}",
                     fmt::join(others, ", "), name(precision), name(precision)));
}

}  // namespace

std::vector<Precision> measured_precisions(const Json& document) {
  std::vector<Precision> out;
  for (const auto& [format, part] : parts_of(document)) out.push_back(format);
  return out;
}

namespace {

/// A product has sizes to divide by.
void check_shape(const Kernel& k, const Json& shape) {
  const auto needs = [&](const char* whose, std::size_t numbers, std::size_t sizes) {
    if (k.shape.size() != numbers) shape.fail(fmt::format("a {} shape has {} numbers", whose, numbers));
    for (std::size_t i = 0; i < sizes; ++i) {
      if (k.shape[i] < 1) shape.items()[i].fail(fmt::format("a {} sizes are at least 1", whose));
    }
  };
  if (k.kind == KernelKind::gemm) needs("product's", 4, 4);
  if (k.kind == KernelKind::attention) needs("attention's", 8, 6);
  if (k.kind != KernelKind::conv) return;
  needs("convolution's", 23, 19);
  const ConvShape s = ConvShape::unpack(k.shape);
  if (s.groups > std::min(s.in_channels, s.out_channels)) shape.fail("has more groups than channels");
}

}  // namespace

MachineProfile::MachineProfile(const Json& d, Precision precision) {
  cores_ = d.at("cores").as_int(1, 65536);
  origin_.busy = d.text("busy", "");
  origin_.machine = d.text("machine", "");
  origin_.date = d.text("date", "");
  origin_.device = d.text("device", "");
  read_transfers(d);
  origin_.format = precision;
  read_kernels(measured_in(d, precision));
  read_disturbances(d);
}

void MachineProfile::read_kernels(const Json& d) {
  op_overhead_ = d.at("op_overhead_seconds").as_real(0, 1);
  kernel_overhead_ = d.real("kernel_overhead_seconds", 0, 0, 1);
  wake_ = d.at("wake_seconds").as_real(0, 1);
  step_sigma_ = d.at("step_sigma").as_real(0, 10);
  error_per_distance_ = d.at("error_per_distance").as_real(0, 10);
  error_of_overhead_ = d.real("error_of_overhead", 0, 0, 10);
  error_of_several_ = d.at("error_of_several").as_real(0, 10);
  std::vector<KernelCurve> curves(std::size_t{kKernelKinds} * kPasses);
  for (const Json& c : d.at("curves").items()) {
    Kernel k;
    k.kind = named<KernelKind>(c.at("kind"), kKernelKinds);
    k.pass = named<Pass>(c.at("pass"), kPasses);
    curves[KernelNeighbours::group(k)] = KernelCurve::from_json(c);
  }
  std::vector<KernelSample> samples;
  for (const Json& s : d.at("kernels").items()) {
    KernelSample sample;
    Kernel& k = sample.kernel;
    k.kind = named<KernelKind>(s.at("kind"), kKernelKinds);
    k.pass = named<Pass>(s.at("pass"), kPasses);
    for (const Json& n : s.at("shape").items()) k.shape.push_back(n.as_int(0));
    k.flops.n = s.at("flops").as_int(0);
    k.read.n = s.at("read").as_int(0);
    k.written.n = s.at("written").as_int(0);
    k.fused = s.boolean("fused", false);
    check_shape(k, s.at("shape"));
    sample.seconds = s.at("seconds").as_real(1e-12, 1e6);
    if (s.find("step_bytes") != nullptr) sample.step.n = s.at("step_bytes").as_int(0);
    if (s.find("launches") != nullptr) sample.launches = s.at("launches").as_int(1);
    samples.push_back(std::move(sample));
  }
  kernels_ = std::make_unique<KernelNeighbours>(std::move(samples), std::move(curves), apart());
  for (const Json& row : d.at("slowdown").items()) {
    std::vector<double> kinds(kKernelKinds, 1);
    for (const auto& [kind, factor] : row.members()) {
      for (int k = 0; k < kKernelKinds; ++k) {
        if (name(static_cast<KernelKind>(k)) == kind)
          kinds[static_cast<std::size_t>(k)] = factor.as_real(0.1, 100);
      }
    }
    slowdown_.push_back(kinds);
  }
}

void MachineProfile::read_transfers(const Json& d) {
  const auto table = [](const Json& list) {
    std::vector<Point> out;
    for (const Json& p : list.items())
      out.push_back({p.at("bytes").as_real(1, 1e15), p.at("seconds").as_real(1e-12, 1e6)});
    return out;
  };
  for (const Json& list : d.at("all_reduce").items()) all_reduce_.push_back(table(list));
  copy_[0] = table(d.at("copy"));
  if (const Json* copies = d.find("copies")) {
    for (int way = 1; way < kCopyWays; ++way) {
      const Json* list = copies->find(name(static_cast<CopyWay>(way)));
      if (list != nullptr) copy_[static_cast<std::size_t>(way)] = table(*list);
    }
  }
  if (const Json* old = d.find("wire"))
    throw InputError(old->place(),
                     "\"wire\" is of version 0.1: make the profile again (tandem measure, tandem fit)");
  input_ = InputRates::from_json(d.find("input"));
  if (d.find("tcp") == nullptr) return;
  for (const Json& row : d.at("tcp").items()) {
    const double rate = row.at("bytes_per_second").as_real(0, 1e15);
    tcp_[rate > 0 ? rate : INFINITY] = table(row.at("steps"));
  }
  tcp_cpu_ = table(d.at("tcp_cpu"));
}

void MachineProfile::read_disturbances(const Json& d) {
  lock_step_ = d.real("lock_step", 1, 1, 100);
  interrupted_ = d.real("interrupted", 1, 1, 100);
  if (const Json* turns = d.find("turns_seconds")) {
    for (const Json& t : turns->items()) turns_.push_back(Time::from_seconds(t.as_real(1e-9, 1e6)));
  }
  const Json* noise = d.find("noise");
  if (noise == nullptr) return;
  for (const Json& row : noise->items()) {
    Recording& r = noise_.emplace_back();
    r.step = row.at("step_seconds").as_real(1e-12, 1e6);
    for (const Json& series : row.at("factors").items()) {
      r.factors.emplace_back();
      for (const Json& f : series.items()) r.factors.back().push_back(f.as_real(1e-4, 1e6));
      if (r.factors.back().empty() || r.factors.back().size() != r.factors.front().size())
        series.fail("has not as many steps as the others, or none");
    }
    const auto workers = static_cast<int64_t>(r.factors.size());
    if (workers != cores_ && workers != 2 * cores_)
      row.fail(fmt::format("has {} workers on {} cores, not one or two on each", workers, cores_));
    if (workers != cores_) noise_.pop_back();  // of a version that recorded two on each in place of turns
  }
}

std::string MachineProfile::device() const {
  if (!origin_.device.empty()) return origin_.device;
  const std::vector<topologies::Device> alike = topologies::devices_like(origin_.machine, apart());
  return alike.size() == 1 ? alike[0].name : "";
}

double MachineProfile::tcp_message(double bytes, double rate) const {
  if (tcp_.empty()) return 0;
  const auto above = tcp_.lower_bound(rate > 0 ? rate : INFINITY);
  if (above == tcp_.end()) return interpolate(tcp_.rbegin()->second, bytes);
  const double fast = interpolate(above->second, bytes);
  if (above->first == rate || above->first == INFINITY) {
    // Slower than loopback itself but faster than any rate that was measured.
    return std::max(fast, rate > 0 ? bytes / rate : 0);
  }
  if (above == tcp_.begin()) return fast * above->first / rate;
  const auto below = std::prev(above);
  const double slow = interpolate(below->second, bytes);
  const double part = std::log(rate / below->first) / std::log(above->first / below->first);
  return slow * std::pow(fast / slow, part);
}

double MachineProfile::tcp_cpu(double bytes) const { return interpolate(tcp_cpu_, bytes); }

double MachineProfile::seconds(const Kernel& k, int64_t active, Bytes step, double* distance) const {
  double t = kernels_->seconds(k, step, distance) + kernel_overhead_;
  if (slowdown_.empty()) return t;
  const double filled = idle(k, active, t) / 2;  // on average
  const auto running = std::min<int64_t>(active, static_cast<int64_t>(slowdown_.size()));
  t *= slowdown_[static_cast<std::size_t>(running - 1)][static_cast<std::size_t>(k.kind)];
  const auto apart = std::max(cores_, running);  // what was measured includes that devices were shared
  return active > apart ? t * real(active) / real(apart) - filled : t;
}

double MachineProfile::seconds_unknown(const Kernel& k, int64_t active, Bytes step) const {
  return idle(k, active, kernels_->seconds(k, step) + kernel_overhead_) / 2;
}

/// Of a GPU that several workers share, which was measured with one: what passes before their kernels work.
double MachineProfile::idle(const Kernel& k, int64_t active, double alone) const {
  if (!apart() || active <= cores_ || slowdown_.size() > static_cast<std::size_t>(cores_)) return 0;
  const KernelCurve& curve = kernels_->curves()[KernelNeighbours::group(k)];
  const double start = curve.per[KernelCurve::launch] / curve.seconds(k) * (alone - kernel_overhead_);
  return (real(active) / real(cores_) - 1) * std::min(alone, start + kernel_overhead_);
}

Disturbance MachineProfile::disturbance(int64_t active, double seconds, bool lock_step) const {
  Disturbance d;
  d.iteration_sigma = step_sigma_;
  if (seconds <= 0 || (lock_step && active > cores_)) return d;
  if (lock_step) {  // the mean, not draws: few iterations are simulated if all are equal
    const double share = cores_ > 1 ? normal_score(active, active) / normal_score(cores_, cores_) : 0;
    const double factor = std::max(interrupted_, std::pow(lock_step_, share));
    for (uint32_t i = 0; factor > 1 && i < active; ++i) d.slow.emplace_back(i, factor);
    return d;
  }
  d.recorded = recorded(seconds);
  if (!d.recorded.empty()) d.iteration_sigma = 0;  // they hold it
  if (!turns().empty()) d.shared = {static_cast<uint32_t>(cores_), turns_, false, least_turn()};
  return d;
}

Time MachineProfile::least_turn() const {
  return Time::from_seconds(0.7e-3 * (1 + std::floor(std::log2(std::clamp<int64_t>(cores_, 1, 8)))));
}

/// Of the recordings the third with steps nearest in length to `seconds`, one after another as if they were
/// of one graph with steps of that length.
std::vector<std::vector<double>> MachineProfile::recorded(double seconds) const {
  std::vector<const Recording*> near;
  for (const Recording& r : noise_) near.push_back(&r);
  if (near.empty()) return {};
  std::stable_sort(near.begin(), near.end(), [seconds](const Recording* a, const Recording* b) {
    return std::abs(std::log(a->step / seconds)) < std::abs(std::log(b->step / seconds));
  });
  near.resize((near.size() + 2) / 3);
  std::vector<std::vector<double>> out(near[0]->factors.size());
  for (std::size_t worker = 0; worker < out.size(); ++worker) {
    double done = 0, took = 0;  // of the step being read
    for (const Recording* r : near) {
      for (const double factor : r->factors[worker]) {
        double left = r->step;
        while (left > 0) {
          const double part = std::min(left, seconds - done);
          took += part * factor;
          done += part;
          left -= part;
          if (done < seconds * (1 - 1e-9)) continue;
          if (out[worker].size() < kMostRecorded) out[worker].push_back(took / seconds * interrupted_);
          done = took = 0;
        }
      }
    }
    if (out[worker].empty()) out[worker].push_back(interrupted_);  // longer than all of them
  }
  return out;
}

double MachineProfile::interpolate(const std::vector<Point>& table, double at) {
  if (table.empty() || at <= 0) return 0;
  if (at <= table.front().at || table.size() == 1)
    return table.front().value * std::min(1.0, std::max(0.05, at / table.front().at));
  const auto above =
      std::upper_bound(table.begin(), table.end() - 1, at, [](double x, const Point& p) { return x < p.at; });
  const Point &a = *(above - 1), &b = *above;
  const double slope = std::log(b.value / a.value) / std::log(b.at / a.at);
  // Where caches end it is steep; beyond the largest measured size they count no more.
  if (at > b.at) return b.value * std::pow(at / b.at, std::min(1.0, slope));
  return a.value * std::pow(at / a.at, slope);
}

double MachineProfile::all_reduce(double bytes, int64_t ranks) const {
  if (ranks < 2 || all_reduce_.empty()) return 0;
  const auto row = std::min<std::size_t>(static_cast<std::size_t>(ranks - 2), all_reduce_.size() - 1);
  const double scale =
      real(ranks) / real(static_cast<int64_t>(row) + 2);  // beyond what was measured: more to add up
  return interpolate(all_reduce_[row], bytes) * scale;
}

double MachineProfile::copy(double bytes, CopyWay way) const {
  const auto measured = [&] { return !copy_[static_cast<std::size_t>(way)].empty(); };
  // One GPU has no peer: whoever computes on it finds all in its memory.
  if (way == CopyWay::peer && !measured()) way = CopyWay::device;
  if (!measured()) way = CopyWay::memory;
  return interpolate(copy_[static_cast<std::size_t>(way)], bytes);
}

double MachineProfile::host_update(double moved) const {
  const bool measured = !copy_[static_cast<std::size_t>(CopyWay::host_update)].empty();
  return measured ? copy(moved, CopyWay::host_update) : copy(moved / 2);
}

}  // namespace tandem::sim
