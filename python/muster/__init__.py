"""Muster's client for Python: submit, follow and stop jobs, and look after nodes and members.

Names are loaded when they are first used, so that `muster.distributed` works where gRPC and protobuf are not installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ._version import __version__

# Where each public name is.
_HOMES = {
    "address": ("find_server", "ServerAddress"),
    "authority": ("Authority", "AuthorityCertificate", "AuthorityPhase", "AwaitedMember"),
    "client": ("Client",),
    "devices": ("Device", "DeviceHolder", "DeviceInventory", "DevicePort", "DeviceReading"),
    "distributed": ("DistributedRunner",),
    "errors": (
        "AlreadyExists", "Aborted", "Cancelled", "DeadlineExceeded", "FailedPrecondition", "InternalError", "InvalidArgument",
        "MusterError", "NotFound", "PermissionDenied", "ResourceExhausted", "Unauthenticated", "Unavailable", "Unimplemented"),
    "feeds": ("Feed",),
    "files": ("submit_file",),
    "frames": ("Frame", "FrameError", "FrameKind", "FrameReader"),
    "job_parts": ("Cause", "ExecFailure", "ExitStatus", "Failure", "JobNode", "JobRank", "JobState", "NodePhase", "RankState", "Rendezvous"),
    "jobs": ("Job", "JobChange", "JobHandle"),
    "log_lines": ("LogLine", "LogLines", "RankOutput", "Stream"),
    "log_pieces": ("LogFilter", "LogFrame", "LogFrames", "LogPiece", "LogPieces", "LogPosition"),
    "members": ("Member", "MemberKind", "NewToken", "Revocation", "Token"),
    "nodes": ("CheckedNode", "CheckedPair", "ClusterCheck", "Node", "NodeFacts", "NodeState"),
    "plans": ("Plan", "PlannedNode", "PlannedRank"),
    "programs": ("find_coordinator",),
    "reports": ("CheckResult", "NodeReport", "NodeTrait", "Problem", "RankPlacement", "Verdict"),
    "spec": ("Container", "HOME", "Host", "JobSpec", "LogPolicy", "NodeOverride", "Stall", "Variable"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
__all__ = ["__version__", *sorted(_HOME_OF)]

# For type checkers, which do not run what is below; `as` says that the names are public.
if TYPE_CHECKING:
    from .address import find_server as find_server
    from .address import ServerAddress as ServerAddress
    from .authority import Authority as Authority
    from .authority import AuthorityCertificate as AuthorityCertificate
    from .authority import AuthorityPhase as AuthorityPhase
    from .authority import AwaitedMember as AwaitedMember
    from .client import Client as Client
    from .devices import Device as Device
    from .devices import DeviceHolder as DeviceHolder
    from .devices import DeviceInventory as DeviceInventory
    from .devices import DevicePort as DevicePort
    from .devices import DeviceReading as DeviceReading
    from .distributed import DistributedRunner as DistributedRunner
    from .errors import AlreadyExists as AlreadyExists
    from .errors import Aborted as Aborted
    from .errors import Cancelled as Cancelled
    from .errors import DeadlineExceeded as DeadlineExceeded
    from .errors import FailedPrecondition as FailedPrecondition
    from .errors import InternalError as InternalError
    from .errors import InvalidArgument as InvalidArgument
    from .errors import MusterError as MusterError
    from .errors import NotFound as NotFound
    from .errors import PermissionDenied as PermissionDenied
    from .errors import ResourceExhausted as ResourceExhausted
    from .errors import Unauthenticated as Unauthenticated
    from .errors import Unavailable as Unavailable
    from .errors import Unimplemented as Unimplemented
    from .feeds import Feed as Feed
    from .files import submit_file as submit_file
    from .frames import Frame as Frame
    from .frames import FrameError as FrameError
    from .frames import FrameKind as FrameKind
    from .frames import FrameReader as FrameReader
    from .job_parts import Cause as Cause
    from .job_parts import ExecFailure as ExecFailure
    from .job_parts import ExitStatus as ExitStatus
    from .job_parts import Failure as Failure
    from .job_parts import JobNode as JobNode
    from .job_parts import JobRank as JobRank
    from .job_parts import JobState as JobState
    from .job_parts import NodePhase as NodePhase
    from .job_parts import RankState as RankState
    from .job_parts import Rendezvous as Rendezvous
    from .jobs import Job as Job
    from .jobs import JobChange as JobChange
    from .jobs import JobHandle as JobHandle
    from .log_lines import LogLine as LogLine
    from .log_lines import LogLines as LogLines
    from .log_lines import RankOutput as RankOutput
    from .log_lines import Stream as Stream
    from .log_pieces import LogFilter as LogFilter
    from .log_pieces import LogFrame as LogFrame
    from .log_pieces import LogFrames as LogFrames
    from .log_pieces import LogPiece as LogPiece
    from .log_pieces import LogPieces as LogPieces
    from .log_pieces import LogPosition as LogPosition
    from .members import Member as Member
    from .members import MemberKind as MemberKind
    from .members import NewToken as NewToken
    from .members import Revocation as Revocation
    from .members import Token as Token
    from .nodes import CheckedNode as CheckedNode
    from .nodes import CheckedPair as CheckedPair
    from .nodes import ClusterCheck as ClusterCheck
    from .nodes import Node as Node
    from .nodes import NodeFacts as NodeFacts
    from .nodes import NodeState as NodeState
    from .plans import Plan as Plan
    from .plans import PlannedNode as PlannedNode
    from .plans import PlannedRank as PlannedRank
    from .programs import find_coordinator as find_coordinator
    from .reports import CheckResult as CheckResult
    from .reports import NodeReport as NodeReport
    from .reports import NodeTrait as NodeTrait
    from .reports import Problem as Problem
    from .reports import RankPlacement as RankPlacement
    from .reports import Verdict as Verdict
    from .spec import Container as Container
    from .spec import HOME as HOME
    from .spec import Host as Host
    from .spec import JobSpec as JobSpec
    from .spec import LogPolicy as LogPolicy
    from .spec import NodeOverride as NodeOverride
    from .spec import Stall as Stall
    from .spec import Variable as Variable


def __getattr__(name: str) -> object:
    module = _HOME_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
