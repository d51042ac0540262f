"""Command lines and calls of the launchers that Muster stands in for, as people have them, on hosts with torch."""

import os
import re
import shutil

from hosts import Program
from muster import Cluster, ClusterTest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOME = "/mnt/home/root"
PYTHON = "/usr/bin/python3"
# What a node of AWS needs, as people write it down.
ENV_FILE = """HCCL_OVER_OFI=1
# the network of this machine image
HCCL_SOCKET_IFNAME=eth0
LD_LIBRARY_PATH=/opt/wrapper:/opt/amazon/efa/lib:$LD_LIBRARY_PATH
"""
# Tells what has reached it, and trains the example; as scripts of transformers it takes --local_rank.
SCRIPT = """import json, os, runpy, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "HCCL_OVER_OFI", "HCCL_SOCKET_IFNAME", "LD_LIBRARY_PATH", "PT_HPU_LAZY_MODE")
local_ranks = [word for word in sys.argv if word.startswith("--local_rank")]
sys.argv = [word for word in sys.argv if word not in local_ranks]
prompt = sys.argv.pop(1)
print("told", json.dumps({"prompt": prompt, "local_ranks": local_ranks, **{name: os.environ.get(name) for name in names}}))
runpy.run_path("train.py", run_name="__main__")
"""
# An argument that a shell would have taken apart.
PROMPT = "say \"hi\"; it's $HOME *"
TRAIN = ["--steps", "5", "--checkpoint", "checkpoint.pt"]
CALL = """from muster.distributed import DistributedRunner
DistributedRunner(command_list=["run_clm.py prompt --steps 5 --checkpoint checkpoint.pt"], hostfile="hosts", use_deepspeed=True).run()
"""


class LaunchForms(ClusterTest):
    def prepared(self, nodes: int) -> Cluster:
        """Nodes with one slot each that have joined; in the home of all hosts the script and the two programs."""
        cluster = self.cluster(nodes).start()
        os.makedirs(f"{HOME}/bin")
        cluster.head.run(["coordinator", "compat", "install", "--directory", f"{HOME}/bin"])
        shutil.copy(f"{ROOT}/examples/char_lm/train.py", HOME)
        cluster.write("run_clm.py", SCRIPT)
        cluster.write("hosts", "".join(f"{node.name} slots=1\n" for node in cluster.nodes))
        cluster.write(".deepspeed_env", ENV_FILE)
        return cluster

    @staticmethod
    def start(host, words: list[str], **environment: str) -> Program:
        return host.start(words, cwd="/home/root", PYTHONDONTWRITEBYTECODE="1", **environment)

    def assert_trained(self, program: Program, world: int, prompt: str, local_ranks: bool, nodes: int) -> None:
        self.assertEqual(program.wait(240), 0, program.text)
        text = program.text
        self.assertEqual(text.count(f"joined a world of {world}"), world, text)
        self.assertEqual(len(set(re.findall(r"^\[\d+@(\S+)\] .*joined", text, re.MULTILINE))), nodes, text)
        self.assertIn(f"all {world} ranks hold equal weights", text)
        told = {int(rank): line for rank, line in re.findall(r"^\[(\d+)@\S+\] told (.*)$", text, re.MULTILINE)}
        self.assertEqual(sorted(told), list(range(world)), text)
        for rank, line in told.items():
            self.assertIn('"HCCL_OVER_OFI": "1", "HCCL_SOCKET_IFNAME": "eth0"', line)
            self.assertIn('"LD_LIBRARY_PATH": "/opt/wrapper:/opt/amazon/efa/lib:', line)
            self.assertIn(f'"RANK": "{rank}"', line)
            self.assertIn(f'"WORLD_SIZE": "{world}"', line)
            self.assertIn(f'"prompt": {prompt}', line)
            local = rank if nodes == 1 else 0
            self.assertIn(f'"local_ranks": ["--local_rank={local}"]' if local_ranks else '"local_ranks": []', line)
        self.assertTrue(os.path.getsize(f"{HOME}/checkpoint.pt") > 0)

    def test_gaudi_spawn_with_a_hostfile_trains_on_four_hosts(self) -> None:
        cluster = self.prepared(4)
        program = self.start(cluster.head, [PYTHON, "bin/gaudi_spawn.py", "--hostfile", "hosts", "--use_deepspeed", "run_clm.py", PROMPT,
                                            *TRAIN], PT_HPU_LAZY_MODE="1")
        self.assert_trained(program, 4, '"say \\"hi\\"; it\'s $HOME *"', False, 4)
        self.assertEqual(program.text.count('"PT_HPU_LAZY_MODE": "1"'), 4, program.text)

    def test_the_runner_of_python_trains_on_four_hosts(self) -> None:
        cluster = self.prepared(4)
        # As built: with the stubs of the services.
        shutil.copytree(f"{ROOT}/build/release/python/muster", f"{HOME}/python/muster")
        cluster.write("launch.py", CALL)
        program = self.start(cluster.head, [PYTHON, "launch.py"], PYTHONPATH="/home/root/python")
        self.assert_trained(program, 4, '"prompt"', False, 4)

    def test_one_node_trains_without_a_coordinator(self) -> None:
        cluster = self.prepared(1)
        forms = {
            "gaudi_spawn.py by mpirun": ["bin/gaudi_spawn.py", "--world_size", "2", "--use_mpi"],
            "gaudi_spawn.py by deepspeed": ["bin/gaudi_spawn.py", "--world_size", "2", "--use_deepspeed"],
            "deepspeed": ["bin/deepspeed", "--num_gpus", "2", "--master_port", "29533"],
        }
        for name, words in forms.items():
            with self.subTest(name):
                program = self.start(cluster.nodes[0], [PYTHON, *words, "run_clm.py", "prompt", *TRAIN])
                self.assert_trained(program, 2, '"prompt"', name == "deepspeed", 1)

    def test_without_a_hostfile_a_cluster_runs_the_job_on_the_machine_of_the_command(self) -> None:
        cluster = self.cluster(2, slots=2)
        cluster.start(joining=[cluster.head, *cluster.nodes])
        os.makedirs(f"{HOME}/bin")
        cluster.head.run(["coordinator", "compat", "install", "--directory", f"{HOME}/bin"])
        for words in (["coordinator", "spawn", "--world_size", "2"], [PYTHON, "bin/gaudi_spawn.py", "--world_size", "2"],
                      [PYTHON, "bin/deepspeed", "--no_local_rank"]):
            text = cluster.head.run([*words, "--no_python", "hostname"], cwd="/home/root")
            self.assertEqual(sorted(re.findall(r"^\[\d@head\] .*$", text, re.MULTILINE)), ["[0@head] head", "[1@head] head"], text)
