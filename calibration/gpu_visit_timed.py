# SPDX-License-Identifier: Apache-2.0
"""gpu_visit.py --call visit: a visit of twelve minutes, in the order of its worth, each stage with a limit of its own."""
import json
import os
import pathlib
import shutil
import tempfile

from gpu_visit_predict import PRECISIONS, TRAININGS, words

# Seconds that each stage has at most, 720 together. What a stage leaves over goes to the last ones, which the budget may
# cut off.
LIMITS = {"profile": 185, "predicted": 150, "judged": 100, "memory": 75, "eager": 75, "shared": 50, "attention": 35, "racecheck": 25}
DOCTOR = 25
# Measured anew. None is a model that check judges.
GRAPHS = {"resnet34": 32, "wide-resnet50-2": 24, "vgg11": 32, "bert-base": 32, "gpt2:layers=4,hidden=1024,heads=16,sequence=512": 8,
          "gpt2:layers=3,hidden=1280,heads=20": 2, "mlp:inputs=4096,hidden=4096,layers=3": 256, "regnetx-400mf": 32}
ANEW = "bf16,fp32,tf32"  # formats that are measured anew, and judged by what was measured
# Memory, by the driver's count: images, texts, recomputed, accumulated, with small learned matrices beside frozen ones.
SETTINGS = [("resnet50", 64, "bf16", {}), ("resnet50", 64, "fp32", {}), ("vgg16", 64, "fp32", {}), ("densenet121", 32, "bf16", {}),
            ("gpt2", 8, "bf16", {}), ("gpt2", 8, "fp32", {}), ("gpt2", 8, "bf16", {"recompute": "blocks"}),
            ("gpt2", 4, "bf16", {"scheme": "allreduce:accumulate=2"}), ("gpt2", 8, "bf16", {"adapter": "lora:rank=16,on=attention"}),
            ("bert-large", 16, "bf16", {}), ("bert-large", 16, "bf16", {"recompute": "blocks"}),
            ("bert-large", 8, "fp32", {"scheme": "allreduce:accumulate=2"})]
IN_TORCH = {"recompute": "recomputed", "scheme": "accumulated", "adapter": "lora"}  # modes of gpu_visit_torch.py
SHARED = ["allreduce", "parameter-server:overlap=off", "parameter-server:mode=async,overlap=off"]
# Tests of kernels against the CPU's, and those for a sanitizer.
KERNELS = "*ConformanceOfAttention*"
SANITIZED = ["OfAttention"]
LEAST = 3  # seconds that a program needs to be worth its start


