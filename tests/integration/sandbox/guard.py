#!/usr/bin/python3
"""Clears up after a test program that was killed: knows its sandboxes, and lives until it has ended.

Reads `+FOLDER` and `-FOLDER` from stdin, one a line. At the end of the input every process that carries the mark of a folder
that is still there is killed, until there is none, and the folder is removed.
"""

import os
import shutil
import signal
import sys
import time


def marked(folder: str) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as stream:
                if b"MUSTER_TEST_MARK=" + os.fsencode(folder) in stream.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            pass
    return found


def main():
    folders = []
    for line in sys.stdin:
        folder = line[1:].rstrip("\n")
        if line[0] == "+":
            folders.append(folder)
        elif folder in folders:
            folders.remove(folder)
    for folder in folders:
        end = time.monotonic() + 30
        while (left := marked(folder)) and time.monotonic() < end:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            time.sleep(0.02)  # paces: what was killed is about to end
        shutil.rmtree(folder, ignore_errors=True)


main()
