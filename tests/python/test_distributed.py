"""DistributedRunner with real scripts: what is run, what is returned, and what becomes of it under signals."""

import contextlib
import inspect
import io
import json
import os
import signal
import subprocess
import sys
import unittest

import sandbox

from muster.distributed import DistributedRunner
from muster.programs import find_coordinator

# Says what it was told, into a file for each rank.
SCRIPT = """
import json, os, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "MODEL", "MY_LD_PRELOAD", "MUSTER_NODE")
told = {"argv": sys.argv[1:], "python": sys.executable, "env": {name: os.environ.get(name) for name in names}}
with open(f"said.{os.environ['RANK']}", "w") as stream:
    json.dump(told, stream)
if "--exit" in sys.argv:
    sys.exit(int(sys.argv[sys.argv.index("--exit") + 1]) if os.environ["RANK"] == "1" else 0)
"""
# Ends only when it is told to: writes its process id first, and what it got in the end.
WAITER = """
import os, signal, sys
name = f"{sys.argv[1]}.{os.environ['RANK']}"
def end(number, frame):
    os.rename(name, name + ".ended")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
with open(name + ".new", "w") as stream:
    stream.write(str(os.getpid()))
os.rename(name + ".new", name)
while True:
    signal.pause()
"""
# What a user has: a script that runs the runner, and says how it came out.
USER = """
import sys
from muster.distributed import DistributedRunner
runner = DistributedRunner(command_list=["waiter.py {name}", "script.py"], world_size=2)
try:
    code = runner.run()
except KeyboardInterrupt:
    print("interrupted")
    sys.exit(77)
print("returned", code)
sys.exit(code)
"""


class WithSandbox(unittest.TestCase):
    def setUp(self):
        self.box = self.make_box()
        self.addCleanup(self.box.close)
        self.box.write("script.py", SCRIPT)
        self.box.write("waiter.py", WAITER)
        entered = self.box.entered()
        entered.__enter__()
        self.addCleanup(entered.__exit__, None, None, None)

    def make_box(self):
        return sandbox.Sandbox()

    def said(self, rank):
        return json.loads(self.box.read(f"said.{rank}"))


