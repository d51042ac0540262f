"""Jobs in allocations of a real Slurm: where their ranks are, with what they end, and that nothing stays."""

import re

from allocation import HOME, WAITING, AllocationTest, script_of_the_documents
from hosts import ALICE, until


class Allocations(AllocationTest):
    def test_the_batch_script_of_the_documents_runs_a_job_on_all_its_nodes(self) -> None:
        cluster = self.slurm([2, 2, 2, 2]).cluster
        self.write_job("echo rank $RANK of $WORLD_SIZE on $(hostname)\n")
        batch = self.sbatch(cluster, script_of_the_documents("--nodes=4 --ntasks-per-node=2"))
        self.assertEqual(batch.wait(), 0, batch.text)
        for rank in range(8):
            name = f"node-{rank // 2 + 1}"
            self.assertIn(f"[{rank}@{name}] rank {rank} of 8 on {name}\n", batch.text)
        self.assert_nothing_left(cluster)

    def test_the_same_script_runs_under_salloc(self) -> None:
        cluster = self.slurm([2, 2]).cluster
        self.write_job("echo on $(hostname)\n[ $RANK = 1 ] || { echo > zero; exit 0; }\nuntil [ -e zero ]; do sleep 0.05; done; exit 41\n")
        self.write("batch.sh", script_of_the_documents(""))
        command = cluster.head.start(["salloc", "-N2", "-n2", "bash", "batch.sh"], user=ALICE, cwd="/home/alice")
        self.assertEqual(command.wait(90), 41, command.text)
        self.assertEqual(self.places(command.text), {"node-1": 1, "node-2": 1}, command.text)
        self.assert_nothing_left(cluster)

    def test_the_code_of_the_rank_that_failed_is_that_of_the_batch_job(self) -> None:
        cluster = self.slurm([1, 1, 1]).cluster
        self.write_job('if [ "$RANK" = 2 ]; then echo no data; exit 17; fi; exec sleep 1000\n')
        batch = self.sbatch(cluster, script_of_the_documents("--nodes=3 --ntasks-per-node=1"))
        self.assertEqual(batch.wait(), 17, batch.text)
        self.assertIn("rank 2 on node-3", batch.text)
        self.assert_nothing_left(cluster)

    def test_jobs_that_share_a_node_do_not_meet(self) -> None:
        cluster = self.slurm([2]).cluster
        self.write_job(WAITING)
        # With leases of its own each, as the documents say.
        script = script_of_the_documents("--nodes=1 --ntasks=1").replace("\nport=", "\nexport MUSTER_LEASE_DIR=/tmp/muster-leases-$UID-$SLURM_JOB_ID\nport=")
        batches = [self.sbatch(cluster, script) for _ in range(2)]
        for batch in batches:
            batch.started(1)
        self.write("go", "")
        self.assertEqual([batch.wait() for batch in batches], [0, 0], batches[1].text)
        self.assert_nothing_left(cluster)

    def test_slots_are_the_tasks_of_each_node(self) -> None:
        cluster = self.slurm([4, 2, 1]).cluster
        self.write_job("echo here\n")
        batch = self.sbatch(cluster, script_of_the_documents("--nodes=3 --ntasks=6 --distribution=block"))
        self.assertEqual(batch.wait(), 0, batch.text)
        counts = self.places(batch.text)
        self.assertEqual((sum(counts.values()), len(counts), len(set(counts.values())) > 1), (6, 3, True), counts)
        asked = cluster.head.run(["scontrol", "show", "job", "-d", batch.id])
        for host, count in counts.items():
            self.assertLessEqual(count, {"node-1": 4, "node-2": 2, "node-3": 1}[host], asked)

    def test_slots_are_the_cards_of_each_node_where_no_tasks_are_asked_for(self) -> None:
        cluster = self.slurm([4, 4], [3, 3]).cluster
        self.write_job("echo here\n")
        for options, slots in (("--gpus-per-node=3", 3), ("--gpus-per-node=gaudi:2", 2), ("--gres=gpu:3", 3), ("", 1),
                               ("--gpus-per-node=3 --ntasks-per-node=2", 2)):
            batch = self.sbatch(cluster, script_of_the_documents(f"--nodes=2 {options}"))
            self.assertEqual((options, batch.wait()), (options, 0), batch.text)
            self.assertEqual(self.places(batch.text), {"node-1": slots, "node-2": slots}, options)
        self.assert_nothing_left(cluster)

    def test_scancel_leaves_nothing_on_any_node(self) -> None:
        cluster = self.slurm([2, 2, 2, 2]).cluster
        self.write_job(WAITING)
        batch = self.sbatch(cluster, script_of_the_documents("--nodes=4 --ntasks-per-node=2"))
        batch.started(8)
        cluster.head.run(["scancel", batch.id], user=ALICE)
        batch.wait()
        self.assertIn("JobState=CANCELLED", cluster.head.run(["scontrol", "show", "job", batch.id]))
        self.assert_nothing_left(cluster)

    def test_no_rank_outlives_a_sigkill_of_the_job(self) -> None:
        cluster = self.slurm([1, 1]).cluster
        self.write_job(WAITING)
        batch = self.sbatch(cluster, script_of_the_documents("--nodes=2 --ntasks-per-node=1"))
        batch.started(2)
        cluster.head.run(["scancel", "--signal=KILL", "--full", batch.id], user=ALICE)
        self.assertNotEqual(batch.wait(), 0, batch.text)
        self.assert_no_process_left(cluster.nodes)

    def test_agents_that_srun_kills_take_their_ranks_along(self) -> None:
        """scancel of a step, and srun that is killed, send SIGKILL to the agents."""
        cluster = self.slurm([1, 1]).cluster
        self.write_job(WAITING)
        batch = self.sbatch(cluster, script_of_the_documents("--nodes=2 --ntasks-per-node=1"))
        batch.started(2)
        cluster.head.run(["scancel", f"{batch.id}.0"], user=ALICE)
        until(lambda: not any(node.processes("rank.sh") or node.processes("muster-shim") for node in cluster.nodes), 30,
              lambda: batch.text)
        self.assertEqual(batch.wait(), 121, batch.text)
        self.assertIn("is lost: no word from it", batch.text)
        self.assert_no_process_left(cluster.nodes)

    def test_agents_that_are_told_to_leave_stop_their_ranks_and_say_so(self) -> None:
        cluster = self.slurm([1, 1]).cluster
        self.write_job(WAITING)
        batch = self.sbatch(cluster, script_of_the_documents("--nodes=2 --ntasks-per-node=1"))
        batch.started(2)
        cluster.head.run(["scancel", "--signal=TERM", f"{batch.id}.0"], user=ALICE)
        self.assertNotEqual(batch.wait(), 0, batch.text)
        self.assertNotIn("is lost", batch.text)
        self.assert_nothing_left(cluster)

    def test_a_coordinator_that_stays_uses_the_nodes_of_each_allocation_and_no_other(self) -> None:
        cluster = self.slurm([1, 1, 1]).cluster
        head, outside = cluster.head, cluster.nodes[2]
        alice = {"user": ALICE, "cwd": "/home/alice"}
        head.run(["coordinator", "init"], **alice)
        head.start(["coordinator", "serve"], **alice).says("coordinator serves")
        head.run(["coordinator", "token", "create", "--nodes", "3", "--token-file", "token"], **alice)
        outside.run(["agent", "join", "head:7443", "--token-file", "token"], **alice)
        outside.start(["agent", "run"], **alice).says("session opened")
        account = head.run(["id", "-un"], **alice).strip()  # The machine's /etc/passwd may have another name for her number.
        told = head.run(["coordinator", "user", "add", account], **alice)
        head.run(["coordinator", "join", "head:7443", re.search(r"tk1\.\S+", told).group(0)], **alice)
        self.write_job("hostname >> starts; echo here\n")
        for turn in (1, 2):
            batch = self.sbatch(cluster, script_of_the_documents("--nodes=2 --ntasks-per-node=1 --exclude=node-3", 1))
            self.assertEqual(batch.wait(), 0, batch.text)
            self.assertEqual(self.places(batch.text), {"node-1": 1, "node-2": 1}, turn)
            self.assert_no_process_left(cluster.nodes[:2])
        self.assertTrue(outside.processes("agent\0run"))
        with open(f"{HOME}/starts", encoding="ascii") as stream:
            self.assertEqual(sorted(stream.read().split()), ["node-1", "node-1", "node-2", "node-2"])
