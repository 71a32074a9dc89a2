# SPDX-License-Identifier: Apache-2.0
"""Prints what a thousand predictions in one process cost, and the import: python thousand_predictions.py"""

import subprocess
import sys
import time

IMPORT = "import time; start = time.perf_counter(); import tandem; print(1000 * (time.perf_counter() - start))"
IMPORTS = sorted(float(subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True).stdout) for _ in range(9))
print(f"import tandem: {IMPORTS[4]:.1f} ms, median of nine")

import tandem  # noqa: E402

RESNET = {"model": "resnet50", "system": "dgx1-v100", "devices": 8}


def cost(what, ask):
    ask(1)
    start = time.process_time()
    for n in range(1000):
        ask(n)
    print(f"a thousand times {what}: {time.process_time() - start:.2f} s of processor time")


question = tandem.Question(**RESNET)
cost("the same, depth rate", lambda n: tandem.predict(**RESNET, depth="rate"))
cost("the same, depth rate, one figure read", lambda n: tandem.predict(**RESNET, depth="rate", no_timeline=True)["reports"][0]["samples_per_second"])
cost("another batch and seed, depth rate", lambda n: tandem.predict(**RESNET, depth="rate", batch=8 + n % 64, seed=n))
cost("a Question, depth rate", lambda n: tandem.predict(question, depth="rate"))
