"""The example trains on two machines, each under a systemd of its own, while the agent of one is restarted and upgraded."""

import os
import re
import unittest

import debian_base
from machine import wait_until
from muster import Muster, repack

AGENT = "muster-agent"
STEPS = 800  # More than are done until both has happened.
EXAMPLE = "/srv/char_lm"
HOSTS = {"n1": "10.78.0.1", "n2": "10.78.0.2"}


class Example(unittest.TestCase):
    def setUp(self):
        self.first, self.second = (self.start() for _ in HOSTS)
        self.first.machine.connect(self.second.machine, *HOSTS.values())
        self.first.machine.run("coordinator", "init", "--host", HOSTS["n1"])
        self.first.machine.run("systemctl", "start", "muster-coordinator")
        for muster, node in zip((self.first, self.second), HOSTS):
            self.prepare(muster, node)

    def start(self) -> Muster:
        muster = Muster({"/example": os.path.join(debian_base.ROOT, "examples/char_lm")}, programs_of_host=True)
        self.addCleanup(muster.end)
        repack(muster.upgrade.name, 2)
        muster.boot()
        return muster

    def prepare(self, muster: Muster, node: str) -> None:
        """Joins the machine and puts the example there; its agent is up."""
        machine = muster.machine
        machine.write("/etc/hosts", "127.0.0.1 localhost\n" + "".join(f"{where} {name}\n" for name, where in HOSTS.items()))
        self.first.write_token()
        machine.write("/srv/token", self.first.machine.shell("cat /srv/token"))
        machine.run("agent", "join", f"{HOSTS['n1']}:7443", "--token-file", "/srv/token", "--node-id", node)
        machine.shell("printf 'allow_root: true\\nslots: 2\\n' >> /etc/muster/agent.yaml")
        machine.shell(f"cp -r /example {EXAMPLE}")
        machine.run("systemctl", "start", AGENT)

    def steps(self, job: str) -> list[int]:
        """Steps that rank 0 has told of."""
        return [int(step) for step in re.findall(r"^step +(\d+) loss", self.raw_log(job), re.MULTILINE)]

    def raw_log(self, job: str) -> str:
        return self.first.machine.run("coordinator", "logs", job, "--raw", "--rank", "0")

    def ranks(self) -> list[dict[str, str]]:
        """Process id of every rank of each machine, and when it was started."""
        script = ("for pid in $(pgrep -f '^/usr/bin/python3 .*train.py'); do"
                  " echo $pid $(cut -d' ' -f22 /proc/$pid/stat); done")
        return [dict(line.split() for line in muster.machine.shell(script).splitlines())
                for muster in (self.first, self.second)]

    def await_steps(self, job: str) -> None:
        """Five more outputs than now have arrived: training goes on, and is heard of."""
        before = len(self.steps(job))
        wait_until(lambda: len(self.steps(job)) >= before + 5, "training goes on", limit=120)

    def await_new_agent(self, old: int) -> None:
        machine = self.second.machine
        wait_until(lambda: machine.main_pid(AGENT) not in (0, old) and machine.property(AGENT, "ActiveState") == "active",
                   "the agent is back")

    def test_does_not_notice_a_restart_and_an_upgrade(self):
        first, second = self.first.machine, self.second.machine
        file = first.shell(f"cat {EXAMPLE}/job.yaml").replace('"60"', f'"{STEPS}"')
        self.assertIn(str(STEPS), file)
        first.write(f"{EXAMPLE}/job.yaml", file + "env: {GLOO_SOCKET_IFNAME: lan}\n")
        first.write(f"{EXAMPLE}/hostfile", "".join(f"{node} slots=2\n" for node in HOSTS))
        job = first.run("coordinator", "submit", "--detach", f"{EXAMPLE}/job.yaml").split()[-1]
        self.await_steps(job)
        ranks = self.ranks()
        self.assertEqual([len(of_one) for of_one in ranks], [2, 2])

        agent = second.main_pid(AGENT)
        second.run("systemctl", "restart", AGENT)
        self.await_new_agent(agent)
        self.await_steps(job)

        agent = second.main_pid(AGENT)
        second.shell("dpkg --install /upgrade/muster-*.deb")
        self.await_new_agent(agent)
        self.await_steps(job)
        self.assertEqual(self.ranks(), ranks, "the same processes")

        wait_until(lambda: "hold" in self.raw_log(job), "the training ends", limit=600)
        first.run("coordinator", "wait", "--quiet", job)
        self.assertEqual(self.steps(job), [1, *range(5, STEPS + 1, 5)], "every line once, in order")
        self.assertIn("all 4 ranks hold equal weights; checkpoint saved", self.raw_log(job))
        first.shell(f"test -s {EXAMPLE}/checkpoint.pt")


if __name__ == "__main__":
    unittest.main()
