#!/usr/bin/python3
"""Runs the tests of whole clusters (test_*.py of a folder, this one): run.py [--tests FOLDER] [--long] [--jobs N] [--report FILE] [WORD...]

They run in namespaces of mount, network and processes that this program makes and that end with it, however it ends:
every host, program, mount and cable of theirs is in there. Needs root, iproute2 and nftables; where namespaces are not
permitted all tests are skipped, with the reason. Most tests wait most of the time, so N of them run at a time, each in
namespaces of its own. WORD chooses tests that have it in their names; --long the slow ones
instead of the others.
"""

import argparse
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PR_SET_PDEATHSIG = 1
INSIDE = "MUSTER_CLUSTER_INSIDE"
# cgroup2 by itself, or beside version 1.
CGROUP2 = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
NAMESPACES = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--propagation", "private"]


def why_not() -> str:
    """Why hosts cannot be made here; empty when they can."""
    if os.geteuid() != 0:
        return "needs root"
    for tool in ("unshare", "nsenter", "setpriv", "ip", "tc", "nft"):
        if shutil.which(tool) is None:
            return f"needs {tool}"
    # Who enters the mounts of a host leaves a chroot.
    own = subprocess.run(["nsenter", f"--target={os.getpid()}", "--mount", "--", "test", "-f", os.path.abspath(__file__)],
                         stderr=subprocess.DEVNULL, check=False)
    if own.returncode != 0:
        return "its hosts cannot be entered here: this is a chroot"
    with open("/proc/self/uid_map", encoding="ascii") as stream:
        if all(int(line.split()[2]) <= 1000 for line in stream):
            return "needs more than one user id: this is a user namespace"
    # All that the suite does to be on its own, once.
    probe = subprocess.run(["unshare", *NAMESPACES, "--uts", "--ipc", "--cgroup", "--mount-proc", "sh", "-ec",
                            "mount -t tmpfs tmpfs /mnt; ip link add probe type bridge; ip link add one type veth peer name two;"
                            "nft add table inet probe"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return f"no namespaces here: {probe.stdout.decode().strip()}" if probe.returncode != 0 else ""


def make_group(number: int = 0) -> str:
    """A control group for the suite, below that of this process; empty when there is none to be had."""
    with open("/proc/self/cgroup", encoding="ascii") as stream:
        own = [line[3:].strip() for line in stream if line.startswith("0::/")]
    for root in CGROUP2:
        if own and os.path.exists(f"{root}/cgroup.controllers"):
            parent = root + own[0].rstrip("/")
            try:
                # Those of suites that were killed are empty; others cannot be removed, once they are in use.
                for name in os.listdir(parent):
                    if name.startswith("cluster-test-") and time.time() - os.stat(f"{parent}/{name}").st_mtime > 60:
                        remove_group(f"{parent}/{name}")
                group = f"{parent}/cluster-test-{os.getpid()}-{number}"
                os.mkdir(group)
                return group
            except OSError:
                return ""
    return ""


def remove_group(group: str) -> None:
    for folder, _, _ in os.walk(group, topdown=False):
        try:
            os.rmdir(folder)
        except OSError:
            pass  # Something is in it, or it is gone.


def start_outside(command: list[str], group: str, **more) -> subprocess.Popen:
    """Starts a command in new namespaces and in a control group, as their first process. They end with it and with this process."""

    def begin() -> None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if group:
            with open(f"{group}/cgroup.procs", "w", encoding="ascii") as stream:
                stream.write("0")

    return subprocess.Popen(["unshare", *NAMESPACES, "--mount-proc", *command], preexec_fn=begin,
                            env=dict(os.environ, **{INSIDE: "1", "MUSTER_CLUSTER_GROUP": group}), **more)


def outside(commands: list[list[str]], **more) -> list[int]:
    """Runs commands at the same time, each in namespaces of its own, and returns their statuses."""
    groups = [make_group(number) for number in range(len(commands))]
    try:
        started = [start_outside(command, group, **more) for command, group in zip(commands, groups)]
        return [one.wait() for one in started]
    finally:
        for group in groups:
            if group:
                remove_group(group)


def run_jobs(jobs: int, report_file: str | None) -> int:
    """Runs this program `jobs` times, each with its share of the tests, and adds up what they report."""
    with tempfile.TemporaryDirectory() as folder:
        reports = [f"{folder}/{number}.json" for number in range(jobs)]
        commands = [["/usr/bin/python3", "-B", os.path.abspath(__file__), *sys.argv[1:], "--share", f"{number}/{jobs}", "--report", report]
                    for number, report in enumerate(reports)]
        outside(commands)
        sums = {"passed": 0, "failed": 0, "skipped": 0}
        for report in reports:
            if not os.path.exists(report):
                sums["failed"] += 1  # It ended before it could report.
                continue
            with open(report, encoding="ascii") as stream:
                for key, value in json.load(stream).items():
                    sums[key] += value
        return finish(sums, report_file)


def finish(counts: dict[str, int], report: str | None = None) -> int:
    if report:
        with open(report, "w", encoding="ascii") as stream:
            json.dump(counts, stream)
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts), flush=True)
    return 1 if counts["failed"] else 0


