"""Parts of a job as the coordinator tells them: states, hosts, ranks, and how they ended."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime
from typing import Optional, Union

from ._convert import enum_of, time_of
from .reports import NodeReport, Problem, RankPlacement
from .v1 import job_pb2, types_pb2


class JobState(enum.Enum):
    """Life of a job; the last three are final."""

    UNKNOWN = 0
    PENDING = 1
    PREPARING = 2
    RUNNING = 3
    STOPPING = 4
    SUCCEEDED = 5
    FAILED = 6
    CANCELLED = 7

    @property
    def is_terminal(self) -> bool:
        """The job has ended, and stays as it is."""
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)


class Cause(enum.Enum):
    """Class of the end of a job."""

    UNKNOWN = 0
    NONE = 1
    RANK_FAILED = 2
    EXEC_FAILED = 3
    NODE_MISSING = 4
    PREPARE_FAILED = 5
    NODE_LOST = 6
    USER = 7
    TIME_LIMIT = 8
    INTERNAL = 9
    STALLED = 10


class NodePhase(enum.Enum):
    """How far a host of a job is."""

    UNKNOWN = 0
    WAITING = 1
    PREPARING = 2
    PREPARED = 3
    PREPARE_FAILED = 4
    RUNNING = 5
    STOPPING = 6
    STOPPED = 7
    LOST = 8


class RankState(enum.Enum):
    """Life of a rank; LOST: nobody can tell what became of it."""

    UNKNOWN = 0
    WAITING = 1
    RUNNING = 2
    EXITED = 3
    LOST = 4


@dataclass(frozen=True)
class ExecFailure:
    """A program that could not be executed: the step that failed, its errno, and what to tell."""

    step: str
    error_number: int
    message: str


@dataclass(frozen=True)
class ExitStatus:
    """How a process ended: exactly one of `exit_code` (0 to 255), `signal` and `exec_failure` is not None."""

    exit_code: Optional[int]
    signal: Optional[int]
    exec_failure: Optional[ExecFailure]
    oom_killed: bool = False
    core_dumped: bool = False
    card_problem: str = ""

    @classmethod
    def from_proto(cls, proto: types_pb2.ExitStatus) -> ExitStatus:
        """From the message of the protocol."""
        what = proto.WhichOneof("outcome")
        failure = proto.exec_failure
        return cls(proto.exit_code if what == "exit_code" else None, proto.signal if what == "signal" else None,
                   ExecFailure(failure.step, failure.error_number, failure.message) if what == "exec_failure" else None,
                   proto.oom_killed, proto.core_dumped, proto.card_problem)


def _status_of(message: Union[job_pb2.JobRank, job_pb2.Failure]) -> Optional[ExitStatus]:
    return ExitStatus.from_proto(message.status) if message.HasField("status") else None


@dataclass(frozen=True)
class Rendezvous:
    """Where ranks meet: MASTER_ADDR and MASTER_PORT."""

    address: str
    port: int


@dataclass(frozen=True)
class JobNode:
    """A host of a job. `problems`: why it cannot run it. `suspect`: out of contact, not lost yet. `report`: what its checks found
    before the start."""

    index: int
    host: str
    node_id: str
    phase: NodePhase
    problems: tuple[Problem, ...]
    suspect: bool
    report: NodeReport

    @classmethod
    def from_proto(cls, proto: job_pb2.JobNode) -> JobNode:
        """From the message of the protocol."""
        return cls(proto.index, proto.host, proto.node_id, enum_of(NodePhase, proto.phase),
                   tuple(Problem(one.check, one.message) for one in proto.problems), proto.suspect,
                   NodeReport.from_proto(proto.report))


@dataclass(frozen=True)
class JobRank:
    """A rank. Times are of the clock of its node; sizes are bytes: `log_size` and `stored_log_bytes` of the frame file,
    `written_bytes` and `dropped_bytes` of output. `stored_log_bytes` is told by Client.get only."""

    rank: int
    node_index: int
    local_rank: int
    slot: int
    state: RankState
    pid: int
    status: Optional[ExitStatus]
    start_time: Optional[datetime]
    end_time: Optional[datetime]
    log_closed: bool
    log_size: int
    written_bytes: int
    dropped_bytes: int
    lost_reason: str
    stored_log_bytes: int
    placement: Optional[RankPlacement]

    @classmethod
    def from_proto(cls, proto: job_pb2.JobRank) -> JobRank:
        """From the message of the protocol."""
        return cls(proto.rank, proto.node_index, proto.local_rank, proto.slot, enum_of(RankState, proto.state), proto.pid,
                   _status_of(proto), time_of(proto, "start_time"), time_of(proto, "end_time"), proto.log_closed, proto.log_size,
                   proto.written_bytes, proto.dropped_bytes, proto.lost_reason, proto.stored_log_bytes,
                   RankPlacement.from_proto(proto.placement) if proto.HasField("placement") else None)


@dataclass(frozen=True)
class Failure:
    """The failure that ended a job. `rank`, `pid`, `status`: None when no rank is to blame."""

    host: str
    message: str
    rank: Optional[int]
    pid: Optional[int]
    status: Optional[ExitStatus]
    time: Optional[datetime]

    @classmethod
    def from_proto(cls, proto: job_pb2.Failure) -> Failure:
        """From the message of the protocol."""
        return cls(proto.host, proto.message, proto.rank if proto.has_rank else None, proto.pid if proto.has_rank else None,
                   _status_of(proto) if proto.has_rank else None, time_of(proto, "time"))
