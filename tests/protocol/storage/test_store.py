"""`Store` and `OnceLedger`: transactions, answers that are given once, erased values, damaged files, full disks."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from psephos.protocol.errors import AlreadyCastError, AlreadyDoneError, AlreadyOpenedError, JournalError
from psephos.protocol.storage.store import ERASED_SPACES, OnceLedger, Store


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with Store(None if request.param == "memory" else tmp_path / "folder" / "store") as opened:
        yield opened


def never() -> bytes:
    pytest.fail("an answer was made a second time")


# -- values and transactions


steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "begin", "commit", "undo"]), st.sampled_from(["a", "b", "c"]), st.binary(max_size=3)
    )
)


class _RolledBack(Exception):
    """Leaves a transaction."""


_put, _begin, _undo = ("put", "a", b"x"), ("begin", "a", b""), ("undo", "a", b"")


@given(steps)
@example([_begin, _begin, _put, _begin, _undo, _undo])  # a nested one is not rolled back twice
@example([_begin, _begin, _put, _begin, ("commit", "a", b""), _undo])
def test_nested_transactions(actions: list[tuple[str, str, bytes]]) -> None:
    """Compared with a dictionary that is copied when a transaction begins and restored when it is rolled back."""
    store, model = Store(), dict[str, bytes]()
    remaining = list(actions)

    def run(depth: int) -> None:
        while remaining:
            action, name, content = remaining.pop(0)
            if action == "put":
                store.put("a", name.encode(), content)
                model[name] = content
            elif action == "begin":
                before = dict(model)
                try:
                    with store.transaction():
                        run(depth + 1)
                except _RolledBack:
                    model.clear()
                    model.update(before)
            elif depth:
                if action == "undo":
                    raise _RolledBack
                return

    run(0)
    assert {name.decode(): content for name, content in store.items("a")} == model


# -- ledgers


def test_an_answer_is_made_once_and_repeated(store: Store) -> None:
    ledger = OnceLedger(store)
    assert ledger.do_once(b"round", b"product", lambda: b"answer") == b"answer"
    assert ledger.do_once(b"round", b"product", never) == b"answer"
    assert OnceLedger(store).do_once(b"round", b"product", never) == b"answer"
    assert ledger.do_once(b"another round", b"product", lambda: b"") == b""
    assert ledger.do_once(b"another round", b"product", never) == b""


def test_the_same_claim_about_another_subject_is_refused(store: Store) -> None:
    ledger = OnceLedger(store)
    ledger.do_once(b"round", b"product", lambda: b"answer")
    for subject in (b"", b"products", b"produc", b"productanswer"):
        with pytest.raises(AlreadyDoneError):
            ledger.do_once(b"round", subject, never)
    assert issubclass(AlreadyCastError, AlreadyDoneError)
    assert issubclass(AlreadyOpenedError, AlreadyDoneError)


def test_an_answer_is_rolled_back_with_its_transaction(store: Store) -> None:
    ledger = OnceLedger(store)

    def rolled_back() -> None:
        with store.transaction():
            assert ledger.do_once(b"round", b"product", lambda: b"lost") == b"lost"
            raise _RolledBack

    with pytest.raises(_RolledBack):
        rolled_back()
    with store.transaction():
        with pytest.raises(_RolledBack):
            rolled_back()
        assert ledger.do_once(b"round", b"another product", lambda: b"kept") == b"kept"
    assert ledger.do_once(b"round", b"another product", never) == b"kept"


_ANSWERS = """
import sys
from psephos.protocol.storage.store import OnceLedger, Store
sys.stdin.readline()
ledger = OnceLedger(Store(sys.argv[1]))
print([ledger.do_once(bytes([i]), b"", sys.argv[2].encode) for i in range(20)])
"""


def test_several_processes_get_one_answer(tmp_path: Path) -> None:
    """They start at the same time, on a file that does not exist yet."""
    commands = [[sys.executable, "-c", _ANSWERS, str(tmp_path / "store"), str(number)] for number in range(3)]
    workers = [subprocess.Popen(c, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for c in commands]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    answers = {worker.communicate(timeout=60)[0] for worker in workers}
    assert len(answers) == 1
    assert answers != {""}


@pytest.mark.parametrize("shared", [True, False])
def test_several_threads_get_one_answer(tmp_path: Path, shared: bool) -> None:
    answers = []
    first = Store(tmp_path / "store")

    def ask() -> None:
        ledger = OnceLedger(first if shared else Store(tmp_path / "store"))
        answers.append([ledger.do_once(bytes([i]), b"", lambda: os.urandom(8)) for i in range(10)])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == answers[:1] * 4


# -- files


def test_the_rows_of_a_file(tmp_path: Path) -> None:
    """They are part of the format: another digest or order of the parts would be another format."""
    with Store(tmp_path / "one" / "folder" / "store", {"b": [1], "a": None}) as store:
        store.put("space", b"name", b"content")
        OnceLedger(store, "me").do_once(b"claim", b"about", lambda: b"answer")
        assert OnceLedger(store).do_once(b"claim", b"other", lambda: b"") == b""
        rows = {
            (space, name): (content, digest) for space, name, content, digest in store._run("SELECT * FROM records")
        }
    assert rows["store", b"identity"][0] == b'{"b": [1], "a": null}'
    assert rows["space", b"name"] == (b"content", sha256(b"5 4 spacenamecontent").digest())
    assert rows["once me", b"claim"][0] == b"\0\0\0\5aboutanswer"
    assert rows["once ", b"claim"][0] == b"\0\0\0\5other"


def test_a_store_that_could_not_be_opened_holds_no_lock(tmp_path: Path) -> None:
    """Nor does a failed attempt release the lock of another object: SQLite's locks belong to the process."""
    path = tmp_path / "store"
    Store(path, {"role": "holder 1"}).close()
    with pytest.raises(JournalError) as error:  # keeps its frames, and what they refer to, alive
        Store(path, {"role": "holder 2"}, exclusive=True)
    with Store(path, {"role": "holder 1"}, exclusive=True, timeout=0) as opened:
        opened.put("a", b"x", b"1")
        with pytest.raises(JournalError):
            Store(path, timeout=0)
        program = "import sys; from psephos.protocol.storage.store import Store; Store(sys.argv[1], timeout=0)"
        other = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert "StoreInUseError" in other.stderr
    assert error.value


