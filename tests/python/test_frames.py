"""Frames are decoded however they are cut; what is no frame is told; lines and the account of what is missing come of them."""

import random
import struct
import unittest
import zlib

import sandbox  # noqa: F401
from doubles import frame

from muster import FrameError, FrameKind, FrameReader, LogFrame, LogLines, LogPiece, Stream
from muster.log_lines import MAX_LINE_BYTES
from muster.feeds import Feed
from muster.log_pieces import LogFrames, LogPosition, _Positions


def counters(first, second):
    return struct.pack("<QQ", first, second)


OUT, ERR, GAP, END, HOLE = (FrameKind.STDOUT, FrameKind.STDERR, FrameKind.GAP, FrameKind.END, FrameKind.HOLE)
LOG = b"".join([frame(OUT, b"one\ntw"), frame(ERR, b"err\n"), frame(OUT, b"o\n"), frame(GAP, counters(5, 7)),
                frame(HOLE, counters(11, 0) + bytes(3000)), frame(OUT, b"last"), frame(END, counters(50, 23))])
FRAMES = [(OUT, b"one\ntw"), (ERR, b"err\n"), (OUT, b"o\n"), (GAP, b""), (HOLE, b""), (OUT, b"last"), (END, b"")]


class Pieces(Feed):
    """Pieces as they would come, or an error in their place."""

    closed = False

    def __init__(self, *pieces):
        super().__init__()
        self._left = list(pieces)

    def _next(self):
        if not self._left:
            raise StopIteration
        piece = self._left.pop(0)
        if isinstance(piece, BaseException):
            raise piece
        return piece

    def close(self):
        self.closed = True


def lines_of(*pieces):
    return LogLines(LogFrames(Pieces(*pieces)))


class Frames(unittest.TestCase):
    def test_are_read_wherever_they_are_cut(self):
        for seed in range(300):
            chance = random.Random(seed)
            reader, found, at = FrameReader(), [], 0
            while at < len(LOG):
                size = chance.choice([1, 2, 7, 24, 40, 1000])
                found += reader.feed(LOG[at:at + size])
                at += size
            self.assertEqual([(one.kind, one.data) for one in found], FRAMES, f"seed {seed}")
            self.assertEqual((found[3].stdout_dropped, found[3].stderr_dropped), (5, 7))
            self.assertEqual((found[4].stdout_dropped, found[4].stderr_dropped), (11, 0))
            self.assertEqual((found[6].written_bytes, found[6].dropped_bytes), (50, 23))
            self.assertTrue(reader.ended)
            self.assertEqual(reader.partial_bytes, 0)

    def test_zeros_by_their_number_are_the_same_as_zeros(self):
        hole = LOG.index(counters(11, 0)) + 16
        # The counters of the hole end with zeros, too: they may be told by their number as well.
        for begin in (hole, hole - 8, hole + 10):
            reader = FrameReader()
            end = hole + 3000
            found = [*reader.feed(LOG[:begin], end - begin), *reader.feed(LOG[end:])]
            self.assertEqual([(one.kind, one.data) for one in found], FRAMES)
        zeros = frame(OUT, bytes(100_000))
        self.assertEqual([one.data for one in FrameReader().feed(zeros[:24], 100_000)], [bytes(100_000)])

    def test_of_every_damaged_byte_of_a_header_are_told(self):
        good = frame(OUT, b"abc")
        for at in range(24):
            bad = bytearray(good)
            bad[at] ^= 0x40
            with self.assertRaises(FrameError, msg=f"byte {at}") as caught:
                list(FrameReader().feed(frame(ERR, b"fine") + bad))
            self.assertEqual(caught.exception.offset, 28)

    def test_behind_the_end_are_told(self):
        with self.assertRaisesRegex(FrameError, "after the end"):
            list(FrameReader().feed(frame(END, counters(0, 0)) + b"x"))

    def test_of_another_size_or_kind_are_told(self):
        for kind, payload in ((GAP, b"x" * 15), (END, b"x" * 17), (HOLE, b"x" * 15)):
            with self.assertRaisesRegex(FrameError, "bad header"):
                list(FrameReader().feed(frame(kind, payload)))
        head = struct.pack("<4sIB3xq", b"MLOG", 0, 9, 0)
        with self.assertRaisesRegex(FrameError, "kind 9"):
            list(FrameReader().feed(head + struct.pack("<I", zlib.crc32(head))))


