"""DistributedRunner: what optimum-habana's does, by `coordinator spawn` instead of bash, pdsh and mpirun.

Needs the `coordinator` program (see muster.find_coordinator), and neither gRPC nor protobuf.
"""

from __future__ import annotations

import logging
import operator
import os
import shlex
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from types import FrameType, TracebackType
from typing import Any, Optional, Union

from .programs import find_coordinator
from .shell_words import split_words

logger = logging.getLogger(__name__)

Word = Union[str, bytes, "os.PathLike[str]"]
Command = Union[str, Sequence[Word]]

# What torch and deepspeed take when nothing else is said. Here: the first free port from it.
DEFAULT_MASTER_PORT = 29500
_LEASH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_leash.py")
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _SignalRelay:
    """While it is entered, in the main thread, signals that ask this process to end are passed on to the command.

    The command ends the job in order, and what was asked is done to this process when it has.
    """

    def __init__(self) -> None:
        self.first: Optional[signal.Signals] = None
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._before: dict[signal.Signals, Any] = {}
        self._early: list[int] = []

    def __enter__(self) -> _SignalRelay:
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                # One that is ignored stays so (nohup); None: not installed by Python, and could not be restored.
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def attach(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        while self._early:
            process.send_signal(self._early.pop(0))

    def _on_signal(self, number: int, _: Optional[FrameType]) -> None:
        self.first = self.first or signal.Signals(number)
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)


