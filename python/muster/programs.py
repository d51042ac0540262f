"""Finds the `coordinator` program."""

from __future__ import annotations

import os
import shutil
import sys


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
