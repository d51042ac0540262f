"""Packages are installed, configured, removed and purged on a fresh Debian, with systemd and without."""

import unittest

from machine import wait_until
from muster import SCOPED, UNSCOPED, Job, Muster

WITHOUT_SYSTEMD = r"""
dpkg --install /packages/muster-*.deb
[ "$(stat -c '%U %a' /var/lib/muster/coordinator)" = "muster 700" ]
coordinator init --host 127.0.0.1
export MUSTER_SERVER=unix:/run/muster/coordinator.sock
setpriv --reuid muster --regid muster --clear-groups env STATE_DIRECTORY=/var/lib/muster/coordinator \
  RUNTIME_DIRECTORY=/tmp/run coordinator serve &
export MUSTER_SERVER=unix:/tmp/run/coordinator.sock
until coordinator nodes >/dev/null 2>&1; do sleep 0.1; done
coordinator token create -o json | sed -n 's/.*"token": *"\([^"]*\)".*/\1/p' > /root/token
agent join 127.0.0.1:7443 --token-file /root/token --node-id n1
agent run --allow-root --slots 2 &
printf 'n1 slots=2\n' > /root/hosts
coordinator spawn --hostfile /root/hosts --no-python /bin/echo hello
coordinator spawn --local --hostfile /root/hosts --no-python /bin/echo local
"""


class Installed(unittest.TestCase):
    def test_works_without_systemd(self):
        muster = Muster()
        self.addCleanup(muster.end)
        said = muster.machine.run_alone(WITHOUT_SYSTEMD)
        for rank in (0, 1):
            self.assertIn(f"[{rank}@n1] hello\n", said)
            self.assertIn(f"[{rank}@n1] local\n", said)


