"""Nodes: who is there, and what checks found."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Optional, Union

from ._convert import duration_of, enum_of, time_of
from .devices import DeviceInventory, DeviceReading
from .reports import CheckResult, NodeReport
from .v1 import agent_pb2, check_pb2, node_pb2


class NodeState(enum.Enum):
    """Contact with a node: it answers; it missed its lease; it is taken for lost."""

    UNKNOWN = 0
    ALIVE = 1
    SUSPECT = 2
    LOST = 3


@dataclass(frozen=True)
class NodeFacts:
    """What a node says about itself. `addresses`: numeric, the preferred one first. `devices`: None when it looks for no cards."""

    hostname: str
    fqdn: str
    addresses: tuple[str, ...]
    slots: tuple[int, ...]
    cpu_count: int
    memory_bytes: int
    agent_version: str
    devices: Optional[DeviceInventory]
    slots_are_cards: bool

    @classmethod
    def from_proto(cls, proto: agent_pb2.NodeFacts) -> NodeFacts:
        """From the message of the protocol."""
        return cls(proto.hostname, proto.fqdn, tuple(proto.addresses), tuple(proto.slots), proto.cpu_count, proto.memory_bytes,
                   proto.agent_version, DeviceInventory.from_proto(proto.devices) if proto.HasField("devices") else None,
                   proto.slots_are_cards)


@dataclass(frozen=True)
class Node:
    """A node. `clock_offset`: its clock minus the coordinator's, None when it is not known. `reason`: why it is not alive."""

    node_id: str
    state: NodeState
    facts: NodeFacts
    last_seen: Optional[datetime]
    job_ids: tuple[str, ...]
    boot_id: str
    reason: str
    clock_offset: Optional[timedelta]
    alarms: tuple[str, ...]
    readings: tuple[DeviceReading, ...]
    readings_time: Optional[datetime]

    @classmethod
    def from_proto(cls, proto: node_pb2.Node) -> Node:
        """From the message of the protocol."""
        return cls(proto.node_id, enum_of(NodeState, proto.state), NodeFacts.from_proto(proto.facts), time_of(proto, "last_seen"),
                   tuple(proto.job_ids), proto.boot_id, proto.reason, duration_of(proto, "clock_offset"), tuple(proto.alarms),
                   tuple(DeviceReading.from_proto(one) for one in proto.readings), time_of(proto, "readings_time"))


@dataclass(frozen=True)
class NetworkRate:
    """A measured rate: so many bytes to this address, in this time; `connect_time`: what making the connection took."""

    address: str
    bytes: int
    duration: Optional[timedelta]
    connect_time: Optional[timedelta]

    @classmethod
    def from_proto(cls, proto: check_pb2.NetworkRate) -> NetworkRate:
        """From the message of the protocol."""
        return cls(proto.address, proto.bytes, duration_of(proto, "duration"), duration_of(proto, "connect_time"))


@dataclass(frozen=True)
class CheckedNode:
    """What one node found. `error`: why it has found nothing."""

    host: str
    node_id: str
    report: NodeReport
    error: str


@dataclass(frozen=True)
class ClusterCheck:
    """What was found about all nodes together."""

    report: NodeReport


@dataclass(frozen=True)
class CheckedPair:
    """One direction of one pair of nodes. `rate`: None when there was no connection."""

    sender: str
    receiver: str
    result: CheckResult
    rate: Optional[NetworkRate]


Checked = Union[CheckedNode, ClusterCheck, CheckedPair]


def checked_of(response: node_pb2.CheckNodesResponse) -> Optional[Checked]:
    """None for something that this version does not know."""
    what = response.WhichOneof("what")
    if what == "node":
        one = response.node
        return CheckedNode(one.host, one.node_id, NodeReport.from_proto(one.report), one.error)
    if what == "cluster":
        return ClusterCheck(NodeReport.from_proto(response.cluster))
    if what == "pair":
        pair = response.pair
        return CheckedPair(getattr(pair, "from"), pair.to, CheckResult.from_proto(pair.result),
                           NetworkRate.from_proto(pair.rate) if pair.HasField("rate") else None)
    return None
