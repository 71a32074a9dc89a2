#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `tandem run` says under Slurm's srun, with a real Slurm of one node on the loopback interface.

srun_test.py TANDEM: starts munged, slurmctld and slurmd in a temporary folder and stops them at the end. Exits with 77,
"skipped", where one of them is not installed, and where it cannot be started by this user.
"""
import json
import os
import shutil
import sys
import tempfile

from slurm import Slurm, missing

SKIPPED = 77
TRAINING = ["run", "--model", "digits-mlp", "--data", "digits", "--devices", "2", "--iterations", "5", "--format", "json"]


def skip(why):
    print("skipped: " + why)
    sys.exit(SKIPPED)


def expect(right, what, result):
    if not right:
        sys.exit(f"{what}\nexit code {result.returncode}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}")


def check(slurm, tandem):
    ways = slurm.run("srun", "--mpi=list")
    listed = ways.stdout + ways.stderr
    # Nobody told the processes how to find each other, or not in a way that MPI knows: advice, and no word of MPI's.
    for flags in ([], ["--mpi=none"], ["--mpi=pmi2"] if "pmi2" in listed else []):
        r = slurm.run("srun", "-N1", "-n2", *flags, tandem, *TRAINING)
        advised = r.returncode == 3 and "srun --mpi=pmix" in r.stderr and "MPI_Init" not in r.stderr
        expect(advised or (r.returncode == 0 and flags == ["--mpi=pmi2"]), f"srun {flags}", r)
    if "pmix" in listed:
        r = slurm.run("srun", "-N1", "-n2", "--mpi=pmix", tandem, *TRAINING)
        expect(r.returncode == 0, "srun --mpi=pmix", r)
        reports = json.loads(r.stdout)["reports"]
        expect([x["devices"] for x in reports] == [2] and any("over MPI" in note for note in reports[0]["notes"]),
               "one job of two workers", r)
        # The same from a job file, here with both processes on the one machine.
        out = os.path.join(slurm.folder, "report.json")
        r = slurm.run(tandem, "launch", "slurm", "--processes", "2", "--option=--ntasks-per-node=2", "--option=--wait", "--submit",
                      "--", *TRAINING, "--out", out, cwd=slurm.folder)
        expect(r.returncode == 0 and os.path.exists(out), "tandem launch slurm", r)
        with open(out) as f:
            reports = json.load(f)["reports"]
        expect([x["devices"] for x in reports] == [2] and any("over MPI" in note for note in reports[0]["notes"]),
               "one launched job of two workers", r)
    # One task of a step is a process like any other, and so is one that srun did not start.
    r = slurm.run("srun", "-N1", "-n1", tandem, *TRAINING[:-2])
    expect(r.returncode == 0, "srun -n1", r)


def main():
    if program := missing():
        skip(program + " is not installed")
    folder = tempfile.mkdtemp(prefix="tandem-slurm-")
    slurm = Slurm(folder)
    try:
        if not slurm.begin():
            skip("Slurm does not start here:\n" + slurm.logs())
        check(slurm, sys.argv[1])
    finally:
        slurm.end()
        shutil.rmtree(folder, ignore_errors=True)


main()
