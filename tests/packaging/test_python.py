"""The Python package: its wheel and python3-muster have the same files, which work from where they are installed."""

import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

import built

VERSION = re.search(r"project\(muster VERSION (\S+)", open(os.path.join(built.ROOT, "CMakeLists.txt"), encoding="utf-8").read())[1]
PROTOS = ("agent", "authority", "check", "job", "job_spec", "member", "node", "trust", "types")
# Uses every public name, and makes a message.
SCRIPT = """
import importlib.metadata, os, sys
import muster
for name in muster.__all__:
    getattr(muster, name)
from muster.distributed import DistributedRunner
assert muster.JobSpec(hosts=["a"], script="x.py").to_proto().hosts[0].host == "a"
print(os.path.dirname(muster.__file__), muster.__version__, importlib.metadata.version("muster"), muster.find_coordinator())
"""


def sources() -> set[str]:
    """Files that both have: those of the folder, and what the build makes."""
    folder = os.path.join(built.ROOT, "python")
    own = {os.path.relpath(path, folder) for path in glob.glob(os.path.join(folder, "muster", "*")) if not path.endswith("__pycache__")}
    generated = {f"muster/v1/{proto}_{ending}" for proto in PROTOS for ending in ("pb2.py", "pb2.pyi", "pb2_grpc.py")}
    return own | generated | {"muster/_version.py", "muster/v1/__init__.py"}


def wheel() -> str:
    return os.path.join(built.BUILD, "packages", f"muster-{VERSION}-py3-none-any.whl")


def said_by(folder: str, **environment: str) -> list[str]:
    """What SCRIPT says where only `folder` has the package."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr.decode())
    return done.stdout.decode().split()


class Wheel(unittest.TestCase):
    def test_has_the_sources_and_what_the_build_makes(self):
        with zipfile.ZipFile(wheel()) as archive:
            names = {name for name in archive.namelist() if not name.startswith(f"muster-{VERSION}.dist-info/")}
            metadata = archive.read(f"muster-{VERSION}.dist-info/METADATA").decode()
            times = {one.date_time for one in archive.infolist()}
        self.assertEqual(names, sources())
        self.assertIn(f"Version: {VERSION}\n", metadata)
        self.assertIn("Requires-Python: >=3.9\n", metadata)
        self.assertRegex(metadata, r"(?s)Requires-Dist: grpcio .*Requires-Dist: protobuf ")
        # Equal sources make equal wheels.
        self.assertEqual(times, {(1980, 1, 1, 0, 0, 0)})

    def test_works_when_it_is_unpacked_and_finds_programs_by_the_variable(self):
        program = os.path.join(built.BIN, "coordinator")
        with tempfile.TemporaryDirectory() as folder:
            with zipfile.ZipFile(wheel()) as archive:
                archive.extractall(folder)
            self.assertEqual(said_by(folder, MUSTER_COORDINATOR=program), [os.path.join(folder, "muster"), VERSION, VERSION, program])

    def test_is_for_every_interpreter_that_it_says(self):
        """No syntax that the oldest does not have."""
        with zipfile.ZipFile(wheel()) as archive:
            for name in archive.namelist():
                if name.endswith(".py"):
                    compile(archive.read(name), name, "exec", dont_inherit=True, flags=0x400, _feature_version=9)


class Debian(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        built.run("dpkg-deb", "--raw-extract", built.package("python3-muster"), self.folder)

    def test_has_the_files_of_the_wheel_and_belongs_to_root(self):
        place = os.path.join(self.folder, "usr/lib/python3/dist-packages")
        listed = {os.path.relpath(os.path.join(folder, one), place) for folder, _, ones in os.walk(place) for one in ones}
        info = {f"muster-{VERSION}.dist-info/{name}" for name in ("METADATA", "WHEEL", "top_level.txt")}
        self.assertEqual(listed, sources() | info)
        documents = set(os.listdir(os.path.join(self.folder, "usr/share/doc/python3-muster")))
        self.assertEqual(documents, {"changelog.Debian.gz", "changelog.gz", "copyright"})
        for line in built.run("dpkg-deb", "--contents", built.package("python3-muster")).splitlines():
            self.assertRegex(line, r"^(d.{2}x|-.{2}-)r-.r-. root/root ")

    def test_names_what_it_needs(self):
        with open(os.path.join(self.folder, "DEBIAN/control"), encoding="utf-8") as stream:
            control = stream.read()
        self.assertIn("Architecture: all\n", control)
        self.assertIn("Depends: python3 (>= 3.9), python3-grpcio (>= 1.51), python3-protobuf (>= 3.21)\n", control)
        self.assertIn("Recommends: muster-coordinator\n", control)
        for script in ("postinst", "prerm"):
            self.assertEqual(built.run("dash", "-n", os.path.join(self.folder, "DEBIAN", script)), "")

    def test_works_from_where_it_is_and_finds_programs_in_path(self):
        place = os.path.join(self.folder, "usr/lib/python3/dist-packages")
        said = said_by(place, PATH=f"{built.BIN}:{os.environ['PATH']}")
        self.assertEqual(said, [os.path.join(place, "muster"), VERSION, VERSION, os.path.join(built.BIN, "coordinator")])


class BuildTree(unittest.TestCase):
    def test_finds_the_programs_beside_it(self):
        folder = os.path.join(built.BUILD, "python")
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": folder}
        said = subprocess.run([sys.executable, "-c", "import muster; print(muster.find_coordinator())"], env=env, check=True,
                              stdout=subprocess.PIPE).stdout.decode().strip()
        self.assertEqual(said, os.path.join(built.BIN, "coordinator"))


if __name__ == "__main__":
    unittest.main()
