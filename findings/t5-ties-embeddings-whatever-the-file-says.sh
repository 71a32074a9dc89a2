#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# transformers 5.23.0: a config.json of T5 that says "tie_word_embeddings": false gives a model with tied embeddings.
# Expected: an output layer of its own, vocabulary x width parameters more (flan-t5's checkpoints have one).
# Seen (2026-11-28): the field is read as true, and both models have 228,864 parameters.
# Installs torch and transformers in a temporary folder (some gigabytes); fails when the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 transformers==5.23.0
cat >"$folder/t5.py" <<'PYTHON'
import json
import pathlib
import sys

import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM

folder = pathlib.Path(sys.argv[1])
counts = {}
for tied in (True, False):
    (folder / "config.json").write_text(json.dumps({
        "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 64, "d_ff": 128, "d_kv": 16,
        "num_heads": 4, "num_layers": 2, "vocab_size": 1000, "tie_word_embeddings": tied}))
    config = AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = AutoModelForSeq2SeqLM.from_config(config)
    counts[tied] = sum(p.numel() for p in model.parameters())
    print(f"file says {tied}: config says {config.tie_word_embeddings}, {counts[tied]:,} parameters")
    assert config.tie_word_embeddings
assert counts == {True: 228864, False: 228864}, counts
PYTHON
"$folder/venv/bin/python" "$folder/t5.py" "$folder"
