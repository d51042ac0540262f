"""The messages of one stream of a coordinator, across connections that break."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, Callable, Generic, Optional, Union

from ._channels import Channels, Lane
from ._requirements import grpc
from ._rpcs import RequestT, ResponseT, Rpc
from .errors import Cancelled, MusterError, Unavailable

# Between tries to get back to a coordinator: the first pause, and the longest; seconds.
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0


def pauses() -> Iterator[float]:
    """How long to wait before each further try, in seconds."""
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 2, _LONGEST_PAUSE)


class Messages(Iterator[ResponseT], Generic[RequestT, ResponseT]):
    """Iterates over the messages of a stream.

    With `repeat`, when the connection breaks, or the stream ends before `until` holds, it is opened again with a new request, for up
    to `reconnect` seconds without a message. `deadline`: moment of time.monotonic() at which DeadlineExceeded is raised.

    One thread at a time reads. After an exception it can be asked again: with `repeat` it opens the stream again, without it has
    ended.
    """

    def __init__(self, channels: Channels, use: str, rpc: Rpc[RequestT, ResponseT], make_request: Callable[[], RequestT], *,
                 reconnect: float, deadline: Optional[float] = None, until: Callable[[], bool] = lambda: True, repeat: bool = True):
        self._channels = channels
        self._use = use
        self._rpc = rpc
        self._make_request = make_request
        self._reconnect = reconnect
        self._deadline = deadline
        self._until = until
        self._repeat = repeat
        self.closed = False
        # May be taken again by the same thread, by the garbage collector.
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._ended = False
        self._call: Any = None
        # Its place on a channel, which it keeps alive.
        self._lane: Optional[Lane] = None

    def close(self) -> None:
        """Ends the stream, from any thread: who waits for a message then is told that there are no more."""
        self.closed = True
        self.interrupt()

    def interrupt(self) -> None:
        """Ends the stream, from any thread, because the client is closed: who reads it is told so."""
        self._stopped.set()
        self._drop()

    def __next__(self) -> ResponseT:
        give_up = time.monotonic() + self._reconnect
        waits = pauses()
        while not self._ended and not self._stopped.is_set():
            found = self._step()
            if not isinstance(found, MusterError):
                return found
            lost = self._repeat and isinstance(found, Unavailable)
            if not self._stopped.is_set() and (not lost or time.monotonic() >= give_up):
                self._ended = not self._repeat
                raise found
            pause = next(waits)
            if self._deadline is not None:
                pause = min(pause, max(self._deadline - time.monotonic(), 0.0))
            self._stopped.wait(pause)
        if not self._ended and not self.closed:
            raise Cancelled("the client was closed")
        raise StopIteration

    def _step(self) -> Union[ResponseT, MusterError]:
        """A message, or what is wrong. StopIteration: that was all."""
        try:
            call = self._open() if self._call is None else self._call
            message: ResponseT = next(call)
            return message
        except StopIteration:
            self._drop()
            if self._until():
                self._ended = True
                raise
            return Unavailable("the coordinator stopped")
        except grpc.RpcError as error:
            self._drop()
            # Ended from here: nothing is wrong with the channel.
            return Cancelled("closed") if self._stopped.is_set() else self._channels.problem_of(error, self._use)
        except BaseException:
            # Ctrl-C, for one: a message may be half read. The next call reads it again.
            self._drop()
            self._ended = self._ended or not self._repeat
            raise

    def _open(self) -> Any:
        left = None if self._deadline is None else max(self._deadline - time.monotonic(), 0.0)
        start, lane = self._channels.begin_stream(self._use, self._rpc)
        with self._lock:
            self._lane = lane
        call = self._channels.invoke(start, self._make_request(), left)
        with self._lock:
            self._call = call
        if self._stopped.is_set():
            self._drop()
        return call

    def _drop(self) -> None:
        with self._lock:
            call, self._call = self._call, None
            lane, self._lane = self._lane, None
        # What belongs to the parent process is left alone.
        if call is not None and self._channels.are_own:
            call.cancel()
        if lane is not None and self._channels.are_own:
            self._channels.end_stream(lane)

    def __del__(self) -> None:
        # Its own call only: nobody else has this object.
        if getattr(self, "_lane", None) is not None:
            self._drop()
