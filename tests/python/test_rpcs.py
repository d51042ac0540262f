"""Every call of every public service has a method of the client, which makes that call, with types."""

import ast
import importlib
import inspect
import os
import pkgutil
import re
import tempfile
import unittest
from concurrent import futures

import sandbox

import grpc
import muster
import muster.v1
from muster import _rpcs
from google.protobuf.duration_pb2 import Duration
from muster.v1 import check_pb2, job_pb2, job_spec_pb2, node_pb2, node_pb2_grpc, types_pb2

MODULES = [importlib.import_module(f"muster.v1.{one.name}") for one in pkgutil.iter_modules(muster.v1.__path__) if one.name.endswith("_pb2")]
SERVICES = {name: service for module in MODULES for name, service in module.DESCRIPTOR.services_by_name.items()}
LEFT_OUT = {
    "AgentService": "what agents speak",
    "MemberService": "renewing takes a key and a request for a certificate, which the coordinator program makes",
}
METHODS = {f"{name}.{method}": descriptor for name, service in SERVICES.items() if name not in LEFT_OUT
           for method, descriptor in service.methods_by_name.items()}
RPCS = {rpc.name: rpc for rpc in vars(_rpcs).values() if isinstance(rpc, _rpcs.Rpc)}
# Arguments for every method of the client; what is not here takes none.
SPEC = muster.JobSpec(hosts=["a"], command="true")
ARGUMENTS = {
    "submit": (SPEC,), "plan": (SPEC,), "job": ("j",), "get": ("j",), "cancel": ("j",), "signal": ("j", 10), "watch": ("j",), "wait": ("j",),
    "log_pieces": ("j",), "log_frames": ("j",), "logs": ("j",), "delete_token": ("t",), "revoke": (muster.MemberKind.AGENT, "a"),
    "add_user": ("a",), "remove_user": ("a",),
}


class Recorder(grpc.GenericRpcHandler):
    """Answers every call with an empty message, and remembers its name."""

    def __init__(self):
        self.called = []

    def service(self, details):
        self.called.append(details.method)
        if METHODS[details.method.removeprefix("/muster.v1.").replace("/", ".")].server_streaming:
            # A job that has ended, where a stream is to end with one.
            ended = job_pb2.WatchJobResponse(job=job_pb2.Job(job_id="j", state=job_pb2.Job.SUCCEEDED)).SerializeToString()
            answers = [ended] if details.method.endswith("WatchJob") else []
            return grpc.unary_stream_rpc_method_handler(lambda request, context: iter(answers))
        return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")


