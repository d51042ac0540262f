#!/usr/bin/python3
"""A container engine for tests: a daemon that starts programs as its own children, and a client that is called as docker is.

`engine.py serve DIR` is the daemon. It keeps what there is in DIR/containers.json and what every client was called with in
DIR/calls.jsonl. `engine.py client DIR ...` is the client: run, ps, kill, rm, container inspect, image inspect. As with a real
engine the program of a container is no descendant of the client, outlives it, and has the image's environment and what -e and
--env-file give it. As with a real engine --device takes device nodes only. Options in DIR/faults: `deaf` (ps does not answer),
`broken` (run fails), `down` (version and info fail). It is called as podman is, too, with options in front of the command.
"""

import ctypes
import json
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time

IMAGE = "img:1"
IMAGE_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "FROM_IMAGE": "yes", "LD_LIBRARY_PATH": "/image/lib"}
FLAGS_WITH_VALUE = ("-e", "-v", "-w", "--mount")


def receive(stream: socket.socket) -> dict:
    head = stream.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        raise EOFError
    return json.loads(stream.recv(struct.unpack("<I", head)[0], socket.MSG_WAITALL))


def send(stream: socket.socket, message) -> None:
    text = json.dumps(message).encode()
    stream.sendall(struct.pack("<I", len(text)) + text)


class Daemon:
    def __init__(self, folder: str):
        self.folder = folder
        self.lock = threading.Lock()
        self.containers = {}
        self.count = 0

    def save(self):
        path = os.path.join(self.folder, "containers.json")
        with open(path + ".new", "w", encoding="utf-8") as stream:
            json.dump([{key: one[key] for key in ("id", "name", "labels", "running", "pid")} for one in self.containers.values()], stream)
        os.rename(path + ".new", path)

    def serve(self):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.path.join(self.folder, "engine.sock"))
        listener.listen(64)
        self.save()
        while True:
            stream, _ = listener.accept()
            threading.Thread(target=self.answer, args=(stream,), daemon=True).start()

    def answer(self, stream: socket.socket):
        try:
            _, fds, _, _ = socket.recv_fds(stream, 1, 2)
            request = receive(stream)
            getattr(self, request["do"])(stream, fds, request)
            for fd in fds:
                os.close(fd)
        except (EOFError, OSError):
            pass

    def run(self, stream, fds, request):
        with self.lock:
            if any(one["name"] == request["name"] for one in self.containers.values()):
                return send(stream, {"code": 125, "error": f"the name {request['name']} is in use"})
            self.count += 1
            one = {"id": f"{self.count:064x}", "name": request["name"], "labels": request["labels"], "running": False, "pid": 0,
                   "code": 0, "started": "0001-01-01T00:00:00Z", "end": threading.Event()}
            self.containers[one["id"]] = one
            try:
                die_with_parent = ctypes.CDLL(None).prctl
                process = subprocess.Popen([os.fsencode(word.encode("latin-1")) for word in request["argv"]], stdin=subprocess.DEVNULL,
                                           stdout=fds[0], stderr=fds[1], cwd=request["cwd"], start_new_session=True,
                                           env={name.encode("latin-1"): value.encode("latin-1") for name, value in request["env"].items()},
                                           preexec_fn=lambda: die_with_parent(1, signal.SIGKILL))
            except OSError as error:
                one["code"] = 127 if isinstance(error, FileNotFoundError) else 126
                self.save()
                return send(stream, {"code": one["code"], "error": f"cannot execute {request['argv'][0]}"})
            one.update(running=True, pid=process.pid, started="2026-01-01T00:00:00Z", process=process)
            self.save()
        threading.Thread(target=self.wait, args=(one,), daemon=True).start()
        send(stream, {"id": one["id"]})
        one["end"].wait()
        send(stream, {"code": one["code"]})

    def wait(self, one):
        # Left as a zombie until its state is known, so that a kill cannot hit another.
        os.waitid(os.P_PID, one["pid"], os.WEXITED | os.WNOWAIT)
        with self.lock:
            code = one["process"].wait()
            one["code"] = code if code >= 0 else 128 - code
            one["running"] = False
            self.save()
        one["end"].set()

    def ps(self, stream, fds, request):
        while os.path.exists(os.path.join(self.folder, "faults", "deaf")):
            time.sleep(0.05)  # paces: as long as the fault is there
        with self.lock:
            send(stream, {"lines": [f"{one['id']} {one['name']}" for one in self.containers.values()
                                    if all(one["labels"].get(name) == value for name, value in request["labels"].items())]})

    def kill(self, stream, fds, request):
        lines, missing = [], []
        with self.lock:
            for identity in request["ids"]:
                one = self.containers.get(identity)
                if one and one["running"]:
                    os.kill(one["pid"], request["signal"])
                    lines.append(identity)
                else:
                    missing.append(identity)
        send(stream, {"lines": lines, "error": f"not running: {missing}" if missing else ""})

    def rm(self, stream, fds, request):
        for identity in request["ids"]:
            with self.lock:
                one = self.containers.get(identity)
                if one and one["running"]:
                    os.kill(one["pid"], signal.SIGKILL)
            if one and one["pid"]:
                one["end"].wait()
            with self.lock:
                self.containers.pop(identity, None)
                self.save()
        send(stream, {"lines": request["ids"]})

    def inspect(self, stream, fds, request):
        with self.lock:
            one = self.containers.get(request["id"])
            send(stream, {"lines": [f"{str(one['running']).lower()}|{one['code']}|false|{one['started']}"]} if one else {"error": "no such container"})


