"""A whole study on one machine, run by the same commands as a real one, with a process for every member."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from psephos.data.datasets import load
from psephos.data.splits import split_dataset
from psephos.data.tables import read_table
from psephos.model import MODEL_FILE
from psephos.protocol.board.address import open_board
from psephos.protocol.errors import BoardError, InvalidParameter, StudyError
from psephos.protocol.study.study import CURATOR, Study
from psephos.study.builder import NewOptions, make_study
from psephos.study.identity import Identity, fingerprint
from psephos.study.member import sign
from psephos.study.samples import PublicSamples
from psephos.study.verify import examine

_DATA, _LABEL, _PUBLIC = "breast-cancer", "diagnosis", 60
_PATIENCE = 60


def run_trial(roles: int, output: Path | None, key_bits: int, nats: bool, say: Callable[[str], None]) -> None:
    """Run a study of a published data set, and check that every member ends with the model that is on the board.

    Args:
        roles: the number of members with the curator, 4 to 100. output: a new directory; None for a temporary one.
        nats: start a NATS server as the board, instead of using a file in the directory.
        say: called with each line of text about what happens.

    Raises StudyError where a process failed or members end with other models, BoardError where no server can start.
    """
    if not 4 <= roles <= 100:
        raise InvalidParameter(f"a trial has 4 to 100 members, a curator and at least three parties; not {roles}")
    if output is None:
        output = Path(tempfile.mkdtemp(prefix="psephos-trial-"))
    else:
        output.mkdir(mode=0o700, parents=True)
    start, parties = time.monotonic(), [f"party-{number}" for number in range(roles - 1)]
    _write_data(output, parties)
    identities = {name: Identity.create(name, output / name) for name in (*parties, CURATOR)}
    options = NewOptions(
        title="A trial",
        curator=str(output / CURATOR / "card.toml"),
        public=str(output / "public.csv"),
        label=_LABEL,
        classes=load(_DATA).classes,
        epsilon=10.0,
        key_bits=key_bits,
        trial=True,
        minimum_ballots=roles - 1,
        patience=_PATIENCE,
    )
    study, _ = make_study(options, [output / name / "card.toml" for name in parties])
    study.write(output / "study.toml")
    address = reading = str((output / "board.sqlite").absolute())
    with _stopping() as processes:
        if nats:
            address, reading, server = _serve(output, study)
            processes.append(server)
            say(f"nats-server, with the board, at {address}: TLS, and a key for each member.")
        for name, identity in identities.items():
            member = sign(study, identity)
            own = {} if name == CURATOR else {"data": str((output / f"{name}.csv").absolute())}
            member.keep(board=address, public=str((output / "public.csv").absolute()), **own)
        say(
            f"A trial in {output}: a curator and {roles - 1} parties. Three of them generate the key together, and "
            "each of the three has a share of it."
        )
        say("Each member runs `psephos agent NAME` in a process of its own, which joins and takes all later steps.")
        agents = {}
        for name in identities:
            agents[name] = _start(output, name, "agent", name)
            processes.append(agents[name])
        if all(map(find_spec, ("starlette", "uvicorn"))):
            # The board must exist before a reader opens it.
            open_board(address, study.digest, CURATOR, identities[CURATOR].key).close()
            page = ("study.toml", "--board", reading, "--public", "public.csv", "--port", "0")
            processes.append(_start(output, "watch", "watch", *page))
        _wait(output, agents, say, start)
        say(_verified(output, reading, study, list(identities)))
    released = output / CURATOR / fingerprint(study.digest) / "released"
    say(f"{time.monotonic() - start:.0f} s. The model and its card are in {released}. To look on:")
    if nats:
        say(f"  nats-server -c {shlex.quote(str(output / 'server/nats.conf'))} &")
    look = ("psephos", "watch", output / "study.toml", "--board", reading, "--public", output / "public.csv")
    say(f"  {shlex.join(map(str, look))}")


@contextmanager
def _stopping() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Yield an empty list of processes; those that are added are stopped when the block ends, the last one first."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        yield processes
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait()


def _serve(output: Path, study: Study) -> tuple[str, str, subprocess.Popen[bytes]]:
    """Start a server for the board, and return its address for members, that for readers, and its process."""
    try:
        from psephos.protocol.board.server import start_server, write_server
    except ModuleNotFoundError as error:
        raise BoardError(f"boards on a NATS server need {error.name}; in a clone: pip install -e '.[nats]'") from None
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    folder = (output / "server").absolute()
    reading = write_server(folder, study.members, ["127.0.0.1"], port)
    return f"tls://127.0.0.1:{port}?ca={folder / 'ca.pem'}", reading, start_server(folder)


def _write_data(output: Path, parties: list[str]) -> None:
    import pandas as pd

    data = load(_DATA)
    split = split_dataset(data, len(parties), seed=0, auxiliary=_PUBLIC)
    names = [f"measure {k + 1}" for k in range(data.features)]
    for name, rows in zip(parties, split.parties, strict=True):
        own = pd.DataFrame(data.X_train[rows], columns=names)
        own[_LABEL] = [data.classes[y] for y in data.y_train[rows]]
        own.to_csv(output / f"{name}.csv", index=False)
    pd.DataFrame(split.X_auxiliary, columns=names).to_csv(output / "public.csv", index=False)
    test = pd.DataFrame(split.X_test, columns=names)
    test[_LABEL] = [data.classes[y] for y in split.y_test]
    test.to_csv(output / "test.csv", index=False)


def _start(folder: Path, name: str, *words: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # not a thread for each core
    with (folder / f"{name}.log").open("wb") as log:
        command = [sys.executable, "-m", "psephos", "--log-level", "info", *words]
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)  # noqa: S603


def _wait(folder: Path, agents: dict[str, subprocess.Popen[bytes]], say: Callable[[str], None], start: float) -> None:
    """Wait until all agents have ended, and report their progress. Raises StudyError for an agent that failed."""
    reported, page = "", folder / "watch.log"
    while None in [process.poll() for process in agents.values()]:
        for name, process in agents.items():
            if process.returncode:
                last = (folder / f"{name}.log").read_text().strip().splitlines()[-1:]
                raise StudyError(f"{name} failed: {last[0] if last else process.returncode}")
        if page.exists() and (text := page.read_text()).startswith("http"):
            say(f"{text.split()[0]} shows it while it runs")
            page = folder / "reported"
        if (progress := _progress(folder)) != reported:
            reported = progress
            say(f"{time.monotonic() - start:4.0f} s  {progress}")
        time.sleep(0.2)


def _progress(folder: Path) -> str:
    """Return the last status of the curator and of the first holder."""
    statuses = {}
    for name in (CURATOR, "party-0"):
        for line in (folder / f"{name}.log").read_text().splitlines():
            if line.endswith("}") and (record := json.loads(line)).get("message") == "standing":
                statuses[record["role"]] = record["said"]
    return "; ".join(f"{role} {statuses[role]}" for role in ("holder 1", CURATOR) if role in statuses) or "starting"


def _verified(folder: Path, address: str, study: Study, names: list[str]) -> str:
    """Verify the board and all members' models; return the outcome and the model's accuracy."""
    board = open_board(address, study.digest)
    try:
        evidence = examine(study, PublicSamples.of(study, folder / "public.csv"), board)
    finally:
        board.close()
    if failed := [f"{check.what}: {check.found}" for check in evidence.checks if check.verdict == "fails"]:
        raise StudyError(f"checks of the board fail: {'; '.join(failed)}")
    released = [folder / name / fingerprint(study.digest) / "released" for name in names]
    published = None if evidence.published is None else evidence.published.content
    if any((place / MODEL_FILE).read_bytes() != published for place in released):
        raise StudyError("a member has another model than the one on the board")
    from psephos.released import load_model  # scikit-learn takes most of a second

    test = read_table(folder / "test.csv")
    right = (load_model(released[0]).predict(test) == test[_LABEL]).mean()
    return (
        f"Verified: {sum(check.verdict == 'holds' for check in evidence.checks)} checks of the board hold, none fails. "
        f"All {len(names)} members have the model that stands on the board. It is right for {right:.1%} of "
        f"{len(test)} rows that no member has, at epsilon {study.epsilon:g}."
    )
