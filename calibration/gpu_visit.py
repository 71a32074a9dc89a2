#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One visit to a machine with NVIDIA GPUs: everything that tandem wants to know of it, unattended, in minutes.

  python3 calibration/gpu_visit.py --pack FOLDER     here: build for any x86-64 processor, gather what must travel
  python3 FOLDER/gpu_visit.py --out RESULTS          there: run all stages

The other machine needs the driver, Python 3.9 and NVIDIA's libraries (the CUDA toolkit with cuDNN and NCCL, or the
Python wheels that PyTorch brings), glibc at least as new as here; no compiler and no network. PyTorch, where it is
installed, is measured side by side; compute-sanitizer is used where it is found.

Every stage has a time limit and leaves RESULTS/<stage>.json (with --one-file: a key of RESULTS/visit.json); a stage
that fails says so there, and the next one begins. --budget ends the visit early: stages come in the order of their
worth, and what no time was left for is named in the summary.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
# Batch sizes that the whole zoo fits with in 16 GB; the held-out models of `tandem check --backend cuda`.
MODELS = {"resnet50": 64, "vgg16": 64, "bert-large": 16, "gpt2": 8}
PRECISIONS = ["fp32", "tf32", "bf16", "fp16", "fp8"]
PYTORCH = ["fp32", "tf32", "bf16"]


def pack(folder):
    """Build without this processor's instructions and copy what the stages need."""
    root = HERE.parent
    build = root / "build-visit"
    run = lambda *words: subprocess.run(words, check=True)
    run("cmake", "-S", root, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DTANDEM_NATIVE=OFF",
        "-DTANDEM_BENCH=OFF", "-DTANDEM_CUDA=ON", "-DTANDEM_MPI=OFF", "-DTANDEM_ONEDNN=OFF")
    run("ninja", "-C", build, "tandem", "gpu_test", "plugins")
    to = pathlib.Path(folder)
    (to / "lib").mkdir(parents=True, exist_ok=True)
    programs = ["tandem", "gpu_test", "libtandem_cuda.so"]
    for name in programs:
        shutil.copy2(build / name, to / name)
        run("strip", "--strip-debug", to / name)
    for data in ["models/zoo", "models/families", "topologies", "schemes/presets", "calibration/suite", "calibration/profiles"]:
        shutil.copytree(root / data, to / "data" / data, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("*.cpp", "*.h", "CMakeLists.txt"))
    for script in HERE.glob("gpu_visit*.py"):
        shutil.copy2(script, to / script.name)
    # Not the C library and its kin, which belong to the machine; not NVIDIA's, which are found there.
    stays = re.compile(r"^(ld-linux|libc\.|libm\.|libdl|libpthread|librt|libstdc\+\+|libgcc_s|libcu|libnccl|linux-vdso)")
    for name in programs:
        for line in subprocess.run(["ldd", to / name], capture_output=True, text=True).stdout.splitlines():
            found = re.match(r"\s*(\S+) => (/\S+)", line)
            if found and not stays.match(found[1]):
                shutil.copy2(os.path.realpath(found[2]), to / "lib" / found[1])
    size = sum(f.stat().st_size for f in to.rglob("*") if f.is_file())
    print(f"{to}: {size / 2**20:.0f} MiB. There: python3 {to.name}/gpu_visit.py --out RESULTS")


def wheels():
    """<site-packages>/nvidia, where PyTorch's wheels put NVIDIA's libraries; None without."""
    try:
        import nvidia
        return list(nvidia.__path__)[0]
    except ImportError:
        return None


