#!/usr/bin/python3
"""Makes the manual page and the bash completion of a program from what its --help says.

    manual.py PROGRAM --version V --man FILE --completion FILE

The help is printed by the same definitions that parse the command line, so neither can tell of a flag that is not
there or leave one out. Text that is not understood ends the build.
"""

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field


@dataclass
class Flag:
    """One flag; `placeholder` is empty when it takes no value."""

    name: str
    letter: str
    placeholder: str
    help: str


@dataclass
class Command:
    """A command with its flags, or a group of commands; `words` are those behind the program's name."""

    words: list[str]
    usage: str = ""
    about: str = ""
    flags: list[Flag] = field(default_factory=list)
    # Groups: the commands in them. The program itself is one.
    commands: list["Command"] = field(default_factory=list)
    summary: str = ""
    # Other paragraphs of the help, as they are: (title, text).
    notes: list[tuple[str, str]] = field(default_factory=list)


FLAG = re.compile(r"^  (?:-(\w),\s?|    )?--([\w-]+)(?: (\S+))?(?: Excludes: \S+)?(?:\s{2,}(.*))?$")
POSITIONAL = re.compile(r"^  ([A-Z]+) TEXT(?: REQUIRED| Excludes: \S+)?(?:\s{2,}(.*))?$")
# The help of flags that have a long one, in its column or on the next line.
CONTINUATION = re.compile(r"^ {18,}(\S.*)$")
SUBCOMMAND = re.compile(r"^  ([a-z][\w-]*)\s{2,}(.*)$")


def help_of(program: str, words: list[str]) -> str:
    """What `PROGRAM WORDS --help` prints, as an installed program would for its service."""
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "STATE_DIRECTORY": "/var/lib/muster/coordinator",
                   "RUNTIME_DIRECTORY": "/run/muster", "MUSTER_CONFIG_DIR": "/nonexistent"}
    done = subprocess.run([program, *words, "--help"], env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, check=True)
    return done.stdout.decode()


def read_entries(command: Command, title: str, lines: list[str]) -> None:
    """Flags, positionals or commands below one title of a help text."""
    last = None
    for line in lines:
        if match := CONTINUATION.match(line):
            if last is None:
                sys.exit(f"manual.py: {' '.join(command.words)}: nothing to continue: {line!r}")
            last.help = f"{last.help} {match[1]}".strip()
        elif title in ("flags", "Options"):
            match = FLAG.match(line) or sys.exit(f"manual.py: {' '.join(command.words)}: no flag: {line!r}")
            last = Flag(match[2], match[1] or "", match[3] or "", match[4] or "")
            command.flags.append(last)
        elif title == "Positionals":
            match = POSITIONAL.match(line) or sys.exit(f"manual.py: no positional: {line!r}")
            last = Flag("", "", match[1], match[2] or "")
            command.flags.append(last)
        else:
            match = SUBCOMMAND.match(line) or sys.exit(f"manual.py: no command: {line!r}")
            command.commands.append(Command([*command.words, match[1]], summary=match[2]))


def read_help(program: str, words: list[str], name: str) -> Command:
    """The command behind `words`, and all below it."""
    command = Command(words)
    for paragraph in help_of(program, words).strip("\n").split("\n\n"):
        lines = paragraph.split("\n")
        title = lines[0].removesuffix(":")
        if usage := [line for line in lines if line.lower().startswith("usage: ")]:
            command.usage = usage[0][len("usage: "):]
            command.about = " ".join(line for line in lines if line not in usage)
        elif lines[0] in ("flags:", "Options:", "Positionals:", "commands:", "Subcommands:"):
            read_entries(command, title, lines[1:])
        elif re.match(r"^flags: --\w", lines[0]):
            for flag in lines[0].removeprefix("flags: ").split(", "):
                command.flags.append(Flag(flag.removeprefix("--"), "", "", "print it"))
        elif lines[0].endswith(":") or lines[0].startswith("  "):
            command.notes.append((title if lines[0].endswith(":") else "Examples",
                                  "\n".join(lines[1:] if lines[0].endswith(":") else lines)))
        else:
            command.about = f"{command.about} {' '.join(lines)}".strip()
    # `token create|list|delete`: a group says in its usage what is in it, and has no flags.
    group = re.match(rf"^{name} {' '.join(words)} ((?:[a-z-]+\|)+[a-z-]+) ", command.usage) if words else None
    if group and not command.flags:
        command.commands = [Command([*words, word]) for word in group[1].split("|")]
    below = []
    for one in command.commands:
        if one.words[-1] == "help":
            continue
        read = read_help(program, one.words, name)
        read.summary = one.summary or read.about.split(". ")[0].rstrip(".")
        below.append(read)
    command.commands = below
    if not command.usage or not (command.flags or command.commands):
        sys.exit(f"manual.py: {name} {' '.join(words)}: no usage, flags or commands in its help")
    return command


def walk(command: Command):
    """The commands that have flags, depth first, without the program itself."""
    for one in command.commands:
        if one.commands:
            yield from walk(one)
        else:
            yield one


