"""The authority (CA) of a cluster, and how far a change of it has come."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Optional

from ._convert import enum_of, time_of
from .members import MemberKind
from .v1 import authority_pb2


class AuthorityPhase(enum.Enum):
    """No change; members learn to trust the new authority; the new authority signs."""

    UNKNOWN = 0
    STEADY = 1
    TRUST_BOTH = 2
    ISSUE_NEW = 3


@dataclass(frozen=True)
class AuthorityCertificate:
    """A certificate that signs others. `key_sha256`: what tokens pin, hexadecimal. `signs`: it signs what is made now."""

    key_sha256: str
    signs: bool
    create_time: Optional[datetime]
    end_time: Optional[datetime]


@dataclass(frozen=True)
class AwaitedMember:
    """A member that a change waits for, until its certificate ends."""

    kind: MemberKind
    name: str
    certificate_end_time: Optional[datetime]


@dataclass(frozen=True)
class Authority:
    """The authority. `certificates`: all that are trusted, the one that signs first."""

    phase: AuthorityPhase
    certificates: tuple[AuthorityCertificate, ...]
    awaited: tuple[AwaitedMember, ...]
    certificate_life: timedelta
    coordinator_certificate_end_time: Optional[datetime]

    @classmethod
    def from_proto(cls, proto: authority_pb2.Authority) -> Authority:
        """From the message of the protocol."""
        return cls(
            enum_of(AuthorityPhase, proto.phase),
            tuple(AuthorityCertificate(one.key_sha256, one.signs, time_of(one, "create_time"), time_of(one, "end_time"))
                  for one in proto.certificates),
            tuple(AwaitedMember(enum_of(MemberKind, one.kind), one.name, time_of(one, "certificate_end_time"))
                  for one in proto.awaited),
            timedelta(seconds=proto.certificate_life_seconds), time_of(proto, "coordinator_certificate_end_time"))
