#!/usr/bin/python3
"""The part of bench/launch that has several hosts, and that of bench/memory: runs in the namespaces of tests/cluster/run.py.

launch_hosts.py launch HOSTS RANKS ROUNDS: seconds from the command to its end for RANKS ranks of `true` on each host, by
Muster and, where it is installed, by Slurm, which take turns.
launch_hosts.py memory HOSTS: memory of idle agents over TLS, and of the coordinator for each of them.
"""

import json
import math
import os
import shutil
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests/cluster"))
import run  # noqa: E402  (found by the line above)
from hosts import Host, until  # noqa: E402
from muster import Cluster  # noqa: E402

SLURM = ["srun", "slurmctld", "slurmd", "munged"]


def seconds_of(host: Host, argv: list[str], **environment: str) -> float:
    start = time.monotonic()
    host.run(argv, cwd="/home/root", **environment)
    return time.monotonic() - start


class Slurm:
    """Slurm on the same hosts: slurmctld on `head`, slurmd and munged on every node."""

    def __init__(self, cluster: Cluster, ranks: int) -> None:
        self.cluster, self.ranks = cluster, ranks
        names = ",".join(node.name for node in cluster.nodes)
        nodes = "".join(f"NodeName={node.name} NodeAddr={node.address} CPUs={ranks} State=UNKNOWN\n" for node in cluster.nodes)
        cluster.write("munge.key", "k" * 128)
        os.chmod("/mnt/home/root/munge.key", 0o400)
        cluster.write("cgroup.conf", "CgroupPlugin=cgroup/v1\n")
        cluster.write("slurm.conf", f"""ClusterName=bench
SlurmctldHost=head({cluster.head.address})
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
ReturnToService=2
MpiDefault=none
{nodes}PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE State=UP
""")
        self.environment = {"SLURM_CONF": "/home/root/slurm.conf"}
        for host in (cluster.head, *cluster.nodes):
            host.run(["mkdir", "-p", "/run/munge", "/var/lib/munge", "/var/log/munge", "/var/lib/slurmd", "/var/lib/slurmctld"])
            host.start(["munged", "-F", "--force", "--key-file=/home/root/munge.key", "--socket=/run/munge/munge.socket.2",
                        "--pid-file=/run/munge/pid", "--log-file=/run/munge/log", "--seed-file=/run/munge/seed"])
            until(lambda h=host: h.run(["ls", "/run/munge/munge.socket.2"], expect=None).strip().endswith("socket.2"), 20, "munged")
        self.controller = cluster.head.start(["slurmctld", "-D"], **self.environment)
        for node in cluster.nodes:
            node.start(["slurmd", "-D", "-N", node.name], **self.environment)
        until(lambda: cluster.head.run(self.command(), expect=None, seconds=60, cwd="/home/root", **self.environment) == "", 90,
              lambda: self.controller.text[-2000:])

    def command(self) -> list[str]:
        return ["srun", "-N", str(len(self.cluster.nodes)), f"--ntasks-per-node={self.ranks}", "true"]


def launch(hosts: int, ranks: int, rounds: int) -> None:
    cluster = Cluster(hosts, ranks).start()
    try:
        cluster.write("hosts", "".join(f"{node.name} slots={ranks}\n" for node in cluster.nodes))
        muster = ["coordinator", "spawn", "--quiet", "--hostfile", "hosts", "--no_python", "true"]
        slurm = None
        if all(shutil.which(program) for program in SLURM):
            slurm = Slurm(cluster, ranks)
        ours, theirs = [], []
        for turn in range(rounds + 1):
            took = seconds_of(cluster.head, muster)
            other = seconds_of(cluster.head, slurm.command(), **slurm.environment) if slurm else math.nan
            if turn:  # The first turn warms the page cache.
                ours.append(took)
                theirs.append(other)
        print(f"{hosts} hosts x {ranks} ranks, {rounds} rounds, load {os.getloadavg()[0]:.1f}: muster {statistics.median(ours):.3f} s"
              + (f", slurm {statistics.median(theirs):.3f} s ({statistics.median(ours) / statistics.median(theirs):.2f}x)" if slurm
                 else "; Slurm is not installed"))
    finally:
        cluster.close()


def rss(pid: int) -> tuple[int, int]:
    """Resident and private KiB."""
    values: dict[str, int] = {}
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as stream:
        for line in stream.readlines()[1:]:
            key, value = line.split(":")
            values[key] = int(value.split()[0])
    return values["Rss"], values["Private_Clean"] + values["Private_Dirty"]


def memory(hosts: int) -> None:
    cluster = Cluster(hosts)
    first, *others = cluster.nodes
    cluster.start([first])
    try:
        time.sleep(5)  # Idle by then.
        before = rss(cluster.coordinator.pid)[1]
        token = json.loads(cluster.head.run(["coordinator", "token", "create", "--nodes", str(len(others)), "-o", "json"]))["token"]
        for node in others:
            node.run(["agent", "join", "head:7443", token])
            cluster.start_agent(node)
        cluster.await_states(60, alive=hosts)
        time.sleep(5)
        per_agent = (rss(cluster.coordinator.pid)[1] - before) / len(others)
        agents = [rss(agent.pid) for agent in cluster.agents.values()]
        print(f"agent over TLS   {statistics.median(a[0] for a in agents):7.0f} KiB resident, "
              f"{statistics.median(a[1] for a in agents):7.0f} KiB of it private")
        print(f"coordinator      {per_agent:7.0f} KiB for each of {len(others)} more agents ({before} KiB private with one)")
    finally:
        cluster.close()


def main(arguments: list[str]) -> None:
    if run.INSIDE not in os.environ:
        reason = run.why_not()
        if reason:
            sys.exit(f"several hosts cannot be made here: {reason}")
        sys.exit(run.outside([["/usr/bin/python3", "-B", os.path.abspath(__file__), *arguments]])[0])
    run.furnish()
    numbers = [int(number) for number in arguments[1:]]
    {"launch": launch, "memory": memory}[arguments[0]](*numbers)


if __name__ == "__main__":
    main(sys.argv[1:])
