#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of gpu_visit.py: a line of JSON on stdout for each case, which it names.

  gpu_visit_torch.py hardware                            copies, products, launches
  gpu_visit_torch.py train MODEL:BATCH:PRECISION:MODE... samples per second of the same models; MODE is eager,
                                                         deterministic (as tandem computes), graphed, compiled,
                                                         or nchw: eager with images channel by channel; recomputed,
                                                         accumulated (two passes a step), lora (of rank 16): eager
"""
import gc
import itertools
import json
import statistics
import sys
import time

import torch
import torch.utils.checkpoint
from torch import nn


def seconds(work, repeats=20, warm=3):
    """Median device time of one call. The device is kept busy meanwhile, so that it never waits for the host."""
    for _ in range(warm):
        work()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        torch.cuda._sleep(200_000)  # clock cycles
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def warm_up():
    """An idle device lowers its clocks: half a second of work raises them."""
    x = torch.randn(4096, 4096, device="cuda")
    until = time.perf_counter() + 0.5
    while time.perf_counter() < until:
        x @ x
        torch.cuda.synchronize()


def hardware():
    warm_up()
    out = {"device": torch.cuda.get_device_name(0), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
           "copies": [], "products": [], "launch": {}}
    for power in range(10, 31, 4):
        n = 2**power
        host, pinned = torch.zeros(n, dtype=torch.uint8), torch.zeros(n, dtype=torch.uint8).pin_memory()
        a, b = torch.zeros(n, dtype=torch.uint8, device="cuda"), torch.zeros(n, dtype=torch.uint8, device="cuda")
        for kind, to, source in [("pageable to device", a, host), ("pinned to device", a, pinned),
                                 ("device to pinned", pinned, a), ("device to device", a, b)]:
            out["copies"].append({"kind": kind, "bytes": n,
                                  "seconds": seconds(lambda: to.copy_(source, non_blocking=True), 10)})
    for name, kind, tf32 in [("fp32", torch.float32, False), ("tf32", torch.float32, True),
                             ("fp16", torch.float16, False), ("bf16", torch.bfloat16, False)]:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        for m, n, k in [(8192, 8192, 8192), (4096, 4096, 1024), (2048, 1024, 4096), (512, 512, 512), (64, 1000, 2048)]:
            # Several sets of operands in turn: together larger than the cache.
            sets = max(1, min(16, int(3e8 / (k * (m + n)))))
            x = [torch.randn(m, k, device="cuda", dtype=kind) for _ in range(sets)]
            y = [torch.randn(k, n, device="cuda", dtype=kind) for _ in range(sets)]
            turn = itertools.cycle(range(sets))

            def product():
                i = next(turn)
                return x[i] @ y[i]

            t = seconds(product, 20)
            out["products"].append({"precision": name, "m": m, "n": n, "k": k, "seconds": t,
                                    "tflops": 2e-12 * m * n * k / t})
    x = torch.zeros(32, device="cuda")
    for _ in range(100):
        x.add_(1)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(2000):
        x.add_(1)
    issued = time.perf_counter()
    torch.cuda.synchronize()
    out["launch"]["framework_issue_seconds"] = (issued - began) / 2000
    out["launch"]["framework_whole_seconds"] = (time.perf_counter() - began) / 2000
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(1000):
            x.add_(1)
    out["launch"]["kernel_in_graph_seconds"] = seconds(graph.replay) / 1000
    return out


class Lora(nn.Module):
    """A frozen matrix, and two small ones beside it (Hu et al. 2021)."""

    def __init__(self, frozen, rank=16):
        super().__init__()
        self.frozen = frozen
        self.down, self.up = nn.Linear(frozen.in_features, rank, bias=False), nn.Linear(rank, frozen.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.frozen(x) + self.up(self.down(x))


def with_lora(module):
    """All learned but the small matrices of its blocks' attention is frozen."""
    module.requires_grad_(False)
    for block in module.blocks:
        block.qkv, block.out = Lora(block.qkv), Lora(block.out)
    return module


class Block(nn.Module):
    """A transformer block of models/families: norm in front of each half (GPT) or behind it (BERT)."""

    def __init__(self, hidden, heads, causal):
        super().__init__()
        self.heads, self.causal, self.recomputed = heads, causal, False
        self.norm1, self.norm2, self.drop = nn.LayerNorm(hidden), nn.LayerNorm(hidden), nn.Dropout(0.1)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def attend(self, h):
        b, t, c = h.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(h).split(c, 2))
        a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.drop(self.out(a.transpose(1, 2).reshape(b, t, c)))

    def widen(self, h):
        return self.drop(self.down(nn.functional.gelu(self.up(h))))

    def forward(self, h):
        if self.recomputed:
            return torch.utils.checkpoint.checkpoint(self.compute, h, use_reentrant=False)
        return self.compute(h)

    def compute(self, h):
        if self.causal:
            h = h + self.attend(self.norm1(h))
            return h + self.widen(self.norm2(h))
        h = self.norm1(h + self.attend(h))
        return self.norm2(h + self.widen(h))


