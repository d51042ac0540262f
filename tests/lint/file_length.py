"""No source file is longer than 500 lines: past that it is two ideas."""

import lint

LIMIT = 500

problems = []
for path in lint.files(".cc", ".h", ".py", ".proto"):
    length = lint.read(path).count("\n")
    if length > LIMIT:
        problems.append(f"{path}: {length} lines, at most {LIMIT}")
lint.finish(problems)
