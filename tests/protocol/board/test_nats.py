"""`NatsBoard`: on a real server with TLS and permissions for each role, and without a server."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nats.js.api import (
    DiscardPolicy,
    RawStreamMsg,
    RePublish,
    RetentionPolicy,
    StorageType,
    StreamConfig,
    StreamConsumerLimits,
    StreamSource,
    SubjectTransform,
)

from psephos.protocol.board import MOST_BYTES
from psephos.protocol.board.address import open_board
from psephos.protocol.board.client import BoardMembers
from psephos.protocol.board.nats import PASSWORD_VARIABLE, NatsBoard
from psephos.protocol.board.server import start_server, trial_certificates, write_server
from psephos.protocol.errors import BoardError, InvalidParameter, MessageError
from psephos.protocol.signing import SigningKey
from tests.protocol.board.servers import Offline, Stream


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class StudyServer:
    """A server for one study, and the keys of its roles."""

    folder: Path
    keys: dict[str, SigningKey]
    session: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    port: int = field(default_factory=free_port)
    boards: list[NatsBoard] = field(default_factory=list)

    def __post_init__(self) -> None:
        members = BoardMembers(self.session, {name: key.verification_key for name, key in self.keys.items()})
        self.reading = write_server(self.folder, members, ["127.0.0.1"], self.port)
        self.server = start_server(self.folder)

    @property
    def address(self) -> str:
        return f"tls://127.0.0.1:{self.port}?ca={self.folder / 'ca.pem'}"

    def board(self, name: str, key: SigningKey | None = None, **more: float) -> NatsBoard:
        board = NatsBoard(self.address, self.session, name, key or self.keys[name], **more)
        self.boards.append(board)
        return board

    def restart(self) -> None:
        """Kill the server and start it again."""
        self.server.kill()
        self.server.wait()
        self.server = start_server(self.folder)

    def close(self) -> None:
        for board in self.boards:
            board.close()
        self.server.kill()
        self.server.wait()


@pytest.fixture
def server(tmp_path: Path, nats_server: str) -> Iterator[StudyServer]:
    roles = ("curator", "party 0", "party 1")
    opened = StudyServer(tmp_path / "server", {name: SigningKey.generate() for name in roles})
    yield opened
    opened.close()


def contents(board: NatsBoard, after: int = 0) -> list[bytes]:
    numbered = list(board.read(after))
    assert [number for number, _ in numbered] == list(range(after + 1, after + 1 + len(numbered)))
    return [data for _, data in numbered]


@pytest.mark.nats
def test_all_readers_see_one_order(server: StudyServer) -> None:
    one, two = server.board("party 0"), server.board("party 1")
    sent = []
    for k in range(40):
        sent.append(secrets.token_bytes(k + 1))
        (one, two)[k % 2].post(sent[-1])
    one.post(sent[0])  # the server drops the repetition
    reader = NatsBoard(server.reading, server.session)
    server.boards.append(reader)
    assert contents(reader) == contents(one) == contents(two) == sent
    assert contents(reader, 33) == sent[33:]
    assert contents(reader, 40) == []
    with pytest.raises(BoardError):
        reader.post(b"x")
    with pytest.raises(BoardError):
        list(reader.read(41))


@pytest.mark.nats
def test_long_entries_are_posted_in_parts_and_read_as_one(server: StudyServer) -> None:
    one, two = server.board("party 0"), server.board("party 1")
    long = secrets.token_bytes(3_200_000)
    one.post(b"before")
    one.post(long)
    one.post(long)
    two.post(b"after")
    assert contents(two) == [b"before", b"", b"", b"", b"", long, b"after"]
    assert contents(two, 3) == [b"", b"", long, b"after"]
    with pytest.raises(MessageError):
        one.post(bytes(MOST_BYTES + 1))


@pytest.mark.nats
def test_a_part_is_fetched_for_one_entry_only(server: StudyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists that repeat a part, or name those of an earlier list, cost their author as much as each reader."""
    evil = server.board("party 0")
    part = bytes(1_000_000)
    number = evil._run(evil._publish("part", part))
    lists = [listing(part * 67, *[number] * 67), *(listing(part, number) + bytes([0] * 7 + [k]) for k in range(20))]
    lists[1:1] = [listing(part, number)]
    for data in lists:
        evil._run(evil._publish("parts", data))
    reader = NatsBoard(server.reading, server.session)
    server.boards.append(reader)
    fetched: list[int] = []
    fetch = reader._fetch_one

    async def counting(number: int) -> RawStreamMsg:
        message = await fetch(number)
        fetched.append(len(message.data or b""))
        return message

    monkeypatch.setattr(reader, "_fetch_one", counting)
    entries = contents(reader)
    assert entries[0] == b""
    assert entries[1:] == lists, "the first list of the author after the part repeats it"
    assert sum(fetched) == len(part) + sum(map(len, lists))


