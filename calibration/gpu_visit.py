#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A visit to a machine with NVIDIA GPUs: everything that tandem wants to know of it, unattended, in calls that each can
stand alone.

  python3 calibration/gpu_visit.py --pack [FOLDER]     here: build for any x86-64 processor, gather what must travel
  python3 FOLDER/gpu_visit.py --call visit             there, in twelve minutes: what matters most of one GPU
  python3 FOLDER/gpu_visit.py --call multi             there, where it has several GPUs: what only they can tell
  python3 FOLDER/gpu_visit.py --call 1                 there, and then --call 2, 3, 4: everything of one GPU

The other machine needs the driver, Python 3.9 and NVIDIA's libraries (the CUDA toolkit with cuDNN and NCCL, or the
Python wheels that PyTorch brings), glibc at least as new as here; no compiler and no network. PyTorch, where it is
installed, is measured side by side; compute-sanitizer is used where it is found.

Results, seven files in --out (default $OUT, else "visit"): visit.json, summary.txt, log.txt, clocks.csv, choices.txt (what
the libraries do best on this chip, for TANDEM_CUDA_CHOICES; a pack can bring that of an earlier visit), measured.json and
profile.json. They are written anew after each measurement or stage, so what is killed loses the one under way. What takes
longer than its share is cut, and said. A stage is sound when every program ended well and every test ran and passed; what is not is listed at the end, and the exit code
is then 1. --budget ends a call early: what no time was left for says so. visit.json has, beside all stages, what a file
of calibration/data/visits holds: gpu_visit_figures.py adds it to one. `tandem validate --add visit.json` judges predictions
by what --call multi found.
"""
import argparse
import concurrent.futures
import datetime
import json
import math
import os
import pathlib
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from gpu_visit_figures import figures, summary
from gpu_visit_multi import MULTI_LIMITS, Multi
from gpu_visit_timed import DOCTOR, LIMITS, Timed

HERE = pathlib.Path(__file__).resolve().parent
# Batch sizes with which the held-out models of `tandem check --backend cuda` fit in 16 GB.
MODELS = {"resnet50": 64, "bert-large": 16, "gpt2": 8, "vgg16": 64, "resnet18": 64, "mobilenet-v2": 64, "densenet121": 32,
          "resnext50-32x4d": 32}
# In the order of their worth, for a visit that is cut short.
CALLS = {"1": ["doctor", "conformance", "train-bf16", "hardware", "train-more"],
         "2": ["doctor", "predict"],
         "3": ["pytorch"],
         "4": ["schemes", "sharing", "gradients", "sanitizer"],
         "visit": ["doctor", *LIMITS], "multi": ["doctor", *MULTI_LIMITS]}
STAGE_LIMITS = {"doctor": DOCTOR, **LIMITS, **MULTI_LIMITS}
# Two workers that share a GPU, against as many on the processor. Those that wait for nobody end nowhere twice.
MIXTURE = ("mixtral-8x7b:layers=2,hidden=32,heads=4,kv_heads=2,head_dim=8,feed=64,vocabulary=64,sequence=16,experts=4")
TINY = "transformer-tiny:hidden=16,heads=2,vocabulary=40,sequence=8"
# The newest come first.
SCHEMES = [("allreduce", "digits-mlp", "off", optimizer) for optimizer in
           ["lamb", "adafactor", "adamw-8bit", "adamw-paged", "adamw-8bit-paged"]] + [
    (scheme, TINY, "off") for scheme in [
        "allreduce:compression=int8", "allreduce:compression=topk,density=0.1", "allreduce:compression=powersgd",
        "parameter-server:compression=int8", "parameter-server:compression=topk,density=0.1", "allreduce:gradients=fp16",
        "allreduce", "allreduce:algorithm=ring", "allreduce:compression=fp16", "zero:stage=1", "zero:stage=2",
        "zero:stage=3", "fsdp", "pipeline:microbatches=4", "pipeline:microbatches=4,schedule=interleaved", "layer-split",
        "tensor-parallel", "tensor-parallel:sequence=on", "hybrid:context=2", "hybrid:sharding=3", "parameter-server",
        "parameter-server:server=gpu", "parameter-server:mode=async,server=gpu", "local-sgd:every=3", "diloco:every=3",
        "data-parallel-master", "delayed-allreduce:delay=2", "hogwild", "gossip"]] + [
    ("hybrid:expert=2", MIXTURE, "off"), ("pipeline:microbatches=4", "digits-cnn", "off"),
    ("allreduce", TINY, "optimizer"), ("zero:stage=2", TINY, "optimizer+gradients"),
    ("zero:stage=3", TINY, "optimizer+parameters")]
FREE = ("mode=async", "hogwild", "gossip")
BUDGETS = {"visit": 720, "multi": 640}  # seconds; of other calls 560
SHARDS = 12  # processes of the conformance tests: their time is compilations of cuDNN's, on one core each


def pack(folder, build, more, architectures, choices):
    """Build without this processor's instructions and copy what the stages need."""
    root = HERE.parent
    run = lambda *words: subprocess.run(words, check=True)
    targets = ["tandem", "gpu_test", "plugins"]
    if build is None:
        build = root / "build-visit"
        run("cmake", "-S", root, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DTANDEM_NATIVE=OFF",
            "-DTANDEM_QUICK=ON", "-DTANDEM_BENCH=OFF", "-DTANDEM_CUDA=ON",
            f"-DTANDEM_CUDA_ARCHITECTURES={architectures}", "-DTANDEM_MPI=OFF", "-DTANDEM_ONEDNN=OFF")
        run("ninja", "-C", build, *targets)
    build, to = pathlib.Path(build), pathlib.Path(folder)
    if to.exists():
        shutil.rmtree(to)
    (to / "lib").mkdir(parents=True)
    programs = ["tandem", "gpu_test", "libtandem_cuda.so", *more]
    for name in programs:
        shutil.copy2(build / name, to / name)
        run("strip", "--strip-debug", to / name)
    for data in ["models/zoo", "models/families", "topologies", "schemes/presets", "schemes/recipes",
                 "calibration/suite", "calibration/profiles"]:
        shutil.copytree(root / data, to / "data" / data, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("*.cpp", "*.h", "CMakeLists.txt"))
    for script in HERE.glob("gpu_visit*.py"):
        shutil.copy2(script, to / script.name)
    if choices:
        shutil.copy2(choices, to / "choices.txt")
    # Not the C library and its kin, which belong to the machine; not NVIDIA's, which are found there.
    stays = re.compile(r"^(ld-linux|libc\.|libm\.|libdl|libpthread|librt|libstdc\+\+|libgcc_s|libcu|libnccl|linux-vdso)")
    for name in programs:
        for line in subprocess.run(["ldd", to / name], capture_output=True, text=True).stdout.splitlines():
            found = re.match(r"\s*(\S+) => (/\S+)", line)
            if found and not stays.match(found[1]):
                shutil.copy2(os.path.realpath(found[2]), to / "lib" / found[1])
    size = sum(f.stat().st_size for f in to.rglob("*") if f.is_file())
    print(f"{to}: {size / 2**20:.0f} MiB. There: python3 {to}/gpu_visit.py --call 1")


