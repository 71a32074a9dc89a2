# SPDX-License-Identifier: Apache-2.0
"""plot, and compare with a trace: the bytes of the command line."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import tandem

PROGRAM = os.environ["TANDEM_BINARY"]
TRACE = str(pathlib.Path(os.environ["TANDEM_ROOT"]) / "tests/fuzz/corpus/kineto/three_steps")


def command(*words, cwd=None):
    return subprocess.run([PROGRAM, *words, "--quiet"], capture_output=True, text=True, cwd=cwd)


@unittest.skipUnless(shutil.which("gnuplot") and shutil.which("dot"), "needs gnuplot and Graphviz")
class Plot(unittest.TestCase):
    def drawn(self, *reports):
        """What the command line draws of documents: name without the document's -> SVG, and one PNG."""
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for number, report in enumerate(reports):
                files.append(str(pathlib.Path(folder) / f"r{number}.json"))
                pathlib.Path(files[-1]).write_text(report.json())
            said = command("plot", *files, "--out", folder)
            self.assertEqual(said.returncode, 0, said.stderr)
            names = [pathlib.Path(line).stem for line in said.stdout.split() if line.endswith(".svg")]
            bytes_of = {name: pathlib.Path(folder, name + ".svg").read_text() for name in names}
            return {name.removeprefix("r0-"): text for name, text in bytes_of.items()}, pathlib.Path(folder, names[0] + ".png").read_bytes()

    def check(self, *reports):
        svgs, png = self.drawn(*reports)
        pictures = tandem.plot(*reports)
        self.assertEqual({p.name: p.svg for p in pictures}, svgs)
        self.assertEqual(pictures[0].png, png)
        return pictures

    def test_draws_what_the_command_line_draws(self):
        report = tandem.predict(model="lenet5", system="dgx1-v100", devices=[1, 2, 8])
        pictures = self.check(report)
        self.assertEqual([p.name for p in pictures], ["scaling", "breakdown", "timeline", "links"])
        self.assertEqual(pictures["timeline"]._repr_svg_(), pictures[2].svg)
        self.assertEqual(pictures._repr_html_().count("<img "), 4)
        self.check(report, tandem.predict(model="lenet5", system="dgx1-v100", devices=[1, 2], batch=64))
        self.check(tandem.compare("v100-pcie-8x", "dgx1-v100", model=["lenet5", "vgg16"], devices=2))
        self.check(tandem.plan(model="resnet50", epochs=9, systems=["dgx1-v100", "v100-pcie-8x"], global_batch=1024, today="2026-01-01"))

    def test_draws_one_kind_and_machines(self):
        report = tandem.predict(model="lenet5", system="dgx1-v100", devices=[1, 2])
        self.assertEqual([p.name for p in tandem.plot(report, kind="scaling")], ["scaling"])
        machine = tandem.plot(tandem.System("dgx1-v100"))
        with tempfile.TemporaryDirectory() as folder:
            file = str(pathlib.Path(folder) / "machine.svg")
            command("show", "system", "dgx1-v100", "--out", file)
            self.assertEqual(machine["dgx1-v100"].svg, pathlib.Path(file).read_text())
            saved = pathlib.Path(machine[0].save(str(pathlib.Path(folder) / "m.png")))
            self.assertTrue(saved.read_bytes().startswith(b"\x89PNG"))

    def test_says_what_is_wrong(self):
        report = tandem.predict(model="lenet5", system="dgx1-v100")
        for call, error, text in ((lambda: tandem.plot(), tandem.UsageError, "takes reports"),
                                  (lambda: tandem.plot(report, kind="scalling"), tandem.UsageError, "scaling"),
                                  (lambda: tandem.plot(report, kind="plan"), tandem.InputError, "nothing to draw"),
                                  (lambda: tandem.plot({"schema": "x"}), tandem.InputError, "x"),
                                  (lambda: tandem.plot(report)["scale"], tandem.InputError, "no picture"),
                                  (lambda: tandem.plot(report)[0].save("x.pdf"), tandem.InputError, "must end in .png or .svg")):
            with self.assertRaises(error) as caught:
                call()
            self.assertIn(text, str(caught.exception))
        with self.assertRaises(IndexError):
            tandem.plot(report)[9]


class Trace(unittest.TestCase):
    def test_is_compared_as_the_command_line_does(self):
        report = tandem.predict(model="lenet5", system="dgx-a100", devices=2)
        with tempfile.TemporaryDirectory() as folder:
            file = str(pathlib.Path(folder) / "report")
            pathlib.Path(file).write_text(report.json())
            printed = command("compare", "report", TRACE, "--format", "json", cwd=folder)
        compared = tandem.compare(report, trace=TRACE)
        self.assertEqual(compared.json(), printed.stdout)
        self.assertIn("Largest disagreement", compared["reason"])
        self.assertIn("<th>traced, s</th>", compared._repr_html_())
        with self.assertRaises(tandem.UsageError):
            tandem.compare(report, report, trace=TRACE)
        with self.assertRaises(tandem.InputError):
            tandem.compare(report, trace="no-such-trace")


if __name__ == "__main__":
    unittest.main()
