#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# transformers 5.23.0: Llama 4 with 8 experts, of which each token is to use 1, 2 or 4 ("num_experts_per_tok").
# Expected: forward FLOPs of the experts grow with the experts of a token.
# Seen (2026-11-29): they do not depend on it; every token goes through all experts, times a score that is zero for those
# not chosen.
# Installs torch and transformers in a temporary folder (some gigabytes); fails when the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 transformers==5.23.0
cat >"$folder/llama4.py" <<'PYTHON'
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import Llama4ForCausalLM, Llama4TextConfig

flops = {}
for each in (1, 2, 4):
    model = Llama4ForCausalLM(Llama4TextConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, intermediate_size_mlp=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, head_dim=16, num_local_experts=8, num_experts_per_tok=each,
        interleave_moe_layer_step=1)).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, 16, dtype=torch.long))
    flops[each] = counter.get_total_flops()
    print(f"{each} of 8 experts a token: {flops[each]:,} FLOPs")
assert set(flops.values()) == {3063808}, flops
PYTHON
"$folder/venv/bin/python" "$folder/llama4.py"
