#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares predictions with trainings of PyTorch on two processes of this machine, one thread and one core each, by gloo.

A step of each model is recorded with one process (tandem.record); that record is the anchor, and what gloo takes for a few
sizes of each collective is the profile, with which `tandem validate --add` predicts two processes. Ways: DDP, FSDP2
(fully_shard) and a pipeline (torch.distributed.pipelining), over the loopback interface and, as root, over two network
namespaces whose link `tc` limits (tbf). The machine has to be idle. Records stay in the folder; the rows are printed.

    pip install torch torchvision transformers
    tests/against/trainings.py build/tandem folder [--link 1gbit] [--ways ddp fsdp pipeline] [--models ...]

As machines drift, the ways of a model are recorded in turn, several times, and the record with the median step of each counts.
"""
import argparse
import csv
import glob
import importlib
import importlib.util
import io
import json
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
RANKS = 2
SPACES = ["tandem-a", "tandem-b"]  # network namespaces
ADDRESSES = ["10.77.0.1", "10.77.0.2"]
CONTROL = "cubic"  # congestion control of TCP: with bbr small messages after large ones wait for 100 ms at times
MIB = 1 << 20
SIZES = [64 << 10, 256 << 10, MIB, 4 * MIB, 16 * MIB, 25 * MIB, 64 * MIB, 160 * MIB]  # bytes of a collective's buffer


def package(name):
    """A module of python/tandem, whether the package is installed or not."""
    if "tandem_files" not in sys.modules:
        files = importlib.util.module_from_spec(importlib.machinery.ModuleSpec("tandem_files", None, is_package=True))
        files.__path__ = [os.path.join(ROOT, "python/tandem")]
        sys.modules["tandem_files"] = files
    return importlib.import_module("tandem_files." + name)


# ---- the models: a module, its example, samples of a step of each process, the loss

def vision(name, size, batch):
    def make(torch):
        import torchvision
        return torchvision.models.get_model(name), torch.randn(batch, 3, size, size), batch
    return make


def text(kind, config, batch, length, **fields):
    def make(torch):
        import transformers
        net = getattr(transformers, kind)(getattr(transformers, config)(attn_implementation="sdpa", use_cache=False, **fields))
        return net, torch.randint(0, 1000, (batch, length)), batch
    return make


GPT = {"vocab_size": 8192, "n_embd": 256, "n_head": 4, "n_positions": 128}
BERT = {"vocab_size": 8192, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
MODELS = {
    "resnet18": vision("resnet18", 128, 4),
    "resnet50": vision("resnet50", 96, 4),
    "mobilenet_v2": vision("mobilenet_v2", 96, 8),
    "alexnet": vision("alexnet", 224, 8),
    "vgg11": vision("vgg11", 64, 4),
    "densenet121": vision("densenet121", 96, 4),
    "gpt2-mini": text("GPT2LMHeadModel", "GPT2Config", 4, 128, n_layer=4, **GPT),
    "bert-mini": text("BertForMaskedLM", "BertConfig", 8, 128, num_hidden_layers=4, **BERT),
    "gpt2-deep": text("GPT2LMHeadModel", "GPT2Config", 4, 128, n_layer=8, **GPT),
    "bert-deep": text("BertForMaskedLM", "BertConfig", 4, 128, num_hidden_layers=8, **BERT),
}
DATA_PARALLEL = list(MODELS)[:8]
PIPELINED = [name for name in MODELS if name.startswith(("gpt2", "bert"))]  # of equal blocks, halved
MICRO_BATCHES = 4


def blocks_of(net):
    """The parts that FSDP gathers one by one, and that a pipeline's stages share out."""
    import torch
    lists = [part for part in net.modules() if isinstance(part, torch.nn.ModuleList) and len(part) >= 4]
    if lists:
        return list(lists[0])
    return []


# ---- one process

class Stage:
    """Half of a transformer as a module of hidden states: the embeddings and the first half, or the second and the loss."""

    def __new__(cls, torch, net, rank):
        class Half(torch.nn.Module):
            def __init__(self):
                super().__init__()
                gpt = hasattr(net, "transformer")
                body = net.transformer if gpt else net.bert
                blocks = list(body.h if gpt else body.encoder.layer)
                half = len(blocks) // RANKS
                self.blocks = torch.nn.ModuleList(blocks[rank * half:(rank + 1) * half])
                self.gpt, self.first, self.vocabulary = gpt, rank == 0, net.config.vocab_size
                if self.first:
                    self.embed = torch.nn.ModuleList([body.wte, body.wpe, body.drop]) if gpt else body.embeddings
                elif gpt:
                    self.norm, self.head = body.ln_f, torch.nn.Linear(net.config.n_embd, self.vocabulary, bias=False)
                else:
                    self.head = net.cls

            def forward(self, x):
                if self.first and self.gpt:
                    words, places, drop = self.embed
                    x = drop(words(x) + places(torch.arange(x.shape[1])))
                elif self.first:
                    x = self.embed(x)
                for block in self.blocks:
                    x = block(x)
                    x = x[0] if isinstance(x, tuple) else x
                if not self.first:
                    x = self.head(self.norm(x) if self.gpt else x)
                return x
        return Half()


