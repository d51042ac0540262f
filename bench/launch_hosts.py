#!/usr/bin/python3
"""The part of bench/launch that has several hosts, and those of bench/memory and bench/check: runs in the namespaces of tests/cluster/run.py.

launch_hosts.py launch HOSTS RANKS ROUNDS: seconds from the command to its end for RANKS ranks of `true` on each host, by
Muster and, where it is installed, by Slurm, which take turns.
launch_hosts.py check HOSTS ROUNDS: seconds of `coordinator check` of so many hosts.
launch_hosts.py memory HOSTS: memory of idle agents over TLS, and of the coordinator for each of them.
"""

import json
import math
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests/cluster"))
import run  # noqa: E402  (found by the line above)
import slurm  # noqa: E402
from hosts import Host  # noqa: E402
from muster import Cluster  # noqa: E402


def seconds_of(host: Host, argv: list[str]) -> float:
    start = time.monotonic()
    host.run(argv, cwd="/home/root")
    return time.monotonic() - start


def launch(hosts: int, ranks: int, rounds: int) -> None:
    cluster = Cluster(hosts, ranks).start()
    try:
        cluster.write("hosts", "".join(f"{node.name} slots={ranks}\n" for node in cluster.nodes))
        muster = ["coordinator", "spawn", "--quiet", "--hostfile", "hosts", "--no_python", "true"]
        theirs_is_here = not slurm.why_not()
        if theirs_is_here:
            slurm.Slurm(cluster, [ranks] * hosts)
        srun = ["srun", "-N", str(hosts), f"--ntasks-per-node={ranks}", "true"]
        ours, theirs = [], []
        for turn in range(rounds + 1):
            took = seconds_of(cluster.head, muster)
            other = seconds_of(cluster.head, srun) if theirs_is_here else math.nan
            if turn:  # The first turn warms the page cache.
                ours.append(took)
                theirs.append(other)
        print(f"{hosts} hosts x {ranks} ranks, {rounds} rounds, load {os.getloadavg()[0]:.1f}: muster {statistics.median(ours):.3f} s"
              + (f", slurm {statistics.median(theirs):.3f} s ({statistics.median(ours) / statistics.median(theirs):.2f}x)" if theirs_is_here
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


def check(hosts: int, rounds: int) -> None:
    cluster = Cluster(hosts).start()
    try:
        # A warning is no failure, and as much work.
        times = [seconds_of(cluster.head, ["coordinator", "check", "--all"]) for _ in range(rounds + 1)][1:]
        print(f"check of {hosts} hosts, {rounds} rounds, load {os.getloadavg()[0]:.1f}: median {statistics.median(times):.3f} s, "
              f"slowest {max(times):.3f} s")
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
    {"launch": launch, "memory": memory, "check": check}[arguments[0]](*numbers)


if __name__ == "__main__":
    main(sys.argv[1:])
