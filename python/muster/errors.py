"""What can go wrong: one exception per class of gRPC's status, all of them a MusterError."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import grpc


class MusterError(Exception):
    """A call that did not work.

    `code` is the name of the class as the protocol has it, for example `NOT_FOUND`; `message` is what the coordinator says, which
    may have several lines.
    """

    code = "UNKNOWN"

    def __init__(self, message: str):
        super().__init__(message)
        self.message = message


class InvalidArgument(MusterError, ValueError):
    """The request has mistakes; `problems` has all of them."""

    code = "INVALID_ARGUMENT"

    @property
    def problems(self) -> list[str]:
        """One text for each mistake."""
        return [line for line in self.message.split("\n") if line.strip()]


class NotFound(MusterError, LookupError):
    """There is no such job, token or member, or it is not the caller's."""

    code = "NOT_FOUND"


class AlreadyExists(MusterError):
    """The name is taken."""

    code = "ALREADY_EXISTS"


class PermissionDenied(MusterError, PermissionError):
    """The caller's certificate, or user, may not do that."""

    code = "PERMISSION_DENIED"


class Unauthenticated(MusterError):
    """The coordinator does not know who calls."""

    code = "UNAUTHENTICATED"


class FailedPrecondition(MusterError):
    """Not in the state that things are in; the message says what to do first."""

    code = "FAILED_PRECONDITION"


class ResourceExhausted(MusterError):
    """The coordinator has no room: a full disk, or as many jobs as a user may have."""

    code = "RESOURCE_EXHAUSTED"


class Unavailable(MusterError, ConnectionError):
    """No coordinator answers."""

    code = "UNAVAILABLE"


class DeadlineExceeded(MusterError, TimeoutError):
    """It took longer than the caller would wait."""

    code = "DEADLINE_EXCEEDED"


class Cancelled(MusterError):
    """The caller ended the call."""

    code = "CANCELLED"


class Aborted(MusterError):
    """Somebody else changed the same thing; try again."""

    code = "ABORTED"


class Unimplemented(MusterError):
    """The coordinator does not have this call: it is older, or has no cluster."""

    code = "UNIMPLEMENTED"


class InternalError(MusterError):
    """A mistake in Muster."""

    code = "INTERNAL"


_CLASSES = {kind.code: kind for kind in (
    InvalidArgument, NotFound, AlreadyExists, PermissionDenied, Unauthenticated, FailedPrecondition, ResourceExhausted, Unavailable,
    DeadlineExceeded, Cancelled, Aborted, Unimplemented, InternalError)}


def error_of(code: str, message: str) -> MusterError:
    """The exception for a status; one that is not known here is a plain MusterError with that code."""
    kind = _CLASSES.get(code)
    if kind is not None:
        return kind(message)
    error = MusterError(message)
    error.code = code
    return error


def error_of_rpc(error: grpc.RpcError, ended_by_caller: bool = False) -> MusterError:
    """The exception for what gRPC raised.

    A coordinator that ends cancels the calls that it has: to its clients that is a connection that broke, unless they have
    ended the call themselves.
    """
    code = error.code().name
    message = error.details() or code
    if code == "CANCELLED" and not ended_by_caller:
        return Unavailable("the coordinator ended during the call")
    return error_of(code, message)
