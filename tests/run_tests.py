#!/usr/bin/python3
"""Builds what a tier needs, runs its suites and ends with `N passed, N failed`.

A suite is a fat GoogleTest binary, a lint, or a program that passes or fails as a whole. The list of tiers
is the table TIERS; `--tier NAME` takes one of them or the name of a single suite.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Callable

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FUZZ_SECONDS = int(os.environ.get("MUSTER_FUZZ_SECONDS", "60"))


@dataclass
class Outcome:
    """What one suite did; `output` is shown when something failed."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    output: str = ""


@dataclass
class Suite:
    """A named piece of work; `targets` are built first in `preset`."""

    name: str
    run: Callable[["Suite"], Outcome]
    preset: str = "release"
    targets: list[str] = field(default_factory=list)
    minutes: int = 10


def build_dir(preset: str) -> str:
    return os.path.join(ROOT, "build", preset)


def run_logged(suite: Suite, command: list[str], **environment: str) -> tuple[int, str]:
    """Runs a command with the suite's time limit and returns its status and output."""
    env = dict(os.environ, **environment)
    # A file, not a pipe: a process that a test left behind would keep a pipe open, and the run would wait for it.
    with tempfile.TemporaryFile() as output:
        late = ""
        try:
            status = subprocess.run(command, cwd=ROOT, env=env, timeout=suite.minutes * 60, stdin=subprocess.DEVNULL,
                                    stdout=output, stderr=subprocess.STDOUT, check=False).returncode
        except subprocess.TimeoutExpired:
            status, late = 124, f"\n{suite.name}: over {suite.minutes} minutes\n"
        output.seek(0)
        return status, output.read().decode(errors="replace") + late


def gtest(binary: str, **environment: str) -> Callable[[Suite], Outcome]:
    """A fat GoogleTest binary: every test counts."""

    def run(suite: Suite) -> Outcome:
        path = os.path.join(build_dir(suite.preset), "bin", binary)
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            status, output = run_logged(suite, [path, "--gtest_brief=1", f"--gtest_output=json:{report.name}"],
                                        ASAN_OPTIONS="detect_leaks=1", UBSAN_OPTIONS="print_stacktrace=1",
                                        LSAN_OPTIONS=f"suppressions={ROOT}/tests/lsan.txt:print_suppressions=0",
                                        TSAN_OPTIONS="halt_on_error=1", **environment)
            outcome = Outcome(output=output)
            try:
                tests = json.load(open(report.name, encoding="utf-8"))
            except ValueError:
                outcome.failed = 1  # It crashed before it could report.
                return outcome
        for group in tests["testsuites"]:
            for test in group["testsuite"]:
                if test.get("failures"):
                    outcome.failed += 1
                elif test.get("result") == "SKIPPED":
                    outcome.skipped += 1
                elif test.get("status") == "RUN":
                    outcome.passed += 1
        if status != 0 and outcome.failed == 0:
            outcome.failed = 1
        if outcome.passed + outcome.failed == 0:
            outcome.failed = 1
            outcome.output += f"\n{suite.name}: no test ran\n"
        return outcome

    return run


def program(*command: str, **environment: str) -> Callable[[Suite], Outcome]:
    """A program that passes or fails as a whole."""

    def run(suite: Suite) -> Outcome:
        status, output = run_logged(suite, list(command), **environment)
        return Outcome(passed=int(status == 0), failed=int(status != 0), output=output)

    return run


def unittests(folder: str) -> Callable[[Suite], Outcome]:
    """Python's unittest in a folder: every test counts."""

    def run(suite: Suite) -> Outcome:
        status, output = run_logged(suite, ["/usr/bin/python3", "-m", "unittest", "discover", "-v", "-s", folder])
        outcome = Outcome(output=output)
        ran = re.search(r"^Ran (\d+) tests?", output, re.MULTILINE)
        counts = dict(re.findall(r"(failures|errors|skipped)=(\d+)", output[ran.start():] if ran else ""))
        outcome.skipped = int(counts.get("skipped", 0))
        outcome.failed = max(int(counts.get("failures", 0)) + int(counts.get("errors", 0)), int(status != 0))
        outcome.passed = max((int(ran[1]) if ran else 0) - outcome.failed - outcome.skipped, 0)
        return outcome

    return run


def clusters(*arguments: str) -> Callable[[Suite], Outcome]:
    """Tests on several hosts, each a set of namespaces: every test counts."""

    def run(suite: Suite) -> Outcome:
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            status, output = run_logged(suite, ["/usr/bin/python3", "-B", "tests/cluster/run.py", "--report", report.name, *arguments])
            try:
                outcome = Outcome(**json.load(open(report.name, encoding="utf-8")), output=output)
            except ValueError:
                outcome = Outcome(failed=1, output=output)  # It ended before it could report.
        if status != 0 and outcome.failed == 0:
            outcome.failed = 1
        return outcome

    return run


def fuzzers(suite: Suite) -> Outcome:
    """Every fuzz target for FUZZ_SECONDS, starting from its corpus; new inputs go to a scratch folder."""
    outcome = Outcome()
    folder = os.path.join(build_dir("fuzz"), "bin")
    for name in sorted(os.listdir(folder)):
        if not name.startswith("fuzz_"):
            continue
        corpus = os.path.join(ROOT, "tests/fuzz/corpus", name.removeprefix("fuzz_"))
        with tempfile.TemporaryDirectory() as scratch:
            status, output = run_logged(suite, [os.path.join(folder, name), scratch, corpus,
                                                f"-max_total_time={FUZZ_SECONDS}", f"-artifact_prefix={scratch}/",
                                                "-print_final_stats=1"])
        outcome.passed += int(status == 0)
        outcome.failed += int(status != 0)
        if status != 0:
            outcome.output += f"--- {name}\n{output[-4000:]}\n"
    return outcome


