#!/usr/bin/env python3
# muster-compat: put here by `coordinator compat install`; `coordinator compat remove` takes it away.
"""Stands in for gaudi_spawn.py: hands its arguments, as they are, to Muster, which starts the ranks."""

import os
import signal
import sys

# The program that has put this here. Where it is not, the first one in PATH is taken.
COORDINATOR = b"/usr/bin/coordinator"

program = COORDINATOR if os.access(COORDINATOR, os.X_OK) else b"coordinator"
# Ranks are run by the interpreter that runs this, as they always were, unless the user names another.
interpreter = ["--default-python", sys.executable] if sys.executable else []
# Python ignores these two, and a program would inherit that.
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
try:
    os.execvp(program, [program, "gaudi_spawn.py", *interpreter, *sys.argv[1:]])
except OSError as error:
    sys.stderr.write(f"gaudi_spawn.py: {os.fsdecode(program)} cannot be executed: {error.strerror} (is Muster's coordinator installed?)\n")
    sys.exit(127)
