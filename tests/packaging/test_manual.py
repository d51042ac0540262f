"""Manual pages and completion have every command and flag that the programs have, and are well-formed."""

import gzip
import os
import re
import subprocess
import unittest

import built

GENERATED = os.path.join(built.BUILD, "packaging")


def help_of(program: str, *words: str) -> str:
    return built.run(os.path.join(built.BIN, program), *words, "--help")


def flags_in(text: str) -> set[str]:
    """Long flags that a help text offers, not those that it mentions."""
    return set(re.findall(r"^  (?:-\w, ?|    )?--([\w-]+)", text, re.MULTILINE))


def commands_of(program: str) -> list[list[str]]:
    listed = re.search(r"^(?:commands|Subcommands):\n((?:  .*\n?)+)", help_of(program), re.MULTILINE)[1]
    found = []
    for name in re.findall(r"^  ([a-z-]+)", listed, re.MULTILINE):
        if name == "help":
            continue
        group = re.match(rf"usage: {program} {name} ([a-z|-]+\|[a-z-]+) \[flags\]\n", help_of(program, name))
        found += [[name, word] for word in group[1].split("|")] if group else [[name]]
    return found


def complete(program: str, *words: str) -> list[str]:
    """What bash offers for the last of the words behind the program."""
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "_muster_$1"; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    said = built.run("bash", "-c", script, "bash", os.path.join(GENERATED, f"{program}.bash"), program, *words)
    return said.split()


class Manual(unittest.TestCase):
    def page(self, program: str) -> str:
        """The page as people see it, on one line."""
        with gzip.open(os.path.join(GENERATED, f"{program}.1.gz"), "rt", encoding="utf-8") as stream:
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-rLL=1000n", "-P-cbou"], input=stream.read().encode(),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
        self.assertEqual(done.stderr.decode(), "")
        return re.sub(r"\s+", " ", done.stdout.decode().replace("\u2010", "-").replace("\u2212", "-"))

    def test_has_every_flag_of_every_command(self):
        for program in ("coordinator", "agent"):
            page = self.page(program)
            commands = commands_of(program)
            self.assertGreaterEqual(len(commands), 2)
            for words in commands:
                begin = page.find(f" {program} {' '.join(words)} ", page.index(" COMMANDS "))
                self.assertGreater(begin, 0, words)
                flags = flags_in(help_of(program, *words))
                self.assertIn("help", flags)
                for flag in flags:
                    self.assertRegex(page[begin:], rf"--{flag}\b", words)

    def test_says_what_exit_statuses_mean(self):
        self.assertRegex(self.page("coordinator"), "EXIT STATUS .* 121 a node or its ranks were lost")


class Completion(unittest.TestCase):
    def test_offers_every_command_and_flag(self):
        for program in ("coordinator", "agent"):
            for words in commands_of(program):
                self.assertIn(words[-1], complete(program, *words[:-1], words[-1][:1]))
                offered = complete(program, *words, "--")
                self.assertEqual({one.removeprefix("--") for one in offered}, flags_in(help_of(program, *words)))

    def test_offers_values_where_there_are_some(self):
        self.assertEqual(complete("coordinator", "logs", "--order", ""), ["arrival", "time"])
        self.assertEqual(complete("coordinator", "list", "-o", "j"), ["json"])
        os.chdir(built.ROOT)
        self.assertEqual(complete("coordinator", "serve", "--state-dir", "pack"), ["packaging"])
        self.assertIn("packages.txt", complete("agent", "join", "--token-file", "pack"))
        self.assertEqual(complete("agent", "run", "--slots", ""), [])


if __name__ == "__main__":
    unittest.main()
