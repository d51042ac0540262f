"""The connection to a coordinator: what the client, and every job that it has told of, make their calls with. Thread-safe."""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any, Callable, Optional

from ._channels import Channels
from ._messages import Messages, pauses
from ._requirements import grpc
from ._rpcs import RequestT, ResponseT, Rpc
from .address import ServerAddress
from .errors import Unavailable


class Connection:
    """Makes calls to one coordinator.

    `timeout`: seconds that a call may take. `reconnect`: seconds for which a lost coordinator is looked for without any progress.
    `trust_directory`: where the user's certificate is, for HOST:PORT.
    """

    def __init__(self, server: ServerAddress, timeout: float, reconnect: float, trust_directory: str):
        self.timeout = timeout
        self.reconnect = reconnect
        self.channels = Channels(server, trust_directory)
        self._lock = threading.RLock()
        # Those that nobody holds any more have ended.
        self._streams: weakref.WeakSet[Messages[Any, Any]] = weakref.WeakSet()

    def close(self) -> None:
        """Ends all calls and streams. In a forked process nothing is done: they are its parent's."""
        if not self.channels.are_own:
            return
        self.channels.begin_close()
        with self._lock:
            streams = list(self._streams)
        # Some may be on channels that are not used for new calls any more.
        for stream in streams:
            stream.interrupt()
        self.channels.close()

    def call(self, rpc: Rpc[RequestT, ResponseT], request: RequestT, *, patience: float = 0.0,
             timeout: Optional[float] = None) -> ResponseT:
        """A call with one answer, within `timeout` seconds; repeated while nobody answers, for up to `patience` seconds. Raises
        MusterError."""
        seconds = self.timeout if timeout is None else timeout
        give_up = time.monotonic() + patience
        waits = pauses()
        while True:
            try:
                answer: ResponseT = self.channels.invoke(self.channels.start_of("control", rpc), request, seconds)
                return answer
            except grpc.RpcError as error:
                problem = self.channels.problem_of(error, "control")
            if not isinstance(problem, Unavailable) or time.monotonic() >= give_up or self.channels.closed.wait(next(waits)):
                raise problem

    def stream(self, use: str, rpc: Rpc[RequestT, ResponseT], make_request: Callable[[], RequestT],
               **options: Any) -> Messages[RequestT, ResponseT]:
        """The messages of a stream, on the channel for `use`. `options`: see Messages."""
        stream = Messages(self.channels, use, rpc, make_request, reconnect=self.reconnect, **options)
        with self._lock:
            self._streams.add(stream)
        return stream
