"""Between the protocol's times, bytes and numbers, and those of Python. Pure."""

from __future__ import annotations

import enum
import os
from datetime import datetime, timedelta, timezone
from typing import Optional, TypeVar, Union

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

# A time as a caller writes it: seconds, or a timedelta.
Seconds = Union[int, float, timedelta]
# Bytes as a caller writes them: text is encoded as file names are, so that any byte string makes its way.
Text = Union[str, bytes, "os.PathLike[str]"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def to_bytes(text: Text) -> bytes:
    """The bytes of an argument, a path or a value."""
    return os.fsencode(text)


def from_bytes(data: bytes) -> str:
    """The text of an argument, a path or a value; bytes that are no UTF-8 come back with `to_bytes`."""
    return os.fsdecode(data)


def to_duration(value: Seconds) -> Duration:
    """ValueError for a time that is negative or not finite."""
    delta = value if isinstance(value, timedelta) else _delta_of(value)
    if delta < timedelta(0):
        raise ValueError(f"a time cannot be negative, got {value!r}")
    duration = Duration()
    duration.FromTimedelta(delta)
    return duration


def seconds_of(value: Seconds) -> float:
    """Seconds. ValueError for a time that is negative or not finite."""
    return to_duration(value).ToTimedelta().total_seconds()


def _delta_of(seconds: float) -> timedelta:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"a time is in seconds, or a timedelta, got {type(seconds).__name__}")
    try:
        return timedelta(seconds=seconds)
    except (OverflowError, ValueError) as error:
        raise ValueError(f"expected a time in seconds, got {seconds!r}") from error


def duration_of(message: Message, field: str) -> Optional[timedelta]:
    """The field's time; None when it is unset."""
    return getattr(message, field).ToTimedelta() if message.HasField(field) else None


def time_of(message: Message, field: str) -> Optional[datetime]:
    """The field's time in UTC, to the microsecond; None when it is unset."""
    if not message.HasField(field):
        return None
    stamp: Timestamp = getattr(message, field)
    return _EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)


def time_of_ns(nanoseconds: int) -> datetime:
    """The time so many nanoseconds after 1970, in UTC, to the microsecond."""
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)


def ns_of_time(value: Union[int, datetime]) -> int:
    """Nanoseconds since 1970; a datetime without a zone is a local one."""
    if isinstance(value, int):
        return value
    return round((value - _EPOCH if value.tzinfo else value.astimezone() - _EPOCH) / timedelta(microseconds=1)) * 1000


EnumT = TypeVar("EnumT", bound=enum.Enum)


def enum_of(kind: type[EnumT], number: int) -> EnumT:
    """The member with this number; that of 0, which is for what is not known, when this version has none."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)
