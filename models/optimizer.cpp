// SPDX-License-Identifier: Apache-2.0
#include "models/optimizer.h"

#include <fmt/format.h>

namespace tandem::models {

const std::vector<Optimizer>& optimizers() {
  // FLOPs of one parameter's update, counted from the published rules (Ruder 2016; Loshchilov 2019).
  static const std::vector<Optimizer> all{
      {"sgd", "plain stochastic gradient descent: no state", 0, 2},
      {"momentum", "SGD with (Nesterov) momentum: one velocity per parameter", 1, 4},
      {"adam", "Adam: two moments per parameter", 2, 12},
      {"adamw", "Adam with decoupled weight decay: two moments per parameter", 2, 14},
      {"rmsprop", "RMSProp: one mean square per parameter", 1, 7},
      {"none", "forward and backward alone: gradients are made and communicated, nothing is updated", 0, 0},
      // Dettmers et al. 2022 (8-bit optimizers, arXiv 2110.02861): values of one byte, and scales.
      {"adamw-8bit", "AdamW with both moments in 8 bits", 2, 20, 1},
      {"adamw-paged", "AdamW with its moments in the host's memory, paged in for each update", 2, 14, 4,
       false, true},
      {"adamw-8bit-paged", "AdamW with both moments in 8 bits and in the host's memory", 2, 20, 1, false,
       true},
      // Shazeer & Stern 2018 (arXiv 1804.04235), without momentum, as T5 is trained.
      {"adafactor", "Adafactor without momentum: the second moment as sums of rows and columns", 0, 20, 4,
       true},
      // You et al. 2020 (arXiv 1904.00962), algorithm 2; two FLOPs an element for each norm.
      {"lamb", "LAMB: AdamW, each tensor's step scaled by the ratio of the tensor's norm to the step's", 2,
       20, 4, false, false, true},
      // Jordan et al. 2024 (kellerjordan.github.io/posts/muon), torch/optim/_muon.py of PyTorch 2.9 and
      // later.
      {"muon", "Muon: orthogonalised momentum for hidden matrices, AdamW for all else", 2, 14, 4, false,
       false, false, true},
  };
  return all;
}

const Optimizer& optimizer(std::string_view name, const Place& place) {
  std::vector<std::string> names;
  std::string list;
  for (const Optimizer& o : optimizers()) {
    if (o.name == name) return o;
    names.emplace_back(o.name);
    list += list.empty() ? names.back() : ", " + names.back();
  }
  throw InputError(place, fmt::format("no optimizer \"{}\".{} Valid: {}", printable(name),
                                      did_you_mean(name, names), list));
}

int64_t Optimizer::state_words(int64_t elements, int64_t rows, bool hidden) const {
  if (orthogonal && hidden) return elements;
  if (factored) return rows > 0 ? rows + elements / rows : elements;
  if (state_bytes == 4 || elements < kLeastQuantised)
    return checked_mul(elements, state, "an optimiser's state");
  return state * ((elements + 3) / 4 + (elements + kQuantised - 1) / kQuantised);
}

int64_t Optimizer::device_state(int64_t elements, int64_t rows, int64_t ways, bool hidden) const {
  if (paged) return 0;
  const int64_t bytes = checked_mul(state_words(elements, rows, hidden), 4, "an optimiser's state");
  return (bytes + ways - 1) / ways;
}

Kernel update_kernel(const Optimizer& optimizer, int64_t parameters) {
  TANDEM_CHECK(optimizer.updates());
  // Gradient, parameter and state are FP32 whatever the compute precision (see base/precision.h), but for
  // states of fewer bits.
  const Bytes tensor = Bytes{4} * parameters,
              state = Bytes{optimizer.state_bytes} * parameters * optimizer.state;
  Kernel update{KernelKind::optimizer,
                Pass::update,
                {parameters, optimizer.state},
                Flops{optimizer.flops} * parameters,
                tensor * 2 + state,
                tensor + state};
  // Kernel by kernel, torch.optim's Adam reads 11 and writes 7 tensors where a fused one moves 7, its
  // momentum 8 where a fused one moves 5.
  update.parts = 1 + optimizer.state;
  // The square, its means over rows and columns, their product, the update, its mean square, what it is
  // clipped to, and the step: a pass each (optimization.py of Hugging Face Transformers, Adafactor.step).
  if (optimizer.factored) update.parts = 8;
  // Two kernels with the step between them, and norms of gradients, parameters and steps (Apex,
  // csrc/multi_tensor_lamb.cu): 9 tensors are read and 4 written, where Adam's kernel reads 4 and writes 3.
  if (optimizer.by_norms) {
    update.read += tensor * 5;
    update.written += tensor;
  }
  return update;
}

}  // namespace tandem::models
