"""The fields of a job as keywords. For type checkers: nothing imports it when a program runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional, TypedDict, Union

from ._convert import Seconds, Text
from .spec import Container, Environment, Host, LogPolicy, NodeOverride, Stall


class JobFields(TypedDict, total=False):
    """The fields of JobSpec, which says what they mean."""

    hosts: Sequence[Union[str, Host]]
    script: Optional[Text]
    module: Optional[Text]
    command: Union[None, Text, Sequence[Text]]
    args: Sequence[Text]
    name: str
    python: Text
    local_rank_argument: bool
    cwd: Optional[Text]
    user: str
    env: Environment
    node_overrides: Mapping[str, NodeOverride]
    devices: str
    bind: str
    bind_core_list: str
    master_addr: str
    master_port: int
    grace: Optional[Seconds]
    start_timeout: Optional[Seconds]
    time_limit: Optional[Seconds]
    stop_after: Optional[Seconds]
    max_attempts: int
    restart_on: Sequence[str]
    spares: int
    stall: Optional[Stall]
    log_policies: Sequence[LogPolicy]
    skip_checks: Sequence[str]
    require_checks: Sequence[str]
    container: Optional[Container]
    log_quota_bytes: int
    expected_world_size: int
    device_wait: Optional[Seconds]
