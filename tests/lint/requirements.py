"""Every requirement of docs/requirements.md has tests, and they exist."""

import re

import lint

PAGE = "docs/requirements.md"
COUNT = 31

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
    if not named:
        problems.append(f"{where} has no test")
expected = [f"R{i}" for i in range(1, COUNT + 1)]
if seen != expected:
    problems.append(f"{PAGE}: rows are {' '.join(seen)}, expected R1 to R{COUNT}, each once and in order")
lint.finish(problems)
