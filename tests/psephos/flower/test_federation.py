"""`flwr run` of a study with five clients on this machine, two of which are killed in the middle."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from psephos.flower.relay import Relay, answer
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.board.file import BoardFile
from psephos.protocol.study.study import CURATOR, Study
from psephos.study.builder import NewOptions, make_study
from psephos.study.identity import Identity, fingerprint
from psephos.study.member import Membership, sign
from psephos.study.runner import MemberRunner
from psephos.study.trial import _write_data

ROOT = Path(__file__).resolve().parents[3]
NAMES = [f"party-{number}" for number in range(5)]
HOLDERS = NAMES[:3]
SCRIPTS = Path(sys.executable).parent


def prepare(folder: Path) -> Study:
    """Five parties, three of them holders, and a curator have joined; one party may be missing."""
    folder.mkdir(exist_ok=True)
    _write_data(folder, NAMES)
    identities = {name: Identity.create(name, folder / name) for name in (*NAMES, CURATOR)}
    options = NewOptions(
        title="A federation",
        curator=str(folder / CURATOR / "card.toml"),
        public=str(folder / "public.csv"),
        label="diagnosis",
        classes=("malignant", "benign"),
        epsilon=10.0,
        delta=1e-6,
        key_bits=256,
        trial=True,
        minimum_ballots=4,
        parameters=("dropouts=1",),
        patience=20,
    )
    study, _ = make_study(options, [folder / name / "card.toml" for name in NAMES])
    study.write(folder / "study.toml")
    for name, identity in identities.items():
        own = {} if name == CURATOR else {"data": str(folder / f"{name}.csv")}
        board = str(folder / "board.sqlite") if name == CURATOR else f"copy:{folder / name / 'board.sqlite'}"
        sign(study, identity).keep(board=board, public=str(folder / "public.csv"), **own)
    return study


def play(folder: Path, names: Sequence[str], until: Callable[[str], bool]) -> None:
    """Exchange messages without Flower, until that is true of the curator's status."""
    member = Membership.find(Identity.read(folder / CURATOR))
    board = BoardFile(folder / "board.sqlite")
    relay = Relay(board, member.study.members)
    identities = [Identity.read(folder / name) for name in names]
    with MemberRunner(member, member.names) as runner:
        while not until(runner.statuses()[0][1]):
            runner.step(patient=True)
            for node, identity in enumerate(identities):
                relay.receive(node, *answer(identity, member.study.digest, *relay.next(node)))
    board.close()


def make_key(folder: Path) -> None:
    """The holders' agents, opened once, make the key over their copies, and may vote; the other parties do not."""
    board = BoardFile(folder / "board.sqlite")
    members = [Membership.find(Identity.read(folder / name)) for name in (CURATOR, *HOLDERS)]
    copies = [BoardFile(folder / name / "board.sqlite", copy=True) for name in HOLDERS]
    with ExitStack() as stack:
        runners = [stack.enter_context(MemberRunner(member, member.names)) for member in members]
        while runners[0].statuses()[0][1].startswith(("has joined", "waits for the key")):
            runners[0].step(patient=True)
            for runner, copy in zip(runners[1:], copies, strict=True):
                copy.extend(copy.count(), [data for _, data in board.read(copy.count())], "the board")
                runner.step(patient=True)
                for data in copy.unposted():
                    board.post(data)
    for opened in (board, *copies):
        opened.close()


def released(folder: Path, names: Sequence[str]) -> list[Path]:
    study = fingerprint(Study.read(folder / "study.toml").digest)
    return [folder / name / study / "released/model.json" for name in names]


def verify(folder: Path) -> None:
    words = ("verify", "study.toml", "--board", "board.sqlite", "--public", "public.csv")
    subprocess.run([sys.executable, "-m", "psephos", *words], cwd=folder, check=True)


@pytest.mark.slow
def test_a_study_runs_over_exchanged_entries(tmp_path: Path) -> None:
    prepare(tmp_path)
    play(tmp_path, NAMES, lambda status: "has joined" not in status)
    make_key(tmp_path)
    play(tmp_path, NAMES, lambda status: status.startswith("done"))
    play(tmp_path, NAMES, lambda status: all(path.exists() for path in released(tmp_path, NAMES)))
    assert len({path.read_bytes() for path in released(tmp_path, [CURATOR, *NAMES])}) == 1
    verify(tmp_path)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Federation:
    """A SuperLink and SuperNodes, each in a process group of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.link, *self.ports = free_ports(1 + len(NAMES))
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        home = folder / "flwr"
        home.mkdir()
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{self.link}"\ninsecure = true\n'
        )
        self.environment = {
            **os.environ,
            "FLWR_HOME": str(home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}",
        }
        port = ("--host", "127.0.0.1", "--port", str(self.link))
        self.start("superlink", "--insecure", *port)

    def start(self, name: str, *words: str, **environment: str) -> None:
        program = "flower-superlink" if name == "superlink" else "flower-supernode"
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [SCRIPTS / program, *words],
                cwd=self.folder,
                env=self.environment | environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def join(self, name: str) -> None:
        """Start a SuperNode; party 1's has its identity from the environment, as in NVIDIA FLARE."""
        identity = str(self.folder / name)
        node = ("--insecure", "--superlink", f"127.0.0.1:{self.link}", "--port", str(self.ports[NAMES.index(name)]))
        if name == NAMES[1]:
            self.start(name, *node, PSEPHOS_IDENTITY=identity)
        else:
            self.start(name, *node, "--node-config", f'identity="{identity}"')

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def flwr(self, *words: str) -> str:
        done = subprocess.run(
            [SCRIPTS / "flwr", *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr


@contextmanager
def federation(folder: Path) -> Iterator[Federation]:
    made = Federation(folder)
    try:
        yield made
    finally:
        for name in list(made.running):
            made.kill(name)


def wait_for(what: Callable[[], bool], seconds: float = 300.0) -> None:
    ends = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < ends, "nothing happened"
        time.sleep(0.5)


@pytest.mark.soak
@pytest.mark.skipif(find_spec("flwr") is None, reason="needs the extra flower")
def test_a_study_ends_although_clients_are_killed(tmp_path: Path) -> None:
    """A holder comes back, as another node with the same files; a party does not."""
    prepare(tmp_path)
    make_key(tmp_path)
    play(tmp_path, HOLDERS, lambda status: status.startswith("has counted 3"))
    shutil.copytree(ROOT / "docs/examples/flower", tmp_path / "app")
    board = BoardFile(tmp_path / "board.sqlite")

    def count(author: str) -> int:
        return sum(SignedEntry.decode(data).author == author for _, data in board.read(0))

    voted, remaining = count("party 3"), [CURATOR, *NAMES[:4]]
    with federation(tmp_path) as made:
        for name in NAMES:
            made.join(name)
        made.kill("party-4")
        words = ("run", "app", "--run-config", f'identity="{tmp_path / CURATOR}" lost=20.0')
        wait_for(lambda: "Successfully started run" in made.flwr(*words), 60)
        wait_for(lambda: count("party 3") > voted)
        made.kill("party-0")
        made.join("party-0")
        close = [sys.executable, "-m", "psephos", "agent", CURATOR, "--close"]
        subprocess.run(close, cwd=tmp_path, capture_output=True, check=False)
        wait_for(lambda: all(path.exists() for path in released(tmp_path, remaining)))
        wait_for(lambda: "finished:completed" in made.flwr("list", "--format", "json"), 60)
    assert len({path.read_bytes() for path in released(tmp_path, remaining)}) == 1
    verify(tmp_path)