class DistributedRunner:
    """Runs commands, one after the other, each on all of `world_size` ranks, or of the hosts of a hostfile.

    `command_list`: scripts with their arguments, each a text of words as bash splits it, or a list of words. `-m MODULE` is
    allowed in place of a script. No shell runs them, see docs/python.md. `world_size`: ranks, on this machine; with `hostfile` it is
    checked when it is not 1. `hostfile`: one `HOST slots=N` a line; needs `use_deepspeed` and a coordinator. `use_mpi`: ranks are
    started without mpirun. `master_port`: another one than 29500 is used as it is; else the first free port from there. `use_env`,
    `map_by`: accepted, without effect: ranks have their variables in any case, and where they are bound is not MPI's to say.
    `multi_hls`: deprecated, ignored.

    ValueError: `use_mpi` with `use_deepspeed`, `hostfile` without `use_deepspeed`, a hostfile that is missing or has mistakes, a
    command that is more than words, a port that is none. TypeError: something of another type. FileNotFoundError: with a hostfile,
    the `coordinator` program, which reads it, is not there.
    """

    def __init__(self, command_list: Sequence[Command] = (), world_size: int = 1, hostfile: Union[None, str, os.PathLike[str]] = None,
                 use_mpi: bool = False, use_deepspeed: bool = False, master_port: int = DEFAULT_MASTER_PORT, use_env: bool = False,
                 map_by: str = "socket", multi_hls: Optional[bool] = None):
        if multi_hls is not None:
            warnings.warn("multi_hls is deprecated and has no effect: give a hostfile", FutureWarning, stacklevel=2)
        if use_mpi and use_deepspeed:
            raise ValueError("use_mpi and use_deepspeed exclude each other")
        if hostfile is not None and not use_deepspeed:
            raise ValueError("a hostfile needs use_deepspeed=True")
        if isinstance(command_list, (str, bytes)):
            raise ValueError(f"command_list is a list of commands: [{command_list!r}]")
        if not isinstance(command_list, Iterable):
            raise TypeError(f"command_list is a list of commands, got {type(command_list).__name__}")
        self._world_size = _integer("world_size", world_size)
        self._hostfile = None if hostfile is None else os.path.abspath(os.fspath(hostfile))
        self._use_mpi = use_mpi
        self._use_deepspeed = use_deepspeed
        self._master_port = _integer("master_port", master_port)
        if not 1 <= self._master_port <= 65535:
            raise ValueError(f"master_port is a port from 1 to 65535, got {self._master_port}")
        self._interpreter = sys.executable or "python3"
        # Put into the environment by run(), and passed on to all ranks.
        self._model_env_vars: dict[str, str] = {}
        self._commands = [_target_of(f"command_list[{index}]", command) for index, command in enumerate(command_list)]
        if hostfile is None and self._world_size <= 1 and not use_deepspeed:
            logger.warning("world_size is %d and there is no hostfile: one rank, one device", self._world_size)
        if self._hostfile is not None:
            self._check_hostfile()

    def run(self) -> Optional[int]:
        """Runs the commands. None when all ended with 0; else the exit status of the first that did not, and those behind it are
        not run: a code of a rank, 128 + signal, or one of docs/reference.md. RuntimeError when it could not be run at all. Each
        command is printed before it runs; the environment of this process is afterwards what it was.

        SIGINT, SIGTERM and SIGHUP, in the main thread, end the job in order, and take effect when nothing of it is left.
        """
        before = {name: os.environ.get(name) for name in self._model_env_vars}
        try:
            self._set_environment(before)
            for target in self._commands:
                status = self._run_one(target)
                if status:
                    logger.error("%s ended with %d", shlex.join(target[target.index("--") + 1:]), status)
                    return status
            return None
        except Exception as error:
            raise RuntimeError(f"the command could not be run: {error}") from error
        finally:
            _restore(before)

    def _flags(self) -> list[str]:
        flags = []
        if self._hostfile is None:
            flags += ["--local", "--world-size", str(max(self._world_size, 1))]
        else:
            flags += ["--hostfile", self._hostfile]
            if self._world_size > 1:
                flags += ["--world-size", str(self._world_size)]
        flags += ["--use-deepspeed"] * self._use_deepspeed + ["--use-mpi"] * self._use_mpi
        if self._master_port != DEFAULT_MASTER_PORT:
            flags += ["--master-port", str(self._master_port)]
        return flags

    def _check_hostfile(self) -> None:
        """By the program that will read it, so that there is one grammar."""
        command = [find_coordinator(), "spawn", "--dry-run", "--local", *self._flags(), "--no-python", "--", "true"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if done.returncode == 2:
            raise ValueError(done.stderr.decode(errors="replace").strip())

    def _run_one(self, target: Sequence[str]) -> int:
        flags = self._flags() + ["--python", self._interpreter]
        for name in self._model_env_vars:
            # By name: values do not belong on command lines.
            flags += ["--env", name]
        command = [find_coordinator(), "spawn", *flags, *target]
        _say(f"DistributedRunner runs: {shlex.join(command)}")
        relay = _SignalRelay()
        with relay:
            # A session of its own: Ctrl-C of a terminal comes once, by the relay, not twice.
            process = subprocess.Popen([self._interpreter, "-I", "-S", _LEASH, str(os.getpid()), *command], start_new_session=True)
            relay.attach(process)
            try:
                status = process.wait()
            except BaseException:
                # A handler of the program has raised (an alarm, say): nobody will wait for the job any more.
                process.terminate()
                process.wait()
                raise
        if relay.first is not None:
            # To whom it was meant for: ends this process, raises KeyboardInterrupt, or calls the handler of the program.
            signal.raise_signal(relay.first)
            status = status or 128 + relay.first
        return 128 - status if status < 0 else status

    def _set_environment(self, before: Mapping[str, Optional[str]]) -> None:
        for name, value in self._model_env_vars.items():
            old = before[name]
            os.environ[name] = f"{value}:{old}" if "LD_PRELOAD" in name and old else str(value)


def _say(text: str) -> None:
    """On standard output, before anything that ranks write. Bytes that are no text must not keep them from running."""
    if sys.stdout is not None:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        print(text.encode(encoding, "backslashreplace").decode(encoding))
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _integer(name: str, value: int) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is an integer, got {value!r}") from None


def _target_of(name: str, command: Command) -> list[str]:
    """What `coordinator spawn` takes for a command, behind its flags."""
    if isinstance(command, str):
        words = split_words(command)
    elif isinstance(command, (list, tuple)):
        words = [_word(f"{name}[{index}]", word) for index, word in enumerate(command)]
    else:
        raise TypeError(f"{name} is a text, or a list of words, got {type(command).__name__}")
    if not words:
        raise ValueError(f"{name} is empty")
    if words[0] == "-m":
        if len(words) == 1:
            raise ValueError(f"{name}: -m needs a module")
        return ["--module", "--", *words[1:]]
    if words[0].startswith("-"):
        raise ValueError(f"{name} begins with a script or -m MODULE, got {words[0]!r}")
    return ["--", *words]


def _word(name: str, word: Word) -> str:
    """Bytes as file names have them, so that every argument makes its way."""
    if not isinstance(word, (str, bytes, os.PathLike)):
        raise TypeError(f"{name} is text, got {type(word).__name__}")
    return os.fsdecode(word)


def _restore(before: Mapping[str, Optional[str]]) -> None:
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
