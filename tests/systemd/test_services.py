"""Daemons under a real systemd are restarted, killed, stopped, upgraded and hung, and the ranks of a job do not notice."""

import re
import unittest

from machine import wait_until
from muster import SCOPED, Job, Muster, repack

# Its number, see capabilities(7).
CAP_SYS_RESOURCE = 24
AGENT = "muster-agent"
COORDINATOR = "muster-coordinator"


class Services(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.muster = Muster()
        cls.addClassCleanup(cls.muster.end)
        repack(cls.muster.upgrade.name, 2)
        cls.muster.boot()
        cls.muster.join()

    def setUp(self):
        self.machine = self.muster.machine
        self.job = Job(self.machine)
        # One that failed leaves no job behind that the next would wait for.
        self.addCleanup(self.machine.run, "coordinator", "cancel", "--now", self.job.id, check=False)

    def await_new(self, unit: str, old: int) -> None:
        """Another process than `old` serves the unit."""
        wait_until(lambda: self.machine.main_pid(unit) not in (0, old) and
                   self.machine.property(unit, "ActiveState") == "active", f"{unit} is back")

    def after_new(self, unit: str, act) -> None:
        old = self.machine.main_pid(unit)
        self.assertGreater(old, 0)
        act()
        self.await_new(unit, old)
        self.job.await_more()
        self.job.finish()

    def test_an_agent_is_restarted(self):
        self.after_new(AGENT, lambda: self.machine.run("systemctl", "restart", AGENT))

    def test_an_agent_is_killed(self):
        self.after_new(AGENT, lambda: self.machine.kill("KILL", AGENT))

    def test_an_agent_is_stopped_and_started(self):
        def act():
            self.machine.run("systemctl", "stop", AGENT)
            self.assertEqual(self.machine.main_pid(AGENT), 0)
            self.job.check_untouched()
            self.machine.run("systemctl", "start", AGENT)

        self.after_new(AGENT, act)

    def test_an_agent_hangs(self):
        restarts = int(self.machine.property(AGENT, "NRestarts"))
        self.after_new(AGENT, lambda: self.machine.kill("STOP", AGENT))
        self.assertEqual(int(self.machine.property(AGENT, "NRestarts")), restarts + 1)
        self.assertIn("Watchdog timeout", self.machine.journal(AGENT))

    def test_an_agent_ends_while_it_is_away(self):
        """What ranks did without an agent is told by the next one."""
        self.machine.run("systemctl", "stop", AGENT)
        self.machine.write("/srv/end", "5")
        for pid in self.job.pids:
            wait_until(lambda one=pid: not self.machine.run("sh", "-c", f"[ ! -e /proc/{one} ] || echo there"), "ranks end")
        self.machine.run("systemctl", "start", AGENT)
        self.machine.run("coordinator", "wait", "--quiet", self.job.id, status=5)
        for rank in (0, 1):
            self.assertRegex(self.job.log(rank)[-1], "^last ")

    def test_a_coordinator_is_restarted(self):
        self.after_new(COORDINATOR, lambda: self.machine.run("systemctl", "restart", COORDINATOR))

    def test_a_coordinator_is_killed(self):
        self.after_new(COORDINATOR, lambda: self.machine.kill("KILL", COORDINATOR))

    def test_a_coordinator_hangs(self):
        # In a test half a minute is long.
        self.machine.write(f"/run/systemd/system/{COORDINATOR}.service.d/soon.conf", "[Service]\nWatchdogSec=3\n")
        self.machine.run("systemctl", "daemon-reload")
        self.machine.run("systemctl", "restart", COORDINATOR)
        self.after_new(COORDINATOR, lambda: self.machine.kill("STOP", COORDINATOR))
        self.assertIn("Watchdog timeout", self.machine.journal(COORDINATOR))

    def test_ranks_get_nothing_of_what_protects_the_daemons(self):
        # Where this machine may not raise limits, neither may one inside it.
        with open("/proc/self/status", encoding="utf-8") as stream:
            may_raise = int(re.search(r"CapEff:\s+(\w+)", stream.read())[1], 16) >> CAP_SYS_RESOURCE & 1
        of_machine = self.machine.shell("ulimit -H -l").strip()
        for head in self.job.heads:
            self.assertEqual(head["user"], "root")
            self.assertEqual(head["oom"], "0")
            self.assertEqual(head["memlock"], "unlimited" if may_raise else of_machine)
            self.assertRegex(head["group"], SCOPED)
        self.assertEqual(self.machine.shell(f"cat /proc/{self.machine.main_pid(AGENT)}/oom_score_adj").strip(),
                         "-900" if may_raise else "0")
        rank_tmp = self.machine.shell(f"readlink /proc/{self.job.pids[0]}/ns/mnt")
        self.assertEqual(rank_tmp, self.machine.shell("readlink /proc/1/ns/mnt"), "no namespace of its own")
        self.job.finish()

    def test_the_coordinator_is_nobody_and_sees_little(self):
        pid = self.machine.main_pid(COORDINATOR)
        status = self.machine.shell(f"cat /proc/{pid}/status")
        self.assertRegex(status, r"CapEff:\s+0+\n")
        self.assertRegex(status, r"NoNewPrivs:\s+1\n")
        self.assertRegex(status, r"Seccomp:\s+2\n")
        self.assertEqual(self.machine.shell(f"stat -c %U /proc/{pid}").strip(), "muster")
        self.job.finish()

    def test_status_says_what_is_served(self):
        wait_until(lambda: "1 of 1 nodes in contact, 1 job" in self.machine.property(COORDINATOR, "StatusText"), "status")
        wait_until(lambda: "n1: 2 ranks running, in contact" in self.machine.property(AGENT, "StatusText"), "status")
        self.job.finish()

    def test_z_both_packages_are_upgraded_under_a_job(self):
        """Last: what comes after it would run with the other revision."""
        agent, coordinator = self.machine.main_pid(AGENT), self.machine.main_pid(COORDINATOR)
        shim = self.machine.shell("pgrep -x muster-shim").strip()
        self.machine.shell("dpkg --install /upgrade/muster-*.deb")
        self.assertRegex(self.machine.shell("dpkg-query -W -f '${Version} ' muster-agent muster-coordinator"), r"-2 .*-2 $")
        self.await_new(AGENT, agent)
        self.await_new(COORDINATOR, coordinator)
        self.assertIn("muster-shim", self.machine.shell(f"readlink /proc/{shim}/exe"))
        self.assertIn("allow_root: true", self.machine.shell("cat /etc/muster/agent.yaml"), "the administrator's")
        self.job.await_more()
        self.job.finish()


if __name__ == "__main__":
    unittest.main()
