"""Ranks in containers of a real podman: a job on two agents of this machine, and nothing left behind.

Everything runs in a namespace for mounts in which control groups are as podman's runtime wants them.
"""

import json
import os
import re
import resource
import signal
import subprocess
import tempfile
import unittest

import images
from images import Images, wait_until

IMAGE = "muster-test-base"
# Only version 2, which is what the runtime knows; a machine may have it beside version 1.
NAMESPACE = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
             'umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec "$@"', "sh"]
# What a machine without a delegated hierarchy, and with few rights, can do.
OPTIONS = ["--cgroups=disabled", "--ulimit=nproc=1024"]


class RanksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.images = Images()
        cls.addClassCleanup(cls.images.remove)
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        probe = cls.podman("run", "--rm", *OPTIONS, f"--ulimit=nofile={files}", "--network=host", IMAGE, "true")
        if probe.returncode != 0:
            raise unittest.SkipTest(f"podman cannot run a container here: {probe.stderr.decode(errors='replace').strip()[-300:]}")

    @classmethod
    def words(cls, *words: str) -> list[str]:
        folder = cls.images.folder
        return ["/usr/bin/podman", "--root", f"{folder}/storage", "--runroot", f"{folder}/run", "--tmpdir", f"{folder}/tmp",
                "--cgroup-manager", "cgroupfs", *words]

    @classmethod
    def podman(cls, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run([*NAMESPACE, *cls.words(*words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=120, check=False)

    def setUp(self):
        box = tempfile.TemporaryDirectory()
        self.addCleanup(box.cleanup)
        self.box = box.name
        os.mkdir(self.path("bin"))
        # Agents find this one first; it knows the storage of this test.
        self.write("bin/podman", "#!/bin/sh\nexec " + " ".join(self.words()) + ' "$@"\n')
        os.chmod(self.path("bin/podman"), 0o755)
        self.env = dict(os.environ, PATH=f"{self.path('bin')}:{os.environ['PATH']}", MUSTER_LEASE_DIR=self.path("leases"),
                        MUSTER_LOCAL_DIR=self.path("local"), AGENT_ONLY="x")
        # The engine is in the folder, and shims ask it until they know that nothing is left.
        self.addCleanup(lambda: wait_until(lambda: not self.shims(), "the end of all shims"))

    def path(self, name: str) -> str:
        return os.path.join(self.box, name)

    def write(self, name: str, text: str):
        with open(self.path(name), "w", encoding="utf-8") as stream:
            stream.write(text)

    def submit(self, script: str, **settings) -> subprocess.Popen:
        self.write("rank.sh", script)
        job = {"hosts": [{"host": "node-1", "slots": 2}, {"host": "node-2", "slots": 1}], "command": ["sh", "rank.sh", "", "a b", "$HOME"],
               "grace": "1s", "container": {"image": IMAGE, "engine": "podman", "options": OPTIONS}, **settings}
        self.write("job.yaml", json.dumps(job))
        process = subprocess.Popen([*NAMESPACE, f"{images.BIN}/coordinator", "submit", "--local", "job.yaml"], cwd=self.box, env=self.env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process: subprocess.Popen):
        process.kill()
        process.communicate()

    def shims(self) -> list[str]:
        """Those that this test's agents have started and that have not ended."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/comm", encoding="utf-8") as comm, open(f"/proc/{name}/environ", "rb") as environ:
                    if comm.read() == "muster-shim\n" and f"MUSTER_LEASE_DIR={self.path('leases')}".encode() in environ.read().split(b"\0"):
                        found.append(name)
            except OSError:
                pass
        return found

    def containers(self) -> list[str]:
        listed = self.podman("ps", "-a", "--format", "{{.Names}}")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        return listed.stdout.decode().split()

    def start_deaf(self, **settings) -> subprocess.Popen:
        process = self.submit('trap "" TERM; touch up.$RANK; while :; do sleep 1; done\n', **settings)
        wait_until(lambda: process.poll() is not None or all(os.path.exists(self.path(f"up.{rank}")) for rank in range(3)), "three ranks")
        self.assertEqual(len(self.containers()), 3)
        return process

    def client(self, rank: int) -> int:
        """The engine's client of a rank of this test's job."""
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/cmdline", "rb") as stream:
                    words = stream.read().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"podman") and f"--label=muster.rank={rank}".encode() in words and self.box.encode() in words:
                return int(name)
        raise AssertionError(f"no client of rank {rank}")

    def test_have_their_arguments_variables_and_folder_and_the_image_has_its_own(self):
        process = self.submit('printf "%s|" "$#" "$2" "$3" "$RANK" "$WORLD_SIZE" "$TEXT" "$GC_KERNEL_PATH" "$PATH" "${AGENT_ONLY-none}" "$PWD"\necho\n',
                              env={"TEXT": "of two\nlines", "PATH": "/job:/usr/bin:/bin"})
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err.decode())
        text = re.sub(r"(?m)^\[\d@node-\d\] ", "", out.decode())
        for rank in range(3):
            self.assertIn(f"3|a b|$HOME|{rank}|3|of two\nlines|{images.BASE_ENV['GC_KERNEL_PATH']}|/job:/usr/bin:/bin|none|{self.box}|\n", text)
        self.assertEqual(self.containers(), [])

    def test_have_the_files_of_simulated_cards_where_cards_would_be(self):
        for index, module in enumerate((3, 0, 2, 1)):
            device = self.path(f"sim/sys/class/accel/accel{index}/device")
            os.makedirs(device)
            for name, text in (("module_id", f"{module}\n"), ("pci_addr", f"0000:00:{index + 16:02x}.0\n"), ("status", "Operational\n"),
                               ("device_type", "GAUDI2 Simulator\n")):
                self.write(f"sim/sys/class/accel/accel{index}/device/{name}", text)
            os.makedirs(self.path("sim/dev/accel"), exist_ok=True)
            self.write(f"sim/dev/accel/accel{index}", f"module {module}\n")
        self.env["MUSTER_SYSROOT"] = self.path("sim")
        process = self.submit('echo $HABANA_VISIBLE_MODULES $HLS_MODULE_ID $(cat /dev/accel/accel*)\n',
                              hosts=[{"host": "node-1", "slots": 2}])
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err.decode())
        for rank in range(2):
            self.assertIn(f"[{rank}@node-1] 0,1 {rank} module 0 module 1\n", out.decode())
        self.assertEqual(self.containers(), [])

    def test_that_an_engine_refuses_to_start_say_what_it_said(self):
        process = self.submit("", container={"image": IMAGE, "engine": "podman", "options": [*OPTIONS, "--no-such-option"]})
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 125, err.decode())
        self.assertIn("podman did not start the container and ended with 125", err.decode())
        self.assertIn("unknown flag: --no-such-option", err.decode())
        # An option whose value is missing does not swallow the image.
        process = self.submit("", container={"image": IMAGE, "engine": "podman", "options": [*OPTIONS, "--conmon-pidfile"]})
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err.decode())

    def test_end_with_the_code_of_their_program(self):
        process = self.submit("[ $RANK != 1 ] || exit 7\nexec sleep 60\n")
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 7, err.decode())
        self.assertEqual(self.containers(), [])

    def test_that_could_not_be_started_say_so(self):
        process = self.submit("", command=["/no/such/program"])
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 127, err.decode())
        self.assertIn("podman did not start the container", err.decode())
        process = self.submit("", container={"image": "localhost/no-such-image", "engine": "podman"})
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 120, err.decode())
        self.assertIn("podman pull localhost/no-such-image", err.decode())

    def test_that_ignore_sigterm_are_killed_after_the_grace(self):
        process = self.start_deaf()
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130, err.decode())
        self.assertEqual(self.containers(), [])

    def test_are_gone_after_the_end_of_a_client(self):
        process = self.start_deaf()
        os.kill(self.client(1), signal.SIGKILL)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 137, err.decode())
        self.assertEqual(self.containers(), [])

    def test_are_gone_after_the_end_of_their_shim(self):
        process = self.start_deaf()
        with open(f"/proc/{self.client(2)}/status", encoding="utf-8") as stream:
            shim = int(re.search(r"PPid:\s+(\d+)", stream.read())[1])
        os.kill(shim, signal.SIGKILL)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 121, err.decode())
        self.assertEqual(self.containers(), [])

    def test_are_gone_after_the_end_of_command_and_coordinator(self):
        process = self.start_deaf(on_coordinator_loss="stop-after 3s")
        process.kill()
        process.communicate()
        wait_until(lambda: not self.containers(), "the end of all containers")


if __name__ == "__main__":
    unittest.main()
