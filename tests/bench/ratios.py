#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times of the benchmark programs as ratios to the recorded baseline, baseline.json beside this file.

usage: ratios.py FOLDER [--record]    FOLDER holds bench_<name> programs

Every program runs three times; the fastest run of each benchmark counts. Times are divided by those of one benchmark that
does nothing but arithmetic (REFERENCE), so that a slower machine is not taken for slower code. What is left varies by some
10 % on a quiet machine. --record writes the baseline anew, with the date and the commit.
"""
import datetime
import json
import pathlib
import subprocess
import sys

REFERENCE = "kernels_of_a_step/resnet50_fp32"
SKIPPED = ("W1_", "rate_limited_ring", "hold/10000000")  # minutes each, or as long as they are asked to be
HERE = pathlib.Path(__file__).resolve().parent


def measured(folder):
    seconds = {}
    for program in sorted(pathlib.Path(folder).glob("bench_*")):
        for _ in range(3):
            out = subprocess.run([program, "--benchmark_format=json", "--benchmark_min_time=0.1",
                                  "--benchmark_filter=-" + "|".join(SKIPPED)],
                                 capture_output=True, check=True, text=True).stdout
            for row in json.loads(out)["benchmarks"]:
                value = row["real_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[row["time_unit"]]
                seconds[row["name"]] = min(value, seconds.get(row["name"], value))
    return seconds


def main():
    words = [w for w in sys.argv[1:] if w != "--record"]
    if len(words) != 1 or not list(pathlib.Path(words[0]).glob("bench_*")):
        sys.exit(__doc__)
    seconds = measured(words[0])
    path = HERE / "baseline.json"
    if "--record" in sys.argv:
        commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
        document = {"date": datetime.date.today().isoformat(), "commit": commit.stdout.strip(),
                    "reference": REFERENCE, "seconds": {k: float(f"{v:.4g}") for k, v in seconds.items()}}
        path.write_text(json.dumps(document, indent=1) + "\n")
    if not path.exists():
        sys.exit(f"{path} is not there: --record writes it, on a quiet machine")
    base = json.loads(path.read_text())
    scale = seconds[REFERENCE] / base["seconds"][REFERENCE]
    print(f"baseline of {base['date']} ({base['commit']}); this machine, now, takes {scale:.2f} times as long for "
          f"{REFERENCE}\n\n{'benchmark':48} {'seconds':>10} {'to baseline':>12}")
    for name, value in seconds.items():
        known = base["seconds"].get(name)
        print(f"{name:48} {value:10.3g} " + (f"{value / known / scale:12.2f}" if known else f"{'new':>12}"))


main()
