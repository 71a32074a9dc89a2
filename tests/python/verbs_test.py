# SPDX-License-Identifier: Apache-2.0
"""compare, advise, plan, collective and sweep: the bytes of the command line, and grids by executors."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import tandem

PROGRAM = os.environ["TANDEM_BINARY"]
TOPO = """\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV4\t0-31\t0
GPU1\tNV4\t X \t0-31\t0
"""


def command(*words):
    return subprocess.run([PROGRAM, *words, "--quiet"], capture_output=True, text=True)


def printed(*words):
    return command(*words, "--format", "json").stdout


class Compare(unittest.TestCase):
    def test_has_the_bytes_of_the_command_line(self):
        question = {"model": ["lenet5", "vgg16"], "precision": "fp16"}
        words = ["--model", "lenet5,vgg16", "--precision", "fp16"]
        for systems in (["v100-pcie-8x", "dgx1-v100"], ["v100-pcie-8x", "dgx1-v100", "dgx-a100"]):
            self.assertEqual(tandem.compare(*systems, **question, devices=2).json(), printed("compare", *systems, *words, "--devices", "2"))
        one = tandem.compare("2080ti-nvlink-8x", model="lenet5", without="nvlink", devices=4)
        self.assertEqual(one.json(), printed("compare", "2080ti-nvlink-8x", "--model", "lenet5", "--without", "nvlink", "--devices", "4"))
        self.assertIn("<th>B over A</th>", one._repr_html_())

    def test_takes_reports_and_questions(self):
        reports = [tandem.predict(model="lenet5", system="dgx1-v100", devices=2, batch=batch) for batch in (16, 64)]
        with tempfile.TemporaryDirectory() as folder:
            files = [str(pathlib.Path(folder) / name) for name in ("a.json", "b.json")]
            for file, report in zip(files, reports):
                pathlib.Path(file).write_text(report.json())
            self.assertEqual(tandem.compare(*reports).json(), printed("compare", *files))
            self.assertEqual(tandem.compare(*files).json(), printed("compare", *files))
            self.assertEqual(tandem.compare(question=reports[0], batch="B:8").json(), printed("compare", "--question", files[0], "--batch", "B:8"))

    def test_takes_systems_as_values(self):
        report = tandem.compare(tandem.System("dgx1-v100"), tandem.System("dgx1-v100", set=["links.nvlink.bandwidth=1GB/s"]), model="vgg16", devices=8)
        self.assertLess(report.rows[0]["samples_per_second_ratio"], 0.9)

    def test_says_what_is_wrong(self):
        for words, options in (((), {}), (("dgx1-v100", "dgx-a100"), {}), (("dgx1-v100",), {"model": "vgg16"})):
            with self.assertRaises(tandem.UsageError):
                tandem.compare(*words, **options)
        with self.assertRaises(tandem.InputError) as caught:
            tandem.compare("dgx1-v10", "dgx-a100", model="vgg16")
        self.assertEqual(f"tandem: {caught.exception}\n", command("compare", "dgx1-v10", "dgx-a100", "--model", "vgg16").stderr)


class Advise(unittest.TestCase):
    def test_has_the_bytes_of_the_command_line(self):
        got = tandem.advise(model="resnet50", system="v100-pcie-8x", devices=4, schemes=["pytorch-ddp", "horovod"], threads=2)
        words = ["--model", "resnet50", "--system", "v100-pcie-8x", "--devices", "4", "--schemes", "pytorch-ddp,horovod"]
        expected = json.loads(printed("advise", *words))
        same = dict(got)
        if "--backend cuda" in (expected["run"] or ""):  # only the command line has an executor
            for document in (expected, same):
                del document["run"], document["run_notes"]
            self.assertEqual(same, expected)
        else:
            self.assertEqual(got.json(), printed("advise", *words))
        self.assertEqual(got.rows[0]["rank"], 1)
        self.assertIn("<th>scheme</th>", got._repr_html_())

    def test_takes_a_question(self):
        question = tandem.Question(model="lenet5", system="dgx1-v100", devices=2, batch=16)
        self.assertEqual(tandem.advise(question, schemes="allreduce")["samples_per_step"], 32)


class Plan(unittest.TestCase):
    def test_has_the_bytes_of_the_command_line(self):
        got = tandem.plan(model="resnet50", epochs=90, systems=["dgx1-v100", "v100-pcie-8x"], nodes=[1, 2], global_batch=1024, deadline="30d", today="2026-01-01")
        expected = printed("plan", "--model", "resnet50", "--epochs", "90", "--systems", "dgx1-v100,v100-pcie-8x", "--nodes", "1,2", "--global-batch", "1024", "--deadline", "30d", "--today", "2026-01-01")
        self.assertEqual(got.json(), expected)
        self.assertEqual(got["schema"], "tandem-plan-1")

    def test_needs_a_target(self):
        with self.assertRaisesRegex(tandem.UsageError, "a plan needs a target"):
            tandem.plan(model="resnet50", systems="dgx1-v100")


class Collective(unittest.TestCase):
    def test_has_the_bytes_of_the_command_line(self):
        got = tandem.collective(system="dgx1-v100", sizes="1KiB..1GiB", kind="all-gather", set=["nodes=2"])
        self.assertEqual(got.json(), printed("collective", "--system", "dgx1-v100", "--sizes", "1KiB..1GiB", "--kind", "all-gather", "--set", "nodes=2"))
        self.assertEqual(tandem.collective(system="dgx1-v100", from_="1MiB", to="2MiB").rows[1]["bytes"], 2 << 20)
        self.assertEqual(tandem.collective(system=tandem.System("dgx1-v100"), sizes=["1MiB", "3MiB"]).rows[1]["bytes"], 3 << 20)

    def test_takes_no_question(self):
        with self.assertRaisesRegex(tandem.UsageError, "keywords alone"):
            tandem.collective("dgx1-v100")


class Topo(unittest.TestCase):
    def test_is_what_import_writes(self):
        system = tandem.System.from_topo(TOPO, device="v100-sxm2-16gb")
        self.assertEqual(system.devices, 2)
        report = tandem.predict(model="lenet5", system=system, devices=[1, 2])
        self.assertGreater(report.rows[1]["samples_per_second"], 0)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "topo"
            file.write_text(TOPO)
            written = command("import", "topo-m", str(file), "--device", "v100-sxm2-16gb").stdout
        self.assertEqual(tandem.System(json.loads(written)).json(), system.json())

    def test_says_what_is_wrong(self):
        with self.assertRaises(tandem.InputError):
            tandem.System.from_topo("nothing")
        with self.assertRaises(tandem.InputError):
            tandem.System.from_topo(TOPO)  # which GPUs?


class Sweep(unittest.TestCase):
    GRID = {"model": ["lenet5", "vgg16"], "system": "dgx1-v100", "devices": [1, 2, 4], "batch": [16, 32], "staged": [False, True]}

    def file(self, name):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name) / name

    def rows(self, report):
        return [{key: value for key, value in row.items() if key != "hash"} for row in report.rows]

    def test_has_the_cells_of_the_command_line(self):
        file, other = self.file("grid.sqlite"), self.file("other.sqlite")
        report = tandem.sweep(**self.GRID, out=file)
        self.assertEqual(report["cells"], 24)
        self.assertEqual(len(report.rows), 24)
        command("sweep", "--model", "lenet5,vgg16", "--system", "dgx1-v100", "--devices", "1,2,4", "--batch", "16,32", "--staged", "false,true", "--out", str(other))
        self.assertEqual(command("sweep", "export", str(file)).stdout, command("sweep", "export", str(other)).stdout)
        self.assertIn("<th>status</th>", report._repr_html_())

    def test_is_the_same_by_any_executor(self):
        expected = self.rows(tandem.sweep(**self.GRID, out=self.file("grid.sqlite")))
        for kind in (concurrent.futures.ThreadPoolExecutor, concurrent.futures.ProcessPoolExecutor):
            file = self.file("grid.sqlite")
            with kind(3) as executor:
                self.assertEqual(self.rows(tandem.sweep(**self.GRID, out=file, executor=executor)), expected)
            self.assertEqual([path.name for path in file.parent.iterdir()], ["grid.sqlite"])
        file = self.file("grid.sqlite")
        with concurrent.futures.ThreadPoolExecutor(2) as executor:
            self.assertEqual(self.rows(tandem.sweep(**self.GRID, out=file, executor=executor, shards=5)), expected)

    def test_says_what_is_wrong(self):
        with self.assertRaises(tandem.UsageError):
            tandem.sweep(**self.GRID)
        with self.assertRaises(tandem.UsageError):
            tandem.sweep(**self.GRID, out=self.file("a"), shards=2)
        with concurrent.futures.ProcessPoolExecutor(1) as executor:
            with self.assertRaisesRegex(tandem.InputError, "vgg17"):
                tandem.sweep(**self.GRID | {"model": "vgg17"}, out=self.file("a"), executor=executor)


if __name__ == "__main__":
    unittest.main()
