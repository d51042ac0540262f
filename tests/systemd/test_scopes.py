"""Jobs have scopes of their own, which the agent may leave and come back to, and which go when the job does."""

import unittest

from machine import wait_until
from muster import SCOPED, UNSCOPED, Job, Muster, repack

AGENT = "muster-agent"
# What the agent says when it cannot have a scope.
WARNING = "no scope of systemd"


class Scopes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.muster = Muster()
        cls.addClassCleanup(cls.muster.end)
        repack(cls.muster.upgrade.name, 2)
        cls.muster.boot()
        cls.muster.join()

    def setUp(self):
        self.machine = self.muster.machine

    def start(self, group: str = SCOPED) -> Job:
        """A job that runs, with its ranks in groups of this form."""
        job = Job(self.machine)
        # One that failed leaves no job behind that the next would wait for.
        self.addCleanup(self.machine.run, "coordinator", "cancel", "--now", job.id, check=False)
        for head in job.heads:
            self.assertRegex(head["group"], group)
        return job

    def scope_of(self, job: Job) -> str:
        return f"muster-job-{job.id}-1.scope"

    def shim_of(self, job: Job) -> int:
        return int(self.machine.shell(f"cut -d' ' -f4 /proc/{job.pids[0]}/stat"))

    def left(self) -> str:
        """Scopes of jobs, and groups of jobs wherever they may be."""
        return self.machine.shell("systemctl list-units --all --plain --no-legend 'muster-job-*'; "
                                  "find /sys/fs/cgroup -type d -path '*/muster-*/muster-*'").strip()

    def await_end(self, job: Job) -> None:
        for pid in job.pids:
            wait_until(lambda one=pid: not self.machine.shell(f"[ ! -e /proc/{one} ] || echo there"), "ranks end")

    def check_nothing_left(self, job: Job) -> None:
        self.await_end(job)
        wait_until(lambda: not self.left(), "neither scope nor group is left")

    def test_each_job_has_one_that_says_whose_it_is(self):
        job = self.start()
        scope = self.scope_of(job)
        self.assertEqual(self.machine.property(scope, "Description"), f"Muster: root, job {job.id} (sh), attempt 1")
        self.assertEqual(self.machine.property(scope, "TasksMax"), "infinity")
        group = self.machine.property(scope, "ControlGroup")
        for head in job.heads:
            self.assertTrue(head["group"].startswith(group + "/"), head)
        self.assertEqual(self.machine.shell(f"cat /sys/fs/cgroup{group}/cgroup.procs").split(), [str(self.shim_of(job))])
        said = self.machine.run("systemctl", "status", "--no-pager", "--full", scope)
        self.assertIn(f"{scope} - Muster: root, job {job.id}", said)
        for pid in job.pids:
            self.assertIn(f"{pid} sh /srv/rank.sh", said)
        # Nothing of the job is the agent's.
        of_agent = self.machine.shell("cat $(find /sys/fs/cgroup/system.slice/muster-agent.service -name cgroup.procs)")
        self.assertEqual(of_agent.split(), [str(self.machine.main_pid(AGENT))])
        job.finish()
        self.check_nothing_left(job)

    def after(self, act) -> None:
        """A job under which `act` puts another agent in place of its own keeps its scope, and takes it along at its end."""
        job = self.start()
        scope = self.scope_of(job)
        before = self.machine.property(scope, "InvocationID")
        self.assertTrue(before)
        agent = self.machine.main_pid(AGENT)
        act()
        wait_until(lambda: self.machine.main_pid(AGENT) not in (0, agent), "another agent")
        job.await_more()
        self.assertEqual(self.machine.property(scope, "InvocationID"), before)
        self.assertEqual(self.machine.property(scope, "ActiveState"), "active")
        job.finish()
        self.check_nothing_left(job)

    def test_an_agent_that_is_restarted_leaves_it_alone(self):
        self.after(lambda: self.machine.run("systemctl", "restart", AGENT))

    def test_an_agent_that_is_killed_leaves_it_alone(self):
        self.after(lambda: self.machine.kill("KILL", AGENT))

    def test_a_systemd_that_starts_anew_leaves_it_alone(self):
        def act():
            self.machine.run("systemctl", "daemon-reexec")
            self.machine.run("systemctl", "daemon-reload")
            self.machine.run("systemctl", "restart", AGENT)

        self.after(act)

    def test_z_an_upgrade_leaves_it_alone(self):
        """Last: what comes after it would run with the other revision."""
        self.after(lambda: self.machine.shell("dpkg --install /upgrade/muster-*.deb"))

    def test_a_job_that_ends_while_no_agent_is_there_takes_its_ranks_along(self):
        job = self.start()
        self.machine.run("systemctl", "stop", AGENT)
        self.machine.write("/srv/end", "5")
        self.await_end(job)
        self.machine.run("systemctl", "start", AGENT)
        self.machine.run("coordinator", "wait", "--quiet", job.id, status=5)
        self.check_nothing_left(job)

    def test_a_shim_that_is_killed_leaves_neither_ranks_nor_scope(self):
        job = self.start()
        self.machine.run("kill", "-KILL", str(self.shim_of(job)))
        self.machine.run("coordinator", "wait", "--quiet", job.id, status=121)
        self.check_nothing_left(job)

    def test_a_shim_that_is_killed_with_its_agent_leaves_neither(self):
        job = self.start()
        self.machine.run("kill", "-KILL", str(self.shim_of(job)), str(self.machine.main_pid(AGENT)))
        self.machine.run("coordinator", "wait", "--quiet", job.id, status=121)
        self.check_nothing_left(job)

    def test_stopped_it_ends_its_job(self):
        job = self.start()
        # Its ranks do not mind SIGTERM.
        self.machine.run("systemctl", "stop", "--no-block", self.scope_of(job))
        wait_until(lambda: self.machine.property(self.scope_of(job), "ActiveState") == "deactivating", "it is being stopped")
        self.machine.write("/srv/end", "9")
        self.machine.run("coordinator", "wait", "--quiet", job.id, status=9)
        self.assertIn("n1 had stopped its ranks by itself: the shim was sent SIGTERM",
                      self.machine.run("coordinator", "status", job.id))
        self.check_nothing_left(job)

    def warnings(self) -> int:
        return self.machine.journal(AGENT).count(WARNING)

    def test_without_a_bus_jobs_run_in_groups_below_the_agents(self):
        before = self.warnings()
        self.machine.run("systemctl", "stop", "dbus.socket", "dbus.service")
        self.addCleanup(self.machine.run, "systemctl", "start", "dbus.socket")
        for _ in range(2):
            job = self.start(UNSCOPED)
            job.finish()
            self.check_nothing_left(job)
        self.assertEqual(self.warnings(), before + 1, "said once")
        self.machine.run("systemctl", "start", "dbus.socket")
        job = self.start()
        job.finish()
        self.check_nothing_left(job)

    def test_a_bus_that_hangs_holds_no_job_up(self):
        self.machine.kill("STOP", "dbus")
        self.addCleanup(self.machine.kill, "CONT", "dbus")
        job = self.start(UNSCOPED)
        job.finish()
        self.check_nothing_left(job)

    def test_a_bus_that_hangs_holds_many_jobs_up_no_longer_than_one(self):
        jobs = 30
        self.machine.shell(f"sed -i 's/^slots:.*/slots: {jobs}/' /etc/muster/agent.yaml")
        self.addCleanup(self.machine.run, "systemctl", "restart", AGENT)
        self.addCleanup(self.machine.shell, "sed -i 's/^slots:.*/slots: 2/' /etc/muster/agent.yaml")
        self.machine.run("systemctl", "restart", AGENT)
        self.machine.kill("STOP", "dbus")
        self.addCleanup(self.machine.kill, "CONT", "dbus")
        # One after the other, each with a limit of its own, they would take a minute.
        self.machine.shell(
            f"pids=; for i in $(seq 0 {jobs - 1}); do coordinator spawn --timeout 30s --hosts n1 --include n1:$i --no-python true & "
            'pids="$pids $!"; done; for pid in $pids; do wait $pid; done')

    def test_an_agent_that_ends_while_one_is_made_leaves_none(self):
        self.machine.kill("STOP", "dbus")
        self.addCleanup(self.machine.kill, "CONT", "dbus")
        job = self.machine.run("coordinator", "submit", "--detach", "/srv/job.yaml").split()[-1]
        self.addCleanup(self.machine.run, "coordinator", "cancel", "--now", job, check=False)
        wait_until(lambda: self.machine.run("pgrep", "muster-shim", check=False), "the shim waits")
        before = self.machine.journal(AGENT).count("agent leaves")
        agent = self.machine.kill("TERM", AGENT)
        wait_until(lambda: self.machine.journal(AGENT).count("agent leaves") > before, "the agent ends")
        # The question to systemd is still on its way.
        self.machine.kill("CONT", "dbus")
        wait_until(lambda: self.machine.main_pid(AGENT) not in (0, agent), "another agent")
        self.machine.run("coordinator", "cancel", "--now", job)
        wait_until(lambda: not self.left(), "neither scope nor group is left")

    def configure(self, slice_name: str) -> None:
        """Until the end of the test."""
        self.machine.shell(f"echo 'job_slice: \"{slice_name}\"' >> /etc/muster/agent.yaml")
        self.addCleanup(self.machine.run, "systemctl", "restart", AGENT)
        self.addCleanup(self.machine.shell, "sed -i /job_slice/d /etc/muster/agent.yaml")
        self.machine.run("systemctl", "restart", AGENT)

    def test_refused_by_systemd_jobs_run_in_groups_below_the_agents(self):
        before = self.warnings()
        self.machine.run("systemctl", "mask", "--runtime", "refused.slice")
        self.configure("refused.slice")
        job = self.start(UNSCOPED)
        job.finish()
        self.check_nothing_left(job)
        self.assertEqual(self.warnings(), before + 1)
        self.assertRegex(self.machine.journal(AGENT), f"{WARNING}.*refused.slice is masked")

    def test_the_slice_is_there_while_the_agent_or_a_job_is(self):
        slices = "systemctl list-units --plain --no-legend 'muster*.slice'; find /sys/fs/cgroup -name 'muster*.slice'"
        job = self.start()
        shim = self.shim_of(job)
        self.machine.run("systemctl", "stop", AGENT)
        self.addCleanup(self.machine.run, "systemctl", "start", AGENT)
        self.assertIn("muster-jobs.slice", self.machine.shell(slices))
        self.machine.write("/srv/end", "0")
        self.await_end(job)
        # It waits for an agent; SIGTERM ends one that has nothing to do.
        wait_until(lambda: not self.machine.shell(f"kill -TERM {shim} 2>/dev/null && echo there || true"), "the shim ends")
        wait_until(lambda: not self.machine.shell(slices).strip(), "no slice is left")
        self.machine.run("systemctl", "start", AGENT)
        self.machine.run("coordinator", "wait", "--quiet", job.id)
        self.check_nothing_left(job)

    def test_limits_of_all_jobs_are_those_of_the_slice(self):
        path = "/run/systemd/system/muster-jobs.slice.d"
        self.machine.write(f"{path}/limits.conf", "[Slice]\nMemoryMax=3G\nTasksMax=5000\n")
        self.addCleanup(self.machine.shell, f"rm -r {path}; systemctl daemon-reload")
        self.machine.run("systemctl", "daemon-reload")
        job = self.start()
        self.assertEqual(self.machine.property("muster-jobs.slice", "MemoryMax"), str(3 << 30))
        self.assertEqual(self.machine.property("muster-jobs.slice", "TasksMax"), "5000")
        job.finish()
        self.check_nothing_left(job)

    def test_there_is_none_where_the_configuration_wants_none(self):
        before = self.warnings()
        self.configure("")
        self.start(UNSCOPED).finish()
        self.assertEqual(self.warnings(), before)


if __name__ == "__main__":
    unittest.main()
