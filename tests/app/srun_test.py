#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `tandem run` says under Slurm's srun, with a real Slurm of one node on the loopback interface.

srun_test.py TANDEM: starts munged, slurmctld and slurmd in a temporary folder and stops them at the end. Exits with 77,
"skipped", where one of them is not installed, and where it cannot be started by this user.
"""
import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
TRAINING = ["run", "--model", "digits-mlp", "--data", "digits", "--devices", "2", "--iterations", "5", "--format", "json"]
CONF = """
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={port}
SlurmdPort={node_port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={processors} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Slurm:
    def __init__(self, folder):
        self.folder, self.children = folder, []
        for name in ("state", "spool"):
            os.mkdir(os.path.join(folder, name))
        self.conf = os.path.join(folder, "slurm.conf")
        with open(self.conf, "w") as f:
            f.write(CONF.format(host=socket.gethostname().split(".")[0], user=getpass.getuser(), folder=folder, port=free_port(),
                                node_port=free_port(), processors=os.cpu_count()))
        self.environment = {**os.environ, "SLURM_CONF": self.conf}

    def start(self, *command):
        log = open(os.path.join(self.folder, os.path.basename(command[0]) + ".out"), "w")
        self.children.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log))

    def run(self, *command, seconds=120):
        return subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=seconds)

    def begin(self):
        """Until the node is there; False where it does not come."""
        key = os.path.join(self.folder, "munge.key")
        with open(key, "wb") as f:
            f.write(os.urandom(1024))
        os.chmod(key, 0o400)
        at = lambda name: os.path.join(self.folder, name)
        self.start(shutil.which("munged", path=PATH), "--foreground", "--force", "--key-file", key, "--socket", at("munge.socket"),
                   "--pid-file", at("munged.pid"), "--log-file", at("munged.log"), "--seed-file", at("munged.seed"))
        time.sleep(1)
        self.start(shutil.which("slurmctld", path=PATH), "-D", "-f", self.conf)
        self.start(shutil.which("slurmd", path=PATH), "-D", "-f", self.conf)
        for _ in range(60):
            time.sleep(1)
            if any(child.poll() is not None for child in self.children):
                return False
            if "idle" in self.run("sinfo", "--noheader", "--format=%T").stdout:
                return True
        return False

    def end(self):
        for child in reversed(self.children):
            child.terminate()
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


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
    # One task of a step is a process like any other, and so is one that srun did not start.
    r = slurm.run("srun", "-N1", "-n1", tandem, *TRAINING[:-2])
    expect(r.returncode == 0, "srun -n1", r)


def main():
    for program in ("munged", "slurmctld", "slurmd", "srun", "sinfo"):
        if shutil.which(program, path=PATH) is None:
            skip(program + " is not installed")
    folder = tempfile.mkdtemp(prefix="tandem-slurm-")
    slurm = Slurm(folder)
    try:
        if not slurm.begin():
            logs = "".join(open(os.path.join(folder, f), errors="replace").read()[-800:]
                           for f in sorted(os.listdir(folder)) if f.endswith((".out", ".log")))
            skip("Slurm does not start here:\n" + logs)
        check(slurm, sys.argv[1])
    finally:
        slurm.end()
        shutil.rmtree(folder, ignore_errors=True)


main()
