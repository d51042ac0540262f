"""The client over mutual TLS, as a user who has joined and as the coordinator's own user."""

import json
import os
import unittest
from concurrent import futures

import sandbox

import grpc
import muster
import muster.credentials
from muster import MemberKind
from muster.v1 import node_pb2, node_pb2_grpc


class Network(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.box = box = sandbox.Sandbox()
        cls.addClassCleanup(box.close)
        box.run("coordinator", "init", "--state-dir", "state", "--host", "127.0.0.1")
        cls.socket = f"unix:{box.path('c.sock')}"
        cls.coordinator = box.start(os.path.join(sandbox.BIN, "coordinator"), "serve", "--state-dir", "state", "--socket", "c.sock",
                                    "--listen", "127.0.0.1:0", log="coordinator.log")
        sandbox.wait_until("the coordinator serves", lambda: "coordinator serves" in box.read("coordinator.log"))
        cls.admin = muster.Client(cls.socket)
        cls.addClassCleanup(cls.admin.close)

    def join(self, name):
        """Becomes that user, with the commands."""
        token = self.admin.add_user(name, life=600)
        self.assertEqual((token.info.kind, token.info.name, token.info.uses_left), (MemberKind.USER, name, 1))
        self.assertNotIn(token.token, repr(token))
        self.box.run("coordinator", "join", token.addresses[0], token.token)
        return token.addresses[0]

    def test_users_run_their_jobs_and_may_not_do_what_admins_do(self):
        with self.box.entered():
            address = self.join("ann")
            self.assertEqual(muster.find_server(), muster.ServerAddress(address, self.box.path("home/config/muster/trust")))
            with muster.Client() as client:
                job = client.submit(hosts=["nowhere"], command="true", start_timeout=600)
                self.assertIs(client.get(job).state, muster.JobState.PENDING)
                self.assertEqual([one.job_id for one in client.list()], [job.job_id])
                client.cancel(job)
                self.assertIs(client.wait(job, timeout=60).state, muster.JobState.CANCELLED)
                self.assertEqual(list(client.nodes()), [])
                with self.assertRaises(muster.PermissionDenied):
                    client.members()
                self.assertIn("ann", [user.name for user in self.admin.users() if not user.revoked])
                self.assertGreaterEqual(self.admin.remove_user("ann", free_name=True).certificates, 1)
                with self.assertRaises(muster.MusterError):
                    client.get(job)

    def test_a_renewed_certificate_is_used_from_then_on(self):
        """Also while a stream goes on over the connection of before, and when the coordinator comes back."""
        with self.box.entered():
            address = self.join("bob")
            trust = self.box.path("home/config/muster/trust")
            with muster.Client(address) as client:
                job = client.submit(hosts=["nowhere"], command="true", start_timeout=600)
                changes = client.watch(job)
                self.assertIs(next(changes).job.state, muster.JobState.PENDING)
                before = os.readlink(f"{trust}/current")
                os.rename(f"{trust}/{before}", f"{trust}/gen-99")
                os.symlink("gen-99", f"{trust}/new")
                os.replace(f"{trust}/new", f"{trust}/current")
                client.nodes()
                self.assertEqual(client._connection.channels._generation, "gen-99")
                port = address.rsplit(":", 1)[1]
                self.coordinator.kill()
                self.coordinator.wait()
                type(self).coordinator = self.box.start(
                    os.path.join(sandbox.BIN, "coordinator"), "serve", "--state-dir", "state", "--socket", "c.sock", "--listen",
                    f"127.0.0.1:{port}", log="coordinator.log")
                self.assertEqual(client.submit(hosts=["nowhere"], command="true").name, "true")
                client.cancel(job)
                self.assertIs(list(changes)[-1].job.state, muster.JobState.CANCELLED)

    def test_a_certificate_is_looked_after(self):
        with self.box.entered():
            address = self.join("fay")
            looked = self.box.path("home/config/muster/trust/renewal")
            if os.path.exists(looked):
                os.remove(looked)
            muster.Client(address).close()
            sandbox.wait_until("the program looks after the certificate", lambda: os.path.exists(looked))

    def test_a_coordinator_by_a_name_that_its_certificate_does_not_have_is_refused(self):
        with self.box.entered():
            port = self.join("dan").rsplit(":", 1)[1]
            with muster.Client(f"localhost:{port}") as client, self.assertRaisesRegex(muster.Unavailable, "init --host"):
                client.nodes()

    def test_a_node_that_plays_the_coordinator_is_refused(self):
        with self.box.entered():
            self.join("gil")
            token = self.admin.create_token(name="evil")
            self.box.run("agent", "join", token.addresses[0], token.token, "--node-id", "evil", "--state-dir", "evil")
            own = [self.box.read(f"evil/trust/current/{name}.pem").encode() for name in ("key", "cert", "ca")]
            server = grpc.server(futures.ThreadPoolExecutor(1))
            self.addCleanup(lambda: server.stop(None).wait())
            port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(own[0], own[1])], own[2], True))
            server.start()
            with muster.Client(f"127.0.0.1:{port}") as client, self.assertRaises(muster.Unavailable):
                client.nodes()
            # Also by the name that its certificate has.
            user = muster.credentials.load(muster.credentials.user_trust_directory())
            channel = grpc.secure_channel(
                f"127.0.0.1:{port}", grpc.ssl_channel_credentials(user.authorities, user.key, user.certificate),
                [("grpc.ssl_target_name_override", "evil.agent")])
            with channel, self.assertRaises(grpc.RpcError) as caught:
                node_pb2_grpc.NodeServiceStub(channel).ListNodes(node_pb2.ListNodesRequest(), timeout=20)
            self.assertIs(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)

    def test_a_key_that_others_may_read_is_refused(self):
        with self.box.entered():
            address = self.join("eve")
            key = self.box.path("home/config/muster/trust/current/key.pem")
            os.chmod(key, 0o644)
            with self.assertRaisesRegex(muster.FailedPrecondition, "others may read this key, its mode is 644"):
                muster.Client(address)
            os.chmod(key, 0o600)

    def test_tokens_and_members_are_managed(self):
        token = self.admin.create_token(name="node-1", uses=1, network="10.0.0.0/8", life=3600)
        listed = {one.token_id: one for one in self.admin.tokens()}[token.info.token_id]
        self.assertEqual((listed.kind, listed.network), (MemberKind.AGENT, "10.0.0.0/8"))
        self.assertEqual(round((listed.expire_time - listed.create_time).total_seconds()), 3600)
        self.admin.delete_token(listed)
        self.assertNotIn(listed.token_id, [one.token_id for one in self.admin.tokens()])
        with self.assertRaises(muster.NotFound):
            self.admin.delete_token(listed)
        with self.assertRaises(muster.NotFound):
            self.admin.revoke(MemberKind.AGENT, "nobody")
        with self.assertRaises(muster.InvalidArgument):
            self.admin.create_token(uses=1_000_000)

    def test_the_authority_is_shown(self):
        authority = self.admin.authority()
        self.assertIs(authority.phase, muster.AuthorityPhase.STEADY)
        self.assertEqual([one.signs for one in authority.certificates], [True])
        with self.box.entered():
            shown = json.loads(self.box.run("coordinator", "ca", "show", "-o", "json", "--server", self.socket))
        self.assertIn(authority.certificates[0].key_sha256, json.dumps(shown))
        self.assertEqual(authority.certificate_life.days, 14)


if __name__ == "__main__":
    unittest.main()