class Runner(WithSandbox):
    def test_runs_a_script_on_every_rank_and_returns_none(self):
        for options in ({}, {"use_mpi": True}, {"use_deepspeed": True}, {"use_env": True, "map_by": "slot"}):
            runner = DistributedRunner(command_list=["script.py --lr 1e-3 'a b' \"\" '$x;'"], world_size=2, **options)
            self.assertIsNone(runner.run())
            for rank in (0, 1):
                said = self.said(rank)
                self.assertEqual(said["argv"], ["--lr", "1e-3", "a b", "", "$x;"])
                self.assertEqual(said["python"], sys.executable)
                self.assertEqual((said["env"]["RANK"], said["env"]["LOCAL_RANK"], said["env"]["WORLD_SIZE"]),
                                 (str(rank), str(rank), "2"))
                os.remove(f"said.{rank}")

    def test_runs_one_rank_by_default(self):
        self.assertIsNone(DistributedRunner(["script.py"]).run())
        self.assertEqual((self.said(0)["env"]["WORLD_SIZE"], self.said(0)["argv"]), ("1", []))

    def test_runs_modules_and_lists_of_words(self):
        self.box.write("module.py", SCRIPT)
        self.assertIsNone(DistributedRunner(["-m module x"]).run())
        self.assertEqual(self.said(0)["argv"], ["x"])
        self.assertIsNone(DistributedRunner([["script.py", "*", "$(x)", "a\nb", b"\xff", "--python"]]).run())
        self.assertEqual(self.said(0)["argv"], ["*", "$(x)", "a\nb", "\udcff", "--python"])

    def test_returns_the_first_status_that_is_not_zero_and_leaves_out_the_rest(self):
        runner = DistributedRunner(["script.py first", "script.py --exit 3", "script.py third"], world_size=2)
        self.assertEqual(runner.run(), 3)
        self.assertEqual(self.said(1)["argv"], ["--exit", "3"])

    def test_tells_signals_as_shells_do(self):
        self.box.write("killed.py", "import os; os.kill(os.getpid(), 9)")
        self.assertEqual(DistributedRunner(["killed.py"]).run(), 137)

    def test_says_that_a_script_is_not_there(self):
        self.assertEqual(DistributedRunner(["missing.py"]).run(), 120)

    def test_uses_the_port_that_it_is_given(self):
        import socket
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.assertIsNone(DistributedRunner(["script.py"], world_size=2, master_port=port).run())
        self.assertEqual(self.said(1)["env"]["MASTER_PORT"], str(port))

    def test_puts_its_variables_into_the_environment_and_takes_them_back(self):
        os.environ["MY_LD_PRELOAD"] = "old.so"
        runner = DistributedRunner(["script.py"])
        runner._model_env_vars.update(MODEL="a=b c", MY_LD_PRELOAD="new.so")
        self.assertIsNone(runner.run())
        self.assertEqual(self.said(0)["env"]["MODEL"], "a=b c")
        self.assertEqual(self.said(0)["env"]["MY_LD_PRELOAD"], "new.so:old.so")
        self.assertEqual((os.environ.get("MODEL"), os.environ["MY_LD_PRELOAD"]), (None, "old.so"))
        failing = DistributedRunner(["missing.py"])
        failing._model_env_vars.update(MODEL="x", MY_LD_PRELOAD="new.so")
        self.assertEqual(failing.run(), 120)
        self.assertEqual((os.environ.get("MODEL"), os.environ["MY_LD_PRELOAD"]), (None, "old.so"))

    def test_refuses_what_does_not_go_together(self):
        for options, why in (
                ({"use_mpi": True, "use_deepspeed": True}, "exclude each other"),
                ({"hostfile": "hosts"}, "needs use_deepspeed=True"),
                ({"hostfile": "hosts", "use_mpi": True}, "needs use_deepspeed=True"),
                ({"hostfile": "missing", "use_deepspeed": True}, "hostfile .*missing")):
            with self.assertRaisesRegex(ValueError, why):
                DistributedRunner(["script.py"], **options)
        for command, why in (("script.py; rm -rf x", "operator ;"), ("script.py $HOME", r"a \$"), ("", "empty"), ([], "empty"),
                             ("-m", "needs a module"), ("-c print", "begins with a script")):
            with self.assertRaisesRegex(ValueError, why):
                DistributedRunner([command])
        with self.assertRaisesRegex(ValueError, "list of commands"):
            DistributedRunner("script.py")
        with self.assertRaisesRegex(ValueError, "master_port is a port from 1 to 65535, got 70000"):
            DistributedRunner(["script.py"], master_port=70000)

    def test_refuses_what_is_of_another_type(self):
        for command_list, options, why in (
                (None, {}, "command_list is a list of commands, got NoneType"),
                ([5], {}, r"command_list\[0\] is a text, or a list of words, got int"),
                ([b"script.py"], {}, r"command_list\[0\] is a text, or a list of words, got bytes"),
                (["a.py", ["b.py", 1e-3]], {}, r"command_list\[1\]\[1\] is text, got float"),
                (["a.py"], {"world_size": 2.5}, "world_size is an integer, got 2.5"),
                (["a.py"], {"world_size": "2"}, "world_size is an integer, got '2'"),
                (["a.py"], {"master_port": "29500"}, "master_port is an integer"),
                (["a.py"], {"hostfile": 5, "use_deepspeed": True}, "not int")):
            with self.assertRaisesRegex(TypeError, why):
                DistributedRunner(command_list, **options)

    def test_has_the_constructor_of_the_other_one(self):
        """Names, order and defaults, as section by section in docs/python.md."""
        parameters = list(inspect.signature(DistributedRunner).parameters.values())
        self.assertEqual([one.name for one in parameters], [
            "command_list", "world_size", "hostfile", "use_mpi", "use_deepspeed", "master_port", "use_env", "map_by", "multi_hls"])
        self.assertEqual([one.default for one in parameters[1:]], [1, None, False, False, 29500, False, "socket", None])
        self.assertEqual(len(parameters[0].default), 0)

    def test_prints_each_command_before_it_runs_without_values(self):
        runner = DistributedRunner(["script.py 'a b'"])
        runner._model_env_vars["MODEL"] = "secret"
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            runner.run()
        self.assertRegex(said.getvalue(), r"^DistributedRunner runs: \S*/coordinator spawn .*script\.py 'a b'\n$")
        self.assertNotIn("secret", said.getvalue())

    def test_refuses_hostfiles_with_mistakes(self):
        for text, why in (("a slots=8x\n", r"hosts:1: .*8x"), ("# none\n", "hosts"), ("a slots=1\na slots=1\n", "hosts:2")):
            self.box.write("hosts", text)
            with self.assertRaisesRegex(ValueError, why):
                DistributedRunner(["script.py"], hostfile="hosts", use_deepspeed=True)
        self.box.write("hosts", "a slots=2\nb slots=2\n")
        with self.assertRaisesRegex(ValueError, "8 does not fit the hosts, which give 4 ranks"):
            DistributedRunner(["script.py"], hostfile="hosts", use_deepspeed=True, world_size=8)

    def test_warns_of_what_is_deprecated(self):
        with self.assertWarnsRegex(FutureWarning, "multi_hls"):
            DistributedRunner(["script.py"], multi_hls=True)

    def test_needs_a_coordinator_for_a_hostfile(self):
        self.box.write("hosts", "a slots=2\n")
        self.assertEqual(DistributedRunner(["script.py"], hostfile="hosts", use_deepspeed=True).run(), 122)

    def test_says_that_the_program_is_not_there(self):
        os.environ["MUSTER_COORDINATOR"] = self.box.path("nothing")
        with self.assertRaisesRegex(RuntimeError, "MUSTER_COORDINATOR: .*nothing is no program"):
            DistributedRunner(["script.py"]).run()
        del os.environ["MUSTER_COORDINATOR"]
        with self.assertRaisesRegex(RuntimeError, "null byte"):
            DistributedRunner([["script.py", "a\0b"]]).run()
        self.assertEqual(find_coordinator(), os.path.join(sandbox.BIN, "coordinator"))


