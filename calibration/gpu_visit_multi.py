# SPDX-License-Identifier: Apache-2.0
"""gpu_visit.py --call multi: everything that takes several GPUs, in one file that `tandem validate --add` judges."""
import json
import re
import shutil

from gpu_visit_timed import LEAST

MULTI_LIMITS = {"wires": 20, "scaling": 300, "reduced": 90, "routes": 90, "processes": 90}
# Images with few and with many parameters, texts.
MODELS = {"resnet50": 64, "vgg16": 64, "bert-large": 16, "gpt2": 8}
# Lock-step, and workers that wait for nobody: rates and staleness.
SCHEMES = ["allreduce", "parameter-server:mode=async,server=gpu", "zero:stage=2", "local-sgd:every=4"]


class Multi:
    """Stages, of a Visit. Each says that it was not run where there is one GPU."""

    def gpus(self):
        rows = self.results["stages"].get("doctor", {}).get("result") or []
        found = sum(1 for row in rows if isinstance(row, dict) and re.fullmatch(r"GPU\d+", str(row.get("part"))))
        if found == 0:
            code, text, _ = self.run(["nvidia-smi", "-L"], 20)
            found = len(text.strip().splitlines()) if code == 0 else 0
        return found

    def alone(self):
        """What a stage of several GPUs is without them; None with them."""
        gpus = self.gpus()
        if gpus == 0:
            return {"problem": "neither doctor nor nvidia-smi says how many GPUs there are"}
        return {"not_run": "one GPU"} if gpus < 2 else None

    def counts(self):
        """1, 2, 4, 8, ... workers, as many as there are GPUs."""
        return [n for n in [1, 2, 4, 8, 16] if n <= self.gpus()]

    def wires(self):
        """How the GPUs are joined, and the system file that tandem makes of it."""
        if alone := self.alone():
            return alone
        code, text, _ = self.run(["nvidia-smi", "topo", "-m"], 10)
        if code != 0:
            return {"problem": "nvidia-smi topo -m: " + text[:300]}
        matrix = self.out / ".topo.txt"
        matrix.write_text(text)
        code, said, _ = self.run([self.bin / "tandem", "import", "topo-m", matrix, "--name", "visited", "--quiet"], 10)
        matrix.unlink()
        out = {"topo-m": text[:8000]}
        try:
            return {**out, "system": json.loads(said)}
        except ValueError:  # a GPU whose model the matrix does not say: validate --add --system names one
            return {**out, "no_system": said[-500:]}

    def scaling(self):
        """Four models over 1, 2, 4, 8 workers: rates, staleness, watts. The most telling first."""
        if alone := self.alone():
            return alone
        models = self.models if self.own_models else MODELS
        return self.each("scaling", {f"{model} {scheme} x{n}": (model, batch, scheme, n) for scheme in SCHEMES
                                     for model, batch in models.items() for n in self.counts()}, self.scaled)

    def scaled(self, model, batch, scheme, devices, *more):
        found = self.tandem(["run", "--backend", "cuda", "--model", model, "--batch", batch, "--devices", devices, "--scheme",
                             scheme, "--precision", "bf16", "--iterations", self.iterations, *more, "--no-timeline", "--format",
                             "json"], 40)
        return {**found, "asked": {"model": model, "batch": batch, "precision": "bf16", "scheme": scheme}}

    def reduced(self):
        """NCCL's all-reduce by size and number of workers, 20 in a row as nccl-tests."""
        if alone := self.alone():
            return alone
        measured = self.out / "measured.json"
        env = self.data_with([{"model": "mlp", "batch": 64}], largest=2**28)
        code, text, seconds = self.run([self.bin / "tandem", "measure", "--backend", "cuda", "--quick", "--precision", "fp32", "--workers",
                                        self.counts()[-1], "--out", measured], 75, **env)
        out = {"exit": code, "seconds": seconds, "said": text[-800:]}
        if measured.is_file():
            found = json.loads(measured.read_text())
            out["collectives"] = found.get("all_reduce", [])
        return out

    def routes(self):
        """NCCL's all-reduce, and our own copies."""
        if alone := self.alone():
            return alone
        return self.each("routes", {f"{scheme} {route}": ("vgg16", 32, scheme, 2, "--route", route)
                                    for route in ["auto", "peer", "staged"] for scheme in ["allreduce", "allreduce:algorithm=ring"]},
                         self.scaled)

    def processes(self):
        """NCCL over processes against one process with as many threads."""
        if alone := self.alone():
            return alone
        words = ["run", "--backend", "cuda", "--model", "vgg16", "--batch", 32, "--devices", 2, "--no-timeline", "--format", "json"]
        out = {"threads": self.tandem(words, 45)}
        mpirun = shutil.which("mpirun")
        if mpirun is None:
            return {**out, "problem": "no mpirun"}
        code, text, seconds = self.run([mpirun, "--allow-run-as-root", "-np", "2", self.bin / "tandem", *words], 60)
        try:
            out["processes"] = {"exit": code, "seconds": seconds, "result": json.loads(text)}
        except ValueError:
            out["processes"] = {"exit": code, "seconds": seconds, "problem": text[-2000:] or "see log.txt"}
        return out
