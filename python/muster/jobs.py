"""A job as it was at one moment, and what can be asked of a job and done about it."""

from __future__ import annotations

import signal as signals
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Optional, Union

from ._connection import Connection
from ._convert import Seconds, enum_of, seconds_of, time_of, to_duration
from ._job_view import JobView, Merged
from ._rpcs import CANCEL_JOB, GET_JOB, SIGNAL_JOB, WATCH_JOB
from .errors import DeadlineExceeded
from .feeds import Feed, MessageFeed
from .job_parts import Cause, Failure, JobNode, JobRank, JobState, Rendezvous
from .log_lines import LogLines
from .log_pieces import LogChoice, LogFilter, LogFrames, LogPieces, LogPosition
from .v1 import job_pb2

if TYPE_CHECKING:
    from typing_extensions import Unpack


class JobHandle:
    """What can be asked of a job and done about it. Of these are the jobs that a client has told of, and Client.job(ID).

    Every method raises MusterError: NotFound when there is no such job, or it is not the caller's.
    """

    job_id: str
    _connection: Optional[Connection]

    @property
    def _connected(self) -> Connection:
        if self._connection is None:
            raise ValueError(f"this copy of job {self.job_id} has no connection: use Client.job({self.job_id!r})")
        return self._connection

    def refresh(self) -> Job:
        """The job as it is now."""
        return Job.from_proto(self._connected.call(GET_JOB, job_pb2.GetJobRequest(job_id=self.job_id)), self._connected)

    def wait(self, timeout: Optional[Seconds] = None) -> Job:
        """Waits for the end of the job and returns it as it is then.

        DeadlineExceeded, a TimeoutError, when that takes longer than `timeout` (seconds, or a timedelta); the job goes on. A
        coordinator that is away is waited for, up to the `reconnect` seconds of the client.
        """
        deadline = None if timeout is None else time.monotonic() + seconds_of(timeout)
        last: Optional[Job] = None
        try:
            with self._changes(deadline) as changes:
                for change in changes:
                    last = change.job
        except DeadlineExceeded:
            state = "not known" if last is None else last.state.name
            raise DeadlineExceeded(f"job {self.job_id} has not ended within {timeout}; its state is {state}") from None
        assert last is not None  # A stream that ends without the end of the job is opened again.
        return last

    def watch(self) -> Feed[JobChange]:
        """The job as it is, then its changes, up to its end. Goes on when the coordinator was away; what happened meanwhile is one
        change then."""
        return self._changes(None)

    def cancel(self, *, reason: str = "", grace: Optional[Seconds] = None, signal: Union[int, signals.Signals] = 0) -> Job:
        """Stops the job and returns it as it is then; `wait` waits for its end. A job that has ended stays as it is.

        `grace`: between SIGTERM and SIGKILL (seconds, or a timedelta); None: the job's, 0: SIGKILL at once. `signal`: by which the
        user ended it (2, 15, 1): the exit code becomes 128 + signal.
        """
        request = job_pb2.CancelJobRequest(job_id=self.job_id, reason=reason, signal=int(signal))
        if grace is not None:
            request.grace.CopyFrom(to_duration(grace))
        return Job.from_proto(self._connected.call(CANCEL_JOB, request), self._connected)

    def signal(self, number: Union[int, signals.Signals], ranks: Iterable[int] = ()) -> int:
        """Sends a signal to rank processes, all when `ranks` is empty, at most once. Returns the number of nodes that it went to;
        FailedPrecondition when no rank runs."""
        request = job_pb2.SignalJobRequest(job_id=self.job_id, signal=int(number), ranks=ranks)
        return self._connected.call(SIGNAL_JOB, request).nodes

    def log_pieces(self, *, follow: bool = False, attempt: int = 0, begin: Iterable[LogPosition] = (),
                   **chosen: Unpack[LogChoice]) -> LogPieces:
        """The frame files of the job's ranks in pieces, as the coordinator keeps them.

        `follow`: go on until the job has ended and everything that will ever arrive was sent. `attempt`: 0: the newest, and with
        `follow` those after it. `begin`: what the caller has already. More keywords are the fields of LogFilter: `ranks`,
        `streams`, `since`, `grep`, `tail_lines`, `tail_bytes`, `whole_lines`. InvalidArgument, when it is read, for a `grep` that is
        no expression.
        """
        return LogPieces(self._connected, self.job_id, LogFilter(**chosen), follow, attempt, tuple(begin))

    def log_frames(self, *, follow: bool = False, attempt: int = 0, **chosen: Unpack[LogChoice]) -> LogFrames:
        """The same, decoded: what was read at once, gaps, and the ends of logs. FrameError where a file is damaged."""
        return LogFrames(self.log_pieces(follow=follow, attempt=attempt, **chosen))

    def logs(self, *, follow: bool = False, attempt: int = 0, **chosen: Unpack[LogChoice]) -> LogLines:
        """The same as lines, in the order in which they arrive; those of one stream of a rank in their own. What is missing is
        counted in the `outputs` of what is returned."""
        return LogLines(self.log_frames(follow=follow, attempt=attempt, **chosen))

    def _changes(self, deadline: Optional[float]) -> Feed[JobChange]:
        view, connection = JobView(), self._connected

        def request() -> job_pb2.WatchJobRequest:
            view.begin_stream()
            return job_pb2.WatchJobRequest(job_id=self.job_id)

        def change(response: job_pb2.WatchJobResponse) -> Optional[JobChange]:
            merged = view.apply(response.job)
            return None if merged is None else JobChange._from_merged(merged, connection)

        # A stream that ends well before the job does is a coordinator that stops.
        return MessageFeed(connection.stream("watch", WATCH_JOB, request, deadline=deadline, until=lambda: view.ended), change)


