#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# DeepSpeed 0.19.8 (torch 2.9.1), ZeRO stage 3: modules without parameters pay for its hooks too, nearly half of a Linear's price.
# Expected: a ReLU, which has nothing to gather, costs what it costs without DeepSpeed.
# Seen (2026-12-01): a training step's processor time grows by 616 us for each Linear and by 259 us for each ReLU, where
# without DeepSpeed a Linear takes 104 us in all (a busy processor). So small layers under ZeRO 3 wait for the host, and
# fewer modules, whatever they hold, shorten the step.
# Installs torch and deepspeed in a temporary folder (some gigabytes); fails when the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.9.1 deepspeed==0.19.8 numpy setuptools
cat >"$folder/hooks.py" <<'PYTHON'
import statistics
import time

import deepspeed
import torch
from torch import nn

torch.set_num_threads(1)
CONFIG = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 100000, "bf16": {"enabled": True},
          "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 10},
          "optimizer": {"type": "AdamW", "params": {"torch_adam": True}}}


class Net(nn.Module):
    def __init__(self, linears, relus):
        super().__init__()
        layers = [[nn.Linear(64, 64, bias=False), *(nn.ReLU() for _ in range(relus))] for _ in range(linears)]
        self.layers = nn.Sequential(*sum(layers, []))

    def forward(self, x):
        return self.layers(x).sum()


def seconds(linears, relus, sharded):
    net, x = Net(linears, relus).bfloat16(), torch.randn(4, 64, dtype=torch.bfloat16)
    engine = deepspeed.initialize(model=net, model_parameters=net.parameters(), config=CONFIG)[0] if sharded else net
    times = []
    for _ in range(25):
        begun = time.process_time()
        loss = engine(x)
        engine.backward(loss) if sharded else loss.backward()
        if sharded:
            engine.step()
        times.append(time.process_time() - begun)
    return statistics.median(times[5:])


def of_a_linear(relus, sharded):
    return (seconds(24, relus, sharded) - seconds(8, relus, sharded)) / 16


plain, plain_two = of_a_linear(0, False), of_a_linear(2, False)
zero, zero_two = of_a_linear(0, True), of_a_linear(2, True)
linear, relu = zero - plain, (zero_two - zero - plain_two + plain) / 2
print(f"hooks: {1e6 * linear:.0f} us a Linear, {1e6 * relu:.0f} us a ReLU; plain: {1e6 * plain:.0f} us a Linear")
assert 0.25 < relu / linear < 1, relu / linear
assert linear > 2 * plain, linear / plain
PYTHON
export DS_ACCELERATOR=cpu MASTER_ADDR=127.0.0.1 MASTER_PORT=29581 RANK=0 WORLD_SIZE=1 LOCAL_RANK=0
"$folder/venv/bin/python" "$folder/hooks.py" 2>/dev/null | grep hooks:
