// SPDX-License-Identifier: Apache-2.0
#include "schemes/setup/memory_habits.h"

namespace tandem::schemes {

const std::vector<OptionSpec>& memory_options() {
  using Type = OptionSpec::Type;
  static const std::vector<OptionSpec> all{
      {"weights", Type::choice, "auto",
       "in half precision: fp32 = parameters cast where used (autocast), master = 2-byte ones and an fp32 "
       "copy, half = 2-byte ones only; auto = master where the optimiser's state is spread or on the host, "
       "else fp32",
       "auto|fp32|master|half"},
      {"update", Type::choice, "foreach",
       "temporaries of the optimiser: foreach = of all parameters at once, each = of one, fused = none; "
       "backward = each parameter is updated, and its gradient freed, in the backward pass",
       "foreach|each|fused|backward"},
      {"decay", Type::flag, "off",
       "SGD with weight decay: its foreach update makes temporaries, which it does not without"},
      {"sums", Type::choice, "parameters",
       "gradients are summed in the format of the parameters, or in fp32 (Megatron, nanotron)",
       "parameters|fp32"},
      {"operators", Type::choice, "pytorch",
       "pytorch: max-pooling keeps the places of its maxima, 8 bytes each, and what is done in place "
       "although "
       "backward needs what it overwrites (ReLU6) a copy of that; cudnn: both keep their outputs",
       "pytorch|cudnn"},
      {"gradients", Type::choice, "freed",
       "between steps: freed, or zeroed in place (PyTorch before 2.0); whole = also where they are spread, "
       "until the "
       "last micro-batch (FSDP's no_sync)",
       "freed|zeroed|whole"},
      {"buckets", Type::choice, "none",
       "gradients for communication: none extra, copies (DDP's), or views (gradient_as_bucket_view)",
       "none|copies|views"},
      {"modules", Type::choice, "lazy",
       "kernels on the device: lazy = those in use (CUDA 11.7 and later), eager = all of the library's",
       "lazy|eager"},
      {"kernels", Type::choice, "eager",
       "RMS norms, gated activations (SwiGLU) and composed ones: eager = of simple operations that keep what "
       "they make, fused = one kernel each that keeps its inputs (torch.compile, Liger, Megatron-Core)",
       "eager|fused"},
      {"loss", Type::choice, "eager",
       "cross-entropy: eager = fp32 copies of the logits, fused = one kernel, the gradient written over the "
       "logits; "
       "sum = no loss, the sum of the logits is back-propagated",
       "eager|fused|sum"},
      {"logits", Type::choice, "kept",
       "the model's output during backward: kept by a variable, as an fp32 copy, or dropped",
       "kept|fp32|dropped"},
  };
  return all;
}

MemoryHabits memory_habits(const std::vector<std::pair<std::string, std::string>>& settings,
                           const std::string& owner, const Place& place) {
  using Weights = MemoryHabits::Weights;
  using Update = MemoryHabits::Update;
  const Options o(memory_options(), settings, owner, place);
  const std::string &weights = o.text("weights"), &update = o.text("update"), &buckets = o.text("buckets");
  MemoryHabits out;
  out.weights = weights == "fp32"     ? Weights::fp32
                : weights == "master" ? Weights::master
                : weights == "half"   ? Weights::half
                                      : Weights::automatic;
  out.update = update == "each"       ? Update::each
               : update == "fused"    ? Update::fused
               : update == "backward" ? Update::backward
                                      : Update::foreach;
  out.decays = o.flag("decay");
  out.fp32_sums = o.text("sums") == "fp32";
  out.pytorch_operators = o.text("operators") == "pytorch";
  out.gradients_whole = o.text("gradients") == "whole";
  out.gradients_stay = out.gradients_whole || o.text("gradients") == "zeroed";
  out.buckets = buckets != "none";
  out.bucket_views = buckets == "views";
  out.cuda = o.text("modules") == "lazy" ? MemoryHabits::Cuda::lazy : MemoryHabits::Cuda::eager;
  out.fused_kernels = o.text("kernels") == "fused";
  using Loss = MemoryHabits::Loss;
  using Logits = MemoryHabits::Logits;
  const std::string &loss = o.text("loss"), &logits = o.text("logits");
  out.loss = loss == "fused" ? Loss::fused : loss == "sum" ? Loss::sum : Loss::eager;
  out.logits = logits == "fp32" ? Logits::fp32 : logits == "dropped" ? Logits::dropped : Logits::kept;
  return out;
}

MemoryHabits::Weights weights_of(const MemoryHabits& habits, const Program& program, const Offload& offload) {
  using Weights = MemoryHabits::Weights;
  Weights out = habits.weights;
  const bool master = !program.grid.axes.empty() || offload.optimizer || offload.parameters;
  if (out == Weights::automatic) out = master ? Weights::master : Weights::fp32;
  // The fp32 copy is where it is updated.
  return offload.optimizer && out == Weights::master ? Weights::half : out;
}

}  // namespace tandem::schemes
