# SPDX-License-Identifier: Apache-2.0
"""What a visit to a GPU takes for sound, and what not."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "calibration"))
import gpu_visit  # noqa: E402
import gpu_visit_figures  # noqa: E402
import gpu_visit_multi  # noqa: E402
import gpu_visit_predict  # noqa: E402
import gpu_visit_timed  # noqa: E402

GOOD = """[==========] Running 2 tests from 1 test suite.
[ RUN      ] A.one
[       OK ] A.one (3 ms)
[ RUN      ] Layers/B.two/norm_1
[       OK ] Layers/B.two/norm_1 (4 ms)
[  PASSED  ] 2 tests.
"""
BAD = """[ RUN      ] A.one
[  SKIPPED ] A.one (0 ms)
[ RUN      ] A.two
[  FAILED  ] A.two, where GetParam() = 3 (5 ms)
[ RUN      ] A.three
[  FAILED  ] 1 test, listed below:
"""


class Judged(unittest.TestCase):
    def problems(self, text, code):
        return gpu_visit.problems({"case": {"exit": code, **gpu_visit.parse_tests(text)}}, "stage")

    def test_a_good_run_is_sound(self):
        self.assertEqual(self.problems(GOOD, 0), [])

    def test_an_exit_code_is_a_problem(self):
        self.assertEqual(self.problems(GOOD, 1), ["stage case: exit code 1"])
        self.assertEqual(self.problems(GOOD, None), ["stage case: out of time"])

    def test_no_test_is_a_problem(self):
        self.assertEqual(self.problems("", 0), ["stage case: no test ran"])

    def test_what_did_not_pass_is_named(self):
        found = gpu_visit.parse_tests(BAD)
        self.assertEqual((found["skipped"], found["failed"], found["unfinished"]), (["A.one"], ["A.two"], ["A.three"]))
        self.assertEqual(len(self.problems(BAD, 0)), 3)

    def test_words_within_results_are_none(self):
        self.assertEqual(gpu_visit.problems({"exit": 0, "result": {"problem": "a model's"}}), [])


    def test_losses_must_be_numbers_and_alike(self):
        self.assertIsNone(gpu_visit.losses_differ([2.0, 1.0], [2.001, 1.0], False))
        self.assertIn("on the processor", gpu_visit.losses_differ([2.0, 1.0], [2.0, 1.1], False))
        self.assertIsNone(gpu_visit.losses_differ([2.0, 1.0], [2.0, 1.1], True))
        for free in [False, True]:
            self.assertIn("no numbers", gpu_visit.losses_differ([2.0, float("nan")], [2.0, 1.0], free))
            self.assertIn("no numbers", gpu_visit.losses_differ([2.0, None], [2.0, 1.0], free))
        self.assertIsNone(gpu_visit.losses_differ(None, [2.0, 1.0], False))  # its exit code says so


class Cut(unittest.TestCase):
    def test_a_program_out_of_time_leaves_what_it_printed(self):
        words = [sys.executable, "-uc", "import time; print('begun'); time.sleep(60)"]
        child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        code, text, _ = gpu_visit.Visit.end_of(types.SimpleNamespace(), child, time.monotonic() + 2)
        self.assertIsNone(code)
        self.assertEqual(text, "begun\n")

    def test_what_a_killed_program_leaves_behind_is_not_awaited(self):
        child = subprocess.Popen(["sh", "-c", "trap '' INT; sleep 20 & sleep 20"], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        began = time.monotonic()
        code, text, _ = gpu_visit.Visit.end_of(types.SimpleNamespace(), child, began + 0.5, 0.5, 0.5)
        self.assertEqual((code, text), (None, ""))
        self.assertLess(time.monotonic() - began, 15)

    def test_every_stage_is_in_one_call(self):
        stages = [name for call in gpu_visit.CALLS.values() for name in call if name != "doctor"]
        self.assertEqual(len(stages), len(set(stages)))


def trained(model, batch, precision, rate):
    return {"exit": 0, "seconds": 3, "result": {"reports": [
        {"devices": 1, "samples_per_second": rate, "iteration_seconds": {"replayed": batch / rate},
         "inputs": {"model": model, "batch_per_device": str(batch), "precision": precision, "backend": "cuda"}}]}}


def checked(model, batch, rate, **more):
    return {"model": model, "batch_per_device": batch, "executed": rate, "metric": "samples_per_second", "devices": 1,
            "scheme": "allreduce", **more}


class Figures(unittest.TestCase):
    RESULTS = {"date": "2030-01-02 03:04 UTC", "platform": "Linux", "stages": {
        "doctor": {"result": [{"part": "GPU0", "found": "NVIDIA X1"}, {"part": "CUDA versions", "found": "CUDA 13"}]},
        "conformance": {"against-cpu": {"exit": 0, "seconds": 1, "tests": 5, "passed": 4}},
        "schemes": {"a": {"free": False, "cuda": {"exit": 0}, "cpu": {"exit": 0}},
                    "b": {"free": True, "cuda": {"exit": 0}, "cpu": {"exit": 0}},
                    "c": {"free": False, "cuda": {"exit": 0}, "cpu": {"exit": 0}, "problem": "losses"}},
        "train-bf16": {"lenet5 bf16": trained("lenet5", 8, "bf16", 100)},
        "again": {"graphs": [{"model": "mlp", "batch": 4, "precision": "fp32", "workers": n, "step_seconds": 0.5}
                             for n in [1, 2]],
                  "check tf32": {"result": {"precision": "tf32", "mean_abs_error": 0.5, "max_abs_error": 0.75, "cases": [
                      checked("vgg16", 32, 7.04, in_interval=True), checked("gpt2", 8, 3, in_interval=False),
                      checked("vgg16", 32, 9, in_interval=True, devices=2)]}}},
        "pytorch": {"exit": 0, "gpt2 tf32 eager": {
            "model": "gpt2", "batch": 8, "precision": "tf32", "mode": "eager", "torch": "2", "step_seconds": 2,
            "spread": 0, "samples_per_second": 4, "peak_bytes": 5, "warm_seconds": 6}}}}

    def test_they_are_those_of_one_worker(self):
        found = gpu_visit_figures.figures(self.RESULTS)
        self.assertEqual((found["machine"], found["date"]), ("NVIDIA X1; CUDA 13", "2030-01-02 03:04 UTC"))
        rows = [(r["model"], r["batch"], r["precision"], r["samples_per_second"]) for r in found["tandem"]]
        self.assertEqual(rows, [("lenet5", 8, "bf16", 100), ("mlp", 4, "fp32", 8.0), ("vgg16", 32, "tf32", 7.0),
                                ("gpt2", 8, "tf32", 3)])
        self.assertEqual([(r["model"], r["mode"], r["samples_per_second"]) for r in found["pytorch"]], [("gpt2", "eager", 4)])
        self.assertEqual(found["conformance"], {"2030-01-02 03:04 UTC": "conformance against-cpu: 4 of 5 tests; 3 runs of "
                         "schemes and offloading on two workers that share the GPU: 1 end at the processor's losses, 1 "
                         "whose workers wait for nobody end"})

    def test_earlier_visits_keep_theirs(self):
        new = gpu_visit_figures.figures(self.RESULTS)
        old = {"machine": "it", "date": "then", "conformance": {"then": "all"}, "tandem": [dict(new["tandem"][0], samples_per_second=1)],
               "pytorch": [dict(new["pytorch"][0], samples_per_second=1), dict(new["pytorch"][0], mode="graphed")]}
        both = gpu_visit_figures.merged(old, new)
        self.assertEqual(list(both["conformance"]), ["then", "2030-01-02 03:04 UTC"])
        self.assertEqual([r["samples_per_second"] for r in both["tandem"]], [1, 100, 8.0, 7.0, 3])
        self.assertEqual([(r["mode"], r["samples_per_second"]) for r in both["pytorch"]], [("graphed", 4), ("eager", 4)])

    def test_the_summary_has_a_line_for_each(self):
        lines = gpu_visit_figures.summary(self.RESULTS)
        for text in ["  GPU0: NVIDIA X1\n", "  conformance against-cpu: 4 of 5 tests\n", "  gpt2 tf32 eager: 4.0 samples/s, PyTorch 2\n",
                     "  lenet5 bf16 x1: 100.0 samples/s, replayed 80.00 ms, 0 calls refused\n",
                     "  check tf32: mean error 50.0 %, most 75.0 %; 2 of 3 inside their interval\n"]:
            self.assertIn(text, lines)


class Predicted(unittest.TestCase):
    REPORT = {"samples_per_second": 100, "samples_per_second_interval": {"low": 90, "high": 110, "level": 0.9},
              "memory_bytes_per_device": {"total": 1, "reserved": 2, "nvidia_smi": 3}, "compute_by_kernel": [], "extrapolates": ["far"]}

    def asked(self, report, code=0, errors=""):
        done = types.SimpleNamespace(returncode=code, stdout=json.dumps({"reports": [report]}), stderr=errors)
        with unittest.mock.patch.object(subprocess, "run", return_value=done):
            return gpu_visit_predict.ask("tandem", "h100", ("gpt2", 8, {"adapter": "lora:rank=16"}), "bf16", "h200")

    def test_a_row_has_what_a_visit_judges(self):
        row = self.asked({**self.REPORT, "power": {"watts_per_device": 500, "interval": {"low": 400, "high": 600}}})
        self.assertEqual([row[key] for key in ["system", "model", "batch", "precision", "profile", "low", "high"]],
                         ["h100", "gpt2", 8, "bf16", "h200", 90, 110])
        self.assertEqual((row["options"], row["watts"]), ({"adapter": "lora:rank=16"}, {"mean": 500, "low": 400, "high": 600}))
        self.assertIn("--system dgx-h100 --devices 1 --model gpt2 --batch 8 --adapter lora:rank=16", row["command"])
        self.assertNotIn("watts", self.asked(self.REPORT))

    def test_formats_without_kernels_are_left_to_the_stock_curves(self):
        self.assertIsNone(self.asked({}, 3, "kernels were measured in bf16 alone, not in fp8"))
        with self.assertRaises(SystemExit):
            self.asked({}, 3, "no such model")


class InTheBackground(unittest.TestCase):
    def test_programs_can_be_interrupted(self):
        """Where a shell has told the visit to ignore that."""
        with tempfile.TemporaryDirectory() as folder:
            words = f"""
