// SPDX-License-Identifier: Apache-2.0
// The table of options: what can be asked.
#include <fmt/format.h>

#include "answers/aims.h"
#include "answers/question.h"

namespace tandem::answers {

std::vector<Option> fine_tuning_flags() {
  return {
      {"adapter", "NAME[:key=value,...]",
       "fine-tuning: lora:rank=16 trains small matrices next to frozen weights, which take 2 bytes with bf16 "
       "and fp16 (--memory weights=fp32: 4); qlora stores them in 4 bits "
       "(store=nf4|nf4-dq|int8|half); on=default (query+value, as PEFT has it), all-linear (PEFT's), "
       "attention, mlp, head, or names of layers, joined by +; dropout=0.05"},
      {"freeze", "LAYER[,LAYER...]", "layers whose weights are not trained: embedding,decoder.0"},
  };
}

Option batch_split_flag() {
  return {"batch-split",
          "even|speed|N,N,...",
          "how samples are divided among unequal devices: the same batch for all (default), the same total "
          "in proportion to each device's own rate, or a batch for each, in order; gradients are averaged "
          "over samples",
          false,
          {},
          "even"};
}

Option offload_flag() {
  return {"offload",
          "off|WHAT[+WHAT...]",
          "what is kept in the host's memory: optimizer (its state; the host makes the update), gradients, "
          "parameters (zero:stage=3), activations (kept by --recompute blocks); default off",
          false,
          {},
          "off"};
}

Option recompute_flag() {
  return {
      "recompute", "off|blocks|...",
      "what backward recomputes instead of keeping: everything inside repeated blocks; \"products\", all of "
      "that except attention and every second matrix product (torchtitan); or some of norms, activations "
      "and attention joined by +; default off, or the preset's"};
}

Option batch_norm_flag() {
  return {"batch-norm",
          "local|sync",
          "the samples for batch normalisation's statistics: each device's own (default), or those of all "
          "devices (SyncBatchNorm), which sum them in both passes of every such layer",
          false,
          {},
          "local"};
}

std::vector<Option> board_flags() {
  return {
      {"without", "KIND", "the system without its links of this kind: nvlink", true},
      {"with-bridges", "A-B[,A-B...]",
       "NVLink bridges between cards that have a connector for one, by number: 0-1,2-3"},
      {"swap", "device=NAME", "other accelerators on the same board (tandem list devices)"},
      {"place", "N[,N...]", "which devices of a node are used, by number: 0,1,4,5; default the first"},
  };
}

namespace {

/// Input options of predictions, in addition to those of runs.
std::vector<Option> input_flags() {
  std::vector<Option> out{
      {"input",
       "real|synthetic",
       "real (default): storage, decoding and copies count; synthetic: data on the device",
       false,
       {},
       "real"},
      {"data", "NAME|FILE|FOLDER",
       "as for run: images in storage, a folder or a .rec file, whose number, size and format replace the "
       "model file's sample; digits, .csv files, tokens:FILE.bin and synthetic are in the host's memory, so "
       "nothing is read or decoded"},
      {"decode",
       "host|device",
       "who decodes: the host's cores (default) or the device, as DALI does",
       false,
       {},
       "host"},
      {"epoch",
       "later|first",
       "later (default): the page cache holds as much as fits; first: it is empty",
       false,
       {},
       "later"},
      {"staged", "", "data was copied to the nodes' own disks, although storage is shared"}};
  const std::vector<Option> loading = loading_flags();
  out.insert(out.end(), loading.begin(), loading.end());
  return out;
}

}  // namespace

namespace {

/// How it is simulated, and concurrent load.
std::vector<Option> condition_options() {
  return {
      {"anchor", "RATE[@N]",
       "samples/s measured on N devices (default 1): scales the compute costs to meet it"},
      {"set", "PATH=VALUE",
       "change one thing of the system: nodes=16, links.pcie.bandwidth=32GB/s, host.memory=64GiB, "
       "devices.*.power_limit=300W; or break "
       "it: "
       "faults.cpu0:cpu1=0.5 (half the bandwidth), faults.node1/nic0=down, faults.gpu3=0.8 (speed)",
       true},
      {"with", "JOB",
       "another job on the next free devices, sharing links: \"DEVICES MODEL [SCHEME [BATCH]]\"", true},
      {"then", "NETWORK",
       "another network trained alternately on the same devices, such as a GAN's discriminator: "
       "\"PASSES MODEL [BATCH]\", with its passes per sample of --model",
       true},
      {"iterations", "N",
       "iterations of each worker to simulate (on average, if workers do not wait for each other); default: "
       "enough for steady figures"},
      {"jitter", "SIGMA",
       "lognormal spread of a device's step time, 0 for none; default: the jitter of the system's host"},
      {"stragglers", "share=S,slow=F",
       "permanently slow devices: each is slow with probability S, drawn once from the seed, and then takes "
       "F times as long; share=0.01,slow=1.5"},
      {"pauses", "every=T,for=T",
       "random pauses of each device: mean time between them and mean length, both exponential; "
       "every=60s,for=0.5s"},
      {"profile",
       "NAME|FILE",
       "kernel costs; default stock, the curves fitted to published measurements",
       false,
       {},
       "stock"},
      {"collective-profile", "FILE",
       "measured collectives (tandem import nccl-tests) that correct those on the same devices; one of "
       "all-reduce, all-gather and reduce-scatter corrects the others"},
      {"seed", "N", "of the random numbers; default 1", false, {}, "1"}};
}

std::vector<Option> all_options() {
  std::vector<Option> out{
      {"model", "NAME|FILE", "what to train (tandem list models); NAME:key=value overrides its parameters"},
      {"system", "NAME|FILE", "the machine (tandem list systems)"},
      {"devices", "N[,N...]", "device counts; default 1, 2, 4 ... and all that the system has, at most 64"},
      {"scheme",
       "NAME[:key=value,...]",
       "synchronisation scheme or framework preset; default allreduce",
       false,
       {},
       "allreduce"},
      {"batch", "N", "samples per device and iteration; default 32", false, {}, "32"},
      batch_split_flag(),
      {"precision", "fp32|tf32|fp16|bf16|fp8", "default fp32", false, {}, "fp32"},
      {"optimizer",
       "NAME",
       "sgd, momentum (default), adam, adamw, rmsprop, adamw-8bit, adamw-paged, adafactor, lamb "
       "(tandem list optimizers), or none: no update",
       false,
       {},
       "momentum"},
      {"recipe", "NAME|FILE",
       "how the framework runs kernels (layout, fusion, host time): default the preset's, else pytorch; all: "
       "tandem list recipes"},
      recompute_flag(),
      offload_flag(),
      batch_norm_flag(),
      {"memory", "KEY=VALUE,...",
       "what the framework keeps in device memory, over the preset's: weights=fp32|master|half, "
       "update=foreach|each|fused|backward, gradients=freed|zeroed|whole, buckets=none|copies|views, "
       "modules=lazy|eager, kernels=eager|fused, loss=eager|fused|sum, logits=kept|fp32|dropped, "
       "sums=parameters|fp32, "
       "operators=pytorch|cudnn, gathered=again|kept, decay=on|off"},
  };
  const std::vector<Option> tuning = fine_tuning_flags();
  out.insert(out.begin() + 1, tuning.begin(), tuning.end());
  for (const std::vector<Option>& more : {condition_options(), board_flags(), input_flags()})
    out.insert(out.end(), more.begin(), more.end());
  for (const std::vector<Option>& more : {failure_flags(), progress_flags()})
    out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace

const std::vector<Option>& question_options() {
  static const std::vector<Option> all = all_options();
  return all;
}

const Option& question_option(std::string_view key, const Place& place) {
  std::vector<std::string> names = {"schema"};
  for (const Option& option : question_options()) {
    if (option.name == key || (!option.formerly.empty() && option.formerly == key)) return option;
    names.emplace_back(option.name);
  }
  throw InputError(place, fmt::format("a question has no \"{}\".{} All: tandem predict --help",
                                      printable(key), did_you_mean(key, names)));
}

std::string_view fallback(std::string_view name) { return question_option(name).fallback; }

std::vector<Option> loading_flags() {
  return {{"decode-workers", "N",
           "reader threads per device, and as many decoder threads; default 1, in predictions an even share "
           "of the host's cores"},
          {"prefetch", "N",
           "batches per device that are read, decoded or copied ahead; 0: the next is read after the step, "
           "by one thread unless --decode-workers says more; default 4"}};
}

}  // namespace tandem::answers
