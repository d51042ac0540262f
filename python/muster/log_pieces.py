"""Reads output of ranks as the coordinator keeps it: pieces of frame files, and the frames in them.

A reader that loses its coordinator goes on from where it was: no byte comes twice, and none is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Optional, TypedDict, Union

from ._connection import Connection
from ._convert import Text, ns_of_time, to_bytes
from ._rpcs import READ_LOGS
from .feeds import DerivedFeed, Feed, MessageFeed
from .frames import Frame, FrameReader
from .v1 import job_pb2

_STREAMS = {"stdout": job_pb2.ReadLogsRequest.STDOUT, "stderr": job_pb2.ReadLogsRequest.STDERR}


@dataclass(frozen=True)
class LogPosition:
    """How far the frame file of a rank, filtered as the request says, was read: bytes."""

    rank: int
    attempt: int
    offset: int


@dataclass(frozen=True)
class LogFilter:
    """Which output to read. The coordinator filters; the rest is not sent.

    `ranks`: global ranks, all when empty. `streams`: `"stdout"`, `"stderr"`, both when empty. `since`: leave out what is earlier
    (a datetime, or nanoseconds since 1970; clock of the node). `grep`: only lines that match this expression of RE2.
    `tail_lines`: begin with the last so many lines of each rank. `tail_bytes`: begin about so many bytes before the end.
    `whole_lines`: choose whole lines also by `since` and `streams` alone.
    """

    ranks: Sequence[int] = ()
    streams: Sequence[str] = ()
    since: Union[None, int, datetime] = None
    grep: Text = b""
    tail_lines: Optional[int] = None
    tail_bytes: int = 0
    whole_lines: bool = False

    def to_proto(self, job_id: str) -> job_pb2.ReadLogsRequest:
        """ValueError for a stream that is none, TypeError for a single text in place of a list of them."""
        if isinstance(self.streams, str):
            raise TypeError(f"streams is a list: [{self.streams!r}]")
        unknown = [stream for stream in self.streams if stream not in _STREAMS]
        if unknown:
            raise ValueError(f"streams are 'stdout' and 'stderr', got {unknown[0]!r}")
        request = job_pb2.ReadLogsRequest(
            job_id=job_id, ranks=self.ranks, streams=[_STREAMS[stream] for stream in self.streams],
            since_ns=0 if self.since is None else ns_of_time(self.since), grep=to_bytes(self.grep), tail_bytes=self.tail_bytes,
            whole_lines=self.whole_lines)
        if self.tail_lines is not None:
            request.tail_lines = self.tail_lines
        return request


class LogChoice(TypedDict, total=False):
    """The fields of LogFilter, as keywords."""

    ranks: Sequence[int]
    streams: Sequence[str]
    since: Union[None, int, datetime]
    grep: Text
    tail_lines: Optional[int]
    tail_bytes: int
    whole_lines: bool


@dataclass(frozen=True)
class LogPiece:
    """A piece of the frame file of one rank and attempt. Pieces of one file follow each other without a gap.

    `offset`: of the first byte. `data`: frames, cut anywhere. `zeros`: bytes that are 0 and follow `data`. `end`: nothing more
    will come. `missing_bytes`, with `end`: bytes that are known to exist and never arrived. `damaged_at`: the file is damaged
    there, and nothing behind it can be read.
    """

    rank: int
    attempt: int
    offset: int
    data: bytes
    zeros: int = 0
    end: bool = False
    missing_bytes: int = 0
    damaged_at: Optional[int] = None


@dataclass(frozen=True)
class LogFrame:
    """A frame of a rank. None in place of a frame: its log ends here, see `piece`."""

    rank: int
    attempt: int
    frame: Optional[Frame]
    piece: LogPiece


class _Positions:
    """What was handed on already."""

    def __init__(self, begin: Iterable[LogPosition]):
        self._next = {position.rank: position for position in begin}
        self._ended: set[int] = set()

    def all(self) -> list[LogPosition]:
        return [self._next[rank] for rank in sorted(self._next)]

    def add_to(self, request: job_pb2.ReadLogsRequest) -> None:
        for position in self._next.values():
            getattr(request, "from").add(rank=position.rank, attempt=position.attempt, offset=position.offset)

    def take(self, piece: LogPiece) -> Optional[LogPiece]:
        """The part of the piece that is new; None when all of it was handed on before."""
        known = self._next.get(piece.rank)
        if known is not None and piece.attempt < known.attempt:
            return None
        if known is None or piece.attempt > known.attempt:
            known = LogPosition(piece.rank, piece.attempt, piece.offset)
            self._ended.discard(piece.rank)
        if piece.rank in self._ended:
            return None
        size = len(piece.data) + piece.zeros
        again = min(max(known.offset - piece.offset, 0), size)
        self._next[piece.rank] = replace(known, offset=max(known.offset, piece.offset + size))
        if piece.end:
            self._ended.add(piece.rank)
        if again == size and not piece.end:
            return None
        if again == 0:
            return piece
        of_data = min(again, len(piece.data))
        return replace(piece, offset=piece.offset + again, data=piece.data[of_data:], zeros=piece.zeros - (again - of_data))


class LogPieces(MessageFeed[LogPiece]):
    """The pieces of a job's output. See JobHandle.log_pieces."""

    def __init__(self, connection: Connection, job_id: str, chosen: LogFilter, follow: bool, attempt: int,
                 begin: Iterable[LogPosition]):
        self._reached = _Positions(begin)
        self._template = chosen.to_proto(job_id)
        self._template.follow, self._template.attempt, self._template.sparse = follow, attempt, True
        super().__init__(connection.stream("logs", READ_LOGS, self._request), self._new_of)

    @property
    def positions(self) -> list[LogPosition]:
        """How far each rank was read: what `begin` takes, to go on from here later, or in another process."""
        return self._reached.all()

    def _request(self) -> job_pb2.ReadLogsRequest:
        request = job_pb2.ReadLogsRequest()
        request.CopyFrom(self._template)
        self._reached.add_to(request)
        return request

    def _new_of(self, response: job_pb2.ReadLogsResponse) -> Optional[LogPiece]:
        return self._reached.take(LogPiece(
            rank=response.rank, attempt=response.attempt, offset=response.offset, data=response.data, zeros=response.zeros,
            end=response.end, missing_bytes=response.missing_bytes,
            damaged_at=response.damaged_at if response.HasField("damaged_at") else None))


class LogFrames(DerivedFeed[LogFrame]):
    """The frames in pieces, and behind the last one of each rank and attempt an entry without a frame.

    FrameError where a file has something else; nothing more of that rank can be read, and the next try goes on with the others.
    """

    def __init__(self, pieces: Feed[LogPiece]):
        super().__init__(pieces)
        self._readers: dict[tuple[int, int], FrameReader] = {}

    def _made_of(self, item: LogPiece) -> Iterator[LogFrame]:
        reader = self._readers.setdefault((item.rank, item.attempt), FrameReader())
        for frame in reader.feed(item.data, item.zeros):
            yield LogFrame(item.rank, item.attempt, frame, item)
        if item.end:
            yield LogFrame(item.rank, item.attempt, None, item)
