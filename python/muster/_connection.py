"""The connection to a coordinator: channels, certificates, calls that are repeated, and streams that come back.

Thread-safe. Two channels, as the commands have them: output on one must not hold up calls on the other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Optional

import grpc

from . import credentials
from .address import ServerAddress
from .errors import MusterError, Unavailable, error_of_rpc

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
# Between tries to get back to a coordinator: the first pause, and the longest.
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
# A client that lives long has its certificate looked after so often.
_LOOK_SECONDS = 3600.0


class Connection:
    """Makes calls to one coordinator.

    `timeout`: seconds that a call may take. `reconnect`: seconds for which a lost coordinator is looked for without any progress.
    """

    def __init__(self, server: ServerAddress, timeout: float, reconnect: float, trust_directory: str):
        self.server = server
        self.timeout = timeout
        self.reconnect = reconnect
        self._folder = trust_directory
        # May be taken again by the same thread: an iterator that was left alone is ended by the garbage collector, anywhere.
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._generation: Optional[str] = None
        self._streams: set[Any] = set()
        self._looked = 0.0
        self._channels: dict[str, grpc.Channel] = {}
        if not server.is_unix:
            credentials.load(trust_directory)  # Whoever has no certificate hears so at once.
            self._have_certificate_looked_after()

    def close(self) -> None:
        """Ends all calls and streams."""
        self._closed.set()
        with self._lock:
            channels, self._channels = list(self._channels.values()), {}
            streams = list(self._streams)
        # Some may be on channels that are not used for new calls any more.
        for call in streams:
            call.cancel()
        for channel in channels:
            channel.close()

    def call(self, stub: Any, method: str, request: Any, *, patience: float = 0.0, timeout: Optional[float] = None) -> Any:
        """A call with one answer, within `timeout` seconds; repeated while nobody answers, for up to `patience` seconds. Raises
        MusterError."""
        give_up = time.monotonic() + patience
        pauses = _pauses()
        while True:
            try:
                return self._invoke(self._method("control", stub, method), request, timeout or self.timeout)
            except grpc.RpcError as error:
                problem = self._problem(error, "control")
            if not isinstance(problem, Unavailable) or time.monotonic() >= give_up or self._closed.wait(next(pauses)):
                raise problem

    def stream(self, use: str, stub: Any, method: str, make_request: Callable[[], Any], *, deadline: Optional[float] = None,
               until: Callable[[], bool] = lambda: True, repeat: bool = True) -> Iterator[Any]:
        """The messages of a stream. With `repeat`, when the connection breaks, or the stream ends before `until` holds, it is opened
        again with a new request, for up to `reconnect` seconds without a message.

        `deadline`: moment of time.monotonic() at which DeadlineExceeded is raised. Raises MusterError.
        """
        give_up = time.monotonic() + self.reconnect
        pauses = _pauses()
        while True:
            moved = False
            problem: MusterError
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            call = None
            # Kept while it is read: it holds the channel.
            start = self._method(use, stub, method)
            try:
                call = self._begun(self._invoke(start, make_request(), left))
                for message in call:
                    moved = True
                    yield message
                if until():
                    return
                problem = Unavailable("the coordinator stopped")
            except grpc.RpcError as error:
                problem = self._problem(error, use)
            finally:
                if call is not None:
                    call.cancel()
                    with self._lock:
                        self._streams.discard(call)
            if moved:
                give_up = time.monotonic() + self.reconnect
                pauses = _pauses()
            pause = next(pauses)
            if deadline is not None:
                pause = min(pause, max(deadline - time.monotonic(), 0.0))
            lost = repeat and isinstance(problem, Unavailable)
            if not lost or time.monotonic() >= give_up or self._closed.wait(pause):
                raise problem

    def _invoke(self, method: Any, request: Any, timeout: Optional[float]) -> Any:
        try:
            return method(request, timeout=timeout)
        except ValueError:
            # What gRPC says of a channel that was closed meanwhile.
            if self._closed.is_set():
                raise Unavailable("the client was closed") from None
            raise

    def _begun(self, call: Any) -> Any:
        """The call, which `close` ends from now on."""
        with self._lock:
            self._streams.add(call)
        if self._closed.is_set():
            call.cancel()
        return call

    def _method(self, use: str, stub: Any, method: str) -> Any:
        """The method on the channel for `use`."""
        if self._closed.is_set():
            raise Unavailable("the client was closed")
        with self._lock:
            if not self.server.is_unix and time.monotonic() > self._looked + _LOOK_SECONDS:
                self._have_certificate_looked_after()
            return getattr(stub(self._channel(use)), method)

    def _have_certificate_looked_after(self) -> None:
        self._looked = time.monotonic()
        credentials.have_looked_after(self._folder, self.server.target)

    def _channel(self, use: str) -> grpc.Channel:
        """With the certificate that the user has now: it may have been renewed."""
        if not self.server.is_unix:
            generation = credentials.generation_of(self._folder)
            if generation != self._generation:
                # What runs on the old channel goes on; it is closed when nobody uses it any more.
                self._channels.clear()
            self._generation = generation
        if use not in self._channels:
            # An argument of its own: channels with equal ones would share a connection.
            options = [*_OPTIONS, ("muster.use", use)]
            if self.server.is_unix:
                self._channels[use] = grpc.insecure_channel(self.server.target, options)
            else:
                own = credentials.load(self._folder)
                self._channels[use] = grpc.secure_channel(
                    f"dns:///{self.server.target}", grpc.ssl_channel_credentials(own.authorities, own.key, own.certificate), options)
        return self._channels[use]

    def _problem(self, error: grpc.RpcError, use: str) -> MusterError:
        problem = error_of_rpc(error, ended_by_caller=self._closed.is_set())
        if not isinstance(problem, Unavailable):
            return problem
        # One that could not connect waits longer and longer before it tries again: the next call gets a new one. What else runs on
        # it goes on.
        with self._lock:
            self._channels.pop(use, None)
        where = f"cannot reach the coordinator at {self.server.target} (from {self.server.origin}): {problem.message}"
        if not self.server.is_unix:
            where += (f"\n(over the network the coordinator's certificate must have the name or address {self.server.target}: "
                      "`coordinator init --host` says which; `coordinator nodes` tells more about what is wrong)")
        return Unavailable(where)


def _pauses() -> Iterator[float]:
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 2, _LONGEST_PAUSE)
