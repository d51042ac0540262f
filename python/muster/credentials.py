"""The user's certificate of a cluster, as `coordinator join` has put it on the disk, and its renewal.

Read only. Renewing takes a new key and a request for a certificate, which the standard library cannot make: the `coordinator`
program does it, started in the background as its own commands do.
"""

from __future__ import annotations

import os
import stat
import subprocess
import time
from dataclasses import dataclass, field

from .errors import FailedPrecondition
from .programs import find_coordinator

# So often at most somebody looks whether the certificate should be renewed.
_LOOK_SECONDS = 60
# A set may be replaced while it is read.
_TRIES = 5

# Programs that look after a certificate and have not been seen to end yet.
_looking: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True)
class Credentials:
    """Key and certificates, PEM, and where the cluster's coordinators are (HOST:PORT, in the order to try)."""

    key: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    authorities: bytes = field(repr=False)
    coordinators: tuple[str, ...]
    # Which set was read: another one after every renewal.
    generation: str


def user_trust_directory() -> str:
    """`$XDG_CONFIG_HOME/muster/trust`, else `~/.config/muster/trust`; empty when neither variable is set."""
    config = os.environ.get("XDG_CONFIG_HOME", "")
    if config.startswith("/"):
        return f"{config}/muster/trust"
    home = os.environ.get("HOME", "")
    return f"{home}/.config/muster/trust" if home.startswith("/") else ""


def has_joined(folder: str) -> bool:
    return os.path.lexists(os.path.join(folder, "current"))


def generation_of(folder: str) -> str:
    """Name of the current set; empty when there is none."""
    try:
        return os.readlink(os.path.join(folder, "current"))
    except OSError:
        return ""


def _read_key(path: str) -> bytes:
    with open(path, "rb") as stream:
        mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
        if mode & 0o077:
            raise FailedPrecondition(f"{path}: others may read this key, its mode is {mode:o} (chmod 600 it, and think about who "
                                     "may have read it)")
        return stream.read()


def _read(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def load(folder: str) -> Credentials:
    """The current set. FailedPrecondition, with what to do, when there is none that can be used."""
    if not folder or not has_joined(folder):
        raise FailedPrecondition("the coordinator takes users of its cluster only, and you have no certificate: coordinator join "
                                 "HOST:PORT TOKEN, with a token that an admin makes by `coordinator user add NAME`")
    for attempt in range(_TRIES):
        generation = generation_of(folder)
        one = os.path.join(folder, generation or "current")
        try:
            facts = _read(os.path.join(one, "cluster")).decode(errors="replace")
            return Credentials(
                key=_read_key(os.path.join(one, "key.pem")),
                certificate=_read(os.path.join(one, "cert.pem")),
                authorities=_read(os.path.join(one, "ca.pem")),
                coordinators=tuple(line.split(" ", 1)[1] for line in facts.splitlines() if line.startswith("coordinator ")),
                generation=generation)
        except OSError as error:
            if attempt + 1 == _TRIES or generation_of(folder) == generation:
                raise FailedPrecondition(f"{error.filename}: {error.strerror}") from error
    raise AssertionError("unreachable")


def have_looked_after(folder: str, target: str) -> None:
    """Has the `coordinator` program renew the certificate when it is time, in the background, at most once a minute.

    Never fails, and nothing waits for it: without the program, or without leave to write the folder, nothing happens.
    """
    try:
        if time.time() - os.stat(os.path.join(folder, "renewal")).st_mtime < _LOOK_SECONDS:
            return
    except OSError:
        pass  # Nobody has looked yet.
    if not os.access(folder, os.W_OK):
        return
    _looking[:] = [process for process in _looking if process.poll() is None]
    try:
        command = [find_coordinator(), "renew-certificate", folder, target]
        _looking.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                         cwd="/", start_new_session=True))
    except OSError:
        pass
