"""The first process of a host: furnishes its namespaces, says `ready`, and then only collects processes that ended.

Runs as process 1 in namespaces that `hosts.py` made with unshare(1): host_init.py NAME FOLDER. It dies with the
suite, and everything on the host with it. FOLDER holds what a machine keeps over a boot (var, etc) and its boot id.
"""

import os
import signal
import socket
import subprocess
import sys

# Files of /etc that belong to one machine.
OWN_FILES = ("hosts", "hostname", "machine-id", "resolv.conf")


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def furnish(name: str, folder: str) -> None:
    """Gives the host its own name, clean volatile folders, its own state, and its own identity."""
    socket.sethostname(name)
    mount("-t", "proc", "proc", "/proc")
    for volatile in ("/run", "/tmp", "/dev/shm"):
        mount("-t", "tmpfs", "tmpfs", volatile)
    os.makedirs("/run/lock")
    os.makedirs("/run/user/1000")
    os.chown("/run/user/1000", 1000, 1000)
    mount("--bind", "/mnt/etc", "/etc")
    for file in OWN_FILES:
        mount("--bind", f"{folder}/etc/{file}", f"/etc/{file}")
    mount("--bind", f"{folder}/var", "/var/lib")
    mount("--bind", "/mnt/home", "/home")
    mount("--bind", f"{folder}/boot_id", "/proc/sys/kernel/random/boot_id")
    # The group in which the host is its root; without cgroup2 the agents do without.
    if os.path.exists("/sys/fs/cgroup"):
        subprocess.run(["mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup"], stderr=subprocess.DEVNULL, check=False)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def collect() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        signal.sigwait({signal.SIGCHLD})
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


if __name__ == "__main__":
    furnish(sys.argv[1], sys.argv[2])
    os.write(1, b"ready\n")
    os.close(1)
    collect()
