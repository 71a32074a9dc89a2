// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/kernel_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>

#include "base/data.h"
#include "base/json.h"
#include "sim/cost/product.h"

namespace tandem::sim {
namespace {

constexpr double kWinograd = 2.25;       // F(2x2, 3x3): 36 multiplications become 16
constexpr double kTile = 128.0 * 128.0;  // outputs of one thread block of a large product
constexpr double kDepth = 512;           // multiply-adds per output at which `fill` is stated
constexpr double kLarge = 0.97;          // `used` of the products that boards are measured by, 4,096 and more

// clang-format off
/// Members of a curve in stock.json, as used in the formula of the header.
enum Term : int {
  gemm, point, point_data, point_weights, conv, conv_data, conv_weights, attention,  // achieved part of the peak
  winograd, grouped, odd, edge, depth, fill, scores,                                          // factors and sizes
  traffic, depthwise, depthwise_data, depthwise_weights, norm, norm_data, softmax,   // ... of the bandwidth
  pool, pool_data, elementwise, elementwise_data, embedding, update,
  kTerms
};
constexpr std::array<std::string_view, kTerms> kNames{
  "gemm", "point", "point-data", "point-weights", "conv", "conv-data", "conv-weights", "attention",
  "winograd", "grouped", "odd", "edge", "depth", "fill", "scores",
  "traffic", "depthwise", "depthwise-data", "depthwise-weights", "norm", "norm-data", "softmax",
  "pool", "pool-data", "elementwise", "elementwise-data", "embedding", "update"};
// clang-format on

/// Efficiencies are in (0, 1]; the few sizes have their own ranges.
double read_term(const Json& json, int term) {
  switch (term) {
    case winograd:
      return json.as_real(1, kWinograd);
    case edge:
    case depth:
      return json.as_real(0, 1e4);
    case fill:
    case scores:
      return json.as_real(0, 100);
    default:
      return json.as_real(1e-3, 1);
  }
}

struct Curve {
  std::array<double, kTerms> term{};
  double stream = 0;  // bytes/s of one unit (SM, core)
  double feed = 0;    // FLOP/s that one unit can gather 2-byte convolution operands for
  double relative_error = 0;
  bool fitted = false;  // from measurements of this very architecture and arithmetic
};

struct Architecture {
  std::string name;
  bool matrix_units = false;  // else fp16 arithmetic is fp32 arithmetic on smaller data
  Curve fp32, matrix;
};

Curve read_curve(const Json& json) {
  std::vector<std::string> keys{"stream_gbs", "feed_tflops", "relative_error", "measurements"};
  keys.insert(keys.end(), kNames.begin(), kNames.end());
  json.only(keys);
  Curve c;
  for (int t = 0; t < kTerms; ++t) c.term[t] = read_term(json.at(kNames[t]), t);
  c.stream = json.at("stream_gbs").as_real(1e-3, 1e6) * 1e9;
  c.feed = json.at("feed_tflops").as_real(1e-3, 1e6) * 1e12;
  c.relative_error = json.at("relative_error").as_real(0, 10);
  c.fitted = json.at("measurements").as_int(0) >= 3;
  return c;
}

struct Profile {
  std::vector<Architecture> architectures;
  double unknown_error = 0;  // of an architecture left out of the fit
  Json assumed;              // kind of device -> architecture whose curves stand in for an unknown one

