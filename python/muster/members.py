"""Who may join a cluster, and who belongs to it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import datetime
from typing import Optional

from ._convert import enum_of, time_of
from .v1 import trust_pb2


class MemberKind(enum.Enum):
    """What a member is: the agent of a node, somebody who submits jobs, somebody who operates the coordinator."""

    UNKNOWN = 0
    AGENT = 1
    USER = 2
    ADMIN = 3


@dataclass(frozen=True)
class Token:
    """A token without its secret. `name`, `network`: who may join with it and from where, empty: anybody, anywhere."""

    token_id: str
    kind: MemberKind
    name: str
    network: str
    uses_left: int
    create_time: Optional[datetime]
    expire_time: Optional[datetime]

    @classmethod
    def from_proto(cls, proto: trust_pb2.Token) -> Token:
        """From the message of the protocol."""
        return cls(proto.token_id, enum_of(MemberKind, proto.kind), proto.name, proto.network, proto.uses_left,
                   time_of(proto, "create_time"), time_of(proto, "expire_time"))


@dataclass(frozen=True)
class NewToken:
    """A new token. `token` is a secret and is told only here. `addresses`: where to join, HOST:PORT, in the order to try."""

    token: str = field(repr=False)
    info: Token
    addresses: tuple[str, ...]

    @classmethod
    def from_proto(cls, proto: trust_pb2.CreateTokenResponse) -> NewToken:
        """From the message of the protocol."""
        return cls(proto.token, Token.from_proto(proto.info), tuple(proto.addresses))


@dataclass(frozen=True)
class Member:
    """A node or a person. `serial`: of its newest certificate, hexadecimal; `key_sha256`: of its public key."""

    kind: MemberKind
    name: str
    serial: str
    key_sha256: str
    certificate_end_time: Optional[datetime]
    join_time: Optional[datetime]
    revoked: bool

    @classmethod
    def from_proto(cls, proto: trust_pb2.Member) -> Member:
        """From the message of the protocol."""
        return cls(enum_of(MemberKind, proto.kind), proto.name, proto.serial, proto.key_sha256,
                   time_of(proto, "certificate_end_time"), time_of(proto, "join_time"), proto.revoked)


@dataclass(frozen=True)
class Revocation:
    """What revoking did: certificates that are not good any more, and streams that were cut."""

    certificates: int
    streams: int
