#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# transformers 5.23.0: a config.json of MiMo-V2-Flash lists which layers see a window ("hybrid_layer_pattern") and which
# have experts ("moe_layer_freq").
# Expected: layers as the file lists them.
# Seen (2026-11-29): both lists are kept as attributes and not read; every file gets full attention in layers 0, 5, 11 ...
# and experts in all layers but the first.
# Installs transformers in a temporary folder; fails when the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0
cat >"$folder/mimo.py" <<'PYTHON'
import json
import pathlib
import sys

from transformers import AutoConfig

folder = pathlib.Path(sys.argv[1])
seen = set()
for windows, experts in (([0, 1, 1, 1, 1, 1, 0, 1], [0] * 8), ([1] * 8, [1] * 8), ([0] * 8, [0] * 8)):
    (folder / "config.json").write_text(json.dumps({
        "model_type": "mimo_v2_flash", "num_hidden_layers": 8, "hybrid_layer_pattern": windows,
        "moe_layer_freq": experts}))
    config = AutoConfig.from_pretrained(folder)
    full = [i for i, kind in enumerate(config.layer_types) if kind == "full_attention"]
    dense = [i for i, kind in enumerate(config.mlp_layer_types) if kind == "dense"]
    print(f"file lists windows {windows}, experts {experts}: full attention in {full}, dense {dense}")
    assert config.hybrid_layer_pattern == windows
    seen.add((tuple(full), tuple(dense)))
assert seen == {((0, 5), (0,))}, seen
PYTHON
"$folder/venv/bin/python" "$folder/mimo.py" "$folder"
