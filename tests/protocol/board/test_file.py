"""`BoardFile`: one order for all processes that share the file, and the transfer of entries between machines."""

from __future__ import annotations

import hashlib
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.protocol.board import MOST_BYTES, MemoryBoard
from psephos.protocol.board.file import BoardFile, ExportFile, export
from psephos.protocol.board.history import Head, History, leaf_hash
from psephos.protocol.errors import BoardError


def contents(board: BoardFile | MemoryBoard, after: int = 0) -> list[bytes]:
    numbered = list(board.read(after))
    assert [number for number, _ in numbered] == list(range(after + 1, after + 1 + len(numbered)))
    return [data for _, data in numbered]


def test_entries_can_be_posted_while_others_are_read(tmp_path: Path) -> None:
    """An agent posts between two entries that it reads, and another process does the same."""
    board, other = BoardFile(tmp_path / "board"), BoardFile(tmp_path / "board")
    for data in (b"1", b"2", b"3"):
        board.post(data)
    reading = iter(board.read(0))
    assert next(reading) == (1, b"1")
    other.post(b"4")
    board.post(b"5")
    assert [data for _, data in reading] == [b"2", b"3", b"4", b"5"]


WRITER = """
import sys
from psephos.protocol.board.file import BoardFile
board = BoardFile(sys.argv[1])
for k in range(int(sys.argv[3])):
    board.post(sys.argv[2].encode() + b" %d" % k)
    print(k, flush=True)
"""


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(count)], stdout=subprocess.PIPE, text=True
    )


def test_a_killed_process_loses_no_acknowledged_entry(tmp_path: Path) -> None:
    path = tmp_path / "board"
    BoardFile(path).close()
    a, b = writer(path, "a", 60), writer(path, "b", 100_000)
    assert b.stdout is not None
    acknowledged = [int(b.stdout.readline()) for _ in range(random.randrange(1, 40))]
    b.kill()
    acknowledged += [int(line) for line in b.stdout]
    b.wait()
    b.stdout.close()
    assert a.communicate()[0].split()[-1] == "59"
    entries = contents(BoardFile(path))
    assert [entry for entry in entries if entry.startswith(b"a")] == [b"a %d" % k for k in range(60)]
    of_b = [entry for entry in entries if entry.startswith(b"b")]
    assert of_b == [b"b %d" % k for k in range(len(of_b))]
    assert len(of_b) >= len(acknowledged)


@pytest.mark.slow
def test_an_oversized_entry_in_the_file_is_not_read_completely(tmp_path: Path) -> None:
    board = BoardFile(tmp_path / "board")
    with sqlite3.connect(tmp_path / "board") as raw:
        raw.execute("INSERT INTO entries (digest, data) VALUES (x'00', zeroblob(100000000))")
    raw.close()
    assert len(contents(board)[0]) == MOST_BYTES + 1


def write_and_alter(path: Path, *statements: str) -> None:
    """Write a board of one entry, and change its file with these statements."""
    board = BoardFile(path)
    board.post(b"one")
    board.close()
    with sqlite3.connect(path) as raw:
        for statement in statements:
            raw.execute(statement)
    raw.close()


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    """A view may take for ever to compute, and Ctrl-C does not end it; a trigger may delete entries."""
    view = "CREATE VIEW entries AS SELECT 1 AS number, x'00' AS digest, x'' AS data"
    write_and_alter(tmp_path / "view", "ALTER TABLE entries RENAME TO t", view)
    write_and_alter(tmp_path / "trigger", "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END")
    write_and_alter(tmp_path / "table", "DROP TABLE about")
    write_and_alter(tmp_path / "newer", "PRAGMA user_version = 7")
    (tmp_path / "text").write_bytes(b"no database at all, but long enough to be looked at" * 10)
    with sqlite3.connect(tmp_path / "other") as raw:
        raw.execute("CREATE TABLE t (x)")
    raw.close()
    for name in ("view", "trigger", "table", "newer", "text", "other", "no such folder/board", "."):
        with pytest.raises(BoardError):
            BoardFile(tmp_path / name)


def test_values_of_other_types_are_read_as_bytes_and_gaps_are_errors(tmp_path: Path) -> None:
    write_and_alter(
        tmp_path / "text", "INSERT INTO entries VALUES (2, x'00', 'text'), (3, x'01', 77)", "DELETE FROM about"
    )
    assert contents(BoardFile(tmp_path / "text")) == [b"one", b"text", b"77"]
    BoardFile(tmp_path / "copy", copy=True).close()
    write_and_alter(tmp_path / "copy", "INSERT INTO waiting VALUES (2, x'00', 'text')")
    assert list(BoardFile(tmp_path / "copy").unposted()) == [b"one", b"text"]
    write_and_alter(tmp_path / "gap", "INSERT INTO entries VALUES (4, x'00', x'00')")
    reading = iter(BoardFile(tmp_path / "gap").read(0))
    assert next(reading) == (1, b"one")
    with pytest.raises(BoardError):
        next(reading)


