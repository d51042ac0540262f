"""Batch jobs of Slurm that run Muster, as docs/slurm.md has them: their script, what they printed, and what they leave."""

import os
import re
import shutil

from hosts import ALICE, Host, until
from muster import Cluster, ClusterTest
from slurm import Slurm, why_not

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOME = "/mnt/home/alice"
# A rank says where it is, and waits until a file `go` lets it end.
WAITING = """#!/bin/sh
echo "$RANK $(hostname)" >> starts
echo started
until [ -e go ]; do sleep 0.05; done
"""


def script_of_the_documents(options: str, number: int = 0) -> str:
    """The batch script of docs/slurm.md with this number, with these options of sbatch in place of its own."""
    with open(f"{ROOT}/docs/slurm.md", encoding="utf-8") as stream:
        script = re.findall(r"^```\n(#!/bin/bash\n.*?)^```", stream.read(), re.DOTALL | re.MULTILINE)[number]
    changed, count = re.subn(r"^#SBATCH .*$", f"#SBATCH {options}", script, flags=re.MULTILINE)
    assert count == 1, script
    return changed


class Batch:
    """A job of Slurm that alice has submitted."""

    def __init__(self, head: Host) -> None:
        self.head = head
        self.id = head.run(["sbatch", "--parsable", "batch.sh"], user=ALICE, cwd="/home/alice").strip()

    @property
    def text(self) -> str:
        """What the script has printed so far."""
        path = f"{HOME}/slurm-{self.id}.out"
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()

    def ended(self) -> int | None:
        """Its exit status as Slurm keeps it; 128 + n when signal n ended it; None while it runs or waits."""
        told = self.head.run(["scontrol", "show", "job", self.id])
        if re.search(r"JobState=(PENDING|CONFIGURING|RUNNING|COMPLETING)", told):
            return None
        status, number = map(int, re.search(r"ExitCode=(\d+):(\d+)", told).groups())
        return 128 + number if number else status

    def wait(self, seconds: float = 90) -> int:
        until(lambda: self.ended() is not None, seconds, lambda: f"job {self.id} does not end:\n{self.text}")
        return self.ended()

    def started(self, ranks: int) -> None:
        """Waits until so many ranks of WAITING run."""
        until(lambda: self.text.count("] started\n") == ranks or self.ended() is not None, 60, lambda: self.text)
        assert self.ended() is None, self.text


class AllocationTest(ClusterTest):
    """A test with a Slurm of its own."""

    def setUp(self) -> None:
        if reason := why_not():
            self.skipTest(reason)

    def slurm(self, cpus: list[int], gpus: list[int] | None = None) -> Slurm:
        cluster = self.cluster(len(cpus))
        self.addCleanup(self.empty_home)
        return Slurm(cluster, cpus, gpus)

    def empty_home(self) -> None:
        for name in os.listdir(HOME):
            path = f"{HOME}/{name}"
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)

    def write(self, name: str, text: str) -> None:
        with open(f"{HOME}/{name}", "w", encoding="utf-8") as stream:
            stream.write(text)

    def write_job(self, script: str, **keys: str) -> None:
        """job.yaml with a rank of `script` on each slot."""
        self.write("rank.sh", script)
        keys = {"command": "[sh, rank.sh]", "grace": "2s", "start_timeout": "60s", **keys}
        self.write("job.yaml", "".join(f"{key}: {value}\n" for key, value in keys.items()))

    def sbatch(self, cluster: Cluster, script: str) -> Batch:
        self.write("batch.sh", script)
        return Batch(cluster.head)

    def places(self, text: str) -> dict[str, int]:
        """How many ranks were on each host, by the labels of their output."""
        ranks = set(re.findall(r"^\[(\d+)@(\S+)\]", text, re.MULTILINE))
        hosts = [host for _, host in ranks]
        return {host: hosts.count(host) for host in hosts}

    def assert_no_process_left(self, hosts: list[Host]) -> None:
        """Nothing of Muster, of a rank or of a step."""
        words = ("muster-shim", "agent\0run", "coordinator\0", "rank.sh", "slurmstepd")
        until(lambda: not any(host.processes(word) for host in hosts for word in words), 60,
              lambda: "; ".join(f"{host.name}: {word}" for host in hosts for word in words if host.processes(word)))

    def assert_nothing_left(self, cluster: Cluster) -> None:
        """No process, no state of an agent or a coordinator, and no token."""
        hosts = [cluster.head, *cluster.nodes]
        self.assert_no_process_left(hosts)
        for host in hosts:
            # The locks of slots and ports belong to the host, and nobody holds them.
            self.assertEqual(host.run(["find", "/tmp", "-mindepth", "1", "-not", "-path", "/tmp/muster-leases-1000*"]), "", host.name)
        self.assertEqual([name for name in os.listdir(HOME) if name.startswith(("token", ".local"))], [])
