"""The second verifier accepts recorded studies of every protocol that it covers, and refuses changed ones.

The studies are played anew in each run, under dealt keys of 256 bits, which protect nothing and are fast.
"""

from __future__ import annotations

import ast
import re
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import sampled
from tests.verifier import verifier
from tests.verifier.board import Refused
from tests.verifier.recording import (
    RECORDED,
    STORED,
    TO_STORE,
    Recording,
    check_accepted,
    check_refused,
    check_stored,
    fields_for,
    public_file,
    record,
    stored_at,
)
from tests.verifier.step_recording import STORED_STEPS
from tests.verifier.step_recording import TO_STORE as STEPS
from tests.verifier.tampering import OF_ENTRIES, OF_MESSAGES, OF_STUDY, ballot, messages, model, resigned
from tests.verifier.verifier import main, verify

FOLDER = Path(__file__).parent
TAMPERED = OF_ENTRIES | OF_MESSAGES


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Plays a study when it is first asked for."""
    public = public_file(tmp_path_factory.mktemp("public"))
    return cache(lambda what: record(what, public))


def test_the_verifier_imports_nothing_of_psephos() -> None:
    names = {Path(str(verifier.__file__)).stem}
    while True:
        imported = {module for name in names for module in _imports(FOLDER / f"{name}.py")}
        more = names | {module.split(".")[2] for module in imported if module.startswith("tests.verifier.")}
        if more == names:
            break
        names = more
    assert names >= {"board", "paillier", "hashproof", "sums", "series", "shares", "release"}
    assert names.isdisjoint({"recording", "tampering"})
    assert [module for module in imported if re.match(r"psephos|protocol|parties|curator", module)] == []


def _imports(path: Path) -> list[str]:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return plain + [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]


@pytest.mark.parametrize("what", RECORDED)
def test_recorded_studies_are_accepted(recordings: Any, what: str) -> None:
    check_accepted(recordings(what))


_DESCENT = fields_for("psgd")["parameters"]
FURTHER: dict[str, tuple[str, dict[str, Any]]] = {
    "gaussian noise": ("statistic", {"delta": 1e-6}),
    "own rows, gaussian noise": ("statistic, own data", {"delta": 1e-6}),
    "whitened, shares": ("statistic, own data", {"method": "whitened"}),
    "whitened": ("average, own data", {"method": "whitened"}),
    "three classes": ("statistic", {"classes": ("a", "b", "c")}),
    "average, three classes": ("average", {"classes": ("a", "b", "c")}),
    "tally, two classes": ("tally", {"classes": ("a", "b")}),
    "degree 2": ("statistic", {"degree": 2}),
    "tally, degree 2": ("tally", {"degree": 2}),
    "halving": ("psgd", {"delta": 1e-9, "parameters": _DESCENT | {"variant": "halving"}}),
    "descent, dropouts": ("psgd", {"parameters": _DESCENT | {"dropouts": 1}, "minimum_ballots": 4}),
    "descent that stops": ("psgd", {"parameters": _DESCENT | {"stop_tolerance": 0.5, "stop_window": 1, "steps": 4}}),
    "excluded parties": ("pathak", {"parameters": {"lam": 0.05, "smallest_size": 6, "excluded": 2, "tolerance": 1e-8}}),
}
"""Other terms, by a name: what study, and the terms."""


@pytest.mark.parametrize("name", sampled(FURTHER, 5))
def test_studies_of_other_terms_are_accepted(name: str, tmp_path: Path) -> None:
    what, terms = FURTHER[name]
    check_accepted(record(what, public_file(tmp_path), **terms))


@pytest.mark.parametrize(
    ("folder", "what"), [*((STORED, what) for what in TO_STORE), *((STORED_STEPS, what) for what in STEPS)]
)
def test_stored_studies_are_accepted_by_later_versions(folder: Path, what: str, tmp_path: Path) -> None:
    """By both verifiers."""
    check_stored(stored_at(folder, what), tmp_path)


@pytest.mark.parametrize("what", ["statistic", "psgd", "pathak"])
def test_a_study_that_is_not_over_is_not_accepted(recordings: Any, what: str) -> None:
    recording: Recording = recordings(what)
    for length in range(0, len(recording.entries), 5):
        report = recording.with_entries(recording.entries[:length]).second()
        assert not report.accepted


@pytest.mark.parametrize("what", RECORDED)
def test_boards_that_are_signed_again_without_a_change_are_accepted(recordings: Any, what: str) -> None:
    """So what is refused below is refused for its change."""
    for tamper in (messages(lambda recording, posts: None), model(lambda fields: None), resigned()):
        assert tamper(recordings(what)).second().accepted
    if what != "pathak":
        assert ballot(lambda payload: payload)(recordings(what)).second().accepted


@pytest.mark.parametrize("change", sampled(TAMPERED))
def test_changed_boards_are_refused(recordings: Any, change: str) -> None:
    """By the second verifier and by `psephos verify`."""
    what, tamper = TAMPERED[change]
    check_refused(recordings(what), tamper(recordings(what)))


@pytest.mark.parametrize("change", OF_STUDY)
def test_changed_studies_are_refused(recordings: Any, change: str) -> None:
    what, pattern, other = OF_STUDY[change]
    recording: Recording = recordings(what)
    text = recording.made.study.text()
    changed = re.sub(pattern, other, text, count=1)
    assert changed != text
    try:
        report = verify(changed, recording.public.read_text(encoding="utf-8"), list(recording.entries))
    except Refused:
        return
    assert not report.accepted


@pytest.mark.parametrize("edit", [("yes", "no"), ("x,z", "z,x"), ("\n", "\n0.5,no\n")])
def test_changed_public_samples_are_refused(recordings: Any, edit: tuple[str, str]) -> None:
    recording: Recording = recordings("pathak")
    text = recording.public.read_text(encoding="utf-8").replace(*edit, 1)
    with pytest.raises(Refused):
        verify(recording.made.study.text(), text, list(recording.entries))


def test_the_layout_of_a_study_file_does_not_matter(recordings: Any) -> None:
    recording: Recording = recordings("statistic")
    text = "# another layout\n" + recording.made.study.text().replace(" = ", "=")
    assert verify(text, recording.public.read_text(encoding="utf-8"), list(recording.entries)).accepted


def test_the_command_reads_the_file_of_a_board(
    recordings: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording: Recording = recordings("psgd")
    study = tmp_path / "study.toml"
    study.write_text(recording.made.study.text(), encoding="utf-8")
    for entries, status in ((recording.entries, 0), (recording.entries[:-1], 1)):
        board = tmp_path / f"board {status}"
        with sqlite3.connect(board) as connection:
            connection.execute("CREATE TABLE entries (number INTEGER PRIMARY KEY, data BLOB)")
            connection.executemany("INSERT INTO entries VALUES (?, ?)", enumerate(entries, 1))
        connection.close()
        assert main([str(study), str(recording.public), str(board)]) == status
    assert "holds  the result follows from the sum" in capsys.readouterr().out
