"""The images: what is in them, and a cluster of them."""

import os
import re
import socket
import subprocess
import tempfile
import unittest

import images
from images import ROOT, Container, Images, wait_until


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class ImagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.images = Images()
        cls.addClassCleanup(cls.images.remove)
        cls.images.build("agent", "agent.gaudinic.Dockerfile")
        cls.images.build("agent-efa", "agent.efa.Dockerfile")
        cls.images.build("coordinator", "coordinator.Dockerfile")

    def test_have_no_ssh_and_no_key(self):
        for name in ("agent", "agent-efa", "coordinator"):
            root = self.images.mount(name)
            for path in ("usr/sbin/sshd", "usr/bin/ssh", "etc/ssh", "root/.ssh", "var/lib/muster"):
                self.assertFalse(os.path.lexists(os.path.join(root, path)), f"{name}: {path}")

    def test_of_agents_start_the_agent_and_keep_the_environment_of_their_base(self):
        for name in ("agent", "agent-efa"):
            config = self.images.config(name)
            self.assertEqual(config["Entrypoint"], ["/usr/bin/agent", "run", "--allow-root"])
            env = dict(entry.split("=", 1) for entry in config["Env"])
            self.assertEqual(env["GC_KERNEL_PATH"], images.BASE_ENV["GC_KERNEL_PATH"])
        # In front of what was there, and nothing of that lost.
        self.assertTrue(env["LD_LIBRARY_PATH"].startswith("/root/hccl_ofi_wrapper:/opt/amazon/openmpi/lib:/opt/amazon/efa/lib:"))
        self.assertTrue(env["LD_LIBRARY_PATH"].endswith(":" + images.BASE_ENV["LD_LIBRARY_PATH"]))
        self.assertEqual(env["HCCL_OVER_OFI"], "1")

    def test_make_a_cluster_that_runs_a_job_on_three_agents(self):
        port = free_port()
        with tempfile.TemporaryDirectory() as share, tempfile.TemporaryDirectory() as tokens:
            server = f"unix:{share}/coordinator.sock"

            def command(*words: str) -> subprocess.CompletedProcess:
                return subprocess.run([f"{images.BIN}/coordinator", *words, "--server", server], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, timeout=120, cwd=share, check=False)

            coordinator = Container(self.images, "coordinator", "coordinator", ["--listen", f"127.0.0.1:{port}"],
                                    {share: "/run/muster"}, MUSTER_HOST="127.0.0.1")
            self.addCleanup(coordinator.end)
            # Agents that come first wait for the coordinator; those that come before the token is there cannot.
            wait_until(lambda: command("nodes").returncode == 0, f"the coordinator: {coordinator.said()}")
            made = command("token", "create", "--nodes", "3", "--token-file", f"{tokens}/token")
            self.assertEqual((made.returncode, made.stdout), (0, b""), made.stderr)
            self.assertEqual(os.stat(f"{tokens}/token").st_mode & 0o777, 0o600)
            for index in (1, 2, 3):
                agent = Container(self.images, "agent", f"node-{index}",
                                  ["--join", f"127.0.0.1:{port}", "--token-file", "/run/tokens/token", "--slots", "2"],
                                  {tokens: "/run/tokens"})
                self.addCleanup(agent.end)
            with open(f"{share}/job.yaml", "w", encoding="utf-8") as stream:
                stream.write("hosts: [{host: node-1, slots: 2}, {host: node-2, slots: 2}, {host: node-3, slots: 2}]\ncwd: /\n"
                             "command: [sh, -c, 'echo $RANK of $WORLD_SIZE on $(hostname): $GC_KERNEL_PATH $HABANA_LOGS']\n")
            job = command("submit", f"{share}/job.yaml")
            self.assertEqual(job.returncode, 0, job.stderr.decode() + coordinator.said() + agent.said())
            lines = sorted(re.findall(r"(?m)^\[\d@node-\d\] (.*)$", job.stdout.decode()))
            self.assertEqual(lines, [f"{rank} of 6 on node-{rank // 2 + 1}: {images.BASE_ENV['GC_KERNEL_PATH']} "
                                     f"{images.BASE_ENV['HABANA_LOGS']}" for rank in range(6)])


class Manifests(unittest.TestCase):
    """Files for compose and Kubernetes: readable, and in step with the programs."""

    @staticmethod
    def load(name: str) -> list:
        # One parser of YAML for all of them: podman's own is in Go, so Python's is used where it is there.
        yaml = __import__("yaml")
        with open(os.path.join(ROOT, "containers", name), encoding="utf-8") as stream:
            return list(yaml.safe_load_all(stream))

    def setUp(self):
        try:
            __import__("yaml")
        except ImportError:
            self.skipTest("python3-yaml is missing")

    def flags_of(self, *words: str) -> str:
        return subprocess.run([*words, "--help"], stdout=subprocess.PIPE, check=True).stdout.decode()

    def test_use_flags_that_there_are(self):
        agent = self.flags_of(f"{images.BIN}/agent", "run")
        compose = self.load("compose.yaml")[0]["services"]
        daemon_set = self.load("kubernetes/agents.yaml")[0]
        container = daemon_set["spec"]["template"]["spec"]["containers"][0]
        for words in (compose["node-1"]["command"], container["args"]):
            for flag in (word for word in words if word.startswith("--")):
                self.assertIn(flag, agent)
        token = self.flags_of(f"{images.BIN}/coordinator", "token", "create")
        for flag in (word for word in compose["token"]["entrypoint"] if word.startswith("--")):
            self.assertIn(flag, token)

    def test_agree_about_port_and_names(self):
        compose = self.load("compose.yaml")[0]["services"]
        self.assertEqual({name for name in compose if name.startswith("node-")}, {"node-1", "node-2", "node-3"})
        for name in ("node-1", "node-2", "node-3"):
            self.assertEqual(compose[name]["hostname"], name)
            self.assertIn("coordinator:7443", compose[name]["command"])
        self.assertEqual(compose["coordinator"]["environment"]["MUSTER_HOST"], "coordinator")
        objects = {one["kind"]: one for one in self.load("kubernetes/coordinator.yaml")}
        self.assertEqual(objects["Deployment"]["spec"]["strategy"]["type"], "Recreate")
        self.assertEqual(objects["Deployment"]["spec"]["replicas"], 1)
        self.assertEqual(objects["Service"]["spec"]["ports"][0]["port"], 7443)
        host = objects["Deployment"]["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"]
        args = self.load("kubernetes/agents.yaml")[0]["spec"]["template"]["spec"]["containers"][0]["args"]
        self.assertIn(f"{host}:7443", args)


if __name__ == "__main__":
    unittest.main()
