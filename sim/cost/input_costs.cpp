// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/input_costs.h"

namespace tandem::sim {

namespace {

constexpr double kImageBytes = 110e3, kImageSeconds = 4.2e-3, kImagePixels = 500 * 375;
constexpr double kDevicePixels = 7830.0 * 551 * 676;  ///< per second

}  // namespace

double decode_seconds(const Job& job) {
  const auto& data = job.loading.data;
  if (job.loading.decode_seconds > 0) return job.loading.decode_seconds;
  return data ? kImageSeconds * data->bytes / kImageBytes : job.graph->sample().decode_seconds;
}

double device_decode_seconds(const Job& job) {
  const auto& data = job.loading.data;
  const double pixels = data ? data->pixels : kImagePixels * decode_seconds(job) / kImageSeconds;
  return pixels / kDevicePixels;
}

}  // namespace tandem::sim
