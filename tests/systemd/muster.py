"""A coordinator and an agent on one machine with systemd, and jobs that a test ends when it likes."""

import glob
import json
import os
import re
import subprocess
import tempfile

import debian_base
from machine import Machine, wait_until

BUILD = os.path.join(debian_base.ROOT, "build", "release")
# Control groups of ranks whose job has a scope, and of those whose job has none.
SCOPED = r"^/muster.slice/muster-jobs.slice/muster-job-[^/]+-\d+.scope/muster-[^/]+/rank-\d$"
UNSCOPED = r"^/system.slice/muster-agent.service/muster-[^/]+/rank-\d$"
# Writes numbered lines until it is told with which status to end. The other rank that ends with it does not cut it short.
RANK = r"""
trap '' TERM
echo "pid $$ user $(id -un) oom $(cat /proc/$$/oom_score_adj) memlock $(ulimit -l) group $(sed -n 's/^0:://p' /proc/$$/cgroup)"
i=0
until [ -s /srv/end ]; do i=$((i + 1)); echo "line $i"; sleep 0.02; done
echo "last $i"
exit "$(cat /srv/end)"
"""


def repack(folder: str, revision: int) -> None:
    """The packages as they were built, with another revision, into `folder`."""
    subprocess.run(["cpack", "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-B", folder,
                    "-D", f"CPACK_DEBIAN_PACKAGE_RELEASE={revision}", "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip"],
                   cwd=BUILD, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)


class Muster:
    """The machine with the packages of programs in /packages installed; /upgrade has the same with revision 2."""

    def __init__(self, folders: dict[str, str] | None = None, programs_of_host: bool = False):
        self.upgrade = tempfile.TemporaryDirectory()
        self.machine = Machine({"/packages": os.path.join(BUILD, "packages"), "/upgrade": self.upgrade.name, **(folders or {})},
                               programs_of_host)

    def boot(self) -> None:
        self.machine.boot()
        # That of a container image lets no service start.
        self.machine.shell("rm -f /usr/sbin/policy-rc.d")
        self.machine.shell("dpkg --install /packages/muster-*.deb")

    def join(self) -> None:
        """A cluster of one node, n1, that runs ranks as root; both daemons are up."""
        machine = self.machine
        machine.run("coordinator", "init", "--host", "127.0.0.1")
        machine.run("systemctl", "start", "muster-coordinator")
        self.join_again("n1")
        machine.shell("printf 'allow_root: true\\nslots: 2\\n' >> /etc/muster/agent.yaml")
        machine.run("systemctl", "start", "muster-agent")
        machine.write("/srv/hosts", "n1 slots=2\n")
        machine.write("/srv/rank.sh", RANK)
        machine.write("/srv/job.yaml", "hostfile: hosts\ncommand: [sh, /srv/rank.sh]\n")
        # For an agent of a user, which a test makes.
        machine.write("/srv/alice.yaml", "hosts: [{host: n2, slots: 2}]\nuser: alice\ncommand: [sh, /srv/rank.sh]\n")

    def write_token(self) -> None:
        """A new token into /srv/token."""
        made = self.machine.run("coordinator", "token", "create", "-o", "json")
        self.machine.write("/srv/token", json.loads(made)["token"])

    def join_again(self, node: str) -> None:
        self.write_token()
        self.machine.run("agent", "join", "127.0.0.1:7443", "--token-file", "/srv/token", "--node-id", node)

    def end(self) -> None:
        self.machine.end()
        self.upgrade.cleanup()


class Job:
    """Two ranks, on n1 unless `file` names others, up and writing. They end with `status` when `finish` is called."""

    def __init__(self, machine: Machine, file: str = "/srv/job.yaml"):
        self.machine = machine
        machine.run("rm", "-f", "/srv/end")
        self.id = machine.run("coordinator", "submit", "--detach", file).split()[-1]
        self.heads = [wait_until(lambda rank=rank: self.head(rank), f"rank {rank} writes") for rank in (0, 1)]
        self.pids = [int(head["pid"]) for head in self.heads]
        self.started = [self.start_of(pid) for pid in self.pids]

    def log(self, rank: int) -> list[str]:
        text = self.machine.run("coordinator", "logs", self.id, "--raw", "--rank", str(rank))
        return text.split("\n")[:-1]

    def head(self, rank: int):
        """What the rank says of itself in its first line, once it has written more."""
        lines = self.log(rank)
        words = lines[0].split() if len(lines) > 1 else []
        return dict(zip(words[::2], words[1::2]))

    def start_of(self, pid: int) -> str:
        """When the process was started: no other one has both the number and the time."""
        return self.machine.shell(f"cut -d' ' -f22 /proc/{pid}/stat")

    def check_untouched(self) -> None:
        for pid, started in zip(self.pids, self.started):
            if self.start_of(pid) != started:
                raise AssertionError(f"process {pid} is another one")

    def lines(self, rank: int) -> int:
        return len(self.log(rank))

    def await_more(self) -> None:
        """Output of now arrives at the coordinator: agent, shim and ranks work together."""
        before = [self.lines(rank) for rank in (0, 1)]
        wait_until(lambda: all(self.lines(rank) > before[rank] for rank in (0, 1)), "more output arrives")

    def finish(self, status: int = 7) -> None:
        """Ends the job and checks its status and every byte of its output."""
        self.check_untouched()
        self.machine.write("/srv/end", str(status))
        self.machine.run("coordinator", "wait", "--quiet", self.id, status=status)
        for rank in (0, 1):
            lines = self.log(rank)
            last = re.fullmatch(r"last (\d+)", lines[-1])
            if not last:
                raise AssertionError(f"output of rank {rank} ends with {lines[-3:]}")
            count = int(last[1])
            if lines[1:-1] != [f"line {i}" for i in range(1, count + 1)]:
                raise AssertionError(f"output of rank {rank} is not complete: {len(lines)} lines, {count} written")


def version_of(path: str) -> str:
    return re.search(r"_([^_]+)_[^_]+\.deb$", glob.glob(path)[0])[1]
