"""A machine with a real systemd as process 1, on a layer of memory above the base.

systemd-nspawn gives it namespaces of its own for everything: mounts, processes, network, names, control groups. Nothing
of this machine is in it but the files that are bound into it, read-only. It ends with the test, also when that is killed.
"""

import itertools
import os
import signal
import subprocess
import time

import debian_base

SHELL = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
         "DEBIAN_FRONTEND": "noninteractive"}
# Hierarchies of control groups that systemd-nspawn uses; of those that are there.
HIERARCHIES = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")


def wait_until(ready, what: str, limit: float = 60):
    """Asks until the answer is true, and returns it."""
    deadline = time.monotonic() + limit
    while True:
        if answer := ready():
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit} s: {what}")
        time.sleep(0.05)  # paces: what is waited for tells nobody.


class Failed(AssertionError):
    """A command that ended with another status than expected."""


class Machine:
    """`folders`: what of this machine is to be seen in it, by the path there. `programs_of_host`: it has all programs and
    libraries of this machine, below a layer of its own, instead of those of the base only."""

    numbers = itertools.count(1)

    def __init__(self, folders: dict[str, str], programs_of_host: bool = False):
        self.name = f"machine-of-test-{os.getpid()}-{next(Machine.numbers)}"
        self.folders = folders
        self.programs_of_host = programs_of_host
        self.groups = []
        self.spawn = None
        self.leader = 0

    def command(self, *what: str) -> list[str]:
        """systemd-nspawn with what all uses of it have in common."""
        words = ["setpriv", "--pdeathsig", "KILL", "systemd-nspawn", "--quiet", "--directory", debian_base.folder(),
                 "--volatile=overlay", "--register=no", "--private-network", "--link-journal=no", "--resolv-conf=off",
                 "--timezone=off", f"--machine={self.name}", "--console=pipe",
                 *(f"--bind-ro={path}:{inside}" for inside, path in self.folders.items())]
        if self.programs_of_host:
            words += ["--overlay=/usr::/usr", "--bind-ro=/etc/alternatives:/etc/alternatives"]
        if not os.path.exists("/run/systemd/system"):
            words.insert(words.index("--private-network"), "--keep-unit")
        return [*words, *what]

    def enter_group(self) -> None:
        """In the child: into groups that belong to this machine only."""
        for group in self.groups:
            with open(os.path.join(group, "cgroup.procs"), "w", encoding="utf-8") as stream:
                stream.write(str(os.getpid()))

    def boot(self) -> None:
        debian_base.folder()
        # Not muster-...: agents take old groups of such names below their own for left behind, and kill what is in them.
        for hierarchy in HIERARCHIES:
            if not os.path.exists("/run/systemd/system") and os.path.exists(hierarchy + "/cgroup.procs"):
                self.groups.append(f"{hierarchy}/{self.name}")
                os.makedirs(self.groups[-1], exist_ok=True)
        self.spawn = subprocess.Popen(self.command("--boot"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=self.enter_group,
                                      env=dict(os.environ, SYSTEMD_NSPAWN_UNIFIED_HIERARCHY="1"))
        self.leader = wait_until(self.find_leader, "the machine starts")
        wait_until(lambda: self.run("systemctl", "is-system-running", check=False).strip() in ("running", "degraded"),
                   "the machine is up")

    def connect(self, other: "Machine", address: str, other_address: str) -> None:
        """A cable between `lan` here and there. Neither of its ends is ever in the network of the test itself."""
        subprocess.run(["ip", "link", "add", "lan", "netns", str(self.leader), "type", "veth", "peer", "name", "lan", "netns",
                        str(other.leader)], check=True)
        for machine, own in ((self, address), (other, other_address)):
            namespace = ["nsenter", "--target", str(machine.leader), "--net", "ip"]
            subprocess.run([*namespace, "address", "add", f"{own}/24", "dev", "lan"], check=True)
            subprocess.run([*namespace, "link", "set", "lan", "up"], check=True)

    def find_leader(self) -> int:
        """Process id, as seen from here, of the machine's process 1."""
        if self.spawn.poll() is not None:
            raise AssertionError(f"systemd-nspawn ended:\n{self.spawn.stdout.read().decode(errors='replace')}")
        with open(f"/proc/{self.spawn.pid}/task/{self.spawn.pid}/children", encoding="utf-8") as stream:
            for child in stream.read().split():
                try:
                    with open(f"/proc/{child}/comm", encoding="utf-8") as name:
                        if name.read() == "systemd\n" and os.readlink(f"/proc/{child}/exe").endswith("systemd"):
                            return int(child)
                except OSError:
                    continue
        return 0

    def run(self, *command: str, check: bool = True, stdin: str = "", status: int = 0) -> str:
        """What a command prints on both its outputs; Failed unless it ends with `status`."""
        words = ["nsenter", "--target", str(self.leader), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup",
                 "--root", "--wd", "--", *command]
        # A session of its own: what a command does to its process group is none of ours.
        done = subprocess.run(words, env=SHELL, input=stdin.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False, timeout=120, start_new_session=True)
        text = done.stdout.decode(errors="replace")
        if check and done.returncode != status:
            raise Failed(f"{' '.join(command)} ended with {done.returncode}, not {status}:\n{text}")
        return text

    def shell(self, script: str, **how) -> str:
        return self.run("sh", "-euc", script, **how)

    def run_alone(self, script: str) -> str:
        """A script as the only process of a machine without systemd, on a layer of its own."""
        done = subprocess.run(self.command("--as-pid2", "sh", "-euc", script), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=300,
                              env=dict(os.environ, SYSTEMD_NSPAWN_UNIFIED_HIERARCHY="1"))
        if done.returncode != 0:
            raise Failed(f"ended with {done.returncode}:\n{done.stdout.decode(errors='replace')}")
        return done.stdout.decode(errors="replace")

    def write(self, path: str, text: str) -> None:
        self.run("sh", "-euc", 'mkdir -p "$(dirname "$1")"; cat > "$1"', "sh", path, stdin=text)

    def property(self, unit: str, name: str) -> str:
        return self.run("systemctl", "show", "--property", name, "--value", unit).strip()

    def main_pid(self, unit: str) -> int:
        return int(self.property(unit, "MainPID"))

    def kill(self, signal_name: str, unit: str) -> int:
        """Sends a signal to the main process of a unit and returns its id."""
        pid = wait_until(lambda: self.main_pid(unit), f"{unit} has a process")
        self.run("kill", f"-{signal_name}", str(pid))
        return pid

    def journal(self, unit: str) -> str:
        return self.run("journalctl", "--no-pager", "--output=cat", "--unit", unit)

    def end(self) -> None:
        """Everything in it is killed; nothing of it is left when this returns."""
        if self.spawn is not None:
            # Process 1 takes all others of its namespace along; systemd-nspawn then tidies up behind it.
            if self.leader:
                os.kill(self.leader, signal.SIGKILL)
            else:
                self.spawn.kill()
            self.spawn.communicate(timeout=60)
        for group in self.groups:
            wait_until(lambda path=group: remove_groups(path), f"{group} is empty")


def remove_groups(top: str) -> bool:
    for folder, _, _ in os.walk(top, topdown=False):
        try:
            os.rmdir(folder)
        except OSError:
            return False
    return True
