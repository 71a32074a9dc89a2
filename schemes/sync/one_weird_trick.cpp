// SPDX-License-Identifier: Apache-2.0
// Krizhevsky 2014 (arXiv 1404.5997): convolutions are data parallel, fully connected layers model parallel.
// Each device keeps 1/n of the columns of every linear layer and works on the samples of all devices, so its
// multiply-adds are those of data parallelism, but instead of the linear layers' gradients (95 % of
// AlexNet's) their activations travel.
// In front of the first linear layer all devices gather all samples' inputs, in front of the others the
// features that each has a part of; backward scatters the sums of their gradients. The loss of classes in
// parts is judged as Megatron-LM does, from three numbers of each row and device. What is equal on all
// devices is summed as its gradients are made.
#include "schemes/step/split_program.h"
#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

Program compile_one_weird_trick(const Workload& work, const Cluster& cluster, const Options& o) {
  GridSplit split = weird_split(o, cluster.devices);
  split.gradients.element = gradient_bytes(o, work.precision);
  Program out = split_program(work, split);
  for (Collective& c : out.collectives) c.algorithm = o.text("algorithm");
  return out;
}

}  // namespace

void register_one_weird_trick(Registry<Scheme>& registry) {
  registry.add(
      {"one-weird-trick",
       "convolutions data parallel, linear layers split over the devices (Krizhevsky 2014)",
       {{"algorithm", OptionSpec::Type::choice, "auto", "how each exchange is made", "auto|ring|direct"},
        kGradientsOption},
       compile_one_weird_trick});
}

}  // namespace tandem::schemes
