"""The examples of docs/python.md and of the package's README run as they are written."""

import os
import re
import sys
import unittest

import sandbox

TRAIN = "import os, sys; print('trained by', os.environ['RANK'], *sys.argv[1:])"
# What is seen of the examples that say something: expressions, by a line that tells which one it is.
SAID = {
    "first_failure": r"(?s)\A(?=.*^4 stdout trained by 4 --lr 1e-3$).*^JobState\.SUCCEEDED 0 None$",
    "error.problems": r"(?m)\A.*node-1.*\n.*run",
    "asyncio.run": r"\A([0-3] hello\n){4}SUCCEEDED\n\Z",
    "run_clm.py": r"(?m)^DistributedRunner runs: ",
}


def examples(path):
    with open(os.path.join(sandbox.ROOT, path), encoding="utf-8") as stream:
        return re.findall(r"(?ms)^```python\n(.*?)^```$", stream.read())


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = sandbox.Cluster(slots=4)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.write("train.py", TRAIN)
        cls.cluster.write("run_clm.py", TRAIN)
        cls.cluster.write("hostfile", "node-1 slots=2\nnode-2 slots=2\n")

    def said_by(self, code):
        self.cluster.write("example.py", code.replace("/home/ann/run", self.cluster.folder))
        return self.cluster.run(sys.executable, "example.py")

    def test_of_the_document_run(self):
        found = examples("docs/python.md")
        self.assertGreaterEqual(len(found), 5)
        seen = set()
        for code in found:
            said = self.said_by(code)
            for mark, expected in SAID.items():
                if mark in code:
                    self.assertRegex(said, re.compile(expected, re.MULTILINE), code)
                    seen.add(mark)
        self.assertEqual(seen, set(SAID))

    def test_of_the_package_run(self):
        found = examples("python/README.md")
        self.assertEqual(len(found), 1)
        self.assertRegex(self.said_by(found[0]), r"(?s)trained by 7.*\n0\n\Z")

    def test_of_tasks_that_are_cancelled_leave_no_thread(self):
        """As in the document, but for a job that goes on."""
        code = next(one for one in examples("docs/python.md") if "asyncio.run" in one).replace(
            '["/bin/echo", "hello"]', '["/bin/sh", "-c", "echo hello; while :; do sleep 0.05; done"]').replace(
            "        ended = await asyncio.to_thread(job.wait)\n        await reader\n        print(ended.state.name)\n",
            "        await begun.wait()\n        reader.cancel()\n        print(*map(type, await asyncio.gather(reader, return_exceptions=True)))\n"
            "        job.cancel(grace=0)\n").replace(
            "            print(line.rank", "            begun.set()\n            print(line.rank").replace(
            "async def follow", "begun = asyncio.Event()\n\n\nasync def follow").replace(
            'hosts=["node-1"]', 'hosts=[muster.Host("node-1", slots=1)]')
        self.assertEqual(self.said_by(code), "0 hello\n<class 'asyncio.exceptions.CancelledError'>\n")


if __name__ == "__main__":
    unittest.main()
