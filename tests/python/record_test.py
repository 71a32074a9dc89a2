# SPDX-License-Identifier: Apache-2.0
"""Records of training steps: what is kept of them, and that nothing else is. Needs PyTorch."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = """
import sys, torch
secret = "of the script"
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(8, 64)
for _ in range(int(sys.argv[1])):
    optimiser.zero_grad()
    model(data).sum().backward()
    optimiser.step()
"""


class Meters(unittest.TestCase):
    """An nvidia-smi of the test's own stands for the driver's."""

    def readings_of(self, script, seconds):
        from tandem import _record

        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "nvidia-smi")
            program.write_text("#!/bin/sh\n" + script)
            program.chmod(0o755)
            path, os.environ["PATH"] = os.environ["PATH"], f"{folder}:{os.environ['PATH']}"
            try:
                meter = _record._Meter("GPU-0")
                time.sleep(seconds)
                meter.stop()
            finally:
                os.environ["PATH"] = path
        return meter.document(0.5, 64)

    def test_reads_what_a_gpu_draws(self):
        power = self.readings_of("while :; do echo '300.0, 1980, 2619, 55'; echo '500.0, 1900, 2619, 57'; sleep 0.05; done", 1)["power"]
        self.assertAlmostEqual(power["watts_per_device"], 400, delta=20)
        self.assertAlmostEqual(power["joules_per_step"], power["watts_per_device"] * 0.5)
        self.assertAlmostEqual(power["joules_per_sample"], power["joules_per_step"] / 64)
        self.assertEqual((power["readings"]["least_watts"], power["readings"]["most_watts"]), (300, 500))
        self.assertEqual(power["readings"]["celsius"], 57)
        self.assertGreaterEqual(power["readings"]["count"], 10)

    def test_says_why_it_knows_nothing(self):
        self.assertIn("says \"[N/A], 1980", self.readings_of("echo '[N/A], 1980, 2619, 55'", 0.2)["power_not_known"])
        self.assertIn("1 of the 10 readings", self.readings_of("echo '300, 1980, 2619, 55'", 0.2)["power_not_known"])
        self.assertIn("0 of the 10 readings", self.readings_of("exit 9", 0.2)["power_not_known"])


@unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch here")
class Records(unittest.TestCase):
    def test_of_a_step(self):
        import torch

        import tandem

        model = torch.nn.Linear(256, 256)
        calls = []

        def step():
            calls.append(1)
            model(torch.ones(32, 256)).sum().backward()

        record = tandem.record(step, samples=32, name="linear", warmup=2, steps=5)
        self.assertEqual(len(calls), 2 + 5 + 3)
        self.assertEqual(record["schema"], "tandem-record-1")
        self.assertEqual(record["step_seconds"]["steps"], 5)
        self.assertLessEqual(record["step_seconds"]["low"], record["step_seconds"]["median"])
        rate = 32 / record["step_seconds"]["median"]
        self.assertAlmostEqual(record["samples_per_second"] / rate, 1)
        self.assertEqual(record["anchor"], f"{rate:.6g}@1")
        counts = {row["name"]: row["count"] for row in record["operators"]}
        self.assertEqual(counts["aten::addmm"], 1)  # a step has one product with a bias
        tandem.predict(model="mlp", system="dgx1-v100", devices=1, anchor=record["anchor"])

    def test_keeps_a_question(self):
        import tandem

        kept = tandem.record(lambda: None, samples=32, steps=2, question={"model": "mlp", "batch": 16})
        self.assertEqual(kept["question"], {"schema": "tandem-question-1", "model": "mlp", "batch": 16})
        whole = tandem.Question(model="mlp", system="dgx1-v100", devices=[1, 2])
        kept = tandem.record(lambda: None, samples=32, steps=2, question=whole)["question"]
        self.assertEqual((kept["model"], kept["system"], kept["schema"]), ("mlp", "dgx1-v100", "tandem-question-1"))
        self.assertNotIn("devices", kept)

    def test_of_a_script(self):
        with tempfile.TemporaryDirectory() as folder:
            script, out = pathlib.Path(folder, "private_name.py"), pathlib.Path(folder, "record.json")
            script.write_text(SCRIPT)

            def run(steps):
                return subprocess.run([sys.executable, "-m", "tandem.record", "--samples", "8", "--steps", "4", "--out",
                                       str(out), str(script), str(steps)], capture_output=True, text=True,
                                      env=os.environ)

            short = run(5)
            self.assertEqual(short.returncode, 3)
            self.assertIn("ended after 5 steps of its optimiser; 10 are needed", short.stderr)
            self.assertFalse(out.exists())
            done = run(987654321)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("Kept of 4 steps", done.stderr)
            text = out.read_text()
            self.assertEqual(json.loads(text)["step_seconds"]["steps"], 4)
            for private in ("private_name", folder, "secret", "987654321"):
                self.assertNotIn(private, text)

    @unittest.skipUnless(importlib.util.find_spec("torchvision"), "no torchvision here")
    def test_of_a_standard_model(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-m", "tandem.eight", folder, "--device", "cpu", "--system", "local",
                                   "--only", "mobilenet_v2"], capture_output=True, text=True, env=os.environ)
            self.assertEqual(done.returncode, 0, done.stderr)
            record = json.loads(pathlib.Path(folder, "mobilenet_v2.json").read_text())
        self.assertEqual(record["samples_per_step"], 2)
        self.assertEqual(record["question"]["system"], "local")
        import tandem

        self.assertEqual(tandem.Model(json.dumps(record["question"]["model"])).parameters, 3504872)


if __name__ == "__main__":
    unittest.main()
