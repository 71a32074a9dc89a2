# SPDX-License-Identifier: Apache-2.0
"""Records the training step of a script that runs with PyTorch: its rate, operators, memory, collectives and versions.

From a script that has a function for a step::

    tandem.record(step, samples=64, out="here.json")

or around one that has not; its optimiser's steps are the marks::

    python -m tandem.record --samples 64 --out here.json train.py --epochs 1

Of the script nothing is kept: no data, no path, no argument, no name of a host or of a user. What is kept is printed.
"""
import argparse
import collections
import datetime
import json
import math
import os
import platform
import runpy
import statistics
import sys
import time

SCHEMA = "tandem-record-1"
PROFILED = 3  # steps, besides those that are timed


def _synchronise(torch):
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _activities(torch):
    kinds = torch.profiler.ProfilerActivity
    return [kinds.CPU] + ([kinds.CUDA] if torch.cuda.is_available() else [])


def _host_memory():
    """The most that the process has held, in bytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
        return names[0] if names else platform.machine()
    except OSError:
        return platform.machine()


def _clocks():
    """MHz now of the first GPU's processors and memory, where nvidia-smi tells."""
    import subprocess

    query = ["nvidia-smi", "-i", "0", "--query-gpu=clocks.sm,clocks.mem,driver_version,power.limit",
             "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    words = [word.strip() for word in said.splitlines()[0].split(",")]
    return dict(zip(("sm_mhz", "memory_mhz", "driver", "power_limit_watts"), words)) if len(words) == 4 else {}


def _machine(torch):
    out = {"processor": _processor(), "cores": len(os.sched_getaffinity(0)), "threads": torch.get_num_threads(),
           "devices": []}
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            about = torch.cuda.get_device_properties(index)
            out["devices"].append({"name": about.name, "memory_bytes": about.total_memory})
        out.update(_clocks())
    return out


def _versions(torch):
    out = {"python": platform.python_version(), "torch": torch.__version__}
    if torch.version.cuda:
        out["cuda"] = torch.version.cuda
        out["cudnn"] = str(torch.backends.cudnn.version())
        try:
            out["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        except (AttributeError, RuntimeError):
            pass
    if getattr(torch.version, "hip", None):
        out["hip"] = torch.version.hip
    return out


def _ranks(torch):
    group = torch.distributed
    if not (group.is_available() and group.is_initialized()):
        return {"rank": 0, "world_size": 1}
    return {"rank": group.get_rank(), "world_size": group.get_world_size(), "backend": group.get_backend()}


def _operators(profile):
    """By name, the longest first; seconds of one step, without those of operators that they call."""
    rows = []
    for event in profile.key_averages():
        device = getattr(event, "self_device_time_total", getattr(event, "self_cuda_time_total", 0))
        if event.key.startswith(("ProfilerStep", "Optimizer.")):
            continue
        rows.append({"name": event.key[:120], "count": event.count / PROFILED,
                     "host_seconds": event.self_cpu_time_total * 1e-6 / PROFILED,
                     "device_seconds": device * 1e-6 / PROFILED})
    rows.sort(key=lambda row: -(row["device_seconds"] or row["host_seconds"]))
    return rows[:60]


def _collectives(profile):
    """What the process group was asked for, with its sizes where the profiler kept shapes."""
    found = collections.Counter()
    for event in profile.events():
        if not event.name.startswith(("nccl:", "gloo:")):
            continue
        shape = next((one for one in event.input_shapes or [] if one), [0])
        elements = math.prod(size if isinstance(size, int) else 0 for size in shape)
        found[(event.name.split(":", 1)[1], elements)] += 1
    return [{"kind": kind, "elements": elements or None, "count": count / PROFILED}
            for (kind, elements), count in sorted(found.items())]


def _memory(torch):
    out = {"host_bytes": _host_memory()}
    if torch.cuda.is_available():
        out["allocated_bytes"] = torch.cuda.max_memory_allocated()
        out["reserved_bytes"] = torch.cuda.max_memory_reserved()
    return out


class _Meter:
    """Reads what one GPU draws, ten times a second, by an nvidia-smi that runs meanwhile."""

    LEAST = 10  # readings that a figure needs
    ASKED = ["power.draw", "clocks.sm", "clocks.mem", "temperature.gpu"]

    def __init__(self, gpu):
        import subprocess
        import threading

        self.readings, self.missing, self.process = [], "", None
        command = ["nvidia-smi", "-i", gpu, f"--query-gpu={','.join(self.ASKED)}", "--format=csv,noheader,nounits",
                   "-lms", "100"]
        try:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError as why:
            self.missing = f"no nvidia-smi: {why.strerror}"
            return
        self.lines = self.process.stdout
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.lines:
            try:
                self.readings.append([float(word) for word in line.split(",")])
            except ValueError:  # "[N/A]", or a message
                self.missing = f"nvidia-smi says \"{line.strip()[:80]}\""

    def stop(self):
        """Any number of times."""
        process, self.process = self.process, None
        if process is None:
            return
        process.kill()
        process.wait()
        self.reader.join()
        process.stdout.close()

    def document(self, step_seconds, samples):
        """As member "power" of a report of tandem, or why it is not known."""
        rows = [row for row in self.readings if len(row) == len(self.ASKED)]
        if len(rows) < self.LEAST:
            why = self.missing or f"{len(rows)} of the {self.LEAST} readings that it takes: more --steps"
            return {"power_not_known": why}
        watts, clock, memory_clock, celsius = zip(*rows)
        joules = statistics.fmean(watts) * step_seconds
        out = {"watts_per_device": statistics.fmean(watts), "joules_per_step": joules,
               "readings": {"source": "nvidia-smi", "devices": 1, "count": len(rows), "energy_counter": False,
                            "least_watts": min(watts), "most_watts": max(watts), "clock_mhz": statistics.fmean(clock),
                            "memory_clock_mhz": statistics.fmean(memory_clock), "celsius": max(celsius)}}
        if samples:
            out["joules_per_sample"] = joules / samples
        return {"power": out}


def _gpu(torch):
    """Its number or name for nvidia-smi, which knows nothing of CUDA_VISIBLE_DEVICES."""
    index = torch.cuda.current_device()
    name = getattr(torch.cuda.get_device_properties(index), "uuid", None)
    if name is not None:
        return f"GPU-{name}"
    visible = [one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]
    return visible[index] if index < len(visible) else str(index)


class _Recording:
    """Called at the end of each step: leaves out `warmup`, times `steps` and profiles PROFILED more."""

    def __init__(self, warmup, steps):
        import torch

        if steps < 2:
            raise ValueError("a record takes two steps at least")
        self.torch, self.warmup, self.steps = torch, warmup, steps
        self.count, self.lengths, self.profile = 0, [], None
        self.last, self.meter = None, None

    def end_of_step(self):
        """True when all is known."""
        _synchronise(self.torch)
        now = time.perf_counter()
        self.count += 1
        if self.warmup < self.count <= self.warmup + self.steps and self.last is not None:
            self.lengths.append(now - self.last)
        if self.count == max(1, self.warmup) and self.torch.cuda.is_available():
            self.torch.cuda.reset_peak_memory_stats()
            self.meter = _Meter(_gpu(self.torch))
        if self.count == self.warmup + self.steps:
            self.close()
            self.memory = _memory(self.torch)
            self.profile = self.torch.profiler.profile(activities=_activities(self.torch), record_shapes=True)
            self.profile.__enter__()
        if self.count == self.warmup + self.steps + PROFILED:
            self.profile.__exit__(None, None, None)
            return True
        self.last = time.perf_counter()
        return False

    def close(self):
        """Whatever became of the steps."""
        if self.meter is not None:
            self.meter.stop()

    def document(self, samples, name, question=None):
        ordered = sorted(self.lengths)
        median = statistics.median(ordered)
        ranks = _ranks(self.torch)
        out = {"schema": SCHEMA, "name": name, "date": datetime.date.today().isoformat(), **ranks,
               "machine": _machine(self.torch), "versions": _versions(self.torch),
               "step_seconds": {"low": ordered[0], "median": median, "high": ordered[-1], "steps": len(ordered)},
               "memory": self.memory, "operators": _operators(self.profile),
               "collectives": _collectives(self.profile)}
        if self.meter is not None:
            out.update(self.meter.document(median, samples))
        if question is not None:
            out["question"] = question
        if samples:
            out["samples_per_step"] = samples * ranks["world_size"]
            out["samples_per_second"] = out["samples_per_step"] / median
            out["anchor"] = f"{out['samples_per_second']:.6g}@{ranks['world_size']}"
        return out


def _show(document):
    step, machine = document["step_seconds"], document["machine"]
    devices = ", ".join(sorted({one["name"] for one in machine["devices"]})) or machine["processor"]
    lines = [f"Kept of {step['steps']} steps on {devices} (rank {document['rank']} of {document['world_size']}):",
             f"  a step takes {step['median'] * 1e3:.3f} ms ({step['low'] * 1e3:.3f} .. {step['high'] * 1e3:.3f})"]
    if "anchor" in document:
        lines.append(f"  {document['samples_per_second']:.4g} samples/s: --anchor {document['anchor']}")
    if "question" in document:
        said = {key: value if isinstance(value, str | int | float) else "as a document"
                for key, value in document["question"].items() if key != "schema"}
        lines.append("  question: " + ", ".join(f"{key} {value}" for key, value in said.items()))
    if power := document.get("power"):
        lines.append(f"  the GPU draws {power['watts_per_device']:.0f} W, {power['joules_per_step']:.3g} J a step "
                     f"({power['readings']['count']} readings)")
    elif "power_not_known" in document:
        lines.append(f"  power not known: {document['power_not_known']}")
    lines += [f"  {key.replace('_', ' ')}: {value / 2**20:.0f} MiB" for key, value in document["memory"].items()]
    lines.append("  versions: " + ", ".join(f"{key} {value}" for key, value in document["versions"].items()))
    for row in document["operators"][:8]:
        seconds = row["device_seconds"] or row["host_seconds"]
        lines.append(f"  {seconds * 1e3:9.3f} ms  {row['count']:6.1f} x  {row['name'][:56]}")
    return "\n".join(lines)


def _keep(document, out):
    print(_show(document), file=sys.stderr)
    if out:
        partial = f"{out}.partial"
        with open(partial, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.write("\n")
        os.replace(partial, out)
        print(f"  all of it, and nothing else, is in {out}", file=sys.stderr)


def _question(given):
    """A "tandem-question-1" document: of a tandem.Question, or of a mapping that may lack a part of one."""
    if given is None:
        return None
    whole = json.loads(given.json()) if hasattr(given, "json") else dict(given)
    return {"schema": "tandem-question-1", **{key: value for key, value in whole.items() if key != "devices"}}


def record(step, *, samples=None, name="", question=None, warmup=3, steps=10, out=None):
    """Runs `step()` warmup + steps + 3 times and returns what is known of it.

    samples: of a step of this process; adds samples per second of all processes and the text that `anchor=` takes.
    question: what is trained and on what, for `tandem validate --add`: a tandem.Question, or a mapping of its options,
    {"model": "resnet50", "optimizer": "sgd"}; what it lacks is said there.
    out: a file for the same as JSON ("tandem-record-1"). Every process of a distributed training calls it.
    Times are in seconds, of a step and with the device awaited; memory in bytes; power, of this process's GPU while the
    timed steps ran, in watts and joules, by nvidia-smi ten times a second: a second of steps at least. The last three
    steps are profiled and not timed.
    """
    recording, question = _Recording(warmup, steps), _question(question)
    try:
        while True:
            step()
            if recording.end_of_step():
                break
    finally:
        recording.close()
    document = recording.document(samples, name, question)
    _keep(document, out)
    return document


class _Enough(BaseException):
    """Ends the script: no handler of exceptions of its own should catch it."""


def main():
    options = argparse.ArgumentParser(prog="python -m tandem.record", description=__doc__.split("\n\n")[0])
    options.add_argument("--samples", type=int, help="of a step of this process")
    options.add_argument("--name", default="", help="what to call it")
    options.add_argument("--question", help="a file: what is trained and on what, for tandem validate --add")
    options.add_argument("--warmup", type=int, default=3)
    options.add_argument("--steps", type=int, default=10)
    options.add_argument("--out", help="a file for the record")
    options.add_argument("script")
    options.add_argument("arguments", nargs=argparse.REMAINDER)
    asked = options.parse_args()
    if asked.steps < 2 or asked.warmup < 0:
        options.error("--steps is 2 at least and --warmup 0 at least")
    question = None
    if asked.question:
        with open(asked.question, encoding="utf-8") as file:
            question = _question(json.load(file))
    from torch.optim.optimizer import register_optimizer_step_post_hook

    recording = _Recording(asked.warmup, asked.steps)

    def after(optimizer, args, kwargs):
        if recording.end_of_step():
            raise _Enough

    register_optimizer_step_post_hook(after)
    sys.argv = [asked.script, *asked.arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(asked.script)))
    try:
        runpy.run_path(asked.script, run_name="__main__")
    except _Enough:
        _keep(recording.document(asked.samples, asked.name, question), asked.out)
        return 0
    finally:
        recording.close()
    print(f"tandem.record: the script ended after {recording.count} steps of its optimiser; "
          f"{asked.warmup + asked.steps + PROFILED} are needed (--warmup, --steps)", file=sys.stderr)
    return 3
