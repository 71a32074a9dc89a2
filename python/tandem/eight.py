# SPDX-License-Identifier: Apache-2.0
"""python -m tandem.eight FOLDER: records a training step of eight standard models with the PyTorch that is here.

Then `tandem validate --add FOLDER/*.json --system NAME` says how far Tandem's predictions are off on this machine. Needs
torchvision for six of the models and transformers for two; nothing is downloaded, weights and data are random. A GPU is
used where there is one, else the processor, with small batches.
"""
import argparse
import importlib.util
import os
import sys

from ._record import record
from ._torch import document

VISION = {"resnet50": 32, "vgg16": 32, "mobilenet_v2": 64, "densenet121": 32, "vit_b_16": 32, "convnext_tiny": 32}
TEXT = {"GPT2LMHeadModel": ("GPT2Config", 4), "BertForMaskedLM": ("BertConfig", 16)}  # batches of a GPU
ON_PROCESSOR = 2  # samples


def made(torch, name, processor):
    """The module, named arguments of a step, samples of it, and what from_torch takes besides."""
    if name in VISION:
        import torchvision

        batch = ON_PROCESSOR if processor else VISION[name]
        return torchvision.models.get_model(name), (torch.randn(batch, 3, 224, 224),), batch, "cross-entropy"
    import transformers

    config, batch = TEXT[name]
    batch, length = (ON_PROCESSOR, 128) if processor else (batch, 512)
    words = torch.randint(0, 1000, (batch, length))
    net = getattr(transformers, name)(getattr(transformers, config)(attn_implementation="sdpa", use_cache=False))
    return net, {"input_ids": words, "labels": words}, batch, None


def recorded(torch, name, device, system, folder):
    net, inputs, samples, loss = made(torch, name, device == "cpu")
    half = device == "cuda" and torch.cuda.get_device_capability()[0] >= 8  # products in TF32
    torch.set_float32_matmul_precision("high" if half else "highest")
    question = {"model": document(net, inputs, loss=loss, name=name), "optimizer": "momentum", "precision": "tf32" if half else "fp32"}
    net = net.to(device).train()
    optimiser = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    inputs = {key: value.to(device) for key, value in inputs.items()} if loss is None else inputs[0].to(device)
    labels = torch.zeros(samples, dtype=torch.long, device=device)

    def step():
        optimiser.zero_grad()
        (net(**inputs).loss if loss is None else torch.nn.functional.cross_entropy(net(inputs), labels)).backward()
        optimiser.step()

    record(step, samples=samples, name=name, question={**question, **system}, steps=5 if device == "cpu" else 30,
           warmup=2 if device == "cpu" else 10, out=os.path.join(folder, f"{name}.json"))


def main():
    options = argparse.ArgumentParser(prog="python -m tandem.eight", description=__doc__.split("\n\n")[0].split(": ")[1])
    options.add_argument("folder")
    options.add_argument("--device", choices=["cuda", "cpu"])
    options.add_argument("--system", help="what this machine is, of tandem list systems or a file")
    options.add_argument("--only", nargs="+", choices=[*VISION, *TEXT], default=[*VISION, *TEXT], metavar="MODEL")
    asked = options.parse_args()
    import torch

    os.makedirs(asked.folder, exist_ok=True)
    for name in asked.only:
        if importlib.util.find_spec(needed := "torchvision" if name in VISION else "transformers") is None:
            print(f"{name} is left out: it needs {needed}", file=sys.stderr)
        else:
            recorded(torch, name, asked.device or ("cuda" if torch.cuda.is_available() else "cpu"),
                     {"system": asked.system} if asked.system else {}, asked.folder)


if __name__ == "__main__":
    main()