class Timed:
    """Stages, of a Visit."""

    def data_with(self, graphs=(), cases=(), largest=2**20):
        """Where programs find their data, with other graphs for measure or cases for check."""
        to = pathlib.Path(tempfile.mkdtemp(dir=self.folders.name))
        (to / "calibration").mkdir()
        for part in ["models", "topologies", "schemes", "calibration/profiles"]:
            (to / part).symlink_to((self.data / part).resolve())
        suite = to / "calibration" / "suite"
        shutil.copytree(self.data / "calibration" / "suite", suite)
        (suite / "suite-gpu.json").write_text(json.dumps({"graphs": graphs, "largest_all_reduce_bytes": largest}))
        (suite / "check-gpu.json").write_text(json.dumps({"cases": cases}))
        return {"TANDEM_DATA": str(to)}

    def each(self, stage, cases, one):
        """{name: one(*case)} of as many as there is time for, kept as they come; the others are named."""
        out, left = {}, list(cases.items())
        while left and self.left() >= LEAST:
            name, case = left.pop(0)
            out[name] = one(*case)
            self.save(stage, out)
        if left:
            out["left_out"] = [name for name, _ in left]
        return out

    def trained(self, model, batch, precision, options):
        found = self.tandem(["run", "--backend", "cuda", "--devices", 1, "--model", model, "--batch", batch, "--precision",
                             precision, *words(options), "--iterations", self.iterations, "--no-timeline", "--format", "json"], 30)
        return {**found, "asked": {"model": model, "batch": batch, **({"options": options} if options else {}), "precision": precision}}

    def profile(self):
        """The host too, whose memory servers use."""
        graphs = self.models if self.own_models else GRAPHS
        env = self.data_with([{"model": m, "batch": b} for m, b in graphs.items()])
        return self.measured_profile(ANEW, max(LEAST, self.left() - 15), **env)

    def predicted(self):
        """What gpu_visit_predict.py has said of such a chip is run: rate, kinds of kernels, memory, watts."""
        some = [(m, b, {}) for m, b in self.models.items()] if self.own_models else TRAININGS
        return self.each("predicted", {" ".join([model, *words(more), precision]): (model, batch, precision, more)
                                       for precision in PRECISIONS for model, batch, more in some}, self.trained)

    def judged(self):
        """Models that the profile has not seen, by the profile that was just measured."""
        cases = [{"model": m, "batch": b, "iterations": 30} for m, b in self.models.items()]
        env = self.data_with([], cases)
        return self.each("judged", {f"check {p}": (p,) for p in ANEW.split(",")},
                         lambda p: self.check(p, self.fresh(), 60, **env))

    def fresh(self):
        """This visit's profile; where it has none, that of another day."""
        own = self.out / "profile.json"
        return own if own.is_file() else self.profile_name

    def memory(self):
        """Predicted, as the executor counts what it allocates, and as the driver counts what is taken."""
        some = [(m, b, "fp32", {}) for m, b in self.models.items()] if self.own_models else SETTINGS
        return self.each("memory", {" ".join([model, str(batch), precision, *words(more)]): (model, batch, precision, more)
                                    for model, batch, precision, more in some}, self.remembered)

    def remembered(self, model, batch, precision, options):
        ran = self.trained(model, batch, precision, options)
        asked = self.tandem(["predict", "--system", "hgx-h200", "--devices", 1, "--model", model, "--batch", batch, "--precision",
                             precision, *words(options), "--input", "synthetic", "--format", "json", "--no-timeline"], 10)
        of = lambda found: found.get("result", {}).get("reports", [{}])[0].get("memory_bytes_per_device", {})
        clocks = ran.get("clocks") or {}
        out = {"exit": ran["exit"], "allocated_bytes": of(ran).get("total"), "predicted_bytes": of(asked),
               "driver_bytes": clocks["memory_mib"][2] * 2**20 if "memory_mib" in clocks else None}
        return {**out, "problem": ran.get("problem") or asked["problem"]} if "problem" in {**ran, **asked} else out

    def eager(self):
        """PyTorch's eager rates, and the memory of the settings that it has."""
        cases = [f"{model}:{batch}:{precision}:eager" for precision in ["bf16", "fp32"] for model, batch in self.models.items()]
        cases += [f"{model}:{batch}:{precision}:{IN_TORCH[next(iter(more))]}" for model, batch, precision, more in SETTINGS if more]
        return self.torch(["train", *cases], self.left())

    def shared(self):
        """Two workers of one GPU; servers' memory is the host's."""
        model, batch = next(iter(self.models.items()))
        cases = [{"model": model, "batch": max(1, batch // 2), "devices": 2, "scheme": scheme, "iterations": 30} for scheme in SHARED]
        out = {"check bf16": self.check("bf16", self.fresh(), 40, **self.data_with([], cases))}
        self.save("shared", out)
        out["allreduce"] = self.tandem(["run", "--backend", "cuda", "--model", model, "--batch", max(1, batch // 2), "--devices", 2,
                                        "--precision", "bf16", "--iterations", self.iterations, "--no-timeline", "--format", "json"], 20)
        return out

    def attention(self):
        """In its new order: results, then what the two kernels reach where the machine lets ncu count."""
        out = {"against-cpu": self.sharded([self.bin / "gpu_test", f"--gtest_filter={KERNELS}"], max(LEAST, self.left() - 12))}
        self.save("attention", out)
        tool = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
        if not os.access(tool, os.X_OK):
            return {**out, "ncu": {"not_run": "ncu is not installed"}}
        code, text, seconds = self.run([tool, "--kernel-name", "regex:attention", "--launch-skip", 4, "--launch-count", 4, self.bin / "tandem",
                                        "run", "--backend", "cuda", "--model", "gpt2", "--batch", 8, "--devices", 1, "--iterations", 5], 30)
        return {**out, "ncu": {"seconds": seconds, **({"said": text[-6000:]} if code == 0 else {"not_run": text[-300:]})}}

    def racecheck(self):
        return self.sanitizer(SANITIZED, ["racecheck"])
