#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments: a sweep loses no cell that was in its file, and the finished file is that of an undisturbed run.

sweep_kills.py TANDEM alone|mpi|mpi-recovery [KILLS] [SEED]: 200 kills (default) take minutes, so the suite makes two.
  alone         the process
  mpi           one of four ranks, after which mpirun ends all
  mpi-recovery  one of ranks 1 to 3 where mpirun lets the others live: rank 0 must finish the file in the same run
"""
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

GRID = ["--model", "resnet50,lenet5", "--system", "v100-pcie-8x,dgx1-v100", "--devices", "1,2,4,8,16", "--batch", "8,16,32,64",
        "--scheme", "pytorch-ddp,parameter-server:server=cpu", "--set", "links.pcie.bandwidth=8GB/s,9GB/s,10GB/s,11GB/s,12GB/s"]
RANKS = 4
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS)]


def rows(file):
    """All cells of a file by position."""
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        return {row[1]: row for row in database.execute("SELECT * FROM cells")}


def ranks_of(mpirun):
    """Processes of the job, by rank."""
    out = {}
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/stat") as f:
                parent = int(f.read().rpartition(")")[2].split()[1])
            if parent == mpirun:
                with open(f"/proc/{entry}/environ") as f:
                    found = dict(each.partition("=")[::2] for each in f.read().split("\0"))
                out[int(found["OMPI_COMM_WORLD_RANK"])] = int(entry)
        except (OSError, KeyError, ValueError):
            pass
    return out


def victim(how, child, dice, file):
    if how == "alone":
        return child.pid
    if how == "mpi-recovery":  # in MPI_Init Open MPI waits for a lost rank for ever
        try:
            if not rows(file):
                return None
        except sqlite3.OperationalError:
            return None
    ranks = ranks_of(child.pid)
    chosen = dice.randrange(1 if how == "mpi-recovery" else 0, RANKS)
    return ranks.get(chosen)


class Kills:
    def __init__(self, tandem, how, seed, folder):
        self.how, self.dice, self.folder = how, random.Random(seed), folder
        self.file = os.path.join(folder, "grid.sqlite")
        start = {"alone": [], "mpi": MPIRUN, "mpi-recovery": [MPIRUN[0], "--enable-recovery", *MPIRUN[1:]]}[how]
        self.command = [*start, tandem, "sweep", *GRID, "--out", self.file]
        self.run()
        self.begin()
        begun = time.monotonic()
        self.run()
        self.seconds = time.monotonic() - begun
        self.whole = rows(self.file)
        print(f"{how}: {len(self.whole)} cells, {self.seconds:.1f} s undisturbed", flush=True)
        self.kept = self.killed = self.missed = self.finished = 0

    def run(self):
        done = subprocess.run(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
        if done.returncode != 0:
            sys.exit(f"exit code {done.returncode}: {done.stdout}")

    def begin(self):
        for name in os.listdir(self.folder):
            os.remove(os.path.join(self.folder, name))
        self.kept = 0

    def check(self):
        """How many cells there are: no less than before, each as it should be."""
        if not os.path.exists(self.file):
            return 0
        try:
            there = rows(self.file)
        except sqlite3.OperationalError as error:  # killed before the file had its tables
            if self.kept == 0:
                return 0
            sys.exit(f"{self.file}: {error}")
        for position, row in there.items():
            if row != self.whole[position]:
                sys.exit(f"cell {position} is {row}, not {self.whole[position]}")
        if len(there) < self.kept:
            sys.exit(f"{self.kept} cells were there, {len(there)} are left")
        self.kept = len(there)
        return len(there)

    def once(self):
        log = tempfile.TemporaryFile("w+")
        child = subprocess.Popen(self.command, stdout=log, stderr=log)
        try:
            child.wait(self.dice.uniform(0, 1.1) * self.seconds)
        except subprocess.TimeoutExpired:
            pid = victim(self.how, child, self.dice, self.file)
            try:
                if pid is None:
                    raise ProcessLookupError  # not started yet, or ended
                os.kill(pid, signal.SIGKILL)
                self.killed += 1
            except ProcessLookupError:
                self.missed += 1
        try:
            child.wait(120)
        except subprocess.TimeoutExpired:
            child.kill()
            log.seek(0)
            sys.exit(f"goes on 120 s after a kill: {log.read()}")
        there = self.check()
        if there == len(self.whole):
            self.finished += 1
            self.begin()
        elif child.returncode == 0 or self.how == "mpi-recovery":
            log.seek(0)
            sys.exit(f"exit code {child.returncode} with {there} cells: {log.read()}")

    def loop(self, kills):
        while self.killed < kills:
            self.once()
        self.run()
        if self.check() != len(self.whole):
            sys.exit("the last run did not finish the file")
        left = sorted(set(os.listdir(self.folder)) - {os.path.basename(self.file)})
        print(f"{self.how}: {self.killed} kills, {self.missed} came too early or late, {self.finished + 1} finished files, "
              f"each as undisturbed; beside the last: {left or 'nothing'}")


def main():
    if len(sys.argv) < 3 or sys.argv[2] not in ("alone", "mpi", "mpi-recovery"):
        sys.exit(__doc__)
    folder = tempfile.mkdtemp(prefix="tandem-kills-")
    try:
        Kills(os.path.abspath(sys.argv[1]), sys.argv[2], int(sys.argv[4]) if len(sys.argv) > 4 else 1, folder).loop(
            int(sys.argv[3]) if len(sys.argv) > 3 else 200)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
