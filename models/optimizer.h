// SPDX-License-Identifier: Apache-2.0
#pragma once
// Optimisers: how much state they keep and what one update costs.
#include <string_view>
#include <vector>

#include "models/layers/kernel.h"

namespace tandem::models {

struct Parameter;

/// `state` tensors per parameter stay in memory (fp32 but where said otherwise) and, with
/// state=params+optimizer, must be sent when parameters are averaged. "none" is a step of forward and
/// backward alone, as many benchmarks time it: gradients are made and communicated, parameters stay.
struct Optimizer {
  std::string_view name, summary;
  int64_t state;  ///< tensors per parameter
  int64_t flops;  ///< per parameter and update
  /// Bytes an element of the state, on the device: with 1 each kQuantised of a tensor's have a scale of 4
  /// bytes, and tensors of fewer than kLeastQuantised stay in fp32.
  int64_t state_bytes = 4;
  /// Instead of such tensors, the state of a matrix is the sums of its rows and of its columns.
  bool factored = false;
  /// The state lies in the host's memory and is paged in for each update.
  bool paged = false;
  /// Steps are scaled by norms of the parameter and of the step, both of a whole tensor.
  bool by_norms = false;
  /// Steps of hidden matrices (Parameter::hidden) are orthogonalised, and their state is one tensor; all else
  /// is as AdamW does it. Only predicted.
  bool orthogonal = false;
  bool executed() const { return updates() && !orthogonal; }
  bool updates() const { return flops > 0; }
  /// Its state is `state` vectors of fp32, one after another; else it lies tensor by tensor.
  bool flat() const { return state_bytes == 4 && !factored && !orthogonal; }
  /// An element's update reads what other elements of its tensor have.
  bool by_tensor() const { return by_norms || !flat(); }
  /// Of a tensor's state: words of 4 bytes. `rows`: Parameter::rows; `hidden`: are there Parameter::hidden?
  int64_t state_words(int64_t elements, int64_t rows, bool hidden = false) const;
  /// Bytes on the device of the state of one tensor, of which `ways` devices have a part each.
  int64_t device_state(int64_t elements, int64_t rows, int64_t ways = 1, bool hidden = false) const;
};
/// As bitsandbytes has them (bitsandbytes/optim/optimizer.py, min_8bit_size, and blocks of 256 since 0.44).
inline constexpr int64_t kQuantised = 256, kLeastQuantised = 4096;
const std::vector<Optimizer>& optimizers();
/// Throws InputError with the nearest names.
const Optimizer& optimizer(std::string_view name, const Place& place = {});
/// The update of `parameters` elements: reads gradient, parameter and state, writes parameter and state. Only
/// of an optimiser that updates().
Kernel update_kernel(const Optimizer& optimizer, int64_t parameters);
/// The update of one tensor. Of an `orthogonal` optimiser's hidden matrices: momentum, five steps of
/// Newton-Schulz in numbers of 2 bytes, whose products are kernels of a forward pass, and the step.
std::vector<Kernel> update_kernels(const Optimizer& optimizer, const Parameter& parameter);
/// `part` of `whole` of such a kernel: its elements, or the rows that it makes.
Kernel part_of_update(Kernel kernel, int64_t part, int64_t whole);

}  // namespace tandem::models
