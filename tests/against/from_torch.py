#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the models that tandem.Model.from_torch makes with PyTorch itself, one model a line (docs/from-torch.md).

Parameters are those that learn; FLOPs those of torch.utils.flop_counter in a forward pass; bytes kept are what saved-tensor
hooks see in fp32, and the module's outputs, each storage once, without parameters, buffers and inputs, as the difference of
batches of three and two. Nothing is computed: shapes are worked out for tensors without memory. As on a GPU, dropout keeps a
mask of one byte, and attention is one fused kernel.

    pip install torch torchvision timm transformers
    tests/against/from_torch.py build/tandem torchvision timm families nanogpt tiny full
    tests/against/from_torch.py build/tandem torchvision:resnet50 tiny:llama
"""
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def load_reader():
    """python/tandem/_torch.py, whether the package is installed or not."""
    folder = os.path.join(ROOT, "python/tandem")
    package = importlib.util.module_from_spec(importlib.machinery.ModuleSpec("tandem_reader", None, is_package=True))
    package.__path__ = [folder]
    sys.modules["tandem_reader"] = package
    return importlib.import_module("tandem_reader._torch")


READER = load_reader()


# ---- the models

class Block(nn.Module):
    """As in nanoGPT."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.mlp_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        batch, time_, width = x.shape
        q, k, v = (y.view(batch, time_, self.heads, -1).transpose(1, 2) for y in self.c_attn(self.ln_1(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.c_proj(y.transpose(1, 2).contiguous().view(batch, time_, width)))
        return x + self.dropout(self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)))))


class NanoGPT(nn.Module):
    def __init__(self, layers=12, width=768, heads=12, vocabulary=50304, length=1024, dropout=0.1):
        super().__init__()
        self.wte, self.wpe, self.drop = nn.Embedding(vocabulary, width), nn.Embedding(length, width), nn.Dropout(dropout)
        self.h = nn.ModuleList([Block(width, heads, dropout) for _ in range(layers)])
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, tokens, targets):
        x = self.drop(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device)))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


def tokens(length):
    return lambda batch: {"tokens": torch.zeros(batch, length, dtype=torch.long), "targets": torch.zeros(batch, length, dtype=torch.long)}


def images(size):
    return lambda batch: {"x": torch.zeros(batch, 3, size, size)}


# Of the zoo's models those that timm has, and a small one of each of its families.
TIMM = """convnext_xlarge darknet53 deit_base_patch16_224 deit_small_distilled_patch16_224 deit_small_patch16_224 deit_tiny_patch16_224
deit3_large_patch16_224 deit3_small_patch16_224 efficientnet_b8 inception_v4 mixer_b16_224 mixer_l16_224 mixer_s16_224 mobilenetv1_100
regnetx_002 regnetx_006 regnetx_040 regnety_002 regnety_006 regnety_040 regnety_064 regnety_120 resnet50d resnext101_32x4d
seresnet50 legacy_seresnet101 legacy_seresnext101_32x4d swin_base_patch4_window7_224 swin_small_patch4_window7_224
swin_tiny_patch4_window7_224 vit_giant_patch14_dinov2 vit_small_patch16_224""".split()
FAMILIES = """beit_base_patch16_224 caformer_s18 cait_xxs24_224 coat_tiny convit_tiny convmixer_768_32 convnext_atto cpubone_nano
crossvit_tiny_240 cs3darknet_s csatv2 cspnext_tiny davit_tiny deepseek_vit_412m deit_tiny_patch16_224 densenet121 dla34 dpn68
edgenext_small efficientformer_l1 efficientformerv2_s0 efficientvim_m1 efficientvit_b0 efficientvit_m0 ese_vovnet19b_slim
eva02_tiny_patch14_224 fasternet_t0 fastvit_t8 focalnet_tiny_lrf gcvit_xxtiny gemma4_vit_167m gernet_s ghostnet_050
gmlp_ti16_224 haloregnetz_b hardcorenas_b hgnet_tiny hiera_tiny_224 hrnet_w18_small iformer_t inception_next_atto
inception_resnet_v2 inception_v3 inception_v4 lcnetv2_small legacy_senet154 legacy_xception levit_384_s8 lowformer_b0
mambaout_femto maxvit_pico_rw_256 mobilenetv5_base mobilevit_xxs mvitv2_tiny naflexvit_base_patch16_siglip nasnetalarge
nest_tiny nextvit_small nf_seresnet26 pit_xs_224 pnasnet5large pvt_v2_b0 qwen3_vit_88m rdnet_tiny regnetx_004_tv repghostnet_050
repvit_m1_0 res2net50d resnest14d resnet18 resnetv2_18 rexnet_100 sam2_hiera_tiny samvit_base_patch16 selecsls42 sequencer2d_s
shvit_s1 skresnet18 starnet_s1 swiftformer_xs swin_s3_tiny_224 swinv2_cr_tiny_224 swinv2_tiny_window8_256
tf_mobilenetv3_large_minimal_100 tiny_vit_5m_224 tinynet_a tnt_s_patch16_224 tresnet_l twins_svt_small vgg11_bn visformer_tiny
vit_relpos_small_patch16_224 vit_tiny_patch16_224 vit_tiny_r_s16_p8_224 vitamin_small_224 volo_d1_224 xception41
xcit_nano_12_p8_224""".split()