def test_a_store_of_another_run_is_refused(tmp_path: Path) -> None:
    Store(tmp_path / "store", {"role": "holder 1", "round": "ab"}).close()
    Store(tmp_path / "store", {"round": "ab", "role": "holder 1"}).close()
    with pytest.raises(JournalError):
        Store(tmp_path / "store", {"role": "holder 2", "round": "ab"})
    with pytest.raises(JournalError):
        Store(tmp_path / "store")


def test_a_store_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with Store(tmp_path / "folder" / "store") as opened:
        opened.put("a", b"x", b"secret")
        files = sorted((tmp_path / "folder").iterdir())
        assert [file.name for file in files] == ["store", "store-journal"]
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o700
    (tmp_path / "folder" / "store").chmod(0o640)
    with pytest.raises(JournalError):
        Store(tmp_path / "folder" / "store")
    (tmp_path / "folder" / "store").chmod(0o600)
    (tmp_path / "folder").chmod(0o755)
    with pytest.raises(JournalError):
        Store(tmp_path / "folder" / "store")


def in_files(folder: Path, secrets: Iterable[bytes]) -> list[bytes]:
    """Return the secrets that occur in any file of a folder."""
    files = [file.read_bytes() for file in folder.iterdir() if file.is_file()]
    return [secret for secret in secrets if any(secret in data for data in files)]


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_replaced_values_are_in_no_file(data: st.DataObject) -> None:
    """After each transaction: neither in the database, including unused parts of pages, nor in a journal.

    The log in the same table grows, so SQLite balances its pages and moves rows.
    """
    draw = random.Random(data.draw(st.integers(0, 2**32), label="seed"))
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "store", exclusive=draw.random() < 0.5) as store:
        store._run("PRAGMA synchronous = OFF")  # for the test's speed; what is read back is the same
        live: dict[tuple[str, bytes], bytes] = {}
        old: list[bytes] = []
        for turn in range(40):
            with store.transaction():
                store.put("log", turn.to_bytes(8, "big"), draw.randbytes(draw.choice([5, 100, 300, 900, 2500])))
                for space in draw.sample(ERASED_SPACES, draw.randrange(1, 3)):
                    name, secret = b"%d" % draw.randrange(3), draw.randbytes(32)
                    if (space, name) in live:
                        old.append(live[space, name])
                    live[space, name] = secret + draw.randbytes(draw.choice([0, 100, 300, 900, 9000]))
                    store.put(space, name, live[space, name])
            assert not in_files(Path(folder), [content[:32] for content in old])
        assert all(store.get(*place) == content for place, content in live.items())


