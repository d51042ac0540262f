"""Builds the project's images with podman on a small Debian made by debootstrap, and runs what they run.

Podman builds here without a container engine (--isolation=chroot), with a storage of the test's own. What an image
would start is started from its mounted root, with the image's environment, in namespaces of its own for mounts,
processes, host name and IPC; it ends with the test, also when that is killed.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.join(ROOT, "build/release/bin")
PACKAGES = "libssl3,procps"
# What Gaudi's images set, and sshd would lose.
BASE_ENV = {"GC_KERNEL_PATH": "/usr/lib/habanalabs/libtpc_kernels.so", "HABANA_LOGS": "/var/log/habana_logs/",
            "LD_LIBRARY_PATH": "/opt/amazon/openmpi/lib:/usr/lib/habanalabs"}


def wait_until(ready, what: str, limit: float = 60):
    """Asks until the answer is true, and returns it."""
    deadline = time.monotonic() + limit
    while not (answer := ready()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {limit} s for {what}")
        time.sleep(0.05)  # paces: asks again
    return answer


def run(*command: str, limit: float = 300) -> str:
    """Standard output of a command that must end well."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr).decode(errors='replace')[-3000:]}")
    return done.stdout.decode()


def mirror() -> tuple[str, str]:
    """Debian's code name and the archive that this machine's apt takes it from."""
    with open("/etc/os-release", encoding="utf-8") as stream:
        facts = dict(line.strip().split("=", 1) for line in stream if "=" in line)
    suite = facts.get("VERSION_CODENAME", "").strip('"')
    for line in run("apt-get", "indextargets", "--format", "$(SITE) $(CODENAME) $(COMPONENT)", "Created-By: Packages").splitlines():
        site, codename, component = line.split()
        if codename == suite and component == "main":
            return suite, site
    raise unittest.SkipTest(f"no archive of {suite} among the sources of apt")


def base_archive() -> str:
    """A small Debian as a tar file; made once."""
    archive = os.path.join(ROOT, "build", f"container-base-{PACKAGES.replace(',', '-')}.tar")
    if not os.path.exists(archive):
        suite, site = mirror()
        with tempfile.TemporaryDirectory() as folder:
            run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, folder, site, limit=900)
            run("tar", "-C", folder, "--exclude=./var/cache/apt/archives/*", "-cf", archive + ".new", ".")
        os.rename(archive + ".new", archive)
    return archive


class Images:
    """The base and what is built on it, in a storage of its own."""

    def __init__(self):
        for program in ("debootstrap", "podman"):
            if shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
                raise unittest.SkipTest(f"{program} is missing: ./dev test --tier containers installs it")
        if os.geteuid() != 0:
            raise unittest.SkipTest("only root can build here")
        self.folder = tempfile.mkdtemp(prefix="muster-images-")
        changes = [word for name, value in BASE_ENV.items() for word in ("--change", f"ENV {name}={value}")]
        self.podman("import", *changes, base_archive(), "muster-test-base")

    def podman(self, *words: str) -> str:
        return run("podman", "--root", f"{self.folder}/storage", "--runroot", f"{self.folder}/run", "--tmpdir", f"{self.folder}/tmp",
                   "--cgroup-manager", "cgroupfs", *words, limit=900)

    def build(self, name: str, dockerfile: str, *arguments: str):
        self.podman("build", "--isolation", "chroot", "--network", "host", "-f", f"{ROOT}/containers/{dockerfile}",
                    "--build-arg", "BASE=localhost/muster-test-base", *arguments, "-t", name, ROOT)

    def config(self, name: str) -> dict:
        return json.loads(self.podman("image", "inspect", name))[0]["Config"]

    def mount(self, name: str) -> str:
        return self.podman("image", "mount", name).strip()

    def remove(self):
        self.podman("image", "umount", "--all")
        self.podman("image", "rm", "--all", "--force")
        subprocess.run(["umount", f"{self.folder}/storage/overlay"], stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


class Container:
    """What an image runs, from its root; `volumes`: folder of this machine -> place in the container."""

    def __init__(self, images: Images, image: str, hostname: str, arguments: list[str], volumes: dict[str, str], **environment: str):
        config = images.config(image)
        root = images.mount(image)
        env = dict(entry.split("=", 1) for entry in config["Env"])
        env.update(environment)
        script = ["set -e", f"hostname {hostname}", f"mount -t proc proc {root}/proc", f"mount --rbind /dev {root}/dev"]
        for place in ("/run", "/tmp", "/var/lib"):
            script.append(f"mount -t tmpfs tmpfs {root}{place}")
        script.append(f"mkdir -p {root}/run/lock")
        for source, place in volumes.items():
            script += [f"mkdir -p {root}{place}", f"mount --bind {source} {root}{place}"]
        script.append('exec chroot "$0" "$@"')
        command = [*config.get("Entrypoint", []), *(arguments or config.get("Cmd") or [])]
        self.log = os.path.join(images.folder, f"{hostname}.log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["unshare", "--mount", "--uts", "--pid", "--ipc", "--fork", "--kill-child", "sh", "-c", "\n".join(script), root,
                 "/usr/bin/env", "-i", *(f"{name}={value}" for name, value in env.items()), *command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def said(self) -> str:
        with open(self.log, encoding="utf-8", errors="replace") as stream:
            return stream.read()

    def end(self):
        # The process namespace ends with its first process.
        self.process.kill()
        self.process.wait()
