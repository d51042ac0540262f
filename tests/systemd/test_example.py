"""The example trains under a real systemd while its agent is restarted, and while both packages are upgraded."""

import os
import re
import unittest

import debian_base
from machine import wait_until
from muster import Muster, repack

AGENT = "muster-agent"
STEPS = 800  # More than are done until both has happened.
EXAMPLE = "/srv/char_lm"


class Example(unittest.TestCase):
    def setUp(self):
        self.muster = Muster({"/example": os.path.join(debian_base.ROOT, "examples/char_lm")}, programs_of_host=True)
        self.addCleanup(self.muster.end)
        repack(self.muster.upgrade.name, 2)
        self.muster.boot()
        self.muster.join()
        self.machine = self.muster.machine
        self.machine.shell(f"cp -r /example {EXAMPLE}")
        self.machine.write(f"{EXAMPLE}/hostfile", "n1 slots=2\n")

    def steps(self, job: str) -> list[int]:
        """Steps that rank 0 has told of."""
        return [int(step) for step in re.findall(r"^step +(\d+) loss", self.raw_log(job), re.MULTILINE)]

    def raw_log(self, job: str) -> str:
        return self.machine.run("coordinator", "logs", job, "--raw", "--rank", "0")

    def ranks(self) -> dict[str, str]:
        """Process id of every rank, and when it was started."""
        found = self.machine.shell("for pid in $(pgrep -f '^/usr/bin/python3 .*train.py'); do"
                                   " echo $pid $(cut -d' ' -f22 /proc/$pid/stat); done")
        return dict(line.split() for line in found.splitlines())

    def await_steps(self, job: str) -> None:
        """Five more outputs than now have arrived: training goes on, and is heard of."""
        before = len(self.steps(job))
        wait_until(lambda: len(self.steps(job)) >= before + 5, "training goes on")

    def await_new_agent(self, old: int) -> None:
        wait_until(lambda: self.machine.main_pid(AGENT) not in (0, old) and
                   self.machine.property(AGENT, "ActiveState") == "active", "the agent is back")

    def test_does_not_notice_a_restart_and_an_upgrade(self):
        file = self.machine.shell(f"cat {EXAMPLE}/job.yaml").replace('"60"', f'"{STEPS}"')
        self.assertIn(str(STEPS), file)
        self.machine.write(f"{EXAMPLE}/job.yaml", file)
        job = self.machine.run("coordinator", "submit", "--detach", f"{EXAMPLE}/job.yaml").split()[-1]
        self.await_steps(job)
        ranks = self.ranks()
        self.assertEqual(len(ranks), 2)

        agent = self.machine.main_pid(AGENT)
        self.machine.run("systemctl", "restart", AGENT)
        self.await_new_agent(agent)
        self.await_steps(job)

        agent = self.machine.main_pid(AGENT)
        self.machine.shell("dpkg --install /upgrade/*.deb")
        self.await_new_agent(agent)
        self.await_steps(job)
        self.assertEqual(self.ranks(), ranks, "the same processes")

        wait_until(lambda: "hold" in self.raw_log(job), "the training ends", limit=600)
        self.machine.run("coordinator", "wait", "--quiet", job)
        self.assertEqual(self.steps(job), [1, *range(5, STEPS + 1, 5)], "every line once, in order")
        self.assertIn("all 2 ranks hold equal weights; checkpoint saved", self.raw_log(job))
        self.machine.shell(f"test -s {EXAMPLE}/checkpoint.pt")


if __name__ == "__main__":
    unittest.main()
