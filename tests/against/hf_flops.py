#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints FLOPs of a forward pass as PyTorch counts them in Transformers' classes, one model type a line:
tests/models/hf_flops.jsonl.

Each type is run on the meta device over 128 tokens (of source and of target), or a picture, with its class's defaults, few
layers and few experts, and then with one field changed at a time: those that leave the number of parameters as it is, and lists
of layers turned around. Counted are products of matrices and convolutions, scores that a mask hides too. null: the library
itself refuses that value.

    pip install transformers==5.23.0 torch
    for table in decoders encoders seq2seq vision; do tests/against/hf_flops.py $table; done > tests/models/hf_flops.jsonl
"""
import inspect
import json
import sys

import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from hf_counts import LAYERS, NEEDED, changed, load

TOKENS = 128
FEW = {"num_experts": 16, "num_local_experts": 16, "n_routed_experts": 16, "moe_num_experts": 16, "num_experts_per_tok": 2,
       "moe_topk": 2, "moe_k": 2, "num_experts_per_token": 2, "top_k_experts": 2,
       "sliding_window": 256, "local_attention": 512}
LISTS = ("layer_types", "mlp_layer_types", "layers_block_type", "indexer_types", "attention_layers")


class Counter(TorchDispatchMode):
    """FLOPs of what multiplies matrices."""

    def __init__(self):
        super().__init__()
        self.flops = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.__name__
        if name == "_local_scalar_dense.default":  # whether a mask hides nothing
            return False if args[0].dtype == torch.bool else 0
        out = function(*args, **(kwargs or {}))
        if name in ("mm.default", "bmm.default") or "grouped_mm" in name:
            a, b = args[0], args[1]
            batch = a.shape[0] if name == "bmm.default" else 1
            self.flops += 2 * batch * a.shape[-2] * a.shape[-1] * b.shape[-1]
        elif name in ("addmm.default", "baddbmm.default"):
            a, b = args[1], args[2]
            self.flops += 2 * (a.shape[0] if a.dim() == 3 else 1) * a.shape[-2] * a.shape[-1] * b.shape[-1]
        elif "scaled_dot_product" in name:
            q, k, v = args[:3]
            self.flops += 2 * q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2] * (q.shape[3] + v.shape[3])
        elif name == "convolution.default":
            self.flops += 2 * out.numel() * args[1][0].numel()
        return out


def inputs_of(model, config):
    tokens = torch.zeros(1, TOKENS, dtype=torch.long, device="meta")
    if model.main_input_name == "pixel_values":
        side = getattr(config, "image_size", 224) or 224
        size = side if isinstance(side, (list, tuple)) else (side, side)
        shape = (1, getattr(config, "num_channels", 3), *size)
        return {"pixel_values": torch.zeros(*shape, dtype=torch.bfloat16, device="meta")}
    decoding = {"decoder_input_ids": tokens} if config.is_encoder_decoder else {}
    if "use_cache" in inspect.signature(model.forward).parameters:
        decoding["use_cache"] = False
    if model.main_input_name == "input_features":
        shape = (1, config.num_mel_bins, 2 * config.max_source_positions)
        return {"input_features": torch.zeros(*shape, dtype=torch.bfloat16, device="meta"), **decoding}
    return {"input_ids": tokens, **decoding}


def measure(model_class, config_class, fields):
    """Parameters and FLOPs, or None where the class does not take the value."""
    try:
        config = config_class(**fields)
        with torch.device("meta"):
            model = model_class(config)
        parameters = sum(p.numel() for p in model.parameters())
        try:
            model.set_experts_implementation("grouped_mm")
        except Exception:  # it has no experts
            pass
        with torch.no_grad(), Counter() as counter:
            model.to(torch.bfloat16).eval()(**inputs_of(model, config))
        return parameters, counter.flops
    except Exception as error:
        print(type(error).__name__, str(error)[:100], file=sys.stderr)
        return None


def cases_of(fields, base, config_class, layers):
    for key, value in fields.items():
        if key in LISTS:
            try:
                other = config_class(**base).to_dict()[key][::-1]
            except Exception:  # none, or not of the class
                continue
        else:
            other = changed(key, base.get(key, value), layers)
        if other is not None and other != base.get(key, value):
            yield key, other


def main():
    transformers.logging.set_verbosity_error()
    library = load("models/import/hf/classes.json")
    wanted = sys.argv[2:]
    for kind, row in load("models/import/hf/types/%s.json" % sys.argv[1]).items():
        other = any(key in row for key in ("text", "vision", "refused"))
        if kind not in library or other or (wanted and kind not in wanted):
            continue
        name, fields = row.get("classes", library[kind]["classes"])[0], library[kind]["fields"]
        model_class, config_class = getattr(transformers, name), CONFIG_MAPPING[kind]
        base = {k: v for k, v in FEW.items() if isinstance(fields.get(k), int) and not isinstance(fields[k], bool)}
        base.update(NEEDED.get(kind, {}))
        layers = next((k for k in LAYERS if isinstance(fields.get(k), int)), None)
        if layers and layers not in base and fields[layers] > 6:
            base[layers] = 6
        usual = measure(model_class, config_class, base)
        if usual is None:
            continue
        cases = {}
        for key, other in cases_of(fields, base, config_class, layers):
            got = measure(model_class, config_class, {**base, key: other})
            if got is None or got[0] == usual[0] or key in LISTS:
                cases[key] = [other, None if got is None else got[1]]
        print(json.dumps({"type": kind, "base": base, "flops": usual[1], "cases": cases}), flush=True)


if __name__ == "__main__":
    main()
