"""The calls of the protocol that a client makes: their paths, and the types of what is asked and answered. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .v1 import authority_pb2, job_pb2, node_pb2, trust_pb2

if TYPE_CHECKING:
    import grpc

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True)
class Rpc(Generic[RequestT, ResponseT]):
    """One call. `name` is `Service.Method`; `streams`: many answers come to one request."""

    name: str
    request: type[RequestT]
    response: type[ResponseT]
    streams: bool = False

    def on(self, channel: grpc.Channel) -> Any:
        """What starts the call on a channel."""
        start = channel.unary_stream if self.streams else channel.unary_unary
        message: Any = self.request
        answer: Any = self.response
        return start(f"/muster.v1.{self.name.replace('.', '/')}", request_serializer=message.SerializeToString,
                     response_deserializer=answer.FromString)


SUBMIT_JOB = Rpc("JobService.SubmitJob", job_pb2.SubmitJobRequest, job_pb2.Job)
PLAN_JOB = Rpc("JobService.PlanJob", job_pb2.PlanJobRequest, job_pb2.Plan)
GET_JOB = Rpc("JobService.GetJob", job_pb2.GetJobRequest, job_pb2.Job)
LIST_JOBS = Rpc("JobService.ListJobs", job_pb2.ListJobsRequest, job_pb2.ListJobsResponse)
CANCEL_JOB = Rpc("JobService.CancelJob", job_pb2.CancelJobRequest, job_pb2.Job)
SIGNAL_JOB = Rpc("JobService.SignalJob", job_pb2.SignalJobRequest, job_pb2.SignalJobResponse)
WATCH_JOB = Rpc("JobService.WatchJob", job_pb2.WatchJobRequest, job_pb2.WatchJobResponse, streams=True)
READ_LOGS = Rpc("JobService.ReadLogs", job_pb2.ReadLogsRequest, job_pb2.ReadLogsResponse, streams=True)
LIST_NODES = Rpc("NodeService.ListNodes", node_pb2.ListNodesRequest, node_pb2.ListNodesResponse)
CHECK_NODES = Rpc("NodeService.CheckNodes", node_pb2.CheckNodesRequest, node_pb2.CheckNodesResponse, streams=True)
CREATE_TOKEN = Rpc("TrustService.CreateToken", trust_pb2.CreateTokenRequest, trust_pb2.CreateTokenResponse)
LIST_TOKENS = Rpc("TrustService.ListTokens", trust_pb2.ListTokensRequest, trust_pb2.ListTokensResponse)
DELETE_TOKEN = Rpc("TrustService.DeleteToken", trust_pb2.DeleteTokenRequest, trust_pb2.DeleteTokenResponse)
LIST_MEMBERS = Rpc("TrustService.ListMembers", trust_pb2.ListMembersRequest, trust_pb2.ListMembersResponse)
REVOKE_MEMBER = Rpc("TrustService.RevokeMember", trust_pb2.RevokeMemberRequest, trust_pb2.RevokeMemberResponse)
GET_AUTHORITY = Rpc("AuthorityService.GetAuthority", authority_pb2.GetAuthorityRequest, authority_pb2.Authority)
ROTATE_AUTHORITY = Rpc("AuthorityService.RotateAuthority", authority_pb2.RotateAuthorityRequest, authority_pb2.Authority)