def wheels():
    """<site-packages>/nvidia, where PyTorch's wheels put NVIDIA's libraries; None without."""
    try:
        import nvidia
        return list(nvidia.__path__)[0]
    except ImportError:
        return None


def parse_tests(text):
    """What gtest's lines say: also of a run that was killed, which leaves no report."""
    found = lambda mark: sorted(set(re.findall(rf"^\[ +{mark} +\] (\S+?)(?:,| \(|$)", text, re.M)))
    ran, passed, failed, skipped = found("RUN"), found("OK"), found("FAILED"), found("SKIPPED")
    failed = [name for name in failed if name in ran]  # not the summary's counts
    return {"tests": len(ran), "passed": len(passed), "skipped": skipped, "failed": failed,
            "unfinished": sorted(set(ran) - set(passed) - set(failed) - set(skipped))}


def problems(result, name=""):
    """Every place where a program, or a test, did not end well."""
    out = []
    if isinstance(result, dict):
        if result.get("exit", 0) != 0:
            out.append(f"{name}: " + ("out of time" if result["exit"] is None else f"exit code {result['exit']}"))
        if "problem" in result:
            out.append(f"{name}: {result['problem']}")
        if "tests" in result:
            if result["tests"] == 0:
                out.append(f"{name}: no test ran")
            for kind in ["skipped", "failed", "unfinished"]:
                if result[kind]:
                    out.append(f"{name}: {len(result[kind])} of {result['tests']} tests {kind}, first {result[kind][0]}")
        if "left_out" in result:
            out.append(f"{name}: time was up before {len(result['left_out'])} of them, first {result['left_out'][0]}")
        for key, value in result.items():
            out += problems(value, f"{name} {key}".strip()) if key != "result" else []
    elif isinstance(result, list):
        for value in result:
            out += problems(value, name)
    return out


