"""clang-tidy over all sources that the release build compiles, with the checks of .clang-tidy."""

import concurrent.futures
import json
import os
import re
import subprocess
import sys

import lint

BUILD = os.path.join(lint.ROOT, "build", "release")
wanted = set(sys.argv[1:])

sources = []
with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as stream:
    for entry in json.load(stream):
        path = os.path.relpath(entry["file"], lint.ROOT)
        if path.startswith(("build/", "..", "cmake/")):
            continue
        if not wanted or any(path.startswith(prefix) for prefix in wanted):
            sources.append(path)


def check(path: str) -> list[str]:
    done = subprocess.run(["clang-tidy-14", "-p", BUILD, "--quiet", path], cwd=lint.ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)
    return [line.replace(lint.ROOT + "/", "") for line in done.stdout.decode().splitlines()
            if re.search(r": (warning|error): ", line)]


with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    found = [line for lines in pool.map(check, sorted(set(sources))) for line in lines]
lint.finish(sorted(set(found)))
