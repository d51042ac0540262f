"""What somebody sends who has taken over a node and its key: hostile.py HOST:PORT TRUST_FOLDER, one line per attack.

Prints `NAME STATUS` for each, with the status that the call ended with, and waits for a line on stdin before each, so
that the test can look at the coordinator in between.
"""

import os
import sys

import grpc

SESSION = "/muster.v1.AgentService/Session"
UPLOAD = "/muster.v1.AgentService/UploadLogs"
SUBMIT = "/muster.v1.JobService/SubmitJob"
MIB = 1 << 20


def field(number: int, body: bytes) -> bytes:
    """A field of a message that has a length."""
    head, length = bytearray([number << 3 | 2]), len(body)
    while length >= 0x80:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes(head) + bytes([length]) + body


EMPTY = b"\x0a\x00"
ATTACKS = [
    ("zeros-in-gzip", SESSION, lambda: field(1, field(2, b"0" * (64 * MIB))), grpc.Compression.Gzip),
    ("empty-events", SESSION, lambda: field(3, EMPTY * (7 * MIB)), None),
    ("empty-events-of-one-megabyte", SESSION, lambda: field(3, EMPTY * (MIB // 2)), None),
    ("empty-files", UPLOAD, lambda: field(1, b"\x1a\x00" * (7 * MIB)), None),
    ("job-of-empty-hosts", SUBMIT, lambda: field(2, field(2, b"")[:2] * (7 * MIB)), None),
    ("deep", SESSION, lambda: field(1, b"\x4b" * 200_000), None),
    ("noise", SESSION, lambda: os.urandom(MIB), None),
]


def main() -> None:
    address, folder = sys.argv[1:]
    read = lambda name: open(os.path.join(folder, name), "rb").read()
    credentials = grpc.ssl_channel_credentials(read("ca.pem"), read("key.pem"), read("cert.pem"))
    channel = grpc.secure_channel(address, credentials, [("grpc.max_send_message_length", -1)])
    for name, method, payload, compression in ATTACKS:
        sys.stdin.readline()
        call = channel.stream_stream(method, request_serializer=None, response_deserializer=None)
        try:
            for _ in call(iter([payload()]), timeout=60, compression=compression):
                pass
            print(name, "OK", flush=True)
        except grpc.RpcError as error:
            print(name, error.code().name, flush=True)


if __name__ == "__main__":
    main()
