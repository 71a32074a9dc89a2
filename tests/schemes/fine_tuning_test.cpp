// SPDX-License-Identifier: Apache-2.0
// What travels where most weights stay as they are.
#include <gtest/gtest.h>

#include "models/adapter.h"
#include "schemes/setup/scheme.h"

namespace tandem::schemes {
namespace {

struct Sums {
  int64_t gathered = 0, reduced = 0;
};

Sums of_a_step(const Graph& graph, const char* name, int64_t devices) {
  const Workload work = make_workload(graph, 1, Precision::bf16, optimizer("adamw"), false);
  const ResolvedScheme scheme = resolve_scheme(name, {});
  const Program program = scheme.scheme->compile(work, {devices, 1, devices}, scheme.options);
  Sums out;
  for (const Op& op : program.roles[0].ops) {
    if (op.kind != OpKind::collective) continue;
    const bool gathers = program.collectives[op.what].kind == CollKind::all_gather;
    (gathers ? out.gathered : out.reduced) += op.bytes.n;
  }
  return out;
}

Graph adapted(const char* adapter) {
  return with_adapter(Graph::load("llama3.2-1b:layers=4,sequence=64"), parse_adapter(adapter, {}), {});
}

TEST(FineTuning, SumsGradientsOfAdaptersAlone) {
  const Graph g = adapted("lora:rank=8,on=attention");
  EXPECT_EQ(of_a_step(g, "allreduce:gradients=fp16", 4).reduced, 2 * g.parameter_elements());
}

TEST(FineTuning, GathersAllWeightsWhereTheyAreSharded) {
  for (const char* adapter : {"lora:rank=8,on=attention", "lora:rank=8,on=down", "qlora:rank=8,on=mlp"}) {
    const Graph g = adapted(adapter);
    int64_t whole = 2 * g.parameter_elements();
    for (const Layer& l : g.layers()) whole += l.frozen_bytes(2).n;
    const Sums s = of_a_step(g, "zero:stage=3,gradients=fp16,bucket=8MiB", 4);
    EXPECT_EQ(s.reduced, 2 * g.parameter_elements()) << adapter;
    // Once for forward and once for backward, but what forward used last stays.
    EXPECT_GT(s.gathered, whole) << adapter;
    EXPECT_LE(s.gathered, 2 * whole) << adapter;
  }
}

TEST(FineTuning, NothingChangesWithoutIt) {
  const Graph g = Graph::load("llama3.2-1b:layers=4,sequence=64");
  const Sums s = of_a_step(g, "zero:stage=3,gradients=fp16,bucket=8MiB", 4);
  EXPECT_EQ(s.reduced, 2 * g.parameter_elements());
  EXPECT_LE(s.gathered, 4 * g.parameter_elements());
}

}  // namespace
}  // namespace tandem::schemes
