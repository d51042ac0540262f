"""A job as far as it is known, merged from what the coordinator tells of its changes. Does no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ._convert import enum_of
from .job_parts import JobState
from .v1 import job_pb2


@dataclass(frozen=True)
class Merged:
    """An update that told something new. `job`: all of it now; `ranks`, `nodes`: those that changed; `previous`: the state before."""

    job: job_pb2.Job
    ranks: tuple[job_pb2.JobRank, ...]
    nodes: tuple[job_pb2.JobNode, ...]
    previous: Optional[JobState]


class JobView:
    """Of one job. The first update of a stream is the whole job, those behind it have what changed."""

    def __init__(self) -> None:
        self._job: Optional[job_pb2.Job] = None
        self._ranks: dict[int, job_pb2.JobRank] = {}
        self._nodes: dict[int, job_pb2.JobNode] = {}
        self._fresh = True

    def begin_stream(self) -> None:
        self._fresh = True

    @property
    def ended(self) -> bool:
        state = self.state
        return state is not None and state.is_terminal

    @property
    def state(self) -> Optional[JobState]:
        return None if self._job is None else enum_of(JobState, self._job.state)

    def apply(self, update: job_pb2.Job) -> Optional[Merged]:
        """None when it tells nothing new."""
        before, previous, fresh = self._job, self.state, self._fresh
        self._fresh = False
        if fresh and before is not None and before.revision == update.revision:
            return None
        ranks = tuple(one for one in update.ranks if self._ranks.get(one.rank) != one)
        nodes = tuple(one for one in update.nodes if self._nodes.get(one.index) != one)
        if fresh:
            self._ranks, self._nodes = {}, {}
        self._ranks.update((one.rank, one) for one in update.ranks)
        self._nodes.update((one.index, one) for one in update.nodes)
        self._job = job_pb2.Job()
        self._job.CopyFrom(update)
        self._job.ClearField("ranks")
        self._job.ClearField("nodes")
        self._job.ranks.extend(self._ranks[rank] for rank in sorted(self._ranks))
        self._job.nodes.extend(self._nodes[index] for index in sorted(self._nodes))
        return Merged(self._job, ranks, nodes, previous)