# -- transfer between machines


def test_a_copy_reads_the_order_of_the_board(tmp_path: Path) -> None:
    board, far = BoardFile(tmp_path / "board"), BoardFile(tmp_path / "far", copy=True)
    board.post(b"1")
    far.post(b"far away")
    board.post(b"2")
    assert contents(far) == []
    assert export(board, tmp_path / "out") == 2
    assert far.import_(tmp_path / "out") == 2
    assert export(far, tmp_path / "back") == 1
    board.post(b"3")
    assert board.import_(tmp_path / "back") == 1
    assert board.import_(tmp_path / "back") == 0
    assert export(board, tmp_path / "more", after=2) == 2
    assert far.import_(tmp_path / "more") == 2
    assert contents(far) == contents(board) == [b"1", b"2", b"3", b"far away"]
    assert list(far.unposted()) == []
    far.post(b"2")
    assert list(far.unposted()) == []
    assert BoardFile(tmp_path / "far").copy
    assert far.import_(tmp_path / "out") == 0


def test_a_board_with_repeated_entries_is_exported_unchanged(tmp_path: Path) -> None:
    """A board on NATS may repeat an entry, and has empty entries for parts of longer ones."""
    board, far = MemoryBoard(), BoardFile(tmp_path / "far", copy=True)
    board.entries = [b"1", b"", b"1", b""]
    export(board, tmp_path / "out")
    far.import_(tmp_path / "out")
    assert contents(far) == board.entries


