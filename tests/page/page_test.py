#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `tandem report` writes, in Chromium: figures equal the documents', tables sort and filter, axe finds nothing.

page_test.py TANDEM [--shots FOLDER]: runs TANDEM on small models. Exits with 77, "skipped", where Chromium or Selenium
is not installed. Prints how long the first paint and a filter of 10,000 rows took; asserts no time.
"""
import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import browser as chromium
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

TANDEM = sys.argv[1]
SHOTS = sys.argv[3] if len(sys.argv) > 3 else None
SMALL = ["--model", "lenet5", "--system", "dgx1-v100"]
QUESTIONS = {
    "predict": ["predict", *SMALL, "--devices", "1,2,4,8", "--scheme", "pytorch-ddp"],
    "stale": ["predict", *SMALL, "--devices", "2,4,8", "--scheme", "parameter-server:mode=async"],
    "failures": ["predict", *SMALL, "--devices", "8", "--mtbf", "100h", "--epochs", "3"],
    "too_large": ["predict", "--model", "vgg16", "--system", "dgx1-v100", "--devices", "2", "--batch", "4096"],
    "run": ["run", "--model", "lenet5", "--devices", "1,2", "--iterations", "8"],
    "plan": ["plan", "--model", "lenet5", "--epochs", "5", "--systems", "dgx1-v100,dgx-a100", "--nodes", "1,2",
             "--global-batch", "256", "--deadline", "1d", "--today", "2026-01-01"],
    "compare": ["compare", "v100-pcie-8x", "dgx1-v100", "--model", "lenet5", "--devices", "1,2,4,8"],
    "advise": ["advise", *SMALL],
    "collective": ["collective", "--kind", "all-reduce", "--system", "dgx1-v100"],
    "validate": ["validate", "calibration/data/published/held_out_flagperf.json"],
}
CHECK = {  # a cross-check takes a minute; this is one of its documents
    "schema": "tandem-check-1", "machine": "a machine", "date": "2026-01-01", "versions": "1", "mean_abs_error": 0.05,
    "max_abs_error": 0.08, "interval_level": 0.9, "interval_coverage": 1.0,
    "cases": [{"model": "lenet5", "scheme": "allreduce", "devices": n, "batch_per_device": 32, "metric": "samples_per_second",
               "predicted": 1000.0 * n, "executed": 980.5 * n, "error": 0.0199, "repeatability": 0.01, "in_interval": True}
              for n in (1, 2)]}
FOLDER = tempfile.TemporaryDirectory()
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def tandem(*words):
    return subprocess.run([TANDEM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, check=False)


def path(name):
    return os.path.join(FOLDER.name, name)


def write(name, document):
    with open(path(name), "w", encoding="utf-8") as file:
        json.dump(document, file)
    return path(name)


def document(name):
    """What the program answers, as a file that is made once."""
    if not os.path.exists(path(f"{name}.json")):
        if name == "check":
            write("check.json", CHECK)
        else:
            tandem(*QUESTIONS[name], "--quiet", "--format", "json", "--out", path(f"{name}.json"))
    with open(path(f"{name}.json"), encoding="utf-8") as file:
        return json.load(file)


def sweep(rows):
    """Cells as a sweep has them."""
    return {"schema": "tandem-sweep-1", "rows": [
        {"hash": f"{i:016x}", "position": i, "status": "refused" if i % 100 == 7 else "answered", "model": f"model{i % 12}",
         "system": f"system-{i % 17}", "scheme": "pytorch-ddp" if i % 2 else "horovod", "batch": 8 << i % 5, "devices": 1 << i % 8,
         "precision": "fp16", "samples_per_second": None if i % 100 == 7 else 1000.0 + (i * 7919) % 10007,
         "samples_per_second_low": 900.0 + i, "samples_per_second_high": 1100.5 + i, "iteration_seconds": 0.01 + i * 1e-6,
         "memory_bytes": 1 << 30, "scaling_efficiency": 1 / (1 + i % 9)} for i in range(rows)]}


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = chromium.start()
        cls.axe = chromium.axe_source()
        if cls.axe is None:
            print("axe-core is not installed (pip install axe-playwright-python): accessibility is not checked", file=sys.stderr)

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()

    def open(self, *names):
        for name in names:
            document(name)
        page = path("-".join(names) + ".html")
        made = tandem("report", *[path(f"{name}.json") for name in names], "--out", page)
        self.assertEqual(made.returncode, 0, made.stderr)
        chromium.show(self.browser, 1000, False)
        self.browser.get(f"file://{page}")
        return self.browser

    def find(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def table(self, caption):
        """The table of that caption: rows of {head: (value in full, shown)}."""
        return self.browser.execute_script("""
          const table = [...document.querySelectorAll("table.data")].find((t) => t.caption.textContent.startsWith(arguments[0]));
          const heads = [...table.tHead.rows[0].cells].map((c) => c.textContent);
          return [...table.tBodies[0].rows].filter((r) => !r.classList.contains("gap"))
            .map((r) => Object.fromEntries([...r.cells].map((c, i) => [heads[i], [c.dataset.value, c.textContent]])));""", caption)

    def assert_shown(self, cell, value):
        """In full in the page's data, and on the screen up to rounding."""
        self.assertEqual(float(cell[0]), value)
        number = re.search(r"-?[\d,]+\.?\d*", cell[1])
        self.assertTrue(number, cell)
        self.assertNotEqual(cell[1], "–")

    def header(self, caption, title):
        return self.browser.execute_script("""
          const table = [...document.querySelectorAll("table.data")].find((t) => t.caption.textContent.startsWith(arguments[0]));
          return [...table.tHead.querySelectorAll("button")].find((b) => b.textContent === arguments[1]);""", caption, title)

    def assert_clean(self, what):
        self.assertEqual(chromium.errors(self.browser), [], what)
        self.assertEqual(self.find(".lacks.bad"), [], what)
        if self.axe:
            self.assertEqual(chromium.axe_violations(self.browser, self.axe), [], what)

    def test_every_view_is_clean_at_every_width(self):
        for name in [*QUESTIONS, "check"]:
            self.open(name)
            for width in (400, 1000, 1600):
                for dark in (False, True):
                    what = f"{name} at {width}{', dark' if dark else ''}"
                    chromium.show(self.browser, width, dark)
                    self.assert_clean(what)
                    wide = self.browser.execute_script("return document.documentElement.scrollWidth - innerWidth")
                    self.assertLessEqual(wide, 0, what)
                    self.shoot(name, width, dark)
            self.assertEqual(self.browser.execute_script("return performance.getEntriesByType('resource').length"), 0)

    def shoot(self, name, width, dark):
        if SHOTS is None:
            return
        self.browser.execute_async_script("setTimeout(arguments[0], 100)")
        os.makedirs(SHOTS, exist_ok=True)
        height = self.browser.execute_script("return document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, 8000), "scale": 1}
        shot = self.browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        with open(os.path.join(SHOTS, f"{name}-{width}{'-dark' if dark else ''}.png"), "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def test_reports_show_the_documents_figures(self):
        self.open("predict")
        rows = self.table("Reports")
        reports = document("predict")["reports"]
        self.assertEqual(len(rows), len(reports))
        for row, report in zip(rows, reports):
            self.assert_shown(row["Devices"], report["devices"])
            self.assert_shown(row["Samples/s"], report["samples_per_second"])
            self.assert_shown(row["Step"], report["iteration_seconds"]["median"])
            self.assert_shown(row["Efficiency"], report["scaling_efficiency"])
            self.assertEqual(row["Bound by"][1], report["bottleneck"]["resource"])
        rate = reports[-1]["samples_per_second"]
        self.assertEqual(self.find(".cards strong")[0].text, f"{rate:,.0f}")
        self.assertEqual(len(self.find("svg .dot")), len(reports))

    def test_memory_over_a_step_reaches_the_peak(self):
        self.open("predict")
        report = document("predict")["reports"][-1]
        role = next(r for r in report["memory_by_role"] if "over_step" in r)
        peak = max(p["bytes"] for p in role["over_step"])
        self.assertEqual(peak, role["memory"]["total"])
        self.assertEqual(len(self.find("svg .point")), len(role["over_step"]))
        rows = self.browser.execute_script("""
          const table = [...document.querySelectorAll("table")].find((t) => t.caption?.textContent.startsWith("Memory over a step"));
          return [...table.tBodies[0].rows].map((r) => [...r.cells].map((c) => c.textContent));""")
        self.assertEqual([row[:2] for row in rows], [[p["pass"], p["layer"]] for p in role["over_step"]])

    def test_a_report_that_is_chosen_is_shown_in_full(self):
        self.open("predict")
        for i, report in enumerate(document("predict")["reports"]):
            self.find(".pick")[i].send_keys(Keys.ENTER)
            self.assertIn(f"{report['samples_per_second']:,.0f}", self.find(".cards strong")[0].text)
            self.assertIn(report["bottleneck"]["explanation"], self.find("section.detail:last-of-type")[0].text)
        self.assertEqual(self.browser.switch_to.active_element.text, "8")  # the focus stays where it was

    def test_the_command_gives_the_answer_again(self):
        self.open("predict")
        line = self.find(".command code")[0].text
        words = line.split()
        self.assertEqual(words[0], "tandem")
        again = tandem(*words[1:], "--format", "json", "--quiet")
        rates = [[r["samples_per_second"] for r in d["reports"]] for d in (json.loads(again.stdout), document("predict"))]
        self.assertEqual(rates[0], rates[1])
        self.find(".copy")[0].click()
        self.browser.execute_async_script("setTimeout(arguments[0], 200)")
        self.assertEqual(self.find("#said")[0].get_attribute("textContent"), "Copied")

    def test_predicted_and_executed_stand_side_by_side(self):
        self.open("predict", "run")
        self.assertEqual([h.text.split("\n")[0] for h in self.find("h2")], ["Predicted and executed"])
        rows = self.table("Reports")
        self.assertEqual(len(rows), 6)
        self.assertEqual({row["Which"][1].split(",")[0] for row in rows}, {"predicted", "executed"})
        self.assertEqual(len(self.find(".legend li")) > 2, True)

    def test_documents_of_other_kinds_have_parts_of_their_own(self):
        self.open("plan", "predict", "advise")
        self.assertEqual([a.text for a in self.find("#contents a")], ["Plan", "Prediction", "Advice"])
        self.assert_clean("three documents")

    def test_a_plan_shows_the_documents_figures(self):
        self.open("plan")
        plan = document("plan")
        for row, candidate in zip(self.table("Candidates"), plan["candidates"]):
            self.assert_shown(row["Samples/s"], candidate["samples_per_second"])
            self.assert_shown(row["Done in"], candidate["finish_seconds"]["value"])
            self.assert_shown(row["Energy"], candidate["energy_joules"]["value"])
            self.assert_shown(row["Power"], candidate["watts"]["value"])
            if candidate["cost"]:
                self.assert_shown(row["Cost"], candidate["cost"]["value"])
        priced = [c for c in plan["candidates"] if c["cost"]]
        self.assertEqual(len(self.find("svg .point")), len(priced) + len(plan["candidates"]))
        self.assertEqual(self.find(".command code")[0].text, plan["candidates"][0]["predict"])
        self.assertIn(plan["candidates"][0]["offer"]["source"], self.find("main")[0].text.replace("\n", ""))

    def test_other_documents_show_their_figures(self):
        self.open("advise")
        for row, choice in zip(self.table("Ways to train"), document("advise")["choices"]):
            self.assert_shown(row["Samples/s"], choice["samples_per_second"])
            self.assertEqual(row["Scheme"][1], choice["scheme"])
        self.open("compare")
        for row, pair in zip(self.table("Comparisons"), document("compare")["rows"]):
            self.assert_shown(row["B over A"], pair["samples_per_second_ratio"])
        self.open("check")
        for row, case in zip(self.table("Cases"), CHECK["cases"]):
            self.assert_shown(row["Predicted"], case["predicted"])
            self.assert_shown(row["Executed"], case["executed"])
        self.open("collective")
        for row, size in zip(self.table("Sizes"), document("collective")["rows"]):
            self.assert_shown(row["busbw"], size["busbw_bytes_per_second"])

    def test_tables_sort_by_key_and_pointer(self):
        self.open("plan")
        costs = [c["cost"]["value"] if c["cost"] else None for c in document("plan")["candidates"]]
        known = sorted(c for c in costs if c is not None)

        def shown():
            return [float(row["Cost"][0]) for row in self.table("Candidates") if row["Cost"][0] is not None]
        self.header("Candidates", "Cost").click()
        self.assertEqual(shown(), known[::-1])
        self.header("Candidates", "Cost").send_keys(Keys.ENTER)
        self.assertEqual(shown(), known)
        self.assertEqual(self.header("Candidates", "Cost").find_element(By.XPATH, "..").get_attribute("aria-sort"), "ascending")

    def test_the_timeline_zooms(self):
        self.open("predict")
        picture = next(p for p in self.find(".picture") if (p.get_attribute("aria-label") or "").startswith("Timeline"))

        def end():
            return picture.find_elements(By.CSS_SELECTOR, "text.tick")[-1].text
        before, boxes = end(), len(picture.find_elements(By.CSS_SELECTOR, ".box"))
        self.assertGreater(boxes, 5)
        picture.send_keys("+++")
        self.assertNotEqual(end(), before)
        picture.send_keys("0")
        self.assertGreaterEqual(len(picture.find_elements(By.CSS_SELECTOR, ".box")), boxes)

    def test_what_is_missing_is_said_with_the_option_that_adds_it(self):
        self.open("predict")
        said = self.find("main")[0].text
        self.assertIn("--mtbf", said)
        self.open("failures")
        said = self.find("main")[0].text
        self.assertNotIn("--mtbf or --node-mtbf adds", said)
        self.assertIn("With failures", said)
        self.open("too_large")
        self.assertIn("does not fit", self.find(".cards li.bad")[0].text)

    def test_text_of_a_document_cannot_act(self):
        bad = "</script><script>window.acted = 1</script><img src=x onerror='window.acted = 2'>"
        hostile = json.loads(json.dumps(CHECK))
        hostile["machine"] = hostile["cases"][0]["model"] = bad
        write("hostile.json", hostile)
        page = path("hostile.html")
        self.assertEqual(tandem("report", path("hostile.json"), "--out", page).returncode, 0)
        self.browser.get(f"file://{page}")
        self.assertIsNone(self.browser.execute_script("return window.acted ?? null"))
        self.assertIn(bad, self.find("main")[0].text)
        self.assertEqual(chromium.errors(self.browser), [])
        reached = self.browser.execute_async_script("fetch('http://127.0.0.1:9/').then(() => arguments[0]('yes'), () => arguments[0]('no'))")
        self.assertEqual(reached, "no")
        refused = chromium.errors(self.browser)
        self.assertTrue(any("Content Security Policy" in message for message in refused), refused)

    def test_ten_thousand_rows(self):
        cells = sweep(10000)
        write("sweep.json", cells)
        self.assertEqual(tandem("report", path("sweep.json"), "--out", path("sweep.html")).returncode, 0)
        chromium.show(self.browser, 1000, False)
        self.browser.get(f"file://{path('sweep.html')}")
        self.browser.execute_async_script("setTimeout(arguments[0], 500)")
        paint, shown = self.browser.execute_script("return ['first-contentful-paint', 'shown'].map((n) => performance.getEntriesByName(n)[0].startTime)")
        self.assertLess(len(self.find("table.long tbody tr")), 100)
        filtered = """
          const input = document.querySelector(".filter input"), start = performance.now();
          input.value = arguments[0];
          input.dispatchEvent(new Event("input"));
          document.body.offsetHeight;
          const took = performance.now() - start;
          return [took, document.querySelector(".count").textContent];"""
        took = []
        for text, expected in (("model3", [r for r in cells["rows"] if r["model"] == "model3"]),
                               ("model3 devices>=64 pytorch-ddp", [r for r in cells["rows"] if r["model"] == "model3" and r["devices"] >= 64 and
                                                               r["scheme"] == "pytorch-ddp"]),
                               ("samplespersecond>10900", [r for r in cells["rows"] if (r["samples_per_second"] or 0) > 10900]), ("", cells["rows"])):
            milliseconds, count = self.browser.execute_script(filtered, text)
            took.append(milliseconds)
            self.assertEqual(count, f"{len(expected):,} of 10,000 rows" if text else "10,000 rows")
        self.header("Cells", "Samples per second").click()
        top = self.table("Cells")[0]
        self.assert_shown(top["Samples per second"], max(r["samples_per_second"] or 0 for r in cells["rows"]))
        self.browser.execute_script("document.querySelector('.tall').scrollTop = 1e9")
        self.browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        self.assertIsNone(self.table("Cells")[-1]["Samples per second"][0])  # what has no figure comes last
        self.assert_clean("10,000 rows")
        self.shoot("sweep", 1000, False)
        print(f"10,000 rows: first paint after {paint:.0f} ms, all drawn after {shown:.0f} ms, filters in {', '.join(f'{t:.0f}' for t in took)} ms")

    def test_prints_on_paper(self):
        self.open("predict")
        pdf = base64.b64decode(self.browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": False})["data"])
        self.assertTrue(pdf.startswith(b"%PDF"))
        self.assertIn(b"[0 0 594", pdf.replace(b"[0 0 595", b"[0 0 594"))  # A4 is 595 points wide
        if SHOTS:
            with open(os.path.join(SHOTS, "predict.pdf"), "wb") as file:
                file.write(pdf)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=1)
