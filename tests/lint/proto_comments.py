"""Every service, rpc, message, enum, value and field of the protocols has a comment right above it."""

import re

import lint

ELEMENT = re.compile(
    r"^\s*(?:(?:message|enum|service)\s+\w+|rpc\s+\w+"
    r"|(?:repeated\s+|optional\s+)?[\w.]+(?:<[^>]*>)?\s+\w+\s*=\s*\d+|\w+\s*=\s*\d+)")
NOT_ELEMENT = re.compile(r"^\s*(?:syntax|package|import|option|reserved)\b")

problems = []
for path in lint.files(".proto"):
    lines = lint.read(path).splitlines()
    for index, line in enumerate(lines):
        if NOT_ELEMENT.match(line) or not ELEMENT.match(line):
            continue
        above = lines[index - 1].strip() if index else ""
        if not above.startswith("//"):
            problems.append(f"{path}:{index + 1}: no comment above `{line.strip()}`")
lint.finish(problems)
