"""Slurm on the hosts of a cluster: slurmctld on `head`, slurmd on every node, munged on all of them, by the programs of Debian.

Its configuration and its key are in the /etc of the hosts, a copy that ends with the suite: what the machine has of Slurm is
neither read nor changed.
"""

import os
import shutil

from hosts import Host, Program, until
from muster import Cluster

PROGRAMS = ["munged", "sbatch", "scancel", "scontrol", "slurmctld", "slurmd", "squeue", "srun"]
ETC = "/mnt/etc"
FOLDERS = ["/run/munge", "/var/lib/munge", "/var/log/munge", "/var/lib/slurmd", "/var/lib/slurmctld", "/var/log/slurm"]


def why_not() -> str:
    """Why Slurm cannot be started here; empty when it can."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"Slurm is not installed: no {', '.join(missing)}" if missing else ""


class Slurm:
    """`cpus` and `gpus` of each node, in order. Ready for jobs when made; ends with the hosts."""

    def __init__(self, cluster: Cluster, cpus: list[int], gpus: list[int] | None = None) -> None:
        self.cluster = cluster
        self.daemons: list[Program] = []
        self._configure(cpus, gpus or [0] * len(cpus))
        for host in (cluster.head, *cluster.nodes):
            host.run(["mkdir", "-p", *FOLDERS])
            self._munged(host)
        self.controller = self._start(cluster.head, ["slurmctld", "-D"])
        for node in cluster.nodes:
            self._start(node, ["slurmd", "-D", "-N", node.name])
        until(self._all_idle, 90, lambda: "\n".join(daemon.text[-2000:] for daemon in self.daemons))

    def _configure(self, cpus: list[int], gpus: list[int]) -> None:
        nodes, cards = "", ""
        for node, processors, count in zip(self.cluster.nodes, cpus, gpus):
            nodes += f"NodeName={node.name} NodeAddr={node.address} CPUs={processors} State=UNKNOWN"
            nodes += f" Gres=gpu:gaudi:{count}\n" if count else "\n"
            for card in range(count):
                node.run(["touch", f"/run/card{card}"])  # Slurm only looks whether it is there.
                cards += f"NodeName={node.name} Name=gpu Type=gaudi File=/run/card{card}\n"
        os.makedirs(f"{ETC}/slurm", exist_ok=True)
        os.makedirs(f"{ETC}/munge", exist_ok=True)
        self._write("munge/munge.key", "k" * 128, 0o400)
        self._write("slurm/gres.conf", cards)
        self._write("slurm/cgroup.conf", "CgroupPlugin=cgroup/v1\n")
        self._write("slurm/slurm.conf", f"""ClusterName=hosts
SlurmctldHost={self.cluster.head.name}({self.cluster.head.address})
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=/var/lib/slurmctld
SlurmdSpoolDir=/var/lib/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
GresTypes=gpu
ReturnToService=2
MpiDefault=none
{nodes}PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""")

    def _write(self, name: str, text: str, mode: int = 0o644) -> None:
        path = f"{ETC}/{name}"
        if os.path.exists(path):
            os.remove(path)
        with open(path, "w", encoding="ascii") as stream:
            os.fchmod(stream.fileno(), mode)
            os.fchown(stream.fileno(), 0, 0)
            stream.write(text)

    def _munged(self, host: Host) -> None:
        self._start(host, ["munged", "-F", "--force", "--key-file=/etc/munge/munge.key", "--socket=/run/munge/munge.socket.2",
                           "--pid-file=/run/munge/pid", "--log-file=/run/munge/log", "--seed-file=/run/munge/seed"])
        until(lambda: host.run(["ls", "/run/munge/munge.socket.2"], expect=None).strip().endswith("socket.2"), 20, "munged")

    def _start(self, host: Host, argv: list[str]) -> Program:
        self.daemons.append(host.start(argv))
        return self.daemons[-1]

    def _all_idle(self) -> bool:
        states = self.cluster.head.run(["sinfo", "-h", "-N", "-o", "%t"], expect=None).split()
        return states == ["idle"] * len(self.cluster.nodes)