def furnish() -> None:
    """The switch, and a memory file system on /mnt with the programs, a home for all hosts, and an /etc to begin with."""
    run = lambda *argv: subprocess.run(argv, check=True)
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "switch", "type", "bridge")
    run("ip", "link", "set", "switch", "up")
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/mnt")
    for folder in ("bin", "tests", "home/alice", "home/root", "hosts"):
        os.makedirs(f"/mnt/{folder}")
    os.chown("/mnt/home/alice", 1000, 1000)
    programs = os.environ.get("MUSTER_BIN_DIR", f"{ROOT}/build/release/bin")
    run("mount", "--bind", programs, "/mnt/bin")
    # Beside them, as installed: what `coordinator compat install` needs.
    share = os.path.join(os.path.dirname(os.path.abspath(programs)), "share")
    if os.path.isdir(share):
        os.makedirs("/mnt/share")
        run("mount", "--bind", share, "/mnt/share")
    run("mount", "--bind", HERE, "/mnt/tests")
    run("cp", "-a", "/etc", "/mnt/etc")
    for name in ("hosts", "hostname", "machine-id", "resolv.conf"):
        path = f"/mnt/etc/{name}"
        if os.path.lexists(path):
            os.remove(path)
        with open(path, "w", encoding="ascii"):
            pass
    with open("/mnt/etc/passwd", "a", encoding="utf-8") as stream:
        stream.write("alice:x:1000:1000::/home/alice:/bin/sh\n")


class Result(unittest.TextTestResult):
    """Tells how long every test took."""

    def startTest(self, test: unittest.TestCase) -> None:
        self._began = time.monotonic()
        super().startTest(test)

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.stream.writeln(f"    {time.monotonic() - self._began:.1f} s")


def tests_of(suite: unittest.TestSuite) -> list[unittest.TestCase]:
    found: list[unittest.TestCase] = []
    for one in suite:
        found += tests_of(one) if isinstance(one, unittest.TestSuite) else [one]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", default=HERE, help="the folder that has the tests (this one)")
    parser.add_argument("--long", action="store_true", help="the slow ones instead of the others")
    parser.add_argument("--report", help="where to write the counts, as JSON")
    parser.add_argument("--jobs", type=int, default=3, help="tests that run at a time")
    parser.add_argument("--share", help="I/N: every Nth test from the Ith; of this program's own")
    parser.add_argument("words", nargs="*", help="only tests that have one of these in their names")
    arguments = parser.parse_args()
    os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    reason = "" if INSIDE in os.environ else why_not()
    if not reason and INSIDE not in os.environ:
        return run_jobs(arguments.jobs, arguments.report)
    sys.path.insert(0, HERE)
    tests = [test for test in tests_of(unittest.defaultTestLoader.discover(arguments.tests, "test_*.py"))
             if getattr(getattr(test, test._testMethodName, None), "is_long", False) == arguments.long
             and (not arguments.words or any(word in test.id() for word in arguments.words))]
    share, shares = map(int, (arguments.share or "0/1").split("/"))
    chosen = unittest.TestSuite(tests[share::shares])
    if reason:
        count = chosen.countTestCases()
        print(f"{count} skipped: {reason}")
        counts = {"passed": 0, "failed": 0, "skipped": count}
    else:
        furnish()
        result = unittest.TextTestRunner(sys.stdout, verbosity=2, resultclass=Result).run(chosen)
        failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
        skipped = len(result.skipped)
        counts = {"passed": result.testsRun - failed - skipped, "failed": failed, "skipped": skipped}
    return finish(counts, arguments.report)


if __name__ == "__main__":
    sys.exit(main())
