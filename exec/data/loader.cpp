// SPDX-License-Identifier: Apache-2.0
#include "exec/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.h"

namespace tandem::exec {

ImageShape image_shape(const ExecutionGraph& n) {
  const auto fail = [&](const std::string& why) {
    throw InputError(fmt::format("{} takes no pictures: {}", n.graph().name(), why));
  };
  if (n.inputs().size() != 1) fail(fmt::format("it has {} inputs", n.inputs().size()));
  const Tensor& in = n.tensors()[n.inputs()[0]];
  const Shape& shape = n.graph().layers()[in.layer].output;
  if (in.integer) fail("it takes tokens");
  if (shape.size() != 3 || (shape[0] != 1 && shape[0] != 3))
    fail(fmt::format("its input is {}, not 1 or 3 channels, height and width", to_text(shape)));
  return {{shape[2], shape[1]}, shape[0]};
}

void share_out(int64_t count, int64_t threads, const std::function<void(int64_t, int64_t)>& work) {
  std::atomic<int64_t> next{0};
  std::exception_ptr failed;
  std::mutex mutex;
  const auto take = [&](int64_t thread) {
    try {
      for (int64_t i = next++; i < count; i = next++) work(i, thread);
    } catch (...) {
      next = count;
      const std::lock_guard guard(mutex);
      if (!failed) failed = std::current_exception();
    }
  };
  std::vector<std::jthread> helpers;
  for (int64_t k = 1; k < std::min(threads, count); ++k) helpers.emplace_back(take, k);
  take(0);
  helpers.clear();
  if (failed) std::rethrow_exception(failed);
}

Loader::Loader(const Setup& setup)
    : setup_(setup),
      order_(setup.images->samples(), setup.seed),
      places_(static_cast<std::size_t>(setup.places)),
      scratch_(static_cast<std::size_t>(setup.threads)) {
  const auto batch = static_cast<std::size_t>(setup.share.samples);
  for (Batch& b : places_) {
    b.encoded.resize(batch);
    b.labels.resize(batch);
    b.values.resize(batch * static_cast<std::size_t>(setup.shape.values()));
  }
}

void Loader::read(int64_t batch) {
  Batch& b = at(batch);
  b.samples = order_.batch(setup_.share, batch);
  share_out(setup_.share.samples, setup_.threads, [&](int64_t i, int64_t) {
    const auto k = static_cast<std::size_t>(i);
    setup_.images->read(b.samples[k], b.encoded[k]);
    b.labels[k] = setup_.images->label(b.samples[k]);
  });
}

void Loader::decode(int64_t batch) {
  Batch& b = at(batch);
  share_out(setup_.share.samples, setup_.threads, [&](int64_t i, int64_t thread) {
    const auto k = static_cast<std::size_t>(i);
    try {
      exec::decode(b.encoded[k], setup_.shape, scratch_[static_cast<std::size_t>(thread)],
                   b.values.data() + i * setup_.shape.values());
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}: {}", printable(setup_.images->path()),
                                   printable(setup_.images->place(b.samples[k])), error.what()));
    }
  });
}

}  // namespace tandem::exec
