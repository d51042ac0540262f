"""Becomes a program that gets SIGTERM when the process that started it is gone, however that ended.

    _leash.py PID_OF_PARENT PROGRAM ARGUMENT...

A process of its own: what has to happen between fork and exec would not be safe in a process with threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    # Python's own handler only makes a note of a SIGINT, and execv would lose it: the program would never hear of it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    parent = int(sys.argv[1])
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM.value)
    if os.getppid() != parent:
        sys.exit(128 + signal.SIGTERM)
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
