"""Nothing is left half done, and tests wait for events instead of sleeping."""

import os
import re

import lint

LEFTOVER = re.compile(r"\b(XXX|FIXME|HACK|TODO)\b|not implemented|stub only", re.IGNORECASE)
SLEEP = {".cc": re.compile(r"sleep_for|SleepFor|usleep\(|nanosleep\("), ".h": re.compile(r"sleep_for|SleepFor"),
         ".py": re.compile(r"time\.sleep\(")}
# Programs that play a rank may sleep, and benchmarks; everything else waits for events. A line that must pause says
# why with `paces:` in a comment on it or right above.
MAY_SLEEP = ("tests/process/rank_probe/", "examples/", "bench/", "tests/lint/")

problems = []
for path in lint.files(".cc", ".h", ".py", ".proto", ".sh"):
    lines = lint.read(path).splitlines()
    sleep = SLEEP.get(os.path.splitext(path)[1])
    for number, line in enumerate(lines, 1):
        if LEFTOVER.search(line) and not path.startswith("tests/lint/"):
            problems.append(f"{path}:{number}: left over: {line.strip()}")
        excused = "paces:" in line or "paces:" in lines[number - 2]
        if sleep and sleep.search(line) and not path.startswith(MAY_SLEEP) and not excused:
            problems.append(f"{path}:{number}: sleeps: {line.strip()}")
lint.finish(problems)
