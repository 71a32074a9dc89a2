#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training throughput on the CPU next to PyTorch: same model, batch and threads, measured in turn.

    python3 -m venv /somewhere && /somewhere/bin/pip install torch numpy
    /somewhere/bin/python tests/bench/against_pytorch.py --tandem build/tandem [--threads 1] [--rounds 5] [--out FILE]

Each round runs tandem, PyTorch with its default layout and, for images, PyTorch with channels_last; a round's
rate is samples over the median step. Printed: the median over the rounds, and tandem against the better of
PyTorch's two in the same round. Parameter counts are compared before anything is timed.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity() if inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x), inplace=True)


def resnet20():
    blocks, width = [], 16
    for outputs in (16, 32, 64):
        for i in range(3):
            blocks.append(Residual(width, outputs, 2 if i == 0 and outputs > 16 else 1))
            width = outputs
    return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def vgg11():
    layers, width = [], 3
    for outputs in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        if outputs == 0:
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(width, outputs, 3, 1, 1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
        width = outputs
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Dropout(.2), nn.Linear(512, 512), nn.ReLU(), nn.Dropout(.2),
                         nn.Linear(512, 10))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x):
        batch, steps, width = x.shape
        q, k, v = (t.view(batch, steps, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, steps, width)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, layers=4, width=128, heads=4, words=65, steps=64):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(steps, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


IMAGE = lambda batch: (torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,)))
CASES = [  # zoo name, batch, steps, PyTorch's model, one batch of input and labels
    ("resnet20-cifar", 32, 30, resnet20, IMAGE),
    ("vgg11-cifar10", 16, 12, vgg11, IMAGE),
    ("mlp", 32, 300, mlp, lambda batch: (torch.randn(batch, 784), torch.randint(0, 10, (batch,)))),
    ("transformer-tiny", 8, 60, Gpt,
     lambda batch: (torch.randint(0, 65, (batch, 64)), torch.randint(0, 65, (batch * 64,)))),
]


def torch_rate(model, data, steps, warmup=3):
    x, labels = data
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    seconds = []
    for _ in range(steps + warmup):
        start = time.perf_counter()
        optimiser.zero_grad()
        F.cross_entropy(model(x), labels).backward()
        optimiser.step()
        seconds.append(time.perf_counter() - start)
    return len(x) / statistics.median(seconds[warmup:])


def tandem_rate(tandem, model, batch, steps, threads):
    report = json.loads(subprocess.check_output(
        [tandem, "run", "--model", model, "--batch", str(batch), "--devices", "1", "--threads", str(threads),
         "--iterations", str(steps + 3), "--format", "json", "--quiet"]))
    return batch / report["iteration_seconds"]["median"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", default="build/tandem")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", help="JSON")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.threads == 1:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # as tandem's worker is
    rows = []
    print("| model | batch | tandem | PyTorch | PyTorch channels_last | tandem / PyTorch |\n"
          "| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, batch, steps, make, inputs in CASES:
        net, data = make(), inputs(batch)
        shown = json.loads(subprocess.check_output([args.tandem, "show", "model", name, "--format", "json"]))
        count = sum(p.numel() for p in net.parameters())
        if count != shown["parameters"]:
            raise SystemExit(f"{name}: {shown['parameters']} parameters here, {count} in PyTorch")
        ours, theirs, last, ratios = [], [], [], []
        for _ in range(args.rounds):
            ours.append(tandem_rate(args.tandem, name, batch, steps, args.threads))
            theirs.append(torch_rate(net.to(memory_format=torch.contiguous_format), data, steps))
            if data[0].dim() == 4:
                turned = data[0].contiguous(memory_format=torch.channels_last)
                last.append(torch_rate(net.to(memory_format=torch.channels_last), (turned, data[1]), steps))
            ratios.append(ours[-1] / max(theirs[-1], last[-1] if last else 0))
        row = {"model": name, "batch": batch, "threads": args.threads, "tandem": statistics.median(ours),
               "pytorch": statistics.median(theirs), "pytorch_channels_last": statistics.median(last) if last else None,
               "ratio": statistics.median(ratios), "ratio_least": min(ratios), "ratio_most": max(ratios)}
        rows.append(row)
        turned = f"{row['pytorch_channels_last']:.0f}" if last else ""
        print(f"| {name} | {batch} | {row['tandem']:.0f} | {row['pytorch']:.0f} | {turned} | "
              f"{row['ratio']:.2f} ({row['ratio_least']:.2f} .. {row['ratio_most']:.2f}) |", flush=True)
    if args.out:
        with open(args.out + ".part", "w") as f:
            json.dump({"machine": platform.processor() or platform.machine(), "torch": torch.__version__,
                       "date": time.strftime("%Y-%m-%d"), "rows": rows}, f, indent=1)
        os.replace(args.out + ".part", args.out)


if __name__ == "__main__":
    main()