import pathlib, signal, sys, time
sys.path.insert(0, {str(pathlib.Path(gpu_visit.__file__).parent)!r})
import gpu_visit
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.argv = ["gpu_visit.py", "--only", "doctor", "--out", {folder!r}]
def doctor(self):
    return {{"exit": self.end_of(self.start(["sleep", "30"], self.plain), time.monotonic() + 0.5, 10)[0]}}
gpu_visit.Visit.doctor = doctor
gpu_visit.main()
"""
            began = time.monotonic()
            subprocess.run([sys.executable, "-c", words], capture_output=True, check=True)
            self.assertLess(time.monotonic() - began, 8)
            found = json.loads((pathlib.Path(folder) / "visit.json").read_text())
            self.assertEqual(found["stages"]["doctor"]["problems"], ["doctor: out of time"])


class Stages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = pathlib.Path(self.folder.name) / "out"
        self.choices = pathlib.Path(self.folder.name) / "choices-found.txt"
        environment = unittest.mock.patch.dict(os.environ, {"TANDEM_CUDA_CHOICES": str(self.choices)})
        environment.start()
        self.addCleanup(environment.stop)

    def visit(self, models=None):
        v = gpu_visit.Visit(argparse.Namespace(out=self.out, models=models, iterations=7, profile="h200", budget=100, patience=1))
        self.addCleanup(v.clocks.stop)
        self.addCleanup(v.log.close)
        return v

    def test_every_stage_is_there(self):
        v = self.visit()
        for call in ["visit", "multi"]:
            for name in gpu_visit.CALLS[call]:
                self.assertTrue(callable(getattr(v, name.replace("-", "_"))), name)

    def test_shares_add_up_to_the_call(self):
        for call, budget in gpu_visit.BUDGETS.items():
            self.assertLessEqual(sum(gpu_visit.STAGE_LIMITS[name] for name in gpu_visit.CALLS[call]), budget)
        self.assertEqual(gpu_visit.BUDGETS["visit"], 12 * 60)

    def test_a_stage_ends_at_its_limit(self):
        v = self.visit()
        with unittest.mock.patch.dict(gpu_visit.STAGE_LIMITS, {"profile": 10}):
            v.stage("profile", lambda: {"left": v.left()})
        self.assertTrue(9 < v.results["stages"]["profile"]["left"] <= 10)
        self.assertIn("profile: 0.0 of 10 s, sound\n", gpu_visit_figures.summary(v.results))
        self.assertGreater(v.left(), 90)

    def test_each_stage_leaves_its_files(self):
        v = self.visit()
        self.choices.write_text("a choice")
        v.stage("predicted", lambda: {"a": trained("a", 8, "bf16", 80)})
        self.assertEqual({f.name for f in self.out.iterdir()} - {"clocks.csv"}, {"visit.json", "summary.txt", "log.txt", "choices.txt"})
        self.assertEqual(json.loads((self.out / "visit.json").read_text())["tandem"][0]["model"], "a")
        self.assertIn("80.0 samples/s", (self.out / "summary.txt").read_text())

    def test_choices_of_the_pack_are_taken_once(self):
        pack = pathlib.Path(self.folder.name) / "pack"
        pack.mkdir()
        (pack / "choices.txt").write_text("packed")
        with unittest.mock.patch.object(gpu_visit, "HERE", pack):
            self.visit()
            self.assertEqual(self.choices.read_text(), "packed")
            self.choices.write_text("packed, and found")
            self.visit()
            self.assertEqual(self.choices.read_text(), "packed, and found")

    def test_what_no_time_was_left_for_is_said_and_what_came_is_kept(self):
        v = self.visit()
        clock = iter([100, 100, 2])
        v.left = lambda: next(clock)
        v.stage("predicted", lambda: v.each("predicted", {"a bf16": ("a",), "b bf16": ("b",), "c bf16": ("c",)}, lambda m: {"exit": 0}))
        found = v.results["stages"]["predicted"]
        self.assertEqual((found["a bf16"], found["left_out"]), ({"exit": 0}, ["b bf16", "c bf16"]))
        self.assertEqual(found["problems"], ["predicted: time was up before 2 of them, first b bf16"])
        self.assertIn("PROBLEM predicted: time was up before 2 of them", gpu_visit_figures.summary(v.results))

    def test_models_are_judged_by_the_profile_that_was_just_measured(self):
        v = self.visit("a=8;b=4")
        asked = []
        v.measured_profile = lambda precisions, limit, **env: asked.append(precisions) or {}
        v.check = lambda precision, profile, limit, **env: asked.append((precision, profile)) or {"exit": 0}
        v.profile()
        self.assertEqual(list(v.judged()), ["check bf16", "check fp32", "check tf32"])
        (self.out / "profile.json").write_text("{}")
        v.judged()
        self.assertEqual(asked[:2], ["bf16,fp32,tf32", ("bf16", "h200")])
        self.assertEqual(asked[-1], ("tf32", self.out / "profile.json"))

    def test_what_was_predicted_is_run_the_most_telling_first(self):
        v = self.visit()
        asked = []
        v.tandem = lambda words, limit, **env: asked.append([str(w) for w in words]) or {"exit": 0}
        rows = v.predicted()
        self.assertEqual(len(rows), len(gpu_visit_predict.TRAININGS) * 4)
        self.assertEqual(rows["gpt2-medium --adapter lora:rank=16 bf16"]["asked"], {
            "model": "gpt2-medium", "batch": 4, "options": {"adapter": "lora:rank=16"}, "precision": "bf16"})
        self.assertEqual(len(gpu_visit_predict.TRAININGS), 12)
        self.assertEqual([(m, b) for m, b, _ in gpu_visit_predict.TRAININGS[:8]], list(gpu_visit.MODELS.items()))
        self.assertIn("lora:rank=16", " ".join(asked[11]))
        self.assertTrue(all("bf16" in words for words in asked[:12]) and "fp8" in asked[-1])

    def test_memory_is_what_the_driver_counts(self):
        v = self.visit()
        of = lambda bytes: {"exit": 0, "result": {"reports": [{"memory_bytes_per_device": bytes}]}}
        answers = iter([{**of({"total": 5}), "clocks": {"memory_mib": [1, 2, 3]}}, of({"nvidia_smi": 7})])
        v.tandem = lambda words, limit, **env: next(answers)
        row = v.remembered("gpt2", 8, "bf16", {"recompute": "blocks"})
        self.assertEqual(row, {"exit": 0, "allocated_bytes": 5, "predicted_bytes": {"nvidia_smi": 7}, "driver_bytes": 3 * 2**20})
        v.tandem = lambda words, limit, **env: {"exit": 3, "problem": "no room"}
        self.assertEqual(v.remembered("gpt2", 8, "bf16", {})["problem"], "no room")
        self.assertEqual(len(gpu_visit_timed.SETTINGS), 12)

    def test_pytorch_is_asked_for_each_model_and_each_changed_setting(self):
        v = self.visit("a=8;b=4")
        v.torch = lambda words, limit: words
        self.assertEqual(v.eager()[:5], ["train", "a:8:bf16:eager", "b:4:bf16:eager", "a:8:fp32:eager", "b:4:fp32:eager"])
        self.assertIn("gpt2:8:bf16:lora", v.eager())

    def test_programs_find_other_lists(self):
        v = self.visit("a=8;b=4")
        data = pathlib.Path(v.data_with([{"model": "g", "batch": 2}], [{"model": "a"}])["TANDEM_DATA"])
        self.assertEqual(json.loads((data / "calibration/suite/check-gpu.json").read_text())["cases"], [{"model": "a"}])
        self.assertEqual(json.loads((data / "calibration/suite/suite-gpu.json").read_text())["graphs"], [{"model": "g", "batch": 2}])
        for file in ["models/zoo/lenet5.json", "calibration/profiles/h200.json", "calibration/suite/suite.json"]:
            self.assertTrue((data / file).is_file(), file)

    def test_results_that_no_figures_are_made_of_are_kept(self):
        v = self.visit()
        v.stage("again", lambda: {"a": {"result": {"reports": [{"samples_per_second": 1}]}}})
        v.stage("shared", lambda: {"exit": 0})
        kept = json.loads((self.out / "visit.json").read_text())
        self.assertEqual(list(kept["stages"]), ["again", "shared"])
        self.assertIn("KeyError", kept["problem"])
        self.assertIn("KeyError", (self.out / "summary.txt").read_text())

    def test_half_a_comparison_says_so(self):
        v = self.visit()
        ends = iter([(0, json.dumps({"reports": [{"training": {"first_loss": 2, "last_loss": 1}}]}), "")])
        v.start = lambda words, env: None
        v.end_of = lambda child, until: (setattr(v, "end", 0), next(ends))[1]
        self.assertEqual(v.scheme("allreduce", "a", "off")["problem"], "no time was left")

    def test_stages_of_several_gpus_say_why_they_are_not_run(self):
        v = self.visit()
        v.run = lambda words, limit, **env: (127, "", 0)
        self.assertIn("how many", v.routes()["problem"])
        v.results["stages"]["doctor"] = {"result": [{"part": "GPU0", "found": "it"}]}
        for name in gpu_visit.MULTI_LIMITS:
            v.stage(name, getattr(v, name))
            self.assertEqual(v.results["stages"][name]["problems"], [])
        self.assertIn("routes: 0.0 of 90 s, not run: one GPU\n", gpu_visit_figures.summary(v.results))
        v.results["stages"]["doctor"]["result"].append({"part": "GPU1", "found": "another"})
        self.assertIsNone(v.alone())

    def test_several_gpus_leave_rates_staleness_watts_and_sums(self):
        """Eight GPUs, whose programs are scripted."""
        v = self.visit()
        v.results["stages"]["doctor"] = {"result": [{"part": f"GPU{i}", "found": "X"} for i in range(8)]}

        def run(words, limit, **env):
            words = [str(w) for w in words]
            if "topo" in words:
                return 0, "GPU0 GPU1", 1
            if "import" in words:
                return 0, json.dumps({"name": "visited"}), 1
            if "measure" in words:
                (self.out / "measured.json").write_text(json.dumps({"all_reduce": [{"ranks": 8, "bytes": 1024, "seconds": 1e-5}]}))
                return 0, "", 1
            of = lambda flag: words[words.index(flag) + 1]
            name, _, options = of("--scheme").partition(":") if "--scheme" in words else ("allreduce", "", "")
            scheme = {"scheme": name, **dict((f"scheme.{o.split('=')[0]}", o.split("=")[1]) for o in options.split(",") if o)}
            return 0, json.dumps({"reports": [{"devices": int(of("--devices")), "samples_per_second": 100.0, "staleness": {"mean": 1.5},
                                               "power": {"watts_per_device": 400}, "iteration_seconds": {}, "inputs": {
                                                   "backend": "cuda", "model": of("--model"), "batch_per_device": of("--batch"),
                                                   "precision": "bf16", **scheme}}]}), 1
        v.run = run
        for name in gpu_visit.MULTI_LIMITS:
            v.stage(name, getattr(v, name))
            self.assertEqual([p for p in v.results["stages"][name]["problems"] if "mpirun" not in p], [])
        found = json.loads((self.out / "visit.json").read_text())
        self.assertEqual((found["schema"], found["system"]), ("tandem-visit-1", {"name": "visited"}))
        self.assertEqual(found["collectives"], [{"ranks": 8, "bytes": 1024, "seconds": 1e-5}])
        rows = found["trainings"]
        self.assertEqual({row["devices"] for row in rows}, {1, 2, 4, 8})
        self.assertEqual({row["model"] for row in rows}, set(gpu_visit_multi.MODELS))
        asynchronous = [row for row in rows if row["scheme"] == "parameter-server:mode=async,server=gpu"]
        self.assertEqual(len(asynchronous), 16)
        self.assertEqual((asynchronous[0]["staleness"], asynchronous[0]["watts"]), (1.5, 400))
        # What one worker reaches with servers is no rate of the executor alone.
        self.assertEqual(len(found["tandem"]), 4)


if __name__ == "__main__":
    unittest.main()
