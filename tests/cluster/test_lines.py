"""Lines that are bad, but not cut."""

import time

from muster import ClusterTest, long

# Writes as fast as it may, and says at its end what that was.
FLOOD = """#!/bin/sh
echo "$MUSTER_ATTEMPT $RANK $(hostname)" >> starts
i=0
until [ -e go ]; do i=$((i+1)); echo "line $i of a rank that writes much more than its line to the coordinator can carry"; done
"""


class Lines(ClusterTest):
    def lossy(self, seconds: float) -> None:
        cluster = self.cluster(2).start()
        job = cluster.submit()
        job.running(2)
        for node in cluster.nodes:
            node.lose(30)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for name, node in cluster.listed().items():
                self.assertNotEqual(node["state"], "lost", f"{name}: {node['reason']}")
            time.sleep(0.5)  # paces: looks now and then
        cluster.write("go")
        self.assertEqual(job.command.wait(60), 0, job.command.text)
        self.assert_started_once(cluster, 2)
        for rank in range(2):
            self.assert_counted(job.raw_log(rank))

    def test_that_lose_three_packets_of_ten_are_slow_and_not_wrong(self) -> None:
        self.lossy(5)

    @long
    def test_that_lose_three_packets_of_ten_for_ten_minutes_lose_no_node(self) -> None:
        self.lossy(600)

    def test_of_one_megabit_carry_heartbeats_and_a_cancel_beside_a_flood(self) -> None:
        cluster = self.cluster(2).start()
        for node in cluster.nodes:
            node.slow("1mbit")
        job = cluster.submit(script=FLOOD, log_quota="4MiB")
        job.running(2)
        deadline = time.monotonic() + 6
        while time.monotonic() < deadline:
            states = {name: node["state"] for name, node in cluster.listed().items()}
            self.assertEqual(states, {"node-1": "alive", "node-2": "alive"})
            time.sleep(0.3)  # paces: looks now and then
        began = time.monotonic()
        cluster.head.run(["coordinator", "cancel", job.id, "--now"])
        for node in cluster.nodes:
            while node.processes("script"):
                self.assertLess(time.monotonic() - began, 5, "the cancel waits behind output")
        for node in cluster.nodes:
            node.heal()
        self.assertNotEqual(job.command.wait(90), 0)
