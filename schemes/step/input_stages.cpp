// SPDX-License-Identifier: Apache-2.0
#include "schemes/step/input_stages.h"

#include <cmath>

#include "base/units.h"

namespace tandem::schemes {

std::string_view name(ImageFormat format) {
  constexpr std::string_view names[] = {"jpeg", "png"};
  return names[static_cast<std::size_t>(format)];
}

double stored_bytes(const Workload& work) {
  return work.loading.data ? work.loading.data->bytes : static_cast<double>(work.graph->sample().stored.n);
}

bool is_encoded(const Workload& work) {
  return work.loading.data ? work.loading.data->pixels > 0 : work.graph->sample().decode_seconds > 0;
}

InputOps add_input(RoleBuilder& role, const Workload& work, int64_t parts, int32_t micro) {
  const auto part = [&](int64_t all) { return Bytes{(all + parts - 1) / parts}; };
  const Bytes decoded = part(checked_mul(work.graph->sample().decoded.n, work.batch, "the input's bytes"));
  const auto mean = static_cast<int64_t>(std::llround(stored_bytes(work)));
  const Bytes stored = part(checked_mul(mean, work.batch, "the input's bytes"));
  const Loading& how = work.loading;
  const bool reads = !how.decoded && stored.n > 0, decodes = reads && is_encoded(work);
  InputOps out;
  OpId ready;
  const auto add = [&](CopyKind kind, Bytes bytes, std::string_view label) {
    ready = role.input(kind, work.batch, bytes, label).after(ready).micro(micro);
    return ready;
  };
  if (reads) out.read = add(CopyKind::read, stored, "read");
  if (decodes && !how.on_device) add(CopyKind::decode, decoded, "decode");
  out.copy = add(CopyKind::input, decodes && how.on_device ? stored : decoded, "input");
  if (decodes && how.on_device) add(CopyKind::decode_device, decoded, "decode");
  out.ready = ready;
  return out;
}

void keep_prefetch(RoleBuilder& role, const std::vector<InputOps>& batches, int64_t prefetch) {
  const auto count = static_cast<int64_t>(batches.size());
  if (prefetch == 0) {
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const OpId first = batches[i].read.valid() ? batches[i].read : batches[i].copy;
      if (i == 0)
        role.builder().after_iteration(role, first);
      else
        role.op(first).after(batches[i - 1].copy);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    if (!batches[static_cast<std::size_t>(i)].read.valid()) continue;
    int64_t before = i - prefetch;
    uint16_t lag = 0;
    for (; before < 0; before += count) ++lag;
    OpHandle read = role.op(batches[static_cast<std::size_t>(i)].read);
    const OpId copied = batches[static_cast<std::size_t>(before)].copy;
    lag == 0 ? read.after(copied) : read.after_last(copied, lag);
  }
}

}  // namespace tandem::schemes
