"""A small Debian with systemd as a folder, made once by debootstrap from the mirror that this machine uses.

It is kept in build/debian-base and never written to: machines run on a layer of their own above it.
"""

import os
import shutil
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGES = "systemd,systemd-sysv,dbus,libpam-systemd,dbus-user-session,adduser,init-system-helpers,libssl3,procps"


def suite() -> str:
    with open("/etc/os-release", encoding="utf-8") as stream:
        facts = dict(line.strip().split("=", 1) for line in stream if "=" in line)
    return facts.get("VERSION_CODENAME", "").strip('"')


def mirror(of_suite: str) -> str:
    """The first archive of this suite among the sources of apt."""
    targets = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE) $(CODENAME) $(COMPONENT)",
                              "Created-By: Packages"], stdout=subprocess.PIPE, check=True).stdout.decode()
    for line in targets.splitlines():
        site, codename, component = line.split()
        if codename == of_suite and component == "main":
            return site
    raise unittest.SkipTest(f"no archive of {of_suite} among the sources of apt")


def folder() -> str:
    """Path of the base; makes it when it is missing or made for other packages."""
    for program in ("debootstrap", "systemd-nspawn"):
        if shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
            raise unittest.SkipTest(f"{program} is missing: ./dev test --tier systemd installs it")
    if os.geteuid() != 0:
        raise unittest.SkipTest("only root can boot a machine")
    base = os.path.join(ROOT, "build", "debian-base")
    note = os.path.join(base, "made-of")
    wanted = f"{suite()} {PACKAGES}\n"
    if os.path.exists(note):
        with open(note, encoding="utf-8") as stream:
            if stream.read() == wanted:
                return base
    shutil.rmtree(base, ignore_errors=True)
    made = base + ".new"
    shutil.rmtree(made, ignore_errors=True)
    os.makedirs(os.path.dirname(base), exist_ok=True)
    done = subprocess.run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite(), made, mirror(suite())],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"debootstrap failed:\n{done.stdout.decode(errors='replace')[-3000:]}")
    shutil.rmtree(os.path.join(made, "var/cache/apt/archives"), ignore_errors=True)
    with open(os.path.join(made, "made-of"), "w", encoding="utf-8") as stream:
        stream.write(wanted)
    os.rename(made, base)
    return base