class Visit:
    def __init__(self, arguments):
        self.out = pathlib.Path(arguments.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.one_file = arguments.one_file
        self.end = time.monotonic() + arguments.budget
        self.only = arguments.only.split(",") if arguments.only else None
        self.results = {"date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "machine": platform.platform(),
                        "stages": {}}
        near = [HERE, HERE.parent / "build", HERE.parent / "build-visit"]
        self.bin = next((p for p in near if (p / "tandem").is_file()), HERE)
        env = dict(os.environ)
        libraries = [str(HERE / "lib")] if (HERE / "lib").is_dir() else []
        if (HERE / "data" / "models").is_dir():  # packed; in the repository other data lies there
            env["TANDEM_DATA"] = str(HERE / "data")
        found = env.get("TANDEM_NVIDIA_WHEELS") or wheels()
        if found:
            env["TANDEM_NVIDIA_WHEELS"] = found
            libraries += [str(p) for p in sorted(pathlib.Path(found).glob("*/lib"))]
        env["LD_LIBRARY_PATH"] = ":".join(libraries + [env.get("LD_LIBRARY_PATH", "")]).strip(":")
        self.env = env
        self.log = open(self.out / "log.txt", "w")

    def left(self):
        return self.end - time.monotonic()

    def save(self, stage, result):
        self.results["stages"][stage] = result
        name, content = ("visit", self.results) if self.one_file else (stage, result)
        temporary = self.out / f".{name}.json"
        temporary.write_text(json.dumps(content, indent=1) + "\n")
        temporary.replace(self.out / f"{name}.json")

    def run(self, words, limit, **more_env):
        """Exit code (None: out of time), stdout (the end of stderr where it is empty), seconds; all goes to the log."""
        words = [str(w) for w in words]
        limit = min(limit, self.left())
        began = time.monotonic()
        print(f"[{self.left():4.0f} s left] {' '.join(words)}", flush=True)
        print(f"\n$ {' '.join(words)}", file=self.log, flush=True)
        if limit < 2:
            return None, "no time was left", 0
        try:
            child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                     text=True, errors="replace", env={**self.env, **more_env})
        except OSError as error:
            return 127, str(error), 0
        try:
            text, errors = child.communicate(timeout=limit)
            code = child.returncode
        except subprocess.TimeoutExpired:
            code = None
            child.send_signal(signal.SIGINT)  # tandem then writes what it has
            try:
                text, errors = child.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                child.kill()
                text, errors = child.communicate()
        print(text, errors, sep="\n", file=self.log, flush=True)
        return code, text or errors[-800:], round(time.monotonic() - began, 1)

    def stage(self, name, work):
        if self.only and name not in self.only:
            return
        began = time.monotonic()
        try:
            result = work() if self.left() > 5 else {"failed": "no time was left"}
        except Exception as error:  # a stage's failure is its result
            result = {"failed": f"{type(error).__name__}: {error}"}
        result["stage_seconds"] = round(time.monotonic() - began, 1)
        self.save(name, result)

    def tandem(self, words, limit):
        """A verb's JSON result, or what went wrong."""
        code, text, seconds = self.run([self.bin / "tandem", *words], limit)
        try:
            return {"exit": code, "seconds": seconds, "result": json.loads(text)}
        except ValueError:
            return {"exit": code, "seconds": seconds, "failed": text[-2000:] or "see log.txt"}

    # ---- stages ----
    def doctor(self):
        result = self.tandem(["doctor", "--format", "json"], 60)
        result["nvidia-smi"] = self.run(["nvidia-smi", "-q", "-d", "CLOCK,POWER,PERFORMANCE"], 20)[1][:6000]
        return result

    def tests(self, words, limit, **env):
        report = self.out / ".tests.json"
        report.unlink(missing_ok=True)
        code, _, seconds = self.run([*words, f"--gtest_output=json:{report}", "--gtest_brief=1"], limit, **env)
        out = {"exit": code, "seconds": seconds}
        if report.exists():
            document = json.loads(report.read_text())
            cases = [t for suite in document["testsuites"] for t in suite["testsuite"]]
            out["tests"] = len(cases)
            out["skipped"] = sum(t.get("result") == "SKIPPED" for t in cases)
            out["failures"] = [{"test": t["classname"] + "." + t["name"], "why": t["failures"][0]["failure"][:500]}
                               for t in cases if t.get("failures")]
            report.unlink()
        return out

    def conformance(self):
        test = self.bin / "gpu_test"
        return {"against-cpu": self.tests([test, "--gtest_filter=*Conformance*"], 170),
                "formulas": self.tests([test, "--gtest_filter=-*Conformance*:*Gradient*"], 40, TANDEM_TEST_BACKEND="cuda")}

    def gradients(self):
        return self.tests([self.bin / "gpu_test", "--gtest_filter=*Gradient*"], 90, TANDEM_TEST_BACKEND="cuda")

    def sanitizer(self):
        tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if not os.access(tool, os.X_OK):
            return {"failed": "compute-sanitizer is not installed"}
        few = "--gtest_filter=ConformanceOf*:*Conformance*_1*"
        return {check: self.tests([tool, "--tool", check, "--error-exitcode", "99", self.bin / "gpu_test", few], 75)
                for check in ["memcheck", "racecheck"]}

    def train(self):
        out = {}
        for precision in PRECISIONS:
            for model, batch in MODELS.items():
                out[f"{model} {precision}"] = self.tandem(
                    ["run", "--backend", "cuda", "--model", model, "--batch", batch, "--devices", 1, "--iterations",
                     30, "--warmup", 8, "--precision", precision, "--format", "json"], 45)
        return out

    def sharing(self):
        out = {}
        for scheme in ["allreduce", "parameter-server:mode=async,overlap=off",
                       "parameter-server:mode=async,server=gpu,overlap=off"]:
            out[scheme] = self.tandem(["run", "--backend", "cuda", "--model", "resnet50", "--batch", 32, "--devices",
                                       "2,4", "--iterations", 30, "--scheme", scheme, "--format", "json"], 60)
        return out

    def routes(self):
        code, text, _ = self.run(["nvidia-smi", "-L"], 20)
        if code != 0 or len(text.strip().splitlines()) < 2:
            return {"skipped": "one GPU"}
        out = {}
        for route in ["auto", "staged"]:
            for scheme in ["allreduce", "allreduce:algorithm=ring"]:  # NCCL's, and our own copies
                out[f"{scheme} {route}"] = self.tandem(
                    ["run", "--backend", "cuda", "--model", "vgg16", "--batch", 32, "--devices", 2, "--iterations", 30,
                     "--scheme", scheme, "--route", route, "--format", "json"], 45)
        return out

    def processes(self):
        """NCCL over processes against one process with as many threads."""
        code, text, _ = self.run(["nvidia-smi", "-L"], 20)
        gpus = len(text.strip().splitlines())
        if code != 0 or gpus < 2:
            return {"skipped": "one GPU"}
        words = ["run", "--backend", "cuda", "--model", "vgg16", "--batch", 32, "--devices", 2, "--iterations", 30,
                 "--format", "json"]
        out = {"threads": self.tandem(words, 45)}
        mpirun = shutil.which("mpirun")
        if mpirun is None:
            return {**out, "failed": "no mpirun"}
        code, text, seconds = self.run([mpirun, "--allow-run-as-root", "-np", "2", self.bin / "tandem", *words], 60)
        try:
            out["processes"] = {"exit": code, "seconds": seconds, "result": json.loads(text)}
        except ValueError:
            out["processes"] = {"exit": code, "seconds": seconds, "failed": text[-2000:] or "see log.txt"}
        return out

    def predict(self):
        measured, profile = self.out / "measured.json", self.out / "profile.json"
        code, _, seconds = self.run([self.bin / "tandem", "measure", "--backend", "cuda", "--quick", "--precision", "fp32,bf16",
                                     "--out", measured], 240)
        out = {"measure": {"exit": code, "seconds": seconds}}
        code, text, seconds = self.run([self.bin / "tandem", "fit", measured, "--out", profile], 20)
        out["fit"] = {"exit": code, "seconds": seconds}
        text = measured.read_text() if measured.exists() else ""
        if '"library_seconds"' in text:  # several GPUs: NCCL's own estimates beside the measured times
            out["collectives"] = self.tandem(["collective", "--log", measured, "--format", "json"], 20)
        for precision in ["fp32", "bf16"]:
            out[f"check {precision}"] = self.tandem(["check", "--backend", "cuda", "--profile", profile, "--precision",
                                                     precision, "--format", "json"], 90)
        return out

    def torch(self, script, key, words, limit):
        code, text, seconds = self.run([sys.executable, HERE / script, *words], limit)
        try:
            return json.loads(text.strip().splitlines()[-1])
        except (ValueError, IndexError):
            return {"exit": code, "seconds": seconds, "failed": f"{key}: {text[-300:]}"}

    def hardware(self):
        return self.torch("gpu_visit_torch.py", "hardware", ["hardware"], 60)

    def pytorch(self, mode, precisions):
        out = {}
        for precision in precisions:
            for model, batch in MODELS.items():
                out[f"{model} {precision}"] = self.torch("gpu_visit_torch.py", model,
                                                         ["train", model, batch, precision, mode],
                                                         150 if mode == "compiled" else 40)
        return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pack", metavar="FOLDER", help="build and gather what must travel, instead of a visit")
    p.add_argument("--out", default="visit", help="folder for the results (default visit)")
    p.add_argument("--budget", type=float, default=570, help="seconds for all stages (default 570)")
    p.add_argument("--only", help="stages by name, comma separated")
    p.add_argument("--one-file", action="store_true", help="all stages in RESULTS/visit.json")
    arguments = p.parse_args()
    if arguments.pack:
        return pack(arguments.pack)
    v = Visit(arguments)
    v.stage("doctor", v.doctor)
    v.stage("conformance", v.conformance)
    v.stage("hardware", v.hardware)
    v.stage("train", v.train)
    v.stage("pytorch-eager", lambda: v.pytorch("eager", PYTORCH))
    v.stage("predict", v.predict)
    v.stage("sharing", v.sharing)
    v.stage("routes", v.routes)
    v.stage("processes", v.processes)
    v.stage("gradients", v.gradients)
    v.stage("sanitizer", v.sanitizer)
    v.stage("pytorch-compiled", lambda: v.pytorch("compiled", ["bf16", "tf32"]))
    failed = [name for name, r in v.results["stages"].items() if '"failed"' in json.dumps(r)]
    print(f"done, {v.left():.0f} s early; results in {v.out}"
          + (f"; look at log.txt for: {', '.join(failed)}" if failed else ""))


if __name__ == "__main__":
    main()
