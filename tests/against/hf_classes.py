#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes models/import/hf/classes.json: what Transformers itself says of its model types.

For each type: its classes, the bare one, the attention that runs by default, other names of fields, and every field
with the class's default. Fields that change neither shapes nor work are left out (models/import/hf/ignored.json).

    pip install transformers==5.23.0 torch
    tests/against/hf_classes.py > models/import/hf/classes.json
A field that is null is made from others by the class, or is null.
"""
import json
import math
import os

import transformers
from transformers.models.auto import modeling_auto as auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

MAPPINGS = [
    auto.MODEL_FOR_CAUSAL_LM_MAPPING,
    auto.MODEL_FOR_MASKED_LM_MAPPING,
    auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
    auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING,
    auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING,
    auto.MODEL_MAPPING,
]
BARE = ("clip", "siglip", "siglip2", "dinov3_vit", "wav2vec2", "hubert", "wavlm")  # read without a head
STAGES = ("depths", "hidden_sizes", "mlp_ratios", "num_attention_heads", "num_heads", "patch_sizes", "sr_ratios", "strides",
          "pretrained_window_sizes")  # lists of one entry a stage, which the class has as they are
HERE = os.path.dirname(os.path.abspath(__file__))


def first(value):
    return value[0] if isinstance(value, (list, tuple)) else value


def plain(value, layers):
    """As JSON has it; lists of one entry a layer are made anew from other fields."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        if layers is not None and len(value) == layers:
            return None
        return [plain(v, None) for v in value]
    if isinstance(value, dict):
        if "model_type" in value:  # a config in the config: a type of its own
            return None
        return {str(k): plain(v, None) for k, v in value.items()}
    return value


def attention_of(model_class):
    """What PreTrainedModel chooses when nobody asks for another."""
    return "sdpa" if getattr(model_class, "_supports_sdpa", False) else "eager"


def changed(value):
    """Another value of the same kind, or None."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int) and value > 0:
        return 2 * value
    return None


def derived(config_class, said):
    """Fields that the class makes from others where they are left out."""
    out = set()
    for key, value in said.items():
        if changed(value) is None:
            continue
        try:
            other = config_class(**{key: changed(value)}).to_dict()
        except Exception:  # the class refuses it
            continue
        out |= {k for k, v in other.items() if k != key and v != said.get(k) and not isinstance(v, dict)}
    return out


def name_in(mapping, config_class):
    try:
        return first(mapping[config_class]).__name__ if config_class in mapping else None
    except Exception:  # a name in the mapping that the library does not have
        return None


def main():
    ignored = json.load(open(os.path.join(HERE, "../../models/import/hf/ignored.json")))
    out = {}
    for type_, config_class in sorted(CONFIG_MAPPING.items()):
        classes, bare = [], True
        for mapping in MAPPINGS:
            name = name_in(mapping, config_class)
            if name is not None and name not in classes:
                classes.append(name)
                bare = bare and mapping is auto.MODEL_MAPPING
        if not classes or (bare and not type_.endswith(("_text", "_vision", "_model")) and type_ not in BARE):
            continue
        try:
            config = config_class()
        except Exception:
            continue
        said = config.to_dict()
        layers = getattr(config, "num_hidden_layers", None)
        made = derived(config_class, said)
        fields = {
            k: None if k in made and k not in STAGES else plain(v, None if k in STAGES else layers)
            for k, v in sorted(said.items())
            if k not in ignored and k not in ("architectures", "model_type") and not k.endswith("_token_id")
        }
        row = {"classes": classes, "attention": attention_of(getattr(transformers, classes[0], None))}
        if config.attribute_map:
            row["aliases"] = dict(sorted(config.attribute_map.items()))
        row["fields"] = fields
        out[type_] = row
    lines = ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in out.items())
    print(f"// Written by tests/against/hf_classes.py from transformers {transformers.__version__}: see there.\n{{\n{lines}\n}}")


main()
