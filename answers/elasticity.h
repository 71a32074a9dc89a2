// SPDX-License-Identifier: Apache-2.0
#pragma once
// The effect of changing one figure of the machine: elasticities of the throughput, the throughput without
// that limit, and so the bottleneck.
#include <optional>
#include <string>
#include <vector>

#include "answers/question.h"

namespace tandem::answers {

/// A figure of the system file that --set can change, with its value, or one of Speeds, which is no single
/// figure of the file.
struct Resource {
  std::string path;  ///< "links.pcie.bandwidth", "network.bandwidth", "host.core_speed" ...; "compute" ...
  double value = 0;  ///< bytes/s, or a plain number; the largest of several kinds of nodes
  bool bandwidth = true;
  double Speeds::*speed = nullptr;  ///< if set, `path` is not in the file
  /// The same figure of every kind of nodes that states it, as paths of --set with values; all change
  /// together.
  std::vector<std::pair<std::string, double>> figures = {};
  /// The factor that stands for "no limit": a thousand, or the largest that a system file accepts.
  double most() const;
  /// "16GB/s" as --set takes it; exact.
  std::string text(double factor = 1) const;
  /// Multiplies it by `factor`, after the earlier changes in `sets`.
  void turn(System::Sets& sets, double factor) const;
};

/// Every link class, the network if several nodes use it, the host's storage and cores; then "compute",
/// "launch", "server" and "latency"; with several devices "library" (throughput of the collective library's
/// kernels), with several nodes "threads" (of network libraries), and "timers" where packets are lost.
/// Together they cover all of a step but fixed rates (staging buffers, single streams), so elasticities add
/// up to 1 or slightly less. host.core_speed excludes launches and network threads, which count by
/// themselves.
std::vector<Resource> resources_of(const Question& question);

/// The question's system with one resource multiplied by `factor`. Throws InputError.
System perturbed(const Question& question, const Resource& resource, double factor);

/// The question's request on a changed system; an anchor keeps the system that it was measured on.
Request request_on(const Question& question, const System& system, int64_t devices);

/// The question's samples/s with one resource multiplied by `factor`. Throws InputError.
double rate_with(const Question& question, const Resource& resource, double factor, int64_t devices);

struct Elasticity {
  Resource resource;
  /// d log(samples/s) / d log(resource) per entry of Question::devices: central difference of the whole
  /// prediction over +-1 % (+-5 % where the order of arrival matters), so at a kink the mean of both sides.
  /// Negative only if a step of 20 % is too. Absent where the model does not fit that many devices.
  std::vector<std::optional<double>> at;
  /// Relative gain in samples/s with a thousand times as much of it; differs from the slope at a kink.
  std::vector<std::optional<double>> unlimited;
};

/// The step of the central difference: 0.01, or 0.05 where the order of arrival matters.
double elasticity_step(const Question& question);

/// Largest magnitude (on the most devices that hold the model) first. Throws InputError with what would help
/// if the model fits none of the counts; without `check_memory` it is taken to fit all. Slopes are those of
/// quiet_throughput(). Cost: three predictions per resource and device count.
std::vector<Elasticity> elasticities(const Question& question, bool check_memory = true);

/// Changes are not tried on machines with more links.
constexpr std::size_t kMostLinksVaried = 20'000;

/// Whether ten more predictions would still be quick.
bool quick_to_vary(const Question& question, const Report& report);

/// Sets the report's bottleneck to the resource with the largest elasticity. Skips idle resources and stops
/// once the rest cannot exceed the largest found, since elasticities add up to 1: three to ten predictions of
/// a rate, two at a time. Leaves reports of very long simulations unchanged, with a note.
void find_bottleneck(const Question& question, Report& report);

}  // namespace tandem::answers
