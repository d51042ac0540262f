"""What a job is: hosts, program, environment and policies.

The coordinator checks it; here only what the protocol cannot carry is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, TypeVar, Union

from ._convert import Seconds, Text, to_bytes, to_duration
from .v1 import job_spec_pb2, types_pb2


@dataclass(frozen=True)
class Host:
    """One host. `slots`: how many, 0: every slot that the node has. `selected_slots`: just these, ascending. `address`: for
    MASTER_ADDR when rank 0 is here. `source`: where it was written, for messages."""

    host: str
    slots: int = 0
    selected_slots: Sequence[int] = ()
    address: str = ""
    source: str = ""

    def to_proto(self) -> job_spec_pb2.HostEntry:
        """The message of the protocol."""
        return job_spec_pb2.HostEntry(host=self.host, slot_count=self.slots, selected_slots=self.selected_slots,
                                      address=self.address, source=self.source)


@dataclass(frozen=True)
class Variable:
    """In a value of the environment: what this variable has on the node; empty when it is not defined there."""

    name: str


@dataclass(frozen=True)
class _Home:
    """In a value of the environment: the home directory of who the ranks run as, on the node."""


HOME = _Home()

Part = Union[str, bytes, Variable, _Home]
Value = Union[Text, Sequence[Part]]
Environment = Mapping[str, Value]


def _part_of(part: Part) -> types_pb2.EnvPart:
    if isinstance(part, Variable):
        return types_pb2.EnvPart(variable=part.name)
    if isinstance(part, _Home):
        return types_pb2.EnvPart(home=True)
    return types_pb2.EnvPart(literal=to_bytes(part))


def _parts_of(name: str, value: Value) -> list[types_pb2.EnvPart]:
    """TypeError for what is no value."""
    parts: Sequence[Any] = [value] if isinstance(value, (str, bytes, os.PathLike)) else value
    if not isinstance(parts, Sequence):
        raise TypeError(f"env {name} is text, or a list of parts, got {type(value).__name__}")
    for part in parts:
        if not isinstance(part, (str, bytes, os.PathLike, Variable, _Home)):
            raise TypeError(f"a part of env {name} is text, a Variable or HOME, got {type(part).__name__}")
    return [_part_of(part) for part in parts]


def _environment(env: Environment, layer: types_pb2.EnvLayer) -> list[types_pb2.EnvAssignment]:
    if not isinstance(env, Mapping):
        raise TypeError(f"env is a mapping, got {type(env).__name__}")
    return [types_pb2.EnvAssignment(name=to_bytes(name), parts=_parts_of(name, value), layer=layer) for name, value in env.items()]


@dataclass(frozen=True)
class NodeOverride:
    """What differs on one host: environment on top of the job's, working directory, interpreter."""

    env: Environment = field(default_factory=dict, repr=False)  # There may be secrets in it.
    cwd: Text = b""
    python: Text = b""


@dataclass(frozen=True)
class Stall:
    """What to do about ranks that neither write nor work for `after`: `none`, `dump`, `fail` or `restart`."""

    after: Seconds
    action: str = "dump"


@dataclass(frozen=True)
class LogPolicy:
    """What to do, for example `exclude-node`, when a line of output matches."""

    match: str
    action: str


@dataclass(frozen=True)
class Container:
    """Run ranks in containers of this image. `engine`: `docker` or `podman`, empty: the first that the node has."""

    image: str
    runtime: str = ""
    options: Sequence[str] = ()
    engine: str = ""
    privileged: bool = False


ItemT = TypeVar("ItemT")

_KINDS = {"script": job_spec_pb2.Program.SCRIPT, "module": job_spec_pb2.Program.MODULE, "command": job_spec_pb2.Program.COMMAND}


