"""Holds connections to the network port of `head`: strangers.py SILENT SLOW.

SILENT of them say nothing, SLOW say a byte of a first message of TLS now and then; who is hung up on dials again. Says
`held` when all are there.
"""

import socket
import sys
import time
from typing import Iterator

# The beginning of a first message that is never whole.
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"r" * 200


def dial() -> socket.socket:
    while True:
        try:
            return socket.create_connection(("head", 7443), 10)
        except OSError:
            time.sleep(0.05)  # paces: dials again


def is_over(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def main(silent: int, slow: int) -> None:
    held = [dial() for _ in range(silent)]
    sent: list[tuple[socket.socket, Iterator[int]]] = [(dial(), iter(HELLO)) for _ in range(slow)]
    print("held", flush=True)
    while True:
        for number, (connection, rest) in enumerate(sent):
            try:
                connection.sendall(bytes([next(rest)]))
            except (OSError, StopIteration):
                sent[number] = (dial(), iter(HELLO))
        for number, connection in enumerate(held):
            if is_over(connection):
                held[number] = dial()
        time.sleep(0.2)  # paces: slow on purpose


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
