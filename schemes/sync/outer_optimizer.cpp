// SPDX-License-Identifier: Apache-2.0
// Local training whose averages are the steps of an outer optimiser: what workers moved in `every`
// iterations, on average, is its gradient. Two names, one Program: "diloco" (Douillard et al. 2023,
// "DiLoCo", algorithm 1) and "bmuf" (Chen and Huo 2016, "Scalable training of deep learning machines by
// incremental block training with intra-block parallel optimization and blockwise model-update filtering",
// equations 4 to 8).
//
// A worker may be several devices, which share out the model among them. What such workers average may travel
// in 8 bits: Jaghouar et al. 2024, "INTELLECT-1 Technical Report", section 2.2.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "schemes/collectives/collectives.h"
#include "schemes/step/compression.h"
#include "schemes/step/outer_step.h"
#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

/// The parameters become their mean where they lie; the anchor is what they were after the last average.
Program with_outer_steps(const Workload& work, const Cluster& cluster, const Options& o,
                         const Averaging& rule) {
  OuterStep outer{o.count("every"), rule};
  outer.algorithm = o.text("algorithm");
  if (o.text("compression") == "int8") outer.compression = {Compression::Kind::int8, 1, 1, false};
  if (several_devices(o, cluster)) return outer_program(work, cluster, o, outer);
  if (outer.compression.kind != Compression::Kind::none)
    throw InputError(
        "compression=int8 is of what workers of several devices average: worker=node or workers=");
  Builder b;
  const Mesh mesh = worker_mesh(cluster);
  RoleBuilder w = b.role("worker", mesh);
  Training t(w, work, {BucketRule::kEndless, BucketRule::kEndless});
  t.forward();
  t.backward();
  for (const GradientBucket& bucket : t.buckets()) {
    const OpId updated = t.update(bucket);
    if (cluster.devices == 1) continue;
    const OpId mean = w.collective(CollKind::all_reduce, all_axes(mesh), bucket.bytes, outer.algorithm,
                                   "average parameters")
                          .of(Payload::parameters, bucket.key)
                          .after(updated)
                          .every(o.count("every"));
    t.average(bucket, rule, mean).every(o.count("every"));
  }
  return b.finish();
}

Averaging::Rule rule_of(bool nesterov) {
  return nesterov ? Averaging::Rule::nesterov : Averaging::Rule::momentum;
}

Program compile_diloco(const Workload& work, const Cluster& cluster, const Options& o) {
  const std::string& outer = o.text("outer");
  return with_outer_steps(
      work, cluster, o,
      {rule_of(outer == "nesterov"), o.real("outer-rate"), outer == "sgd" ? 0 : o.real("outer-momentum")});
}

/// Nesterov's form starts the next block at W(t) + momentum Delta(t), as equation 8 says. The velocity that
/// it keeps is Delta(t) / rate.
Program compile_bmuf(const Workload& work, const Cluster& cluster, const Options& o) {
  const double asked = o.real("momentum");
  const double momentum = asked > 0 ? asked : 1 - 1 / static_cast<double>(workers_of(o, cluster));
  return with_outer_steps(work, cluster, o, {rule_of(o.flag("nesterov")), o.real("rate"), momentum});
}

std::vector<OptionSpec> outer_options(std::vector<OptionSpec> own) {
  using Type = OptionSpec::Type;
  static const std::string algorithms =
      fmt::format("auto|{}", fmt::join(collectives_registry().names(), "|"));
  own.push_back({"compression", Type::choice, "none",
                 "what workers of several devices moved travels as it is, or in 8 bits and a scale",
                 "none|int8"});
  own.push_back({"algorithm", Type::choice, "auto", "how workers average", algorithms});
  return with_workers(std::move(own));
}

}  // namespace

void register_outer_optimizer(Registry<Scheme>& registry) {
  using Type = OptionSpec::Type;
  registry.add(
      {"diloco", "workers train alone; an outer optimiser steps by their mean movement",
       outer_options({{"every", Type::count, "100", "iterations of local training between two outer steps",
                       "", 1, 65535},
                      {"outer", Type::choice, "nesterov", "the outer optimiser", "sgd|momentum|nesterov"},
                      {"outer-rate", Type::real, "0.7", "its learning rate", "", 0, 100},
                      {"outer-momentum", Type::real, "0.9", "its momentum", "", 0, 1}}),
       compile_diloco, nullptr, replica_of_hybrid, pipeline_of_worker});
  registry.add({"bmuf", "blockwise model-update filtering: averages of local training with block momentum",
                outer_options({{"every", Type::count, "16",
                                "iterations of a block, after which workers average", "", 1, 65535},
                               {"momentum", Type::real, "0", "block momentum; 0 = 1 - 1/workers", "", 0, 1},
                               {"rate", Type::real, "1", "block learning rate", "", 0, 100},
                               {"nesterov", Type::flag, "on",
                                "begin a block where the momentum leads (Nesterov block momentum)"}}),
                compile_bmuf, nullptr, replica_of_hybrid, pipeline_of_worker});
}

}  // namespace tandem::schemes
