// SPDX-License-Identifier: Apache-2.0
// Local training with periodic averaging of the parameters. Two names, one Program: "parameter-averaging" as
// Spark-style systems do it (through a master, each few iterations), "local-sgd" by all-reduce.
#include "schemes/training.h"

namespace tandem::schemes {

namespace {

Program compile_parameter_averaging(const Workload& work, const Cluster& cluster, const Options& o) {
  Builder b;
  RoleBuilder w = b.role("worker", worker_mesh(cluster));
  Training t(w, work, {BucketRule::kEndless, BucketRule::kEndless});
  t.forward();
  t.backward();
  OpId updated;
  for (const GradientBucket& bucket : t.buckets()) updated = t.update(bucket);
  if (cluster.devices > 1) {
    const int64_t tensors = o.text("state") == "params" ? 1 : 1 + work.optimizer->state;
    const std::string algorithm = o.text("through") == "central" ? "central" : "auto";
    const Payload payload = o.text("state") == "params" ? Payload::parameters : Payload::state;
    const OpId averaged = w.collective(CollKind::all_reduce, all_axes(worker_mesh(cluster)),
                                       t.parameter_bytes() * tensors, algorithm, "average parameters")
                              .of(payload)
                              .after(updated)
                              .every(o.count("every"));
    t.next_forward_after(averaged);
  }
  return b.finish();
}

std::vector<OptionSpec> options(std::string_view every, std::string_view through) {
  using Type = OptionSpec::Type;
  return {{"every", Type::count, every, "iterations of local training between two averages", "", 1, 65535},
          {"state", Type::choice, "params", "what is averaged", "params|params+optimizer"},
          {"through", Type::choice, through, "all-reduce among the workers, or to one place and back",
           "allreduce|central"}};
}

}  // namespace

void register_parameter_averaging(Registry<Scheme>& registry) {
  registry.add({"parameter-averaging", "workers train alone and average their parameters every k iterations",
                options("1", "central"), compile_parameter_averaging});
  registry.add({"local-sgd", "workers train alone and all-reduce their parameters every k iterations",
                options("8", "allreduce"), compile_parameter_averaging});
}

}  // namespace tandem::schemes
