// SPDX-License-Identifier: Apache-2.0
#include "schemes/step/stage_average.h"

#include <utility>

#include "schemes/step/compression.h"
#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

/// What is done to a device's part of a bucket.
OpId work_on_part(RoleBuilder& role, const StageBucket& bucket, const OuterStep& outer,
                  std::vector<Kernel> kernels, const char* what, OpId after, const Averaging& rule = {}) {
  Task task{bucket.layers.first, bucket.layers.layers, Pass::update, std::move(kernels)};
  task.averaging = rule;
  return role.compute(std::move(task), what + bucket.name)
      .of(bucket.shards > 1 ? Payload::shard : Payload::parameters, bucket.key)
      .after(after)
      .every(outer.every)
      .id();
}

}  // namespace

void average_stage(RoleBuilder& role, const std::vector<StageBucket>& buckets, const OuterStep& outer,
                   uint32_t axes, int64_t tensors, std::vector<OpId>& updated) {
  const bool compresses = outer.compression.kind != Compression::Kind::none;
  const auto share = [](const StageBucket& b) { return b.share_of(b.elements); };
  for (std::size_t i = 0; i < updated.size(); ++i) {
    const StageBucket& b = buckets[i];
    const CompressedBucket form(outer.compression, share(b));
    if (compresses) updated[i] = work_on_part(role, b, outer, form.compress(), "compress ", updated[i]);
    updated[i] = role.collective(CollKind::all_reduce, axes,
                                 Bytes{4} * (compresses ? form.message() : share(b) * tensors),
                                 outer.algorithm, "average " + b.name)
                     .on(Lane::reduce)
                     .of(outer.state ? Payload::state : Payload::parameters, b.key)
                     .after(updated[i])
                     .every(outer.every);
  }
  for (std::size_t i = 0; i < updated.size(); ++i) {
    const StageBucket& b = buckets[i];
    const CompressedBucket form(outer.compression, share(b));
    if (compresses) updated[i] = work_on_part(role, b, outer, form.decompress(), "decompress ", updated[i]);
    if (outer.averaging.rule != Averaging::Rule::none)
      updated[i] = work_on_part(role, b, outer, {averaging_kernel(outer.averaging, share(b))}, "average ",
                                updated[i], outer.averaging);
  }
}

}  // namespace tandem::schemes
