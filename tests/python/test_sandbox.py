"""The sandbox of these tests: nothing of it stays, also when the test program is killed."""

import os
import signal
import subprocess
import sys
import unittest

import sandbox

PROGRAM = """
import signal
import sandbox
cluster = sandbox.Cluster()
cluster.write("hosts", "node-1 slots=1\\nnode-2 slots=1\\n")
cluster.start("coordinator", "spawn", "--hostfile", "hosts", "--no-python", "--", "sleep", "1000", log="spawn.log")
sandbox.wait_until("the rank runs", lambda: sandbox.marked(cluster.folder, b"sleep"))
print(cluster.folder, flush=True)
signal.pause()
"""


class Guard(unittest.TestCase):
    def test_ends_what_a_killed_test_program_leaves(self):
        program = subprocess.Popen([sys.executable, "-c", PROGRAM], env=dict(os.environ, PYTHONPATH=os.path.dirname(__file__)),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        with program:
            folder = program.stdout.readline().strip()
            program.send_signal(signal.SIGKILL)
        self.assertTrue(folder)
        sandbox.wait_until("no process is left", lambda: not sandbox.marked(folder))
        sandbox.wait_until("the folder is gone", lambda: not os.path.exists(folder))


if __name__ == "__main__":
    unittest.main()
