"""Makes the wheel of the package, without a network.

    build_wheel.py PACKAGE_FOLDER OUTPUT_FOLDER

PACKAGE_FOLDER is the assembled package (pyproject.toml, muster/), which stays as it is. Equal sources make equal wheels. What is
in OUTPUT_FOLDER is replaced by the wheel and by `tree`, its contents as a Debian package has them.
"""

import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable

from setuptools import build_meta

# 1980-01-01: the first moment that a zip file can hold.
FIRST_TIME = "315532800"


def quietly(work: Callable[[], str]) -> str:
    """What `work` returns. setuptools says everything that it does: it is shown only when it fails."""
    with tempfile.TemporaryFile() as said:
        kept = [(fd, os.dup(fd)) for fd in (1, 2)]
        try:
            for fd, _ in kept:
                os.dup2(said.fileno(), fd)
            return work()
        except BaseException:
            said.seek(0)
            os.write(kept[1][1], said.read())
            raise
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for fd, copy in kept:
                os.dup2(copy, fd)
                os.close(copy)


def main() -> int:
    package, output = (os.path.abspath(path) for path in sys.argv[1:3])
    shutil.rmtree(output, ignore_errors=True)
    os.makedirs(output)
    os.environ["SOURCE_DATE_EPOCH"] = FIRST_TIME
    os.umask(0o022)
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "package")
        shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copyfile)
        os.chdir(copy)
        name = quietly(lambda: build_meta.build_wheel(output))
    tree = os.path.join(output, "tree")
    with zipfile.ZipFile(os.path.join(output, name)) as wheel:
        wheel.extractall(tree, [one for one in wheel.namelist() if not one.endswith(".dist-info/RECORD")])
    return 0


if __name__ == "__main__":
    sys.exit(main())
