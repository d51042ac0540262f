"""Every requirement of docs/requirements.md has tests, and they exist."""

import re

import lint

PAGE = "docs/requirements.md"
COUNT = 31
# Rows whose tests are being written: the row says *pending* then. Emptied by whoever adds the tests and names them there.
PENDING = {"R15", "R28", "R29"}

tests = lint.tests()
problems = []
seen = []
for number, line in enumerate(lint.read(PAGE).splitlines(), 1):
    row = re.match(r"\| (R\d+) \|", line)
    if not row:
        continue
    name = row[1]
    seen.append(name)
    where = f"{PAGE}:{number}: {name}"
    named = lint.named_tests(line)
    problems += [f"{where}: there is no test {test}" for test in named if not lint.has_test(tests, test)]
    waits = "*pending*" in line
    if not named and not waits:
        problems.append(f"{where} has no test")
    if waits and name not in PENDING:
        problems.append(f"{where} is pending: name its tests here, and take the word away")
    if not waits and name in PENDING:
        problems.append(f"{where} is not pending any more: take it out of PENDING in tests/lint/requirements.py")
expected = [f"R{i}" for i in range(1, COUNT + 1)]
if seen != expected:
    problems.append(f"{PAGE}: rows are {' '.join(seen)}, expected R1 to R{COUNT}, each once and in order")
lint.finish(problems)
