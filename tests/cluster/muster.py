"""A cluster of Muster on hosts: coordinator on `head`, agents that joined it on the others, jobs, and what came of them."""

import json
import os
import re
import shutil
import unittest

from hosts import Host, Network, Program, until

# What a rank runs in most tests: says once that it started, then counts until a file `go` lets it end.
COUNTING = """#!/bin/sh
echo "$MUSTER_ATTEMPT $RANK $(hostname)" >> starts
i=0
until [ -e go ]; do echo "line $i"; i=$((i+1)); sleep 0.05; done
echo "end $i"
"""


class Job:
    """A job that was submitted and is followed by its command."""

    def __init__(self, cluster: "Cluster", command: Program) -> None:
        self.cluster, self.command = cluster, command
        self.id = until(lambda: re.search(r"muster: job (\w+)", command.text), 30, lambda: command.text).group(1)

    def status(self) -> dict:
        return json.loads(self.cluster.head.run(["coordinator", "status", self.id, "-o", "json"], expect=None))

    def raw_log(self, rank: int) -> str:
        return self.cluster.head.run(["coordinator", "logs", self.id, "--raw", "--rank", str(rank)])

    def running(self, ranks: int) -> None:
        """Waits until so many ranks have said something."""
        wanted = {str(rank) for rank in range(ranks)}
        until(lambda: wanted <= set(re.findall(r"^\[(\d+)@", self.command.text, re.MULTILINE)) or not self.command.running(), 60)
        assert self.command.running(), self.command.text


class Cluster:
    """`nodes` hosts named node-1... beside `head`; `slots` each. Everything runs as root."""

    def __init__(self, nodes: int, slots: int = 1) -> None:
        self.network = Network("head", *(f"node-{i}" for i in range(1, nodes + 1)))
        self.head = self.network["head"]
        self.nodes = [host for host in self.network.hosts.values() if host is not self.head]
        self.slots = slots
        self.agents: dict[str, Program] = {}
        self.coordinator: Program | None = None

    def start(self, joining: list[Host] | None = None, clocks: dict[Host, dict[str, str]] | None = None) -> "Cluster":
        """From nothing to nodes that are alive. `joining`: not all nodes; `clocks`: variables that programs of a host need."""
        clocks, joining = clocks or {}, joining or self.nodes
        self.head.run(["coordinator", "init"], **clocks.get(self.head, {}))
        self.serve(**clocks.get(self.head, {}))
        token = json.loads(self.head.run(["coordinator", "token", "create", "--nodes", str(len(joining)), "-o", "json"]))["token"]
        for node in joining:
            node.run(["agent", "join", "head:7443", token], **clocks.get(node, {}))
            self.start_agent(node, **clocks.get(node, {}))
        self.await_states(alive=len(joining))
        return self

    def serve(self, **environment: str) -> Program:
        self.coordinator = self.head.start(["coordinator", "serve"], **environment)
        self.coordinator.says("coordinator serves")
        return self.coordinator

    def start_agent(self, node: Host, **environment: str) -> Program:
        agent = node.start(["agent", "run", "--slots", str(self.slots), "--allow-root"], **environment)
        self.agents[node.name] = agent
        return agent

    def listed(self) -> dict[str, dict]:
        """`coordinator nodes`, by name."""
        answer = json.loads(self.head.run(["coordinator", "nodes", "-o", "json"]))
        return {node["node_id"]: node for node in answer["nodes"]}

    def await_states(self, seconds: float = 30, **counts: int) -> None:
        def reached() -> bool:
            states = [node["state"] for node in self.listed().values()]
            return all(states.count(state) == count for state, count in counts.items())

        until(reached, seconds, f"{counts}")

    def submit(self, nodes: list[Host] | None = None, script: str = COUNTING, **keys: str) -> Job:
        """Submits a job of one shell script, with a rank on every slot of the nodes."""
        hosts = "".join(f"{node.name} slots={self.slots}\n" for node in nodes or self.nodes)
        keys = {"hostfile": "hosts", "command": "[sh, script]", "cwd": "/home/root", "grace": "2s", "start_timeout": "60s", **keys}
        self.write("hosts", hosts)
        self.write("script", script)
        self.write("job.yaml", "".join(f"{key}: {value}\n" for key, value in keys.items()))
        return Job(self, self.head.start(["coordinator", "submit", "job.yaml"], cwd="/home/root"))

    def write(self, name: str, text: str = "") -> None:
        """Writes a file of the home that all hosts share."""
        with open(f"/mnt/home/root/{name}", "w", encoding="utf-8") as stream:
            stream.write(text)

    def read(self, name: str) -> str:
        with open(f"/mnt/home/root/{name}", encoding="utf-8") as stream:
            return stream.read()

    def close(self) -> None:
        self.network.close()
        for name in os.listdir("/mnt/home/root"):
            path = f"/mnt/home/root/{name}"
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


class ClusterTest(unittest.TestCase):
    """A test whose clusters are gone after it."""

    def cluster(self, nodes: int, slots: int = 1) -> Cluster:
        cluster = Cluster(nodes, slots)
        self.addCleanup(cluster.close)
        self.addCleanup(self.tell, cluster)
        return cluster

    def tell(self, cluster: Cluster) -> None:
        """Shows what the daemons have written, when the test fails."""
        result = self._outcome.result
        if not any(test is self for test, _ in result.failures + result.errors):
            return
        for program in (cluster.coordinator, *cluster.agents.values()):
            if program is not None:
                print(f"--- {program.host.name}: {program.argv}\n{program.text[-4000:]}", flush=True)

    def assert_counted(self, text: str) -> None:
        """What a rank of COUNTING wrote is there once, in order, to the end."""
        lines = text.splitlines()
        self.assertTrue(lines and lines[-1].startswith("end "), text[-200:])
        self.assertEqual(lines, [f"line {i}" for i in range(len(lines) - 1)] + [f"end {len(lines) - 1}"])

    def assert_started_once(self, cluster: Cluster, ranks: int) -> None:
        starts = sorted(cluster.read("starts").splitlines())
        self.assertEqual([line.split()[:2] for line in starts], [["1", str(rank)] for rank in range(ranks)])


def long(test):
    """Marks a test that only `run.py --long` runs."""
    test.is_long = True
    return test