def pipelined(torch, net, example, rank):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    half = Stage(torch, net, rank)
    stage = PipelineStage(half, rank, RANKS, torch.device("cpu"))
    def loss(output, target):
        return torch.nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())
    schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=loss)
    optimiser = torch.optim.SGD(half.parameters(), lr=1e-3, momentum=0.9, foreach=True)

    def step():
        optimiser.zero_grad()
        schedule.step(*([example] if rank == 0 else []), **({"target": example} if rank else {}))
        optimiser.step()
    return step


def whole(torch, net, example, way):
    labels = torch.zeros(len(example), dtype=torch.long)
    words = not example.is_floating_point()
    if way == "ddp":
        run = torch.nn.parallel.DistributedDataParallel(net)
    elif way == "fsdp":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh("cpu", (RANKS,))
        for block in blocks_of(net):
            fully_shard(block, mesh=mesh)
        run = fully_shard(net, mesh=mesh)
    else:
        run = net
    optimiser = torch.optim.SGD(run.parameters(), lr=1e-3, momentum=0.9, foreach=True)

    def step():
        optimiser.zero_grad()
        loss = run(example, labels=example).loss if words else torch.nn.functional.cross_entropy(run(example), labels)
        loss.backward()
        optimiser.step()
    return step


# On processors FSDP2 awaits each collective where it begins it (async_op=False and no streams).
SCHEMES = {"one": "allreduce", "ddp": "pytorch-ddp", "fsdp": "pytorch-fsdp:overlap=off",
           "pipeline": f"pipeline:microbatches={MICRO_BATCHES}"}


def record_step(torch, way, name, rank, out, steps, known):
    """Records a step and adds to `known` what model it is of."""
    torch.manual_seed(0)
    net, example, batch = MODELS[name](torch)
    words = not example.is_floating_point()
    if name not in known:
        known[name] = package("_torch").document(net, {"input_ids": example, "labels": example} if words else (example,),
                                                 loss=None if words else "cross-entropy", name=name)
    question = {"model": known[name], "optimizer": "momentum", "scheme": SCHEMES[way]}
    if way == "fsdp" and not blocks_of(net):
        question["scheme"] += ",keeps=all"  # one unit, the root, which stays gathered
    if way == "pipeline":
        question["batch"] = batch // MICRO_BATCHES
    net.train()
    step = pipelined(torch, net, example, rank) if way == "pipeline" else whole(torch, net, example, way)
    samples = batch if way != "pipeline" else batch // RANKS  # of each process
    package("_record").record(step, samples=samples, name=name, question=question, warmup=2, steps=steps, out=out)


