"""Channels to a coordinator, and the certificates that they show.

Thread-safe. Calls and streams have channels of their own, and so has output: none must hold up the others. A coordinator serves so
many streams of one connection and lets others wait, for ever if need be: with more of them there are more channels. They belong to the
process that made them: gRPC does not survive a fork.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any, Optional

from . import credentials
from ._requirements import grpc
from ._rpcs import RequestT, ResponseT, Rpc
from .address import ServerAddress
from .errors import Cancelled, FailedPrecondition, MusterError, Unavailable, error_of_rpc

_MAX_MESSAGE_BYTES = 16 << 20
_OPTIONS: list[tuple[str, Any]] = [
    # A proxy variable of the user's shell must not capture the connection.
    ("grpc.enable_http_proxy", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 3_000),
    ("grpc.max_reconnect_backoff_ms", 3_000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
]
# gRPC's threads are not there in a forked process: what is asked there would wait for ever.
AFTER_FORK = ("gRPC does not survive a fork, and this process was forked from one with an open client: close that before the fork and "
              "make one in here, or start processes by `spawn`, or set GRPC_ENABLE_FORK_SUPPORT=1 before Python starts and make one "
              "in here")
_FORKS_ARE_SURVIVED = os.environ.get("GRPC_ENABLE_FORK_SUPPORT", "").lower() in ("1", "true", "yes", "y")
# On one channel. Coordinators serve 64.
_MAX_STREAMS = 48
# A client that lives long has its certificate looked after so often; seconds.
_LOOK_SECONDS = 3600.0


@dataclass(eq=False)
class Lane:
    """A channel, and how many streams run on it."""

    channel: grpc.Channel
    streams: int = 0


class Channels:
    """The channels to `server`, at least one for each use that is asked for. `trust_directory`: where the user's certificate is, for
    HOST:PORT. FailedPrecondition when it is needed and not there, and after a fork that gRPC does not survive."""

    # All that there are, also those that a forked process has from its parent.
    _all: weakref.WeakSet[Channels] = weakref.WeakSet()

    def __init__(self, server: ServerAddress, trust_directory: str):
        self.server = server
        self.closed = threading.Event()
        # gRPC was asked for a channel.
        self.used = False
        if not _FORKS_ARE_SURVIVED and any(one.used and not one.are_own and not one.closed.is_set() for one in self._all):
            raise FailedPrecondition(AFTER_FORK)
        self._folder = trust_directory
        self._process = os.getpid()
        # May be taken again by the same thread: an iterator that was left alone is ended by the garbage collector, anywhere.
        self._lock = threading.RLock()
        self._generation: Optional[str] = None
        self._looked = 0.0
        self._lanes: dict[str, list[Lane]] = {}
        if not server.is_unix:
            credentials.load(trust_directory)  # Whoever has no certificate hears so at once.
            self._have_certificate_looked_after()
        self._all.add(self)

    @property
    def are_own(self) -> bool:
        """This process made them; false after a fork."""
        return os.getpid() == self._process

    def begin_close(self) -> None:
        """No call is started any more."""
        self.closed.set()

    def close(self) -> None:
        """Ends all calls that run."""
        self.begin_close()
        with self._lock:
            lanes, self._lanes = [lane for lanes in self._lanes.values() for lane in lanes], {}
        for lane in lanes:
            lane.channel.close()

    def start_of(self, use: str, rpc: Rpc[RequestT, ResponseT]) -> Any:
        """What starts a call with one answer. Cancelled when they were closed, FailedPrecondition after a fork."""
        return rpc.on(self._lane(use, 0).channel)

    def begin_stream(self, use: str, rpc: Rpc[RequestT, ResponseT]) -> tuple[Any, Lane]:
        """What starts a stream, and its place on a channel, until `end_stream`. Raises as `start_of`."""
        lane = self._lane(use, 1)
        return rpc.on(lane.channel), lane

    def end_stream(self, lane: Lane) -> None:
        """Gives the place back."""
        with self._lock:
            lane.streams -= 1

    def _lane(self, use: str, streams: int) -> Lane:
        """A channel for `use` with room for so many more streams, which it has then."""
        if not self.are_own:
            raise FailedPrecondition(AFTER_FORK)
        if self.closed.is_set():
            raise Cancelled("the client was closed")
        with self._lock:
            if not self.server.is_unix and time.monotonic() > self._looked + _LOOK_SECONDS:
                self._have_certificate_looked_after()
            self._forget_old_certificate()
            lanes = self._lanes.setdefault(use, [])
            lane = next((one for one in lanes if one.streams + streams <= _MAX_STREAMS), None)
            if lane is None:
                lane = Lane(self._channel(f"{use}-{len(lanes)}"))
                lanes.append(lane)
            lane.streams += streams
            return lane

    def invoke(self, start: Any, request: object, timeout: Optional[float]) -> Any:
        """Starts the call. grpc.RpcError, or Cancelled when they were closed meanwhile."""
        try:
            return start(request, timeout=timeout)
        except ValueError:
            # What gRPC says of a channel that was closed meanwhile.
            if self.closed.is_set():
                raise Cancelled("the client was closed") from None
            raise

    def problem_of(self, error: grpc.RpcError, use: str) -> MusterError:
        """The exception for what a call on the channel for `use` ended with."""
        problem = error_of_rpc(error, ended_by_caller=self.closed.is_set())
        if not isinstance(problem, Unavailable):
            return problem
        # One that could not connect waits longer and longer before it tries again: the next call gets a new one. What else runs on
        # it goes on.
        with self._lock:
            self._lanes.pop(use, None)
        where = f"cannot reach the coordinator at {self.server.target} (from {self.server.origin}): {problem.message}"
        if not self.server.is_unix:
            where += (f"\n(over the network the coordinator's certificate must have the name or address {self.server.target}: "
                      "`coordinator init --host` says which; `coordinator nodes` tells more about what is wrong)")
        return Unavailable(where)

    def _have_certificate_looked_after(self) -> None:
        self._looked = time.monotonic()
        credentials.have_looked_after(self._folder, self.server.target)

    def _forget_old_certificate(self) -> None:
        """New calls show the certificate that the user has now: it may have been renewed."""
        if self.server.is_unix:
            return
        generation = credentials.generation_of(self._folder)
        if generation != self._generation:
            # What runs on the old channels goes on; they are closed when nobody uses them any more.
            self._lanes.clear()
        self._generation = generation

    def _channel(self, name: str) -> grpc.Channel:
        self.used = True
        # An argument of its own: channels with equal ones would share a connection.
        options = [*_OPTIONS, ("muster.use", name)]
        if self.server.is_unix:
            return grpc.insecure_channel(self.server.target, options)
        own = credentials.load(self._folder)
        return grpc.secure_channel(f"dns:///{self.server.target}",
                                   grpc.ssl_channel_credentials(own.authorities, own.key, own.certificate), options)
