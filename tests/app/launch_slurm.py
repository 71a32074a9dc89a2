#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The job script of `tandem launch slurm` on a real Slurm of two nodes, whose tasks and daemons are struck at random moments: the
merged file must be that of an undisturbed run.

launch_slurm.py TANDEM [STRIKES] [SEED]: outside the suite, as 40 strikes (default) take a quarter of an hour. A strike is
  kill     SIGKILL to a task's program
  cancel   scancel of one task
  requeue  scontrol requeue of one task
  daemon   SIGKILL to a node's slurmd, which comes back later or after Slurm gave its tasks to the other node: two run at once
  again    one task submitted a second time
"""
import collections
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from slurm import Slurm, missing
from sweep_kills import GRID, rows

SHARDS = 6
PATIENCE = 10  # seconds until Slurm gives up a silent node


class Struck:
    def __init__(self, tandem, slurm, folder, seed):
        self.slurm, self.folder, self.dice = slurm, folder, random.Random(seed)
        self.file = os.path.join(folder, "grid.sqlite")
        self.sweep = [tandem, "sweep", *GRID]
        alone = os.path.join(folder, "alone.sqlite")
        subprocess.run([*self.sweep, "--out", alone, "--quiet"], check=True)
        self.whole = rows(alone)
        subprocess.run([tandem, "launch", "slurm", "--shards", str(SHARDS), "--out", "job.sh", "--", *self.sweep[1:], "--out",
                        "grid.sqlite"], check=True, cwd=folder)
        self.program = os.path.realpath(tandem)
        self.strikes, self.kinds, self.down = collections.Counter(), [self.kill, self.cancel, self.requeue, self.daemon, self.again], {}

    def submit(self, *tasks):
        done = self.slurm.run("sh", "job.sh", *tasks, cwd=self.folder)
        if done.returncode != 0:
            sys.exit(f"job.sh: {done.stderr}")

    def queue(self, *states):
        """Tasks as "job_index", and merges as "job"."""
        done = self.slurm.run("squeue", "--noheader", "--array", "--format=%i", *(["--states=" + ",".join(states)] if states else []))
        return done.stdout.split()

    def running(self):
        return [task for task in self.queue("running") if "_" in task]

    def programs(self):
        out = []
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and os.readlink(f"/proc/{entry}/exe") == self.program and \
                        os.readlink(f"/proc/{entry}/cwd") == self.folder:
                    out.append(int(entry))
            except OSError:
                pass
        return out

    def kill(self):
        programs = self.programs()
        if not programs:
            return False
        try:
            os.kill(self.dice.choice(programs), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def command_on_task(self, *command):
        tasks = self.running()
        return bool(tasks) and self.slurm.run(*command, self.dice.choice(tasks)).returncode == 0

    def cancel(self):
        return self.command_on_task("scancel")

    def requeue(self):
        return self.command_on_task("scontrol", "requeue")

    def daemon(self):
        if self.down or not self.running():
            return False
        node = self.dice.choice(self.slurm.nodes)
        self.slurm.children[node].kill()
        self.slurm.children[node].wait()
        self.down[node] = time.monotonic() + self.dice.choice([2, 4 * PATIENCE])
        return True

    def again(self):
        self.submit(str(self.dice.randrange(SHARDS)))
        return True

    def bring_back(self, at):
        for node in [n for n, when in self.down.items() if when <= at]:
            self.slurm.start_node(node)
            del self.down[node]

    def once(self, strikes):
        """One submission until nothing is left of it."""
        self.submit()
        left, end = strikes, time.monotonic() + 900
        while self.queue() or self.down:
            if time.monotonic() > end:
                sys.exit("Slurm does not end:\n" + self.slurm.run("squeue", "--array").stdout + self.slurm.logs())
            time.sleep(self.dice.uniform(0.1, 1.5))
            self.bring_back(time.monotonic())
            if left > 0:
                strike = self.dice.choice(self.kinds)
                if strike():
                    self.strikes[strike.__name__] += 1
                    left -= 1

    def merged(self):
        there = rows(self.file) if os.path.exists(self.file) else {}
        for position, row in there.items():
            if row != self.whole[position]:
                sys.exit(f"cell {position} is {row}, not {self.whole[position]}")
        return len(there)

    def said(self):
        """What all jobs wrote."""
        names = [name for name in os.listdir(self.folder) if name.startswith("slurm-")]
        return "".join(open(os.path.join(self.folder, name), errors="replace").read() for name in names)

    def loop(self, strikes):
        finished = submissions = incomplete = 0
        while sum(self.strikes.values()) < strikes:
            self.once(5)
            submissions += 1
            if self.merged() < len(self.whole):
                incomplete += 1
                if "cells are missing" not in self.said() and "has a file yet" not in self.said():
                    sys.exit("cells are missing, and nobody says so:\n" + self.said())
                self.once(0)
                submissions += 1
            if self.merged() != len(self.whole):
                sys.exit(f"{self.merged()} of {len(self.whole)} cells after an undisturbed submission:\n" + self.said())
            finished += 1
            parts = [name for name in os.listdir(self.folder) if ".part" in name]
            print(f"{submissions} submissions, {dict(self.strikes)}; {finished} files as undisturbed, {incomplete} after a second "
                  f"submission; left: {parts or 'nothing'}", flush=True)
            for name in os.listdir(self.folder):
                if name.startswith(("grid.", "slurm-")):
                    os.remove(os.path.join(self.folder, name))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if program := missing():
        sys.exit(program + " is not installed")
    folder = tempfile.mkdtemp(prefix="tandem-slurm-")
    work = os.path.join(os.path.realpath(folder), "work")
    os.mkdir(work)
    slurm = Slurm(folder, nodes=2, patience=PATIENCE)
    try:
        if not slurm.begin():
            sys.exit("Slurm does not start here:\n" + slurm.logs())
        seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
        Struck(os.path.abspath(sys.argv[1]), slurm, work, seed).loop(int(sys.argv[2]) if len(sys.argv) > 2 else 40)
    finally:
        slurm.end()
        shutil.rmtree(folder, ignore_errors=True)


main()