  const Architecture* find(std::string_view name) const {
    for (const Architecture& a : architectures) {
      if (a.name == name) return &a;
    }
    return nullptr;
  }
  /// The newest of the family that a name without curves belongs to: "cdna3" for "cdna4"; null where there is
  /// none.
  const Architecture* relative(std::string_view name) const {
    const auto family = [](std::string_view n) { return n.substr(0, n.find_first_of("0123456789")); };
    const Architecture* out = nullptr;
    for (const Architecture& a : architectures) {
      if (family(a.name) == family(name) && family(name) != name && (out == nullptr || out->name < a.name))
        out = &a;
    }
    return out;
  }
};

Profile read_profile(const std::string& name) {
  const Json json = Json::load(find_data("calibration/profiles", "profile", name));
  json.only({"summary", "written_by", "unknown", "architectures"});
  Profile p;
  for (const auto& [name, a] : json.at("architectures").members()) {
    a.only({"matrix_units", "fp32", "matrix"});
    p.architectures.push_back(
        {name, a.boolean("matrix_units", false), read_curve(a.at("fp32")), read_curve(a.at("matrix"))});
  }
  p.assumed = json.at("unknown");
  p.assumed.only({"gpu", "cpu", "tpu", "relative_error"});
  p.unknown_error = p.assumed.at("relative_error").as_real(0, 10);
  for (const char* kind : {"gpu", "cpu", "tpu"}) {
    const Json& name = p.assumed.at(kind);
    if (p.find(name.as_text()) == nullptr) name.fail(fmt::format("no architecture \"{}\"", name.as_text()));
  }
  return p;
}

/// Read once per process and name; entries never move.
const Profile& profile_of(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, Profile> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(name);
  return found != known.end() ? found->second : known.emplace(name, read_profile(name)).first->second;
}

double count(int64_t n) { return static_cast<double>(n); }

double p4(double a, double b) { return std::sqrt(std::sqrt(a * a * a * a + b * b * b * b)); }

}  // namespace

struct KernelCost::Impl {
  Curve curve;
  /// Of products: what efficiencies are relative to, and the fastest measured.
  struct Rate {
    double peak = 0, best = 0;
  };
  Rate product, half;  ///< half: of those that stay in 2 bytes under fp8
  double bandwidth, units, launch, element;
  bool fp32_arithmetic;
  bool copies_operands;  ///< of convolutions, to channels last
  double slow_groups;    ///< FLOP/s of weights' gradients in groups (Recipe::Convolutions); 0: as others
  Recipe recipe;
  Precision precision;
  Recipe::Kernels factors;
  std::vector<std::string> assumptions;

  double peak_of(const Kernel& k) const {
    return (k.half || k.kind == KernelKind::attention ? half : product).peak;
  }

  /// Moves bytes at the achieved part of the bandwidth, and no faster than the units can ask for them.
  double stream(double bytes, int term) const {
    return bytes / (bandwidth * curve.term[term]) + bytes / (units * curve.stream);
  }

  /// How often fewer bytes than written down a kernel moves.
  double fused(const Kernel& k) const {
    const bool streams =
        k.kind == KernelKind::norm || k.kind == KernelKind::pool || k.kind == KernelKind::elementwise;
    const bool counted = k.sums && recipe.accumulation.composed();
    return streams && !k.apart && !counted ? factors.stream : 1;
  }

  /// What work() finds besides the seconds.
  struct Found {
    double gain = 1;  ///< how many times fewer multiplications than written down
    Needs needs;
  };

  double matrix(const Rate& rate, double flops, const Product& p, double efficiency, double bytes,
                Found* found, double gather = 0) const {
    const auto& t = curve.term;
    const double tiles = p.groups * p.m * p.n / kTile / units * std::sqrt(p.k / kDepth);
    const double used = p.m / (p.m + t[edge]) * (p.n / (p.n + t[edge])) * (p.k / (p.k + t[depth])) *
                        (tiles / (tiles + t[fill]));
    const double moving = stream(bytes, traffic);
    const double seconds = p4(flops / std::min(rate.peak * efficiency * used, rate.best) + gather, moving);
    found->needs = {true, moving / seconds};
    return seconds;
  }

  double convolution(const Kernel& k, double bytes, Found* found) const {
    const ConvShape s = ConvShape::unpack(k.shape);
    const int pass = k.pass == Pass::forward ? 0 : k.pass == Pass::backward_data ? 1 : 2;
    const auto& t = curve.term;
    // Depthwise: one multiply-add per byte or so.
    if (s.groups > 1 && s.groups == s.in_channels) return stream(bytes, depthwise + pass);
    if (pass == 2 && slow_groups > 0 && s.groups > 1 && s.groups % 32 != 0) {
      found->needs = {true, 0};
      return count(k.flops.n) / (slow_groups * std::max(1.0, count(s.in_channels / s.groups) / 64));
    }
    const std::array<int64_t, 3> ones{1, 1, 1};
    const bool pointwise = s.kernel == ones;
    const bool three = s.kernel == std::array<int64_t, 3>{1, 3, 3};
    const bool unit = s.stride == ones && s.dilation == ones;
    const bool fast = fp32_arithmetic && three && unit;
    if (fast) found->gain = kWinograd;
    const bool few = wants_eights() && s.groups == 1 && (s.in_channels % 8 != 0 || s.out_channels % 8 != 0);
    const bool copies = copies_operands && s.groups == 1;
    const double efficiency = t[(pointwise ? point : conv) + pass] * (fast ? t[winograd] : 1) *
                              (s.groups > 1 ? t[grouped] : 1) * (few ? t[odd] : 1) *
                              (copies ? recipe.convolutions.copied : factors.convolution);
    const double flops = count(k.flops.n);
    const double gather = fp32_arithmetic ? 0 : flops / (units * curve.feed) * element / 2;
    // Their efficiencies are of convolutions that were measured themselves.
    const Rate rate{product.peak, std::numeric_limits<double>::infinity()};
    return matrix(rate, flops, product_of(s, k.pass), efficiency, bytes, found, gather) +
           (copies ? stream(2 * count(k.read.n), elementwise) : 0);
  }

