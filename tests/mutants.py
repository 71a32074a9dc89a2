#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does the suite notice a wrong line? Outside the suite: hours.

    pip install universalmutator==1.14.1
    python3 tests/mutants.py --count 200 --seed 1 --out mutants.csv

Draws lines of the product, changes each as universalmutator's rules for C++ say, builds, and runs the test programs that
the change reached, its own room's first and then the quickest, until one fails. What does not compile, and what the
compiler makes the same code of, is drawn again. A row of the table says what was changed and which program noticed ("-":
none). Rows of a table that is there already are kept, so a run that was stopped goes on; empty the cell of a row to try
it again. Files are put back; the build folder is build-mutants.
"""
import argparse
import contextlib
import csv
import hashlib
import io
import json
import math
import os
import pathlib
import random
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-mutants"
# Of `style` what asks the program, not what reads its sources.
PROGRAMS = ["base", "models", "topologies", "schemes", "sim", "answers", "exec", "plan", "sweep", "calibration",
            "property", "app", "fuzz_smoke", "style", "cross", "cuda_kernels"]
FILTERS = {"style": "Stories*:Schemas*:Documents.CommandsOfTheQuestionsRun"}
NEAREST = {"page": "plan", "pictures": "app"}
MEMORY = 12 << 30  # bytes of addresses of a test program
COLUMNS = ["file", "line", "before", "after", "noticed", "seconds"]


def call(words, timeout=None):
    """Return whether the command succeeds, in time and in so much memory."""
    limits = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    process = subprocess.Popen(words, cwd=BUILD / "tests", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True, preexec_fn=limits if timeout else None)
    try:
        return process.wait(timeout) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return False


def build(jobs):
    return call(["cmake", "--build", str(BUILD), "-j", str(jobs), "--target", *(f"{p}_test" for p in PROGRAMS), "tandem"])


def passes(program, shards, timeout, without=()):
    """Run a test program as so many processes at once, but for some tests; return whether all pass."""
    words = [str(BUILD / f"{program}_test"), "--gtest_fail_fast", "--gtest_brief=1",
             "--gtest_filter=" + FILTERS.get(program, "*") + ("-" + ":".join(without) if without else "")]
    one = 'GTEST_SHARD_INDEX=$1 GTEST_TOTAL_SHARDS=$2 exec "${@:3}"'
    script = f'for i in $(seq 0 {shards - 1}); do bash -c \'{one}\' - $i {shards} "$@" & done; wait -n'
    script += "".join(" && wait -n" for _ in range(shards - 1)) + " || { kill $(jobs -p) 2>/dev/null; exit 1; }"
    return call(["bash", "-c", script, "-", *words], timeout)


def before_anything(program, shards):
    """Return the seconds that a test program takes, and its tests that fail in so little memory."""
    begun, failing = time.monotonic(), []
    while not passes(program, shards, 3600, failing):
        words = [str(BUILD / f"{program}_test"), "--gtest_brief=1", "--gtest_filter=" + FILTERS.get(program, "*")]
        out = subprocess.run(["prlimit", f"--as={MEMORY}", *words], cwd=BUILD / "tests", capture_output=True, text=True)
        found = {line.split()[3].rstrip(",") for line in out.stdout.splitlines() if line.startswith("[  FAILED  ]") and "(" in line}
        if found <= set(failing):
            sys.exit(f"tests/mutants.py: {program}_test fails before anything is changed, now and then")
        failing = sorted(set(failing) | found)
        begun = time.monotonic()
    return time.monotonic() - begun, failing


def objects():
    return {o: hashlib.sha256(o.read_bytes()).digest() for o in BUILD.rglob("*.o")}


def linked():
    return {p: (BUILD / f"{p}_test").stat().st_mtime_ns for p in PROGRAMS} | {"tandem": (BUILD / "tandem").stat().st_mtime_ns}


def draw(rng, sources, mutants):
    """Return a file, a line of it (from 0) and what stands there instead."""
    while True:
        file = rng.choices(list(sources), [len(s) for s in sources.values()])[0]
        at = rng.randrange(len(sources[file]))
        found = [m[1] for m in mutants(file) if m[0] == at + 1]
        if found:
            return file, at, rng.choice(found)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--jobs", type=int, default=os.cpu_count())
    options.add_argument("--budget", type=float, default=math.inf,
                         help="seconds that the programs tried for a line take when nothing is changed: what only slower "
                         "ones would notice counts as unnoticed")
    what = options.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=pathlib.Path)
    what.add_argument("--list", action="store_true", help="print what would be tried first, and build nothing")
    asked = options.parse_args()
    try:
        from universalmutator import mutator
    except ImportError:
        print("universalmutator is not installed", file=sys.stderr)
        sys.exit(77)

    names = subprocess.run(["git", "ls-files", "*.cpp", ":!tests", ":!exec/device/cuda", ":!docs", ":!python"],
                           cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    sources = {name: (ROOT / name).read_text().splitlines(keepends=True) for name in names}
    known = {}

    def mutants(file):
        if file not in known:
            with contextlib.redirect_stdout(io.StringIO()):  # it says what it does
                known[file] = mutator.mutants_regexp(sources[file], ["universal.rules", "c_like.rules", "cpp.rules"],
                                                     ignorePatterns=[], ignoreStringOnly=True)
        return known[file]

    def drawn(number):
        """Yield what may become a row: the same whatever the others are."""
        rng = random.Random(f"{asked.seed} {number}")
        while True:
            yield draw(rng, sources, mutants)

    if asked.list:
        for number in range(asked.count):
            file, at, line = next(drawn(number))
            print(f"{file}:{at + 1}: {sources[file][at].strip()} -> {' '.join(line.split())}")
        return

    subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", BUILD, "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1",
                    "-DTANDEM_QUICK=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=4", "-DTANDEM_BENCH=OFF"],
                   check=True, stdout=subprocess.DEVNULL)
    if not build(asked.jobs):
        sys.exit("tests/mutants.py: the product does not build")
    known_times = BUILD / f"unchanged-{asked.jobs}.json"
    takes = json.loads(known_times.read_text()) if known_times.exists() else {}
    for program in PROGRAMS:
        if program not in takes:
            takes[program] = before_anything(program, asked.jobs)
            known_times.write_text(json.dumps(takes))
        print(f"{program}: {takes[program][0]:.0f} s without {' '.join(takes[program][1]) or 'none'}", file=sys.stderr)

    rows = list(csv.DictReader(asked.out.open())) if asked.out.exists() else []

    def try_one(file, at, line):
        """Return which program notices, "-" where none does, None where it is no mutant."""
        path, before, programs = ROOT / file, objects(), linked()
        path.write_text("".join(sources[file][:at] + [line] + sources[file][at + 1:]))
        try:
            if not build(asked.jobs) or objects() == before:
                return None
            reached = linked()
            room = NEAREST.get(file.split("/")[0], file.split("/")[0])
            left = asked.budget
            for program in sorted(PROGRAMS, key=lambda p: (p != room, takes[p][0])):
                left -= takes[program][0]
                if left < 0 and program != room:
                    break
                asks = program in ("app", "property", "cross", "style") and reached["tandem"] != programs["tandem"]
                if (asks or reached[program] != programs[program]) and \
                        not passes(program, asked.jobs, 60 + 6 * takes[program][0], takes[program][1]):
                    return program
            return "-"
        finally:
            path.write_text("".join(sources[file]))
            build(asked.jobs)

    def save():
        with asked.out.open("w", newline="") as out:
            table = csv.DictWriter(out, COLUMNS)
            table.writeheader()
            table.writerows(rows)

    for number in range(asked.count):
        if number < len(rows) and rows[number]["noticed"]:
            continue
        for file, at, line in drawn(number):
            begun = time.monotonic()
            if noticed := try_one(file, at, line):
                rows[number:number + 1] = [dict(zip(COLUMNS, [file, at + 1, sources[file][at].strip(), line.rstrip("\n"),
                                                              noticed, round(time.monotonic() - begun)]))]
                save()
                break
    unnoticed = sum(row["noticed"] == "-" for row in rows)
    print(f"{unnoticed} of {len(rows)} unnoticed ({100 * unnoticed / max(1, len(rows)):.1f} %)")


if __name__ == "__main__":
    main()
