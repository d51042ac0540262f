"""Every test that docs/faults.md names exists."""

import re

import lint

tests = set()
for path in lint.files(".cc"):
    if path.startswith("tests/"):
        for suite, name in re.findall(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)", lint.read(path), re.MULTILINE):
            tests.add(f"{suite}.{name}")
for path in lint.files(".py"):
    if path.startswith("tests/"):
        suite = ""
        for kind, name in re.findall(r"^(class |    def test_)(\w+)", lint.read(path), re.MULTILINE):
            suite = name if kind == "class " else suite
            tests.add(f"{suite}.test_{name}")
suites = {test.split(".")[0] for test in tests}

problems = []
for number, line in enumerate(lint.read("docs/faults.md").splitlines(), 1):
    if not line.startswith("| F"):
        continue
    for name in re.findall(r"`([A-Z]\w+\.(?:\w+|\*))`", line):
        suite, test = name.split(".")
        if (suite not in suites) if test == "*" else (name not in tests):
            problems.append(f"docs/faults.md:{number}: there is no test {name}")
lint.finish(problems)
