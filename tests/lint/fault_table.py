"""Every test that docs/faults.md names exists."""

import lint

tests = lint.tests()
problems = []
for number, line in enumerate(lint.read("docs/faults.md").splitlines(), 1):
    if not line.startswith("| F"):
        continue
    problems += [f"docs/faults.md:{number}: there is no test {test}" for test in lint.named_tests(line) if not lint.has_test(tests, test)]
lint.finish(problems)
