// SPDX-License-Identifier: Apache-2.0
#include "answers/run_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/bound/placement.h"

namespace tandem::answers {

namespace {

constexpr int64_t kMostWorkers = 1024, kMostRunNodes = 64;

void add_words(RunCommand& out, const std::string& flag, const std::string& value) {
  out.words.push_back("--" + flag);
  out.words.push_back(value);
}

/// Why the executor cannot run it anywhere; "" if it can.
std::string refusal(const Question& q, const Candidate& c) {
  if (c.devices > kMostWorkers) return fmt::format("a run has at most {} workers", whole(kMostWorkers));
  if (!q.optimizer->updates()) return fmt::format("{} is not executed", q.optimizer->name);
  const bool parts = c.sharding > 0 || c.tensor > 1 || c.expert > 1;
  if (parts && q.optimizer->by_tensor())
    return fmt::format("{} needs whole tensors, and devices here hold parts of them", q.optimizer->name);
  if (is_document(q.given.text("model", ""))) return "its model is no file and has no name";
  return "";
}

/// The words that are the same everywhere.
RunCommand common(const Question& q, const Candidate& c, const Saver& saver) {
  RunCommand out;
  out.why_not = refusal(q, c);
  if (!out.why_not.empty()) return out;
  out.words = {"tandem", "run"};
  const auto pass = [&](const char* flag) {
    for (const std::string& value : q.given.all(flag)) add_words(out, flag, value);
  };
  for (const char* flag : {"model", "adapter", "freeze"}) pass(flag);
  add_words(out, "scheme", c.scheme);
  add_words(out, "devices", std::to_string(c.devices));
  add_words(out, "batch", std::to_string(c.batch));
  for (const char* flag : {"optimizer", "batch-norm"}) pass(flag);
  if (!(saver.recompute == Recompute{})) add_words(out, "recompute", saver.recompute.text());
  Offload offload = saver.offload;
  offload.activations = false;
  if (offload.any()) add_words(out, "offload", offload.text());
  return out;
}

void add_gpu_words(RunCommand& out, const Candidate& c) {
  add_words(out, "backend", "cuda");
  add_words(out, "precision", std::string(name(c.precision)));
}

}  // namespace

RunCommand run_here(const Question& q, const Candidate& c, const Saver& saver, bool gpus) {
  RunCommand out = common(q, c, saver);
  if (out.words.empty()) return out;
  const int64_t nodes = make_cluster(q.system, c.devices).nodes;
  if (nodes > 1 && nodes <= kMostRunNodes && c.devices % nodes == 0)
    add_words(out, "nodes", std::to_string(nodes));
  if (gpus) {
    add_gpu_words(out, c);
  } else {
    out.notes.push_back(
        fmt::format("on this machine's cores, a worker each, in fp32; --backend cuda{} on GPUs",
                    c.precision == Precision::fp32 ? "" : fmt::format(" --precision {}", name(c.precision))));
  }
  return out;
}

RunCommand run_there(const Question& q, const Candidate& c, const Saver& saver) {
  const Device& device = q.system.device(q.system.accelerator(0));
  const bool processors = device.kind == Device::Kind::cpu;
  if (!processors && device.vendor != "NVIDIA")
    return {{}, {}, fmt::format("no backend of the executor runs on {}", device.name)};
  RunCommand out = common(q, c, saver);
  if (out.words.empty()) return out;
  const int64_t nodes = make_cluster(q.system, c.devices).nodes;
  if (nodes > 1) out.words.insert(out.words.begin(), {"mpirun", "-np", std::to_string(nodes)});
  if (!processors) add_gpu_words(out, c);
  return out;
}

}  // namespace tandem::answers