@settings(max_examples=30)
@given(data=st.data(), entries=st.lists(st.binary(max_size=20), max_size=4))
def test_a_damaged_file_is_not_imported(
    data: st.DataObject, entries: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    board, far = MemoryBoard(), BoardFile(folder / "far", copy=True)
    board.entries = entries
    export(board, folder / "out")
    whole = (folder / "out").read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = data.draw(st.sampled_from([whole[:at], whole[:at] + b"\xaa" + whole[at + 1 :], whole + b"\0"]))
    (folder / "out").write_bytes(damaged)
    if damaged == whole:
        return
    with pytest.raises(BoardError):
        far.import_(folder / "out")
    assert contents(far) == []
    far.close()


def export_file(path: Path, kind: bytes, head: Head, *entries: bytes, end: bytes = b"") -> Path:
    """Write a file of entries without `export`."""
    data = b"PSEPHOS CARRIED\x01" + kind + head.size.to_bytes(8, "big") + head.root
    data += b"".join(len(entry).to_bytes(4, "big") + entry for entry in entries) + b"\xff" * 4
    path.write_bytes(data + (end or hashlib.sha256(data).digest()))
    return path


def head_of(*entries: bytes) -> Head:
    history = History()
    for entry in entries:
        history.append(leaf_hash(entry))
    return history.head


def test_the_bytes_of_an_exported_file(tmp_path: Path) -> None:
    board, copy = BoardFile(tmp_path / "board"), BoardFile(tmp_path / "copy", copy=True)
    for data in (b"one", b"", b"three"):
        board.post(data)
    assert export(board, tmp_path / "all") == 3
    expected = export_file(tmp_path / "expected", b"L", Head(), b"one", b"", b"three")
    assert (tmp_path / "all").read_bytes() == expected.read_bytes()
    assert export(board, tmp_path / "late", after=2) == 1
    expected = export_file(tmp_path / "expected", b"L", head_of(b"one", b""), b"three")
    assert (tmp_path / "late").read_bytes() == expected.read_bytes()
    assert export(board, tmp_path / "nothing", after=3) == 0
    for data in (b"mine", b"again"):
        copy.post(data)
    assert export(copy, tmp_path / "posts", after=1) == 2
    expected = export_file(tmp_path / "expected", b"P", Head(), b"mine", b"again")
    assert (tmp_path / "posts").read_bytes() == expected.read_bytes()
    for name, after in (("beyond", 4), ("no/folder", 0), ("all", 0)):
        with pytest.raises(BoardError):
            export(board, tmp_path / name, after)
    with pytest.raises(BoardError):
        copy.import_(tmp_path / "posts")


class FailingBoard(MemoryBoard):
    """Raises an error after one entry."""

    def read(self, after: int) -> Iterator[tuple[int, bytes]]:
        yield after + 1, b"one"
        raise BoardError("gone")


def test_a_failed_export_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(BoardError):
        export(FailingBoard(), tmp_path / "half")
    assert not (tmp_path / "half").exists()


def test_importing_entries_that_a_copy_has_in_part(tmp_path: Path) -> None:
    """Entries that the copy has must be the same; new ones are counted, and are no longer to be posted."""
    copy = BoardFile(tmp_path / "copy", copy=True)
    for data in (b"c", b"x"):
        copy.post(data)
    assert copy.import_(export_file(tmp_path / "one", b"L", Head(), b"a", b"b")) == 2
    assert copy.import_(export_file(tmp_path / "two", b"L", head_of(b"a"), b"b", b"c", b"d")) == 2
    assert contents(copy) == [b"a", b"b", b"c", b"d"]
    assert list(copy.unposted()) == [b"x"]
    four = (b"a", b"b", b"c", b"d")
    for wrong in (
        export_file(tmp_path / "other", b"L", head_of(b"a"), b"b", b"C", b"d", b"e"),
        export_file(tmp_path / "other2", b"L", head_of(b"a", b"B"), b"c"),
        export_file(tmp_path / "five", b"L", Head(5, bytes(32)), b"f"),
        export_file(tmp_path / "four", b"L", Head(4, bytes(32)), b"e"),
    ):
        with pytest.raises(BoardError):
            copy.import_(wrong)
        assert contents(copy) == list(four)
    assert copy.import_(export_file(tmp_path / "five!", b"L", head_of(*four), b"e")) == 1
    board = BoardFile(tmp_path / "board")
    posts = export_file(tmp_path / "posts", b"P", Head(), b"y", b"z", b"y")
    assert board.import_(posts) == 2
    assert board.import_(posts) == 0
    assert contents(board) == [b"y", b"z"]
    with pytest.raises(BoardError):
        board.import_(export_file(tmp_path / "log", b"L", Head(), b"y"))


@pytest.mark.parametrize(
    "write",
    [
        lambda p: export_file(p, b"X", Head(), b"a"),
        lambda p: export_file(p, b"P", Head(), b"a", end=bytes(32)),
        lambda p: p.write_bytes(export_file(p, b"P", Head(), b"a").read_bytes() + b"\0"),
        lambda p: p.write_bytes(b"PSEPHOS CARRIED\x02L" + bytes(40)),
        lambda p: p.write_bytes(b"PSEPHOS CARRIED\x01P" + bytes(40) + b"\4\0\0\1" + bytes(9)),
        lambda p: p.mkdir(),
        os.mkfifo,
        lambda p: None,
    ],
)
def test_other_files_are_not_imported(tmp_path: Path, write: Callable[[Path], object]) -> None:
    board = BoardFile(tmp_path / "board")
    write(tmp_path / "file")
    with pytest.raises(BoardError):
        board.import_(tmp_path / "file")
    assert contents(board) == []


class MeasuredExportFile(ExportFile):
    """Records the greatest number of bytes that were read at once."""

    most = 0

    def _take(self, count: int) -> bytes:
        self.most = max(self.most, count)
        return super()._take(count)


def test_an_entry_above_the_limit_is_not_read(tmp_path: Path) -> None:
    """An entry of 64 MiB is read, one of a byte more is not."""
    head = b"PSEPHOS CARRIED\x01P" + bytes(40)
    for length, most in ((MOST_BYTES, MOST_BYTES), (MOST_BYTES + 1, 32)):
        (tmp_path / "file").write_bytes(head + length.to_bytes(4, "big") + b"x" * 100)
        with MeasuredExportFile.open(tmp_path / "file") as file:
            with pytest.raises(BoardError):
                list(file.entries())
            assert file.most == most  # type: ignore[attr-defined]


def test_an_existing_file_stays_a_board_or_a_copy(tmp_path: Path) -> None:
    BoardFile(tmp_path / "board").close()
    BoardFile(tmp_path / "copy", copy=True).close()
    assert not BoardFile(tmp_path / "board", copy=True).copy
    assert BoardFile(tmp_path / "copy").copy
    with sqlite3.connect(tmp_path / "board") as raw:
        pragmas = ("application_id", "user_version", "journal_mode")
        values = [raw.execute(f"PRAGMA {name}").fetchone() for name in pragmas]
        assert values == [(0x50534542,), (1,), ("wal",)]
    raw.close()


def test_a_failed_import_releases_the_lock(tmp_path: Path) -> None:
    board = BoardFile(tmp_path / "board")
    with pytest.raises(BoardError):
        board.import_(export_file(tmp_path / "posts", b"P", Head(), b"y", end=bytes(32)))
    other = BoardFile(tmp_path / "board", timeout=0.0)
    other.post(b"x")
    board.post(b"z")
    assert contents(board) == [b"x", b"z"]
