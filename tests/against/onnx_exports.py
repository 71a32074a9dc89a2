#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what `tandem import onnx` makes of exported modules with the modules themselves, one model a line
(docs/from-torch.md).

Parameters are the module's; FLOPs those that tandem.Model.from_torch gives for the same module. Weights are random numbers, as
trained ones are: exporters merge initializers that are equal, as those of fresh norms. "plain" is torch.onnx.export as it
writes a graph without optimisations, "folded" with them (the default, which puts batch norms into convolutions), "script" the
older exporter in training mode.

    pip install torch torchvision transformers onnx onnxscript
    tests/against/onnx_exports.py build/tandem plain torchvision:resnet50 full:gpt2 full:bert
"""
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import warnings

import torch

HERE = os.path.dirname(os.path.abspath(__file__))


def sibling(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(HERE, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


THEIRS = sibling("from_torch")
WAYS = {"plain": {"dynamo": True, "optimize": False}, "folded": {"dynamo": True, "optimize": True},
        "script": {"dynamo": False, "training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False}}


class First(torch.nn.Module):
    """A module of Transformers as a function of its tokens."""

    def __init__(self, module, name):
        super().__init__()
        self.module, self.name = module, name

    def forward(self, x):
        out = self.module(**{self.name: x})
        return out.logits if hasattr(out, "logits") else out[0]


def exported(module, inputs, way, folder):
    path = os.path.join(folder, "model.onnx")
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.02)
    module = module.train() if way == "script" else module.eval()
    with THEIRS.READER.without_masks():
        torch.onnx.export(module, tuple(inputs), path, verbose=False, external_data=True, **WAYS[way])
    return path


def predicted(tandem, path, folder):
    model = os.path.join(folder, "model.json")
    done = subprocess.run([*tandem.split(), "import", "onnx", path, "--out", model], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip()[:300])
    if os.environ.get("KEEP"):
        os.makedirs(os.environ["KEEP"], exist_ok=True)
        os.replace(model, os.path.join(os.environ["KEEP"], "model.json"))
        model = os.path.join(os.environ["KEEP"], "model.json")
    shown = THEIRS.asked(tandem, "show", "model", model)
    return shown["parameters"], shown["forward_flops_per_sample"], shown["kept_bytes_per_sample"]


def main():
    warnings.filterwarnings("ignore")
    tandem, way, words = sys.argv[1], sys.argv[2], sys.argv[3:]
    print("%-8s %-24s %15s %9s %10s %8s %10s %8s  %s" % ("exported", "model", "parameters", "", "GFLOP", "", "kept MB", "", "seconds"))
    good = count = 0
    for _, name, make, example in THEIRS.rows(words):
        begin = time.time()
        count += 1
        try:
            module = make()
            arguments = {k: v for k, v in example(1).items() if k != "labels"}
            if "x" not in arguments:
                module = First(module, next(iter(arguments)))
            inputs = list(arguments.values())
            want = sum(p.numel() for p in module.parameters())
            twin = THEIRS.predicted(tandem, module, lambda batch: {"x": inputs[0]})
            with tempfile.TemporaryDirectory() as folder:
                ours = predicted(tandem, exported(module, inputs, way, folder), folder)
        except Exception as error:
            if os.environ.get("TRACE"):
                raise
            print("%-8s %-24s %s: %s" % (way, name, type(error).__name__, " ".join(str(error).split())[:260]), flush=True)
            continue
        flops, kept = ours[1] / twin[1] - 1, ours[2] / twin[2] - 1
        fine = ours[0] == want and abs(flops) <= 0.005
        good += fine
        print("%-8s %-24s %15d %9s %10.3f %7.2f%% %10.2f %7.2f%%  %.0f%s" % (
            way, name, want, "exact" if ours[0] == want else "%+d" % (ours[0] - want), twin[1] / 1e9, 100 * flops,
            ours[2] / 1e6, 100 * kept, time.time() - begin, "" if fine else "  *"), flush=True)
    print("%d of %d within: parameters exactly, FLOPs 0.5 %%" % (good, count))


if __name__ == "__main__":
    main()
