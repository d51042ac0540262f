"""A folder includes only from itself and from the folders to its right in the table of ARCHITECTURE.md."""

import os
import re

import lint

BASE = ["common/base"]
COMMON = ["common/audit", "common/config", "common/doctor", "common/member", "common/io", "common/rpc", "common/log", "common/crypto", "common/trust", *BASE]
# What speaks TLS without gRPC: for strangers, before they have a certificate.
TRUST = ["common/crypto", "common/io", "common/log", *BASE]
SPEC = ["coordinator/plan", "coordinator/spec", "common/config", *BASE]
COORDINATOR_CORE = ["coordinator/core", "coordinator/session", *SPEC]
COORDINATOR_ADAPTERS = ["coordinator/rpc", "coordinator/trust", "coordinator/store", "coordinator/logs", *COORDINATOR_CORE, *COMMON]
AGENT_CORE = ["agent/core", "agent/session", *BASE]

# Folder: folders it may include from. Generated protocol code is open to all.
ALLOWED = {
    "common/base": [],
    "common/config": BASE,
    "common/io": BASE,
    "common/rpc": ["common/crypto", "common/trust", *BASE],
    "common/member": ["common/rpc", "common/trust", *TRUST],
    "common/log": BASE,
    "common/crypto": BASE,
    "common/audit": TRUST,
    "common/doctor": ["common/audit", "common/trust", *TRUST],
    "coordinator/spec": ["common/config", *BASE],
    "coordinator/plan": SPEC,
    "coordinator/core": COORDINATOR_CORE,
    "coordinator/session": COORDINATOR_CORE,
    "coordinator/store": COORDINATOR_ADAPTERS,
    "coordinator/logs": COORDINATOR_ADAPTERS,
    "coordinator/rpc": COORDINATOR_ADAPTERS,
    "coordinator/trust": ["coordinator/store", "common/audit", "common/trust", *TRUST],
    "coordinator/daemon": ["coordinator/daemon", *COORDINATOR_ADAPTERS],
    "coordinator/cli": ["coordinator/cli", "coordinator/daemon", *COORDINATOR_ADAPTERS],
    "agent/core": AGENT_CORE,
    "agent/session": AGENT_CORE,
    "agent/checks": ["agent/supervise", *AGENT_CORE, *COMMON],
    "agent/store": [*AGENT_CORE, *COMMON],
    "agent/node": [*AGENT_CORE, *COMMON],
    "common/trust": TRUST,
    "agent/binding": AGENT_CORE,
    "agent/rpc": [*AGENT_CORE, *COMMON],
    "agent/supervise": [*AGENT_CORE, *COMMON],
    "agent/devices": ["common/io", *BASE],
    "agent/daemon": ["agent/binding", "agent/checks", "agent/devices", "agent/rpc", "agent/supervise", "agent/node", "agent/store", *AGENT_CORE, *COMMON],
    "agent/shim": ["common/base", "common/io"],
}
# The pure folders see neither the network nor the disk.
PURE = ["common/base", "common/config", "coordinator/spec", "coordinator/plan", "coordinator/core", "coordinator/session", "agent/core",
        "agent/session"]
IMPURE_HEADERS = re.compile(r"^(grpcpp/|grpc/|sqlite3\.h|fstream|thread|sys/(socket|epoll|stat|wait|mount)\.h|fcntl\.h|unistd\.h)")
INCLUDE = re.compile(r'^\s*#include\s+(?:"([^"]+)"|<([^>]+)>)')

problems = []
for path in lint.files(".cc", ".h"):
    if path.startswith(("tests/", "cmake/", "bench/", "examples/")):
        continue
    folder = os.path.dirname(path)
    if folder not in ALLOWED:
        problems.append(f"{path}: folder {folder} is not in the table of tests/lint/layering.py")
        continue
    for number, line in enumerate(lint.read(path).splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        own, system = match.groups()
        if own and not own.startswith("muster/"):
            target = os.path.dirname(own)
            if target != folder and target not in ALLOWED[folder]:
                problems.append(f"{path}:{number}: {folder} may not include from {target or own}")
        if own and own.endswith(".grpc.pb.h") and folder in PURE:
            problems.append(f"{path}:{number}: {folder} is pure and may not use gRPC")
        if system and folder in PURE and IMPURE_HEADERS.match(system):
            problems.append(f"{path}:{number}: {folder} is pure and may not include <{system}>")
lint.finish(problems)