def sweep(torch, rank, asked):
    """Seconds of each collective by bytes, the median of several, processor seconds of each, and how fast a core copies."""
    group = torch.distributed
    kinds = {"all-reduce": lambda whole, part: group.all_reduce(whole),
             "all-gather": lambda whole, part: group.all_gather_into_tensor(whole, part),
             "reduce-scatter": lambda whole, part: group.reduce_scatter_tensor(part, whole),
             "sendrecv": lambda whole, part: group.send(whole, 1) if rank == 0 else group.recv(whole, 0)}
    profiles, processor = [], {}
    for kind, call in kinds.items():
        points = []
        for size in SIZES:
            whole, part = torch.zeros(size // 4), torch.zeros(size // 8)
            times, work, more, until = [], [], torch.ones(1), time.monotonic() + asked.seconds
            while more > 0:
                group.barrier()
                begin, busy = time.perf_counter(), time.process_time()
                call(whole, part)
                times.append(time.perf_counter() - begin)
                work.append(time.process_time() - busy)
                more.fill_(len(times) < 4 or (len(times) < 40 and time.monotonic() < until))
                group.broadcast(more, 0)  # both go on or neither
            points.append({"bytes": size, "seconds": statistics.median(times[1:])})
            processor[f"{kind} {size}"] = statistics.median(work[1:])
        profiles.append({"schema": "tandem-collective-profile-1", "source": "gloo, two processes of this machine",
                         "kind": kind, "devices": RANKS, "points": points})
    one, other, rates = torch.zeros(16 * MIB), torch.zeros(16 * MIB), []
    for _ in range(8):
        group.barrier()
        begin = time.perf_counter()
        one.copy_(other)
        rates.append(2 * 4 * one.numel() / (time.perf_counter() - begin))
    if rank == 0:
        device = {"name": "core", "summary": "one core of this machine", "kind": "cpu", "architecture": "skylake",
                  "peak": {"fp32": "128GFLOP/s"}, "memory": "4GiB", "units": 1, "launch": "1us",
                  "memory_bandwidth": f"{statistics.median(rates) / 1e9:.3g}GB/s"}
        with open(os.path.join(asked.folder, "core.json"), "w", encoding="utf-8") as file:
            json.dump(device, file, indent=1)
        with open(os.path.join(asked.folder, "collectives.json"), "w", encoding="utf-8") as file:
            json.dump({"schema": "tandem-collective-profiles-1", "profiles": profiles}, file, indent=1)
        with open(os.path.join(asked.folder, "processor_seconds.json"), "w", encoding="utf-8") as file:
            json.dump(processor, file, indent=1)


def worker(asked):
    rank = asked.rank
    os.sched_setaffinity(0, {rank})
    import torch

    torch.set_num_threads(1)
    group, host = torch.distributed, os.environ["MASTER_ADDR"]
    store = group.TCPStore(host, int(os.environ["MASTER_PORT"]), RANKS, rank == 0)
    turn, known = 0, {}

    def together(work):
        nonlocal turn
        turn += 1
        group.init_process_group("gloo", store=group.PrefixStore(str(turn), store), rank=rank, world_size=RANKS)
        work()
        group.barrier()
        group.destroy_process_group()

    def alone(work):
        nonlocal turn
        turn += 1
        if rank == 0 or asked.loaded:
            work()
        store.set(f"alone {turn} {rank}", "done")
        store.wait([f"alone {turn} {other}" for other in range(RANKS)])

    if asked.collectives:
        together(lambda: sweep(torch, rank, asked))
    for name in asked.models:
        for repeat in range(asked.repeats):
            for way in ["one", *asked.ways]:
                if name not in (PIPELINED if way == "pipeline" else DATA_PARALLEL) and way != "one":
                    continue
                out = os.path.join(asked.folder, way, f"{name}.{repeat}.json") if rank == 0 else None
                os.makedirs(os.path.join(asked.folder, way), exist_ok=True)
                (alone if way == "one" else together)(
                    lambda: record_step(torch, way, name, rank, out, asked.steps, known))


# ---- all of them

def shell(line):
    subprocess.run(line, shell=True, check=True)


def drop_link():
    for space in SPACES:
        subprocess.run(["ip", "netns", "del", space], stderr=subprocess.DEVNULL)


def make_link(rate):
    drop_link()
    for space in SPACES:
        shell(f"ip netns add {space}")
    shell(f"ip link add veth-a netns {SPACES[0]} type veth peer name veth-b netns {SPACES[1]}")
    for space, side, address in zip(SPACES, "ab", ADDRESSES):
        inside = f"ip netns exec {space}"
        shell(f"{inside} ip addr add {address}/24 dev veth-{side} && {inside} ip link set veth-{side} up && "
              f"{inside} ip link set lo up && {inside} ip route replace 10.77.0.0/24 dev veth-{side} congctl {CONTROL} && "
              f"{inside} tc qdisc add dev veth-{side} root tbf rate {rate} burst 256kb latency 200ms")


def run_all(folder, asked, link):
    """Records all models all ways; False if a process failed."""
    os.makedirs(folder, exist_ok=True)
    port, started, processes = str(29500 + os.getpid() % 1000), time.monotonic(), []
    for rank in range(RANKS):
        environment = dict(os.environ, OMP_NUM_THREADS="1", MASTER_PORT=port, MASTER_ADDR=ADDRESSES[0] if link else "127.0.0.1",
                           GLOO_SOCKET_IFNAME=f"veth-{'ab'[rank]}" if link else "lo", KINETO_LOG_LEVEL="5")
        command = [sys.executable, os.path.abspath(__file__), asked.tandem, folder, "--rank", str(rank),
                   "--steps", str(asked.steps), "--repeats", str(asked.repeats), "--seconds", str(asked.seconds),
                   "--ways", *asked.ways, "--models", *asked.models, *(["--loaded"] if asked.loaded else [])]
        inside = ["ip", "netns", "exec", SPACES[rank]] if link else []
        with open(os.path.join(folder, f"log.{rank}"), "w", encoding="utf-8") as log:
            processes.append(subprocess.Popen(inside + command + ["--collectives"], env=environment,
                                              stdout=subprocess.DEVNULL, stderr=log))
    ends = [process.wait() for process in processes]
    print(f"# {'over the link' if link else 'over loopback'}: {time.monotonic() - started:.0f} s, "
          f"{'done' if not any(ends) else 'failed: see ' + folder + '/log.*'}", flush=True)
    return not any(ends)


def median_record(folder, name):
    """The file of the record with the median step; None without records."""
    found = []
    for file in sorted(glob.glob(os.path.join(folder, f"{name}.[0-9]*.json"))):
        with open(file, encoding="utf-8") as text_:
            found.append((json.load(text_)["step_seconds"]["median"], file))
    return sorted(found)[(len(found) - 1) // 2][1] if found else None


def system_file(folder, rate):
    """Two nodes of one core that a loopback or a limited link joins, as a user would describe them."""
    rate = rate.replace("g", "G").replace("m", "M") + "/s" if rate else "10GB/s"
    path = os.path.join(folder, "system.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"name": "two-processes", "extends": "local-nodes", "summary": "two processes of one core each",
                   "set": {"devices": {"cpu0": {"model": os.path.abspath(os.path.join(folder, "core.json"))}}, "nodes": "2",
                           "communication.library": "gloo", "network.bandwidth": rate}}, file, indent=1)
    return path


def rows(asked, way, folder, collectives, system):
    pairs = [[median_record(os.path.join(folder, of), name) for of in ("one", way)] for name in asked.models]
    files = [file for pair in pairs if all(pair) for file in pair]
    if not files:
        return []
    answer = subprocess.run([asked.tandem, "validate", "--add", *files, "--system", system, "--collective-profile", collectives,
                             "--format", "csv"], capture_output=True, text=True)
    if answer.returncode:
        print(f"# {way}: {answer.stderr.strip()}")
        return []
    out, measured = [], {}
    for row in csv.DictReader(io.StringIO(answer.stdout)):
        if row["devices"] == "1":
            measured[row["record"]] = float(row["measured"])
        elif row["anchored"]:
            out.append((row["record"], measured[row["record"]], float(row["measured"]), float(row["anchored"]),
                        float(row["anchored_low"]), float(row["anchored_high"])))
    return out


def judge(asked):
    print("| way | model | one, samples/s | two | two, predicted | error | 90 % interval |\n|---|---|---:|---:|---:|---:|---|")
    totals = {}
    for link in ([False, True] if asked.link else [False]):
        place = os.path.join(asked.folder, "link" if link else "plain")
        collectives = os.path.join(place, "collectives.json")
        if not os.path.exists(collectives):
            continue
        system = system_file(place, asked.link if link else "")
        for way in asked.ways:
            named = f"{way}, {asked.link}" if link else way
            for name, one, two, predicted, low, high in rows(asked, way, place, collectives, system):
                error = predicted / two - 1
                totals.setdefault(named, []).append(error)
                print(f"| {named} | {name} | {one:.3g} | {two:.3g} | {predicted:.3g} | {100 * error:+.1f} % | "
                      f"{low:.3g} to {high:.3g}{'' if low <= two <= high else ', missed'} |")
    print()
    for named, errors in totals.items():
        print(f"{named}: {len(errors)} rows, mean error {100 * statistics.mean(map(abs, errors)):.1f} %, worst "
              f"{100 * max(errors, key=abs):+.1f} %")


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("tandem")
    options.add_argument("folder")
    options.add_argument("--link", default="", help="a rate for tc: 1gbit; needs root")
    options.add_argument("--ways", nargs="+", default=["ddp", "fsdp", "pipeline"], choices=["ddp", "fsdp", "pipeline"])
    options.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    options.add_argument("--steps", type=int, default=4, help="of a record that are timed")
    options.add_argument("--repeats", type=int, default=3, help="records of each way")
    options.add_argument("--seconds", type=float, default=0.5, help="for each size of a collective")
    options.add_argument("--loaded", action="store_true", help="the machine is not idle: each core records one process, at the "
                         "same time, so that others take from one as from two")
    options.add_argument("--judge", action="store_true", help="only print the rows of records that are there")
    for hidden in ({"name": "--collectives", "action": "store_true"}, {"name": "--rank", "type": int}):
        options.add_argument(hidden.pop("name"), help=argparse.SUPPRESS, **hidden)
    asked = options.parse_args()
    if asked.rank is not None:
        return worker(asked)
    if not asked.judge:
        run_all(os.path.join(asked.folder, "plain"), asked, False)
        if asked.link:
            try:
                make_link(asked.link)
                run_all(os.path.join(asked.folder, "link"), asked, True)
            finally:
                drop_link()
    return judge(asked)


if __name__ == "__main__":
    sys.exit(main())
