"""The network port under hostile traffic: of strangers, and of somebody who has the key of a node."""

import json
import os
import re
import time

from hosts import Host, Program, until
from muster import ClusterTest

# One attack may cost 32 MiB; the rest is for what malloc keeps and for a machine that is busy.
MOST_GROWTH_KIB = 48 << 10


class Port(ClusterTest):
    def memory_kib(self, program: Program, name: str) -> int:
        with open(f"/proc/{program.pid}/status", encoding="ascii") as stream:
            return int(re.search(rf"^{name}:\s+(\d+) kB", stream.read(), re.MULTILINE).group(1))

    def strangers(self, host: Host, silent: int, slow: int) -> Program:
        crowd = host.start(["prlimit", "--nofile=8192", "/usr/bin/python3", "/mnt/tests/strangers.py", str(silent), str(slow)])
        crowd.says("held", 60)
        return crowd

    def test_a_node_that_was_taken_over_cannot_take_the_coordinators_memory(self) -> None:
        cluster = self.cluster(1).start()
        node = cluster.nodes[0]
        cluster.agents[node.name].signal(9)
        pipe = f"{node.folder}/var/pipe"
        os.mkfifo(pipe)
        attacker = node.start(["sh", "-c", f"exec /usr/bin/python3 -B /mnt/tests/hostile.py head:7443 /var/lib/muster/agent/trust/current < /var/lib/pipe"])
        with open(pipe, "wb", buffering=0) as go:
            for number in range(1, 8):
                with open(f"/proc/{cluster.coordinator.pid}/clear_refs", "w", encoding="ascii") as stream:
                    stream.write("5")  # The high-water mark begins anew.
                before = self.memory_kib(cluster.coordinator, "VmRSS")
                self.assertTrue(attacker.running(), attacker.text)
                go.write(b"\n")
                until(lambda n=number: len(attacker.text.splitlines()) == n or not attacker.running(), 60, lambda: attacker.text)
                line = attacker.text.splitlines()[-1]
                self.assertNotIn(" OK", line)
                growth = self.memory_kib(cluster.coordinator, "VmHWM") - before
                self.assertLess(growth, MOST_GROWTH_KIB, line)
        self.assertEqual(attacker.wait(), 0, attacker.text)
        self.assertIn("job-of-empty-hosts PERMISSION_DENIED", attacker.text)
        cluster.start_agent(node)
        cluster.await_states(20, alive=1)

    def test_a_thousand_idle_connections_hinder_nobody(self) -> None:
        cluster = self.cluster(3)
        crowd_host, late = cluster.nodes[1:]
        cluster.start(cluster.nodes[:1])
        job = cluster.submit(cluster.nodes[:1])
        job.running(1)
        self.strangers(crowd_host, 1000, 100)
        began = time.monotonic()
        token = json.loads(cluster.head.run(["coordinator", "token", "create", "-o", "json"]))["token"]
        late.run(["agent", "join", "head:7443", token])
        cluster.start_agent(late).says("session opened", 20)
        for _ in range(5):
            self.assertEqual(cluster.listed()["node-1"]["state"], "alive")
        self.assertLess(time.monotonic() - began, 20, "with a generous bound: bench/port measures")
        cluster.write("go")
        self.assertEqual(job.command.wait(), 0, job.command.text)

    def test_is_served_again_after_descriptors_ran_out(self) -> None:
        cluster = self.cluster(2)
        crowd_host, late = cluster.nodes
        cluster.start([crowd_host])
        cluster.coordinator.signal(15)
        cluster.coordinator.wait()
        cluster.coordinator = cluster.head.start(["prlimit", "--nofile=100", "coordinator", "serve"])
        cluster.coordinator.says("coordinator serves")
        cluster.await_states(20, alive=1)
        token = json.loads(cluster.head.run(["coordinator", "token", "create", "-o", "json"]))["token"]
        crowd = self.strangers(crowd_host, 300, 0)
        crowd.signal(9)
        crowd.wait()
        late.run(["agent", "join", "head:7443", token])
        cluster.start_agent(late)
        cluster.await_states(20, alive=2)
