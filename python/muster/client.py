"""The client: every call of JobService, NodeService, TrustService and AuthorityService, with typed results.

MemberService and AgentService are left out. The first is how a member renews its own certificate, which needs a new key and a request
for a certificate: the `coordinator` program does that (see muster.credentials). The second is what agents speak.
"""

from __future__ import annotations

import signal as signals
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional, Union

from . import watching
from ._connection import Connection
from ._convert import Seconds, to_duration
from .address import ServerAddress, find_server
from .authority import Authority
from .credentials import user_trust_directory
from .errors import DeadlineExceeded, FailedPrecondition, Unimplemented
from .jobs import Job
from .log_lines import LogLines
from .log_pieces import LogFilter, LogFrame, LogPiece, LogPosition, frames_of, read_pieces
from .members import Member, MemberKind, NewToken, Revocation, Token
from .nodes import Checked, Node, checked_of
from .plans import Plan
from .spec import Host, JobSpec
from .v1 import authority_pb2, authority_pb2_grpc, job_pb2, job_pb2_grpc, node_pb2, node_pb2_grpc, trust_pb2, trust_pb2_grpc
from .watching import JobChange

JobLike = Union[str, Job]

# Which method makes which call of the protocol.
RPCS = {
    "JobService.SubmitJob": "submit", "JobService.PlanJob": "plan", "JobService.GetJob": "get", "JobService.ListJobs": "list",
    "JobService.CancelJob": "cancel", "JobService.SignalJob": "signal", "JobService.WatchJob": "watch",
    "JobService.ReadLogs": "log_pieces",
    "NodeService.ListNodes": "nodes", "NodeService.CheckNodes": "check_nodes",
    "TrustService.CreateToken": "create_token", "TrustService.ListTokens": "tokens", "TrustService.DeleteToken": "delete_token",
    "TrustService.ListMembers": "members", "TrustService.RevokeMember": "revoke",
    "AuthorityService.GetAuthority": "authority", "AuthorityService.RotateAuthority": "rotate_authority",
}
# A coordinator that is busy with a large plan, or with a full disk, answers late.
_SUBMIT_SECONDS = 60.0


def _id_of(job: JobLike) -> str:
    return job.job_id if isinstance(job, Job) else job


def _spec_of(spec: Optional[JobSpec], fields: dict[str, Any]) -> JobSpec:
    if spec is not None and fields:
        raise TypeError(f"give a JobSpec or its fields, not both ({', '.join(fields)})")
    return JobSpec(**fields) if spec is None else spec


