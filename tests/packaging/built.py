"""Where the tests of packaging find what was built."""

import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build", "release")
BIN = os.path.join(BUILD, "bin")
UNITS = os.path.join(ROOT, "packaging", "systemd")


def run(*command: str, **environment: str) -> str:
    """What a command prints on both its outputs; CalledProcessError when it fails."""
    done = subprocess.run(command, env=dict(os.environ, LC_ALL="C.UTF-8", **environment), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    text = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{text}")
    return text


def package(name: str) -> str:
    """Path of the package of this name that was built last."""
    folder = os.path.join(BUILD, "packages")
    found = [one for one in os.listdir(folder) if one.startswith(f"{name}_") and one.endswith(".deb")]
    if len(found) != 1:
        raise AssertionError(f"packages of {name}: {found}")
    return os.path.join(folder, found[0])
