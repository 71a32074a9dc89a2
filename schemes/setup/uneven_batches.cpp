// SPDX-License-Identifier: Apache-2.0
#include "schemes/setup/uneven_batches.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace tandem::schemes {

std::vector<int64_t> in_proportion(const std::vector<double>& speeds, int64_t total) {
  TANDEM_CHECK(total >= static_cast<int64_t>(speeds.size()));
  const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  std::vector<int64_t> parts;
  std::vector<std::pair<double, std::size_t>> rest;
  for (const double speed : speeds) {
    const double wanted = static_cast<double>(total) * speed / sum;
    parts.push_back(std::max<int64_t>(1, static_cast<int64_t>(wanted)));
    rest.emplace_back(wanted - static_cast<double>(parts.back()), rest.size());
  }
  std::stable_sort(rest.begin(), rest.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  int64_t left = total - std::accumulate(parts.begin(), parts.end(), int64_t{0});
  for (std::size_t i = 0; left > 0; i = (i + 1) % rest.size(), --left) ++parts[rest[i].second];
  // Those that got one sample for less than half of one took it from the largest.
  for (; left < 0; ++left) --*std::max_element(parts.begin(), parts.end());
  return parts;
}

void check_batches(const Job& job, int64_t devices) {
  if (job.batches.empty()) return;
  const auto fail = [&](const std::string& why) {
    throw InputError(fmt::format("batches {}: {}", batches_text(job.batches), why));
  };
  if (static_cast<int64_t>(job.batches.size()) != devices)
    fail(fmt::format("{} for {} device{}, which need one each", job.batches.size(), devices,
                     devices == 1 ? "" : "s"));
  int64_t sum = 0;
  for (const int64_t samples : job.batches) {
    if (samples < 1) fail("every device needs at least 1 sample");
    sum = checked_add(sum, samples, "the samples of a step");
  }
  if (sum != checked_mul(job.batch, devices, "the samples of a step"))
    fail(fmt::format("{} samples in all, where {} devices of {} samples on average have {}", sum, devices,
                     job.batch, job.batch * devices));
}

void check_takes_uneven(const Program& program, const std::string& scheme) {
  if (!program.grid.axes.empty())
    throw InputError(fmt::format(
        "--batch-split: {} divides the model over devices, whose replicas have equal batches", scheme));
  if (free_running(program))
    throw InputError(fmt::format(
        "--batch-split: workers of {} do not wait for each other, so that fast ones train on more samples as "
        "it is",
        scheme));
}

bool averages_models(const Program& program) {
  const auto averages = [](const auto& of) { return of.averaging.rule != Averaging::Rule::none; };
  if (std::any_of(program.tasks.begin(), program.tasks.end(), averages)) return true;
  if (std::any_of(program.stores.begin(), program.stores.end(), averages)) return true;
  return std::any_of(program.roles.begin(), program.roles.end(), [&](const Role& role) {
    return std::any_of(role.ops.begin(), role.ops.end(), [&](const Op& op) {
      return op.kind == OpKind::collective && program.collectives[op.what].kind == CollKind::all_reduce &&
             (op.payload == Payload::parameters || op.payload == Payload::state ||
              op.payload == Payload::mean);
    });
  });
}

std::vector<std::string> uneven_notes(const Job& job, const std::string& divided) {
  std::vector<std::string> out{divided + "; gradients are averaged over samples, not over devices"};
  const auto& layers = job.graph->layers();
  const bool norm = std::any_of(layers.begin(), layers.end(), [](const Layer& layer) {
    return layer.type != nullptr && layer.type->name == "batch-norm";
  });
  if (norm && !job.sync_batch_norm)
    out.push_back(job.graph->name() +
                  " has batch normalisation, whose statistics are of each device's own samples: those with "
                  "fewer get noisier ones (--batch-norm sync takes them over all)");
  return out;
}

std::string batches_text(const std::vector<int64_t>& batches) {
  return fmt::format("{}", fmt::join(batches, ","));
}

}  // namespace tandem::schemes
