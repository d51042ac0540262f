"""Lists of hosts as Slurm writes them: `coordinator --hosts-from slurm` reads them as `scontrol show hostnames` does."""

import json
import random

from allocation import AllocationTest
from hosts import ALICE, Host

# Of three and more brackets in a name, which Slurm reads in an order of its own, it writes none.
DIFFICULT = ["n[01-03,07]", "gpu[01-02,10],login", "n[9-11]", "n[09-11]", "n[098-101]", "n[001-3]", "n[0001-2,03]", "n[0-1][0-1]",
             "a[1-2]-ib[7-8]", "rack[1-2]node[01-03,10],head", "n[1-2],n[5-6],m", "n[1,3,5-7,10]", "n-[1-2],m[5]", "n_[1-2]", "N[1-2],n[1-2]",
             "[1-3]", "n0", "n00,n0", "10.0.0.[1-3]", "a.b,c.d[1-2]", "n12345678901", "gpu-[20240115001-20240115003]"]
# Where the digits of the names stand.
SHAPES = ["n{0}", "n{0:02}", "n{0:03}", "n{0:04}-ib", "rack{1}-node{0}", "r{1:02}n{0:03}", "x{0}y{1}z{2}", "gpu-{0:02}.{1}", "{0}", "c{0:011}", "login"]


class HostLists(AllocationTest):
    def expanded_by_slurm(self, head: Host, lists: list[str]) -> list[list[str]]:
        text = head.run(["sh", "-c", 'for one; do echo "= $one"; scontrol show hostnames "$one"; done', "sh", *lists])
        return [part.splitlines()[1:] for part in ("\n" + text).split("\n= ")[1:]]

    def compressed_by_slurm(self, head: Host, names: list[list[str]]) -> list[str]:
        return head.run(["sh", "-c", 'for one; do scontrol show hostlist "$one"; done', "sh", *map(",".join, names)]).splitlines()

    def expanded_by_muster(self, head: Host, lists: list[str]) -> list[list[str]]:
        run = "for one; do SLURM_JOB_NODELIST=\"$one\" coordinator spawn --local --hosts-from slurm --dry_run --no_python true; done"
        text, plans, at = head.run(["sh", "-c", run, "sh", *lists], user=ALICE), [], 0
        while at < len(text.rstrip()):
            plan, at = json.JSONDecoder().raw_decode(text, text.index("{", at))
            plans.append([node["host"] for node in plan["nodes"]])
        return plans

    def assert_equal_lists(self, head: Host, lists: list[str]) -> None:
        for text, theirs, ours in zip(lists, self.expanded_by_slurm(head, lists), self.expanded_by_muster(head, lists), strict=True):
            self.assertEqual((text, ours), (text, theirs))

    def test_are_read_as_scontrol_reads_them(self) -> None:
        self.assert_equal_lists(self.slurm([1]).cluster.head, DIFFICULT)

    def test_that_scontrol_writes_of_random_names_are_read_as_it_reads_them(self) -> None:
        seed = random.randrange(1 << 32)
        print(f"seed {seed}", flush=True)
        chance = random.Random(seed)
        names = []
        for _ in range(100):
            found = {chance.choice(shapes).format(chance.randrange(120), chance.randrange(12), chance.randrange(3))
                     for shapes in [chance.sample(SHAPES, 2)] for _ in range(chance.randrange(1, 40))}
            names.append(sorted(found, key=lambda _: chance.random()) if chance.random() < 0.5 else sorted(found))
        head = self.slurm([1]).cluster.head
        lists = self.compressed_by_slurm(head, names)
        self.assertEqual([sorted(hosts) for hosts in self.expanded_by_slurm(head, lists)], [sorted(hosts) for hosts in names])
        self.assert_equal_lists(head, lists)
