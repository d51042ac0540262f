"""The hosts themselves: what the other tests take for granted about them."""

import os
import subprocess
import unittest

from hosts import Network, until


class Hosts(unittest.TestCase):
    def setUp(self) -> None:
        self.network = Network("one", "two")
        self.addCleanup(self.network.close)

    def passes(self, source: str, target: str, expected: bool) -> None:
        probe = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 7)); print(s.recv(9))"
        heard = self.network[target].start(["python3", "-c", probe])
        until(lambda: "00000000:0007" in self.network[target].run(["cat", "/proc/net/udp"]), 10, "the port")
        send = f"import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('{target}', 7))"
        self.network[source].run(["python3", "-c", send], expect=None)
        try:
            until(lambda: not heard.running(), 10 if expected else 0.5)
        except AssertionError:
            heard.signal(9)
        self.assertEqual((source, target, heard.wait() == 0), (source, target, expected))

    def test_are_machines_of_their_own(self) -> None:
        one, two = self.network["one"], self.network["two"]
        self.assertEqual(one.run(["hostname"]), "one\n")
        for file in ("/proc/sys/kernel/random/boot_id", "/etc/machine-id", "/etc/hostname"):
            self.assertNotEqual(one.run(["cat", file]), two.run(["cat", file]))
        one.run(["sh", "-c", "echo kept > /var/lib/kept; echo gone > /run/gone"])
        two.run(["test", "!", "-e", "/var/lib/kept"])
        boot = one.run(["cat", "/proc/sys/kernel/random/boot_id"])
        sleeper = one.start(["sleep", "1000"])
        until(lambda: one.processes("sleep") == [sleeper.pid], 10, "one process, by the id that the suite knows")
        self.assertEqual(two.processes("sleep"), [])
        one.reboot()
        self.assertEqual(one.processes("sleep"), [])
        self.assertNotEqual(one.run(["cat", "/proc/sys/kernel/random/boot_id"]), boot)
        self.assertEqual(one.run(["cat", "/var/lib/kept"]), "kept\n")
        one.run(["test", "!", "-e", "/run/gone"])

    def test_can_be_cut_off_in_one_direction_and_in_both(self) -> None:
        one = self.network["one"]
        for direction, there, back in (("none", True, True), ("out", False, True), ("in", True, False), ("both", False, False)):
            one.cut(direction)
            self.passes("one", "two", there)
            self.passes("two", "one", back)
            one.heal()
        self.passes("one", "two", True)

    def test_end_with_the_suite_when_it_is_killed(self) -> None:
        ready, say = os.pipe()
        here = os.path.dirname(os.path.abspath(__file__))
        code = (f"import sys; sys.path.insert(0, {here!r}); import run\n"
                f"run.outside([['sh', '-c', 'echo up >&{say}; exec sleep 86399']], pass_fds=[{say}])")
        suite = subprocess.Popen(["/usr/bin/python3", "-B", "-c", code], pass_fds=[say], stdin=subprocess.DEVNULL)
        os.close(say)
        self.assertEqual(os.read(ready, 3), b"up\n")
        suite.kill()
        suite.wait()
        self.assertEqual(os.read(ready, 1), b"", "the last process that holds the pipe has ended")
        os.close(ready)
