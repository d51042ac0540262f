"""Checks of nodes without a job."""

import json
import signal

from muster import ClusterTest


class Preflight(ClusterTest):
    def test_of_sixteen_hosts_is_one_line_for_those_that_are_alike(self) -> None:
        cluster = self.cluster(16).start()
        # What this machine may lack, or has for all of its hosts, is not what is tested.
        skip = "same-machine,memlock,open-files,shared-memory,disk,clock"
        text = cluster.head.run(["coordinator", "check", "--all", "--skip", skip])
        self.assertEqual(text.splitlines(), ["[node-1-16] ok"])

    def test_names_the_node_that_is_gone_and_the_one_that_is_different(self) -> None:
        cluster = self.cluster(4).start()
        cluster.write("hosts", "".join(f"{node.name} slots=1\n" for node in cluster.nodes))
        cluster.write("job.yaml", "hostfile: hosts\ncommand: [sh, -c, 'true']\nenv: {HCCL_SOCKET_IFNAME: eth}\n"
                                  "node_env: {node-2: {HCCL_SOCKET_IFNAME: ens32}}\n")
        cluster.agents["node-3"].signal(signal.SIGKILL)
        cluster.await_states(alive=3)
        answer = json.loads(cluster.head.run(["coordinator", "check", "job.yaml", "-o", "json"], expect=120, cwd="/home/root"))
        self.assertFalse(answer["ok"])
        nodes = {node["host"]: node for node in answer["nodes"]}
        self.assertTrue(nodes["node-3"]["error"])
        failed = {host: [result for result in node["results"] if result["verdict"] == "fail"] for host, node in nodes.items()}
        self.assertEqual([result["check"] for result in failed["node-2"]], ["hccl-interface"])
        self.assertIn("ens32", failed["node-2"][0]["message"])
        self.assertEqual(failed["node-1"], [])

    def test_of_the_network_measures_both_ways_between_all_pairs(self) -> None:
        cluster = self.cluster(4).start()
        answer = json.loads(cluster.head.run(["coordinator", "check", "--all", "--network=3", "-o", "json"]))
        pairs = {(pair["from"], pair["to"]) for pair in answer["network"]}
        names = [node.name for node in cluster.nodes]
        self.assertEqual(pairs, {(a, b) for a in names for b in names if a != b})
        for pair in answer["network"]:
            self.assertGreater(pair["bytes_per_second"], 0, pair)