  /// {batch, heads, kv_heads, query, key, head_dim, causal, fused}: two products, and `scores` passes over
  /// the batch x heads x query x key matrix where it is kept in memory.
  double attend(const Kernel& k, double bytes, Found* found) const {
    const double matrices = count(k.shape[0]) * count(k.shape[1]);
    const double query = count(k.shape[3]), key = count(k.shape[4]);
    const bool fused = k.shape[7] != 0;
    // Not fused, operands and results are copied to heads and back.
    const double extra =
        fused ? 0 : curve.term[scores] / factors.scores * matrices * query * key * element + 2 * bytes;
    return matrix(half, count(k.flops.n), {matrices, query, key, count(k.shape[5])},
                  curve.term[attention] * (fused ? factors.attention : 1), bytes + extra, found);
  }

  /// Matrix units take 16 bytes of innermost numbers at a time: here eight numbers of 2 bytes.
  bool wants_eights() const { return !fp32_arithmetic && element <= 2 && !recipe.pads_products; }

  /// Of features, which lie innermost, not of the tokens or pictures that are the rows.
  bool odd_sizes(const Kernel& k) const {
    if (!wants_eights()) return false;
    const bool weights = k.pass == Pass::backward_weights;
    return k.shape[weights ? 1 : 3] % 8 != 0 || k.shape[2] % 8 != 0;
  }

  /// {groups, m, n, k}. In fp8 both operands of a forward product and the gradient of a backward one are
  /// first cast, and written in two layouts for the passes that read them: 2 bytes read, 2 written. The third
  /// product finds its operands cast (Transformer Engine).
  double multiply(const Kernel& k, double bytes, Found* found) const {
    const Product p{count(k.shape[0]), count(k.shape[1]), count(k.shape[2]), count(k.shape[3])};
    const double seconds = matrix(k.half ? half : product, count(k.flops.n), p,
                                  curve.term[gemm] * (odd_sizes(k) ? curve.term[odd] : 1), bytes, found);
    if (precision != Precision::fp8 || k.half || fp32_arithmetic || k.pass == Pass::backward_weights)
      return seconds;
    const double cast = p.groups * p.k * (p.m + (k.pass == Pass::forward ? p.n : 0));
    return seconds + stream(4 * cast, elementwise);
  }

