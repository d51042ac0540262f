"""Copied state: one node on two machines, and two coordinators of one cluster."""

import json
import os
import shutil

from hosts import Host, until
from muster import Cluster, ClusterTest, long


class Copies(ClusterTest):
    def copy_of_first(self, cluster: Cluster) -> Host:
        """A second machine whose disk is a copy of the first one's."""
        first, second = cluster.nodes
        shutil.rmtree(f"{second.folder}/var")
        shutil.copytree(f"{first.folder}/var", f"{second.folder}/var", symlinks=True, copy_function=self.copy_file)
        second.machine_id = first.machine_id
        second.reboot()
        return second

    @staticmethod
    def copy_file(source: str, target: str) -> None:
        if os.path.isfile(source):  # Sockets are nothing that can be copied.
            shutil.copy2(source, target)

    def audit(self, cluster: Cluster) -> list[dict]:
        with open(f"{cluster.head.folder}/var/muster/coordinator/trust/audit.jsonl", encoding="utf-8") as stream:
            return [event for event in map(json.loads, stream) if event.get("event") == "node-twice"]

    def test_of_a_disk_on_a_second_machine_are_told_and_get_no_command(self) -> None:
        cluster = self.cluster(2)
        first = cluster.nodes[0]
        cluster.start([first])
        job = cluster.submit([first])
        job.running(1)
        copy = self.copy_of_first(cluster)
        agent = cluster.start_agent(copy)
        cluster.coordinator.says("node is there twice node=node-1")
        agent.says("session refused")
        listed = cluster.listed()["node-1"]
        self.assertEqual(listed["boot_id"], first.run(["cat", "/proc/sys/kernel/random/boot_id"]).strip())
        self.assertIn(copy.address, listed["alarms"][0])
        self.assertIn("ALARM node-1:", cluster.head.run(["coordinator", "nodes"]))
        told = until(lambda: self.audit(cluster), 5, "the audit log")
        self.assertEqual([(event["object"], event["decision"]) for event in told], [("node-1", "refused")])
        cluster.write("go")
        self.assertEqual(job.command.wait(), 0, job.command.text)
        self.assert_counted(job.raw_log(0))
        # A job that comes now goes to the first one, too.
        second_job = cluster.submit([first])
        self.assertEqual(second_job.command.wait(), 0, second_job.command.text)
        self.assertEqual([line.split()[2] for line in cluster.read("starts").splitlines()], ["node-1", "node-1"])
        self.assertEqual(copy.processes("muster-shim"), [])

    @long
    def test_that_took_over_stop_what_the_original_has(self) -> None:
        cluster = self.cluster(2)
        first = cluster.nodes[0]
        cluster.start([first])
        job = cluster.submit([first])
        job.running(1)
        first.cut()
        self.assertEqual(job.command.wait(30), 121, job.command.text)
        copy = self.copy_of_first(cluster)
        cluster.start_agent(copy).says("session opened")
        first.heal()
        until(lambda: not first.processes("script"), 30, "the original's rank ends")
        cluster.coordinator.says("is back")
        self.assertEqual(cluster.listed()["node-1"]["boot_id"], copy.run(["cat", "/proc/sys/kernel/random/boot_id"]).strip())


class Coordinators(ClusterTest):
    def test_are_alone_on_their_state_and_on_their_port(self) -> None:
        cluster = self.cluster(1).start()
        second = cluster.head.run(["coordinator", "serve", "--socket", "/run/second.sock"], expect=2)
        self.assertIn("/var/lib/muster/coordinator", second)
        cluster.head.run(["coordinator", "init", "--state-dir", "/var/lib/other"])
        other = cluster.head.run(["coordinator", "serve", "--state-dir", "/var/lib/other", "--socket", "/run/other.sock"], expect=2)
        self.assertIn("another coordinator", other)
        self.assertEqual(cluster.listed()["node-1"]["state"], "alive")
