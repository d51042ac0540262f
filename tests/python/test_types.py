"""The package is typed: mypy --strict has nothing to say about it, and finds the mistakes of those who use it."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

import sandbox

STUBS = os.path.join(sandbox.ROOT, "tests", "python", "stubs")
# A user's program, and what type checkers say of its lines.
USER = """
import muster

with muster.Client() as client:
    job = client.submit(hosts=["a", muster.Host("b", slots=2)], command=["/bin/true", "x"], grace=30)
    for line in job.logs(follow=True, ranks=[0], grep="x"):
        reveal_type(line.text)  # "builtins.bytes"
    for change in client.watch(job):
        reveal_type(change.ranks)  # "builtins.tuple[muster.job_parts.JobRank, ...]"
    reveal_type(job.wait(timeout=3).exit_code)  # "Union[builtins.int, None]"
    reveal_type(client.log_pieces(job).positions)  # "builtins.list[muster.log_pieces.LogPosition]"
    client.submit(hosts=["a"], scrip="x.py")  # Unexpected keyword argument "scrip"
    client.submit(hosts="a", script=5)  # Argument "script" to "submit" of "Client" has incompatible type "int"
    job.logs(grepp="x")  # Unexpected keyword argument "grepp"
    client.revoke("agent", "a")  # has incompatible type "str"; expected "MemberKind"
    job.exit_code + 1  # Unsupported operand types
"""


def mypy(*arguments, **environment):
    """Status and output, of a run that keeps what it learnt for the next one."""
    cache = os.path.join(sandbox.BUILD, "mypy_cache")
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", os.path.join(STUBS, "mypy.ini"), "--cache-dir", cache, *arguments],
                          env={**os.environ, "MYPYPATH": f"{STUBS}:{sandbox.PACKAGE}", **environment}, cwd=sandbox.PACKAGE,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout.decode()


class Types(unittest.TestCase):
    def test_hold_in_the_whole_package(self):
        """Also for the oldest interpreter that it says it is for."""
        for version in ("3.9", "3.11"):
            status, said = mypy("--python-version", version, "-p", "muster")
            self.assertEqual(status, 0, said)

    def test_are_seen_by_those_who_use_it(self):
        with tempfile.TemporaryDirectory() as folder:
            user = os.path.join(folder, "user.py")
            with open(user, "w", encoding="utf-8") as stream:
                stream.write(textwrap.dedent(USER))
            _, said = mypy("--hide-error-context", user)
        found = {}
        for line in said.splitlines():
            if line.startswith(f"{user}:") and (": error: " in line or "Revealed" in line):
                number, _, message = line[len(user) + 1:].partition(":")
                found[int(number)] = message
        expected = {number: line.split("  # ")[1] for number, line in enumerate(USER.splitlines(), 1) if "  # " in line}
        self.assertEqual(set(found), set(expected), said)
        for number, message in expected.items():
            self.assertIn(message, found[number])


if __name__ == "__main__":
    unittest.main()
