"""No module of the Python package needs, by way of others, itself: not for its types either."""

import ast
import os

import lint

FOLDER = "python/muster/"


def imported(path: str) -> set[str]:
    """Modules of the package that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(lint.read(path))):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
    return found


needs = {os.path.basename(path)[:-3]: imported(path) for path in lint.files(".py")
         if path.startswith(FOLDER) and not path.endswith("__init__.py")}
problems = []
# Modules that need only modules that are done are done.
done: set[str] = set()
while True:
    ready = {name for name, others in needs.items() if name not in done and not (others & set(needs)) - done}
    if not ready:
        break
    done |= ready
left = set(needs) - done
for name in sorted(left):
    problems.append(f"{FOLDER}{name}.py: in a circle, or needs one: {', '.join(sorted(needs[name] & left))}")
lint.finish(problems)