@pytest.mark.nats
def test_incomplete_and_foreign_parts_delay_nobody(server: StudyServer) -> None:
    one, two = server.board("party 0"), server.board("party 1")
    long = secrets.token_bytes(2_000_001)
    digest = hashlib.sha256(long).digest()
    mine = [
        one._run(one._publish("part", long[at : at + 1_000_000], digest + at.to_bytes(8, "big")))
        for at in (0, 1_000_000)
    ]  # then it is killed
    two.post(b"meanwhile")
    stolen = two._run(two._publish("parts", secrets.token_bytes(32) + b"".join(n.to_bytes(8, "big") for n in mine)))
    two._run(two._publish("parts", b"short"))
    two._run(two._publish("parts", secrets.token_bytes(32) + (10**9).to_bytes(8, "big")))
    two._run(two._publish("parts", secrets.token_bytes(32) + mine[0].to_bytes(8, "big") * 100))
    one.post(long)  # after the restart: parts that the server has are not stored again
    entries = contents(server.board("curator"))
    assert entries[:3] == [b"", b"", b"meanwhile"]
    assert len(entries[stolen - 1]) == 48
    assert entries[-2:] == [b"", long]
    assert len(entries) == 9


def sockets() -> set[str]:
    """Return the sockets of this process."""
    targets = set()
    for place in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the listing's own
            targets.add(os.readlink(place))
    return {name for name in targets if name.startswith("socket:")}


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("secure", [False, True])
def test_no_connection_is_left_to_a_server_that_stops_answering(secure: bool, tmp_path: Path) -> None:
    """It accepts the connection, with TLS or without, and then sends nothing, so only this side can end it."""
    for name, content in trial_certificates(["127.0.0.1"]).items():
        (tmp_path / name).write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    info = {"server_id": "S", "version": "2.10.0", "proto": 1, "max_payload": 2**20, "tls_required": secure}
    with contextlib.ExitStack() as opened:
        listening = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        listening.settimeout(10)  # a client that never connects ends the test
        port = listening.getsockname()[1]
        over = threading.Event()

        def serve() -> None:
            one, _ = listening.accept()
            one.sendall(b"INFO " + json.dumps(info).encode() + b"\r\n")
            with context.wrap_socket(one, server_side=True) if secure else one:
                over.wait()

        thread = threading.Thread(target=serve)
        thread.start()
        opened.callback(thread.join)
        opened.callback(over.set)
        address = f"tls://127.0.0.1:{port}?ca={tmp_path / 'ca.pem'}" if secure else f"nats://127.0.0.1:{port}"
        before = sockets()
        with pytest.raises(BoardError):
            NatsBoard(address, bytes(32), timeout=0.5)
        assert len(sockets() - before) == 1, "the server's end of it only"