class Client:
    def __init__(self, folder: str):
        self.folder = folder

    def call(self, request: dict) -> socket.socket:
        stream = socket.socket(socket.AF_UNIX)
        try:
            stream.connect(os.path.join(self.folder, "engine.sock"))
            socket.send_fds(stream, [b"x"], [1, 2])
            send(stream, request)
        except OSError as error:
            self.fail(125 if request["do"] == "run" else 1, f"cannot connect to the engine: {error}")
        return stream

    @staticmethod
    def fail(code: int, text: str):
        print(text, file=sys.stderr)
        sys.exit(code)

    def ask(self, request: dict):
        answer = receive(self.call(request))
        for line in answer.get("lines", []):
            print(line)
        if answer.get("error"):
            self.fail(1, answer["error"])

    def run(self, words: list[str]):
        if os.path.exists(os.path.join(self.folder, "faults", "broken")):
            self.fail(125, "the engine is broken")
        name, labels, env, cwd = "", {}, dict(IMAGE_ENV), "/"
        while words and words[0].startswith("-"):
            word = words.pop(0)
            if word == "--":
                break
            value = words.pop(0) if word in FLAGS_WITH_VALUE else word.partition("=")[2]
            if word == "-e":
                if value in os.environ:
                    env[value] = os.environ[value]
            elif word.startswith("--env-file="):
                with open(value, "rb") as stream:
                    for line in stream.read().decode("latin-1").splitlines():
                        key, _, text = line.partition("=")
                        env[key] = text
            elif word == "-v":
                if not os.path.exists(value.split(":")[0]):
                    self.fail(125, f"no such file or directory: {value}")
            elif word.startswith("--device=") and not stat.S_ISCHR(os.stat(value.split(":")[0]).st_mode):
                self.fail(126, f"not a device node: {value}")
            elif word == "-w":
                cwd = value
            elif word.startswith("--name="):
                name = value
            elif word.startswith("--label="):
                labels[value.partition("=")[0]] = value.partition("=")[2]
        words.pop(0)  # the image
        wire = lambda text: os.fsencode(text).decode("latin-1")
        stream = self.call({"do": "run", "name": name, "labels": labels, "cwd": cwd, "argv": [wire(word) for word in words],
                            "env": {wire(key): wire(value) for key, value in env.items()}})
        first = receive(stream)
        if "error" in first:
            self.fail(first["code"], first["error"])

        def forward(number, _frame):
            receive(self.call({"do": "kill", "ids": [first["id"]], "signal": number}))

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, forward)
        try:
            sys.exit(receive(stream)["code"])
        except EOFError:
            self.fail(125, "the engine is gone")

    def do(self, words: list[str]):
        with open(os.path.join(self.folder, "calls.jsonl"), "a", encoding="utf-8") as stream:
            stream.write(json.dumps({"pid": os.getpid(), "argv": words, "env": dict(os.environ)}) + "\n")
        # Options of podman itself.
        while words[0].startswith("--"):
            words = words[1:]
        command = words[0]
        if command in ("version", "info"):
            if os.path.exists(os.path.join(self.folder, "faults", "down")):
                self.fail(1, "Cannot connect to the daemon. Is it running?")
        elif command == "run":
            self.run(words[1:])
        elif words[:2] == ["image", "inspect"]:
            if words[-1] != IMAGE:
                self.fail(1, f"no such image: {words[-1]}")
            print("sha256:0")
        elif words[:2] == ["container", "inspect"]:
            self.ask({"do": "inspect", "id": words[-1]})
        elif command == "ps":
            labels = [words[i + 1].removeprefix("label=") for i, word in enumerate(words) if word == "--filter"]
            self.ask({"do": "ps", "labels": dict(label.split("=", 1) for label in labels)})
        elif command == "kill":
            self.ask({"do": "kill", "signal": signal.SIGKILL, "ids": words[2:]})
        elif command == "rm":
            self.ask({"do": "rm", "ids": words[2:]})
        else:
            self.fail(125, f"unknown command {command}")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        Daemon(sys.argv[2]).serve()
    Client(sys.argv[2]).do(sys.argv[3:])
