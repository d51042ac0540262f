"""Finds the coordinator, by the rules of the `coordinator` commands."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Optional

from . import credentials
from .errors import InvalidArgument, Unavailable

_HOST_AND_PORT = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]*:[0-9A-Fa-f:.%]*\]):[0-9]{1,5}")


@dataclass(frozen=True)
class ServerAddress:
    """Where a coordinator is.

    `target` is `unix:/path` or `HOST:PORT`; `origin` says who named it: `server`, `MUSTER_SERVER`, `default socket`, or the
    folder of the user's certificate.
    """

    target: str
    origin: str

    @property
    def is_unix(self) -> bool:
        """A socket of this machine: calls need no certificate."""
        return self.target.startswith("unix:")


def _checked(target: str, origin: str) -> ServerAddress:
    if target.startswith("/"):
        target = f"unix:{target}"
    if not (target.startswith("unix:") and len(target) > 5) and not _HOST_AND_PORT.fullmatch(target):
        raise InvalidArgument(f"{origin}: expected HOST:PORT or unix:/path/to/socket, got {target!r}")
    return ServerAddress(target, origin)


def _default_socket() -> tuple[Optional[ServerAddress], Optional[ServerAddress]]:
    """The first default socket that this user may use, and the first one that is for others only."""
    paths = ["/run/muster/coordinator.sock"]
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        paths.insert(0, f"{runtime}/muster/coordinator.sock")
    closed = None
    for path in paths:
        if os.path.exists(path):
            found = ServerAddress(f"unix:{path}", "default socket")
            if os.access(path, os.W_OK):
                return found, closed
            closed = closed or found
    return None, closed


def find_server(server: Optional[str] = None) -> ServerAddress:
    """The coordinator to call: `server`, else MUSTER_SERVER, else the local socket, else the cluster that the user has joined.

    InvalidArgument for what is no address, Unavailable when there is none of these.
    """
    if server:
        return _checked(server, "server")
    variable = os.environ.get("MUSTER_SERVER")
    if variable:
        return _checked(variable, "MUSTER_SERVER")
    found, closed = _default_socket()
    if found is not None:
        return found
    folder = credentials.user_trust_directory()
    joined = credentials.load(folder) if folder and credentials.has_joined(folder) else None
    if joined is not None and joined.coordinators:
        return ServerAddress(joined.coordinators[0], folder)
    if closed is not None:
        return closed
    raise Unavailable(
        "no coordinator: no server is given, MUSTER_SERVER is not set, there is no socket at "
        "$XDG_RUNTIME_DIR/muster/coordinator.sock or /run/muster/coordinator.sock, and you have not joined a cluster "
        "(coordinator join)")
