"""What the lints share: the list of tracked and new files, and how a finding is printed."""

import os
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


def finish(problems: list[str]) -> None:
    """Prints the findings and ends the process with 1 when there are any."""
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)
