# SPDX-License-Identifier: Apache-2.0
"""The notebooks run, each in a kernel of its own, and are kept without outputs."""

import importlib.util
import json
import os
import pathlib
import shutil
import tempfile
import unittest

FOLDER = pathlib.Path(os.environ["TANDEM_ROOT"]) / "notebooks"
NAMES = sorted(file.stem for file in FOLDER.glob("*.ipynb"))


def lacks(*modules):
    return ", ".join(name for name in modules if importlib.util.find_spec(name) is None)


class Notebooks(unittest.TestCase):
    def test_are_kept_without_outputs(self):
        self.assertEqual(NAMES, ["pcie-or-nvlink", "plan-a-purchase", "validate-here"])
        for name in NAMES:
            for cell in json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]:
                self.assertFalse(cell.get("outputs"), f"{name}: outputs are not kept")
                self.assertIsNone(cell.get("execution_count"), f"{name}: outputs are not kept")

    def run_through(self, name):
        """What its cells show, as text of all kinds of output."""
        import nbclient
        import nbformat

        notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            nbclient.NotebookClient(notebook, timeout=1800, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
        return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]

    def shown(self, name):
        return "".join(str(output.get("data", output.get("text", ""))) for output in self.run_through(name))

    @unittest.skipIf(lacks("nbclient", "ipykernel") or not shutil.which("gnuplot") or not shutil.which("dot"), "needs nbclient, ipykernel, gnuplot, Graphviz")
    def test_run(self):
        purchase = self.shown("plan-a-purchase")
        self.assertEqual(purchase.count("data:image/svg+xml"), 3)
        self.assertIn("the first is better with probability", purchase)
        links = self.shown("pcie-or-nvlink")
        self.assertEqual(links.count("data:image/svg+xml"), 3)
        self.assertIn("batch 128: NVLink is", links)

    @unittest.skipIf(lacks("nbclient", "ipykernel", "torch"), "needs nbclient, ipykernel, torch")
    def test_validates_here(self):
        shown = self.shown("validate-here")
        self.assertIn("samples/s, predicted", shown)
        self.assertIn("<th>samples/s</th>", shown)


if __name__ == "__main__":
    unittest.main()
