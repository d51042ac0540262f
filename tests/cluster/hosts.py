"""Hosts on one switch, each with its own network, name, processes, boot, /etc, /run and state; and what can happen to them.

A host is a set of namespaces that its first process (host_init.py) holds. The switch is a bridge in the namespace of
the suite. Cuts and losses are nft rules on the host; a slow line is tc tbf on both ends of its cable.
"""

import os
import shutil
import signal
import subprocess
import time
import uuid
from typing import Callable

# Where run.py has mounted what all hosts share, and what each one keeps.
SHARED = "/mnt"
PROGRAMS = f"{SHARED}/bin"
HERE = os.path.dirname(os.path.abspath(__file__))
NETWORK = "10.77.0"
PATH = f"{PROGRAMS}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
# The user who trains; run.py puts her into /etc/passwd of the hosts.
ALICE = 1000
KINDS = ("net", "uts", "mount", "ipc", "cgroup", "pid")


def until(condition: Callable[[], object], seconds: float, what: str | Callable[[], str] = "") -> object:
    """Waits for something true and returns it; AssertionError that tells `what` when it does not come within `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what() if callable(what) else what}")
        time.sleep(0.02)  # paces: looks again


class Program:
    """A program that runs on a host. `text` is what it has written so far, both streams."""

    def __init__(self, host: "Host", argv: list[str], output: str, popen: subprocess.Popen) -> None:
        self.host, self.argv, self.output, self.popen = host, argv, output, popen
        self._pid = 0

    @property
    def pid(self) -> int:
        """Its process, not that of nsenter."""
        if not self._pid:
            children = f"/proc/{self.popen.pid}/task/{self.popen.pid}/children"
            self._pid = int(until(lambda: open(children, encoding="ascii").read().split(), 20, f"{self.argv}")[0])
        return self._pid

    @property
    def text(self) -> str:
        with open(self.output, "rb") as stream:
            return stream.read().decode(errors="replace")

    def running(self) -> bool:
        return self.popen.poll() is None

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)
        if number == signal.SIGCONT:
            self.popen.send_signal(number)  # nsenter stops with what it runs.

    def wait(self, seconds: float = 60) -> int:
        """Its exit status; 128 + n when signal n ended it. AssertionError when it does not end."""
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.argv} on {self.host.name} does not end:\n{self.text}") from None

    def says(self, what: str, seconds: float = 30) -> None:
        """Waits until it has written `what`."""
        try:
            until(lambda: what in self.text or not self.running(), seconds)
        except AssertionError:
            pass
        assert what in self.text, f"{self.argv} on {self.host.name} has not said {what!r}:\n{self.text}"


class Host:
    """One machine. `number` is the last part of its address."""

    def __init__(self, network: "Network", name: str, number: int) -> None:
        self.network, self.name, self.number = network, name, number
        self.address = f"{NETWORK}.{number}"
        self.folder = f"{SHARED}/hosts/{name}"
        self.cable = f"cable{number}"
        self.machine_id = uuid.uuid4().hex
        self.programs: list[Program] = []
        self._init: subprocess.Popen | None = None
        self._pid = 0
        for part in ("etc", "var", "output"):
            os.makedirs(f"{self.folder}/{part}")
        os.chmod(f"{self.folder}/var", 0o755)

    # --- Power ---

    def boot(self) -> None:
        """Switches it on, with a new boot id."""
        self._write("boot_id", str(uuid.uuid4()) + "\n")
        self._write("etc/hostname", self.name + "\n")
        self._write("etc/machine-id", self.machine_id + "\n")
        self._write("etc/resolv.conf", "")
        self._write("etc/hosts", self.network.names())
        self.group = self.network.group_of(self)
        namespaces = [f"--{kind}" for kind in KINDS]
        self._init = subprocess.Popen(
            ["unshare", *namespaces, "--fork", "--kill-child", "--propagation", "private", "--", "/usr/bin/python3", "-S",
             f"{HERE}/host_init.py", self.name, self.folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=open(f"{self.folder}/boot.log", "wb"),
            preexec_fn=self._enter_group)
        said = self._init.stdout.readline()
        assert said == b"ready\n", f"{self.name} does not start: {open(self.folder + '/boot.log', encoding='utf-8').read()}"
        self._pid = int(open(f"/proc/{self._init.pid}/task/{self._init.pid}/children", encoding="ascii").read().split()[0])
        subprocess.run(["ip", "link", "del", self.cable], stderr=subprocess.DEVNULL, check=False)
        ip("link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", str(self._pid))
        ip("link", "set", self.cable, "master", "switch", "up")
        self._own("ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        self._own("ip", "link", "set", "eth0", "up")

    def power_off(self) -> None:
        """As if somebody pulled the plug: no process can do or say anything any more."""
        if self._init is None:
            return
        os.kill(self._pid, signal.SIGKILL)
        # The first process does not end before all others are collected: that is nsenter's, which stops with what it runs.
        for program in self.programs:
            program.popen.send_signal(signal.SIGCONT)
        self._init.wait()
        self._init.stdout.close()
        self._init = None
        for program in self.programs:
            program.popen.wait()
        self.programs.clear()
        subprocess.run(["ip", "link", "del", self.cable], stderr=subprocess.DEVNULL, check=False)

    def reboot(self) -> None:
        self.power_off()
        self.boot()

    # --- Programs ---

    def start(self, argv: list[str], user: int = 0, cwd: str = "/home", **environment: str) -> Program:
        """Starts a program with a clean environment; it may be one of Muster's by its bare name."""
        env = {"PATH": PATH, "LC_ALL": "C.UTF-8", "AWS_EC2_METADATA_DISABLED": "true", "HOME": "/home/alice" if user else "/home/root", **environment}
        if user:
            env["XDG_RUNTIME_DIR"] = f"/run/user/{user}"
            argv = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--", *argv]
        output = f"{self.folder}/output/{len(os.listdir(self.folder + '/output'))}"
        with open(output, "wb") as stream:
            popen = subprocess.Popen([*self._nsenter(), "--", "env", f"--chdir={cwd}", *argv], env=env, stdin=subprocess.DEVNULL,
                                     stdout=stream, stderr=subprocess.STDOUT, preexec_fn=self._enter_group)
        program = Program(self, argv, output, popen)
        self.programs.append(program)
        return program

    def run(self, argv: list[str], seconds: float = 60, expect: int | None = 0, **more) -> str:
        """Runs a program to its end and returns what it wrote; AssertionError when it ends with another status."""
        program = self.start(argv, **more)
        status = program.wait(seconds)
        assert expect in (None, status), f"{argv} on {self.name} ended with {status}:\n{program.text}"
        return program.text

    def processes(self, word: str) -> list[int]:
        """Processes of this host whose command line has `word`, as this suite sees them."""
        found = []
        own = os.readlink(f"/proc/{self._pid}/ns/pid")
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and os.readlink(f"/proc/{entry}/ns/pid") == own:
                    with open(f"/proc/{entry}/cmdline", "rb") as stream:
                        if word.encode() in stream.read():
                            found.append(int(entry))
            except OSError:
                continue  # It has just ended.
        return found

    # --- Its line ---

    def cut(self, direction: str = "both", peer: "Host | None" = None) -> None:
        """Nothing passes any more: `both`, `out` (what this host sends) or `in`; with one peer, or with all."""
        self._table()
        for chain, side, field in (("out", "oifname", "daddr"), ("in", "iifname", "saddr")):
            if direction in (chain, "both"):
                match = ["ip", field, peer.address] if peer else []
                self._own("nft", "add", "rule", "inet", "fault", chain, side, "eth0", *match, "drop")

    def lose(self, percent: int) -> None:
        """Loses packets at random, in both directions."""
        self._table()
        for chain, side in (("out", "oifname"), ("in", "iifname")):
            self._own("nft", "add", "rule", "inet", "fault", chain, side, "eth0", "numgen", "random", "mod", "100", "<",
                      str(percent), "drop")

    def slow(self, rate: str) -> None:
        """Both directions pass at most `rate`, in the words of tc."""
        shape = ["root", "tbf", "rate", rate, "burst", "16kb", "latency", "400ms"]
        self._own("tc", "qdisc", "replace", "dev", "eth0", *shape)
        subprocess.run(["tc", "qdisc", "replace", "dev", self.cable, *shape], check=True)

    def heal(self) -> None:
        self._own("nft", "flush", "ruleset")
        subprocess.run([*self._nsenter(), "tc", "qdisc", "del", "dev", "eth0", "root"], stderr=subprocess.DEVNULL, check=False)
        subprocess.run(["tc", "qdisc", "del", "dev", self.cable, "root"], stderr=subprocess.DEVNULL, check=False)

    # --- Inside ---

    def _table(self) -> None:
        self._own("nft", "add", "table", "inet", "fault")
        for chain, hook in (("out", "output"), ("in", "input")):
            self._own("nft", "add", "chain", "inet", "fault", chain, f"{{ type filter hook {hook} priority 0; }}")

    def _nsenter(self) -> list[str]:
        return ["nsenter", f"--target={self._pid}", *(f"--{kind}" for kind in KINDS)]

    def _own(self, *argv: str) -> None:
        subprocess.run([*self._nsenter(), "--", *argv], check=True)

    def _enter_group(self) -> None:
        if self.group:
            with open(f"{self.group}/cgroup.procs", "w", encoding="ascii") as stream:
                stream.write("0")

    def _write(self, name: str, text: str) -> None:
        with open(f"{self.folder}/{name}", "w", encoding="utf-8") as stream:
            stream.write(text)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


class Network:
    """The hosts of one test, all of which it switches off in the end."""

    def __init__(self, *names: str) -> None:
        self.hosts = {name: Host(self, name, number) for number, name in enumerate(names, 1)}
        for host in self.hosts.values():
            host.boot()

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def names(self) -> str:
        """/etc/hosts of every host."""
        lines = [f"{host.address} {host.name}\n" for host in self.hosts.values()]
        return "127.0.0.1 localhost\n" + "".join(lines)

    def group_of(self, host: Host) -> str:
        """A new control group for a boot of a host; empty when there are none to be had."""
        parent = os.environ.get("MUSTER_CLUSTER_GROUP", "")
        if not parent:
            return ""
        group = f"{parent}/{host.name}-{uuid.uuid4().hex[:8]}"
        os.mkdir(group)
        return group

    def close(self) -> None:
        for host in self.hosts.values():
            host.power_off()
            shutil.rmtree(host.folder)
