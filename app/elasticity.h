#pragma once
// What turning one figure of the machine by a little would give: elasticities of the throughput. Floor 5.
#include <string>
#include <vector>

#include "app/question.h"

namespace tandem {

/// A figure of the system file that --set can turn, with its value there.
struct Resource {
  std::string path;  ///< "links.pcie.bandwidth", "network.bandwidth", "host.core_speed", ...
  double value = 0;  ///< bytes/s, or for host.core_speed a plain number
  bool bandwidth = true;
  /// "16GB/s" as --set takes it; exact.
  std::string text(double factor = 1) const;
};

/// Every link class, the network where several nodes make it matter, and the host's storage and cores.
std::vector<Resource> resources_of(const Question& question);

/// The question's system with one resource turned by `factor`. Throws InputError.
System turned(const Question& question, const Resource& resource, double factor);

/// The question's prediction on a changed system; an anchor stays what it was measured on.
Prediction prediction_on(const Question& question, const System& system, int64_t devices);

struct Elasticity {
  Resource resource;  ///< path "compute": the speed of all kernels on the accelerators
  /// d log(samples/s) / d log(resource) per entry of Question::devices: central difference of the whole
  /// prediction over a step of 1 % up and down, so at a kink the mean of both sides.
  std::vector<double> at;
};

/// Largest magnitude on the most devices first. Cost: two predictions per resource and device count.
std::vector<Elasticity> elasticities(const Question& question);

/// As text and Markdown a column per device count, as csv a row per resource and count, or JSON
/// ("tandem-elasticities-1").
std::string elasticities_as(const Question& question, const std::vector<Elasticity>& all,
                            const std::string& format);

}  // namespace tandem