class Fresh(unittest.TestCase):
    """One machine from nothing to nothing: the tests follow each other."""

    @classmethod
    def setUpClass(cls):
        cls.muster = Muster()
        cls.addClassCleanup(cls.muster.end)
        cls.machine = cls.muster.machine
        cls.muster.boot()

    def state(self, unit: str) -> tuple[str, str, str]:
        return tuple(self.machine.property(unit, name) for name in ("UnitFileState", "ActiveState", "NRestarts"))

    def test_1_nothing_runs_before_it_is_configured(self):
        for unit in ("muster-agent", "muster-coordinator"):
            self.assertEqual(self.state(unit), ("enabled", "inactive", "0"))
            self.machine.run("systemctl", "start", unit)
            self.assertEqual(self.state(unit), ("enabled", "inactive", "0"))
            said = self.machine.shell(f"systemd-analyze verify --man=no {unit}.service")
            self.assertNotIn(unit, said)
        self.assertIn("not joined a cluster", self.machine.run("agent", "run", status=2))

    def test_2_a_mistake_is_told_and_not_tried_again(self):
        self.muster.join()
        self.machine.shell("echo 'slotz: 3' >> /etc/muster/agent.yaml")
        self.machine.run("systemctl", "restart", "muster-agent", status=1)
        self.assertEqual(self.state("muster-agent"), ("enabled", "failed", "0"))
        self.assertRegex(self.machine.journal("muster-agent"), r"/etc/muster/agent.yaml:\d+: unknown key 'slotz'")
        self.machine.shell("sed -i /slotz/d /etc/muster/agent.yaml")
        self.machine.run("systemctl", "restart", "muster-agent")
        Job(self.machine).finish()

    def test_3_ranks_run_as_a_user_that_the_node_allows(self):
        self.machine.run("adduser", "--quiet", "--disabled-password", "--gecos", "", "alice")
        self.machine.write("/srv/job.yaml", "hostfile: hosts\nuser: alice\ncommand: [sh, /srv/rank.sh]\n")
        said = self.machine.run("coordinator", "submit", "/srv/job.yaml", status=120)
        self.assertIn('a line "alice" in /etc/muster/allow_users', said)
        self.machine.shell("echo alice >> /etc/muster/allow_users")
        job = Job(self.machine)
        for head in job.heads:
            self.assertEqual(head["user"], "alice")
            self.assertEqual(head["oom"], "0")
            self.assertRegex(head["group"], SCOPED)
        self.machine.run("systemctl", "restart", "muster-agent")
        job.await_more()
        job.finish()

    def test_3_ranks_run_as_the_user_of_a_drop_in(self):
        self.machine.write("/etc/systemd/system/muster-agent.service.d/user.conf", "[Service]\nUser=alice\n")
        self.machine.shell("sed -i /allow_root/d /etc/muster/agent.yaml; systemctl daemon-reload; "
                           "systemctl restart muster-agent")
        job = Job(self.machine)
        for head in job.heads:
            self.assertEqual(head["user"], "alice")
            self.assertEqual(head["oom"], "0")
            self.assertRegex(head["group"], UNSCOPED)
        self.machine.run("systemctl", "restart", "muster-agent")
        job.await_more()
        job.finish()
        # Root makes it a node anew: the agent of the user can use what it is given.
        self.machine.run("coordinator", "revoke", "agent", "n1", "--free-name")
        self.muster.join_again("n1")
        self.assertEqual(self.machine.shell("find /var/lib/muster/agent ! -user alice"), "")
        self.machine.run("systemctl", "restart", "muster-agent")
        Job(self.machine).finish()

    def test_4_a_user_runs_an_agent_of_their_own(self):
        self.machine.run("systemctl", "stop", "muster-agent")
        self.machine.run("loginctl", "enable-linger", "alice")
        uid = self.machine.run("id", "--user", "alice").strip()
        wait_until(lambda: self.machine.property(f"user@{uid}", "ActiveState") == "active", "the user's systemd is up")

        def alice(script: str) -> str:
            return self.machine.run("setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "env", "HOME=/home/alice",
                                    f"XDG_RUNTIME_DIR=/run/user/{uid}", "sh", "-euc", script)

        self.muster.write_token()
        alice("agent join 127.0.0.1:7443 --token-file /srv/token --node-id n2 --config ''")
        alice("mkdir -p ~/.config/muster; echo 'slots: 2' > ~/.config/muster/agent.yaml")
        alice("systemctl --user enable --now muster-agent")
        job = Job(self.machine, "/srv/alice.yaml")
        for head in job.heads:
            self.assertEqual(head["user"], "alice")
            self.assertRegex(head["group"], rf"/user@{uid}.service/.*/muster-agent.service/muster-[^/]+/rank-\d$")
        alice("systemctl --user restart muster-agent")
        job.await_more()
        alice("kill -KILL $(systemctl --user show --property MainPID --value muster-agent)")
        job.await_more()
        job.finish()
        alice("systemctl --user disable --now muster-agent")
        self.machine.run("systemctl", "start", "muster-agent")

    def test_5_what_is_removed_is_gone_and_ranks_that_run_are_not(self):
        job = Job(self.machine)
        self.machine.run("dpkg", "--remove", "muster-agent")
        self.assertEqual(self.machine.property("muster-agent", "ActiveState"), "inactive")
        job.check_untouched()
        said = self.machine.run("dpkg", "--purge", "muster-agent")
        self.assertIn("ranks still run; their records stay in /var/lib/muster/agent", said)
        self.machine.shell("dpkg --install /packages/muster-agent_*.deb")
        job.check_untouched()
        self.machine.shell("echo 'slots: 2' >> /etc/muster/agent.yaml; systemctl start muster-agent")
        # Installing takes its time: the node may be lost by now, as far as the coordinator knows. Either way the new
        # agent has what the old one left.
        self.machine.run("coordinator", "cancel", "--now", job.id, check=False)
        for pid in job.pids:
            wait_until(lambda one=pid: not self.machine.run("sh", "-c", f"[ ! -e /proc/{one} ] || echo there"), "ranks end")
        wait_until(lambda: not self.machine.run("pgrep", "-x", "muster-shim", check=False), "the shim ends")

    def test_6_what_is_purged_leaves_the_cluster_alone(self):
        said = self.machine.run("dpkg", "--purge", "muster-agent", "muster-coordinator", "muster-doc")
        self.assertIn("stay in /var/lib/muster/coordinator", said)
        left = self.machine.shell("find / -xdev -path /proc -prune -o -path /sys -prune -o -name '*muster*' -print; "
                                  "find /var/lib/muster -maxdepth 2").split()
        left = [path for path in left if not path.startswith(("/var/lib/muster/coordinator", "/run/", "/srv/"))]
        left = [path for path in left if not path.startswith("/home/alice")]
        self.assertEqual(left, ["/etc/systemd/system/muster-agent.service.d", "/var/lib/muster", "/var/lib/muster"])


if __name__ == "__main__":
    unittest.main()