def test_replaced_encryption_keys_are_in_no_file(tmp_path: Path) -> None:
    """Otherwise old copies of encrypted rows could be decrypted."""
    with Store(tmp_path / "store", exclusive=True) as store:
        keys = []
        for turn in range(30):
            store.put("log", turn.to_bytes(8, "big"), os.urandom(700))
            store.put("role", b"state", os.urandom(turn * 150))
            keys += store._run("SELECT key FROM secret")
            assert in_files(tmp_path, [key for (key,) in keys]) == [keys[-1][0]]
        assert len(set(keys)) == 30


def test_a_reader_of_the_old_state_blocks_its_replacement(tmp_path: Path) -> None:
    """The new state is not committed while another process reads the old one, and an error says so."""
    with Store(tmp_path / "store", timeout=0) as store:
        store.put("role", b"state", b"old")
        reader = sqlite3.connect(tmp_path / "store", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM records").fetchall()
        with pytest.raises(JournalError):
            store.put("role", b"state", b"new")
        assert store.get("role", b"state") == b"old"
        reader.close()
        store.put("role", b"state", b"new")
        assert store.get("role", b"state") == b"new"


def test_a_journal_mode_that_sqlite_does_not_take_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has `:memory:` in memory, where it keeps its own mode; a party's records would be lost at the end."""
    tmp_path.chmod(0o700)
    monkeypatch.chdir(tmp_path)
    for exclusive in (False, True):
        with pytest.raises(JournalError):
            Store(":memory:", exclusive=exclusive)


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="counts what the process reads, from Linux's /proc")
def test_large_values_are_not_read_with_others(tmp_path: Path) -> None:
    """A journal contains the keys of a million parties, which must not be read at each of thousands of commits."""

    def read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    with Store(tmp_path / "store") as store:
        for space in "ac":
            for name in (b"a", b"c", b"e"):
                store.put(space, name, bytes(10_000_000))
        before = read()
        for place in range(10):
            store.put("b", bytes([place]), b"small")
            assert store.last("b") == bytes([place])
            assert store.get("b", bytes([place])) == b"small"
            assert store.get("a", b"b") is None
        assert read() - before < 1_000_000


_FORK = """
import os, sys
from psephos.protocol.errors import JournalError
from psephos.protocol.storage.store import Store
store = Store(sys.argv[1])
if os.fork() == 0:
    try:
        store.put("a", b"x", b"1")
    except JournalError as error:
        os._exit("forked" not in str(error))
    os._exit(2)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]) or store.get("a", b"x") is not None)
"""


def test_a_forked_process_cannot_use_its_parents_store(tmp_path: Path) -> None:
    """SQLite's locks belong to the process, so a connection must not be used after a fork."""
    subprocess.run([sys.executable, "-c", _FORK, str(tmp_path / "store")], check=True)


# -- damage


