// SPDX-License-Identifier: Apache-2.0
#pragma once
// Prices of kernels from measured ones: a curve through all of a kind and pass, and what the nearest took
// more or less than it. Seconds unless said. Values and const functions: any thread may call them.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/json_writer.h"
#include "base/units.h"
#include "models/layers/kernel.h"

namespace tandem::sim {

/// One kernel as measured: the median over its launches.
struct KernelSample {
  Kernel kernel;
  double seconds = 0;
  uint32_t source = 0;   ///< graph of the suite that it stood in
  Bytes step = {};       ///< what all kernels of that graph's step move
  int64_t launches = 0;  ///< of it in that step; 0: the profile does not say
};

/// seconds = sum over efforts of count x `per` of it, all >= 0, fitted over all sizes of one kind and pass.
///
/// A processor's kernels take a start, and a time for each flop and byte. Products on a GPU reach what their
/// sizes allow: M N K / (M N) = K and so on, so that flops x (1 + edge / M) (1 + edge / N) (1 + depth / K)
/// (sim/cost/kernel_cost.h) is, but for terms that only the smallest have, a sum over flops, results
/// (flops / K) and elements of both operands (flops / N, flops / M). Their libraries take other ways, several
/// times as slow, where rows of operands do not begin at 16 bytes, and for grouped convolutions.
struct KernelCurve {
  enum Effort : uint8_t {
    launch,
    flop,
    byte,
    result,  ///< elements of C, of A and of B, as the product reads them: a convolution's taps count each
    left,
    right,
    odd_flop,  ///< of products with operands whose rows are no multiple of eight elements
    grouped_flop,
    grouped_byte,  ///< of grouped convolutions: in place of all others but the launch
    kEfforts
  };
  using Efforts = std::array<double, kEfforts>;
  Efforts per{};
  bool products = false;  ///< of a GPU's products: else launch, flop and byte alone
  double spread = 0;      ///< standard deviation of log(measured / curve)
  int64_t samples = 0;
  /// `as_dense`: a grouped convolution as its groups' products would take if they were any others.
  double seconds(const Kernel& kernel, bool as_dense = false) const;
  static Efforts efforts(const Kernel& kernel, bool products, bool as_dense = false);
  /// The members of a profile's curve, but for its kind and pass. Throws InputError.
  static KernelCurve from_json(const Json& json);
  void to_json(JsonWriter& out) const;
};

/// Where a kernel lies among others of its kind and pass: logarithms to base 2 of what decides its
/// efficiency. An update passes over each parameter once a step: caches hold what they still can after all
/// that the `step` moves in between, whatever the size of one tensor. `apart`: on a GPU, where convolutions
/// are the products that they do, and alignment counts; the last number of all others says whether they are
/// made in another's launch (Kernel::fused). Executors on processors make each by itself.
std::vector<double> position(const Kernel& kernel, Bytes step, bool apart = false);

/// Prices a kernel from measured ones of its kind and pass: the curve, times what the nearest ones (weights
/// fall with the fourth power of the distance) took more or less than theirs. `without`: a source whose
/// samples do not count (leave-one-out).
class KernelNeighbours {
 public:
  /// Distance to the nearest measured kernel (in factors of two) from which it tells no more than the curve.
  static constexpr double kFar = 4;
  /// In the place of a distance, of a grouped convolution on a GPU where none was measured: libraries take
  /// other ways for these. Set on those of ResNeXt-50 on an H200 in fp32, where cuDNN's take 2.5 times as
  /// long as is said here, and tf32: with that profile's 0.07 a distance it is a factor of two.
  static constexpr double kUnlike = 10;
  /// `apart`: measured on a device with its own memory, a GPU.
  KernelNeighbours(std::vector<KernelSample> samples, std::vector<KernelCurve> curves, bool apart = false);
  /// All `repeat` launches in a step that moves `step`. `distance`, when given, receives that of the nearest
  /// sample, at most kFar, or kUnlike.
  double seconds(const Kernel& kernel, Bytes step, double* distance = nullptr,
                 std::optional<uint32_t> without = {}) const;
  const std::vector<KernelSample>& samples() const { return samples_; }
  const std::vector<KernelCurve>& curves() const { return curves_; }
  static std::size_t group(const Kernel& kernel) {
    return static_cast<std::size_t>(kernel.kind) * kPasses + static_cast<std::size_t>(kernel.pass);
  }

 private:
  double seconds_in_groups(const Kernel& kernel) const;

  std::vector<KernelSample> samples_;
  std::vector<KernelCurve> curves_;  ///< [kind x passes + pass]
  bool apart_;
  bool marks_ = false;  ///< some sample is fused; else it is not known which were, and none counts as such
  std::vector<std::vector<std::size_t>> members_;  ///< [group]: indices of samples
  std::vector<std::vector<double>> positions_;     ///< [sample]
  std::vector<double> residuals_;                  ///< [sample]: log(measured / curve)
};

/// Adds that the kernel was unlike any measured, once a kind and pass.
void note_far(const Kernel& kernel, std::vector<std::string>& notes);

}  // namespace tandem::sim
