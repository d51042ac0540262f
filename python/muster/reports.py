"""What nodes find: checks, properties, reasons why something cannot start, where ranks were put."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ._convert import enum_of
from .v1 import types_pb2


class Verdict(enum.Enum):
    """How a check came out."""

    UNKNOWN = 0
    PASS = 1
    WARN = 2
    FAIL = 3
    SKIPPED = 4


@dataclass(frozen=True)
class CheckResult:
    """What one check found. `message`: what was expected and found; `fix`: what to do, empty when there is nothing to do."""

    check: str
    verdict: Verdict
    message: str
    fix: str = ""

    @classmethod
    def from_proto(cls, proto: types_pb2.CheckResult) -> CheckResult:
        """From the message of the protocol."""
        return cls(proto.check, enum_of(Verdict, proto.verdict), proto.message, proto.fix)


@dataclass(frozen=True)
class NodeTrait:
    """A property that should be the same on all nodes of a job, or different on each."""

    name: str
    value: str


@dataclass(frozen=True)
class NodeReport:
    """What a node found when it was checked, in the order of the checks."""

    results: tuple[CheckResult, ...] = ()
    traits: tuple[NodeTrait, ...] = ()

    @property
    def failed(self) -> list[CheckResult]:
        """What would keep a job from starting."""
        return [result for result in self.results if result.verdict is Verdict.FAIL]

    @classmethod
    def from_proto(cls, proto: types_pb2.NodeReport) -> NodeReport:
        """From the message of the protocol."""
        return cls(tuple(CheckResult.from_proto(one) for one in proto.results),
                   tuple(NodeTrait(one.name, one.value) for one in proto.traits))


@dataclass(frozen=True)
class Problem:
    """One reason why something cannot start."""

    check: str
    message: str


@dataclass(frozen=True)
class RankPlacement:
    """Where a rank was put on its node.

    `cpus`: processors, for example `0-5`, empty when it is not bound. `memory_node`: preferred NUMA node, -1: none.
    `omp_num_threads`: 0 when it was left as it is. `reason`: in words.
    """

    rank: int
    cpus: str
    memory_node: int
    omp_num_threads: int
    reason: str

    @classmethod
    def from_proto(cls, proto: types_pb2.RankPlacement) -> RankPlacement:
        """From the message of the protocol."""
        return cls(proto.rank, proto.cpus, proto.memory_node, proto.omp_num_threads, proto.reason)
