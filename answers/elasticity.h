// SPDX-License-Identifier: Apache-2.0
#pragma once
// What turning one figure of the machine would give: elasticities of the throughput, what it would be without
// a limit, and so what the throughput is bound by.
#include <optional>
#include <string>
#include <vector>

#include "answers/question.h"

namespace tandem::answers {

/// A figure of the system file that --set can turn, with its value there, or one of Speeds, which the file
/// does not hold as one figure.
struct Resource {
  std::string path;  ///< "links.pcie.bandwidth", "network.bandwidth", "host.core_speed" ...; "compute" ...
  double value = 0;  ///< bytes/s, or for host.core_speed and speeds a plain number; of kinds the largest
  bool bandwidth = true;
  double Speeds::*speed = nullptr;  ///< then `path` is none of the file
  /// The same figure of each kind of nodes that states it, as paths of --set with values; all are turned
  /// alike.
  std::vector<std::pair<std::string, double>> figures = {};
  /// The factor on it that stands for no limit: a thousand, or as much as a system file takes.
  double most() const;
  /// "16GB/s" as --set takes it; exact.
  std::string text(double factor = 1) const;
  /// Turns it by `factor` behind what was set before.
  void turn(System::Sets& sets, double factor) const;
};

/// Every link class, the network where several nodes make it matter, the host's storage and cores; then
/// "compute", "launch", "server" and "latency", with several devices "library" (what a collective library's
/// kernels move at most), with several nodes "threads" (of network libraries), and "timers" where packets are
/// lost. Together they are all that a step takes time for, but for fixed rates (staging buffers, single
/// streams), so that elasticities add up to 1 or a little less. Of
/// host.core_speed, which runs launches and threads too, what is neither counts.
std::vector<Resource> resources_of(const Question& question);

/// The question's system with one resource of its file turned by `factor`. Throws InputError.
System perturbed(const Question& question, const Resource& resource, double factor);

/// The question's request on a changed system; an anchor stays what it was measured on.
Request request_on(const Question& question, const System& system, int64_t devices);

/// The question's samples/s with one resource turned by `factor`. Throws InputError.
double rate_with(const Question& question, const Resource& resource, double factor, int64_t devices);

struct Elasticity {
  Resource resource;
  /// d log(samples/s) / d log(resource) per entry of Question::devices: central difference of the whole
  /// prediction over a step of 1 % up and down (5 % where the order of arrival decides), so at a kink the
  /// mean of both sides. Below 0 only where a step of 20 % says so too. Absent where that many devices do not
  /// hold the model.
  std::vector<std::optional<double>> at;
  /// The relative gain in samples/s with a thousand times as much of it, which tells of a kink.
  std::vector<std::optional<double>> unlimited;
};

/// By how much a resource is turned up and down: 0.01, or 0.05 where the order of arrival decides.
double elasticity_step(const Question& question);

/// Largest magnitude on the most devices that hold the model first. Throws InputError with what would help
/// where none do; without `check_memory` all are taken to hold it. Cost: three predictions per resource and
/// device count.
std::vector<Elasticity> elasticities(const Question& question, bool check_memory = true);

/// On a machine of more links not even a few changes are tried out.
constexpr std::size_t kMostLinksVaried = 20'000;

/// Whether some ten more predictions beside this one would still come at once.
bool quick_to_vary(const Question& question, const Report& report);

/// Replaces the bottleneck of the question's report by the resource with the largest elasticity. Resources
/// that the report shows to be unused are not tried, and none after those that leave less than the largest
/// has, since elasticities add up to 1: some three to ten predictions of a rate, two at a time. Leaves
/// reports of very long simulations as they are, and says so in a note.
void find_bottleneck(const Question& question, Report& report);

}  // namespace tandem::answers
