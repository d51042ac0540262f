"""Splits a command into words as bash does, without a shell: nothing is expanded and nothing is executed.

Quotes and backslashes mean what they mean in bash. What bash would do more than split (run a second command, redirect, expand a
variable, a command, a brace or a home directory, drop a comment) is refused rather than passed on as text. File name patterns
(`*`, `?`, `[...]`) stay as they are, as in bash where no file matches. `shlex` can tell neither quoted operators from others nor
`"\\$"` from `"\\\\$"`. Pure.
"""

from __future__ import annotations

import re
from typing import NoReturn

from .errors import InvalidArgument

_OPERATORS = ";&|<>()"
_BLANKS = " \t"
# What makes a `$` more than a dollar sign, outside and inside of double quotes.
_EXPANDS = re.compile(r"[A-Za-z0-9_{(\[@*#?$!'\"-]")
_EXPANDS_QUOTED = re.compile(r"[A-Za-z0-9_{(\[@*#?$!-]")
_BRACES = re.compile(r"\{.*(,|\.\.).*\}", re.DOTALL)
_BEFORE_TILDE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*=(.*:)?)?", re.DOTALL)


class ShellSyntaxError(InvalidArgument):
    """A command that is more, or less, than words."""


class _Splitter:
    def __init__(self, text: str):
        self._text = text
        self._at = 0
        self._words: list[str] = []
        self._word: list[str] = []
        # The same with NUL in place of what was quoted.
        self._bare: list[str] = []
        self._in_word = False

    def split(self) -> list[str]:
        while self._at < len(self._text):
            character = self._text[self._at]
            self._at += 1
            if character in _BLANKS or (character == "\n" and not self._text[self._at:].strip(" \t\n")):
                self._end_word()
            elif character == "\\":
                self._escaped()
            elif character == "'":
                self._single_quoted()
            elif character == '"':
                self._double_quoted()
            else:
                self._plain(character)
        self._end_word()
        return self._words

    def _add(self, character: str, bare: str) -> None:
        self._word.append(character)
        self._bare.append(bare)
        self._in_word = True

    def _end_word(self) -> None:
        if self._in_word:
            if _BRACES.search("".join(self._bare)):
                self._refuse("braces, which a shell would expand", "write the words out, or quote them")
            self._words.append("".join(self._word))
        self._word, self._bare, self._in_word = [], [], False

    def _next(self) -> str:
        return self._text[self._at:self._at + 1]

    def _escaped(self) -> None:
        following = self._next()
        self._at += 1
        if following != "\n":  # A line that goes on in the next one.
            self._add(following or "\\", "\0")

    def _single_quoted(self) -> None:
        end = self._text.find("'", self._at)
        if end < 0:
            self._refuse("a quote ' that does not end", "end it, or write \\'")
        self._in_word = True
        for character in self._text[self._at:end]:
            self._add(character, "\0")
        self._at = end + 1

    def _double_quoted(self) -> None:
        self._in_word = True
        while True:
            character = self._next()
            self._at += 1
            if character == "":
                self._refuse('a quote " that does not end', 'end it, or write \\"')
            if character == '"':
                return
            if character == "\\" and self._next() and self._next() in '$`"\\\n':
                following = self._next()
                self._at += 1
                if following != "\n":
                    self._add(following, "\0")
                continue
            self._check_expansion(character, _EXPANDS_QUOTED)
            self._add(character, "\0")

    def _plain(self, character: str) -> None:
        if character in _OPERATORS:
            self._refuse(f"the operator {character}", "quote it if it belongs to an argument; give each command an entry of its own")
        if character == "\n":
            self._refuse("a second line", "give each command an entry of its own, or end the line with \\")
        if character == "#" and not self._in_word:
            self._refuse("a comment", "leave it out, or quote the #")
        if character == "~" and _BEFORE_TILDE.fullmatch("".join(self._bare)):
            self._refuse("a ~, which a shell would expand", "use os.path.expanduser, or quote it")
        self._check_expansion(character, _EXPANDS)
        self._add(character, character)

    def _check_expansion(self, character: str, expands: re.Pattern[str]) -> None:
        if character == "`":
            self._refuse("a command in `", "run it with subprocess and put its output into the command")
        if character == "$" and expands.match(self._next()):
            self._refuse("a $ that a shell would expand", "put the value into the command (os.environ, os.path.expandvars), or "
                         "write \\$")

    def _refuse(self, what: str, remedy: str) -> NoReturn:
        raise ShellSyntaxError(f"no shell reads the command, and it has {what} (character {self._at}): {remedy}. Or give the "
                               f"command as a list of words. It is: {self._text!r}")


def split_words(text: str) -> list[str]:
    """The words of a command. ShellSyntaxError, an InvalidArgument and ValueError, for what a shell would do more than split."""
    if "\0" in text:
        raise ShellSyntaxError(f"a command cannot have a NUL character: {text!r}")
    return _Splitter(text.lstrip(" \t\n")).split()
