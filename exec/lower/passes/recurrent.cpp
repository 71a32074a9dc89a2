// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: one gemm of all inputs, then a step at a time (cuDNN's equations, as in
// models/layers/recurrent.cpp). Weights lie {features, gates x hidden}.
#include <algorithm>

#include "exec/lower/passes/calls.h"

namespace tandem::exec {

namespace {

struct Direction {
  TensorId x, out;           ///< the stack's input and output of this layer
  int64_t features, offset;  ///< of x; where this direction's half of `out` begins
  int64_t width_out;         ///< elements of one row of `out`
  std::size_t parameter;     ///< index of its first
  bool reverse;
  TensorId dx, dout;
  bool needs_dx, adds_dx;
};

/// Kernels of one direction as the model lists them: forward 3; backward 2 steps, 2 weights, bias, data.
struct Kernels {
  std::vector<Kernel> input, steps, steps_back, weight_input, weight_recurrent, bias, data;
};

class Stack {
 public:
  Stack(LayerCalls& l, Cell cell, int64_t gates) : l_(l), cell_(cell), gates_(gates) {
    const Attributes a(l.layer().attributes);
    hidden_ = a.integer("hidden");
    layers_ = a.integer("layers", 1);
    directions_ = a.boolean("bidirectional", false) ? 2 : 1;
    bias_ = a.boolean("bias", true);
    time_ = l.shape(0)[0];
  }

  void run() {
    const int64_t rows = l_.batch() * time_, width = hidden_ * directions_;
    TensorId x = l_.in(0), dx = 0;
    bool needs = l_.needs_d_in(0);
    if (needs) dx = l_.d_in(0);
    int64_t features = l_.shape(0)[1];
    // Forward calls are appended layer by layer; backward ones the other way round.
    for (int64_t layer = 0; layer < layers_; ++layer) {
      const bool last = layer + 1 == layers_;
      const TensorId out = last ? l_.out() : l_.keep(rows * width);
      const TensorId dout = last ? l_.d_out() : l_.scratch(rows * width);
      for (int64_t d = 0; d < directions_; ++d) {
        const auto unit = static_cast<std::size_t>(layer * directions_ + d);
        direction(
            {x, out, features, d * hidden_, width, unit * (bias_ ? 3U : 2U), d == 1, dx, dout, needs, d == 1},
            kernels(unit, layer == 0));
      }
      x = out;
      dx = dout;
      needs = true;
      features = width;
    }
    for (auto it = backward_.rbegin(); it != backward_.rend(); ++it) {
      for (Call& c : *it) l_.call(std::move(c));
    }
  }

 private:
  Kernels kernels(std::size_t unit, bool lowest) const {
    const Lowered& w = l_.lowered();
    if (!l_.learns())
      throw InputError(l_.layer().attributes.place(),
                       "recurrent layers whose weights stay as they are are only simulated");
    Kernels k;
    const std::size_t f = unit * 3;
    k.input = {w.forward.at(f)};
    k.steps = {w.forward.at(f + 1), w.forward.at(f + 2)};
    // backward_weights: per unit 4 kernels, the bias and, above the lowest layer, the data gemm.
    const std::size_t per = 4 + (bias_ ? 1U : 0U);
    const auto first_layer = static_cast<std::size_t>(directions_);
    const std::size_t b =
        std::min(unit, first_layer) * per + (unit - std::min(unit, first_layer)) * (per + 1);
    const auto& list = w.backward_weights;
    k.steps_back = {list.at(b), list.at(b + 1)};
    k.weight_input = {list.at(b + 2)};
    k.weight_recurrent = {list.at(b + 3)};
    if (bias_) k.bias = {list.at(b + 4)};
    if (!lowest) k.data = {list.at(b + per)};
    if (lowest && unit < w.backward_data.size()) k.data = {w.backward_data.at(unit)};
    return k;
  }

