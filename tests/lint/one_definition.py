"""No two files define the same name in the same namespace: all components are linked into one program somewhere, and
two classes of one name are taken for one without a word from the linker."""

import collections
import re

import lint

TYPE = re.compile(r"^(?:class|struct|enum class)\s+(?:ABSL_\w+\s+)?(\w+)(?:\s+final)?\s*(?::[^:;{]*)?\{", re.MULTILINE)
INLINE = re.compile(r"^(?:inline|constexpr)\s+[\w:<>,*& ]*?\b(\w+)\(([^)]*)\)", re.MULTILINE)

found = collections.defaultdict(set)
for path in lint.files(".h", ".cc"):
    kept, anonymous = [], False
    text = lint.read(path)
    for line in text.splitlines():
        if line == "namespace {":
            anonymous = True
        elif line == "}  // namespace":
            anonymous = False
        elif not anonymous:
            kept.append(line)
    code = "\n".join(kept)
    spaces = re.findall(r"^namespace ([\w:]+) \{", text, re.MULTILINE)
    space = spaces[-1] if spaces else ""
    # The sanitizers and fat test binaries of one tier never link another tier's tests.
    tier = "/".join(path.split("/")[:2]) if path.startswith("tests/") else ""
    for match in TYPE.finditer(code):
        found[(tier, space, match.group(1))].add(path)
    for match in INLINE.finditer(code):
        found[(tier, space, f"{match.group(1)}({' '.join(match.group(2).split())})")].add(path)
lint.finish([f"{sorted(paths)[0]}: {space}::{name} is also defined in {', '.join(sorted(paths)[1:])}"
             for (_, space, name), paths in sorted(found.items()) if len(paths) > 1])
