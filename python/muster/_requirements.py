"""Says what is missing, or too old, before something fails for it in words that nobody understands.

Modules take `grpc` from here; `muster.v1` imports this module before any message.
"""

from __future__ import annotations

import re

# As in pyproject.toml. The messages are made for protobuf 4.21; older ones cannot read them.
_GRPC = (1, 51)
_PROTOBUF = (4, 21)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def require(package: str, debian: str, least: tuple[int, ...], version: str, path: object) -> None:
    """ImportError, with what to do, when the version is below the least one."""
    if _numbers(version) < least:
        wanted = ".".join(str(number) for number in least)
        raise ImportError(f"muster needs {package} {wanted} or newer and found {version or 'one without a version'} at {path}: "
                          f"pip install '{package}>={wanted}', or apt install {debian} on Debian 12 or newer", name=package)


def _missing(package: str, debian: str, error: ImportError) -> ImportError:
    return ImportError(f"muster needs {package}, which cannot be imported ({error}): pip install {package}, or apt install {debian}. "
                       "muster.distributed works without", name=package)


try:
    import google.protobuf as protobuf
except ImportError as error:
    raise _missing("protobuf", "python3-protobuf", error) from error
require("protobuf", "python3-protobuf", _PROTOBUF, getattr(protobuf, "__version__", ""), protobuf.__path__)

try:
    import grpc as grpc
except ImportError as error:
    raise _missing("grpcio", "python3-grpcio", error) from error
require("grpcio", "python3-grpcio", _GRPC, getattr(grpc, "__version__", ""), grpc.__path__)
