"""Commands are split as bash splits them, and what bash would do more than that is refused."""

import random
import subprocess
import tempfile
import unittest

import sandbox  # noqa: F401

from muster.shell_words import ShellSyntaxError, split_words


def bash_words(texts):
    """What bash makes of each text, in a folder without files."""
    script = "".join(f"printf '%s\\0' {text}\nprintf '\\1\\0'\n" for text in texts)
    with tempfile.TemporaryDirectory() as folder:
        said = subprocess.run(["bash", "-c", script], cwd=folder, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return [part.split("\0")[:-1] for part in said.stdout.decode().split("\1\0")[:-1]]


class ShellWords(unittest.TestCase):
    def test_are_those_of_bash(self):
        """Random texts: whatever is not refused means the same to bash."""
        chance = random.Random(1)
        texts = []
        while len(texts) < 3000:
            text = "w" + "".join(chance.choice("ab  '\"\\$=-,.:/[]*?!%^@+~#{}\t") for _ in range(chance.randrange(14)))
            try:
                split_words(text)
            except ShellSyntaxError:
                continue
            # A pattern may match the folder itself.
            if not any(one in text for one in ("*", "?", "[")) and not text.endswith("\\"):
                texts.append(text)
        for text, words in zip(texts, bash_words(texts), strict=True):
            self.assertEqual(split_words(text), words, repr(text))

    def test_of_the_usual_kinds(self):
        for text, words in {
            "run.py --lr 1e-3": ["run.py", "--lr", "1e-3"],
            "  run.py\t'a b'  ": ["run.py", "a b"],
            'run.py ""': ["run.py", ""],
            "run.py 'it'\\''s'": ["run.py", "it's"],
            r'run.py "\$HOME" \$HOME "a\b" "\""': ["run.py", "$HOME", "$HOME", "a\\b", '"'],
            'run.py \'{"a": [1, 2]}\'': ["run.py", '{"a": [1, 2]}'],
            "run.py 'a;b' \"c&&d\" \\|": ["run.py", "a;b", "c&&d", "|"],
            "run.py \\\n  --x 1 \\\n  --y 2\n": ["run.py", "--x", "1", "--y", "2"],
            "run.py *.py a[1]": ["run.py", "*.py", "a[1]"],
            "run.py 5$ a~b c#d x=~": None,
            "run.py 5$ a~b c#d": ["run.py", "5$", "a~b", "c#d"],
            "": [],
        }.items():
            if words is None:
                with self.assertRaises(ShellSyntaxError):
                    split_words(text)
            else:
                self.assertEqual(split_words(text), words)

    def test_refuse_what_only_a_shell_can_do(self):
        for text, what in {
            "a.py; rm x": "operator ;", "a.py && b": "operator &", "a.py | tee log": r"operator \|", "a.py > log": "operator >",
            "a.py < in": "operator <", "a.py (x)": r"operator \(", "a.py\nb.py": "second line", "a.py $HOME": r"a \$",
            'a.py "$HOME"': r"a \$", "a.py $(x)": r"a \$", 'a.py "${X}"': r"a \$", "a.py `x`": "in `", 'a.py "`x`"': "in `",
            "a.py ~/x": "a ~", "a.py x=~/y": "a ~", "a.py {a,b}": "braces", "a.py x{1..3}": "braces", "a.py # note": "comment",
            "a.py 'x": "quote '", 'a.py "x': 'quote "', "a.py $'x'": r"a \$", "a.py \0": "NUL",
        }.items():
            with self.assertRaisesRegex(ShellSyntaxError, what, msg=text) as caught:
                split_words(text)
            self.assertIsInstance(caught.exception, ValueError)


if __name__ == "__main__":
    unittest.main()
