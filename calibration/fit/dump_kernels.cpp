// SPDX-License-Identifier: Apache-2.0
// Prints what a training step is lowered to, for calibration/fit/fit_stock.py: the Program of one device,
// which is what the product predicts. Reads lines "model batch precision optimizer recipe" and writes a line
// of JSON for each, or a text with the error:
//   {"kernels": [[kind, pass, shape, flops, bytes, repeat], ...], "host": {pass: seconds}}
// with the host's seconds on a core of speed 1.
#include <fmt/format.h>

#include <iostream>
#include "base/json_writer.h"

#include "schemes/setup/scheme.h"

using namespace tandem::schemes;

namespace {

JsonWriter step(const std::string& model, const Workload& work, const Recipe& recipe) {
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  const Program program = scheme.scheme->compile(work, Cluster{}, scheme.options);
  JsonWriter kernels = JsonWriter::array();
  double forward = 0, backward = 0, update = 0;
  for (const Op& op : program.roles[0].ops) {
    if (op.kind != OpKind::compute) continue;
    const Task& task = program.tasks[op.what];
    for (const Kernel& k : task.kernels) {
      for (const Kernel& launched : {k, bias_after(recipe, k), cast_beside(recipe, k, work.precision)}) {
        if (launched.shape.empty()) continue;
        if (const auto added = joins_norm(recipe, launched)) {
          if (added->n > 0)
            kernels.push_back(JsonWriter::array(
                {name(KernelKind::norm), name(launched.pass), launched.shape, 0, added->n, launched.repeat}));
          continue;
        }
        kernels.push_back(JsonWriter::array(
            {name(launched.kind), name(launched.pass), launched.shape, launched.flops.n,
             (launched.read.n + launched.written.n) * (upcasts(recipe, launched, work.precision) ? 2 : 1),
             launches(recipe, launched)}));
      }
    }
    double& seconds = task.pass == Pass::forward ? forward : task.pass == Pass::update ? update : backward;
    seconds += issue_time(recipe, task, work.precision, *work.optimizer).seconds();
  }
  return {{"model", model},
          {"kernels", kernels},
          {"host", {{"forward", forward}, {"backward", backward}, {"update", update}}}};
}

}  // namespace

int main() {
  std::string model, precision, optimizer_name, recipe;
  int64_t batch = 0;
  while (std::cin >> model >> batch >> precision >> optimizer_name >> recipe) {
    try {
      const Graph graph = Graph::load(model);
      const Workload work =
          make_workload(graph, batch, parse_precision(precision), optimizer(optimizer_name), false);
      std::cout << step(model, work, with_updates_of(load_recipe(recipe), *work.optimizer)).dump() << '\n';
    } catch (const InputError& e) {
      std::cout << JsonWriter(fmt::format("{} {} {}: {}", model, batch, precision, e.what())).dump() << '\n';
    }
  }
}
