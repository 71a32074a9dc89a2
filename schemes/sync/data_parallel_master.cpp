// SPDX-License-Identifier: Apache-2.0
// One process drives all devices of a node (torch.nn.DataParallel): each iteration device 0 broadcasts the
// parameters while the host copies the module for every device, collects the outputs, computes the loss, sums
// the gradients and updates. Written as SPMD: while device 0 does its part alone the others wait for it
// anyway, so they are given the same op.
#include <fmt/format.h>

#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

/// The copies are whole: nothing is communicated before backward ends.
BucketRule whole(const Workload& work, const Options& options) {
  return {BucketRule::kEndless, BucketRule::kEndless, gradient_bytes(options, work.precision)};
}

bool is_loss(const Layer& layer) {
  return layer.type != nullptr && layer.output.empty() && layer.parameters.empty();
}

/// The loss layers at the end of the model, for the whole batch at once.
Task loss_task(const Workload& work, int64_t devices) {
  const auto& layers = work.graph->layers();
  const auto whole = work.graph->lower(checked_mul(work.batch, devices, "the batch"), work.precision);
  Task task;
  task.layer = static_cast<uint32_t>(layers.size());
  task.layers = 0;
  while (task.layer > 0 && is_loss(layers[task.layer - 1])) {
    --task.layer;
    ++task.layers;
    const Lowered& l = whole[task.layer];
    task.kernels.insert(task.kernels.end(), l.forward.begin(), l.forward.end());
    task.kernels.insert(task.kernels.end(), l.backward_data.begin(), l.backward_data.end());
  }
  return task;
}

/// What each device sends to device 0: the output that the loss reads.
Bytes output_bytes(const Workload& work, const Task& loss) {
  const auto& layers = work.graph->layers();
  const uint32_t from =
      loss.layers > 0 ? layers[loss.layer].inputs[0] : static_cast<uint32_t>(layers.size() - 1);
  return Bytes{element_bytes(work.precision)} *
         checked_mul(elements(layers[from].output), work.batch, "the output");
}

/// One device: nothing to broadcast or gather.
Program alone(const Workload& work, const Mesh& mesh, const Options& o) {
  Builder b;
  RoleBuilder w = b.role("worker", mesh);
  Training t(w, work, whole(work, o));
  t.forward();
  t.backward();
  for (const GradientBucket& bucket : t.buckets()) t.update(bucket);
  return b.finish();
}

Program compile_data_parallel_master(const Workload& all, const Cluster& cluster, const Options& o) {
  if (cluster.nodes > 1) {
    throw InputError(fmt::format("data-parallel-master is one process on one node; {} devices need {} nodes",
                                 cluster.devices, cluster.nodes));
  }
  const Mesh mesh = worker_mesh(cluster);
  if (cluster.devices == 1) return alone(all, mesh, o);
  const Task loss = loss_task(all, cluster.devices);
  Workload work = all;
  for (uint32_t i = loss.layer; i < loss.layer + loss.layers; ++i) {
    work.layers[i].forward.clear();
    work.layers[i].backward_data.clear();
  }
  Builder b;
  RoleBuilder w = b.role("worker", mesh);
  Training t(w, work, whole(work, o));
  const auto exchange = [&](CollKind kind, Payload payload, Bytes bytes, std::string algorithm,
                            std::string_view label) {
    return w.collective(kind, all_axes(mesh), bytes, std::move(algorithm), label).of(payload);
  };

  w.compute({.layer = 0, .layers = 0, .pass = Pass::forward, .kernels = {}}, "copy the module");
  OpHandle spread =
      exchange(CollKind::broadcast, Payload::parameters, t.parameter_bytes(), "auto", "broadcast parameters");
  t.forward();
  w.op(t.first_forward()).after(spread);
  // A gather of p outputs loads the links as a central reduce of one does, a scatter as a central broadcast.
  const Bytes output = output_bytes(work, loss);
  const OpId gathered = exchange(CollKind::reduce, Payload::activations, output, "central", "gather outputs")
                            .after(t.last_forward());
  const OpId judged = loss.layers > 0 ? w.compute(loss, "loss on device 0").after(gathered) : gathered;
  const OpId scattered =
      exchange(CollKind::broadcast, Payload::activations, output, "central", "scatter output gradients")
          .after(judged);
  t.backward([](const GradientBucket&, OpId) {}, scattered);
  for (const GradientBucket& bucket : t.buckets()) {
    const OpId sum =
        exchange(CollKind::reduce, Payload::gradients, bucket.bytes, "auto", "reduce gradients to device 0")
            .after(t.last_backward());
    spread.after_last(t.update(bucket).after(sum));
  }
  return b.finish();
}

}  // namespace

void register_data_parallel_master(Registry<Scheme>& registry) {
  registry.add({"data-parallel-master",
                "one process, device 0 as master: broadcast parameters, gather outputs, reduce gradients "
                "each iteration",
                {kGradientsOption},
                compile_data_parallel_master});
}

}  // namespace tandem::schemes
