"""Finds and runs the `coordinator` program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Optional

from .errors import MusterError, error_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .client import Client
    from .jobs import Job

# What the exit statuses of a command that submits mean, see docs/reference.md.
_CODES = {2: "INVALID_ARGUMENT", 120: "RESOURCE_EXHAUSTED", 122: "UNAVAILABLE", 125: "INTERNAL"}


def find_coordinator() -> str:
    """Path of the `coordinator` program: MUSTER_COORDINATOR, else beside this package (a build, a virtual environment), else in
    PATH. FileNotFoundError, with what to do, when there is none."""
    named = os.environ.get("MUSTER_COORDINATOR")
    if named:
        found = shutil.which(named)
        if found is None:
            raise FileNotFoundError(f"MUSTER_COORDINATOR: {named} is no program")
        return os.path.abspath(found)
    package = os.path.dirname(os.path.abspath(__file__))
    # <build>/python/muster beside <build>/bin, and the folder of a virtual environment's programs.
    beside = [os.path.join(package, "..", "..", "bin"), os.path.join(sys.prefix, "bin")]
    for folder in beside:
        path = os.path.normpath(os.path.join(folder, "coordinator"))
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    found = shutil.which("coordinator")
    if found is None:
        raise FileNotFoundError("the program `coordinator` is not in PATH: install muster-coordinator, or set MUSTER_COORDINATOR to "
                                "where it is")
    return os.path.abspath(found)


def submit_file(path: str, *flags: str, client: Optional[Client] = None) -> Job:
    """Submits the job of a job.yaml as `coordinator submit --detach` does, and returns it.

    The program reads the file and all that it names, so mistakes are told as there: InvalidArgument with FILE:LINE in its
    `problems`. `flags`: more flags of the command, for example `"--num-nodes", "2"`. `client`: who asks about the job later, and
    where it goes; a new one by default. FileNotFoundError: the program is not installed.
    """
    from .client import Client

    one = Client() if client is None else client
    command: Sequence[str] = [find_coordinator(), "submit", "--detach", "-o", "json", "--server", one.server.target, *flags,
                              "--", os.fspath(path)]
    environment = {name: value for name, value in os.environ.items() if name != "MUSTER_LOCAL"}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", env=environment,
                          check=False)
    if done.returncode != 0:
        raise _failure(done.returncode, done.stderr.strip())
    return one.get(json.loads(done.stdout)["job_id"])


def _failure(status: int, said: str) -> MusterError:
    return error_of(_CODES.get(status, "UNKNOWN"), said or f"coordinator submit ended with {status}")
