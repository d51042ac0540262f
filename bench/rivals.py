"""The launchers that a benchmark compares: Muster itself and what is installed of its rivals.

Each launcher is asked for a command line that runs `command` on N local ranks. Slurm needs daemons: `Slurm` starts
private ones (munged, slurmctld, slurmd) on loopback in a scratch folder and ends them by process id.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COORDINATOR = os.environ.get("COORDINATOR", os.path.join(ROOT, "build/release/bin/coordinator"))


class Launcher:
    """A launcher without daemons of its own."""

    name = ""

    def available(self) -> bool:
        """True when it can be run on this machine."""
        raise NotImplementedError

    def command(self, ranks: int, command: list[str], label: bool) -> list[str]:
        """Returns argv that runs `command` on `ranks` local ranks, with labelled output lines if asked."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """Returns the environment to run it with."""
        return dict(os.environ)

    def close(self) -> None:
        """Ends what it started."""


class Muster(Launcher):
    """`coordinator spawn --local`: coordinator, agent, shim and gRPC, all started for the one command."""

    name = "muster"

    def __init__(self) -> None:
        self.scratch = tempfile.mkdtemp(prefix="muster-bench-")

    def available(self) -> bool:
        return os.access(COORDINATOR, os.X_OK)

    def command(self, ranks: int, command: list[str], label: bool) -> list[str]:
        hostfile = os.path.join(self.scratch, f"hosts-{ranks}")
        with open(hostfile, "w", encoding="utf-8") as stream:
            stream.write(f"localhost slots={ranks}\n")
        return [COORDINATOR, "spawn", "--local", "--quiet", "--hostfile", hostfile, "--no_python", *command]

    def environment(self) -> dict[str, str]:
        return dict(os.environ, MUSTER_LOCAL_DIR=os.path.join(self.scratch, "jobs"),
                    MUSTER_LEASE_DIR=os.path.join(self.scratch, "leases"))

    def close(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)


class Hydra(Launcher):
    """MPICH's mpiexec.hydra."""

    name = "hydra"

    def available(self) -> bool:
        return shutil.which("mpiexec.hydra") is not None

    def command(self, ranks: int, command: list[str], label: bool) -> list[str]:
        return ["mpiexec.hydra", "-n", str(ranks), *(["-prepend-rank"] if label else []), *command]


class OpenMpi(Launcher):
    """Open MPI's mpirun."""

    name = "openmpi"

    def available(self) -> bool:
        return shutil.which("mpirun.openmpi") is not None

    def command(self, ranks: int, command: list[str], label: bool) -> list[str]:
        return ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks),
                *(["--tag-output"] if label else []), *command]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Slurm(Launcher):
    """Slurm's srun against private daemons on loopback. Needs root."""

    name = "slurm"

    def __init__(self) -> None:
        self.scratch = ""
        self.daemons: list[subprocess.Popen] = []

    def available(self) -> bool:
        programs = ["srun", "slurmctld", "slurmd", "munged"]
        found = {p: shutil.which(p, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") for p in programs}
        if os.geteuid() != 0 or not all(found.values()):
            return False
        return self._start(found) or bool(self.close())

    def _start(self, found: dict) -> bool:
        self.scratch = tempfile.mkdtemp(prefix="muster-bench-slurm-")
        os.chmod(self.scratch, 0o755)
        path = lambda name: os.path.join(self.scratch, name)
        with open(path("munge.key"), "wb") as stream:
            stream.write(os.urandom(128))
        os.chmod(path("munge.key"), 0o400)
        host = socket.gethostname().split(".")[0]
        for name in ("ctld", "d"):
            os.mkdir(path(name))
        with open(path("cgroup.conf"), "w", encoding="utf-8"):
            pass
        with open(path("slurm.conf"), "w", encoding="utf-8") as stream:
            stream.write(f"""ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
AuthType=auth/munge
AuthInfo=socket={path('munge.sock')}
CredType=cred/munge
StateSaveLocation={path('ctld')}
SlurmdSpoolDir={path('d')}
SlurmctldPidFile={path('ctld.pid')}
SlurmdPidFile={path('d.pid')}
SlurmctldLogFile={path('ctld.log')}
SlurmdLogFile={path('d.log')}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs=64 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
""")
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.daemons.append(subprocess.Popen(
            [found["munged"], "-F", "--force", f"--socket={path('munge.sock')}", f"--key-file={path('munge.key')}",
             f"--pid-file={path('munge.pid')}", f"--log-file={path('munge.log')}", f"--seed-file={path('munge.seed')}"],
            **quiet))
        deadline = time.monotonic() + 15
        while not os.path.exists(path("munge.sock")) and time.monotonic() < deadline:
            time.sleep(0.05)
        for daemon in ("slurmctld", "slurmd"):
            self.daemons.append(subprocess.Popen([found[daemon], "-D", "-f", path("slurm.conf")], **quiet))
        while time.monotonic() < deadline + 15:
            probe = subprocess.run(["srun", "-n", "1", "true"], env=self.environment(), timeout=30, check=False, **quiet)
            if probe.returncode == 0:
                return True
            time.sleep(0.3)
        return False

    def environment(self) -> dict[str, str]:
        return dict(os.environ, SLURM_CONF=os.path.join(self.scratch, "slurm.conf"))

    def command(self, ranks: int, command: list[str], label: bool) -> list[str]:
        return ["srun", "-n", str(ranks), *(["-l"] if label else []), *command]

    def close(self) -> None:
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.daemons = []
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)


def installed(only: list[str] | None = None) -> list[Launcher]:
    """Returns Muster and every rival that runs here, or those of them that `only` names; Muster first."""
    return [launcher for launcher in (Muster(), Hydra(), OpenMpi(), Slurm())
            if (only is None or launcher.name in ["muster", *only]) and launcher.available()]
