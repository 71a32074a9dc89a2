# SPDX-License-Identifier: Apache-2.0
"""Chromium for tests of the page, or a reason why there is none (exit code 77: skipped)."""
import glob
import os
import shutil
import sys

SKIPPED = 77


def skip(why):
    print(f"SKIPPED: {why}", file=sys.stderr)
    sys.exit(SKIPPED)


try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
except ImportError:
    if sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):  # whose packages apt installs
        os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
    skip("no Selenium: apt-get install python3-selenium")


def start():
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not program or not driver:
        skip("no Chromium: apt-get install chromium chromium-driver")
    options = Options()
    options.binary_location = program
    for switch in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1000,900"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(driver), options=options)


def show(browser, width, dark):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def axe_source():
    """axe-core as a package of Python brings it (pip install axe-playwright-python), or None."""
    for folder in sys.path:
        for found in glob.glob(os.path.join(folder, "axe_*", "**", "axe.min.js"), recursive=True):
            with open(found, encoding="utf-8") as file:
                return file.read()
    return None


def axe_violations(browser, source):
    if not browser.execute_script("return typeof axe === 'object'"):
        browser.execute_script(source)
    found = browser.execute_async_script(
        "axe.run().then((r) => arguments[0](r.violations.map((v) => [v.id, v.nodes.slice(0, 3).map((n) => n.html)])))")
    return [f"{name}: {nodes}" for name, nodes in found]


def errors(browser):
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
