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
    "errors": (
        "AlreadyExists", "Aborted", "Cancelled", "DeadlineExceeded", "FailedPrecondition", "InternalError", "InvalidArgument",
        "MusterError", "NotFound", "PermissionDenied", "ResourceExhausted", "Unauthenticated", "Unavailable", "Unimplemented"),
    "frames": ("Frame", "FrameError", "FrameKind", "FrameReader"),
    "jobs": (
        "Cause", "ExecFailure", "ExitStatus", "Failure", "Job", "JobNode", "JobRank", "JobState", "NodePhase", "RankState",
        "Rendezvous"),
    "log_lines": ("LogLine", "LogLines", "RankOutput", "Stream"),
    "log_pieces": ("LogFilter", "LogFrame", "LogPiece", "LogPosition"),
    "members": ("Member", "MemberKind", "NewToken", "Revocation", "Token"),
    "nodes": ("CheckedNode", "CheckedPair", "ClusterCheck", "Node", "NodeFacts", "NodeState"),
    "plans": ("Plan", "PlannedNode", "PlannedRank"),
    "programs": ("find_coordinator", "submit_file"),
    "reports": ("CheckResult", "NodeReport", "NodeTrait", "Problem", "RankPlacement", "Verdict"),
    "spec": ("Container", "HOME", "Host", "JobSpec", "LogPolicy", "NodeOverride", "Stall", "Variable"),
    "watching": ("JobChange",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
__all__ = ["__version__", *sorted(_HOME_OF)]

if TYPE_CHECKING:
    from .address import ServerAddress, find_server
    from .authority import Authority, AuthorityCertificate, AuthorityPhase, AwaitedMember
    from .client import Client
    from .devices import Device, DeviceHolder, DeviceInventory, DevicePort, DeviceReading
    from .errors import (Aborted, AlreadyExists, Cancelled, DeadlineExceeded, FailedPrecondition, InternalError, InvalidArgument,
                         MusterError, NotFound, PermissionDenied, ResourceExhausted, Unauthenticated, Unavailable, Unimplemented)
    from .frames import Frame, FrameError, FrameKind, FrameReader
    from .jobs import (Cause, ExecFailure, ExitStatus, Failure, Job, JobNode, JobRank, JobState, NodePhase, RankState, Rendezvous)
    from .log_lines import LogLine, LogLines, RankOutput, Stream
    from .log_pieces import LogFilter, LogFrame, LogPiece, LogPosition
    from .members import Member, MemberKind, NewToken, Revocation, Token
    from .nodes import CheckedNode, CheckedPair, ClusterCheck, Node, NodeFacts, NodeState
    from .plans import Plan, PlannedNode, PlannedRank
    from .programs import find_coordinator, submit_file
    from .reports import CheckResult, NodeReport, NodeTrait, Problem, RankPlacement, Verdict
    from .spec import HOME, Container, Host, JobSpec, LogPolicy, NodeOverride, Stall, Variable
    from .watching import JobChange


def __getattr__(name: str) -> object:
    module = _HOME_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
