"""clang-tidy over all sources that the release build compiles, with the checks of .clang-tidy."""

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import lint

BUILD = os.path.join(lint.ROOT, "build", "release")
wanted = set(sys.argv[1:])


def read_commands(scratch: str) -> list[dict]:
    """Returns the compile commands, with copies of the precompiled headers: clang takes gcc's result, which lies
    beside the header, for its own and gives up."""
    copies: dict[str, str] = {}
    commands = []
    with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as stream:
        for entry in json.load(stream):
            path = os.path.relpath(entry["file"], lint.ROOT)
            if path.startswith(("build/", "..", "cmake/")):
                continue
            if wanted and not any(path.startswith(prefix) for prefix in wanted):
                continue
            for header in re.findall(r"-include (\S+)", entry["command"]):
                if header not in copies:
                    copies[header] = os.path.join(scratch, f"precompiled_{len(copies)}.h")
                    shutil.copyfile(header, copies[header])
                entry["command"] = entry["command"].replace(header, copies[header])
            commands.append(entry)
    with open(os.path.join(scratch, "compile_commands.json"), "w", encoding="utf-8") as stream:
        json.dump(commands, stream)
    return commands


def check(scratch: str, path: str) -> list[str]:
    done = subprocess.run(["clang-tidy-14", "-p", scratch, "--quiet", path], cwd=lint.ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    lines = [line.replace(lint.ROOT + "/", "") for line in done.stdout.decode().splitlines()]
    found = [line for line in lines if re.search(r": (warning|error): ", line)]
    if done.returncode != 0 and not found:
        found = [f"{path}: error: clang-tidy ended with {done.returncode}: {' '.join(lines)[:500]}"]
    return [line for line in found if not line.startswith("/usr/")]


with tempfile.TemporaryDirectory() as scratch:
    sources = sorted({os.path.relpath(entry["file"], lint.ROOT) for entry in read_commands(scratch)})
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [line for lines in pool.map(lambda path: check(scratch, path), sources) for line in lines]
lint.finish(sorted(set(found)))
