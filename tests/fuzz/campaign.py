#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs libFuzzer programs in turn until each has executed so many inputs; the record is in tests/fuzz/README.md.

usage: campaign.py BUILD FOLDER EXECUTIONS TARGET ...     (cmake --preset fuzz; BUILD is build-fuzz)

One process at a time, in slices, so that no target waits for the others. FOLDER keeps each target's grown corpus
(corpus_*), what was found (found_*) and counts.json: started again, the campaign goes on where it was. A crash, a leak,
an input that takes over 10 seconds or 4 GB ends that target's turn and is told at once; the exit code is then 1.
"""
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SLICE = 100_000  # executions
OPTIONS = ["-entropic=0", "-max_len=8192", "-timeout=10", "-rss_limit_mb=4096", "-print_final_stats=1"]


def run(build, folder, target, runs, seed):
    """Executions, seconds, edges covered and whether all went well."""
    corpus, found = (os.path.join(folder, f"{kind}_{target}") for kind in ("corpus", "found"))
    os.makedirs(corpus, exist_ok=True)
    os.makedirs(found, exist_ok=True)
    began = time.time()
    done = subprocess.run([os.path.join(build, f"fuzz_{target}"), *OPTIONS, f"-runs={runs}", f"-seed={seed}",
                           f"-artifact_prefix={found}/", corpus, os.path.join(HERE, "corpus", target)],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    executed = re.search(r"stat::number_of_executed_units: (\d+)", done.stderr)
    cover = re.findall(r"cov: (\d+)", done.stderr)
    if done.returncode != 0:
        print(done.stderr[-4000:], flush=True)
    return (int(executed[1]) if executed else 0, time.time() - began, int(cover[-1]) if cover else 0,
            done.returncode == 0)


def main():
    build, folder, wanted, targets = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "counts.json")
    counts = json.load(open(path)) if os.path.exists(path) else {}
    failed = set()
    while todo := [t for t in targets if t not in failed and counts.get(t, {}).get("executions", 0) < wanted]:
        for target in todo:
            count = counts.setdefault(target, {"executions": 0, "seconds": 0, "slices": 0, "failures": 0})
            executed, seconds, cover, well = run(build, folder, target, min(SLICE, wanted - count["executions"]),
                                                 count["slices"] + 1)
            count["executions"] += executed
            count["seconds"] = round(count["seconds"] + seconds, 1)
            count["slices"] += 1
            count["edges"] = cover
            if not well:
                count["failures"] += 1
                failed.add(target)
            print(f"{target}: {count}", flush=True)
            with open(path + ".new", "w") as file:
                json.dump(counts, file, indent=1)
            os.rename(path + ".new", path)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