class Rpcs(unittest.TestCase):
    def test_every_service_of_the_protocol_is_known_here(self):
        folder = os.path.join(sandbox.ROOT, "proto/muster/v1")
        written = set()
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding="utf-8") as stream:
                written |= set(re.findall(r"(?m)^service (\w+)", stream.read()))
        self.assertEqual(written, set(SERVICES))

    def test_every_rpc_has_the_types_of_the_protocol(self):
        self.assertEqual(set(RPCS), set(METHODS))
        for name, method in METHODS.items():
            rpc = RPCS[name]
            self.assertEqual((rpc.request.DESCRIPTOR, rpc.response.DESCRIPTOR, rpc.streams),
                             (method.input_type, method.output_type, method.server_streaming), name)
            self.assertFalse(method.client_streaming, name)

    def test_every_public_method_is_typed_and_says_what_it_does(self):
        for kind in (muster.Client, muster.JobHandle, muster.Job, muster.Feed, muster.LogLines, muster.LogPieces):
            for name, method in inspect.getmembers(kind, inspect.isfunction):
                if not name.startswith("_"):
                    self.assertTrue(inspect.getdoc(method), name)
                    annotations = inspect.get_annotations(method)
                    self.assertIn("return", annotations, name)
                    self.assertLessEqual(set(inspect.signature(method).parameters) - {"self", "cls"}, set(annotations), name)
                    self.assertNotIn("Any", annotations.values(), name)

    def test_type_checkers_see_the_names_that_there_are(self):
        with open(f"{sandbox.PACKAGE}/muster/__init__.py", encoding="utf-8") as stream:
            tree = ast.parse(stream.read())
        block = next(one for one in tree.body if isinstance(one, ast.If))
        seen = {alias.asname for one in block.body for alias in one.names}
        self.assertEqual(seen | {"__version__"}, set(muster.__all__))

    def test_every_public_name_says_what_it_is(self):
        for name in muster.__all__:
            value = getattr(muster, name)
            if not callable(value):
                continue
            # Of data classes Python makes one up.
            self.assertFalse((value.__doc__ or f"{name}(").startswith(f"{name}("), name)
            for member, what in vars(value).items() if isinstance(value, type) else ():
                if not member.startswith("_") and (callable(what) or isinstance(what, (classmethod, property))):
                    self.assertTrue(inspect.getdoc(getattr(value, member)), f"{name}.{member}")

    def test_every_rpc_is_made_by_a_method(self):
        recorder = Recorder()
        made = {}
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[recorder])
            server.add_insecure_port(f"unix:{folder}/s")
            server.start()
            try:
                with muster.Client(f"unix:{folder}/s") as client:
                    for name, method in inspect.getmembers(client, inspect.ismethod):
                        if name.startswith("_") or name == "close":
                            continue
                        recorder.called.clear()
                        result = method(*ARGUMENTS.get(name, ()))
                        if hasattr(result, "__next__"):
                            list(result)
                        self.assertLessEqual(len(recorder.called), 1, name)
                        made.update((rpc, name) for rpc in recorder.called)
            finally:
                server.stop(None).wait()
        self.assertEqual({one.removeprefix("/muster.v1.").replace("/", ".") for one in made}, set(METHODS))

    def test_what_checks_find_is_typed_and_comes_as_it_is_found(self):
        """By a double: the messages that a coordinator may send, with one that this version does not know."""
        found = [
            node_pb2.CheckNodesResponse(node=node_pb2.CheckedNode(host="a", node_id="n-a", report=types_pb2.NodeReport(
                results=[types_pb2.CheckResult(check="memlock", verdict=types_pb2.FAIL, message="64 KiB", fix="raise it")],
                traits=[types_pb2.NodeTrait(name="driver", value="1.22")]))),
            node_pb2.CheckNodesResponse(node=node_pb2.CheckedNode(host="b", error="no agent")),
            node_pb2.CheckNodesResponse(),
            node_pb2.CheckNodesResponse(cluster=types_pb2.NodeReport(
                results=[types_pb2.CheckResult(check="clock", verdict=99)])),
            node_pb2.CheckNodesResponse(pair=node_pb2.CheckedPair(
                **{"from": "a"}, to="b", result=types_pb2.CheckResult(check="network", verdict=types_pb2.PASS),
                rate=check_pb2.NetworkRate(address="10.0.0.2", bytes=10, duration=Duration(seconds=1)))),
        ]
        asked = []

        class Double(node_pb2_grpc.NodeServiceServicer):
            def CheckNodes(self, request, context):
                asked.append(request)
                yield from found
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "too many others")

        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            server = grpc.server(futures.ThreadPoolExecutor(2))
            node_pb2_grpc.add_NodeServiceServicer_to_server(Double(), server)
            server.add_insecure_port(f"unix:{folder}/s")
            server.start()
            got = []
            with muster.Client(f"unix:{folder}/s") as client, self.assertRaisesRegex(muster.FailedPrecondition, "too many others"):
                for one in client.check_nodes(["a", muster.Host("b", slots=2)], spec=SPEC, limit=3, network_rounds=2,
                                              network_duration=0.5):
                    got.append(one)
            server.stop(None).wait()
        self.assertEqual([type(one) for one in got], [muster.CheckedNode, muster.CheckedNode, muster.ClusterCheck, muster.CheckedPair])
        self.assertEqual(got[0].report.failed, [muster.CheckResult("memlock", muster.Verdict.FAIL, "64 KiB", "raise it")])
        self.assertEqual((got[0].report.traits[0].value, got[1].error), ("1.22", "no agent"))
        self.assertIs(got[2].report.results[0].verdict, muster.Verdict.UNKNOWN)
        self.assertEqual((got[3].sender, got[3].receiver, got[3].rate.bytes, got[3].rate.duration.total_seconds()), ("a", "b", 10, 1))
        self.assertEqual(len(asked), 1)
        self.assertEqual(([(one.host, one.slot_count) for one in asked[0].hosts], asked[0].spec.program.target, asked[0].limit.seconds,
                          asked[0].network_test.rounds, asked[0].network_test.duration.nanos),
                         ([("a", 0), ("b", 2)], b"true", 3, 2, 500_000_000))

    def test_every_field_of_a_job_can_be_set(self):
        spec = muster.JobSpec(
            hosts=[muster.Host("a", slots=2, selected_slots=[0, 1], address="10.0.0.1", source="f:1")], module="m",
            args=["-x", b"\xff"], name="n", python="p", local_rank_argument=True, cwd="/w", user="u",
            env={"A": ["x", muster.Variable("A"), muster.HOME], "B": b"\xff"},
            node_overrides={"a": muster.NodeOverride({"C": "c"}, "/v", "q")}, devices="none", bind="cores", bind_core_list="0-1",
            master_addr="10.0.0.1", master_port=5, grace=1.5, start_timeout=2, time_limit=3, stop_after=4, max_attempts=2,
            restart_on=["node-lost"], spares=1, stall=muster.Stall(60, "fail"), log_policies=[muster.LogPolicy("a", "exclude-node")],
            skip_checks=["memlock"], require_checks=["shm"], container=muster.Container("i", "habana", ["-v"], "podman", True),
            log_quota_bytes=1 << 20, expected_world_size=2, device_wait=9).to_proto()

        def unset(message):
            for field in message.DESCRIPTOR.fields:
                value = getattr(message, field.name)
                repeated = field.label == field.LABEL_REPEATED
                if field.message_type is None or field.message_type.full_name.startswith("google."):
                    if not value and not (field.has_presence and message.HasField(field.name)):
                        yield f"{message.DESCRIPTOR.name}.{field.name}"
                elif not repeated and not message.HasField(field.name):
                    yield f"{message.DESCRIPTOR.name}.{field.name}"
                else:
                    for one in value if repeated else [value]:
                        yield from unset(one)

        # Of the parts of a value one is set; where assignments were written is for readers of files.
        self.assertEqual({one for one in unset(spec) if not one.startswith("EnvPart.")}, {"EnvAssignment.source"})
        self.assertEqual(spec.program.args[1], b"\xff")
        self.assertEqual(spec.grace.nanos, 500_000_000)
        self.assertIsInstance(spec, job_spec_pb2.JobSpec)

    def test_a_command_is_a_program_or_a_list_of_words(self):
        for command in (["/bin/sh", b"-c"], ("/bin/sh", "-c")):
            program = muster.JobSpec(hosts=["a"], command=command, args=["true"]).to_proto().program
            self.assertEqual((program.kind, program.target, list(program.args)), (program.COMMAND, b"/bin/sh", [b"-c", b"true"]))
        # A text is the program, not words of a shell.
        self.assertEqual(muster.JobSpec(hosts=["a"], command="a b").to_proto().program.target, b"a b")

    def test_a_job_that_contradicts_itself_is_refused(self):
        for fields in ({}, {"script": "a", "module": "b"}):
            with self.assertRaisesRegex(ValueError, "exactly one of script, module and command"):
                muster.JobSpec(hosts=["a"], **fields).to_proto()
        for fields, why in (
                ({"hosts": "node-1", "script": "a"}, "hosts is a list, got str: .*letter by letter"),
                ({"script": "a", "args": "-x"}, "args is a list, got str"),
                ({"script": "a", "args": 5}, "args is a list, got int"),
                ({"script": "a", "args": ["-x", 5]}, r"args\[1\] is text .*got int"),
                ({"script": 5}, "script is text .*got int"),
                ({"script": ["a"]}, "script is text .*got list"),
                ({"command": 5}, "command is text or a list of it, got int"),
                ({"command": ["a", None]}, r"command\[1\] is text .*got NoneType"),
                ({"script": "a", "hosts": [5]}, r"hosts\[0\] is a name or a Host, got int"),
                ({"script": "a", "cwd": 5}, "cwd is text"),
                ({"script": "a", "grace": "5"}, "seconds"),
                ({"script": "a", "env": {"A": 5}}, "env A is text, or a list of parts, got int"),
                ({"script": "a", "env": {"A": ["x", 5]}}, r"a part of env A .*got int"),
                ({"script": "a", "env": [("A", "x")]}, "env is a mapping, got list")):
            with self.assertRaisesRegex(TypeError, why, msg=fields):
                muster.JobSpec(**{"hosts": ["node-1"], **fields}).to_proto()
        with self.assertRaisesRegex(ValueError, "command is an empty list"):
            muster.JobSpec(hosts=["a"], command=[]).to_proto()
        with self.assertRaisesRegex(ValueError, "negative"):
            muster.JobSpec(hosts=["a"], script="a", grace=-1).to_proto()


    def test_fields_are_the_same_as_keywords(self):
        import dataclasses

        from muster.job_fields import JobFields
        from muster.log_pieces import LogChoice, LogFilter
        for keywords, kind in ((JobFields, muster.JobSpec), (LogChoice, LogFilter)):
            self.assertEqual({name: reference.__forward_arg__ for name, reference in keywords.__annotations__.items()},
                             {one.name: one.type for one in dataclasses.fields(kind)})


if __name__ == "__main__":
    unittest.main()
