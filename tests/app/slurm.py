# SPDX-License-Identifier: Apache-2.0
"""A real Slurm for tests, in a temporary folder."""
import getpass
import os
import shutil
import socket
import subprocess
import time

PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
CONF = """
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire={patience}
CredType=cred/munge
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout={patience}
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def missing():
    """A program that is not installed; None where all are."""
    for program in ("munged", "slurmctld", "slurmd", "srun", "sbatch", "sinfo"):
        if shutil.which(program, path=PATH) is None:
            return program
    return None


class Slurm:
    """munged, slurmctld and a slurmd for each node, in a folder, on the loopback interface. `patience`: seconds after which a
    silent node is down, and as many until its tasks may start on another."""

    def __init__(self, folder, nodes=1, patience=120):
        self.folder, self.nodes, self.children = folder, [f"n{i + 1}" for i in range(nodes)], {}
        os.mkdir(os.path.join(folder, "state"))
        self.conf = os.path.join(folder, "slurm.conf")
        host = socket.gethostname().split(".")[0]
        lines = "\n".join(f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs={os.cpu_count()} "
                          "State=UNKNOWN" for node in self.nodes)
        with open(self.conf, "w") as f:
            f.write(CONF.format(host=host, user=getpass.getuser(), folder=folder, port=free_port(), nodes=lines, patience=patience))
        self.environment = {**os.environ, "SLURM_CONF": self.conf}

    def start(self, name, *command):
        log = open(os.path.join(self.folder, name + ".out"), "a")
        program = shutil.which(command[0], path=PATH)
        self.children[name] = subprocess.Popen([program, *command[1:]], env=self.environment, stdout=log, stderr=log)

    def start_node(self, node):
        self.start(node, "slurmd", "-D", "-N", node, "-f", self.conf)

    def run(self, *command, seconds=120, cwd=None):
        return subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=seconds, cwd=cwd)

    def begin(self):
        """Until the nodes are there; False where they do not come."""
        key = os.path.join(self.folder, "munge.key")
        with open(key, "wb") as f:
            f.write(os.urandom(1024))
        os.chmod(key, 0o400)
        at = lambda name: os.path.join(self.folder, name)
        self.start("munged", "munged", "--foreground", "--force", "--key-file", key, "--socket", at("munge.socket"),
                   "--pid-file", at("munged.pid"), "--log-file", at("munged.log"), "--seed-file", at("munged.seed"))
        time.sleep(1)
        self.start("slurmctld", "slurmctld", "-D", "-f", self.conf)
        for node in self.nodes:
            self.start_node(node)
        for _ in range(60):
            time.sleep(1)
            if any(child.poll() is not None for child in self.children.values()):
                return False
            if self.run("sinfo", "--noheader", "--Node", "--format=%T").stdout.split() == ["idle"] * len(self.nodes):
                return True
        return False

    def logs(self):
        return "".join(open(os.path.join(self.folder, f), errors="replace").read()[-800:]
                       for f in sorted(os.listdir(self.folder)) if f.endswith((".out", ".log")))

    def end(self):
        for child in reversed(self.children.values()):
            child.terminate()
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