class Lines(unittest.TestCase):
    def test_are_whole_and_what_is_missing_is_counted(self):
        lines = lines_of(LogPiece(3, 1, 0, LOG), LogPiece(3, 1, len(LOG), b"", end=True, missing_bytes=100))
        found = [(one.stream, one.text, one.ended, one.dropped_before) for one in lines]
        self.assertEqual(found, [
            (Stream.STDOUT, b"one", True, 0), (Stream.STDERR, b"err", True, 0), (Stream.STDOUT, b"two", True, 0),
            (Stream.STDOUT, b"last", False, 16)])
        account = lines.outputs[3, 1]
        self.assertEqual((account.dropped_bytes, account.missing_bytes, account.written_bytes, account.ended), (23, 100, 50, True))
        self.assertEqual(lines.lost_bytes, 123)

    def test_that_are_too_long_come_in_parts_and_no_byte_is_lost(self):
        text = b"x" * (2 * MAX_LINE_BYTES + 5)
        for end in (b"\n", b""):
            data = b"".join(frame(OUT, (text + end)[at:at + 50_000]) for at in range(0, len(text + end), 50_000))
            found = list(lines_of(LogPiece(0, 1, 0, data), LogPiece(0, 1, len(data), b"", end=True)))
            self.assertEqual(b"".join(one.text for one in found), text)
            self.assertEqual([one.ended for one in found], [False, False, bool(end)])

    def test_of_exactly_the_longest_size_are_one_line(self):
        data = frame(OUT, b"x" * MAX_LINE_BYTES + b"\n" + b"\n")
        self.assertEqual([(len(one.text), one.ended) for one in lines_of(LogPiece(0, 1, 0, data))],
                         [(MAX_LINE_BYTES, True), (0, True)])

    def test_of_two_ranks_and_attempts_do_not_mix(self):
        pieces = [LogPiece(0, 1, 0, frame(OUT, b"a")), LogPiece(1, 1, 0, frame(OUT, b"b")), LogPiece(0, 2, 0, frame(OUT, b"c\n")),
                  LogPiece(0, 1, 25, b"", end=True), LogPiece(1, 1, 25, frame(OUT, b"\n"))]
        self.assertEqual([(one.rank, one.attempt, one.text) for one in lines_of(*pieces)],
                         [(0, 2, b"c"), (0, 1, b"a"), (1, 1, b"b")])

    def test_say_where_a_file_is_damaged(self):
        lines = lines_of(LogPiece(0, 1, 0, frame(OUT, b"a\n")), LogPiece(0, 1, 26, b"", end=True, damaged_at=26))
        self.assertEqual([one.text for one in lines], [b"a"])
        self.assertEqual(lines.outputs[0, 1].damaged_at, 26)

    def test_entries_at_the_end_have_no_frame(self):
        entries = list(LogFrames(Pieces(LogPiece(0, 1, 0, b"", end=True))))
        self.assertEqual(entries, [LogFrame(0, 1, None, LogPiece(0, 1, 0, b"", end=True))])


class Positions(unittest.TestCase):
    def test_hand_on_every_byte_once(self):
        """A file is told in pieces that overlap those before at random: what is handed on is the file."""
        for seed in range(300):
            chance = random.Random(seed)
            size = chance.randrange(1, 200)
            file = bytes(chance.choice([0, 1]) for _ in range(size))
            positions, got = _Positions([]), b""
            while len(got) < size:
                begin = chance.randrange(0, len(got) + 1)
                end = chance.randrange(begin, size + 1)
                part = file[begin:end]
                zeros = len(part) - len(part.rstrip(b"\0")) if chance.random() < 0.5 else 0
                piece = positions.take(LogPiece(4, 2, begin, part[:len(part) - zeros], zeros))
                if piece is not None:
                    self.assertEqual(piece.offset, len(got), f"seed {seed}")
                    got += piece.data + bytes(piece.zeros)
            self.assertEqual(got, file, f"seed {seed}")

    def test_leave_out_what_is_old_and_hand_on_one_end(self):
        positions = _Positions([LogPosition(0, 2, 10)])
        self.assertIsNone(positions.take(LogPiece(0, 1, 0, b"old")))
        self.assertIsNone(positions.take(LogPiece(0, 2, 4, b"known!")))
        self.assertEqual(positions.take(LogPiece(0, 2, 4, b"known!", end=True)), LogPiece(0, 2, 10, b"", end=True))
        self.assertIsNone(positions.take(LogPiece(0, 2, 10, b"", end=True)))
        self.assertEqual(positions.take(LogPiece(0, 3, 0, b"new")), LogPiece(0, 3, 0, b"new"))


if __name__ == "__main__":
    unittest.main()