  double work(const Kernel& k, double bytes, Found* found) const {
    const bool forward = k.pass == Pass::forward;
    switch (k.kind) {
      case KernelKind::gemm:
        return multiply(k, bytes, found);
      case KernelKind::conv:
        return convolution(k, bytes, found);
      case KernelKind::attention:
        return attend(k, bytes, found);
      case KernelKind::norm:
        return stream(bytes, forward ? norm : norm_data);
      case KernelKind::softmax:
        return stream(bytes / factors.softmax, softmax);
      case KernelKind::pool:
        return stream(bytes, forward ? pool : pool_data);
      case KernelKind::elementwise:
        return stream(bytes, forward ? elementwise : elementwise_data);
      case KernelKind::embedding:
        return stream(bytes, embedding);
      case KernelKind::optimizer:
        return stream(bytes, update);
    }
    return stream(bytes, elementwise);
  }
};

KernelCost::KernelCost(const Device& device, Precision precision, const std::string& profile_name,
                       const Recipe& recipe)
    : impl_(std::make_unique<Impl>()) {
  const Profile& profile = profile_of(profile_name);
  const Architecture* a = profile.find(device.kernels);
  if (a == nullptr) {
    const char* kind = device.kind == Device::Kind::gpu   ? "gpu"
                       : device.kind == Device::Kind::cpu ? "cpu"
                                                          : "tpu";
    a = profile.relative(device.kernels);
    if (a == nullptr) a = profile.find(profile.assumed.at(kind).as_text());
    impl_->assumptions.push_back(fmt::format("no measurements of architecture {}: kernels cost as on {}",
                                             printable(device.kernels), a->name));
  }
  const double peak = device.product_peak(precision).flops_per_second;
  const double fp32 = device.peak_at(Precision::fp32).flops_per_second;
  // Consumer boards compute TF32 no faster than FP32: libraries then keep FP32 and its Winograd kernels.
  const bool matrix = a->matrix_units && peak > fp32;
  impl_->fp32_arithmetic = !matrix;
  impl_->curve = matrix ? a->matrix : a->fp32;
  impl_->recipe = recipe;
  impl_->precision = precision;
  impl_->factors = matrix ? recipe.matrix : recipe.fp32;
  // Without matrix units libraries accumulate fp16 products in fp32, whatever the fp16 rate is. Where a
  // board's fastest product is less than the curve's part of the datasheet, power holds its clock down: then
  // the peak is what that product is the curve's part of.
  const auto rate = [&](Precision p) {
    const bool own = matrix || p == Precision::tf32;
    const double best =
        device.best_product[static_cast<std::size_t>(own ? p : Precision::fp32)].flops_per_second;
    const double stated = matrix ? device.product_peak(p).flops_per_second : fp32;
    if (!(best > 0)) return Impl::Rate{stated, std::numeric_limits<double>::infinity()};
    return Impl::Rate{std::min(stated, best / (impl_->curve.term[gemm] * kLarge)),
                      matrix ? best : std::numeric_limits<double>::infinity()};
  };
  impl_->product = rate(precision);
  impl_->half = rate(precision == Precision::fp8 ? Precision::bf16 : precision);
  if (!(impl_->product.peak > 0) || !(device.memory_bandwidth.bytes_per_second > 0)) {
    throw InputError(fmt::format("device {}: no arithmetic rate or no memory bandwidth for {}",
                                 printable(device.name), name(precision)));
  }
  impl_->bandwidth = device.memory_bandwidth.bytes_per_second;
  impl_->units = std::max(1, device.units);
  impl_->launch = device.launch.seconds();
  impl_->element = element_bytes(precision);
  const bool cudnn = matrix && impl_->element == 2 && device.vendor == "NVIDIA";
  impl_->copies_operands = cudnn && recipe.convolutions.copied > 0;
  impl_->slow_groups = cudnn ? recipe.convolutions.grouped_gradients.flops_per_second * impl_->units : 0;
  if (!impl_->assumptions.empty()) {
    impl_->curve.relative_error = std::max(impl_->curve.relative_error, profile.unknown_error);
  } else if (!impl_->curve.fitted) {
    impl_->assumptions.push_back(
        fmt::format("no measurements of {} in {}: efficiencies are those of neighbouring architectures",
                    a->name, name(precision)));
  }
}

KernelCost::~KernelCost() = default;
KernelCost::KernelCost(KernelCost&&) noexcept = default;
KernelCost& KernelCost::operator=(KernelCost&&) noexcept = default;

double KernelCost::seconds(const Kernel& kernel, Needs* needs) const {
  const Impl& d = *impl_;
  if (const auto added = joins_norm(d.recipe, kernel)) {
    if (needs != nullptr) *needs = {};
    return count(kernel.repeat) * d.stream(count(added->n) / d.fused(kernel), norm);
  }
  const double bytes = (count(kernel.read.n) + count(kernel.written.n)) *
                       (upcasts(d.recipe, kernel, d.precision) ? 2 : 1) / d.fused(kernel);
  Impl::Found found;
  const double work = d.work(kernel, bytes, &found);
  if (needs != nullptr) *needs = found.needs;
  const double floor =
      std::max(count(kernel.flops.n) / (d.peak_of(kernel) * found.gain), bytes / d.bandwidth);
  const double repeat = count(launches(d.recipe, kernel, d.precision));
  double seconds = repeat * std::max(floor, d.launch + work);
  if (kernel.kind == KernelKind::optimizer) seconds = d.launch + repeat * std::max(floor, work);
  for (const Kernel& beside : {cast_beside(d.recipe, kernel, d.precision), bias_after(d.recipe, kernel)})
    if (!beside.shape.empty()) seconds += this->seconds(beside);
  return seconds;
}

double KernelCost::relative_error() const { return impl_->curve.relative_error; }
const std::vector<std::string>& KernelCost::extrapolates() const { return impl_->assumptions; }

}  // namespace tandem::sim
