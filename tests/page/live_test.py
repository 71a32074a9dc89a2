#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of `tandem serve` in Chromium: choose, move, pin, share, paste a matrix, wrong input.

live_test.py TANDEM [--shots FOLDER]: exits with 77, "skipped", where Chromium, Selenium or the program's cpp-httplib is
missing.
"""
import base64
import http.client
import json
import os
import signal
import subprocess
import sys
import unittest
import urllib.parse

import browser as chromium
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

TANDEM = sys.argv[1]
SHOTS = sys.argv[3] if len(sys.argv) > 3 else None
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SMALL = "model=lenet5&system=dgx1-v100&scheme=pytorch-ddp&devices=1,2,4"
TOPO = "\n".join(["\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity", "GPU0\t X \tNV4\tSYS\tSYS\t0-15\t0", "GPU1\tNV4\t X \tSYS\tSYS\t0-15\t0",
                  "GPU2\tSYS\tSYS\t X \tNV4\t16-31\t1", "GPU3\tSYS\tSYS\tNV4\t X \t16-31\t1", "", "Legend:", ""])


def predicted(*words):
    made = subprocess.run([TANDEM, "predict", *words, "--format", "json", "--quiet"], stdout=subprocess.PIPE, cwd=ROOT, check=True)
    return json.loads(made.stdout)["reports"]


class Served:
    """`tandem serve` on a free port."""

    def __init__(self, *words):
        self.process = subprocess.Popen([TANDEM, "serve", "--port", "0", "--quiet", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            error = self.process.stderr.read()
            if "without cpp-httplib" in error:
                chromium.skip("built without cpp-httplib")
            raise RuntimeError(error)
        self.parts = urllib.parse.urlsplit(self.address)

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(self.parts.hostname, self.parts.port, timeout=60)
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        found = response.status, response.read().decode()
        connection.close()
        return found

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=60)
        self.process.stdout.close()
        self.process.stderr.close()
        return code


class LiveTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = Served()
        cls.browser = chromium.start()
        cls.axe = chromium.axe_source()

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()
        assert cls.served.stop() == 0

    def open(self, query):
        chromium.show(self.browser, 1300, False)
        self.browser.get(f"{self.served.address}?{query}")
        self.settle()

    def setUp(self):
        chromium.errors(self.browser)  # none of the test before

    def settle(self):
        """Waits until what is typed is asked and answered."""
        self.browser.set_script_timeout(120)
        self.browser.execute_async_script("""
          const done = arguments[0];
          (function look() {
            const results = document.querySelector(".results"), status = document.querySelector(".status");
            if (results && !results.hasAttribute("aria-busy") && status.textContent !== "" && status.textContent !== "…") done();
            else setTimeout(look, 20);
          })();""")

    def change(self, name, value):
        field = self.browser.find_element(By.NAME, name)
        self.browser.execute_script("""arguments[0].value = arguments[1]; document.querySelector(".status").textContent = "…";
                                       arguments[0].dispatchEvent(new Event("input"));""", field, value)
        self.settle()

    def rates(self):
        heads = [h.text for h in self.browser.find_elements(By.CSS_SELECTOR, "table.data thead button")]
        column = heads.index("Samples/s")
        rows = self.browser.execute_script("return [...document.querySelector('table.data tbody').rows].map((r) => [...r.cells].map((c) => c.dataset.value))")
        return [float(row[column]) for row in rows]

    def status(self):
        return self.browser.find_element(By.CSS_SELECTOR, ".status").text

    def click(self, selector):
        self.browser.execute_script("arguments[0].scrollIntoView()", element := self.browser.find_element(By.CSS_SELECTOR, selector))
        element.click()

    def test_choosing_and_moving_answers_as_the_command_line_does(self):
        self.open(SMALL)
        small = ["--model", "lenet5", "--system", "dgx1-v100", "--scheme", "pytorch-ddp", "--devices", "1,2,4"]
        self.assertEqual(self.rates(), [r["samples_per_second"] for r in predicted(*small)])
        self.change("batch", "128")
        self.assertEqual(self.rates(), [r["samples_per_second"] for r in predicted(*small, "--batch", "128")])
        self.change("links.nvlink.bandwidth", "-2")
        self.assertEqual(self.rates(), [r["samples_per_second"] for r in predicted(*small, "--batch", "128", "--set", "links.nvlink.bandwidth=6.25GB/s")])
        self.change("nodes", "2")
        line = self.browser.find_element(By.CSS_SELECTOR, ".command code").text
        self.assertIn("nodes=2", line)
        self.assertEqual(self.rates(), [r["samples_per_second"] for r in predicted(*line.split()[2:])])
        self.change("node-mtbf", "500h")
        self.assertIn("With failures", self.browser.find_element(By.CSS_SELECTOR, ".cards").text)
        self.change("price", "3")
        self.assertIn("12 USD an hour", self.browser.find_element(By.CSS_SELECTOR, ".cards").text)
        self.assertEqual(chromium.errors(self.browser), [])

    def test_the_address_holds_the_question(self):
        self.open(SMALL)
        self.change("batch", "64")
        self.change("precision", "fp16")
        rates, address = self.rates(), self.browser.current_url
        self.assertIn("batch=64", address)
        self.browser.get("about:blank")
        self.browser.get(address)
        self.settle()
        self.assertEqual(self.rates(), rates)
        self.assertEqual(self.browser.find_element(By.NAME, "precision").get_attribute("value"), "fp16")
        self.click(".share")
        self.browser.execute_async_script("setTimeout(arguments[0], 200)")
        self.assertEqual(self.browser.find_element(By.ID, "said").get_attribute("textContent"), "Copied")

    def test_a_pinned_state_stays_beside_the_next(self):
        self.open(SMALL)
        before = self.rates()
        self.click(".pin")
        self.settle()
        self.change("batch", "4")
        rates = self.rates()
        self.assertEqual(rates[:3], before)
        self.assertEqual(len(rates), 6)
        self.assertLess(rates[5], before[2])
        self.assertIn("pinned", self.browser.find_element(By.CSS_SELECTOR, ".results").text)
        self.browser.get(self.browser.current_url)
        self.settle()
        self.assertEqual(self.rates(), rates)
        self.click(".pin")
        self.settle()
        self.browser.execute_async_script("setTimeout(arguments[0], 500)")
        self.settle()
        self.assertEqual(self.rates(), rates[3:])

    def test_a_pasted_matrix_becomes_the_machine(self):
        self.open(SMALL.replace("&devices=1,2,4", ""))
        self.browser.execute_script("document.querySelector('.import').open = true")
        text = self.browser.find_element(By.TAG_NAME, "textarea")
        self.browser.execute_script("arguments[0].value = arguments[1]", text, TOPO)
        self.browser.find_elements(By.CSS_SELECTOR, ".import input")[0].send_keys("a100-sxm-40gb")
        self.browser.execute_script("document.querySelector('.status').textContent = '…'")
        self.click(".import button")
        self.settle()
        self.assertEqual(self.browser.find_element(By.NAME, "system").get_attribute("value"), "imported")
        self.assertEqual(len(self.rates()), 3)  # of 1, 2 and 4 devices
        self.assertIn("imported.json", self.browser.find_element(By.CSS_SELECTOR, ".command code").text)
        rates = self.rates()
        self.browser.get(self.browser.current_url)
        self.settle()
        self.assertEqual(self.rates(), rates)
        self.assertEqual(chromium.errors(self.browser), [])

    def test_what_is_wrong_is_said_and_the_last_answer_stays(self):
        self.open(SMALL)
        rates = self.rates()
        self.change("model", "lenet6")
        self.assertIn("Did you mean lenet5", self.status())
        self.assertEqual(self.rates(), rates)
        self.change("model", "/etc/passwd")
        self.assertIn("only names are read", self.status())
        self.change("model", "lenet5")
        self.assertIn("Answered", self.status())
        refused = chromium.errors(self.browser)
        self.assertTrue(all("400" in message for message in refused), refused)

    def test_everything_can_be_read_and_reached(self):
        for width in (400, 1000, 1600):
            for dark in (False, True):
                self.open(f"{SMALL}&price=2&pin={urllib.parse.quote('model=lenet5&system=v100-pcie-8x&scheme=pytorch-ddp&devices=1,2,4')}")
                chromium.show(self.browser, width, dark)
                if self.axe:
                    self.assertEqual(chromium.axe_violations(self.browser, self.axe), [])
                self.assertLessEqual(self.browser.execute_script("return document.documentElement.scrollWidth - innerWidth"), 0)
                self.shoot(width, dark)
        self.browser.find_element(By.NAME, "batch").send_keys(Keys.TAB)
        self.assertNotEqual(self.browser.switch_to.active_element.tag_name, "body")
        self.assertEqual(chromium.errors(self.browser), [])

    def shoot(self, width, dark):
        if SHOTS is None:
            return
        self.browser.execute_async_script("setTimeout(arguments[0], 150)")
        os.makedirs(SHOTS, exist_ok=True)
        clip = {"x": 0, "y": 0, "width": width, "height": 2600, "scale": 1}
        shot = self.browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        with open(os.path.join(SHOTS, f"live-{width}{'-dark' if dark else ''}.png"), "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def test_strangers_are_refused(self):
        asked = json.dumps({"model": "lenet5", "system": "dgx1-v100", "devices": "1"})
        head = {"Content-Type": "application/json"}
        self.assertEqual(self.served.request("POST", "/answer", asked, head)[0], 200)
        self.assertEqual(self.served.request("POST", "/answer", asked, {**head, "Origin": "http://evil.example"})[0], 403)
        self.assertEqual(self.served.request("POST", "/answer", asked, {**head, "Host": "evil.example"})[0], 403)
        self.assertEqual(self.served.request("POST", "/answer", asked, {"Content-Type": "text/plain"})[0], 415)
        self.assertEqual(self.served.request("POST", "/answer", " " * 300000, head)[0], 413)
        self.assertEqual(self.served.request("GET", "/../../etc/passwd")[0], 404)
        self.assertIn(self.served.request("DELETE", "/")[0], (404, 405))

    def test_a_token_is_asked_for(self):
        token = "a-token-of-24-characters"
        served = Served("--host", "0.0.0.0", "--token", token)
        try:
            self.assertEqual(served.request("GET", "/")[0], 401)
            self.assertEqual(served.request("GET", "/options", headers={"Authorization": "Bearer " + token})[0], 200)
            self.browser.get(served.address.replace("0.0.0.0", "127.0.0.1") + "&" + SMALL)
            self.settle()
            self.assertEqual(len(self.rates()), 3)
            self.assertNotIn(token, self.browser.current_url)
        finally:
            served.stop()
        without = subprocess.run([TANDEM, "serve", "--host", "0.0.0.0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.assertEqual(without.returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=1)
