"""Where ranks of several hosts meet: what they cannot reach is found before anything starts."""

import os
import time

from hosts import Host
from muster import ClusterTest

# Rank 0 binds the port as the strictest program would, without SO_REUSEADDR; the others connect to it once.
MEETING = """#!/bin/sh
exec /usr/bin/python3 -S - <<'END'
import os, socket, time
print("meets at", os.environ["MASTER_ADDR"], flush=True)
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    listener = socket.socket()
    listener.bind(("0.0.0.0", place[1]))
    listener.listen()
    for _ in range(int(os.environ["WORLD_SIZE"]) - 1):
        listener.accept()[0].sendall(b"hello")
else:
    for _ in range(600):
        try:
            assert socket.create_connection(place, 1).recv(5) == b"hello"
            break
        except OSError:
            time.sleep(0.05)  # paces: looks again
    else:
        raise SystemExit("nobody met")
END
"""
# A rank that leaves a mark; none may be left.
STARTED = "#!/bin/sh\necho $RANK >> starts\n"


class Rendezvous(ClusterTest):
    def second_address(self, host: Host) -> str:
        address = f"10.78.0.{host.number}"
        host.run(["ip", "addr", "add", f"{address}/24", "dev", "eth0"])
        return address

    def refused(self, cluster, **keys: str) -> str:
        """What the command says of a job that must not start."""
        began = time.monotonic()
        job = cluster.submit(script=STARTED, **keys)
        self.assertEqual(job.command.wait(), 120, job.command.text)
        self.assertLess(time.monotonic() - began, 20, "refused at once, not after the ranks' own time")
        self.assertFalse(os.path.exists("/mnt/home/root/starts"), "no rank was started")
        return job.command.text

    def test_an_address_that_one_host_cannot_reach_gives_way_to_one_that_all_reach(self) -> None:
        cluster = self.cluster(3)
        first, second, third = cluster.nodes
        reachable = [self.second_address(node) for node in cluster.nodes][0]
        cluster.start()
        third.cut("out", first)
        job = cluster.submit(script=MEETING)
        self.assertEqual(job.command.wait(), 0, job.command.text)
        self.assertEqual(job.command.text.count(f"meets at {reachable}\n"), 3, job.command.text)
        self.assertIn(f"MASTER_ADDR is {reachable} because not every node reaches {first.address}:29500: {third.name}: "
                      "no answer within 2 s", job.command.text)

    def test_a_firewall_before_the_master_port_is_named_and_nothing_starts(self) -> None:
        cluster = self.cluster(3).start()
        first, second, third = cluster.nodes
        first._table()
        for host, verdict in ((second, ["drop"]), (third, ["reject", "with", "tcp", "reset"])):
            first.run(["nft", "add", "rule", "inet", "fault", "in", "ip", "saddr", host.address, "tcp", "dport", "29500-29999", *verdict])
        text = self.refused(cluster)
        self.assertIn(f"no address of {first.name} is reached by all other nodes", text)
        self.assertIn(f"{second.name}: {first.address}:29500 no answer within 2 s", text)
        self.assertIn(f"{third.name}: {first.address}:29500 connection refused", text)
        self.assertIn("firewalls and security groups for TCP port 29500", text)
        first.heal()
        job = cluster.submit(script=MEETING)
        self.assertEqual(job.command.wait(), 0, job.command.text)

    def test_a_busy_master_port_and_an_address_of_another_host_are_named(self) -> None:
        cluster = self.cluster(2).start()
        first, second = cluster.nodes
        listener = first.start(["/usr/bin/python3", "-S", "-c", "import signal, socket; s = socket.socket(); s.bind(('127.0.0.1', 29555)); "
                                "s.listen(); print('listens', flush=True); signal.pause()"])
        listener.says("listens")
        text = self.refused(cluster, master_port="29555")
        self.assertIn(f"[{first.name}] port: port 29555 is in use by another program", text)
        listener.signal(9)
        listener.wait()
        text = self.refused(cluster, master_addr=second.address)
        self.assertIn(f"[{first.name}] master-addr: the master address {second.address} is none of this node, which has {first.address}", text)
        job = cluster.submit(script=MEETING, master_port="29555", master_addr=first.name)
        self.assertEqual(job.command.wait(), 0, job.command.text)
        self.assertIn(f"meets at {first.name}\n", job.command.text)
