"""Coordinators that say what a test wants, in this process."""

import contextlib
import struct
import tempfile
import zlib
from concurrent import futures

import sandbox  # noqa: F401  # Puts the package into the path.

import grpc
from muster.v1 import job_pb2, job_pb2_grpc


def frame(kind, payload, time_ns=1_000):
    """A frame of a rank's log file; `kind` is a FrameKind."""
    head = struct.pack("<4sIB3xq", b"MLOG", len(payload), kind.value, time_ns)
    return head + struct.pack("<I", zlib.crc32(head)) + payload


class Jobs(job_pb2_grpc.JobServiceServicer):
    """A job whose output is `log`, of rank 0. Each ReadLogs is given to `on_read` with its number and the reply so far."""

    def __init__(self, log=b"", on_read=None):
        self.log = log
        self.on_read = on_read or (lambda number, context: None)
        self.begins = []

    def ReadLogs(self, request, context):
        begin = getattr(request, "from")[0].offset if getattr(request, "from") else 0
        self.begins.append(begin)
        number = len(self.begins)
        cut = (begin + len(self.log) + 1) // 2
        yield job_pb2.ReadLogsResponse(rank=0, attempt=1, offset=begin, data=self.log[begin:cut])
        self.on_read(number, context)
        yield job_pb2.ReadLogsResponse(rank=0, attempt=1, offset=cut, data=self.log[cut:], end=True)


@contextlib.contextmanager
def serving(service, workers=4):
    """The address of a server with this JobService."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        server = grpc.server(futures.ThreadPoolExecutor(workers))
        job_pb2_grpc.add_JobServiceServicer_to_server(service, server)
        server.add_insecure_port(f"unix:{folder}/s")
        server.start()
        try:
            yield f"unix:{folder}/s"
        finally:
            server.stop(None).wait()