class Client:
    """Calls a coordinator. May be used from any number of threads; ends with `close`, or as a context manager.

    `server`: `unix:/path` or `HOST:PORT`; without one it is found as the `coordinator` commands find it (MUSTER_SERVER, the local
    socket, the cluster that the user has joined). `timeout`: seconds that a call may take. `reconnect`: seconds for which streams,
    `wait` and `submit` look for a coordinator that was lost. `trust_directory`: the user's certificate, for HOST:PORT.

    Every method raises MusterError, see muster.errors.
    """

    def __init__(self, server: Optional[str] = None, *, timeout: float = 20.0, reconnect: float = 30.0,
                 trust_directory: Optional[str] = None):
        self.server: ServerAddress = find_server(server)
        folder = user_trust_directory() if trust_directory is None else trust_directory
        self._connection = Connection(self.server, timeout, reconnect, folder)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all calls and streams of this client."""
        self._connection.close()

    # ---- Jobs ----------------------------------------------------------------------------------------------------------------

    def submit(self, spec: Optional[JobSpec] = None, *, request_id: Optional[str] = None, **fields: Any) -> Job:
        """Submits a job: a JobSpec, or its fields as keywords. Returns as soon as it is accepted.

        `request_id` names the job: with one that was used before the answer is that job. The call is repeated with the same one
        when the connection breaks, so that the job runs once. InvalidArgument has every problem of the job.
        """
        request = job_pb2.SubmitJobRequest(request_id=request_id or uuid.uuid4().hex, spec=_spec_of(spec, fields).to_proto())
        connection = self._connection
        return self._job(connection.call(job_pb2_grpc.JobServiceStub, "SubmitJob", request, patience=connection.reconnect,
                                         timeout=max(_SUBMIT_SECONDS, connection.timeout)))

    def plan(self, spec: Optional[JobSpec] = None, **fields: Any) -> Plan:
        """Where the ranks of a job would run and with what; starts nothing."""
        return Plan.from_proto(self._jobs("PlanJob", job_pb2.PlanJobRequest(spec=_spec_of(spec, fields).to_proto())))

    def get(self, job: JobLike) -> Job:
        """The job as it is now."""
        return self._job(self._jobs("GetJob", job_pb2.GetJobRequest(job_id=_id_of(job))))

    def list(self, page_size: int = 100) -> Iterator[Job]:
        """All jobs of the caller, the newest first, without their nodes and ranks; asks for `page_size` at a time."""
        token = ""
        while True:
            page = self._jobs("ListJobs", job_pb2.ListJobsRequest(page_size=page_size, page_token=token))
            for one in page.jobs:
                yield self._job(one)
            token = page.next_page_token
            if not token:
                return

    def cancel(self, job: JobLike, *, reason: str = "", grace: Optional[Seconds] = None,
               signal: int | signals.Signals = 0) -> Job:
        """Stops a job and returns it as it is then; `wait` waits for its end. A job that has ended stays as it is.

        `grace`: between SIGTERM and SIGKILL; None: the job's, 0: SIGKILL at once. `signal`: by which the user ended it (2, 15, 1):
        the exit code becomes 128 + signal.
        """
        request = job_pb2.CancelJobRequest(job_id=_id_of(job), reason=reason, signal=int(signal))
        if grace is not None:
            request.grace.CopyFrom(to_duration(grace))
        return self._job(self._jobs("CancelJob", request))

    def signal(self, job: JobLike, number: int | signals.Signals, *, ranks: Iterable[int] = ()) -> int:
        """Sends a signal to rank processes, all when `ranks` is empty, at most once. Returns the number of nodes that it went to;
        FailedPrecondition when no rank runs."""
        request = job_pb2.SignalJobRequest(job_id=_id_of(job), signal=int(number), ranks=ranks)
        return int(self._jobs("SignalJob", request).nodes)

    def watch(self, job: JobLike) -> Iterator[JobChange]:
        """The job as it is, then its changes, up to its end. Goes on when the coordinator was away; what happened meanwhile is one
        change then."""
        return watching.watch(self._connection, _id_of(job), self)

    def wait(self, job: JobLike, *, timeout: Optional[Seconds] = None) -> Job:
        """Waits for the end of the job and returns it. DeadlineExceeded, a TimeoutError, when that takes longer than `timeout`."""
        deadline = None
        if timeout is not None:
            deadline = time.monotonic() + to_duration(timeout).ToTimedelta().total_seconds()
        last = None
        try:
            for change in watching.watch(self._connection, _id_of(job), self, deadline):
                last = change.job
        except DeadlineExceeded:
            state = "not known" if last is None else last.state.name
            raise DeadlineExceeded(f"job {_id_of(job)} has not ended within {timeout}; its state is {state}") from None
        assert last is not None  # A stream that ends without the end of the job is opened again.
        return last

    # ---- Output --------------------------------------------------------------------------------------------------------------

    def log_pieces(self, job: JobLike, *, follow: bool = False, attempt: int = 0, begin: Iterable[LogPosition] = (),
                   **chosen: Any) -> Iterator[LogPiece]:
        """The frame files of a job's ranks in pieces, as the coordinator keeps them.

        `follow`: go on until the job has ended and everything that will ever arrive was sent. `attempt`: 0: the newest, and with
        `follow` those after it. `begin`: what the caller has already. More keywords are the fields of LogFilter.
        """
        return read_pieces(self._connection, _id_of(job), LogFilter(**chosen), follow, attempt, tuple(begin))

    def log_frames(self, job: JobLike, *, follow: bool = False, attempt: int = 0, **chosen: Any) -> Iterator[LogFrame]:
        """The same, decoded: what was read at once, gaps, and the ends of logs. FrameError where a file is damaged."""
        return frames_of(self.log_pieces(job, follow=follow, attempt=attempt, **chosen))

    def logs(self, job: JobLike, *, follow: bool = False, attempt: int = 0, **chosen: Any) -> LogLines:
        """The same as lines, in the order in which they arrive; those of one stream of a rank in their own. What is missing is
        counted in the `outputs` of what is returned."""
        return LogLines(self.log_frames(job, follow=follow, attempt=attempt, **chosen))

    # ---- Nodes ---------------------------------------------------------------------------------------------------------------

    def nodes(self) -> Sequence[Node]:
        """Every node that the coordinator has heard of, by name."""
        answer = self._connection.call(node_pb2_grpc.NodeServiceStub, "ListNodes", node_pb2.ListNodesRequest())
        return [Node.from_proto(one) for one in answer.nodes]

    def check_nodes(self, hosts: Iterable[Union[str, Host]] = (), *, spec: Optional[JobSpec] = None,
                    limit: Optional[Seconds] = None, network_rounds: int = 0,
                    network_duration: Optional[Seconds] = None) -> Iterator[Checked]:
        """Checks nodes as for the start of a job, and yields what they find: a CheckedNode for each as it answers, a ClusterCheck
        about all together, and with `network_rounds` a CheckedPair for each direction between two.

        `hosts`: all nodes when empty. `spec`: the job that they are checked for; its hosts do not count. `limit`: time for all of
        it, by default 10 s. In each round every node has one partner and sends for `network_duration`, by default 1 s.
        """
        request = node_pb2.CheckNodesRequest(
            hosts=[Host(host).to_proto() if isinstance(host, str) else host.to_proto() for host in hosts])
        if spec is not None:
            request.spec.CopyFrom(spec.to_proto())
        if limit is not None:
            request.limit.CopyFrom(to_duration(limit))
        if network_rounds > 0:
            request.network_test.rounds = network_rounds
            if network_duration is not None:
                request.network_test.duration.CopyFrom(to_duration(network_duration))
        for response in self._connection.stream("control", node_pb2_grpc.NodeServiceStub, "CheckNodes", lambda: request,
                                                repeat=False):
            found = checked_of(response)
            if found is not None:
                yield found

    # ---- Tokens and members, for admins --------------------------------------------------------------------------------------

    def create_token(self, kind: MemberKind = MemberKind.AGENT, *, name: str = "", network: str = "", uses: int = 1,
                     life: Optional[Seconds] = None) -> NewToken:
        """A token with which a node, or a user, joins. `name`: who may join with it, required for users. `network`: from where, as
        10.0.0.0/8. `uses`: how many can join. `life`: by default one hour."""
        request = trust_pb2.CreateTokenRequest(kind=kind.value, name=name, network=network, uses=uses)
        if life is not None:
            request.life.CopyFrom(to_duration(life))
        return NewToken.from_proto(self._trust("CreateToken", request))

    def tokens(self) -> Sequence[Token]:
        """Tokens that were made and not forgotten, the oldest first."""
        return [Token.from_proto(one) for one in self._trust("ListTokens", trust_pb2.ListTokensRequest()).tokens]

    def delete_token(self, token: Union[str, Token]) -> None:
        """Makes a token useless; who joined with it stays."""
        token_id = token.token_id if isinstance(token, Token) else token
        self._trust("DeleteToken", trust_pb2.DeleteTokenRequest(token_id=token_id))

    def members(self) -> Sequence[Member]:
        """Nodes and people of the cluster, by kind, then name."""
        return [Member.from_proto(one) for one in self._trust("ListMembers", trust_pb2.ListMembersRequest()).members]

    def revoke(self, kind: MemberKind, name: str, *, free_name: bool = False) -> Revocation:
        """Shuts a member out, at once and for good. `free_name`: another one may join under the name."""
        answer = self._trust("RevokeMember", trust_pb2.RevokeMemberRequest(kind=kind.value, name=name, free_name=free_name))
        return Revocation(answer.certificates, answer.streams)

    def add_user(self, name: str, *, network: str = "", life: Optional[Seconds] = None) -> NewToken:
        """A token with which one person becomes user `name`, by `coordinator join`."""
        return self.create_token(MemberKind.USER, name=name, network=network, life=life)

    def users(self) -> Sequence[Member]:
        """Those of the members who are users."""
        return [member for member in self.members() if member.kind is MemberKind.USER]

    def remove_user(self, name: str, *, free_name: bool = False) -> Revocation:
        """Shuts a user out on all machines."""
        return self.revoke(MemberKind.USER, name, free_name=free_name)

    def authority(self) -> Authority:
        """The authority of the cluster, and how far a change of it has come."""
        return self._authority("GetAuthority", authority_pb2.GetAuthorityRequest())

    def rotate_authority(self) -> Authority:
        """Begins to replace the authority by a new one. FailedPrecondition: a change is under way."""
        return self._authority("RotateAuthority", authority_pb2.RotateAuthorityRequest())

    # ---- The calls themselves ------------------------------------------------------------------------------------------------

    def _job(self, proto: job_pb2.Job) -> Job:
        return Job.from_proto(proto, self)

    def _jobs(self, method: str, request: Any) -> Any:
        return self._connection.call(job_pb2_grpc.JobServiceStub, method, request)

    def _trust(self, method: str, request: Any, stub: Any = trust_pb2_grpc.TrustServiceStub) -> Any:
        try:
            return self._connection.call(stub, method, request)
        except Unimplemented:
            # A coordinator without a cluster does not have the service at all.
            raise FailedPrecondition("this coordinator has no cluster: make one with `coordinator init` and start `serve` "
                                     "again") from None

    def _authority(self, method: str, request: Any) -> Authority:
        return Authority.from_proto(self._trust(method, request, authority_pb2_grpc.AuthorityServiceStub))