SMALL = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
         "vocab_size": 256, "max_position_embeddings": 128, "head_dim": 16}
MIXED = {"num_experts": 8, "num_local_experts": 8, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
TINY = {
    "gpt2": {"n_embd": 64, "n_layer": 3, "n_head": 4, "vocab_size": 256, "n_positions": 128},
    "gpt_neox": SMALL, "opt": {"hidden_size": 64, "ffn_dim": 160, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 256,
                               "max_position_embeddings": 128, "word_embed_proj_dim": 64},
    "llama": SMALL, "mistral": SMALL, "qwen2": SMALL, "qwen3": SMALL, "gemma": SMALL, "gemma2": SMALL, "phi": SMALL, "phi3": {**SMALL, "pad_token_id": 0},
    "olmo2": SMALL, "cohere": SMALL, "granite": SMALL, "smollm3": {**SMALL, "pad_token_id": 0}, "stablelm": SMALL, "starcoder2": SMALL,
    "mpt": {"d_model": 64, "n_heads": 4, "n_layers": 3, "vocab_size": 256, "max_seq_len": 128},
    "bloom": {"hidden_size": 64, "n_layer": 3, "n_head": 4, "vocab_size": 256},
    "bert": SMALL, "roberta": SMALL, "distilbert": {"dim": 64, "hidden_dim": 160, "n_layers": 3, "n_heads": 4, "vocab_size": 256},
    "electra": {**SMALL, "embedding_size": 32}, "albert": {**SMALL, "embedding_size": 32}, "modernbert": {**SMALL, "pad_token_id": 0},
    "deberta-v2": SMALL, "mpnet": SMALL,
    "t5": {"d_model": 64, "d_kv": 16, "d_ff": 160, "num_layers": 3, "num_heads": 4, "vocab_size": 256},
    "bart": {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
             "encoder_ffn_dim": 160, "decoder_ffn_dim": 160, "vocab_size": 256, "max_position_embeddings": 128},
    "vit": {**SMALL, "image_size": 32, "patch_size": 8}, "dinov2": {**SMALL, "image_size": 32, "patch_size": 8},
    "swin": {"image_size": 64, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4},
    "convnext": {"hidden_sizes": [16, 32, 64, 128], "depths": [2, 2, 2, 2]},
    "mixtral": {**SMALL, **MIXED}, "qwen2_moe": {**SMALL, **MIXED, "shared_expert_intermediate_size": 64}, "qwen3_moe": {**SMALL, **MIXED},
    "olmoe": {**SMALL, **MIXED}, "gpt_oss": {**SMALL, **MIXED}, "granitemoe": {**SMALL, **MIXED},
    "deepseek_v3": {**SMALL, **MIXED, "q_lora_rank": 32, "kv_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16,
                    "head_dim": 8, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1, "num_key_value_heads": 4},
}
# Published configurations, as differences from the classes' defaults.
FULL = {
    "gpt2": {}, "bert": {}, "roberta": {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}, "distilbert": {},
    "llama": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
              "vocab_size": 128256},
    "mistral": {}, "qwen2": {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
                             "num_key_value_heads": 2, "tie_word_embeddings": True},
    "gemma": {"hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18, "num_attention_heads": 8, "num_key_value_heads": 1},
    "phi3": {}, "t5": {"d_model": 512}, "vit": {}, "mixtral": {}, "qwen3_moe": {}, "gpt_oss": {},
}
TOKENS = {"tiny": 64, "full": 512}


def of_transformers(kind, fields, length):
    import transformers
    from transformers.models.auto import configuration_auto, modeling_auto
    transformers.logging.set_verbosity_error()
    config = configuration_auto.CONFIG_MAPPING[kind](**fields)
    config._attn_implementation = "sdpa"
    if kind in ("bert", "roberta", "distilbert", "electra", "albert", "modernbert", "deberta-v2", "mpnet"):
        maker = modeling_auto.AutoModelForMaskedLM
    elif kind in ("t5", "bart"):
        maker = modeling_auto.AutoModelForSeq2SeqLM
    elif kind in ("vit", "dinov2", "swin", "convnext"):
        maker = modeling_auto.AutoModelForImageClassification
    else:
        maker = modeling_auto.AutoModelForCausalLM

    def make():
        with contextlib.ExitStack() as stack:
            try:
                model = maker.from_config(config, attn_implementation="sdpa")
            except ValueError:
                model = maker.from_config(config, attn_implementation="eager")
            try:
                model.set_experts_implementation("grouped_mm")
            except Exception:  # it has no experts
                pass
        for c in {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}.values():
            c.use_cache = False
        return model

    def example(batch):
        if maker is modeling_auto.AutoModelForImageClassification:
            size = getattr(config, "image_size", 224)
            return {"pixel_values": torch.zeros(batch, 3, size, size)}
        ids = lambda: torch.zeros(batch, length, dtype=torch.long)
        if config.is_encoder_decoder:
            return {"input_ids": ids(), "decoder_input_ids": ids(), "labels": ids()}
        return {"input_ids": ids(), "labels": ids()}
    return make, example


def rows(words):
    for word in words:
        group, _, wanted = word.partition(":")
        if group == "torchvision":
            import torchvision
            for name in [wanted] if wanted else torchvision.models.list_models(module=torchvision.models):
                more = {"init_weights": False, "aux_logits": False} if name in ("googlenet", "inception_v3") else {}
                yield group, name, lambda n=name, m=more: getattr(torchvision.models, n)(**m), images(299 if name == "inception_v3" else 224)
        elif group in ("timm", "families"):
            import timm
            for name in [wanted] if wanted else TIMM if group == "timm" else FAMILIES:
                size = timm.get_pretrained_cfg(name, allow_unregistered=True)
                side = size.input_size[-1] if size is not None else 224
                yield group, name, lambda n=name: timm.create_model(n), images(side)
        elif group == "nanogpt":
            yield group, "gpt2", NanoGPT, tokens(1024)
        else:
            table = TINY if group == "tiny" else FULL
            for name in [wanted] if wanted else table:
                yield (group, name, *of_transformers(name, table[name], TOKENS[group]))


# ---- what PyTorch says

@contextlib.contextmanager
def as_on_a_gpu():
    """Dropout keeps one byte an element, and attention is one kernel that keeps no mask of its own."""
    dropout, attention = F.dropout, F.scaled_dot_product_attention
    checks = nn.functional._verify_batch_size

    def masked(input, p=0.5, training=True, inplace=False):
        return torch.native_dropout(input, p, True)[0] if training and p > 0 else input

    def fused(query, key, value, attn_mask=None, dropout_p=0.0, *more, **named):
        mask = None if attn_mask is None else attn_mask.detach()  # a learned one would take another way on a CPU
        return attention(query, key, value, mask, 0.0, *more, **named)
    F.dropout, F.scaled_dot_product_attention = masked, fused
    nn.functional._verify_batch_size = lambda size: None
    try:
        yield
    finally:
        F.dropout, F.scaled_dot_product_attention, nn.functional._verify_batch_size = dropout, attention, checks


def forward(module, arguments):
    return module(**arguments) if "x" not in arguments else module(arguments["x"])


def grouped_mm_flop(a, b, *more, out_shape=None, **named):
    return 2 * a[0] * a[1] * b[-1]


def grouped():
    """torch's counter knows no products of a stack of matrices with rows that have one each."""
    known = [(torch.ops.aten, "_grouped_mm"), (torch.ops.transformers, "grouped_mm_fallback")]
    return {getattr(where, name): grouped_mm_flop for where, name in known if hasattr(where, name)}


def kept(module, arguments):
    given = [t for t in list(module.parameters()) + list(module.buffers()) + list(arguments.values())]
    apart = {t.untyped_storage()._cdata for t in given}
    found = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in apart:
            found[storage._cdata] = storage
        return tensor
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = forward(module, arguments)
    for tensor in torch.utils._pytree.tree_leaves(dict(out) if hasattr(out, "keys") else out):
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad:  # whoever called holds them
            pack(tensor)
    return sum(s.nbytes() for s in found.values())


def made(make):
    """The module without memory for its tensors; some read numbers while they are made, and are made with them."""
    try:
        with torch.device("meta"):
            return make()
    except Exception:
        return make()


def without_memory(module, mode):
    """Its tensors are of the CPU from now on, and have shapes alone."""
    seen = {}

    def fake(tensor):
        if id(tensor) not in seen:
            with mode:
                twin = torch.empty(tensor.shape, dtype=tensor.dtype)
                seen[id(tensor)] = nn.Parameter(twin, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else twin
        return seen[id(tensor)]
    for part in module.modules():
        for table in (part._parameters, part._buffers):
            table.update((k, fake(v)) for k, v in table.items() if v is not None)
    return module


def measured(module, example):
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    module = without_memory(module, mode).train()
    with mode, as_on_a_gpu(), READER.without_masks():
        parameters = sum(p.numel() for p in module.parameters() if p.requires_grad)
        with FlopCounterMode(display=False, custom_mapping=grouped()) as counter:
            forward(module, example(2))  # one sample is not enough for batch normalisation
        two = kept(module, example(2))  # of one sample some copies are views
        return parameters, counter.get_total_flops() / 2, kept(module, example(3)) - two


# ---- what Tandem says

def predicted(tandem, module, example):
    arguments = example(2)
    document = READER.document(module, (arguments["x"],) if "x" in arguments else arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.json")
        with open(path, "w") as file:
            json.dump(document, file)
        if os.environ.get("KEEP"):
            with open(os.environ["KEEP"], "w") as file:
                json.dump(document, file, indent=1)
        shown = asked(tandem, "show", "model", path)
    return shown["parameters"], shown["forward_flops_per_sample"], shown["kept_bytes_per_sample"]


def asked(tandem, *words):
    done = subprocess.run([*tandem.split(), *words, "--format", "json"], capture_output=True, text=True)
    if done.returncode not in (0, 4):
        raise RuntimeError(done.stderr.strip()[:300])
    return json.loads(done.stdout)


def main():
    warnings.filterwarnings("ignore")
    tandem, words = sys.argv[1], sys.argv[2:]
    print("%-12s %-34s %15s %9s %10s %8s %10s %8s  %s" % ("from", "model", "parameters", "", "GFLOP", "", "kept MB", "", "seconds"))
    good = count = 0
    for group, name, make, example in rows(words):
        begin = time.time()
        count += 1
        try:
            module = made(make)
            ours = predicted(tandem, module, example)
            theirs = measured(module, example)
        except Exception as error:
            if os.environ.get("TRACE"):
                raise
            print("%-12s %-34s %s: %s" % (group, name, type(error).__name__, " ".join(str(error).split())[:230]), flush=True)
            continue
        off = [a / b - 1 if b else 0 for a, b in zip(ours, theirs)]
        fine = ours[0] == theirs[0] and abs(off[1]) <= 0.005 and abs(off[2]) <= 0.05
        good += fine
        print("%-12s %-34s %15d %9s %10.3f %7.2f%% %10.2f %7.2f%%  %.0f%s" % (
            group, name, theirs[0], "exact" if ours[0] == theirs[0] else "%+d" % (ours[0] - theirs[0]), theirs[1] / 1e9, 100 * off[1],
            theirs[2] / 1e6, 100 * off[2], time.time() - begin, "" if fine else "  *"), flush=True)
    print("%d of %d within: parameters exactly, FLOPs 0.5 %%, kept 5 %%" % (good, count))


if __name__ == "__main__":
    main()
