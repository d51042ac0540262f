"""What a coordinator tells bit by bit, as iterators that can be closed."""

from __future__ import annotations

import abc
import os
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Callable, Generic, Optional, TypeVar

from ._channels import AFTER_FORK
from ._messages import Messages
from .errors import FailedPrecondition

ItemT = TypeVar("ItemT")
FeedT = TypeVar("FeedT", bound="Feed[Any]")


class Feed(Iterator[ItemT], Generic[ItemT], abc.ABC):
    """Iterates over what comes, until there is no more; then closing it is not needed.

    Any thread may `close` it, and who waits for the next item then gets StopIteration; leaving a `with` closes it, too. Threads that
    share one take turns; a forked process gets FailedPrecondition. When waiting for an item has failed (Unavailable, KeyboardInterrupt), the next try goes on where it was.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._turn = threading.Lock()

    def __enter__(self: FeedT) -> FeedT:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def __next__(self) -> ItemT:
        if os.getpid() != self._process:
            raise FailedPrecondition(AFTER_FORK)
        with self._turn:
            return self._next()

    @abc.abstractmethod
    def _next(self) -> ItemT:
        """The next item; StopIteration. By one thread at a time."""

    @property
    @abc.abstractmethod
    def closed(self) -> bool:
        """`close` was called; what was there may not have been read to its end."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends it, from any thread."""


class MessageFeed(Feed[ItemT]):
    """What `convert` makes of the messages of a stream, without those of which it makes None."""

    def __init__(self, messages: Messages[Any, Any], convert: Callable[[Any], Optional[ItemT]]):
        super().__init__()
        self._messages = messages
        self._convert = convert

    def _next(self) -> ItemT:
        while True:
            item = self._convert(next(self._messages))
            if item is not None:
                return item

    @property
    def closed(self) -> bool:
        return self._messages.closed

    def close(self) -> None:
        self._messages.close()


class DerivedFeed(Feed[ItemT]):
    """What is made of the items of another feed: any number of each."""

    def __init__(self, source: Feed[Any]):
        super().__init__()
        self._source = source
        self._ready: Iterator[ItemT] = iter(())
        self._closed = False

    def _next(self) -> ItemT:
        while not self._closed:
            for item in self._ready:
                return item
            self._ready = self._made_of(next(self._source))
        raise StopIteration

    @abc.abstractmethod
    def _made_of(self, item: Any) -> Iterator[ItemT]:
        """What one item of the source makes."""

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._source.close()
