"""The Python package is installed as users do it: by pip into virtual environments, and by dpkg. Without a network."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import built
from test_python import SCRIPT, VERSION, wheel

DEBIAN = "/usr/lib/python3/dist-packages"
# Of /usr, /var and /etc dpkg sees a layer of memory, in a mount namespace that ends with it.
INSTALL = f"""
set -e
mount -t tmpfs tmpfs /mnt
for folder in usr var etc; do
  mkdir -p /mnt/$folder/upper /mnt/$folder/work
  mount -t overlay overlay -o "lowerdir=/$folder,upperdir=/mnt/$folder/upper,workdir=/mnt/$folder/work" /$folder
done
cd /
dpkg --install "$1"
dpkg --verify python3-muster
ls {DEBIAN}/muster/__pycache__/client.cpython-*.pyc
/usr/bin/python3 -c "$2"
dpkg --install "$1"
dpkg --purge python3-muster
! ls -d {DEBIAN}/muster*
"""


class VirtualEnvironments(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def make(self, *options: str) -> str:
        """Its site-packages."""
        built.run(sys.executable, "-m", "venv", *options, self.folder)
        return self.run_in("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()

    def run_in(self, *words: str, fails: bool = False) -> str:
        """Both outputs of its interpreter, in which no other installation of the package is seen."""
        env = {"PATH": os.environ["PATH"], "HOME": self.folder, "LC_ALL": "C.UTF-8", "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull,
               "MUSTER_COORDINATOR": os.path.join(built.BIN, "coordinator")}
        done = subprocess.run([os.path.join(self.folder, "bin", "python"), *words], env=env, cwd=self.folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        said = done.stdout.decode()
        self.assertEqual(done.returncode != 0, fails, said)
        return said

    def assert_works(self, place: str) -> None:
        said = self.run_in("-c", SCRIPT).split()
        self.assertEqual(said, [os.path.join(place, "muster"), VERSION, VERSION, os.path.join(built.BIN, "coordinator")])

    def test_with_the_packages_of_debian(self):
        """pip finds in Debian's packages all that the wheel asks for."""
        place = self.make("--system-site-packages")
        self.run_in("-m", "pip", "install", wheel())
        self.assert_works(place)
        self.assertNotIn("muster", self.run_in("-c", "import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip', 'check'])"))
        self.run_in("-m", "pip", "uninstall", "--yes", "muster")
        self.assertEqual([name for name in os.listdir(place) if name.startswith("muster")], [])

    def test_with_nothing_but_the_wheel(self):
        """pip says what is missing; without it the runner works, and the rest says what to install."""
        place = self.make()
        self.assertRegex(self.run_in("-m", "pip", "install", wheel(), fails=True), "(grpcio|protobuf)")
        self.run_in("-m", "pip", "install", "--no-deps", wheel())
        said = self.run_in("-c", "import muster.distributed as one; one.DistributedRunner(['x.py'], world_size=2); print(one.__file__)")
        self.assertEqual(said.strip(), os.path.join(place, "muster", "distributed.py"))
        self.assertIn("ImportError: muster needs protobuf", self.run_in("-c", "import muster; muster.Client", fails=True))
        # What pip would bring, here from Debian's packages; and nothing else of theirs.
        for name in ("google", "grpc"):
            os.symlink(os.path.join(DEBIAN, name), os.path.join(place, name))
        self.assert_works(place)


class Debian(unittest.TestCase):
    @unittest.skipUnless(os.geteuid() == 0, "dpkg needs root")
    def test_package_is_installed_again_and_purged(self):
        said = built.run("unshare", "--mount", "--propagation", "private", "sh", "-c", INSTALL, "sh", built.package("python3-muster"),
                         SCRIPT, PATH=f"{built.BIN}:{os.environ['PATH']}")
        where = [line for line in said.splitlines() if re.match(rf"{DEBIAN}/muster {VERSION} {VERSION} ", line)]
        self.assertEqual(len(where), 1, said)


if __name__ == "__main__":
    unittest.main()
