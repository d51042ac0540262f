"""What the lints share: the list of tracked and new files, and how a finding is printed."""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def files(*endings: str) -> list[str]:
    """Paths of all files that git tracks or would add, with one of the endings, relative to the root."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True,
                            stdout=subprocess.PIPE).stdout.decode().split("\0")
    return sorted(f for f in set(listed) if f and f.endswith(endings) and os.path.isfile(os.path.join(ROOT, f)))


def read(path: str) -> str:
    with open(os.path.join(ROOT, path), encoding="utf-8") as stream:
        return stream.read()


def tests() -> set[str]:
    """Every test as `Suite.Name`, of C++ and of Python."""
    found = set()
    for path in files(".cc"):
        if path.startswith("tests/"):
            for suite, name in re.findall(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)", read(path), re.MULTILINE):
                found.add(f"{suite}.{name}")
    for path in files(".py"):
        if path.startswith("tests/"):
            suite = ""
            for kind, name in re.findall(r"^(class |    def test_)(\w+)", read(path), re.MULTILINE):
                suite = name if kind == "class " else suite
                found.add(f"{suite}.test_{name}")
    return found


def named_tests(line: str) -> list[str]:
    """Tests that a line of a page names in backticks; `Suite.*` stands for all of a suite."""
    return re.findall(r"`([A-Z]\w+\.(?:\w+|\*))`", line)


def has_test(known: set[str], name: str) -> bool:
    suite, test = name.split(".")
    return any(one.startswith(f"{suite}.") for one in known) if test == "*" else name in known


def finish(problems: list[str]) -> None:
    """Prints the findings and ends the process with 1 when there are any."""
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)