class Hostfile(WithSandbox):
    def make_box(self):
        return sandbox.Cluster()

    def test_runs_on_its_hosts_as_the_seeds_snippet_does(self):
        self.box.write("hostfile", "node-1 slots=2\nnode-2 slots=2\n")
        distributed_runner = DistributedRunner(
            command_list=["script.py --model_name_or_path gpt2-xl --do_train"],
            hostfile="hostfile",
            use_deepspeed=True,
        )
        distributed_runner._model_env_vars["MODEL"] = "secret"
        ret_code = distributed_runner.run()
        self.assertIsNone(ret_code)
        said = [self.said(rank) for rank in range(4)]
        self.assertEqual([one["env"]["MUSTER_NODE"] for one in said], ["node-1"] * 2 + ["node-2"] * 2)
        self.assertEqual({one["env"]["WORLD_SIZE"] for one in said}, {"4"})
        self.assertEqual({one["env"]["MODEL"] for one in said}, {"secret"})
        self.assertEqual(len({one["env"]["MASTER_PORT"] for one in said}), 1)
        self.assertEqual({tuple(one["argv"]) for one in said}, {("--model_name_or_path", "gpt2-xl", "--do_train")})
        self.assertEqual(DistributedRunner(["script.py --exit 9"], hostfile="hostfile", use_deepspeed=True, world_size=4).run(), 9)


