"""Follows a job: as it is, then its changes, also across a coordinator that is lost for a while."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

from ._connection import Connection
from ._convert import enum_of
from .jobs import Job, JobNode, JobRank, JobState
from .v1 import job_pb2, job_pb2_grpc

if TYPE_CHECKING:
    from .client import Client


@dataclass(frozen=True)
class JobChange:
    """A change of a job. `job`: all of it, as it is now. `ranks`, `nodes`: those of it that changed; at first all of them."""

    job: Job
    ranks: tuple[JobRank, ...]
    nodes: tuple[JobNode, ...]
    previous_state: Optional[JobState]

    @property
    def is_new_state(self) -> bool:
        return self.job.state is not self.previous_state


class _View:
    """The job as far as it is known, merged from what the coordinator tells."""

    def __init__(self) -> None:
        self._job: Optional[job_pb2.Job] = None
        self._ranks: dict[int, job_pb2.JobRank] = {}
        self._nodes: dict[int, job_pb2.JobNode] = {}
        self.fresh = True

    @property
    def ended(self) -> bool:
        return self._job is not None and enum_of(JobState, self._job.state).is_terminal

    @property
    def state(self) -> Optional[JobState]:
        return None if self._job is None else enum_of(JobState, self._job.state)

    def apply(self, update: job_pb2.Job, client: Client) -> Optional[JobChange]:
        """None when it tells nothing new. The first update of a stream is the whole job."""
        before = self._job
        previous = self.state
        if self.fresh and before is not None and before.revision == update.revision:
            self.fresh = False
            return None
        changed_ranks = [one for one in update.ranks if self._ranks.get(one.rank) != one]
        changed_nodes = [one for one in update.nodes if self._nodes.get(one.index) != one]
        if self.fresh:
            self._ranks, self._nodes = {}, {}
        self.fresh = False
        self._ranks.update((one.rank, one) for one in update.ranks)
        self._nodes.update((one.index, one) for one in update.nodes)
        self._job = job_pb2.Job()
        self._job.CopyFrom(update)
        self._job.ClearField("ranks")
        self._job.ClearField("nodes")
        self._job.ranks.extend(self._ranks[rank] for rank in sorted(self._ranks))
        self._job.nodes.extend(self._nodes[index] for index in sorted(self._nodes))
        return JobChange(Job.from_proto(self._job, client), tuple(JobRank.from_proto(one) for one in changed_ranks),
                         tuple(JobNode.from_proto(one) for one in changed_nodes), previous)


def watch(connection: Connection, job_id: str, client: Client, deadline: Optional[float] = None) -> Iterator[JobChange]:
    """See Client.watch."""
    view = _View()

    def request() -> job_pb2.WatchJobRequest:
        view.fresh = True
        return job_pb2.WatchJobRequest(job_id=job_id)

    # A stream that ends well before the job does is a coordinator that stops.
    for response in connection.stream("control", job_pb2_grpc.JobServiceStub, "WatchJob", request, deadline=deadline,
                                      until=lambda: view.ended):
        change = view.apply(response.job, client)
        if change is not None:
            yield change
