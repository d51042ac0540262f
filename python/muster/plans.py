"""Where ranks of a job would run, and with what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

from ._convert import from_bytes
from .v1 import job_pb2, types_pb2


@dataclass(frozen=True)
class PlannedRank:
    """A rank. `env`: the variables that the launcher owns."""

    rank: int
    local_rank: int
    slot: int
    env: dict[str, str]


@dataclass(frozen=True)
class PlannedNode:
    """A node, in hostfile order. `node_id`: empty when no node is known yet. `env`: variables of its ranks, the last assignment
    of each; `${NAME}` where the node fills in, `~` for the home directory. `launch`: all that the node would be told."""

    host: str
    node_id: str
    ranks: tuple[PlannedRank, ...]
    argv: tuple[str, ...]
    cwd: str
    # There may be secrets in them.
    env: dict[str, str] = field(repr=False)
    launch: types_pb2.LaunchSpec = field(repr=False)

    @classmethod
    def from_proto(cls, proto: job_pb2.PlannedNode) -> PlannedNode:
        """From the message of the protocol."""
        launch = proto.launch
        ranks = tuple(PlannedRank(one.rank, one.local_rank, one.slot,
                                  {from_bytes(pair.name): from_bytes(pair.value) for pair in one.env}) for one in launch.ranks)
        return cls(proto.host, proto.node_id, ranks, tuple(from_bytes(one) for one in launch.argv),
                   from_bytes(launch.working_directory), {from_bytes(one.name): _shown(one) for one in launch.env}, launch)


def _shown(assignment: types_pb2.EnvAssignment) -> str:
    text = ""
    for part in assignment.parts:
        kind = part.WhichOneof("part")
        text += from_bytes(part.literal) if kind == "literal" else "~" if kind == "home" else "${" + part.variable + "}"
    return text


@dataclass(frozen=True)
class Plan:
    """The plan of a job. `master_addr`, `master_port`: None when they are chosen at the start."""

    nodes: tuple[PlannedNode, ...]
    world_size: int
    master_addr: Optional[str]
    master_port: Optional[int]
    warnings: tuple[str, ...]

    @classmethod
    def from_proto(cls, proto: job_pb2.Plan) -> Plan:
        """From the message of the protocol."""
        return cls(tuple(PlannedNode.from_proto(one) for one in proto.nodes), proto.world_size, proto.master_addr or None,
                   proto.master_port or None, tuple(proto.warnings))
