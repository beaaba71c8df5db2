"""A whole study on one machine, as people would play it: by the commands, a process for every member."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from psephos.data.datasets import load
from psephos.data.splits import split
from psephos.model import MODEL_FILE, load_model
from psephos.protocol.board.address import open_board
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.study.study import Study
from psephos.study.overview import overview

__all__ = ["run_trial"]

_DATA, _LABEL, _PUBLIC = "breast-cancer", "diagnosis", 60
_PATIENCE = 60


def run_trial(roles: int, output: Path | None, key_bits: int, board: str, say: Callable[[str], None]) -> None:
    """Play it, and check at the end that everybody has the model that stands on the board.

    Args:
        roles: members, a curator among them. output: a directory that is not there yet. key_bits: of the key.
        board: an address; empty for a file in the directory. say: is told what happens.

    Raises InvalidParameter for fewer than 4 members, StudyError where a process failed or the outcome is not one.
    """
    if not 4 <= roles <= 100:
        raise InvalidParameter(f"a trial has 4 to 100 members, a curator and at least three parties; not {roles}")
    if output is None:
        output = Path(tempfile.mkdtemp(prefix="psephos-trial-"))
    else:
        output.mkdir(mode=0o700, parents=True)
    began, parties = time.monotonic(), [f"party-{number}" for number in range(roles - 1)]
    _write_data(output, parties)
    for name in (*parties, "curator"):
        _psephos(output, "study", "identity", name, "--output", name)
    cards = [f"{name}/card.toml" for name in parties]
    _psephos(
        output,
        *("study", "new", "study.toml", *cards, "--curator", "curator/card.toml", "--title", "A trial"),
        *("--public", "public.csv", "--label", _LABEL, "--classes", "malignant,benign", "--epsilon", "10", "--trial"),
        *("--holders", str(min(5, roles - 1) if roles > 5 else 3), "--key-bits", str(key_bits)),
        *("--patience", str(_PATIENCE), "--minimum-ballots", str(roles - 1)),
    )
    say(f"A study of {roles} members in {output}: each plays in a process of its own, as `psephos agent` does.")
    say("It is a trial: every member is on this machine.")
    for name in (*parties, "curator"):
        data = () if name == "curator" else ("--data", f"{name}.csv")
        address = ("--board", board or "board.sqlite")
        _psephos(output, "join", "study.toml", "--identity", name, *address, "--public", "public.csv", *data, "--yes")
    say(f"Everybody has signed ({time.monotonic() - began:.0f} s). The holders make the key; nobody will ever have it.")
    agents = {name: _start(output, name) for name in (*parties, "curator")}
    try:
        _wait(output, agents, say, began)
    finally:
        for process in agents.values():
            process.terminate()
        for process in agents.values():
            process.wait()
    say(_verified(output, board, parties))
    say(f"Done in {time.monotonic() - began:.0f} s. Look at {output / 'curator'}/*/released/card.md, or go on with it:")
    say(f"  psephos status {output}/study.toml --board {board or output / 'board.sqlite'}")


def _write_data(output: Path, parties: list[str]) -> None:
    import pandas as pd

    data = load(_DATA)
    dealt = split(data, len(parties), seed=0, auxiliary=_PUBLIC)
    names = [f"measure {k + 1}" for k in range(data.features)]
    for name, rows in zip(parties, dealt.parties, strict=True):
        own = pd.DataFrame(data.X_train[rows], columns=names)
        own.assign(**{_LABEL: [data.classes[y] for y in data.y_train[rows]]}).to_csv(
            output / f"{name}.csv", index=False
        )
    pd.DataFrame(dealt.X_auxiliary, columns=names).to_csv(output / "public.csv", index=False)
    test = pd.DataFrame(dealt.X_test, columns=names)
    test[_LABEL] = [data.classes[y] for y in dealt.y_test]
    test.to_csv(output / "test.csv", index=False)


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "psephos", *words]


def _psephos(folder: Path, *words: str) -> None:
    done = subprocess.run(_command(*words), cwd=folder, env=_environment(), capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        raise StudyError(f"psephos {words[0]} failed: {done.stderr.strip() or done.stdout.strip()}")


def _environment() -> dict[str, str]:
    """One thread for each process: numerical libraries would start one for each core in every one of them."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def _start(folder: Path, name: str) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.log").open("wb") as log:
        command = _command("--log-level", "info", "agent", name)
        return subprocess.Popen(command, cwd=folder, env=_environment(), stdout=log, stderr=log)  # noqa: S603


def _wait(folder: Path, agents: dict[str, subprocess.Popen[bytes]], say: Callable[[str], None], began: float) -> None:
    """Until all have ended, telling what stands on the board; raises StudyError for one that failed."""
    told = ""
    while any(process.poll() is None for process in agents.values()):
        for name, process in agents.items():
            if process.returncode:
                last = (folder / f"{name}.log").read_text().strip().splitlines()[-1:]
                raise StudyError(f"{name} failed: {last[0] if last else process.returncode}")
        if (now := _progress(folder)) != told:
            told = now
            say(f"{time.monotonic() - began:4.0f} s  {told}")
        time.sleep(1.0)


def _progress(folder: Path) -> str:
    """The last thing that the curator's log said of itself."""
    import json

    lines = (json.loads(line) for line in (folder / "curator.log").read_text().splitlines() if line.endswith("}"))
    said = [line["said"] for line in lines if line.get("message") == "standing"]
    return f"the curator {said[-1]}" if said else "starting"


def _verified(folder: Path, board: str, parties: list[str]) -> str:
    """That everybody's model is the one that the curator published, and what it is worth; raises StudyError."""
    from psephos.data.tables import read_table

    study = Study.read(folder / "study.toml")
    opened = open_board(board or str(folder / "board.sqlite"), study.digest)
    try:
        published = overview(study, opened).result
    finally:
        opened.close()
    for name in (*parties, "curator"):
        if (folder / name / study.digest.hex()[:16] / "released" / MODEL_FILE).read_bytes() != published:
            raise StudyError(f"{name} has another model than the one that stands on the board")
    model = load_model(folder / "curator" / study.digest.hex()[:16] / "released")
    test = read_table(folder / "test.csv")
    right = (model.predict(test) == test[_LABEL]).mean()
    return (
        f"All {len(parties) + 1} members have the model that stands on the board. It is right for {right:.1%} of "
        f"{len(test)} rows that nobody was given (epsilon {study.epsilon:g})."
    )
