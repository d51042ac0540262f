#!/usr/bin/python3
"""A client of the gRPC API in Python: submits a job, watches it, prints its output, and ends with its exit status.

    PYTHONPATH=build/release/python examples/clients/example_client.py \
        [--grep RE] unix:/path/to/coordinator.sock REQUEST_ID HOST[,HOST...] PROGRAM [ARGUMENT...]

With --grep it gets only the lines that match a regular expression; the coordinator leaves out the others. The request id names the job: run again with the same one, the client finds the job of before. Needs Debian's
python3-grpcio and python3-protobuf.
"""

import struct
import sys
import threading

import grpc
from muster.v1 import job_pb2, job_pb2_grpc, job_spec_pb2

HEADER = struct.Struct("<4sIB3xqI")  # Magic, payload bytes, kind, time in ns, CRC-32 of what is before it.
STDOUT, STDERR = 1, 2


class FrameReader:
    """Takes frames off the pieces of one rank's frame file, which may be cut anywhere."""

    def __init__(self):
        self._bytes = b""

    def feed(self, data):
        """Yields (kind, payload) of every frame that is complete now."""
        self._bytes += data
        at = 0
        while len(self._bytes) - at >= HEADER.size:
            magic, size, kind, _, _ = HEADER.unpack_from(self._bytes, at)
            if magic != b"MLOG":
                raise ValueError("not a frame")
            end = at + HEADER.size + size
            if end > len(self._bytes):
                break
            yield kind, self._bytes[at + HEADER.size:end]
            at = end
        self._bytes = self._bytes[at:]


def print_output(jobs, job_id, grep):
    """Prints what the ranks write, while it comes."""
    readers = {}
    for piece in jobs.ReadLogs(job_pb2.ReadLogsRequest(job_id=job_id, follow=True, grep=grep)):
        for kind, payload in readers.setdefault(piece.rank, FrameReader()).feed(piece.data):
            if kind in (STDOUT, STDERR):
                stream = sys.stdout if kind == STDOUT else sys.stderr
                stream.buffer.write(payload)
                stream.flush()
        if piece.missing_bytes:
            print(f"rank {piece.rank}: {piece.missing_bytes} bytes are lost", file=sys.stderr)


def main():
    words = sys.argv[1:]
    grep = b""  # Everything.
    if len(words) > 1 and words[0] == "--grep":
        grep = words[1].encode()
        words = words[2:]
    if len(words) < 4:
        sys.exit(__doc__)
    address, request_id, hosts, program, *arguments = words
    # A proxy of the shell's environment must not get between.
    channel = grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])
    jobs = job_pb2_grpc.JobServiceStub(channel)
    spec = job_spec_pb2.JobSpec(
        name="example",
        hosts=[job_spec_pb2.HostEntry(host=host, slot_count=1, source="the command line")
               for host in hosts.split(",")],
        working_directory=b"/",
        program=job_spec_pb2.Program(kind=job_spec_pb2.Program.COMMAND, target=program.encode(),
                                     args=[argument.encode() for argument in arguments]))
    try:
        job = jobs.SubmitJob(job_pb2.SubmitJobRequest(request_id=request_id, spec=spec), timeout=20)
    except grpc.RpcError as error:
        print(f"submit: {error.details()}", file=sys.stderr)
        return 122
    print(f"job {job.job_id}", file=sys.stderr)
    output = threading.Thread(target=print_output, args=(jobs, job.job_id, grep))
    output.start()
    state = None
    for change in jobs.WatchJob(job_pb2.WatchJobRequest(job_id=job.job_id)):
        exit_code = change.job.exit_code
        if change.job.state != state:
            state = change.job.state
            print(f"state {job_pb2.Job.State.Name(state)} {change.job.reason}", file=sys.stderr)
    output.join()
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