class JobById(JobHandle):
    """A job of which only the id is known."""

    def __init__(self, job_id: str, connection: Connection):
        self.job_id = job_id
        self._connection = connection

    def __repr__(self) -> str:
        return f"<muster job {self.job_id}>"


@dataclass(frozen=True)
class Job(JobHandle):
    """A job as it was when the coordinator told. Its methods ask again.

    `exit_code`: the exit status of the job, None until it has ended; 0 only when every rank ended with 0. `nodes` and `ranks`
    are empty in lists. `revision` grows with every change. Times are UTC, of the coordinator's clock. Copies (pickle, copy,
    dataclasses.replace) have the values without the connection.
    """

    job_id: str
    name: str
    state: JobState
    cause: Cause
    reason: str
    attempt: int
    revision: int
    exit_code: Optional[int]
    create_time: Optional[datetime]
    start_time: Optional[datetime]
    end_time: Optional[datetime]
    rendezvous: Optional[Rendezvous]
    nodes: tuple[JobNode, ...]
    ranks: tuple[JobRank, ...]
    first_failure: Optional[Failure]
    stopped_ranks: int
    warnings: tuple[str, ...]
    world_size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "_connection", None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

    @classmethod
    def from_proto(cls, proto: job_pb2.Job, connection: Optional[Connection] = None) -> Job:
        """From the message of the protocol."""
        state = enum_of(JobState, proto.state)
        job = cls(
            proto.job_id, proto.name, state, enum_of(Cause, proto.cause), proto.reason, proto.attempt, proto.revision,
            proto.exit_code if state.is_terminal else None, time_of(proto, "create_time"), time_of(proto, "start_time"),
            time_of(proto, "end_time"),
            Rendezvous(proto.rendezvous.address, proto.rendezvous.port) if proto.HasField("rendezvous") else None,
            tuple(JobNode.from_proto(one) for one in proto.nodes), tuple(JobRank.from_proto(one) for one in proto.ranks),
            Failure.from_proto(proto.first_failure) if proto.HasField("first_failure") else None, proto.stopped_ranks,
            tuple(proto.warnings), proto.world_size)
        object.__setattr__(job, "_connection", connection)
        return job


@dataclass(frozen=True)
class JobChange:
    """A change of a job. `job`: all of it, as it is now. `ranks`, `nodes`: those of it that changed; at first all of them.
    `previous_state`: of the job before; None at first."""

    job: Job
    ranks: tuple[JobRank, ...]
    nodes: tuple[JobNode, ...]
    previous_state: Optional[JobState]

    @property
    def is_new_state(self) -> bool:
        """The job went from one state into another."""
        return self.job.state is not self.previous_state

    @classmethod
    def _from_merged(cls, merged: Merged, connection: Connection) -> JobChange:
        return cls(Job.from_proto(merged.job, connection), tuple(JobRank.from_proto(one) for one in merged.ranks),
                   tuple(JobNode.from_proto(one) for one in merged.nodes), merged.previous)
