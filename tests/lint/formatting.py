"""All C++ sources are as clang-format leaves them (`./dev fmt` does it)."""

import subprocess

import lint

sources = lint.files(".cc", ".h")
done = subprocess.run(["clang-format-14", "--dry-run", "--Werror", "--ferror-limit=3", *sources], cwd=lint.ROOT,
                      stderr=subprocess.PIPE, check=False)
lint.finish([line for line in done.stderr.decode().splitlines() if "error:" in line])
