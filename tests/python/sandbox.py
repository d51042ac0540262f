"""A cluster of its own for a test: coordinator and agents as processes, in a temporary folder that goes with them."""

import atexit
import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MUSTER_BUILD", os.path.join(ROOT, "build", "release"))
BIN = os.path.join(BUILD, "bin")
PACKAGE = os.path.join(BUILD, "python")
GUARD = os.path.join(ROOT, "tests", "integration", "sandbox", "guard.py")
sys.path.insert(0, PACKAGE)

PATIENCE = 60
# Whoever runs the tests in the background may have Ctrl-C ignored, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def wait_until(what, holds):
    """What `holds` returns, once that is true; AssertionError when it takes too long."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE} s: {what}")
        time.sleep(0.01)  # paces: other processes tell nobody when they have got that far.


@functools.cache
def guard():
    """The input of a process in a session of its own that clears up what is left when this one is killed."""
    process = subprocess.Popen(["/usr/bin/python3", "-I", GUARD], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, bufsize=0, start_new_session=True)
    os.register_at_fork(after_in_child=process.stdin.close)  # Only the end of this process is the end of the input.
    atexit.register(process.communicate)
    return process.stdin


def tell_guard(line):
    with contextlib.suppress(BrokenPipeError):  # Tests go on without it.
        guard().write(os.fsencode(line) + b"\n")


def marked(folder, program=b""):
    """The processes that were started in the sandbox in `folder`; with `program` those of that name."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as env, open(f"/proc/{name}/comm", "rb") as comm:
            if b"MUSTER_TEST_MARK=" + os.fsencode(folder) in env.read().split(b"\0") and program in (b"", comm.read().strip()):
                found.append(int(name))
    return found


class Sandbox:
    """A folder, an environment in which nothing of the user's is found, and processes that end with it."""

    def __init__(self):
        # Unix sockets have short paths.
        self._folder = tempfile.TemporaryDirectory(prefix="mpy-", dir="/tmp")
        self.folder = self._folder.name
        tell_guard("+" + self.folder)
        self._processes = []
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "XDG_", "PYTHON"))}
        self.env.update(AWS_EC2_METADATA_DISABLED="true", HOME=self.path("home"), MUSTER_LEASE_DIR=self.path("leases"), PATH=f"{BIN}:{os.environ['PATH']}",
                        MUSTER_CONFIG_DIR=self.path("config"), MUSTER_TEST_MARK=self.folder, PYTHONPATH=PACKAGE, PYTHONDONTWRITEBYTECODE="1",
                        XDG_CONFIG_HOME=self.path("home/config"), XDG_STATE_HOME=self.path("home/state"))
        for name in ("home", "leases", "config", "home/config", "home/state"):
            os.mkdir(self.path(name))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as stream:
            stream.write(text)
        return self.path(name)

    def read(self, name):
        with contextlib.suppress(FileNotFoundError), open(self.path(name), encoding="utf-8") as stream:
            return stream.read()
        return ""

    def start(self, *command, log=None, **options):
        """Starts a process; with `log` its output goes into that file."""
        output = open(self.path(log), "ab") if log else subprocess.PIPE
        process = subprocess.Popen(command, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT if log else subprocess.PIPE, **options)
        if log:
            output.close()
        self._processes.append(process)
        return process

    def run(self, *command):
        """Standard output of a command that must succeed."""
        done = subprocess.run(command, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{command} ended with {done.returncode}: {done.stderr.decode()}")
        return done.stdout.decode()

    def end(self, process, number=signal.SIGTERM):
        if process.poll() is None:
            process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=PATIENCE)

    def close(self):
        """Ends what is left, the newest first: agents take their ranks along only when the coordinator has told them to."""
        for process in reversed(self._processes):
            self.end(process)
            if process.poll() is None:
                self.end(process, signal.SIGKILL)
        self._folder.cleanup()
        tell_guard("-" + self.folder)

    @contextlib.contextmanager
    def entered(self):
        """This process, for a while, with the environment and the folder of the sandbox."""
        before, folder = dict(os.environ), os.getcwd()
        os.environ.clear()
        os.environ.update(self.env)
        os.chdir(self.folder)
        try:
            yield self
        finally:
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(before)


class Cluster(Sandbox):
    """A coordinator on a Unix socket and two agents, node-1 and node-2, with so many slots each."""

    NODES = ("node-1", "node-2")

    def __init__(self, slots=2):
        super().__init__()
        self.target = f"unix:{self.path('c.sock')}"
        self.env["MUSTER_SERVER"] = self.target
        self.serve()
        self.agents = {name: self.start(
            os.path.join(BIN, "agent"), "run", "--coordinator", self.target, "--node-id", name, "--state-dir", name, "--slots",
            str(slots), log="agents.log") for name in self.NODES}
        try:
            self.await_nodes()
        except BaseException:
            self.close()  # Nobody else can: there is no object yet.
            raise

    def serve(self):
        self.coordinator = self.start(os.path.join(BIN, "coordinator"), "serve", "--state-dir", "state", "--socket", "c.sock",
                                      log="coordinator.log")

    def end_coordinator(self, number=signal.SIGKILL):
        self.coordinator.send_signal(number)
        self.coordinator.wait()

    def await_nodes(self):
        def alive():
            done = subprocess.run(["coordinator", "nodes", "-o", "json"], env=self.env, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, check=False)
            if done.returncode != 0:
                return False
            return sum(node["state"] == "alive" for node in json.loads(done.stdout)["nodes"]) == len(self.NODES)

        wait_until("all nodes are alive", alive)
