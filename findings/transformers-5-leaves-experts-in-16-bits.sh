#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Transformers 5.24.0 with bitsandbytes 0.50.2: a Mixtral that is loaded in 4 bits keeps its experts in bfloat16.
# Expected: as in transformers 4, whose experts were linear layers, everything but router, embeddings and head in 4 bits.
# Seen (2026-11-30): experts are stacks of matrices now, which load_in_4bit does not replace; no warning. Of Mixtral 8x7B
# that leaves 45 of 47 billion parameters as they were, and most of QLoRA's saving is lost.
# Installs torch, transformers, bitsandbytes and accelerate in a temporary folder (some gigabytes); runs on the processor; fails
# when the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 transformers==5.24.0 bitsandbytes==0.50.2 accelerate
cat >"$folder/load.py" <<'PYTHON'
import sys

import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, MixtralConfig, MixtralForCausalLM

small = MixtralConfig(vocab_size=256, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
                      num_key_value_heads=2, num_local_experts=4)
MixtralForCausalLM(small).to(torch.bfloat16).save_pretrained(sys.argv[1])
how = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
net = AutoModelForCausalLM.from_pretrained(sys.argv[1], quantization_config=how, device_map="cpu")
seen = {}
for name, parameter in net.named_parameters():
    part = next((p for p in ("experts", "self_attn") if p in name), "others")
    seen.setdefault(part, set()).add(str(parameter.dtype))
print(seen)
assert seen == {"others": {"torch.bfloat16"}, "self_attn": {"torch.uint8"}, "experts": {"torch.bfloat16"}}, seen
PYTHON
"$folder/venv/bin/python" "$folder/load.py" "$folder/model" 2>/dev/null