def _text(name: str, value: Text) -> bytes:
    """TypeError, with the name of the field, for what is no text."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{name} is text (str, bytes or a path), got {type(value).__name__}")
    return to_bytes(value)


def _listed(name: str, value: Iterable[ItemT]) -> Iterable[ItemT]:
    if isinstance(value, (str, bytes, os.PathLike)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} is a list, got {type(value).__name__}: a single text would be taken letter by letter")
    return value


def _command(command: Any) -> list[bytes]:
    """The program, then its arguments."""
    if isinstance(command, (str, bytes, os.PathLike)):
        return [_text("command", command)]
    if not isinstance(command, Iterable):
        raise TypeError(f"command is text or a list of it, got {type(command).__name__}")
    words = [_text(f"command[{index}]", word) for index, word in enumerate(command)]
    if not words:
        raise ValueError("command is an empty list: its first word is the program")
    return words


def host_entries(hosts: Iterable[Union[str, Host]]) -> list[job_spec_pb2.HostEntry]:
    """TypeError for what is no list of names and Hosts."""
    entries = []
    for index, host in enumerate(_listed("hosts", hosts)):
        if not isinstance(host, (str, Host)):
            raise TypeError(f"hosts[{index}] is a name or a Host, got {type(host).__name__}")
        entries.append((Host(host) if isinstance(host, str) else host).to_proto())
    return entries


@dataclass(frozen=True)
class JobSpec:
    """A job. Exactly one of `script`, `module` and `command` is set; `args` follow it, byte for byte. `command` is a program, or a list
    of a program and its first arguments.

    Times are seconds or a timedelta; None leaves them to the coordinator. `hosts` are names, or `Host`. `cwd` is absolute, by
    default the current directory. `name` is a label, by default that of what is run. Values of `env` are taken as they are; a list
    joins parts on the node: `{"LD_LIBRARY_PATH": ["/opt/lib:", Variable("LD_LIBRARY_PATH")]}`. `stop_after`: nodes that lose the coordinator for so long
    stop their ranks; None: they keep running. `log_quota_bytes`: see docs/reference.md.
    """

    hosts: Sequence[Union[str, Host]] = ()
    script: Optional[Text] = None
    module: Optional[Text] = None
    command: Union[None, Text, Sequence[Text]] = None
    args: Sequence[Text] = ()
    name: str = ""
    python: Text = b""
    local_rank_argument: bool = False
    cwd: Optional[Text] = None
    user: str = ""
    env: Environment = field(default_factory=dict, repr=False)
    node_overrides: Mapping[str, NodeOverride] = field(default_factory=dict)
    devices: str = "auto"
    bind: str = ""
    bind_core_list: str = ""
    master_addr: str = ""
    master_port: int = 0
    grace: Optional[Seconds] = None
    start_timeout: Optional[Seconds] = None
    time_limit: Optional[Seconds] = None
    stop_after: Optional[Seconds] = None
    max_attempts: int = 0
    restart_on: Sequence[str] = ()
    spares: int = 0
    stall: Optional[Stall] = None
    log_policies: Sequence[LogPolicy] = ()
    skip_checks: Sequence[str] = ()
    require_checks: Sequence[str] = ()
    container: Optional[Container] = None
    log_quota_bytes: int = 0
    expected_world_size: int = 0
    device_wait: Optional[Seconds] = None

    def _program(self) -> job_spec_pb2.Program:
        chosen = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(chosen) != 1:
            raise ValueError(f"exactly one of script, module and command is to be given, got {' and '.join(chosen) or 'none'}")
        kind = chosen[0]
        words = [_text(kind, getattr(self, kind))] if kind != "command" else _command(self.command)
        words += [_text(f"args[{index}]", arg) for index, arg in enumerate(_listed("args", self.args))]
        return job_spec_pb2.Program(kind=_KINDS[kind], target=words[0], args=words[1:], interpreter=_text("python", self.python),
                                    local_rank_argument=self.local_rank_argument)

    def _label(self, program: job_spec_pb2.Program) -> str:
        """`run_clm` for `examples/run_clm.py`."""
        name = program.target.decode(errors="replace").rsplit("/", 1)[-1]
        return self.name or "".join(one if one.isprintable() else "?" for one in name.removesuffix(".py"))[:64]

    def to_proto(self) -> job_spec_pb2.JobSpec:
        """The message that is submitted. ValueError for what contradicts itself, TypeError for what has no such form."""
        program = self._program()
        spec = job_spec_pb2.JobSpec(
            name=self._label(program), program=program, user=self.user, devices=self.devices, bind=self.bind,
            hosts=host_entries(self.hosts),
            working_directory=_text("cwd", os.getcwd() if self.cwd is None else self.cwd),
            env=_environment(self.env, types_pb2.ENV_LAYER_JOB), bind_core_list=self.bind_core_list, master_addr=self.master_addr,
            master_port=self.master_port, skip_checks=self.skip_checks, require_checks=self.require_checks,
            log_policies=[job_spec_pb2.LogPolicy(match=one.match, action=one.action) for one in self.log_policies],
            log_quota_bytes=self.log_quota_bytes, expected_world_size=self.expected_world_size)
        for host, override in self.node_overrides.items():
            spec.node_overrides.add(host=host, env=_environment(override.env, types_pb2.ENV_LAYER_NODE),
                                    working_directory=to_bytes(override.cwd), interpreter=to_bytes(override.python))
        for name in ("grace", "start_timeout", "time_limit", "device_wait"):
            value = getattr(self, name)
            if value is not None:
                getattr(spec, name).CopyFrom(to_duration(value))
        if self.stop_after is not None:
            spec.on_coordinator_loss.stop_after.CopyFrom(to_duration(self.stop_after))
        if self.max_attempts or self.restart_on or self.spares:
            spec.restart.CopyFrom(job_spec_pb2.RestartPolicy(max_attempts=self.max_attempts, on=self.restart_on, spares=self.spares))
        if self.stall is not None:
            spec.stall.after.CopyFrom(to_duration(self.stall.after))
            spec.stall.action = self.stall.action
        if self.container is not None:
            spec.container.CopyFrom(types_pb2.ContainerSpec(
                image=self.container.image, runtime=self.container.runtime, options=self.container.options,
                engine=self.container.engine, privileged=self.container.privileged))
        return spec
