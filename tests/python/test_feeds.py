"""Iterators over what a coordinator tells: closed from anywhere, interrupted, broken, and forked away from."""

import dataclasses
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import unittest

import doubles
import sandbox

import grpc
import muster
from muster import FrameKind, JobState

TEXTS = [b"line %d" % number for number in range(10)]
LOG = b"".join(doubles.frame(FrameKind.STDOUT, text + b"\n") for text in TEXTS)
# What a process does that was forked while its parent had a client; it must not hang.
FORKED = """
import os, sys
import muster
target, how = sys.argv[1:]
client = muster.Client(target)
lines = client.logs("j", follow=True)
if how != "unused":
    next(lines)
if how == "closed":
    client.close()
pid = os.fork()
if pid == 0:
    def said(what):
        try:
            return what() and "fine"
        except muster.MusterError as error:
            return f"{type(error).__name__}"
    heard = [said(lambda: client.get("j")), said(lambda: next(lines)), said(lambda: muster.Client(target).logs("j").__next__())]
    client.close()
    del client, lines
    print(*heard, flush=True)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
if how != "closed":
    print(len(list(lines)), "left")
"""


class Closing(unittest.TestCase):
    """Against a real coordinator, and jobs that say nothing more."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = sandbox.Cluster()
        cls.addClassCleanup(cls.cluster.close)

    def setUp(self):
        self.client = muster.Client(self.cluster.target)
        self.addCleanup(self.client.close)
        self.job = self.client.submit(hosts=[muster.Host("node-1", slots=1)], cwd=self.cluster.folder,
                                      command=["/bin/sh", "-c", "echo ready; while :; do sleep 0.05; done"])

        def end():
            with muster.Client(self.cluster.target) as client:
                client.cancel(self.job, grace=0)
                client.wait(self.job, timeout=sandbox.PATIENCE)
        self.addCleanup(end)

    def reading(self, feed):
        """A thread that reads the feed, what it gets, and an event that says that it has got something."""
        got, some = [], threading.Event()

        def read():
            try:
                for one in feed:
                    got.append(one)
                    some.set()
                got.append("end")
            except BaseException as error:  # What ends a thread is what the test is about.
                got.append(error)
        thread = threading.Thread(target=read)
        thread.start()
        self.assertTrue(some.wait(sandbox.PATIENCE))
        return thread, got

    def test_by_another_thread_ends_the_loop(self):
        for make in (lambda: self.job.logs(follow=True), self.job.watch, lambda: self.job.log_pieces(follow=True)):
            feed = make()
            thread, got = self.reading(feed)
            self.assertFalse(feed.closed)
            channels = {use: list(lanes) for use, lanes in self.client._connection.channels._lanes.items()}
            feed.close()
            thread.join(sandbox.PATIENCE)
            self.assertEqual(self.client._connection.channels._lanes, channels, "the connection stays for others")
            self.assertEqual(got[-1], "end")
            self.assertTrue(feed.closed)
            self.assertEqual(list(feed), [])

    def test_while_the_coordinator_is_away_ends_the_loop(self):
        lines = self.job.logs(follow=True)
        thread, got = self.reading(lines)
        self.cluster.end_coordinator()
        try:
            lines.close()
            thread.join(sandbox.PATIENCE)
            self.assertEqual(got[-1], "end")
        finally:
            self.cluster.serve()
            self.cluster.await_nodes()

    def test_the_client_is_told_to_who_reads(self):
        thread, got = self.reading(self.job.logs(follow=True))
        self.client.close()
        thread.join(sandbox.PATIENCE)
        self.assertIsInstance(got[-1], muster.Cancelled)

    def test_by_with_and_by_forgetting_leaves_no_thread(self):
        before = threading.active_count()
        with self.job.logs(follow=True) as lines:
            self.assertEqual(next(lines).text, b"ready")
            raised = threading.active_count()
        sandbox.wait_until("the thread of the stream is gone", lambda: threading.active_count() == before)
        self.assertGreater(raised, before)
        lines = self.job.logs(follow=True)
        next(lines)
        del lines
        gc.collect()
        sandbox.wait_until("the thread of the stream is gone", lambda: threading.active_count() == before)
        with muster.Client(self.cluster.target) as client:
            next(client.watch(self.job))
        sandbox.wait_until("the threads of the client are gone", lambda: threading.active_count() == before)

    def test_jobs_are_values(self):
        """They can be taken apart, copied and sent to another process, which then has to name its own client."""
        job = self.job.refresh()
        self.assertEqual(dataclasses.asdict(job)["job_id"], job.job_id)
        copy = pickle.loads(pickle.dumps(job))
        self.assertEqual(copy, job)
        with self.assertRaisesRegex(ValueError, "no connection: use Client.job"):
            copy.refresh()
        self.assertEqual(self.client.get(copy).job_id, job.job_id)
        self.assertIn(self.client.job(job.job_id).refresh().state, (JobState.PREPARING, JobState.RUNNING, JobState.PENDING))


class ManyAtOnce(unittest.TestCase):
    def test_jobs_are_followed_by_threads_with_one_client(self):
        cluster = sandbox.Cluster(slots=12)
        self.addCleanup(cluster.close)
        problems = []

        def one(number):
            try:
                job = client.submit(hosts=[muster.Host(f"node-{number % 2 + 1}", selected_slots=[number // 2])], cwd=cluster.folder,
                                    command=["/bin/sh", "-c", f"i=0; while [ $i -lt 50 ]; do echo {number} $i; i=$((i + 1)); done"])
                lines = job.logs(follow=True)
                texts = [line.text for line in lines]
                if texts != [b"%d %d" % (number, i) for i in range(50)] or lines.lost_bytes or job.wait(timeout=60).exit_code != 0:
                    problems.append((number, job.refresh(), texts))
            except BaseException as error:  # Told by the main thread.
                problems.append((number, error))

        with muster.Client(cluster.target) as client:
            threads = [threading.Thread(target=one, args=(number,)) for number in range(24)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(problems, [])


    def test_more_streams_than_one_connection_has_are_read(self):
        """And calls do not wait for any of them."""
        cluster = sandbox.Cluster()
        self.addCleanup(cluster.close)
        with muster.Client(cluster.target) as client:
            job = client.submit(hosts=[muster.Host("node-1", slots=1)], cwd=cluster.folder,
                                command=["/bin/sh", "-c", "echo ready; while ! [ -e go ]; do sleep 0.05; done; echo end"])
            outputs = [job.logs(follow=True) for _ in range(100)]
            changes = [job.watch() for _ in range(100)]
            self.assertEqual({next(lines).text for lines in outputs}, {b"ready"})
            self.assertEqual({next(feed).job.job_id for feed in changes}, {job.job_id})
            self.assertIs(client.get(job).state, JobState.RUNNING)
            cluster.end_coordinator()
            cluster.serve()
            cluster.write("go", "")
            self.assertEqual({tuple(line.text for line in lines) for lines in outputs}, {(b"end",)})
            self.assertEqual({list(feed)[-1].job.state for feed in changes}, {JobState.SUCCEEDED})
            self.assertEqual({lane.streams for lanes in client._connection.channels._lanes.values() for lane in lanes}, {0})


class Interrupted(unittest.TestCase):
    def test_by_ctrl_c_go_on_where_they_were(self):
        """The signal comes when the first half was read, and the thread waits for the second."""
        release = threading.Event()
        jobs = doubles.Jobs(LOG)

        def on_read(number, context):
            if number == 1:
                sandbox.wait_until("the first half was read", lambda: len(got) >= len(TEXTS) // 2 - 1)
                os.kill(os.getpid(), signal.SIGINT)
                release.wait(sandbox.PATIENCE)
        jobs.on_read = on_read
        got = []
        self.addCleanup(release.set)
        with doubles.serving(jobs) as target, muster.Client(target) as client:
            lines = client.logs("j", follow=True)
            with self.assertRaises(KeyboardInterrupt):
                for line in lines:
                    got.append(line.text)
            got += [line.text for line in lines]
            release.set()
        self.assertEqual(got, TEXTS)
        self.assertEqual(len(jobs.begins), 2)
        self.assertGreater(jobs.begins[1], 0)

    def test_by_an_error_go_on_where_they_were(self):
        def on_read(number, context):
            if number == 1:
                context.abort(grpc.StatusCode.UNAVAILABLE, "going away")
            if number == 2:
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too much")
        with doubles.serving(doubles.Jobs(LOG, on_read)) as target, muster.Client(target, reconnect=0) as client:
            lines, got = client.logs("j"), []
            for kind in (muster.Unavailable, muster.ResourceExhausted):
                with self.assertRaises(kind):
                    for line in lines:
                        got.append(line.text)
            self.assertTrue(0 < len(got) < len(TEXTS))
            got += [line.text for line in lines]
            self.assertEqual(got, TEXTS)
            self.assertTrue(lines.outputs[0, 1].ended)

    def test_go_on_from_their_positions_in_another_process(self):
        with doubles.serving(doubles.Jobs(LOG)) as target:
            with muster.Client(target) as client, client.log_pieces("j") as pieces:
                first = next(pieces)
                positions = pickle.loads(pickle.dumps(pieces.positions))
            with muster.Client(target) as client:
                rest = list(client.log_pieces("j", begin=positions))
        self.assertEqual(first.data + b"".join(piece.data for piece in rest), LOG)

    def test_calls_that_nobody_answers_end_in_time(self):
        release = threading.Event()
        self.addCleanup(release.set)

        class Silent(doubles.Jobs):
            def GetJob(self, request, context):
                release.wait(sandbox.PATIENCE)
                context.abort(grpc.StatusCode.INTERNAL, "too late")
        with doubles.serving(Silent()) as target, muster.Client(target, timeout=0.1) as client:
            with self.assertRaises(TimeoutError) as caught:
                client.get("j")
            release.set()
        self.assertIsInstance(caught.exception, muster.DeadlineExceeded)


class Forked(unittest.TestCase):
    def test_processes_are_told_instead_of_waiting_for_ever(self):
        for how, environment, said in (
                ("open", {}, ["FailedPrecondition FailedPrecondition FailedPrecondition", "9 left"]),
                ("open", {"GRPC_ENABLE_FORK_SUPPORT": "1"}, ["FailedPrecondition FailedPrecondition fine", "9 left"]),
                ("unused", {}, ["FailedPrecondition FailedPrecondition fine", "10 left"]),
                ("closed", {}, ["FailedPrecondition FailedPrecondition fine"])):
            with doubles.serving(doubles.Jobs(LOG)) as target:
                done = subprocess.run([sys.executable, "-c", FORKED, target, how], stdout=subprocess.PIPE, timeout=sandbox.PATIENCE,
                                      env={**os.environ, "PYTHONPATH": sandbox.PACKAGE, **environment}, check=True)
            self.assertEqual(done.stdout.decode().splitlines(), said, f"{how} {environment}")


class Errors(unittest.TestCase):
    def test_are_one_family_and_can_be_sent_to_other_processes(self):
        from muster import errors
        from muster.shell_words import ShellSyntaxError
        kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.MusterError)]
        self.assertGreaterEqual(len(kinds), 14)
        for error in [*(kind("what\nand how") for kind in kinds), errors.error_of("DATA_LOSS", "x"), ShellSyntaxError("y"),
                      muster.FrameError("no frame", 7)]:
            copy = pickle.loads(pickle.dumps(error))
            self.assertIsInstance(error, muster.MusterError)
            self.assertEqual(str(error), error.message)
            self.assertEqual((type(copy), str(copy), copy.code, copy.message), (type(error), str(error), error.code, error.message))
        self.assertEqual(pickle.loads(pickle.dumps(muster.FrameError("no frame", 7))).offset, 7)
        for kind, counterpart in ((muster.Unavailable, ConnectionError), (muster.PermissionDenied, PermissionError),
                                  (muster.DeadlineExceeded, TimeoutError), (muster.InvalidArgument, ValueError),
                                  (muster.NotFound, LookupError), (muster.FrameError, ValueError)):
            self.assertTrue(issubclass(kind, counterpart))


if __name__ == "__main__":
    unittest.main()
