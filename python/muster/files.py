"""Submits jobs that are written in files, by the `coordinator` program, which reads them."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Optional

from .client import Client
from .errors import MusterError, error_of
from .jobs import Job
from .programs import find_coordinator

# What the exit statuses of a command that submits mean, see docs/reference.md.
_CODES = {2: "INVALID_ARGUMENT", 120: "RESOURCE_EXHAUSTED", 122: "UNAVAILABLE", 125: "INTERNAL"}


def submit_file(path: str, *flags: str, client: Optional[Client] = None) -> Job:
    """Submits the job of a job.yaml as `coordinator submit --detach` does, and returns it.

    The program reads the file and all that it names, so mistakes are told as there: InvalidArgument with FILE:LINE in its
    `problems`. `flags`: more flags of the command, for example `"--num-nodes", "2"`. `client`: who asks about the job later, and
    where it goes; a new one by default. FileNotFoundError: the program is not installed.
    """
    one = Client() if client is None else client
    command = [find_coordinator(), "submit", "--detach", "-o", "json", "--server", one.server.target, *flags,
                              "--", os.fspath(path)]
    environment = {name: value for name, value in os.environ.items() if name != "MUSTER_LOCAL"}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", env=environment,
                          check=False)
    if done.returncode != 0:
        raise _failure(done.returncode, done.stderr.strip())
    return one.get(json.loads(done.stdout)["job_id"])


def _failure(status: int, said: str) -> MusterError:
    return error_of(_CODES.get(status, "UNKNOWN"), said or f"coordinator submit ended with {status}")