class Bert(nn.Module):
    """BERT large for pre-training, 128 tokens, 20 masked: models/families/bert.json but for the next-sentence head
    (0.1 % of the operations)."""

    def __init__(self, layers=24, hidden=1024, heads=16, vocabulary=30522, sequence=128):
        super().__init__()
        self.words = nn.Embedding(vocabulary, hidden)
        self.places, self.kinds = nn.Embedding(sequence, hidden), nn.Embedding(2, hidden)
        self.start = nn.Sequential(nn.LayerNorm(hidden), nn.Dropout(0.1))
        self.blocks = nn.Sequential(*[Block(hidden, heads, False) for _ in range(layers)])
        self.transform = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.LayerNorm(hidden))
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, x):
        h = self.start(self.words(x) + self.places.weight + self.kinds.weight[0])
        h = self.transform(self.blocks(h)[:, :20])
        return nn.functional.linear(h, self.words.weight, self.bias)


class Gpt(nn.Module):
    """GPT-2 small at 1024 tokens: models/families/gpt.json."""

    def __init__(self, layers=12, hidden=768, heads=12, vocabulary=50257, sequence=1024):
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, hidden), nn.Embedding(sequence, hidden)
        self.drop = nn.Dropout(0.1)
        self.blocks = nn.Sequential(*[Block(hidden, heads, True) for _ in range(layers)])
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x):
        h = self.blocks(self.drop(self.words(x) + self.places.weight))
        return nn.functional.linear(self.norm(h), self.words.weight)


def make(model, batch):
    """Module, inputs, labels. One batch that stays on the device, as tandem's synthetic input."""
    if model == "bert-large":
        return Bert(), torch.randint(30522, (batch, 128)), torch.randint(30522, (batch, 20))
    if model == "gpt2":
        return Gpt(), torch.randint(50257, (batch, 1024)), torch.randint(50257, (batch, 1024))
    import torchvision
    module = getattr(torchvision.models, model.replace("-", "_"))()
    return module, torch.randn(batch, 3, 224, 224).to(memory_format=torch.channels_last), torch.randint(1000, (batch,))


def graphed(step):
    """The whole step as one CUDA graph (docs.pytorch.org/docs/stable/notes/cuda.html, whole-network capture)."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def train(model, batch, precision, mode):
    torch.backends.cudnn.benchmark = mode != "deterministic"
    torch.backends.cudnn.deterministic = mode == "deterministic"
    torch.use_deterministic_algorithms(mode == "deterministic", warn_only=True)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.cuda.reset_peak_memory_stats()
    with torch.device("cuda"):  # where millions of random numbers are drawn in no time
        module, x, y = make(model, batch)
        module = with_lora(module) if mode == "lora" else module
    for part in module.modules():
        if isinstance(part, Block):
            part.recomputed = mode == "recomputed"
    module.train()
    if x.dim() == 4 and mode != "nchw":
        module = module.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=1e-4, momentum=0.9)
    forward = torch.compile(module) if mode == "compiled" else module
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)

    passes = 2 if mode == "accumulated" else 1

    def one_pass():
        # Casts are not kept between passes: in a captured graph they would be of no later weights.
        with torch.autocast("cuda", half or torch.bfloat16, enabled=half is not None, cache_enabled=mode != "graphed"):
            logits = forward(x)
            loss = nn.functional.cross_entropy(logits.flatten(0, -2), y.flatten())
        # As a gradient scaler multiplies in fp16, but for its search for overflow.
        (loss * 1024 if precision == "fp16" else loss).backward()

    def step():
        optimizer.zero_grad(set_to_none=True)
        for _ in range(passes):
            one_pass()
        optimizer.step()

    began = time.perf_counter()
    run = graphed(step) if mode == "graphed" else step
    while time.perf_counter() < began + 0.3:
        run()
        torch.cuda.synchronize()
    for _ in range(4):
        run()
    torch.cuda.synchronize()
    warm, timed = time.perf_counter() - began, time.perf_counter()
    for _ in range(4):
        run()
    torch.cuda.synchronize()
    steps = 4 if time.perf_counter() - timed > 0.2 else 10  # in a row; long ones need no more
    times = []
    for _ in range(5):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(steps):
            run()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - began) / steps)
    median = statistics.median(times)
    free, total = torch.cuda.mem_get_info()  # cudaMemGetInfo's, of all programs on this GPU
    return {"model": model, "batch": batch, "precision": precision, "mode": mode, "torch": torch.__version__,
            "step_seconds": median, "spread": (max(times) - min(times)) / median, "samples_per_second": passes * batch / median,
            "peak_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved(),
            "driver_bytes": total - free, "warm_seconds": warm}


def main(words):
    if words[0] == "hardware":
        return print(json.dumps({"case": "hardware", **hardware()}), flush=True)
    for case in words[1:]:
        model, batch, precision, mode = case.split(":")
        try:
            row = train(model, int(batch), precision, mode)
        except Exception as error:  # the next case may do
            row = {"problem": f"{type(error).__name__}: {str(error)[:300]}"}
        print(json.dumps({"case": f"{model} {precision} {mode}", **row}), flush=True)
        torch.compiler.reset()
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main(sys.argv[1:])
