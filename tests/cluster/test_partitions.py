"""Networks that fail between hosts, machines that stand still, and machines that are switched off."""

import signal
import time

from hosts import until
from muster import ClusterTest, long


class Partitions(ClusterTest):
    def test_silence_within_the_lease_is_noticed_and_forgiven(self) -> None:
        """Cut in both directions, in each one, and with a stopped agent: all at once, under a job that runs."""
        cluster = self.cluster(4).start()
        job = cluster.submit()
        job.running(4)
        both, sends, hears, stopped = cluster.nodes
        began = time.monotonic()
        both.cut("both", cluster.head)
        sends.cut("in", cluster.head)
        hears.cut("out", cluster.head)
        cluster.agents[stopped.name].signal(signal.SIGSTOP)
        # Half a lease of silence, or the end of the connection when the agent has given it up.
        cluster.await_states(7.5, suspect=4)
        noticed = time.monotonic() - began
        for name, node in cluster.listed().items():
            self.assertNotEqual(node["reason"], "", name)
        for node in (both, sends, hears):
            cluster.agents[node.name].says("session ended", 7.5 - noticed)
        for node in cluster.nodes:
            node.heal()
        cluster.agents[stopped.name].signal(signal.SIGCONT)
        cluster.await_states(10, alive=4)
        self.assertTrue(job.command.running(), job.command.text)
        cluster.write("go")
        self.assertEqual(job.command.wait(), 0, job.command.text)
        self.assert_started_once(cluster, 4)
        for rank in range(4):
            self.assert_counted(job.raw_log(rank))

    def test_beyond_the_lease_the_job_ends_once_and_no_rank_stays(self) -> None:
        cluster = self.cluster(2).start()
        job = cluster.submit()
        job.running(2)
        cluster.nodes[1].cut()
        self.assertEqual(job.command.wait(30), 121, job.command.text)
        self.assertIn("node-2 is lost: no word from it for 10s", job.command.text)
        until(lambda: not cluster.nodes[0].processes("script"), 10, "the other node's rank ends")
        self.assertEqual(len(cluster.nodes[1].processes("script")), 1, "on_coordinator_loss: keep")
        lost = cluster.listed()["node-2"]
        self.assertEqual((lost["state"], "no word" in lost["reason"]), ("lost", True))
        told = job.status()
        cluster.nodes[1].heal()
        until(lambda: not cluster.nodes[1].processes("script"), 20, "its rank is stopped when it is back")
        cluster.await_states(10, alive=2)
        after = job.status()
        self.assertEqual([after[key] for key in ("state", "exit_status", "reason")],
                         [told[key] for key in ("state", "exit_status", "reason")])
        self.assert_started_once(cluster, 2)
        until(lambda: not cluster.nodes[1].processes("muster-shim"), 10, "nothing of the job is left")

    def test_ranks_stop_by_themselves_without_coordinator_and_agent(self) -> None:
        """on_coordinator_loss: stop-after is kept by the shim, whatever becomes of the agent."""
        cluster = self.cluster(2).start()
        job = cluster.submit(on_coordinator_loss="stop-after 4s")  # Less than is wise, to be quick.
        job.running(2)
        alone = cluster.nodes[1]
        alone.cut()
        cluster.agents[alone.name].signal(signal.SIGKILL)
        self.assertEqual(len(alone.processes("script")), 1)
        until(lambda: not alone.processes("script"), 9, "it stops after 4 s, plus the grace of 2 s")
        self.assertEqual(job.command.wait(30), 121, job.command.text)
        self.assertIn("node-2 is lost", job.command.text)
        alone.heal()
        cluster.start_agent(alone)
        cluster.await_states(10, alive=2)
        self.assert_started_once(cluster, 2)

    def test_a_reboot_ends_what_ran_there_once(self) -> None:
        cluster = self.cluster(2).start()
        job = cluster.submit()
        job.running(2)
        boot = cluster.listed()["node-2"]["boot_id"]
        cluster.nodes[1].reboot()
        cluster.start_agent(cluster.nodes[1])
        self.assertEqual(job.command.wait(30), 121, job.command.text)
        self.assertIn("node-2 is lost: it was rebooted", job.command.text)
        cluster.await_states(15, alive=2)
        self.assertNotEqual(cluster.listed()["node-2"]["boot_id"], boot)
        self.assertEqual(cluster.listed()["node-2"]["alarms"], [])
        self.assert_started_once(cluster, 2)
        # It works again.
        cluster.write("starts")
        again = cluster.submit()
        again.running(2)
        cluster.write("go")
        self.assertEqual(again.command.wait(), 0, again.command.text)

    @long
    def test_a_busy_node_is_not_taken_for_dead(self) -> None:
        """Every processor taken six times over, as by loading of data."""
        cluster = self.cluster(2).start()
        job = cluster.submit()
        job.running(2)
        load = "for i in $(seq $(($(nproc) * 3))); do timeout 30 sh -c 'while :; do :; done' & done; wait"
        busy = [node.start(["sh", "-c", load]) for node in cluster.nodes]
        until(lambda: not any(program.running() for program in busy), 90, "the load ends")
        cluster.write("go")
        self.assertEqual(job.command.wait(), 0, job.command.text)
        self.assertNotIn("node lost", cluster.coordinator.text)
        self.assertNotIn("too_many_pings", cluster.coordinator.text + "".join(a.text for a in cluster.agents.values()))
        self.assert_started_once(cluster, 2)