class Signals(WithSandbox):
    def start_user(self, name):
        """A user's script whose ranks run, and their process ids."""
        self.box.write("user.py", USER.replace("{name}", name))
        user = self.box.start("/usr/bin/python3", "user.py")
        pids = [int(sandbox.wait_until(f"rank {rank} runs", lambda: self.box.read(f"{name}.{rank}"))) for rank in (0, 1)]
        return user, pids

    def await_gone(self, pids):
        sandbox.wait_until("no rank is left", lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))

    def test_that_ask_to_end_end_the_job_first(self):
        for number, status, said in ((signal.SIGTERM, -signal.SIGTERM, ""), (signal.SIGHUP, -signal.SIGHUP, ""),
                                     (signal.SIGINT, 77, "interrupted\n")):
            name = number.name
            user, pids = self.start_user(name)
            user.send_signal(number)
            out, err = user.communicate(timeout=sandbox.PATIENCE)
            # The ranks had their grace, and were gone before the script went on.
            self.assertEqual([os.path.exists(f"/proc/{pid}") for pid in pids], [False, False])
            self.assertTrue(os.path.exists(f"{name}.0.ended") and os.path.exists(f"{name}.1.ended"), err.decode())
            self.assertEqual(user.returncode, status, err.decode())
            self.assertIn(said, out.decode())
            self.assertNotIn("returned", out.decode())
            self.assertFalse(os.path.exists("said.0"), "the second command was run")

    def test_of_a_terminal_reach_the_job_once(self):
        """Ctrl-C goes to the whole foreground group: twice to the command would be SIGKILL for the ranks."""
        self.box.write("user.py", USER.replace("{name}", "group"))
        user = self.box.start("/usr/bin/python3", "user.py", start_new_session=True)
        for rank in (0, 1):
            sandbox.wait_until("the ranks run", lambda rank=rank: self.box.read(f"group.{rank}"))
        os.killpg(user.pid, signal.SIGINT)
        _, err = user.communicate(timeout=sandbox.PATIENCE)
        self.assertEqual(user.returncode, 77, err.decode())
        self.assertTrue(os.path.exists("group.0.ended") and os.path.exists("group.1.ended"), err.decode())

    def test_that_kill_the_script_leave_nothing_behind(self):
        user, pids = self.start_user("killed")
        user.kill()
        user.communicate()
        self.await_gone(pids)
        self.assertTrue(os.path.exists("killed.0.ended"))

    def test_that_kill_the_command_leave_nothing_behind(self):
        user, pids = self.start_user("lost")
        with open(f"/proc/{user.pid}/task/{user.pid}/children", encoding="ascii") as stream:
            command = int(stream.read().split()[0])
        os.kill(command, signal.SIGKILL)
        out, _ = user.communicate(timeout=sandbox.PATIENCE)
        self.assertEqual((user.returncode, out.decode().splitlines()[-1]), (137, "returned 137"))
        self.await_gone(pids)

    def test_whose_handler_raises_leave_nothing_behind(self):
        self.box.write("user.py", """
import os, signal
from muster.distributed import DistributedRunner
class Late(BaseException):
    pass
def late(number, frame):
    raise Late
signal.signal(signal.SIGUSR1, late)
try:
    DistributedRunner(["waiter.py raised"], world_size=2).run()
except Late:
    print("late", all(os.path.exists(f"raised.{rank}.ended") for rank in (0, 1)))
""")
        user = self.box.start(sys.executable, "user.py")
        pids = [int(sandbox.wait_until(f"rank {rank} runs", lambda rank=rank: self.box.read(f"raised.{rank}"))) for rank in (0, 1)]
        user.send_signal(signal.SIGUSR1)
        said, _ = user.communicate(timeout=sandbox.PATIENCE)
        self.assertIn(b"late True", said)
        self.await_gone(pids)

    def test_for_a_handler_of_the_script_reach_it_after_the_end(self):
        """In a thread, too, the runner works; there it leaves signals alone."""
        self.box.write("user.py", """
import signal, sys, threading
from muster.distributed import DistributedRunner
signal.signal(signal.SIGTERM, lambda number, frame: print("handled", flush=True))
codes = []
thread = threading.Thread(target=lambda: codes.append(DistributedRunner(["script.py"], world_size=2).run()))
thread.start()
thread.join()
print(codes, flush=True)
print(DistributedRunner(["waiter.py handled", "script.py"]).run())
""")
        user = self.box.start("/usr/bin/python3", "user.py")
        sandbox.wait_until("the rank runs", lambda: self.box.read("handled.0"))
        user.terminate()
        out, err = user.communicate(timeout=sandbox.PATIENCE)
        self.assertIn("[None]\n", out.decode(), err.decode())
        self.assertEqual(out.decode().splitlines()[-2:], ["handled", "143"])
        self.assertEqual(user.returncode, 0)

    def test_as_the_program_starts_are_not_lost(self):
        """Ctrl-C just before the leash becomes the program ends it, without a trace of Python's."""
        code = ("import os, runpy, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); start = os.execv\n"
                "os.execv = lambda *words: (signal.raise_signal(signal.SIGINT), start(*words))\n"
                "sys.argv = ['_leash.py', str(os.getppid()), '/bin/echo', 'started']\n"
                f"runpy.run_path({os.path.join(sandbox.PACKAGE, 'muster', '_leash.py')!r}, run_name='__main__')")
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (-signal.SIGINT, b"", b""))


class Imports(unittest.TestCase):
    """Of packages that are not there, or too old."""

    def said(self, code, path=sandbox.PACKAGE):
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              env=dict(os.environ, PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1"))
        return done.returncode, done.stdout.decode(), done.stderr.decode().splitlines()[-1:]

    def test_need_neither_grpc_nor_protobuf_for_the_runner(self):
        code = ("import sys; sys.modules['grpc'] = sys.modules['google'] = None; import muster.distributed, muster; "
                "print(muster.find_coordinator, muster.__version__, muster.MusterError, muster.DistributedRunner)")
        self.assertEqual(self.said(code)[0], 0, self.said(code))

    def test_say_what_is_missing(self):
        for module, package in (("grpc", "grpcio"), ("google.protobuf", "protobuf")):
            status, _, said = self.said(f"import sys; sys.modules['{module}'] = None; import muster; muster.Client")
            self.assertEqual(status, 1)
            self.assertRegex(said[0], f"ImportError: muster needs {package}, .*pip install {package}, or apt install python3-{package}")

    def test_say_what_is_too_old(self):
        for module, package, version, wanted in (("grpc", "grpcio", "1.30.2", "1.51"), ("google.protobuf", "protobuf", "3.12.4", "4.21")):
            for use in ("import muster; muster.Client", "import muster.v1.job_pb2"):
                status, _, said = self.said(f"import {module}; {module}.__version__ = '{version}'; {use}")
                self.assertEqual(status, 1)
                self.assertRegex(said[0], f"ImportError: muster needs {package} {wanted} or newer and found {version} at .*: pip install '"
                                          f"{package}>={wanted}', or apt install python3-{package}")


if __name__ == "__main__":
    unittest.main()
