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

Kernel update_kernel(const Optimizer& optimizer, int64_t parameters) {
  TANDEM_CHECK(optimizer.updates());
  // Gradient, parameter and state are FP32 whatever the compute precision (see base/precision.h).
  const Bytes tensor = Bytes{4} * parameters;
  Kernel update{KernelKind::optimizer,          Pass::update,
                {parameters, optimizer.state},  Flops{optimizer.flops} * parameters,
                tensor * (2 + optimizer.state), tensor * (1 + optimizer.state)};
  // Kernel by kernel, torch.optim's Adam reads 11 and writes 7 tensors where a fused one moves 7, its
  // momentum 8 where a fused one moves 5.
  update.parts = 1 + optimizer.state;
  return update;
}

}  // namespace tandem::models