LINT = [Suite(f"lint-{name}", program("/usr/bin/python3", f"tests/lint/{name}.py"))
        for name in ("formatting", "layering", "proto_comments", "file_length", "python_imports", "one_definition", "own_words", "fault_table", "requirements", "check_table")]
PROGRAMS = ["coordinator", "agent", "muster-shim", "example_client", "python_package", "fake_hlml", "kill_at_write", "wall_clock"]
GTESTS = ["unit", "sim", "contract", "process", "integration", "campaign"]


def gtests(preset: str, names: list[str]) -> list[Suite]:
    prefix = "" if preset == "release" else f"{preset}-"
    return [Suite(prefix + name, gtest(f"{name}_tests"), preset, [f"{name}_tests"] + PROGRAMS, minutes=15)
            for name in names]


# The Python package, against a coordinator and agents with real jobs.
PYTHON = Suite("python", unittests("tests/python"), targets=["coordinator", "agent", "muster-shim", "python_package"])
PACKAGING = Suite("packaging", unittests("tests/packaging"), targets=["packages"])
# A real systemd in a namespace of its own, with the packages installed.
SYSTEMD = Suite("systemd", unittests("tests/systemd"), targets=["packages"], minutes=30)
# Images built by podman on a small Debian, and what they run.
CONTAINERS = Suite("containers", unittests("tests/containers"), targets=["coordinator", "agent", "muster-shim"], minutes=30)
CLUSTER = Suite("cluster", clusters(), targets=PROGRAMS)
# A machine at full load, a bad line for ten minutes, the example on four hosts.
CLUSTER_LONG = Suite("cluster-long", clusters("--long"), targets=PROGRAMS, minutes=30)
# A real Slurm on such hosts, and Muster in its allocations.
SLURM = Suite("slurm", clusters("--tests", "tests/slurm"), targets=["coordinator", "agent", "muster-shim"], minutes=15)
EXAMPLE = Suite("example", program("examples/char_lm/run", "--check"), targets=PROGRAMS)
TIDY = Suite("tidy", program("/usr/bin/python3", "tests/lint/tidy.py"), targets=["muster_proto_grpc"], minutes=80)
FUZZ = Suite("fuzz", fuzzers, "fuzz", ["all"], minutes=60)
# Ten times the kills of the default tier: 10,000 of agents, 1,000 each of coordinators and shims.
NIGHTLY = Suite("campaign-nightly", gtest("campaign_tests", MUSTER_CAMPAIGN_FACTOR="10"), targets=["campaign_tests"] + PROGRAMS,
                minutes=60)
# Every byte of a store, and every few bytes of its log, instead of a sample.
DAMAGE = Suite("damage-nightly", gtest("contract_tests", MUSTER_CAMPAIGN_FACTOR="10", GTEST_FILTER="SqliteDamage.*"),
               targets=["contract_tests"], minutes=30)
SOAK = Suite("sim-soak", gtest("sim_tests"), targets=["sim_tests"], minutes=80)

TIERS = {
    "default": LINT + gtests("release", GTESTS) + [PYTHON, PACKAGING, CLUSTER, EXAMPLE],
    "lint": LINT,
    "asan": gtests("asan", GTESTS),
    # gRPC of Debian is not instrumented and gives false reports: these suites do without it.
    "tsan": gtests("tsan", ["unit", "sim"]),
    "tidy": [TIDY],
    "fuzz": [FUZZ],
    "soak": [SOAK],
    "systemd": [SYSTEMD],
    "containers": [CONTAINERS],
    "slurm": [SLURM],
    "nightly": [NIGHTLY, DAMAGE, CLUSTER_LONG],
}


def choose(tier: str) -> list[Suite]:
    if tier in TIERS:
        return TIERS[tier]
    every = {suite.name: suite for suites in TIERS.values() for suite in suites}
    if tier in every:
        return [every[tier]]
    sys.exit(f"run_tests.py: no tier or suite named {tier}; there are: {', '.join([*TIERS, *every])}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tier", default="default", help="a tier or a single suite")
    arguments = parser.parse_args()
    suites = choose(arguments.tier)
    if arguments.tier == "soak":
        os.environ.setdefault("MUSTER_SIM_SEEDS", "20000")
    for preset in dict.fromkeys(suite.preset for suite in suites):
        targets = sorted({t for suite in suites if suite.preset == preset for t in suite.targets})
        if targets and subprocess.run(["./dev", "build", preset, *targets], cwd=ROOT, check=False).returncode != 0:
            print("0 passed, 1 failed")
            return 1
    total = Outcome()
    for suite in suites:
        start = time.monotonic()
        outcome = suite.run(suite)
        word = "FAIL" if outcome.failed else "ok"
        print(f"{word:4} {suite.name:18} {outcome.passed} passed, {outcome.failed} failed, {outcome.skipped} skipped"
              f" ({time.monotonic() - start:.0f} s)", flush=True)
        if outcome.failed:
            print(outcome.output, flush=True)
        total.passed += outcome.passed
        total.failed += outcome.failed
        total.skipped += outcome.skipped
    if total.skipped:
        print(f"{total.skipped} skipped: what they need is not to be had here")
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