@pytest.mark.nats
def test_unknown_keys_and_other_servers_are_refused(server: StudyServer, tmp_path: Path) -> None:
    with pytest.raises(BoardError):
        server.board("party 0", SigningKey.generate(), timeout=3)
    with pytest.raises(BoardError):
        open_board(server.address, server.session)
    (tmp_path / "other.pem").write_bytes(trial_certificates(["127.0.0.1"])["ca.pem"])
    wrong = server.address.replace(str(server.folder / "ca.pem"), str(tmp_path / "other.pem"))
    with pytest.raises(BoardError):
        open_board(wrong, server.session, "party 0", server.keys["party 0"])
    with pytest.raises(BoardError):
        open_board(server.address.replace("127.0.0.1", "localhost"), server.session, "party 0", server.keys["party 0"])
    with pytest.raises(BoardError):
        open_board(f"tls://127.0.0.1:{server.port}?ca=/nowhere.pem", server.session)
    with pytest.raises(BoardError):
        open_board(f"nats://127.0.0.1:{free_port()}", server.session)
    with pytest.raises(BoardError):
        open_board(server.reading, server.session)
    with pytest.raises(BoardError):  # another study's
        NatsBoard(server.address, bytes(32), "party 0", server.keys["party 0"], timeout=3)


@pytest.mark.nats
def test_permissions_of_readers_and_members(
    server: StudyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither may create another stream, use other subjects or receive the answers to others."""
    one = server.board("party 0", timeout=3)
    one.post(b"one's")
    reader = NatsBoard(server.reading, server.session, timeout=3)
    server.boards.append(reader)
    session = server.session.hex()[:16]
    for board in (reader, one):
        js = board._client.jetstream(timeout=3)
        for attempt in (
            lambda js=js: js.publish(f"psephos.{session}.curator.entry", b"x"),
            lambda js=js: js.publish("elsewhere", b"x"),
            lambda js=js: js.add_stream(name="another", subjects=["elsewhere"]),
            lambda js=js: js.delete_msg(one._stream, 1),
            lambda js=js: js.purge_stream(one._stream),
            lambda js=js: js.delete_stream(one._stream),
            lambda js=js: js.update_stream(name=one._stream, max_msgs=1),
            lambda js=js: js.streams_info(),
            lambda js=js: js.pull_subscribe("psephos.>", "durable", stream=one._stream),
        ):
            with pytest.raises(BoardError):
                board._run(attempt())

    js = one._client.jetstream(timeout=3)
    with pytest.raises(BoardError):
        one._run(js.publish(f"psephos.{session}.party-0.entry", b"", headers={"Nats-Rollup": "all"}))

    async def overhear() -> None:
        await reader._client.subscribe("_INBOX.>")
        await reader._client.flush()
        await asyncio.sleep(3)

    with pytest.raises(BoardError):
        reader._run(overhear())
    (tmp_path / "other").touch(mode=0o600)
    (tmp_path / "other").write_text("another")
    with pytest.raises(BoardError):
        NatsBoard(f"{server.address}&reader={tmp_path / 'other'}", server.session, timeout=3)
    monkeypatch.setenv(PASSWORD_VARIABLE, (server.folder / "reader.password").read_text().strip())
    with contextlib.closing(NatsBoard(server.address, server.session)) as by_environment:
        assert contents(by_environment) == [b"one's"]
    assert contents(reader) == [b"one's"]


@pytest.mark.nats
def test_idle_strangers_keep_no_member_out(server: StudyServer) -> None:
    """Whether they say nothing, stop after the TLS handshake, or are readers that never leave: 300 of each."""
    context = ssl.create_default_context(cafile=str(server.folder / "ca.pem"))
    server.board("curator").post(b"begun")
    watchers, started = 0, time.monotonic()
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10))
            stranger = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10))
            with contextlib.suppress(OSError):
                stranger.recv(1 << 12)
                stack.enter_context(context.wrap_socket(stranger, server_hostname="127.0.0.1"))
        assert contents(server.board("party 0", timeout=5)) == [b"begun"]
        assert time.monotonic() - started < 60
        for _ in range(70):
            try:
                server.boards.append(NatsBoard(server.reading, server.session, timeout=5))
                watchers += 1
            except BoardError:
                break
        assert watchers >= 60, "there is room for many"
        server.board("party 1", timeout=5).post(b"while all places of readers are taken")
    with pytest.raises(BoardError):
        NatsBoard(server.reading, server.session, timeout=5)


@pytest.mark.nats
def test_three_replicating_servers_lose_nothing_when_one_is_killed(server: StudyServer, tmp_path: Path) -> None:
    """Each has the configuration of docs/study-operations.md, with its own name, store and routes."""
    ports, routes = [free_port() for _ in range(3)], [free_port() for _ in range(3)]
    conf = (server.folder / "nats.conf").read_text()
    folders = []
    for k in range(3):
        folder = tmp_path / f"server-{k}"
        shutil.copytree(server.folder, folder, ignore=shutil.ignore_patterns("jetstream"))
        others = ", ".join(f'"nats-route://127.0.0.1:{port}"' for port in routes)
        text = re.sub(r'server_name: ".*"', f'server_name: "server-{k}"', conf).replace(str(server.folder), str(folder))
        text = text.replace(f"port: {server.port}", f"port: {ports[k]}")
        text += f'cluster {{ name: "psephos", listen: "127.0.0.1:{routes[k]}", routes: [{others}] }}\n'
        (folder / "nats.conf").write_text(text)
        folders.append(folder)
    with ThreadPoolExecutor() as pool:
        servers = list(pool.map(start_server, folders))

    def board(name: str, at: int) -> NatsBoard:
        address = f"tls://127.0.0.1:{ports[at]}?ca={folders[at] / 'ca.pem'}&replicas=3"
        until = time.monotonic() + 30
        while True:
            try:
                client = NatsBoard(address, server.session, name, server.keys[name], timeout=2)
            except BoardError:  # no leader yet
                assert time.monotonic() < until
                continue
            server.boards.append(client)
            return client

    def insist(board: NatsBoard, data: bytes) -> None:
        until = time.monotonic() + 30
        while True:
            try:
                return board.post(data)
            except BoardError:  # a new leader is being chosen; what was stored is not stored twice
                assert time.monotonic() < until

    try:
        one = board("party 0", 0)
        for k in range(10):
            insist(one, bytes([k]))
        leader = one._run(one._client.jetstream().stream_info(one._stream)).cluster.leader  # type: ignore[union-attr]
        lost = int(leader.rpartition("-")[2])
        servers[lost].kill()
        servers[lost].wait()
        two = board("party 1", (lost + 1) % 3)
        for k in range(10, 20):
            insist(two, bytes([k]))
        servers[lost] = start_server(folders[lost])
        again = board("curator", lost)
        until = time.monotonic() + 30
        while len(entries := contents(again)) < 20:  # it catches up
            assert time.monotonic() < until
        assert entries == [bytes([k]) for k in range(20)]
    finally:
        for each in servers:
            each.kill()
            each.wait()


@pytest.mark.nats
def test_a_stream_with_a_limit_is_refused(server: StudyServer) -> None:
    """On a server without permissions, somebody else created it first."""
    folder, port = server.folder.parent / "open", free_port()
    folder.mkdir()
    (folder / "nats.conf").write_text(f'port: {port}\njetstream {{ store_dir: "{folder}" }}\n')
    process = start_server(folder)
    try:
        first = NatsBoard(f"nats://127.0.0.1:{port}", bytes(32), "curator", server.keys["curator"])
        stream = first._stream.replace("0" * 16, "1" * 16)
        subjects = [f"psephos.{'11' * 8}.>"]
        first._run(first._client.jetstream().add_stream(name=stream, subjects=subjects, max_msgs=5))
        first.close()
        with pytest.raises(BoardError):
            NatsBoard(f"nats://127.0.0.1:{port}", b"\x11" * 32, "curator", server.keys["curator"])
    finally:
        process.kill()
        process.wait()


@pytest.mark.nats
def test_a_killed_server_loses_no_acknowledged_entry(server: StudyServer) -> None:
    board = server.board("party 0", timeout=2)
    acknowledged, stop = [], threading.Event()

    def upload() -> None:
        while not stop.is_set():
            data = secrets.token_bytes(200_000)
            while True:
                try:
                    board.post(data)
                    break
                except BoardError:
                    if stop.is_set():
                        return
            acknowledged.append(data)

    thread = threading.Thread(target=upload)
    thread.start()
    try:
        for _ in range(3):
            seen = len(acknowledged)
            while len(acknowledged) < seen + 5 and thread.is_alive():
                thread.join(0.01)
            assert thread.is_alive()
            server.restart()
    finally:
        stop.set()
        thread.join()
    entries = contents(server.board("party 1"))
    assert [data for data in entries if data in set(acknowledged)] == acknowledged
    assert len(entries) - len(acknowledged) <= 1  # stored, and killed before it said so
    assert contents(board) == entries  # it has reconnected by itself


# -- what a server may ask for


class Hostile(threading.Thread):
    """A server that sends one greeting and records the answer."""

    def __init__(self, **greeting: object) -> None:
        super().__init__(daemon=True)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._greeting = json.dumps({"server_id": "x", "version": "2.10.0", "max_payload": 1 << 20, **greeting})
        self.heard = b""
        self.start()

    def run(self) -> None:
        self._socket.settimeout(5)
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(1)
                connection.sendall(b"INFO " + self._greeting.encode() + b"\r\n")
                try:
                    while data := connection.recv(65536):
                        self.heard += data
                except OSError:
                    continue

    def close(self) -> None:
        self._socket.close()


@pytest.mark.parametrize(
    "nonce", ["PSEPHOS ENTRY\x01" + "x" * 32, "psephos sealed\0", "a" * 41, "", "two words", "line\nbreak"]
)
def test_only_challenges_are_signed(nonce: str) -> None:
    hostile = Hostile(auth_required=True, nonce=nonce, headers=True)
    with pytest.raises(BoardError):
        NatsBoard(f"nats://127.0.0.1:{hostile.port}", bytes(32), "curator", SigningKey.generate(), timeout=2)
    hostile.close()
    assert b"CONNECT" not in hostile.heard


@pytest.mark.parametrize("announced", [{}, {"tls_required": False}, {"tls_available": True}])
def test_no_password_is_sent_without_tls(announced: dict[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = Hostile(auth_required=True, headers=True, **announced)
    monkeypatch.setenv(PASSWORD_VARIABLE, "SECRET")
    with pytest.raises(BoardError):
        NatsBoard(f"tls://127.0.0.1:{hostile.port}", bytes(32), timeout=2)
    hostile.close()
    assert hostile.heard == b""


@pytest.mark.parametrize("announced", [{}, {"tls_required": False}, {"tls_available": True}])
def test_no_challenge_is_signed_without_tls(announced: dict[str, bool]) -> None:
    """Whoever takes `tls_required` out of the server's greeting would hear everything."""
    hostile = Hostile(auth_required=True, nonce="challenge", headers=True, **announced)
    with pytest.raises(BoardError):
        NatsBoard(f"tls://127.0.0.1:{hostile.port}", bytes(32), "curator", SigningKey.generate(), timeout=2)
    hostile.close()
    assert b"CONNECT" not in hostile.heard


def test_nats_py_is_needed_for_servers_only() -> None:
    program = (
        "import sys; sys.modules['nats'] = None\n"
        "from psephos.protocol.board.address import open_board\n"
        "from psephos.protocol.errors import BoardError\n"
        "try: open_board('nats://x', bytes(32))\n"
        "except BoardError as error: assert '.[nats]' in str(error)\n"
        "else: raise SystemExit('opened')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# -- without a server: addresses, names, what is asked for and what is made of the answers

KEY = SigningKey(bytes(range(32)))


@pytest.fixture
def stream() -> Stream:
    return Stream()


@pytest.fixture
def board(stream: Stream) -> Iterator[Offline]:
    opened = Offline("nats://host", stream, "party 3", KEY, timeout=7.0)
    yield opened
    assert opened.timeouts == {7.0}
    for _ in range(2):
        opened.close()
        assert opened._loop.is_closed()
        assert not opened._thread.is_alive()


@pytest.mark.parametrize(
    "url",
    [
        *("nats:///x", "tls://", "nats://", "nats://host:0", "nats://host:65536", "tls://host:0x1"),
        *("tls://host?cafile=x", "nats://host?ca=x&b=1", "nats://host?replicas=-1", "nats://host?replicas=two"),
        *("tls://reader:SECRET@host", "tls://reader@host"),
    ],
)
def test_malformed_addresses_are_refused(url: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        open_board(url, bytes(32))
    assert "SECRET" not in str(refused.value)


OTHER_VALUES: dict[str, Any] = {
    "subjects": ["psephos.>"],
    "retention": RetentionPolicy.INTEREST,
    "discard": DiscardPolicy.OLD,
    "storage": StorageType.MEMORY,
    "max_msgs": 1,
    "max_bytes": 1,
    "max_age": 1,
    "deny_delete": False,
    "deny_purge": False,
    "allow_direct": False,
    "name": "another",
    "duplicate_window": 1.0,
    "mirror": StreamSource(name="another"),
    "sources": [StreamSource(name="another")],
    "republish": RePublish(src=">", dest="x.>"),
    "subject_transform": SubjectTransform(src=">", dest="x.>"),
    "persist_mode": "async",
    "consumer_limits": StreamConsumerLimits(max_ack_pending=1),
}
"""Values that a stream must not have; of all other fields that nats-py knows, True or 1 is one."""


@pytest.mark.parametrize("name", [field.name for field in fields(StreamConfig)])
def test_a_stream_with_another_field_is_refused(stream: Stream, board: Offline, name: str) -> None:
    """Every field is compared, unless the operator may choose it; the stream is created so that it keeps everything."""
    value = OTHER_VALUES.get(name, 1)
    stream.config = replace(stream.added, **{name: value})
    if name in ("description", "num_replicas", "placement", "compression", "metadata"):
        Offline("nats://host", stream, "party 3", KEY).close()
        return
    with pytest.raises(BoardError):
        Offline("nats://host", stream, "party 3", KEY)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("board at host")] == [
        "board at host:4222"  # of the board that is open
    ]


def test_a_stream_whose_fields_mean_the_same_is_accepted(stream: Stream, board: Offline) -> None:
    """What is off is left out, false, zero or empty, or an object of such fields, as servers of other versions say."""
    off: dict[str, Any] = {"consumer_limits": StreamConsumerLimits(), "sources": [], "first_seq": 0, "no_ack": None}
    for changes in (
        {"num_replicas": 3, "max_consumers": None, "mirror_direct": False, "metadata": {"_nats.level": "1"}},
        {"mirror": StreamSource(name=""), "persist_mode": "", "allow_atomic": False, **off},
    ):
        stream.config = replace(stream.added, **changes)
        Offline("nats://host", stream, "party 3", KEY).close()
    stream.config = stream.added = None
    with pytest.raises(BoardError):
        Offline("nats://host", stream)


def test_messages_are_fetched_in_windows(stream: Stream, board: Offline) -> None:
    for number in range(1, 71):
        stream.messages[number] = RawStreamMsg(subject="psephos.0.x.entry", seq=number, data=b"%d" % number)
    stream.messages[5] = RawStreamMsg(subject="psephos.0.x.part", seq=5, data=b"a part")
    stream.messages[6] = RawStreamMsg(subject="psephos.0.x.entry", seq=6, data=None)
    digest = hashlib.sha256(b"a part").digest()
    stream.messages[7] = RawStreamMsg(subject="psephos.0.x.parts", seq=7, data=digest + (5).to_bytes(8, "big"))
    stream.state.last_seq = 70
    entries = dict(board.read(0))
    assert list(entries) == list(range(1, 71))
    assert (entries[4], entries[5], entries[6], entries[7], entries[70]) == (b"4", b"", b"", b"a part", b"70")
    assert sorted(stream.asked) == sorted([*range(1, 71), 5])
    stream.asked.clear()
    assert list(board.read(69)) == [(70, b"70")]
    assert stream.asked == [70]
    assert list(board.read(70)) == []
    reading = iter(board.read(0))
    stream.asked.clear()
    next(reading)
    assert max(stream.asked, default=0) <= 64, "one window ahead and no more"
    with pytest.raises(BoardError):
        list(board.read(71))
    for wrong in ({"first_seq": 2}, {"deleted": [3]}, {"num_deleted": 1}):
        stream.state = SimpleNamespace(**{"last_seq": 70, "first_seq": 1, "deleted": None, "num_deleted": None} | wrong)
        with pytest.raises(BoardError):
            list(board.read(0))
    stream.state = SimpleNamespace(last_seq=71, first_seq=0, deleted=None, num_deleted=0)
    for number in (None, 1, 3):
        with pytest.raises(BoardError):
            list(board.read(70))
        stream.messages[71] = RawStreamMsg(subject="psephos.0.x.entry", seq=number, data=b"another")


class GivenParts(NatsBoard):
    """A board without a server, with these parts."""

    def __init__(self, **parts: RawStreamMsg) -> None:
        self.parts = {int(name[1:]): part for name, part in parts.items()}
        self.asked = 0

    async def _fetch_one(self, number: int) -> RawStreamMsg:
        self.asked += 1
        return self.parts.get(number) or RawStreamMsg(subject="a.b.part", data=bytes(1_000_000))

    async def _next_list(self, subject: str, number: int) -> int | None:
        return 100


def whole(board: GivenParts, data: bytes | None, seq: int | None = 100, subject: str | None = "a.b.parts") -> bytes:
    return asyncio.run(board._join_parts(RawStreamMsg(subject=subject, seq=seq, data=data)))


def listing(entry: bytes, *numbers: int) -> bytes:
    return hashlib.sha256(entry).digest() + b"".join(number.to_bytes(8, "big") for number in numbers)


@pytest.mark.slow
def test_lists_of_parts_that_do_and_do_not_form_an_entry() -> None:
    parts = GivenParts(
        _1=RawStreamMsg(subject="a.b.part", data=b"one"),
        _99=RawStreamMsg(subject="a.b.part", data=b"two"),
        _3=RawStreamMsg(subject="a.c.part", data=b"one"),
        _4=RawStreamMsg(subject="a.b.entry", data=b"one"),
        _5=RawStreamMsg(subject="a.b.part", data=None),
    )
    right = listing(b"onetwo", 1, 99)
    assert whole(parts, right) == b"onetwo"
    assert whole(parts, listing(b"onetwo", 1, 5, 99)) == b"onetwo"
    assert whole(parts, right, seq=101) == right, "another list, 100, came before"
    assert whole(parts, listing(b"", 5)) == b""
    requests = parts.asked
    twice = listing(b"oneone", 1, 1)
    backwards = listing(b"twoone", 99, 1)
    many = listing(b"", *range(1, 70))
    for wrong, seq in (
        (listing(b"onetwo", 0, 1), 100),
        (right, 99),
        (right, None),
        (many, 100),
        (twice, 100),
        (backwards, 100),
        (right, 101),
    ):
        assert whole(parts, wrong, seq) == wrong
    assert parts.asked == requests, "nothing is fetched for an invalid list"
    for wrong in (listing(b"onetwo", 3, 99), listing(b"onetwo", 4, 99), listing(b""), b"short", b""):
        assert whole(parts, wrong) == wrong
    assert whole(parts, None) == b""
    assert whole(parts, right, subject=None) == right
    most = bytes(MOST_BYTES)
    rest = RawStreamMsg(subject="a.b.part", data=bytes(MOST_BYTES - 67_000_000))
    parts = GivenParts(_68=rest)
    assert whole(parts, listing(most, *range(1, 69))) == most
    parts.parts[68] = RawStreamMsg(subject="a.b.part", data=bytes(MOST_BYTES - 67_000_000 + 1))
    long = listing(most + b"\0", *range(1, 69))
    assert whole(parts, long) == long
