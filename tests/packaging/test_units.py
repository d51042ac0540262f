"""The units for systemd: they are valid, and say what the daemons and the ranks rely on."""

import configparser
import os
import re
import tempfile
import unittest

import built

# Exposure of the coordinator by `systemd-analyze security`, in tenths: what a stranger's bytes reach.
MOST_EXPOSURE = 16


def read_unit(name: str) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters="=", comment_prefixes="#")
    parser.optionxform = str
    parser.read(os.path.join(built.UNITS, name))
    return {section: dict(parser[section]) for section in parser.sections()}


class Units(unittest.TestCase):
    NAMES = ["muster-coordinator.service", "muster-agent.service", "user/muster-agent.service"]
    SLICES = ["muster.slice", "muster-jobs.slice"]

    def test_are_valid(self):
        for name in self.NAMES + self.SLICES:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(built.UNITS, name), encoding="utf-8") as stream:
                    unit = stream.read().replace("/usr/bin/", built.BIN + "/")
                path = os.path.join(folder, os.path.basename(name))
                with open(path, "w", encoding="utf-8") as stream:
                    stream.write(unit)
                scope = "--user" if name.startswith("user/") else "--system"
                said = built.run("systemd-analyze", "verify", scope, "--man=no", "--recursive-errors=no", path,
                                 XDG_RUNTIME_DIR=folder)
                self.assertEqual(said, "")

    def test_of_the_coordinator_is_hardened(self):
        path = os.path.join(built.UNITS, "muster-coordinator.service")
        said = built.run("systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSURE}", path)
        self.assertRegex(said, "Overall exposure level")
        service = read_unit("muster-coordinator.service")["Service"]
        self.assertEqual(service["User"], "muster")
        self.assertEqual(service["ProtectSystem"], "strict")

    def test_of_agents_leave_ranks_alone(self):
        for name in self.NAMES[1:]:
            with self.subTest(name):
                service = read_unit(name)["Service"]
                self.assertEqual(service["KillMode"], "process")
                self.assertEqual(service["Delegate"], "yes")
                self.assertEqual(service["OOMPolicy"], "continue")
                self.assertEqual(service["TasksMax"], "infinity")
                # Ranks would inherit these; and no controller may be enabled beside them.
                for setting in service:
                    self.assertNotRegex(setting, "^(Private|Protect|Restrict|NoNew|SystemCall|Capability|Memory|CPU|IO|IP)")

    def test_of_slices_limit_nothing_and_go_when_no_job_needs_them(self):
        for name in self.SLICES:
            with self.subTest(name):
                unit = read_unit(name)
                self.assertEqual(list(unit), ["Unit"])
                self.assertEqual(unit["Unit"]["StopWhenUnneeded"], "yes")

    def test_are_started_again_for_ever_but_not_with_bad_configuration(self):
        for name in self.NAMES:
            with self.subTest(name):
                unit = read_unit(name)
                self.assertEqual(unit["Unit"]["StartLimitIntervalSec"], "0")
                self.assertEqual(unit["Service"]["Type"], "notify")
                self.assertEqual(unit["Service"]["Restart"], "always")
                self.assertEqual(unit["Service"]["RestartPreventExitStatus"], "2")
                # Nothing is to be served before somebody has configured it.
                self.assertIn("trust", unit["Unit"]["ConditionPathExists"])

    def test_of_agents_end_a_hanging_one_within_the_lease(self):
        # CoordinatorOptions::lease_ttl: later, the coordinator has given the node and its ranks up.
        with open(os.path.join(built.ROOT, "coordinator/core/coordinator_core.h"), encoding="utf-8") as stream:
            lease = int(re.search(r"lease_ttl = std::chrono::seconds\((\d+)\)", stream.read())[1])
        for name in self.NAMES[1:]:
            service = read_unit(name)["Service"]
            restart = float(service["RestartSec"].removesuffix("ms")) / 1000
            self.assertLess(int(service["WatchdogSec"]) + int(service["TimeoutAbortSec"]) + restart, lease - 1)


if __name__ == "__main__":
    unittest.main()
