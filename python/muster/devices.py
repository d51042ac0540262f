"""Cards of a node: what is there, and what it said last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .reports import Problem
from .v1 import types_pb2


@dataclass(frozen=True)
class DevicePort:
    """A network port of a card. `external`: it leaves the machine."""

    port: int
    interface: str
    up: bool
    external: bool


@dataclass(frozen=True)
class Device:
    """A card. `module_id` is its place on the board, `index` the N of its device node; `numa_node` is -1 when it is not known.
    Texts are empty when they are not known."""

    module_id: int
    index: int
    pci_address: str
    numa_node: int
    type: str
    status: str
    driver_version: str
    firmware_version: str
    local_cpus: str
    device_node: str
    ports: tuple[DevicePort, ...]
    serial: str

    @classmethod
    def from_proto(cls, proto: types_pb2.Device) -> Device:
        """From the message of the protocol."""
        return cls(proto.module_id, proto.index, proto.pci_address, proto.numa_node, proto.type, proto.status,
                   proto.driver_version, proto.firmware_version, proto.local_cpus, proto.device_node,
                   tuple(DevicePort(one.port, one.interface, one.up, one.external) for one in proto.ports), proto.serial)


@dataclass(frozen=True)
class DeviceInventory:
    """The cards of a node. `source`: where they were read (`sysfs`, `hlml`, `hl-smi`), empty when there are none."""

    source: str
    devices: tuple[Device, ...]
    problems: tuple[Problem, ...]

    @classmethod
    def from_proto(cls, proto: types_pb2.DeviceInventory) -> DeviceInventory:
        """From the message of the protocol."""
        return cls(proto.source, tuple(Device.from_proto(one) for one in proto.devices),
                   tuple(Problem(one.check, one.message) for one in proto.problems))


@dataclass(frozen=True)
class DeviceHolder:
    """A process that has a card open. `job_id`: empty when it belongs to no job."""

    pid: int
    user: str
    command: str
    job_id: str


@dataclass(frozen=True)
class DeviceReading:
    """What a card said at one moment; None for what its source does not have. Percent, bytes, degrees Celsius, milliwatts."""

    module_id: int
    status: str
    utilization_percent: Optional[int]
    memory_used_bytes: Optional[int]
    memory_total_bytes: Optional[int]
    temperature_celsius: Optional[int]
    power_milliwatts: Optional[int]
    ecc_corrected: Optional[int]
    ecc_uncorrected: Optional[int]
    ports_up: Optional[int]
    ports_down: Optional[int]
    holders: tuple[DeviceHolder, ...]

    @classmethod
    def from_proto(cls, proto: types_pb2.DeviceReading) -> DeviceReading:
        """From the message of the protocol."""
        def told(name: str) -> Optional[int]:
            return getattr(proto, name) if proto.HasField(name) else None

        return cls(proto.module_id, proto.status, told("utilization_percent"), told("memory_used_bytes"), told("memory_total_bytes"),
                   told("temperature_celsius"), told("power_milliwatts"), told("ecc_corrected"), told("ecc_uncorrected"),
                   told("ports_up"), told("ports_down"), tuple(DeviceHolder(one.pid, one.user, one.command, one.job_id) for one in proto.holders))