  void direction(const Direction& d, const Kernels& k) {
    const int64_t rows = l_.batch() * time_, width = gates_ * hidden_;
    const float bound = 1 / std::sqrt(static_cast<float>(hidden_));  // PyTorch's start values
    const TensorId w = l_.parameter(d.parameter, bound), r = l_.parameter(d.parameter + 1, bound);
    const TensorId bias = bias_ ? l_.parameter(d.parameter + 2, bound) : l_.buffer(2 * width, 0);
    // `gates`: activated gates (GRU: and the recurrent part of its candidate); `cells`: LSTM's cell states.
    const TensorId gates = l_.keep(rows * (cell_ == Cell::gru ? width + hidden_ : width));
    const TensorId cells = l_.keep(rows * hidden_), pre = l_.scratch(rows * width);
    const std::vector<int64_t> shape{l_.batch(),  time_,    hidden_,          static_cast<int64_t>(cell_),
                                     d.width_out, d.offset, d.reverse ? 1 : 0};
    l_.call(
        make_call(Function::gemm, Pass::forward, {pre, d.x, w}, {rows, width, d.features, 0, 0, 0}, k.input));
    l_.call(
        make_call(Function::recurrent, Pass::forward, {d.out, gates, cells, pre, r, bias}, shape, k.steps));

    const Pass pass = Pass::backward_weights;
    std::vector<Call> back;
    const TensorId dpre = l_.scratch(rows * width);
    const TensorId drecurrent = cell_ == Cell::gru ? l_.scratch(rows * width) : dpre;
    const TensorId before = l_.scratch(rows * hidden_);  // the hidden state that each step started from
    back.push_back(make_call(Function::recurrent_backward, pass,
                             {dpre, drecurrent, d.dout, gates, cells, d.out, r, bias}, shape, k.steps_back));
    const int64_t shift = d.reverse ? 0 : hidden_, from = d.offset + (d.reverse ? d.width_out : 0);
    back.push_back(make_fill(pass, before, rows * hidden_, 0));
    if (time_ > 1) {
      back.push_back(make_move(pass, before, d.out,
                               {{l_.batch(), time_ - 1, hidden_},
                                {{time_ * hidden_, hidden_, 1}, {time_ * d.width_out, d.width_out, 1}},
                                {shift, from},
                                false}));
    }
    back.push_back(make_call(Function::gemm, pass, {l_.gradient(d.parameter), d.x, dpre},
                             {d.features, width, rows, 1, 0, 0}, k.weight_input));
    back.push_back(make_call(Function::gemm, pass, {l_.gradient(d.parameter + 1), before, drecurrent},
                             {hidden_, width, rows, 1, 0, 0}, k.weight_recurrent));
    if (bias_) add_bias(back, d.parameter + 2, dpre, drecurrent, rows, width, k.bias);
    if (d.needs_dx) {
      back.push_back(make_call(Function::gemm, pass, {d.dx, dpre, w},
                               {rows, d.features, width, 0, 1, d.adds_dx ? 1 : 0}, k.data));
    }
    // Both directions of a layer run before the layer below; the reverse one adds to what the other left.
    if (d.reverse)
      backward_.back().insert(backward_.back().end(), back.begin(), back.end());
    else
      backward_.push_back(std::move(back));
  }

  /// The two biases follow each other: of the inputs' and of the recurrent product.
  void add_bias(std::vector<Call>& back, std::size_t parameter, TensorId dpre, TensorId drecurrent,
                int64_t rows, int64_t width, const std::vector<Kernel>& kernels) {
    const TensorId sums = l_.scratch(width);
    for (int half = 0; half < 2; ++half) {
      back.push_back(make_call(Function::column_sum, Pass::backward_weights,
                               {sums, half == 0 ? dpre : drecurrent}, {rows, width},
                               half == 0 ? kernels : std::vector<Kernel>{}));
      back.push_back(make_move(Pass::backward_weights, l_.gradient(parameter), sums,
                               {{width}, {{1}, {1}}, {half * width, 0}, false}));
    }
  }

  LayerCalls& l_;
  Cell cell_;
  int64_t gates_, hidden_ = 0, layers_ = 1, directions_ = 1, time_ = 1;
  bool bias_ = true;
  std::vector<std::vector<Call>> backward_;
};

}  // namespace

void register_recurrent(Registry<LayerExecution>& registry) {
  registry.add({"rnn", "tanh, a step at a time", [](LayerCalls& l) { Stack(l, Cell::rnn, 1).run(); }});
  registry.add({"lstm", "a step at a time", [](LayerCalls& l) { Stack(l, Cell::lstm, 4).run(); }});
  registry.add({"gru", "a step at a time", [](LayerCalls& l) { Stack(l, Cell::gru, 3).run(); }});
}

}  // namespace tandem::exec
