"""The client against a coordinator and two agents with real jobs."""

import os
import signal
import threading
import unittest

import sandbox

import muster
from muster import Cause, JobState, RankState, Stream


class WithCluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = sandbox.Cluster()
        cls.addClassCleanup(cls.cluster.close)
        cls.client = muster.Client(cls.cluster.target)
        cls.addClassCleanup(cls.client.close)

    def submit(self, script, **fields):
        """One rank on node-1 unless `hosts` says something else."""
        fields.setdefault("hosts", [muster.Host("node-1", slots=1)])
        return self.client.submit(command="/bin/sh", args=["-c", script], cwd=self.cluster.folder, **fields)

    def path(self, name):
        return self.cluster.path(name)


class Jobs(WithCluster):
    def test_run_and_tell_how_they_ended(self):
        job = self.submit('echo "out $RANK"; echo "err $RANK" >&2; printf tail; test $RANK = 0',
                          hosts=[muster.Host("node-1", slots=1), muster.Host("node-2", slots=1)], name="pair", grace=60)
        self.assertEqual((job.name, job.exit_code, job.world_size), ("pair", None, 2))
        ended = job.wait(timeout=60)
        self.assertIs(ended.state, JobState.FAILED)
        self.assertIs(ended.cause, Cause.RANK_FAILED)
        self.assertEqual(ended.exit_code, 1)
        self.assertEqual((ended.first_failure.rank, ended.first_failure.host, ended.first_failure.status.exit_code),
                         (1, "node-2", 1))
        self.assertEqual([node.node_id for node in ended.nodes], ["node-1", "node-2"])
        self.assertIs(ended.ranks[1].state, RankState.EXITED)
        self.assertEqual(ended.ranks[1].status.exit_code, 1)
        lines = job.logs(follow=True)
        found = {(line.rank, line.stream, line.text, line.ended) for line in lines}
        self.assertLessEqual({(1, Stream.STDOUT, b"out 1", True), (1, Stream.STDERR, b"err 1", True),
                              (1, Stream.STDOUT, b"tail", False)}, found)
        self.assertEqual(lines.lost_bytes, 0)
        self.assertEqual(lines.outputs[1, 1].written_bytes, len("out 1\nerr 1\ntail"))
        self.assertEqual(self.client.get(job).revision, ended.revision)

    def test_are_planned_without_being_started(self):
        plan = self.client.plan(hosts=["node-1", muster.Host("node-2", slots=1)], script="train.py", args=["a b"], cwd="/w",
                                env={"A": "1", "B": ["x:", muster.Variable("PATH")]}, master_port=4711)
        self.assertEqual((plan.world_size, plan.master_port), (3, 4711))
        self.assertEqual([node.node_id for node in plan.nodes], ["node-1", "node-2"])
        self.assertEqual(plan.nodes[0].argv, ("python3", "-u", "train.py", "a b"))
        self.assertEqual((plan.nodes[0].env["A"], plan.nodes[0].env["B"], plan.nodes[0].cwd), ("1", "x:${PATH}", "/w"))
        self.assertEqual([rank.env["RANK"] for node in plan.nodes for rank in node.ranks], ["0", "1", "2"])

    def test_get_arguments_and_environment_byte_for_byte(self):
        words = ["", "a b", "*", "$HOME;", b"\xff\xfe", "line\nbreak", "ü"]
        job = self.client.submit(
            hosts=[muster.Host("node-1", slots=1)], command="/usr/bin/python3", cwd=self.cluster.folder,
            env={"BYTES": b"\xfe=x", "JOINED": ["<", muster.Variable("BYTES"), ">"]},
            args=["-c", "import os, sys; print([os.fsencode(w) for w in sys.argv[1:]], os.environb[b'JOINED'])", *words])
        text = b"".join(line.text for line in job.logs(follow=True)).decode()
        self.assertEqual(text, f"{[os.fsencode(word) for word in words]} {b'<' + bytes([0xfe]) + b'=x>'}")

    def test_keep_their_environment_to_themselves_when_they_are_shown(self):
        spec = muster.JobSpec(hosts=["node-1"], script="x.py", cwd="/w", env={"HF_TOKEN": "hf_1234"},
                              node_overrides={"node-1": muster.NodeOverride(env={"HF_TOKEN": "hf_1234"})})
        plan = self.client.plan(spec)
        self.assertEqual(plan.nodes[0].env["HF_TOKEN"], "hf_1234")
        self.assertNotIn("hf_1234", repr(spec) + repr(plan))

    def test_with_the_same_request_id_are_one(self):
        first = self.submit("true", request_id="same")
        self.assertEqual(self.submit("true", request_id="same").job_id, first.job_id)
        self.assertEqual(first.wait(timeout=60).exit_code, 0)

    def test_are_listed_page_by_page(self):
        ids = [self.submit("true").wait(timeout=60).job_id for _ in range(5)]
        listed = [job.job_id for job in self.client.list(page_size=2)]
        self.assertEqual(listed[:5], ids[::-1])
        self.assertEqual(len(listed), len(set(listed)))

    def test_are_cancelled_with_the_reason_of_the_user(self):
        job = self.submit("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
        self.assertEqual(next(job.logs(follow=True)).text, b"ready")
        job.cancel(reason="enough", signal=signal.SIGINT)
        ended = job.wait(timeout=60)
        self.assertIs(ended.state, JobState.CANCELLED)
        self.assertEqual((ended.exit_code, ended.cause), (130, Cause.USER))
        self.assertEqual([line.text for line in job.logs(follow=True)][-1], b"bye")

    def test_are_killed_at_once_when_the_grace_is_zero(self):
        job = self.submit("trap '' TERM; echo ready; while :; do sleep 0.05; done")
        next(job.logs(follow=True))
        job.cancel(grace=0)
        ended = job.wait(timeout=60)
        self.assertEqual((ended.state, ended.ranks[0].status.signal), (JobState.CANCELLED, 9))

    def test_get_signals(self):
        job = self.submit("trap 'echo got; exit 5' USR1; echo ready; while :; do sleep 0.05; done")
        lines = job.logs(follow=True)
        next(lines)
        self.assertEqual(job.signal(signal.SIGUSR1, ranks=(0,)), 1)
        self.assertEqual(next(lines).text, b"got")
        self.assertEqual(job.wait(timeout=60).exit_code, 5)
        with self.assertRaises(muster.FailedPrecondition):
            job.signal(signal.SIGUSR1)

    def test_that_take_too_long_are_told_and_go_on(self):
        job = self.submit("while ! [ -e go.late ]; do sleep 0.01; done")
        with self.assertRaisesRegex(TimeoutError, f"job {job.job_id} has not ended within 0.2"):
            job.wait(timeout=0.2)
        self.cluster.write("go.late", "")
        self.assertEqual(job.wait(timeout=60).exit_code, 0)

    def test_are_watched_from_the_beginning_to_the_end(self):
        job = self.submit("while ! [ -e go.watch ]; do sleep 0.01; done")
        states, revisions = [], []
        for change in job.watch():
            revisions.append(change.job.revision)
            self.assertEqual(len(change.job.nodes), 1)
            if change.is_new_state:
                states.append(change.job.state)
            if change.job.state is JobState.RUNNING:
                self.cluster.write("go.watch", "")
        self.assertEqual(states[-2:], [JobState.RUNNING, JobState.SUCCEEDED])
        self.assertEqual(revisions, sorted(set(revisions)))

    def test_of_a_file_are_read_by_the_program(self):
        self.cluster.write("job.yaml", "hosts: [{host: node-1, slots: 1}]\ncommand: [/bin/sh, -c, 'echo of a file $X']\nenv: {X: y}\n")
        self.cluster.write("bad.yaml", "hosts: [{host: node-1}]\nlr: 1\ncommand: [true]\nargz: [1]\n")
        with self.cluster.entered():
            job = muster.submit_file("job.yaml", "--name", "filed", client=self.client)
            self.assertEqual(job.name, "filed")
            self.assertEqual([line.text for line in job.logs(follow=True)], [b"of a file y"])
            with self.assertRaises(muster.InvalidArgument) as caught:
                muster.submit_file("bad.yaml", client=self.client)
        self.assertEqual([one.split(": ")[0] for one in caught.exception.problems], ["bad.yaml:2", "bad.yaml:4"])


class Example(WithCluster):
    def test_submits_follows_and_ends_with_the_status_of_the_job(self):
        example = os.path.join(sandbox.ROOT, "examples/clients/submit_and_follow.py")
        done = self.cluster.start("/usr/bin/python3", example, "--grep", "^t", "node-1,node-2", "/bin/sh", "-c",
                                  "echo one; echo two; exit 4")
        out, err = done.communicate(timeout=sandbox.PATIENCE)
        self.assertEqual(done.returncode, 4, err.decode())
        self.assertLessEqual(set(out.decode().splitlines()), {"0: two", "1: two"})
        self.assertIn(b"failed, 0 bytes lost", err)


class Logs(WithCluster):
    def test_are_filtered_by_the_coordinator(self):
        job = self.submit('for i in 1 2 3; do echo "$RANK line $i"; echo "$RANK note $i" >&2; done',
                          hosts=[muster.Host("node-1", slots=2)])
        everything = list(job.logs(follow=True))  # Up to the last byte, which may come after the end of the job.
        self.assertEqual(len(everything), 12)

        def texts(**chosen):
            return sorted(line.text.decode() for line in job.logs(**chosen))

        self.assertEqual(len(texts()), 12)
        self.assertEqual(texts(ranks=[1], streams=["stdout"]), ["1 line 1", "1 line 2", "1 line 3"])
        self.assertEqual(texts(grep="note [13]$", ranks=[0]), ["0 note 1", "0 note 3"])
        self.assertEqual(texts(tail_lines=1, streams=["stderr"]), ["0 note 3", "1 note 3"])
        self.assertEqual(texts(since=everything[0].time.replace(year=2099)), [])
        with self.assertRaisesRegex(muster.InvalidArgument, r"grep"):
            texts(grep="(")
        with self.assertRaisesRegex(ValueError, "'stdout' and 'stderr', got 'out'"):
            texts(streams=["out"])

    def test_in_frames_are_those_that_the_coordinator_keeps(self):
        job = self.submit("printf abc; printf def >&2")
        job.wait(timeout=60)
        frames = [entry.frame for entry in job.log_frames(follow=True)]
        self.assertEqual(b"".join(one.data for one in frames if one and one.kind is muster.FrameKind.STDOUT), b"abc")
        self.assertEqual((frames[-2].kind, frames[-2].written_bytes, frames[-1]), (muster.FrameKind.END, 6, None))
        pieces = list(self.client.log_pieces(job, follow=True))
        size = sum(len(piece.data) + piece.zeros for piece in pieces)
        self.assertEqual(self.client.get(job).ranks[0].stored_log_bytes, size)
        rest = list(self.client.log_pieces(job, follow=True, begin=[muster.LogPosition(0, 1, size - 40)]))
        self.assertEqual(sum(len(piece.data) for piece in rest), 40)

    def test_can_be_left_in_the_middle(self):
        job = self.submit("while :; do echo x; sleep 0.01; done")
        lines = job.logs(follow=True)
        next(lines)
        lines.close()
        self.assertEqual(list(lines), [])
        job.cancel(grace=0)
        job.wait(timeout=60)

    def test_of_a_flood_that_was_dropped_are_counted(self):
        """More than the quota while the coordinator is away: lines and gaps together are what was written."""
        job = self.submit("echo ready; while ! [ -e go.flood ]; do sleep 0.01; done; "
                          "i=0; while [ $i -lt 24 ]; do head -c 1000000 /dev/zero | tr '\\0' x; echo; i=$((i + 1)); done; : > flooded",
                          log_quota_bytes=4 << 20)
        lines = job.logs(follow=True)
        self.assertEqual(next(lines).text, b"ready")
        self.cluster.end_coordinator()
        self.cluster.write("go.flood", "")
        sandbox.wait_until("the flood is over", lambda: os.path.exists(self.path("flooded")))
        self.cluster.serve()
        got = len("ready\n") + sum(len(line.text) + line.ended for line in lines)
        account = lines.outputs[0, 1]
        self.assertGreater(account.dropped_bytes, 1 << 20)
        self.assertEqual(got + account.dropped_bytes, account.written_bytes)
        self.assertEqual(account.written_bytes, 6 + 24 * 1_000_001)
        self.assertEqual(lines.lost_bytes, account.dropped_bytes)


class Restarts(WithCluster):
    def test_of_the_coordinator_are_survived_by_all_that_follow(self):
        """Output, watching and waiting go on, and no line comes twice."""
        job = self.submit("i=0; while ! [ -e go.end ]; do echo line $i; i=$((i + 1)); sleep 0.002; done; echo last $i; exit 3")
        waited, watched = [], []
        threads = [threading.Thread(target=lambda: waited.append(job.wait(timeout=60))),
                   threading.Thread(target=lambda: watched.extend(job.watch()))]
        for thread in threads:
            thread.start()
        texts = []
        lines = job.logs(follow=True)
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
            for _ in range(50):
                texts.append(next(lines).text)
            self.cluster.end_coordinator(number)
            # It is gone for longer than one try takes.
            self.assertRaises(muster.Unavailable, self.client.get, job)
            self.cluster.serve()
        self.cluster.write("go.end", "")
        texts += [line.text for line in lines]
        for thread in threads:
            thread.join()
        count = len(texts) - 1
        self.assertEqual(texts, [b"line %d" % i for i in range(count)] + [b"last %d" % count])
        self.assertEqual(lines.lost_bytes, 0)
        self.assertEqual(waited[0].exit_code, 3)
        self.assertEqual(watched[-1].job.state, JobState.FAILED)
        revisions = [change.job.revision for change in watched]
        self.assertEqual(revisions, sorted(set(revisions)))

    def test_lose_no_line_behind_a_tail_that_was_empty(self):
        """What was not there when the reading began is new, also when the coordinator was away in between."""
        for number, (chosen, before) in enumerate([
                ({"tail_lines": 0}, ["old 1", "old 2"]), ({"tail_lines": 0}, []), ({"tail_lines": 1, "grep": "new"}, ["old 1"]),
                ({"tail_lines": 1}, []), ({"tail_bytes": 1}, []), ({"tail_bytes": 1, "streams": ["stdout"]}, ["old 1"])]):
            writes = "".join(f"echo {text}; echo noise >&2; " for text in before)
            job = self.submit(f"{writes}: > began.{number}; while ! [ -e go.{number} ]; do sleep 0.01; done; "
                              f"echo new 1; echo new 2; echo new 3; : > wrote.{number}; while ! [ -e end.{number} ]; do sleep 0.01; done")
            sandbox.wait_until("the rank has begun", lambda: os.path.exists(self.path(f"began.{number}")))
            everything = job.logs(follow=True)
            self.assertEqual(sorted(next(everything).text.decode() for _ in 2 * before), sorted(before + ["noise"] * len(before)))
            pieces = job.log_pieces(follow=True, **chosen)
            texts = []
            thread = threading.Thread(target=lambda: texts.extend(line.text.decode() for line in muster.LogLines(muster.LogFrames(pieces))))
            thread.start()
            sandbox.wait_until("the reader knows where it began", lambda: pieces.positions)
            self.cluster.end_coordinator()
            self.cluster.write(f"go.{number}", "")
            sandbox.wait_until("the rank has written", lambda: os.path.exists(self.path(f"wrote.{number}")))
            self.cluster.serve()
            self.cluster.write(f"end.{number}", "")
            thread.join()
            self.assertEqual([text for text in texts if text.startswith("new")], ["new 1", "new 2", "new 3"], chosen)
            self.assertEqual([line.text.decode() for line in everything], ["new 1", "new 2", "new 3"])
            self.assertEqual(job.wait(timeout=60).exit_code, 0)

    def test_during_a_submit_run_the_job_once(self):
        self.cluster.end_coordinator()
        jobs = []
        thread = threading.Thread(target=lambda: jobs.append(self.submit("echo once >> once")))
        thread.start()
        self.cluster.serve()
        thread.join()
        self.assertEqual(jobs[0].wait(timeout=60).exit_code, 0)
        self.assertEqual(self.cluster.read("once"), "once\n")


class Nodes(WithCluster):
    def test_are_listed_with_what_they_say_of_themselves(self):
        nodes = self.client.nodes()
        self.assertEqual([(node.node_id, node.state, node.facts.slots) for node in nodes],
                         [("node-1", muster.NodeState.ALIVE, (0, 1)), ("node-2", muster.NodeState.ALIVE, (0, 1))])
        self.assertGreater(nodes[0].facts.memory_bytes, 0)
        self.assertIsNotNone(nodes[0].last_seen)


class Errors(WithCluster):
    def test_have_classes_and_all_problems(self):
        with self.assertRaisesRegex(muster.NotFound, "nope"):
            self.client.get("nope")
        with self.assertRaises(muster.InvalidArgument) as caught:
            self.client.submit(hosts=["node-1", "node-1"], script="x.py", cwd="relative")
        self.assertGreaterEqual(len(caught.exception.problems), 2)
        with self.assertRaisesRegex(muster.FailedPrecondition, "no cluster"):
            self.client.members()
        with self.assertRaises(muster.NotFound):
            self.client.wait("nope", timeout=60)

    def test_of_a_coordinator_that_is_not_there_say_where(self):
        with muster.Client(f"unix:{self.path('none.sock')}", reconnect=0) as client:
            with self.assertRaisesRegex(muster.Unavailable, r"none\.sock \(from server\)"):
                client.nodes()
            with self.assertRaises(ConnectionError):
                client.submit(hosts=["a"], command="true")

    def test_after_close_say_so(self):
        client = muster.Client(self.cluster.target)
        client.close()
        with self.assertRaisesRegex(muster.Cancelled, "closed"):
            client.nodes()

    def test_of_a_client_that_is_closed_end_its_streams(self):
        job = self.submit("while :; do sleep 0.05; done")
        client = muster.Client(self.cluster.target)
        seen, ends = threading.Event(), []

        def watch():
            try:
                for _ in client.watch(job.job_id):
                    seen.set()
            except muster.MusterError as error:
                ends.append(error)

        thread = threading.Thread(target=watch)
        thread.start()
        self.assertTrue(seen.wait(60))
        # Also one whose channel is not used for new calls any more.
        client._connection.channels._lanes.clear()
        client.nodes()
        client.close()
        thread.join(60)
        self.assertEqual([type(end) for end in ends], [muster.Cancelled])
        job.cancel(grace=0)
        job.wait(timeout=60)


class Addresses(unittest.TestCase):
    def test_are_found_as_commands_find_them(self):
        box = sandbox.Sandbox()
        self.addCleanup(box.close)
        box.env["XDG_RUNTIME_DIR"] = box.path("run")
        with box.entered():
            os.makedirs("run/muster")
            self.assertEqual(muster.find_server("/a/b"), muster.ServerAddress("unix:/a/b", "server"))
            self.assertEqual(muster.find_server("head:7443").target, "head:7443")
            self.assertEqual(muster.find_server("[::1]:7443").target, "[::1]:7443")
            os.environ["MUSTER_SERVER"] = "unix:/x"
            self.assertEqual(muster.find_server(), muster.ServerAddress("unix:/x", "MUSTER_SERVER"))
            del os.environ["MUSTER_SERVER"]
            box.write("run/muster/coordinator.sock", "")
            self.assertEqual(muster.find_server().target, f"unix:{box.folder}/run/muster/coordinator.sock")
            for bad in ("head", "unix:", "http://head:1", "::1:7443", "head:port"):
                with self.assertRaisesRegex(muster.InvalidArgument, "expected HOST:PORT or unix:/path"):
                    muster.find_server(bad)
            with self.assertRaisesRegex(muster.FailedPrecondition, "coordinator join HOST:PORT TOKEN"):
                muster.Client("head:7443")


class Checks(WithCluster):
    def test_of_nodes_come_as_they_are_found(self):
        found = list(self.client.check_nodes(limit=30))
        nodes = [one for one in found if isinstance(one, muster.CheckedNode)]
        self.assertEqual(sorted((one.host, one.node_id, one.error) for one in nodes), [("node-1", "node-1", ""), ("node-2", "node-2", "")])
        for one in nodes:
            self.assertTrue({"memlock", "open-files", "disk"} <= {result.check for result in one.report.results})
            self.assertNotIn(muster.Verdict.UNKNOWN, {result.verdict for result in one.report.results})
            self.assertTrue(one.report.traits)
        self.assertEqual([type(one) for one in found if one not in nodes], [muster.ClusterCheck])

    def test_are_for_a_job_and_leave_out_what_it_says(self):
        spec = muster.JobSpec(hosts=["node-2"], command="/no/such/program", cwd=self.cluster.folder, skip_checks=["disk"])
        found = [one for one in self.client.check_nodes(["node-1"], spec=spec, limit=30) if isinstance(one, muster.CheckedNode)]
        self.assertEqual([one.host for one in found], ["node-1"])
        verdicts = {result.check: result.verdict for result in found[0].report.results}
        self.assertIs(verdicts["disk"], muster.Verdict.SKIPPED)
        self.assertTrue(any("/no/such/program" in result.message for result in found[0].report.failed))

    def test_of_nodes_that_are_not_there_say_so(self):
        found = [one for one in self.client.check_nodes(["node-1", "node-9"], limit=30) if isinstance(one, muster.CheckedNode)]
        self.assertEqual({one.host: bool(one.error) for one in found}, {"node-1": False, "node-9": True})

    def test_of_the_network_have_a_rate_for_each_direction(self):
        found = [one for one in self.client.check_nodes(network_rounds=1, network_duration=0.1, limit=30)
                 if isinstance(one, muster.CheckedPair)]
        self.assertEqual(sorted((one.sender, one.receiver) for one in found), [("node-1", "node-2"), ("node-2", "node-1")])
        for one in found:
            self.assertIsNotNone(one.rate, one.result)
            self.assertGreater(one.rate.bytes, 0)


if __name__ == "__main__":
    unittest.main()
