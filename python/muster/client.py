"""The client: every call of JobService, NodeService, TrustService and AuthorityService, with typed results.

MemberService, JoinService and AgentService are left out. The first two are how somebody becomes a member and renews the own
certificate, which needs a new key and a request for a certificate: the `coordinator` program does that (see muster.credentials). The
third is what agents speak.
"""

from __future__ import annotations

import signal as signals
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Optional, Union, cast

from ._connection import Connection
from ._convert import Seconds, to_duration
from ._rpcs import (CHECK_NODES, CREATE_TOKEN, DELETE_TOKEN, GET_AUTHORITY, LIST_JOBS, LIST_MEMBERS, LIST_NODES, LIST_TOKENS, PLAN_JOB,
                    REVOKE_MEMBER, ROTATE_AUTHORITY, SUBMIT_JOB, RequestT, ResponseT, Rpc)
from .address import ServerAddress, find_server
from .authority import Authority
from .credentials import user_trust_directory
from .errors import FailedPrecondition, Unimplemented
from .feeds import Feed, MessageFeed
from .jobs import Job, JobById, JobChange, JobHandle
from .log_lines import LogLines
from .log_pieces import LogChoice, LogFrames, LogPieces, LogPosition
from .members import Member, MemberKind, NewToken, Revocation, Token
from .nodes import Checked, Node, checked_of
from .plans import Plan
from .spec import Host, JobSpec, host_entries
from .v1 import authority_pb2, job_pb2, node_pb2, trust_pb2

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .job_fields import JobFields

JobLike = Union[str, JobHandle]

# A coordinator that is busy with a large plan, or with a full disk, answers late.
_SUBMIT_SECONDS = 60.0


def _spec_of(spec: Optional[JobSpec], fields: JobFields) -> JobSpec:
    if spec is None:
        return JobSpec(**fields)
    if fields:
        raise TypeError(f"give a JobSpec or its fields, not both ({', '.join(fields)})")
    if not isinstance(spec, JobSpec):
        raise TypeError(f"a job is a JobSpec, got {type(spec).__name__}")
    return spec


def _number_of(kind: MemberKind) -> trust_pb2.MemberKind:
    if not isinstance(kind, MemberKind):
        raise TypeError(f"kind is a MemberKind, got {type(kind).__name__}")
    return cast("trust_pb2.MemberKind", kind.value)


