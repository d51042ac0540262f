"""Lines of output, put together from frames, and the account of what is missing."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Optional

from ._convert import time_of_ns
from .feeds import DerivedFeed, Feed
from .frames import Frame, FrameKind
from .log_pieces import LogFrame

# A line that is longer is handed on in parts of this size.
MAX_LINE_BYTES = 64 << 10


class Stream(enum.Enum):
    """A stream of a rank."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True)
class LogLine:
    """A line that a rank wrote.

    `text`: bytes without the newline, which need not be UTF-8. `time`: when its end was read, UTC, clock of the node. `ended`:
    a newline was there; without one the line is longer than 64 KiB and goes on in the next one, or the output ends or has a gap.
    `dropped_before`: bytes of this stream that were dropped between the line before and this one.
    """

    rank: int
    attempt: int
    stream: Stream
    time: datetime
    text: bytes
    ended: bool = True
    dropped_before: int = 0


@dataclass
class RankOutput:
    """The account of one rank's output in one attempt, as far as it was read; bytes.

    `dropped_bytes`: gaps and holes that were met. `missing_bytes`: known to exist and never arrived, for example on a lost node.
    `written_bytes`: all that the rank wrote; None until a complete log ends. `damaged_at`: nothing behind it could be read.
    """

    rank: int
    attempt: int
    dropped_bytes: int = 0
    missing_bytes: int = 0
    written_bytes: Optional[int] = None
    damaged_at: Optional[int] = None
    ended: bool = False


@dataclass
class _Partial:
    """The line of one stream that has not ended."""

    text: bytearray = field(default_factory=bytearray)
    time_ns: int = 0
    dropped: int = 0


class LogLines(DerivedFeed[LogLine]):
    """Iterates over lines. `outputs` is the account by (rank, attempt), `lost_bytes` what is missing in all of it.

    The account is complete when every output in it has `ended`: not when it was closed before.
    """

    def __init__(self, frames: Feed[LogFrame]):
        super().__init__(frames)
        self.outputs: dict[tuple[int, int], RankOutput] = {}
        self._partial: dict[tuple[int, int, Stream], _Partial] = {}

    @property
    def lost_bytes(self) -> int:
        """Bytes that were dropped, or never arrived, as far as it was read."""
        return sum(one.dropped_bytes + one.missing_bytes for one in self.outputs.values())

    def _made_of(self, item: LogFrame) -> Iterator[LogLine]:
        key = (item.rank, item.attempt)
        output = self.outputs.setdefault(key, RankOutput(*key))
        if item.frame is None:
            output.ended = True
            output.missing_bytes = item.piece.missing_bytes
            output.damaged_at = item.piece.damaged_at
            yield from self._flush(key)
        elif item.frame.kind is FrameKind.STDOUT:
            yield from self._text(key, Stream.STDOUT, item.frame)
        elif item.frame.kind is FrameKind.STDERR:
            yield from self._text(key, Stream.STDERR, item.frame)
        elif item.frame.kind is FrameKind.END:
            output.written_bytes = item.frame.written_bytes
            yield from self._flush(key)
        else:
            output.dropped_bytes += item.frame.stdout_dropped + item.frame.stderr_dropped
            yield from self._gap(key, item.frame)

    def _of(self, key: tuple[int, int], stream: Stream) -> _Partial:
        return self._partial.setdefault((*key, stream), _Partial())

    def _text(self, key: tuple[int, int], stream: Stream, frame: Frame) -> Iterator[LogLine]:
        partial = self._of(key, stream)
        begin = 0
        while begin < len(frame.data):
            newline = frame.data.find(b"\n", begin)
            end = newline if newline >= 0 else len(frame.data)
            room = MAX_LINE_BYTES - len(partial.text)
            partial.text += frame.data[begin:min(end, begin + room)]
            partial.time_ns = frame.time_ns
            if end - begin > room:
                begin += room
                yield self._line(key, stream, partial, ended=False)
            elif newline >= 0:
                begin = newline + 1
                yield self._line(key, stream, partial, ended=True)
            else:
                begin = end

    def _gap(self, key: tuple[int, int], frame: Frame) -> Iterator[LogLine]:
        for stream, dropped in ((Stream.STDOUT, frame.stdout_dropped), (Stream.STDERR, frame.stderr_dropped)):
            if dropped > 0:
                partial = self._of(key, stream)
                if partial.text:
                    yield self._line(key, stream, partial, ended=False)
                partial.dropped += dropped

    def _flush(self, key: tuple[int, int]) -> Iterator[LogLine]:
        for stream in Stream:
            partial = self._partial.get((*key, stream))
            if partial is not None and partial.text:
                yield self._line(key, stream, partial, ended=False)

    def _line(self, key: tuple[int, int], stream: Stream, partial: _Partial, ended: bool) -> LogLine:
        line = LogLine(*key, stream, time_of_ns(partial.time_ns), bytes(partial.text), ended, partial.dropped)
        partial.text.clear()
        partial.dropped = 0
        return line