@pytest.mark.parametrize(
    "statement",
    [
        *(
            "PRAGMA application_id = 7",
            "PRAGMA user_version = 2",
            "CREATE TABLE other (x)",
            "CREATE VIEW v AS SELECT 1",
        ),
        "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END",
    ],
)
def test_files_of_other_programs_and_formats_are_refused_and_left_alone(tmp_path: Path, statement: str) -> None:
    old, own, foreign = (tmp_path / name for name in ("text", "own", "foreign"))
    old.write_text("ab" * 32 + "\n")
    Store(own).close()
    for path in (own, foreign):
        with sqlite3.connect(path) as connection:
            connection.execute(statement if path is own or "records" not in statement else "CREATE TABLE records (x)")
        connection.close()
    for path in (old, own, foreign):
        path.chmod(0o600)
        before = path.read_bytes()
        with pytest.raises(JournalError):
            Store(path)
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE records SET content = x'00' WHERE name = x'05'",
        "UPDATE records SET content = 7 WHERE name = x'05'",
        "UPDATE records SET digest = 7 WHERE name = x'05'",
        "UPDATE records SET name = x'55' WHERE name = x'05'",
        "UPDATE records SET space = 'b' WHERE name = x'05'",
        "UPDATE records SET space = x'61' WHERE name = x'05'",
        "UPDATE records SET content = (SELECT content FROM records WHERE name = x'06'), "
        "digest = (SELECT digest FROM records WHERE name = x'06') WHERE name = x'05'",
        "DELETE FROM records WHERE space = 'store'",
        "DROP TABLE records",
    ],
)
def test_changed_rows_are_detected(tmp_path: Path, change: str) -> None:
    path = tmp_path / "store"
    with Store(path) as store:
        for number in range(10):
            store.put("a", bytes([number]), bytes([number]) * 10)
    with sqlite3.connect(path) as connection:
        connection.execute(change)
    connection.close()
    with pytest.raises(JournalError):
        Store(path)


def test_a_row_that_is_changed_while_the_store_is_open_is_detected(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    OnceLedger(store).do_once(b"round", b"product", lambda: b"answer")
    with sqlite3.connect(tmp_path / "store") as connection:
        connection.execute("UPDATE records SET content = x'00' WHERE name = ?", [b"round"])
    connection.close()
    with pytest.raises(JournalError):
        OnceLedger(store).do_once(b"round", b"product", never)


def test_a_damaged_file_is_refused_or_returns_what_was_written(tmp_path: Path) -> None:
    """120 random places of the file: one bit is flipped, or the file is truncated there."""
    path, broken = tmp_path / "store", tmp_path / "broken"
    expected = {bytes([number]): random.Random(number).randbytes(number * 40) for number in range(60)}
    with Store(path) as store:
        for name, content in expected.items():
            store.put("a", name, content)
    whole, draw, refused = path.read_bytes(), random.Random(9), 0
    for turn in range(120):
        place = draw.randrange(len(whole))
        changed = bytearray(whole)
        changed[place] ^= 1 << draw.randrange(8)
        broken.write_bytes(whole[: 1 + place] if turn % 8 == 0 else changed)
        broken.chmod(0o600)
        try:
            with Store(broken) as opened:
                assert dict(opened.items("a")) == expected
        except JournalError:
            refused += 1
        (tmp_path / "broken-journal").unlink(missing_ok=True)
    assert refused > 30  # the other changes were in unused parts of the file


# -- full disks


@pytest.mark.parametrize("statement", ["PRAGMA max_page_count = 9", "PRAGMA query_only = ON"])
def test_a_failed_write_leaves_the_old_value(store: Store, statement: str) -> None:
    store.put("a", b"x", b"before")
    store._run(statement)

    def both() -> None:
        with store.transaction():
            store.put("a", b"x", b"after")
            store.put("a", b"y", os.urandom(100_000))

    with pytest.raises(JournalError):
        both()
    store._run("PRAGMA query_only = OFF")
    assert dict(store.items("a")) == {b"x": b"before"}


_FILL = """
import json, os, resource, signal, sys
from psephos.protocol.errors import JournalError
from psephos.protocol.storage.store import Store
if sys.argv[2:]:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
store, written = Store(sys.argv[1]), 0
try:
    while written < 200:
        with store.transaction():
            store.put("a", bytes([written]), os.urandom(50_000))
            store.put("b", bytes([written]), b"both")
        written += 1
except JournalError:
    print(json.dumps([written, len(list(store.items("a"))), len(list(store.items("b")))]))
"""


def test_a_limit_on_the_file_size_keeps_committed_values(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _FILL, str(tmp_path / "store"), "limited"]
    completed = subprocess.run(command, capture_output=True, text=True, check=True)
    written, first, second = json.loads(completed.stdout)
    assert 0 < written == first == second
    with Store(tmp_path / "store") as store:
        assert len(list(store.items("a"))) == written


def test_a_commit_is_on_disk_when_it_returns(tmp_path: Path) -> None:
    """With SQLite's FULL, a party does not forget after a power failure that it has voted."""
    with Store(tmp_path / "store") as store:
        assert store._run("PRAGMA synchronous") == [(2,)]