def roff(text: str) -> str:
    """Text as roff prints it: nothing in it is a request or an escape."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("~", "\\(ti").replace("^", "\\(ha")
    return re.sub(r"^\.", r"\\&.", text, flags=re.MULTILINE)


def flag_lines(flag: Flag) -> list[str]:
    if not flag.name:
        return [".TP", f"\\fI{roff(flag.placeholder)}\\fR", roff(flag.help)]
    names = f"\\fB\\-{flag.letter}\\fR, " if flag.letter else ""
    value = f" \\fI{roff(flag.placeholder)}\\fR" if flag.placeholder else ""
    return [".TP", f"{names}\\fB\\-\\-{roff(flag.name)}\\fR{value}", roff(flag.help)]


FILES = {
    "coordinator": [("/etc/muster/coordinator.yaml", "configuration of the daemon; --check-config shows what holds"),
                    ("/var/lib/muster/coordinator", "jobs, their output, the trust of the cluster"),
                    ("/run/muster/coordinator.sock", "where commands of this machine reach the daemon")],
    "agent": [("/etc/muster/agent.yaml", "configuration; --check-config shows what holds"),
              ("/var/lib/muster/agent", "journal, attempts, certificate of the node")],
}


def manual(name: str, version: str, program: Command) -> str:
    first = program.about.split(". ")[0].rstrip(".")
    lines = [f".TH {name.upper()} 1 \"\" \"Muster {roff(version)}\" \"User Commands\"",
             ".SH NAME", f"{name} \\- {roff(first[0].lower() + first[1:])}", ".SH SYNOPSIS"]
    for command in walk(program):
        lines += [".br", f"\\fB{roff(command.usage)}\\fR"]
    lines += [".SH DESCRIPTION", roff(program.about)]
    for title, text in program.notes:
        if not title.startswith("exit status"):
            lines += [".PP", ".nf", roff(text), ".fi"]
    lines += [".SH OPTIONS"]
    for flag in program.flags:
        lines += flag_lines(flag)
    lines += [".SH COMMANDS", "In names of flags, \\(oq\\-\\(cq and \\(oq_\\(cq are the same."]
    for command in walk(program):
        lines += [f".SS \"{roff(command.usage)}\"", roff(command.about)]
        for title, text in command.notes:
            lines += [".PP", roff(title) + ":", ".nf", roff(text), ".fi"]
        for flag in command.flags:
            lines += flag_lines(flag)
    for title, text in program.notes:
        if title.startswith("exit status"):
            lines += [".SH EXIT STATUS", f"Of {roff(title.removeprefix('exit status of '))}:", ".nf", roff(text), ".fi"]
    lines += [".SH FILES"]
    for path, meaning in FILES[name]:
        lines += [".TP", f"\\fI{roff(path)}\\fR", roff(meaning)]
    other = "agent" if name == "coordinator" else "coordinator"
    lines += [".SH SEE ALSO", f"\\fB{other}\\fR(1); all flags, files and messages are in reference.md below /usr/share/doc"]
    return "\n".join(lines) + "\n"


def values_of(placeholder: str) -> str:
    """How bash completes the value of a flag."""
    if re.fullmatch(r"[a-z]+(\|[a-z]+)+", placeholder):
        return "words:" + placeholder.replace("|", " ")
    if placeholder in ("DIR", "FOLDER"):
        return "folders"
    return "files" if placeholder in ("FILE", "PATH") else "none"


COMPLETION = """\
# bash completion of {name}; made from its help.
_muster_{name}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} word command="" i
  COMPREPLY=()
  # The command so far: the words that are no flags and go on with one that there is.
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${{COMP_WORDS[i]}}
    case "$command $word" in
{known}
        command="$command $word" ;;
    esac
  done
  case "$command $previous" in
{values}
  esac
  local flags="" commands=""
  case "$command" in
{tables}
  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$current")
  elif [[ -n $commands ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -F _muster_{name} {name}
"""

REPLY = {
    "folders": "compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- \"$current\"); return",
    "files": "compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- \"$current\"); return",
    "none": "return",
}


def completion(name: str, program: Command) -> str:
    known, values, tables = [], [], []

    def add(command: Command) -> None:
        key = "".join(f" {word}" for word in command.words)
        if command.words:
            known.append(f"\"{key}\"")
        flags = []
        for flag in command.flags:
            if not flag.name:
                continue
            written = [f"--{flag.name}"] + ([f"-{flag.letter}"] if flag.letter else [])
            flags += written
            if not flag.placeholder:
                continue
            how = values_of(flag.placeholder)
            reply = REPLY.get(how) or (f"mapfile -t COMPREPLY < <(compgen -W \"{how.removeprefix('words:')}\" "
                                       "-- \"$current\"); return")
            values.append(f"    {' | '.join(chr(34) + key + ' ' + one + chr(34) for one in written)}) {reply} ;;")
        below = " ".join(one.words[-1] for one in command.commands)
        tables.append(f"    \"{key}\") flags=\"{' '.join(flags)}\" commands=\"{below}\" ;;")
        for one in command.commands:
            add(one)

    add(program)
    return COMPLETION.format(name=name, known="      " + " | ".join(known) + ")", values="\n".join(values),
                             tables="\n".join(tables))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--version", required=True)
    parser.add_argument("--man", required=True)
    parser.add_argument("--completion", required=True)
    arguments = parser.parse_args()
    name = os.path.basename(arguments.program)
    program = read_help(os.path.abspath(arguments.program), [], name)
    for path, text in ((arguments.man, manual(name, arguments.version, program)),
                       (arguments.completion, completion(name, program))):
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)


if __name__ == "__main__":
    main()
