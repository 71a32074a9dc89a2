# SPDX-License-Identifier: Apache-2.0
"""gpu_visit.py --call short: what the calls of earlier visits left open, in one call, in the order of its worth."""
import json
import pathlib
import shutil
import tempfile

# Seconds that each stage has at most. What a stage leaves over goes to the last ones, which the budget may cut off.
SHORT_LIMITS = {"kernels": 40, "again": 165, "shared": 75, "intervals": 150, "pytorch-more": 185, "sanitized": 60}
# Measured anew. None is a model that check judges.
GRAPHS = {"resnet34": 32, "wide-resnet50-2": 24, "vgg11": 32, "bert-base": 32, "gpt2:layers=4,hidden=1024,heads=16,sequence=512": 8,
          "gpt2:layers=3,hidden=1280,heads=20": 2, "mlp:inputs=4096,hidden=4096,layers=3": 256, "regnetx-400mf": 32}
# Tests of kernels that are new, and kinds of them for a sanitizer.
KERNELS = "*ConformanceOfAttention*"
SANITIZED = ["OfAttention"]
ANEW = "fp32,bf16"  # precisions that are measured anew, the first of which is then judged
BESIDE = "fp32"  # of PyTorch
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

    def judged(self, most=None):
        """One worker with each of some models that the profile has not seen."""
        return [{"model": m, "batch": b, "iterations": 30} for m, b in list(self.models.items())[:most]]

    def kernels(self):
        """Against the CPU's, before their time counts."""
        return {"against-cpu": self.sharded([self.bin / "gpu_test", f"--gtest_filter={KERNELS}"], self.left())}

    def again(self):
        """The host too, whose memory servers use."""
        first = ANEW.split(",")[0]
        graphs = self.models if self.own_models else GRAPHS
        env = self.data_with([{"model": m, "batch": b} for m, b in graphs.items()], self.judged(4))
        out = self.measured_profile(ANEW, 130, **env)
        self.save("again", out)
        out[f"check {first}"] = self.check(first, self.out / "profile.json", 70, **env)
        return out

    def intervals(self):
        """By a profile of an earlier day."""
        return {"check fp32": self.check("fp32", self.profile, 150, **self.data_with([], self.judged()))}

    def pytorch_more(self):
        """Eager behind graphed, which has then found the best convolutions."""
        return self.torch(["train", *[f"{model}:{batch}:{BESIDE}:{mode}" for model, batch in self.models.items()
                                      for mode in ["graphed", "eager"]]], self.left())

    def shared(self):
        """Two and four workers of one GPU; servers' memory is the host's."""
        model, batch = next(iter(self.models.items()))
        cases = [{"model": model, "batch": max(1, batch // 2), "devices": devices, "scheme": scheme, "iterations": 30}
                 for devices in [2, 4] for scheme in SHARED]
        return {"check bf16": self.check("bf16", self.out / "profile.json", 75, **self.data_with([], cases))}

    def sanitized(self):
        return self.sanitizer(SANITIZED)
