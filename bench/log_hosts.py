#!/usr/bin/python3
"""The part of bench/logs that has several hosts: runs in the namespaces of tests/cluster/run.py.

log_hosts.py HOSTS MEGABYTES ROUNDS: MB/s of 100-byte lines that one rank on each host writes and one reader of the
command's labelled output gets, by Muster over mutual TLS and by what is installed of Hydra and Slurm, which take turns.
Muster keeps a file per rank besides; every byte of them is compared.
"""

import hashlib
import os
import re
import shutil
import statistics
import sys

from launch_hosts import run, seconds_of, slurm
from muster import Cluster

BLOCK = "x" * 99 + "\n"
WRITER = f"""import os
block = {BLOCK!r}.encode() * 640
left = int(os.environ["BYTES"])
while left > 0:
    view = memoryview(block)[:left]
    while view:
        done = os.write(1, view)
        view, left = view[done:], left - done
"""
# Hydra starts its proxies by a program that is called as ssh is. There is no sshd on these hosts; this stands in for it:
# what ranks write goes over Hydra's own connections.
REMOTE_PORT = 2222
REMOTE_SERVER = f"""import json, socket, subprocess, threading
def serve(connection):
    with connection, connection.makefile("rb") as stream:
        argv = json.loads(stream.readline())
        connection.sendall(b"%d\\n" % subprocess.run(["sh", "-c", " ".join(argv)], stdin=subprocess.DEVNULL).returncode)
with socket.create_server(("", {REMOTE_PORT})) as listener:
    print("ready", flush=True)
    while True:
        threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()
"""
REMOTE_CLIENT = f"""#!/usr/bin/python3 -S
import json, socket, sys
argv = sys.argv[1:]
while argv[0].startswith("-"):
    argv.pop(0)
with socket.create_connection((argv[0], {REMOTE_PORT})) as connection, connection.makefile("rb") as stream:
    connection.sendall(json.dumps(argv[1:]).encode() + b"\\n")
    sys.exit(int(stream.readline()))
"""


def prepare_hydra(cluster: Cluster) -> None:
    cluster.write("remote_server", REMOTE_SERVER)
    cluster.write("remote_shell", REMOTE_CLIENT)
    os.chmod("/mnt/home/root/remote_shell", 0o755)
    for node in cluster.nodes:
        node.start(["/usr/bin/python3", "-S", "/home/root/remote_server"]).says("ready")


def check_files(cluster: Cluster, size: int) -> None:
    """Ends the program when a rank's file of the last job is not what the rank wrote."""
    job = re.search(r"muster: job (\w+)", cluster.read("told")).group(1)
    wanted = hashlib.sha256(BLOCK.encode() * (size // len(BLOCK))).hexdigest()
    for rank in range(len(cluster.nodes)):
        found = cluster.head.run(["sh", "-c", f"coordinator logs {job} --raw --rank {rank} | sha256sum"]).split()[0]
        if found != wanted:
            sys.exit(f"the file of rank {rank} is not what it wrote")


def main(hosts: int, megabytes: int, rounds: int) -> None:
    size = megabytes * 1_000_000
    cluster = Cluster(hosts).start()
    try:
        names = [node.name for node in cluster.nodes]
        cluster.write("hosts", "".join(f"{name} slots=1\n" for name in names))
        cluster.write("writer", WRITER)
        writer = "env", f"BYTES={size}", "/usr/bin/python3", "-S", "/home/root/writer"
        commands = {"muster": ["coordinator", "spawn", "--hostfile", "hosts", "--no_python", *writer]}
        if shutil.which("mpiexec.hydra"):
            prepare_hydra(cluster)
            commands["hydra"] = ["mpiexec.hydra", "-launcher", "ssh", "-launcher-exec", "/home/root/remote_shell", "-hosts",
                                 ",".join(names), "-n", str(hosts), "-ppn", "1", "-prepend-rank", *writer]
        if not slurm.why_not():
            slurm.Slurm(cluster, [1] * hosts)
            commands["slurm"] = ["srun", "-l", "-N", str(hosts), "--ntasks-per-node=1", *writer]
        times: dict[str, list[float]] = {name: [] for name in commands}
        wrong = dict.fromkeys(commands, 0)
        for turn in range(rounds + 1):
            for name, command in commands.items():
                line = " ".join(command) + " 2> told | wc -l > lines"
                took = seconds_of(cluster.head, ["sh", "-c", line])
                if turn:  # The first turn warms the page cache.
                    times[name].append(took)
                    wrong[name] += abs(int(cluster.read("lines")) - hosts * size // len(BLOCK))
                if name == "muster":
                    check_files(cluster, size)
        rates = {name: hosts * megabytes / statistics.median(took) for name, took in times.items()}
        print(f"{hosts} hosts, {megabytes} MB each, {rounds} rounds, load {os.getloadavg()[0]:.1f}")
        for name, rate in rates.items():
            print(f"{name:8} {rate:7.1f} MB/s  ours is {rates['muster'] / rate:5.2f}x  lines miscounted: {wrong[name]}")
    finally:
        cluster.close()


if __name__ == "__main__":
    if run.INSIDE not in os.environ:
        reason = run.why_not()
        if reason:
            sys.exit(f"several hosts cannot be made here: {reason}")
        sys.exit(run.outside([["/usr/bin/python3", "-B", os.path.abspath(__file__), *sys.argv[1:]]])[0])
    run.furnish()
    main(*(int(number) for number in sys.argv[1:]))