def losses_differ(gpu, cpu, free):
    """In words; None where they are alike, or numbers at least where workers are free, or a run left none."""
    if not gpu or not cpu:
        return None
    if not all(isinstance(loss, (int, float)) and math.isfinite(loss) for loss in gpu + cpu):
        return f"losses are no numbers: {gpu} on the GPU, {cpu} on the processor"
    if free or all(abs(a - b) < 2e-3 * abs(b) for a, b in zip(gpu, cpu)):
        return None
    return f"losses {gpu} on the GPU, {cpu} on the processor"


class Clocks:
    """nvidia-smi's readings five times a second, for as long as the visit is there."""

    def __init__(self, file):
        self.file, self.child = file, None
        words = ["nvidia-smi", "--query-gpu=timestamp,index,clocks.sm,clocks.mem,power.draw,temperature.gpu,memory.used",
                 "--format=csv,noheader,nounits", "-lms", "200"]
        try:
            self.child = subprocess.Popen(words, stdout=open(file, "w"), stderr=subprocess.DEVNULL)
        except OSError:
            pass

    def between(self, begin, end):
        """Of GPU 0, what each reading was between two times: least, median, most."""
        if self.child is None or not self.file.exists():
            return None
        rows = []
        for line in self.file.read_text().splitlines():
            cells = [c.strip() for c in line.split(",")]
            try:
                at = datetime.datetime.strptime(cells[0], "%Y/%m/%d %H:%M:%S.%f").timestamp()
                if begin <= at <= end and cells[1] == "0":
                    rows.append([float(c) for c in cells[2:7]])
            except (ValueError, IndexError):
                continue
        names = ["sm_mhz", "memory_mhz", "watts", "celsius", "memory_mib"]
        return {n: [min(c), statistics.median(c), max(c)] for n, c in zip(names, zip(*rows))} if rows else None

    def stop(self):
        if self.child is not None:
            self.child.terminate()
            self.child.wait()