class Client:
    """Calls a coordinator. May be used from any number of threads, by the process that made it; ends with `close`, or as a context
    manager.

    `server`: `unix:/path` or `HOST:PORT`; without one it is found as the `coordinator` commands find it (MUSTER_SERVER, the local
    socket, the cluster that the user has joined). `timeout`: seconds that a call may take. `reconnect`: seconds for which streams,
    `wait` and `submit` look for a coordinator that was lost. `trust_directory`: the user's certificate, for HOST:PORT.

    Making one does not call anybody; InvalidArgument, Unavailable and FailedPrecondition say that it is not known whom to call, or
    that there is no certificate for it. Every method raises MusterError: Unavailable when nobody answers, DeadlineExceeded when that
    takes longer than `timeout`, PermissionDenied, Cancelled when the client was closed, and what the method says.
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
        """Ends all calls and streams of this client, from any thread: those raise Cancelled."""
        self._connection.close()

    # ---- Jobs ----------------------------------------------------------------------------------------------------------------

    def submit(self, spec: Optional[JobSpec] = None, *, request_id: Optional[str] = None, **fields: Unpack[JobFields]) -> Job:
        """Submits a job: a JobSpec, or its fields as keywords. Returns as soon as it is accepted.

        `request_id` names the job: with one that was used before the answer is that job. The call is repeated with the same one
        when the connection breaks, so that the job runs once. InvalidArgument has every problem of the job; ValueError and TypeError
        are for what cannot be asked at all.
        """
        request = job_pb2.SubmitJobRequest(request_id=request_id or uuid.uuid4().hex, spec=_spec_of(spec, fields).to_proto())
        connection = self._connection
        answer = connection.call(SUBMIT_JOB, request, patience=connection.reconnect, timeout=max(_SUBMIT_SECONDS, connection.timeout))
        return Job.from_proto(answer, connection)

    def plan(self, spec: Optional[JobSpec] = None, **fields: Unpack[JobFields]) -> Plan:
        """Where the ranks of a job would run and with what; starts nothing. InvalidArgument has every problem of the job."""
        return Plan.from_proto(self._connection.call(PLAN_JOB, job_pb2.PlanJobRequest(spec=_spec_of(spec, fields).to_proto())))

    def job(self, job: JobLike) -> JobHandle:
        """The job of this id, without asking whether there is one."""
        if not isinstance(job, (str, JobHandle)):
            raise TypeError(f"a job is its id, or what a client told of it, got {type(job).__name__}")
        return JobById(job if isinstance(job, str) else job.job_id, self._connection)

    def get(self, job: JobLike) -> Job:
        """The job as it is now."""
        return self.job(job).refresh()

    def list(self, page_size: int = 100) -> Iterator[Job]:
        """All jobs of the caller, the newest first, without their nodes and ranks; asks for `page_size` at a time."""
        token = ""
        while True:
            page = self._connection.call(LIST_JOBS, job_pb2.ListJobsRequest(page_size=page_size, page_token=token))
            for one in page.jobs:
                yield Job.from_proto(one, self._connection)
            token = page.next_page_token
            if not token:
                return

    def cancel(self, job: JobLike, *, reason: str = "", grace: Optional[Seconds] = None,
               signal: Union[int, signals.Signals] = 0) -> Job:
        """See JobHandle.cancel."""
        return self.job(job).cancel(reason=reason, grace=grace, signal=signal)

    def signal(self, job: JobLike, number: Union[int, signals.Signals], *, ranks: Iterable[int] = ()) -> int:
        """See JobHandle.signal."""
        return self.job(job).signal(number, ranks)

    def watch(self, job: JobLike) -> Feed[JobChange]:
        """See JobHandle.watch."""
        return self.job(job).watch()

    def wait(self, job: JobLike, *, timeout: Optional[Seconds] = None) -> Job:
        """See JobHandle.wait."""
        return self.job(job).wait(timeout)

    # ---- Output --------------------------------------------------------------------------------------------------------------

    def log_pieces(self, job: JobLike, *, follow: bool = False, attempt: int = 0, begin: Iterable[LogPosition] = (),
                   **chosen: Unpack[LogChoice]) -> LogPieces:
        """See JobHandle.log_pieces."""
        return self.job(job).log_pieces(follow=follow, attempt=attempt, begin=begin, **chosen)

    def log_frames(self, job: JobLike, *, follow: bool = False, attempt: int = 0, **chosen: Unpack[LogChoice]) -> LogFrames:
        """See JobHandle.log_frames."""
        return self.job(job).log_frames(follow=follow, attempt=attempt, **chosen)

    def logs(self, job: JobLike, *, follow: bool = False, attempt: int = 0, **chosen: Unpack[LogChoice]) -> LogLines:
        """See JobHandle.logs."""
        return self.job(job).logs(follow=follow, attempt=attempt, **chosen)

    # ---- Nodes ---------------------------------------------------------------------------------------------------------------

    def nodes(self) -> Sequence[Node]:
        """Every node that the coordinator has heard of, by name."""
        return [Node.from_proto(one) for one in self._connection.call(LIST_NODES, node_pb2.ListNodesRequest()).nodes]

    def check_nodes(self, hosts: Iterable[Union[str, Host]] = (), *, spec: Optional[JobSpec] = None,
                    limit: Optional[Seconds] = None, network_rounds: int = 0,
                    network_duration: Optional[Seconds] = None) -> Feed[Checked]:
        """Checks nodes as for the start of a job, and iterates over what they find: a CheckedNode for each as it answers, a ClusterCheck
        about all together, and with `network_rounds` a CheckedPair for each direction between two.

        `hosts`: all nodes when empty. `spec`: the job that they are checked for; its hosts do not count. `limit`: time for all of
        it, by default 10 s. In each round every node has one partner and sends for `network_duration`, by default 1 s.
        """
        request = node_pb2.CheckNodesRequest(hosts=host_entries(hosts))
        if spec is not None:
            request.spec.CopyFrom(spec.to_proto())
        if limit is not None:
            request.limit.CopyFrom(to_duration(limit))
        if network_rounds > 0:
            request.network_test.rounds = network_rounds
            if network_duration is not None:
                request.network_test.duration.CopyFrom(to_duration(network_duration))
        return MessageFeed(self._connection.stream("watch", CHECK_NODES, lambda: request, repeat=False), checked_of)

    # ---- Tokens and members, for admins --------------------------------------------------------------------------------------

    def create_token(self, kind: MemberKind = MemberKind.AGENT, *, name: str = "", network: str = "", uses: int = 1,
                     life: Optional[Seconds] = None) -> NewToken:
        """A token with which a node, or a user, joins. `name`: who may join with it, required for users. `network`: from where, as
        10.0.0.0/8. `uses`: how many can join. `life`: by default one hour."""
        request = trust_pb2.CreateTokenRequest(kind=_number_of(kind), name=name, network=network, uses=uses)
        if life is not None:
            request.life.CopyFrom(to_duration(life))
        return NewToken.from_proto(self._trust(CREATE_TOKEN, request))

    def tokens(self) -> Sequence[Token]:
        """Tokens that were made and not forgotten, the oldest first."""
        return [Token.from_proto(one) for one in self._trust(LIST_TOKENS, trust_pb2.ListTokensRequest()).tokens]

    def delete_token(self, token: Union[str, Token]) -> None:
        """Makes a token useless; who joined with it stays."""
        token_id = token.token_id if isinstance(token, Token) else token
        self._trust(DELETE_TOKEN, trust_pb2.DeleteTokenRequest(token_id=token_id))

    def members(self) -> Sequence[Member]:
        """Nodes and people of the cluster, by kind, then name."""
        return [Member.from_proto(one) for one in self._trust(LIST_MEMBERS, trust_pb2.ListMembersRequest()).members]

    def revoke(self, kind: MemberKind, name: str, *, free_name: bool = False) -> Revocation:
        """Shuts a member out, at once and for good. `free_name`: another one may join under the name."""
        answer = self._trust(REVOKE_MEMBER, trust_pb2.RevokeMemberRequest(kind=_number_of(kind), name=name, free_name=free_name))
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
        return Authority.from_proto(self._trust(GET_AUTHORITY, authority_pb2.GetAuthorityRequest()))

    def rotate_authority(self) -> Authority:
        """Begins to replace the authority by a new one. FailedPrecondition: a change is under way."""
        return Authority.from_proto(self._trust(ROTATE_AUTHORITY, authority_pb2.RotateAuthorityRequest()))

    def _trust(self, rpc: Rpc[RequestT, ResponseT], request: RequestT) -> ResponseT:
        try:
            return self._connection.call(rpc, request)
        except Unimplemented:
            # A coordinator without a cluster does not have the service at all.
            raise FailedPrecondition("this coordinator has no cluster: make one with `coordinator init` and start `serve` "
                                     "again") from None
