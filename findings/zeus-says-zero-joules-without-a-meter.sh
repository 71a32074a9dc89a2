#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# zeus 0.16.0 (PyPI, the energy meter of ml.energy): a window measured where there is neither a GPU nor a readable counter of
# the processor.
# Expected: an error, or an energy that says it is not known.
# Seen (2026-11-30): the monitor starts, and total_energy of the window is 0. Only the parts tell: gpu_energy is {}, and
# cpu_energy, dram_energy and soc_energy are None. A sum over machines takes those without meters for free.
# Installs zeus in a temporary folder; fails when the behaviour changes. Says so and stops where a meter is found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q zeus==0.16.0
cat >"$folder/window.py" <<'PYTHON'
import logging
import time

from zeus.monitor import ZeusMonitor

logging.disable(logging.CRITICAL)
monitor = ZeusMonitor()
monitor.begin_window("step")
time.sleep(1)
found = monitor.end_window("step")
print(found)
if found.gpu_energy or found.cpu_energy or found.dram_energy or found.soc_energy:
    print("this machine has a meter: nothing to see here")
    raise SystemExit(0)
assert found.cpu_energy is None, found
print("total_energy:", found.total_energy)
assert found.total_energy == 0, found
PYTHON
"$folder/venv/bin/python" "$folder/window.py"
