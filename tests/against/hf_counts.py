#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints parameters as Transformers counts them, one model type a line: tests/models/hf_counts.jsonl.

Each type is built on the meta device with its class's defaults, few layers, and then with one field changed at a time.
null: the library itself refuses that value.

    pip install transformers==5.23.0 torch
    tests/against/hf_counts.py decoders > tests/models/hf_counts.jsonl
    tests/against/hf_counts.py encoders seq2seq vision > tests/models/hf_family_counts.jsonl
"""
import json
import os
import sys

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
# What a type needs to be built at all.
NEEDED = {
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128, "num_experts": 4},
    "nemotron": {"head_dim": 128},
    "efficientnet": {"num_hidden_layers": 64},
    "t5": {"transformers_version": "5.23.0"},
    "mt5": {"transformers_version": "5.23.0"},
    "umt5": {"transformers_version": "5.23.0"},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"], "num_hidden_layers": 4},
}
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
GIVEN = {"head_dim": 32, "num_key_value_heads": 2, "sliding_window": 64, "intermediate_size": 1024, "n_inner": 1024}


def load(path):
    with open(os.path.join(ROOT, path)) as file:
        return json.loads("".join(line for line in file if not line.startswith("//")))


def count(model_class, config_class, fields):
    try:
        config = config_class(**fields)
        with torch.device("meta"):
            model = model_class(config)
        return sum(p.numel() for p in model.parameters())
    except Exception:  # not a value that the class takes
        return None


def changed(key, value, layers):
    if key == layers:
        return 4
    if isinstance(value, bool):
        return not value
    if isinstance(value, int) and value > 0:
        return value // 2 if value > 1 and ("key_value" in key or "per_tok" in key) else 2 * value
    if isinstance(value, int):
        return 2
    if isinstance(value, str) and "act" in key:
        return "relu" if value != "relu" else "gelu"
    if isinstance(value, list) and value and all(type(v) is int for v in value):
        return [2 * v for v in value]
    return GIVEN.get(key) if value is None else None


def main():
    transformers.logging.set_verbosity_error()
    library = load("models/import/hf/classes.json")
    rows = {k: row for table in sys.argv[1:] for k, row in load("models/import/hf/types/%s.json" % table).items()}
    for kind in rows:
        if kind not in library or any(key in rows[kind] for key in ("text", "vision", "refused")):
            continue
        name, fields = rows[kind].get("classes", library[kind]["classes"])[0], library[kind]["fields"]
        model_class, config_class = getattr(transformers, name), CONFIG_MAPPING[kind]
        base = dict(NEEDED.get(kind, {}))
        layers = next((k for k in LAYERS if isinstance(fields.get(k), int)), None)
        if layers and layers not in base and fields[layers] > 6:
            base[layers] = 6
        cases = {}
        for key, value in fields.items():
            other = changed(key, value, layers)
            if other is not None and other != base.get(key):
                cases[key] = [other, count(model_class, config_class, {**base, key: other})]
        print(json.dumps({"type": kind, "class": name, "base": base, "count": count(model_class, config_class, base), "cases": cases}), flush=True)


if __name__ == "__main__":
    main()
