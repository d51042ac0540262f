"""The commands of README.md, as they stand there, on hosts that have nothing but the programs."""

import os
import re
import shutil

from hosts import ALICE, Network
from muster import ClusterTest, long

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOSTFILE = "examples/char_lm/hostfile"


def commands() -> list[tuple[str, str]]:
    """Host and command of every line of the block that begins with `coordinator init`."""
    with open(f"{ROOT}/README.md", encoding="utf-8") as stream:
        blocks = re.findall(r"^```\w*\n(.*?)^```", stream.read(), re.DOTALL | re.MULTILINE)
    block = next(block for block in blocks if "coordinator init" in block)
    return [(host, re.sub(r"\s+# .*", "", command)) for host, command in re.findall(r"^(\S+)\$ +(.*)$", block, re.MULTILINE)]


class Readme(ClusterTest):
    def train(self, names: list[str], hostfile: str | None = None) -> str:
        """Does what the README says, as the user who trains, in a home that the hosts share; returns what submit wrote."""
        network = Network(*names)
        self.addCleanup(network.close)
        self.addCleanup(shutil.rmtree, "/mnt/home/alice/examples")
        shutil.copytree(f"{ROOT}/examples", "/mnt/home/alice/examples")
        for folder, _, files in os.walk("/mnt/home/alice"):
            for name in [".", *files]:
                os.chown(f"{folder}/{name}", ALICE, ALICE)
        if hostfile:
            with open(f"/mnt/home/alice/{HOSTFILE}", "w", encoding="ascii") as stream:
                stream.write(hostfile)
        said, background = "", []
        for where, command in commands():
            command = command.replace("--nodes 2", f"--nodes {len(names)}")
            for name in names if where == "each" else [where]:
                words = ["sh", "-c", re.sub(r"tk1\.\S*", self.token(said), command).removesuffix("&")]
                program = network[name].start(words, user=ALICE, cwd="/home/alice")
                if command.endswith("&"):
                    background.append(program)
                    program.says("serves" if "serve" in command else "session opened")
                else:
                    self.assertEqual(program.wait(240), 0, program.text + "".join(p.text for p in background))
                    said += program.text
        return program.text

    @staticmethod
    def token(said: str) -> str:
        found = re.search(r"tk1\.\S+", said)
        return found.group(0) if found else "none yet"

    def assert_trained(self, text: str, world: int, names: list[str]) -> None:
        self.assertEqual(text.count(f"joined a world of {world}"), world, text)
        self.assertEqual(set(re.findall(r"^\[\d+@(\S+)\] .*joined", text, re.MULTILINE)), set(names))
        losses = [float(loss) for loss in re.findall(r" loss (\S+)", text)]
        self.assertLess(losses[-1], 0.75 * losses[0])
        self.assertIn("hold equal weights", text)
        self.assertTrue(os.path.getsize("/mnt/home/alice/examples/char_lm/checkpoint.pt") > 0)

    def test_five_commands_train_on_two_hosts(self) -> None:
        names = ["node-1", "node-2"]
        self.assertEqual(len(commands()), 5)
        self.assert_trained(self.train(names), 4, names)

    @long
    def test_the_example_trains_on_four_hosts_with_two_ranks_each(self) -> None:
        names = [f"node-{i}" for i in range(1, 5)]
        self.assert_trained(self.train(names, "".join(f"{name} slots=2\n" for name in names)), 8, names)
