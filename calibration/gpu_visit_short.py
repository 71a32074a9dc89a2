# SPDX-License-Identifier: Apache-2.0
"""gpu_visit.py --call short: what the calls of earlier visits left open, in one call, in the order of its worth."""
import concurrent.futures
import json
import pathlib
import shutil
import tempfile

# Seconds that each stage has at most. What a stage leaves over goes to the last ones, which the budget may cut off.
SHORT_LIMITS = {"again": 150, "intervals": 70, "pytorch-more": 185, "beside": 75, "together": 110, "compiled": 90, "shared": 75}
# Measured anew in fp32. None is a model that check judges.
GRAPHS = {"resnet34": 32, "wide-resnet50-2": 24, "vgg11": 32, "bert-base": 32, "gpt2:layers=4,hidden=1024,heads=16,sequence=512": 8,
          "gpt2:layers=3,hidden=1280,heads=20": 2, "mlp:inputs=4096,hidden=4096,layers=3": 256}
# Layers of all sizes, and convolutions, whose ways change most.
KERNELS = "*ConformanceOf*:*Conformance.*conv*"
# Of PyTorch and of trainings beside it: what no visit has measured comes first.
BESIDE = ["fp32", "tf32", "fp16"]
SHARED = ["allreduce", "parameter-server:overlap=off", "parameter-server:mode=async,overlap=off"]


class Short:
    """Stages, of a Visit."""

    def data_with(self, graphs=(), cases=()):
        """Where programs find their data, with other graphs for measure or cases for check."""
        to = pathlib.Path(tempfile.mkdtemp(dir=self.folders.name))
        (to / "calibration").mkdir()
        for part in ["models", "topologies", "schemes", "calibration/profiles"]:
            (to / part).symlink_to((self.data / part).resolve())
        suite = to / "calibration" / "suite"
        shutil.copytree(self.data / "calibration" / "suite", suite)
        (suite / "suite-gpu.json").write_text(json.dumps({"graphs": graphs, "largest_all_reduce_bytes": 2**20}))
        (suite / "check-gpu.json").write_text(json.dumps({"cases": cases}))
        return {"TANDEM_DATA": str(to)}

    def judged(self):
        """One worker with each of four models that the profile has not seen."""
        return [{"model": m, "batch": b, "iterations": 30} for m, b in list(self.models.items())[:4]]

    def again(self):
        graphs = self.models if self.own_models else GRAPHS
        env = self.data_with([{"model": m, "batch": b} for m, b in graphs.items()], self.judged())
        out = self.measured_profile("fp32", 100, **env)
        self.save("again", out)
        out["check fp32"] = self.check("fp32", self.out / "profile.json", 60, **env)
        return out

    def intervals(self):
        """By a profile of an earlier day."""
        out = {}
        for precision in ["tf32", "bf16"]:
            out[f"check {precision}"] = self.check(precision, self.profile, 40, **self.data_with([], self.judged()))
            self.save("intervals", out)
        return out

    def pytorch_more(self):
        """Eager behind graphed, which has then found the best convolutions. What most published rates of the first
        model are: NCHW."""
        first, at = next(iter(self.models.items()))
        return self.torch(["train", *[f"{first}:{at}:{precision}:nchw" for precision in ["fp16", "tf32"]],
                           *[f"{model}:{batch}:{precision}:{mode}" for precision in BESIDE
                             for model, batch in self.models.items() for mode in ["graphed", "eager"]]], self.left())

    def beside(self):
        return self.train("beside", BESIDE, again=False)

    def shared(self):
        """Two and four workers of one GPU; servers' memory is the host's."""
        model, batch = next(iter(self.models.items()))
        cases = [{"model": model, "batch": max(1, batch // 2), "devices": devices, "scheme": scheme, "iterations": 30}
                 for devices in [2, 4] for scheme in SHARED]
        return {"check bf16": self.check("bf16", self.profile, 75, **self.data_with([], cases))}

    def few(self):
        return list(self.models.items())[:3]

    def compile(self, models, limit):
        """What a process of PyTorch's says of itself, and under their names the rates."""
        return self.torch(["train", *[f"{model}:{batch}:bf16:compiled" for model, batch in models]], limit)

    def compiling(self, model, batch):
        """No rate, which others disturb."""
        found = self.compile([(model, batch)], self.left())
        row = found.pop(f"{model} bf16 compiled", {})
        return {**found, **{key: row[key] for key in ["problem"] if key in row}}

    def together(self):
        """What no clock is read of: schemes, kernels, a sanitizer, and compilations, which the next stage then finds
        made."""
        jobs = {"schemes": self.schemes, "pools": lambda: self.sanitizer(["_pool", "Compression"], ["memcheck"]),
                "kernels": lambda: self.sharded([self.bin / "gpu_test", f"--gtest_filter={KERNELS}"], self.left())}
        for model, batch in self.few():
            jobs[f"compiling {model}"] = lambda m=model, b=batch: self.compiling(m, b)
        out = {}
        with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
            started = {pool.submit(work): name for name, work in jobs.items()}
            for job in concurrent.futures.as_completed(started):
                try:
                    out[started[job]] = job.result()
                except Exception as error:  # the others go on
                    out[started[job]] = {"problem": f"{type(error).__name__}: {error}"}
                self.save("together", dict(out))
        return out

    def compiled(self):
        return self.compile(self.few(), self.left())
