#!/usr/bin/python3
"""Submits a job with the package `muster`, prints its output, and ends with its exit status.

    PYTHONPATH=build/release/python examples/clients/submit_and_follow.py [--grep RE] HOST[,HOST...] PROGRAM [ARGUMENT...]

The coordinator is found as the commands find it. example_client.py is the same on the bare protocol.
"""

import argparse
import sys

import muster


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grep", default="", metavar="RE", help="only the lines that match")
    parser.add_argument("hosts", help="where to run one rank each")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    words = parser.parse_args()
    try:
        with muster.Client() as client:
            job = client.submit(hosts=[muster.Host(host, slots=1) for host in words.hosts.split(",")], command=words.program,
                                args=words.arguments, cwd="/")
            print(f"job {job.job_id}", file=sys.stderr)
            lines = job.logs(follow=True, grep=words.grep)
            for line in lines:
                stream = sys.stdout if line.stream is muster.Stream.STDOUT else sys.stderr
                stream.buffer.write(b"%d: %s\n" % (line.rank, line.text))
                stream.flush()
            ended = job.wait()
    except muster.MusterError as error:
        print(error, file=sys.stderr)
        return 122 if isinstance(error, muster.Unavailable) else 2
    print(f"{ended.state.name.lower()}, {lines.lost_bytes} bytes lost", file=sys.stderr)
    return ended.exit_code


if __name__ == "__main__":
    sys.exit(main())
