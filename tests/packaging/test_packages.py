"""What is in the Debian packages."""

import os
import re
import tempfile
import unittest

import built

COMMON = ["changelog.Debian.gz", "changelog.gz", "copyright"]
FILES = {
    "muster-coordinator": [
        "etc/default/muster-coordinator", "etc/muster/coordinator.yaml", "lib/systemd/system/muster-coordinator.service",
        "usr/bin/coordinator", "usr/share/bash-completion/completions/coordinator", "usr/share/man/man1/coordinator.1.gz",
        "usr/share/muster/compat/deepspeed", "usr/share/muster/compat/gaudi_spawn.py"],
    "muster-agent": [
        "etc/default/muster-agent", "etc/muster/agent.yaml", "etc/muster/allow_users", "lib/systemd/system/muster-agent.service",
        "lib/systemd/system/muster-jobs.slice", "lib/systemd/system/muster.slice", "usr/bin/agent",
        "usr/lib/systemd/user/muster-agent.service", "usr/libexec/muster/muster-shim",
        "usr/share/bash-completion/completions/agent", "usr/share/man/man1/agent.1.gz"],
    "muster-doc": [f"usr/share/doc/muster-doc/{name}.md" for name in
                   ("ARCHITECTURE", "README", "SECURITY", "docs/compat", "docs/containers", "docs/faults", "docs/figures",
                    "docs/gaudi-guide", "docs/install", "docs/python", "docs/reference", "docs/requirements", "docs/slurm")] +
                  [f"usr/share/doc/muster-doc/examples/gpt2_xl/{name}" for name in
                   (".deepspeed_env", "ds_config.json", "hostfile", "job.yaml")],
}
# The Python package is looked at by test_python.py.
PROGRAMS = ("usr/bin/coordinator", "usr/bin/agent", "usr/libexec/muster/muster-shim")


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for name in FILES:
            built.run("dpkg-deb", "--raw-extract", built.package(name), os.path.join(cls.folder.name, name))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, *parts: str) -> str:
        return os.path.join(self.folder.name, *parts)

    def read(self, *parts: str) -> str:
        with open(self.path(*parts), encoding="utf-8") as stream:
            return stream.read()

    def test_have_these_files_and_no_others(self):
        for name, files in FILES.items():
            listed = [os.path.relpath(os.path.join(folder, one), self.path(name))
                      for folder, _, ones in os.walk(self.path(name)) for one in ones]
            expected = files + [f"usr/share/doc/{name}/{one}" for one in COMMON] + [f"usr/share/lintian/overrides/{name}"]
            self.assertEqual(sorted(one for one in listed if not one.startswith("DEBIAN/")), sorted(expected))

    def test_belong_to_root_and_nobody_else_may_write_to_them(self):
        for name in FILES:
            for line in built.run("dpkg-deb", "--contents", built.package(name)).splitlines():
                mode, owner, *_, path = line.split()
                self.assertEqual(owner, "root/root", line)
                self.assertRegex(mode, r"^[d-]rw.r-.r-.$", line)
                self.assertEqual("x" in mode and mode[0] == "-", path.removeprefix("./") in PROGRAMS, line)

    def test_mark_configuration_as_the_administrators(self):
        for name in ("muster-coordinator", "muster-agent"):
            marked = self.read(name, "DEBIAN/conffiles").split()
            self.assertEqual(marked, [f"/{one}" for one in FILES[name] if one.startswith("etc/")])

    def test_name_what_they_need(self):
        for name in FILES:
            control = self.read(name, "DEBIAN/control")
            self.assertRegex(control, r"(?m)^Version: \d+\.\d+\.\d+-\d+$")
            self.assertRegex(control, r"(?m)^ Muster starts every rank")
            if name == "muster-doc":
                self.assertIn("Architecture: all", control)
                self.assertNotIn("Depends:", control)
            else:
                self.assertRegex(control, r"(?m)^Depends: .*libc6 \(>= .*libssl3 \(>= ")
        # The shim owns the ranks: nothing that is upgraded on the node may touch it.
        self.assertNotIn("NEEDED", built.run("readelf", "-d", self.path("muster-agent/usr/libexec/muster/muster-shim")))

    def test_have_programs_without_symbols_and_paths_of_the_build(self):
        for name, files in FILES.items():
            for program in set(files) & set(PROGRAMS):
                self.assertNotRegex(built.run("readelf", "-d", self.path(name, program)), "RPATH|RUNPATH")
                self.assertNotIn(".symtab", built.run("readelf", "-S", "-W", self.path(name, program)))

    def test_run_from_where_they_are(self):
        said = built.run(self.path("muster-coordinator/usr/bin/coordinator"), "--version")
        version = re.search(r"Version: (\S+)-", self.read("muster-coordinator", "DEBIAN/control"))[1]
        self.assertEqual(said, f"coordinator {version}\n")
        self.assertEqual(built.run(self.path("muster-agent/usr/bin/agent"), "--version"), f"agent {version}\n")

    def test_ship_configuration_that_changes_nothing_and_holds_when_it_is_used(self):
        for name, command in (("coordinator", ["coordinator", "serve"]), ("agent", ["agent", "run"])):
            path = self.path(f"muster-{name}/etc/muster/{name}.yaml")
            program = os.path.join(built.BIN, command[0])
            shown = built.run(program, command[1], "--check-config", "--config", path)
            self.assertNotIn(path + ":", shown)
            used = self.path(f"{name}.yaml")
            with open(used, "w", encoding="utf-8") as stream:
                stream.write(re.sub(r"(?m)^#([a-z_]+:)", r"\1", self.read(f"muster-{name}", f"etc/muster/{name}.yaml")))
            shown = built.run(program, command[1], "--check-config", "--config", used)
            documented = re.findall(r"(?m)^#([a-z_]+):", self.read(f"muster-{name}", f"etc/muster/{name}.yaml"))
            self.assertEqual(sorted(re.findall(r"(?m)^([a-z_]+):.*# .*:\d+$", shown)), sorted(documented))
            self.assertGreaterEqual(len(documented), 5)

    def test_have_scripts_that_every_shell_understands(self):
        for name in ("muster-coordinator", "muster-agent"):
            for script in ("postinst", "prerm", "postrm"):
                self.assertEqual(built.run("dash", "-n", self.path(name, "DEBIAN", script)), "")
                self.assertTrue(self.read(name, "DEBIAN", script).startswith("#!/bin/sh\nset -e\n"))


if __name__ == "__main__":
    unittest.main()