class Visit(Timed, Multi):
    def __init__(self, arguments):
        self.out = pathlib.Path(arguments.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.models, self.iterations, self.profile_name = MODELS, arguments.iterations, arguments.profile
        self.own_models, self.patience = bool(arguments.models), arguments.patience
        if arguments.models:
            self.models = {m: int(b) for m, b in (word.rsplit("=", 1) for word in arguments.models.split(";"))}
        self.end = self.until = time.monotonic() + arguments.budget
        self.results = {"date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "platform": platform.platform(),
                        "stages": {}}
        self.untold = None
        near = [HERE, HERE.parent / "build", HERE.parent / "build-visit"]
        self.bin = next((p for p in near if (p / "tandem").is_file()), HERE)
        env = dict(os.environ)
        libraries = [str(HERE / "lib")] if (HERE / "lib").is_dir() else []
        packed = (HERE / "data" / "models").is_dir()  # in the repository other data lies there
        self.data = pathlib.Path(env.setdefault("TANDEM_DATA", str(HERE / "data" if packed else HERE.parent)))
        found = env.get("TANDEM_NVIDIA_WHEELS") or wheels()
        if found:
            env["TANDEM_NVIDIA_WHEELS"] = found
            libraries += [str(p) for p in sorted(pathlib.Path(found).glob("*/lib"))]
        env["LD_LIBRARY_PATH"] = ":".join(libraries + [env.get("LD_LIBRARY_PATH", "")]).strip(":")
        # Trials are made once, by all calls together: --out may be emptied between them.
        choices = pathlib.Path(env.setdefault("TANDEM_CUDA_CHOICES",
                                              str(pathlib.Path(tempfile.gettempdir()) / "tandem-choices.txt")))
        if (HERE / "choices.txt").is_file() and not choices.exists():
            shutil.copyfile(HERE / "choices.txt", choices)
        self.env = env
        # PyTorch brings its own libstdc++ and finds NVIDIA's libraries by itself.
        self.plain = dict(os.environ)
        self.folders = tempfile.TemporaryDirectory(prefix="tandem-visit-")
        self.log = open(self.out / "log.txt", "a")
        self.clocks = Clocks(self.out / "clocks.csv")
        self.last_clocks = None

    def left(self):
        """Seconds: of the stage, or of the visit where that ends earlier."""
        return min(self.end, self.until) - time.monotonic()

    def write(self, name, text):
        temporary = self.out / f".{name}"
        temporary.write_text(text)
        temporary.replace(self.out / name)

    def told(self, words, otherwise):
        """words(results); where these are not what it expects, otherwise(the reason), so that none of them is lost."""
        try:
            return words(self.results)
        except Exception as error:
            self.untold = f"{words.__name__}, {type(error).__name__}: {error}"
            return otherwise(self.untold)

    def save(self, stage, result):
        """Also of a stage under way."""
        self.results["stages"][stage] = result
        found = self.told(figures, lambda why: {"problem": why})
        self.write("visit.json", json.dumps({**found, **self.results}, indent=1) + "\n")

    def start(self, words, env):
        print(f"\n$ {' '.join(words)}", file=self.log, flush=True)
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                text=True, errors="replace", env=env)

    def end_of(self, child, until, interrupted=20, killed=10):
        """Exit code (None: out of time), stdout, stderr. A program that is interrupted may write what it has; one that is
        killed may leave others behind that hold its pipes."""
        for how, wait in [(None, max(0.1, until - time.monotonic())), (signal.SIGINT, interrupted), (signal.SIGKILL, killed)]:
            if how is not None:
                child.send_signal(how)
            try:
                text, errors = child.communicate(timeout=wait)
                return (child.returncode if how is None else None), text, errors
            except subprocess.TimeoutExpired:
                continue
        return None, "", "what it started goes on"

    def run(self, words, limit, plain=False, **more_env):
        """Exit code, stdout (the end of stderr where it is empty), seconds; all goes to the log."""
        words = [str(w) for w in words]
        limit = min(self.patience * limit, self.left())
        began, clock = time.monotonic(), time.time()
        print(f"[{self.left():4.0f} s left] {' '.join(words)}", flush=True)
        self.last_clocks = None
        if limit < 2:
            return None, "no time was left", 0
        try:
            child = self.start(words, {**(self.plain if plain else self.env), **more_env})
        except OSError as error:
            return 127, str(error), 0
        code, text, errors = self.end_of(child, began + limit)
        print(text, errors, sep="\n", file=self.log, flush=True)
        self.last_clocks = self.clocks.between(clock, time.time())
        return code, text or errors[-800:], round(time.monotonic() - began, 1)

    def stage(self, name, work):
        began = time.monotonic()
        self.until = began + self.patience * STAGE_LIMITS.get(name, 3600)
        try:
            result = work() if self.left() > 5 else {"problem": "no time was left"}
        except Exception as error:  # a stage's failure is its result
            result = {**self.results["stages"].get(name, {}), "problem": f"{type(error).__name__}: {error}"}
        result["stage_seconds"] = round(time.monotonic() - began, 1)
        if name in STAGE_LIMITS:
            result["limit_seconds"] = STAGE_LIMITS[name]
        result["problems"] = problems(result, name)
        self.until = self.end
        self.save(name, result)
        self.write("summary.txt", self.told(summary, str))
        choices = pathlib.Path(self.env["TANDEM_CUDA_CHOICES"])
        if choices.is_file() and choices != self.out / "choices.txt":
            shutil.copy2(choices, self.out / "choices.txt")

    def tandem(self, words, limit, **env):
        """A verb's JSON result, or what went wrong."""
        code, text, seconds = self.run([self.bin / "tandem", *words], limit, **env)
        out = {"exit": code, "seconds": seconds, "clocks": self.last_clocks}
        try:
            return {**out, "result": json.loads(text)}
        except ValueError:
            return {**out, "problem": text[-2000:] or "see log.txt"}

    # ---- stages ----
    def doctor(self):
        result = self.tandem(["doctor", "--format", "json"], 90)
        code, text, _ = self.run(["nvidia-smi", "-q", "-d", "CLOCK,POWER,PERFORMANCE"], 20)
        result["nvidia-smi"] = text[:6000] if code == 0 else {"problem": "no nvidia-smi: " + text[:200]}
        return result

    def sharded(self, words, limit, **env):
        """Tests, by several processes at once."""
        began = time.monotonic()
        until = began + min(self.patience * limit, self.left())
        print(f"[{self.left():4.0f} s left] {SHARDS} x {' '.join(map(str, words))}", flush=True)
        children = [self.start([str(w) for w in words], {**self.env, **env, "GTEST_TOTAL_SHARDS": str(SHARDS),
                                                         "GTEST_SHARD_INDEX": str(i)}) for i in range(SHARDS)]
        out = {"exit": 0, "tests": 0, "passed": 0, "skipped": [], "failed": [], "unfinished": []}
        # Others fill their pipes meanwhile: each is read by a thread of its own.
        with concurrent.futures.ThreadPoolExecutor(SHARDS) as pool:
            ends = list(pool.map(lambda child: self.end_of(child, until), children))
        for code, text, errors in ends:
            print(text, errors, sep="\n", file=self.log, flush=True)
            if code != 0 and out["exit"] == 0:
                out["exit"] = code
            for key, value in parse_tests(text).items():
                out[key] += value
        out["seconds"] = round(time.monotonic() - began, 1)
        return out

    def conformance(self):
        test = self.bin / "gpu_test"
        out = {"against-cpu": self.sharded([test, "--gtest_filter=*Conformance*"], 170)}
        self.save("conformance", out)
        out["formulas"] = self.sharded([test, "--gtest_filter=-*Conformance*:*Gradient*"], 60,
                                       TANDEM_TEST_BACKEND="cuda")
        return out

    def gradients(self):
        return self.sharded([self.bin / "gpu_test", "--gtest_filter=*Gradient*"], 90, TANDEM_TEST_BACKEND="cuda")

    def sanitizer(self, kinds=("norm", "_pool", "softmax", "embedding", "attention", "Compression"),
                  checks=("memcheck", "racecheck")):
        tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if not os.access(tool, os.X_OK):
            return {"problem": "compute-sanitizer is not installed"}
        # Own kernels alone: cuDNN's are many and not ours. A test takes 2 to 20 s under it.
        few = "--gtest_filter=" + ":".join(f"*Conformance*{kind}*" for kind in kinds)
        return {check: self.sharded([tool, "--tool", check, "--error-exitcode", "99", self.bin / "gpu_test", few], 80)
                for check in checks}

    def scheme(self, scheme, model, offload, optimizer="momentum"):
        """First and last loss on each backend."""
        out = {"free": any(word in scheme for word in FREE)}
        for backend in ["cuda", "cpu"]:
            if self.left() < 2:
                return {**out, "problem": "no time was left"}
            words = [self.bin / "tandem", "run", "--backend", backend, "--model", model, "--batch", 8, "--devices", 2,
                     "--scheme", scheme, "--offload", offload, "--optimizer", optimizer, "--iterations", 10,
                     "--format", "json"]
            child = self.start([str(w) for w in words], self.env)
            code, text, errors = self.end_of(child, time.monotonic() + min(60 * self.patience, self.left()))
            try:
                loss = json.loads(text)["reports"][-1]["training"]
                out[backend] = {"exit": code, "losses": [loss["first_loss"], loss["last_loss"]]}
            except (ValueError, KeyError, IndexError):
                out[backend] = {"exit": code, "problem": errors[-300:] or "see log.txt"}
        problem = losses_differ(out["cuda"].get("losses"), out["cpu"].get("losses"), out["free"])
        return {**out, "problem": problem} if problem else out

    def schemes(self):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda case: self.scheme(*case), SCHEMES))
        return {f"{model.split(':')[0]} {scheme} offload {' '.join(rest)}": r
                for (scheme, model, *rest), r in zip(SCHEMES, results)}

    def train(self, stage, precisions):
        out = {}
        for precision in precisions:
            for model, batch in self.models.items():
                out[f"{model} {precision}"] = self.tandem(
                    ["run", "--backend", "cuda", "--model", model, "--batch", batch, "--devices", 1, "--iterations",
                     self.iterations, "--precision", precision, "--format", "json"], 60)
                self.save(stage, out)
        return out

    def sharing(self):
        out = {}
        model, batch = next(iter(self.models.items()))
        for scheme in ["allreduce", "parameter-server:mode=async,overlap=off",
                       "parameter-server:mode=async,server=gpu,overlap=off"]:
            out[scheme] = self.tandem(["run", "--backend", "cuda", "--model", model, "--batch", max(1, batch // 2),
                                       "--devices", "2,4", "--iterations", self.iterations, "--scheme", scheme,
                                       "--format", "json"], 80)
            self.save("sharing", out)
        return out

    def measured_profile(self, precisions, limit, **env):
        """measured.json of one worker, and profile.json made of it."""
        measured, profile = self.out / "measured.json", self.out / "profile.json"
        code, text, seconds = self.run([self.bin / "tandem", "measure", "--backend", "cuda", "--quick", "--precision",
                                        precisions, "--workers", 1, "--out", measured], limit, **env)
        out = {"measure": {"exit": code, "seconds": seconds, "said": text[-800:]}}
        code, text, seconds = self.run([self.bin / "tandem", "fit", measured, "--out", profile], 30)
        out["fit"] = {"exit": code, "seconds": seconds, "said": text[-800:]}
        if measured.exists():
            keys = ["model", "batch", "precision", "workers", "step_seconds"]
            out["graphs"] = [{key: {"precision": "fp32", **graph}[key] for key in keys}
                             for graph in json.loads(measured.read_text())["graphs"]]
        return out

    def check(self, precision, profile, limit, **env):
        return self.tandem(["check", "--backend", "cuda", "--quick", "--tolerance", "100", "--profile", profile,
                            "--precision", precision, "--format", "json"], limit, **env)

    def predict(self):
        out = self.measured_profile("bf16,fp32,tf32", 330)
        self.save("predict", out)
        for precision in ["bf16", "fp32", "tf32"]:
            out[f"check {precision}"] = self.check(precision, self.out / "profile.json", 110)
            self.save("predict", out)
        return out

    def torch(self, words, limit):
        """A JSON object a line, each kept under its "case", from one process of PyTorch's."""
        code, text, seconds = self.run([sys.executable, HERE / "gpu_visit_torch.py", *words], limit, plain=True)
        out = {"exit": code, "seconds": seconds, "clocks": self.last_clocks}
        for line in text.splitlines():
            try:
                row = json.loads(line)
                out[row.pop("case")] = row
            except (ValueError, KeyError, AttributeError):
                continue
        if len(out) == 3:
            out["problem"] = f"nothing measured: {text[-300:]}"
        return out

    def hardware(self):
        return self.torch(["hardware"], 70)

    def pytorch(self):
        cases = []
        for mode in ["eager", "deterministic", "graphed", "compiled"]:
            for precision in ["bf16", "fp32", "tf32", "fp16"]:
                few = ["bf16", "tf32"] if mode == "compiled" else ["bf16", "fp32"] if mode == "graphed" else ["bf16"]
                if mode == "eager" or precision in few:
                    some = list(self.models.items())[:4 if mode == "compiled" else None]  # half a minute each
                    cases += [f"{m}:{b}:{precision}:{mode}" for m, b in some]
        return self.torch(["train", *cases], max(60, self.left() - 10))

    def done(self):
        self.clocks.stop()
        self.folders.cleanup()
        print(self.told(summary, str))
        failed = [name for name, r in self.results["stages"].items() if r.get("problems")]
        failed += [self.untold] if self.untold else []
        print(f"done, {self.left():.0f} s early; results in {self.out}"
              + (f"; look at log.txt for: {', '.join(failed)}" if failed else ""))
        return 1 if failed else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pack", metavar="FOLDER", nargs="?", const=str(HERE.parent / "build-visit" / "pack"),
                   help="build and gather what must travel, instead of a visit (default build-visit/pack)")
    p.add_argument("--build", help="with --pack: a built folder to take the programs from")
    p.add_argument("--architectures", default="90", help="with --pack: chips to build for, as CMake names them "
                   "(default 90: Hopper, and by its PTX later ones; 80-real;90 for Ampere and Ada too)")
    p.add_argument("--with", dest="more", nargs="*", default=[], help="with --pack: further files of that folder")
    p.add_argument("--out", default=os.environ.get("OUT", "visit"), help="folder for the results (default $OUT or visit)")
    p.add_argument("--choices", metavar="FILE", help="with --pack: choices.txt of an earlier visit to the same kind of chip, "
                   "whose trials are then not made again")
    p.add_argument("--call", choices=CALLS, help="the stages of one call")
    p.add_argument("--budget", type=float, default=0, help="seconds for all stages (default 720 for visit, 640 for multi, 560 for each of the others)")
    p.add_argument("--only", help="stages by name, comma separated")
    p.add_argument("--iterations", type=int, help="of each training (default 100, in the call visit 40)")
    p.add_argument("--models", help="models with their batch, e.g. resnet50=64;gpt2=8")
    p.add_argument("--patience", type=float, default=1, help="programs and stages may take so many times their limits")
    p.add_argument("--profile", default="h200", help="what judges predictions where this visit has made no profile (default h200)")
    arguments = p.parse_args()
    if arguments.pack:
        return pack(arguments.pack, arguments.build, arguments.more, arguments.architectures, arguments.choices)
    calls = [arguments.call] if arguments.call else ["1", "2", "3", "4"]
    names = arguments.only.split(",") if arguments.only else list(dict.fromkeys(n for c in calls for n in CALLS[c]))
    arguments.iterations = arguments.iterations or (40 if arguments.call in BUDGETS else 100)
    arguments.budget = arguments.budget or (560 if arguments.only else sum(BUDGETS.get(call, 560) for call in calls))
    v = Visit(arguments)
    work = {"train-bf16": lambda: v.train("train-bf16", ["bf16"]),
            "train-more": lambda: v.train("train-more", ["fp32", "tf32", "fp16", "fp8"])}
    unknown = [n for n in names if n not in work and n not in {s for c in CALLS.values() for s in c}]
    if unknown:
        p.error(f"no such stage: {', '.join(unknown)}")
    # Begun in the background, programs would ignore what is to end them in time.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for name in names:
            v.stage(name, work.get(name) or getattr(v, name.replace("-", "_")))
    finally:
        code = v.done()
    return code


if __name__ == "__main__":
    sys.exit(main())
