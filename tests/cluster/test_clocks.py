"""Clocks that are wrong, and clocks that are set under a running job."""

import re
import struct

from hosts import Host, until
from muster import Cluster, ClusterTest

HOUR = 3600


class Clocks(ClusterTest):
    @staticmethod
    def set_clock(host: Host, seconds: float) -> dict[str, str]:
        """Sets the wall clock of programs of the host that run, or are started with what this returns."""
        path = f"{host.folder}/var/clock"
        with open(path, "r+b" if hasattr(host, "has_clock") else "wb") as stream:
            stream.write(struct.pack("q", int(seconds * 1e9)))
        host.has_clock = True
        return {"LD_PRELOAD": "/mnt/bin/wall_clock.so", "WALL_CLOCK_FILE": "/var/lib/clock"}

    def test_that_are_wrong_by_an_hour_or_are_set_hurt_no_job(self) -> None:
        cluster = self.cluster(2)
        early, late = cluster.nodes
        cluster.start(clocks={cluster.head: self.set_clock(cluster.head, 0), early: self.set_clock(early, HOUR),
                              late: self.set_clock(late, -HOUR)})
        job = cluster.submit(on_coordinator_loss="stop-after 8s", time_limit="30m")
        job.running(2)
        self.offsets_are(cluster, HOUR, -HOUR)
        self.assertRegex(cluster.head.run(["coordinator", "nodes"]), "node-2: its clock is (1 h 0 min|59 min .*) behind")
        # Forwards, on a node and on the coordinator's machine, then back behind where they began.
        for own, head in ((3 * HOUR, HOUR), (-2 * HOUR, -HOUR)):
            self.set_clock(early, own)
            self.set_clock(cluster.head, head)
            self.offsets_are(cluster, own - head, -HOUR - head)
            self.assertEqual([node["state"] for node in cluster.listed().values()], ["alive", "alive"])
            self.assertTrue(job.command.running(), job.command.text)
        cluster.write("go")
        self.assertEqual(job.command.wait(), 0, job.command.text)
        self.assert_started_once(cluster, 2)
        for rank in range(2):
            self.assert_counted(job.raw_log(rank))
        shown = cluster.head.run(["coordinator", "status", job.id]) + cluster.head.run(["coordinator", "list"])
        self.assertIsNone(re.search(r"-\d+(\.\d+)? (s|min|h)\b", shown), shown)
        for text in (cluster.coordinator.text, *(agent.text for agent in cluster.agents.values())):
            self.assertNotIn("lost", text)

    def offsets_are(self, cluster: Cluster, *seconds: float) -> None:
        def right() -> bool:
            offsets = [node["clock_offset_seconds"] for node in cluster.listed().values()]
            return all(found is not None and abs(found - wanted) < 5 for found, wanted in zip(offsets, seconds))

        until(right, 20, lambda: str(cluster.listed()))
