"""Decodes the frames of a rank's log file. Does no I/O.

A log is a sequence of frames, each 24 bytes of header, little endian, and up to 1 MiB of payload:

    u32 magic "MLOG"; u32 payload bytes; u8 kind; u8[3] zero; i64 time in ns since 1970 (clock of the node);
    u32 CRC-32 of the 20 bytes before it

Payload of stdout and stderr: what the rank wrote. Of a gap: u64 bytes of stdout, u64 bytes of stderr that were dropped here. Of a
hole: the same, then bytes without a meaning. Of the end, which is the last frame of a complete log: u64 bytes that the rank
wrote, u64 bytes of those that were dropped.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from .errors import MusterError

_HEADER = struct.Struct("<4sIB3sqI")
_COUNTERS = struct.Struct("<QQ")
_CRC_OFFSET = 20
_MAX_PAYLOAD_BYTES = 1 << 20


class FrameKind(enum.Enum):
    """What a frame holds."""

    STDOUT = 1
    STDERR = 2
    GAP = 3
    END = 4
    HOLE = 5


class FrameError(MusterError, ValueError):
    """Something that is no frame; nothing behind it can be read. `offset`: position in the bytes that were fed."""

    code = "DATA_LOSS"

    def __init__(self, message: str, offset: int):
        super().__init__(f"{message}, at byte {offset}")
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        return FrameError, (self.message.rpartition(", at byte ")[0], self.offset)


@dataclass(frozen=True)
class Frame:
    """One frame.

    `time_ns`: nanoseconds since 1970, clock of the node. `data`: what the rank wrote; empty but for STDOUT and STDERR.
    `stdout_dropped`, `stderr_dropped`: bytes dropped here, of GAP and HOLE. `written_bytes`, `dropped_bytes`: totals of both
    streams, of END.
    """

    kind: FrameKind
    time_ns: int
    data: bytes = b""
    stdout_dropped: int = 0
    stderr_dropped: int = 0
    written_bytes: int = 0
    dropped_bytes: int = 0


class FrameReader:
    """Takes frames off a log that arrives in pieces, cut anywhere."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        # Bytes of a hole that are still to come and are not kept.
        self._skip = 0
        self._offset = 0
        self.ended = False

    @property
    def partial_bytes(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._bytes)

    def feed(self, data: bytes, zeros: int = 0) -> Iterator[Frame]:
        """Yields the frames that `data`, and behind it so many bytes that are 0, complete. To be read to its end.

        FrameError where something is no frame; after that there is nothing more to be had.
        """
        skipped = min(self._skip, len(data))
        self._bytes += memoryview(data)[skipped:]
        self._skip -= skipped
        self._offset += skipped
        yield from self._frames()
        while zeros > 0:
            fed = min(self._skip, zeros)
            if fed > 0:
                self._skip -= fed
                self._offset += fed
            else:
                # They belong to the beginning of a hole, or to what a rank wrote.
                fed = min(zeros, _MAX_PAYLOAD_BYTES)
                self._bytes += bytes(fed)
            zeros -= fed
            yield from self._frames()

    def _frames(self) -> Iterator[Frame]:
        while self._skip == 0 and self._bytes:
            if self.ended:
                raise FrameError("bytes after the end", self._offset)
            if len(self._bytes) < _HEADER.size:
                return
            kind, size, time_ns = self._header()
            kept = _COUNTERS.size if kind is FrameKind.HOLE else size
            if len(self._bytes) < _HEADER.size + kept:
                return
            payload = bytes(self._bytes[_HEADER.size:_HEADER.size + kept])
            whole = _HEADER.size + size
            self._skip = max(whole - len(self._bytes), 0)
            self._offset += min(whole, len(self._bytes))
            del self._bytes[:whole]
            yield self._accept(kind, time_ns, payload)

    def _header(self) -> tuple[FrameKind, int, int]:
        magic, size, number, zero, time_ns, crc = _HEADER.unpack_from(self._bytes)
        if magic != b"MLOG" or zlib.crc32(memoryview(self._bytes)[:_CRC_OFFSET]) != crc:
            raise FrameError("no frame", self._offset)
        try:
            kind = FrameKind(number)
        except ValueError:
            raise FrameError(f"a frame of kind {number}, which this version does not know", self._offset) from None
        counters = kind in (FrameKind.GAP, FrameKind.END)
        fits = size == _COUNTERS.size if counters else size <= _MAX_PAYLOAD_BYTES
        if zero != bytes(3) or not fits or (kind is FrameKind.HOLE and size < _COUNTERS.size):
            raise FrameError("a frame with a bad header", self._offset)
        return kind, size, time_ns

    def _accept(self, kind: FrameKind, time_ns: int, payload: bytes) -> Frame:
        if kind in (FrameKind.STDOUT, FrameKind.STDERR):
            return Frame(kind, time_ns, payload)
        first, second = _COUNTERS.unpack(payload)
        if kind is FrameKind.END:
            self.ended = True
            return Frame(kind, time_ns, written_bytes=first, dropped_bytes=second)
        return Frame(kind, time_ns, stdout_dropped=first, stderr_dropped=second)
