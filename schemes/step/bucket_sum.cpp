// SPDX-License-Identifier: Apache-2.0
#include "schemes/step/bucket_sum.h"

#include <fmt/format.h>

#include <utility>

namespace tandem::schemes {

BucketSum::BucketSum(const SumRule& rule, const Graph& graph, const Builder& builder, SummedBucket bucket)
    : rule_(rule), bucket_(std::move(bucket)) {
  if (rule.compresses())
    form_.emplace(rule.compression, graph, builder.program().buckets[bucket_.key], rule.members);
}

/// Between FP32 and FP16: the smaller side has 2 bytes.
Kernel BucketSum::cast(Pass pass, bool shrink) const {
  Kernel k;
  k.kind = KernelKind::elementwise;
  k.pass = pass;
  k.shape = {bucket_.elements, 1};
  k.flops = {bucket_.elements};
  const Bytes wide = Bytes{4} * bucket_.elements, narrow = Bytes{2} * bucket_.elements;
  k.read = shrink ? wide : narrow;
  k.written = shrink ? narrow : wide;
  return k;
}

OpId BucketSum::work(RoleBuilder& role, Pass pass, std::vector<Kernel> kernels, const char* what,
                     Payload payload, OpId after) const {
  return role
      .compute({bucket_.layers.first, bucket_.layers.layers, pass, std::move(kernels)},
               fmt::format("{} {}", what, bucket_.name))
      .of(payload, bucket_.key)
      .after(after)
      .every(rule_.every)
      .micro(rule_.micro);
}

OpId BucketSum::collective(RoleBuilder& role, CollKind kind, Bytes bytes, const char* what,
                           OpId after) const {
  return role.collective(kind, rule_.axes, bytes, rule_.algorithm, fmt::format("{} {}", what, bucket_.name))
      .on(rule_.lane)
      .of(form_ ? Payload::compressed : Payload::gradients, bucket_.key)
      .after(after)
      .every(rule_.every)
      .micro(rule_.micro);
}

OpId BucketSum::pack(RoleBuilder& role, OpId gradient) const {
  constexpr Pass kPass = Pass::backward_weights;
  if (rule_.casts) return work(role, kPass, {cast(kPass, true)}, "compress", Payload::gradients, {});
  return form_ ? work(role, kPass, form_->compress(), "compress", Payload::gradients, gradient) : gradient;
}

OpId BucketSum::begin(RoleBuilder& role, OpId packed) const {
  if (!form_) return collective(role, CollKind::all_reduce, bucket_.bytes, "all-reduce", packed);
  if (form_->gathered())
    return collective(role, CollKind::all_gather, Bytes{4} * form_->words(), "all-gather", packed);
  OpId sum;
  const auto add = [&](int64_t words, const char* what) {
    if (words > 0) sum = collective(role, CollKind::all_reduce, Bytes{4} * words, what, packed);
  };
  add(form_->plain(), "all-reduce vectors of");
  add(form_->message() - form_->plain(), "all-reduce P of");
  return sum;
}

/// Under it the next bucket's first sum is made orthonormal.
OpId BucketSum::finish(RoleBuilder& role, OpId sum) const {
  if (!form_ || form_->gathered() || form_->second() == 0) return sum;
  const OpId thin =
      work(role, Pass::backward_weights, form_->orthogonal(), "orthogonalise", Payload::compressed, sum);
  return collective(role, CollKind::all_reduce, Bytes{4} * form_->second(), "all-reduce Q of", thin);
}

OpId BucketSum::unpack(RoleBuilder& role, OpId sum) const {
  if (!rule_.casts && !form_) return sum;
  return work(role, Pass::update,
              rule_.casts ? std::vector<Kernel>{cast(Pass::update, false)} : form_->decompress(),
              "decompress", Payload::gradients, sum);
}

}  // namespace tandem::schemes
