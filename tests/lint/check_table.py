"""The names of checks in docs/reference.md are those of common/base/check_names.h, in its order."""

import re

import lint

names = re.findall(r'CheckName\{\s*"([a-z-]+)"', lint.read("common/base/check_names.h"))
text = lint.read("docs/reference.md")
table = text[text.index("| check | as it should be |"):].split("\n\n")[0]
documented = re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)
problems = [f"docs/reference.md: the check {name} is not in the table of checks" for name in names if name not in documented]
problems += [f"docs/reference.md: there is no check {name}" for name in documented if name not in names]
if not problems and names != documented:
    problems.append("docs/reference.md: the table of checks is in another order than common/base/check_names.h")
lint.finish(problems)
