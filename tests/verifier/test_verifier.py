"""The second verifier accepts recorded studies of every protocol that it covers, and refuses changed ones.

The studies are played anew in each run, under dealt keys of 256 bits, which protect nothing and are fast.
"""

from __future__ import annotations

import ast
import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psephos.audit.studies import trial
from psephos.protocol.board import MemoryBoard
from psephos.protocol.errors import StudyError
from psephos.protocol.study.study import Study
from psephos.specs.registry import is_verifiable
from psephos.study.samples import PublicSamples
from psephos.study.verify import examine
from tests.tiers import sampled
from tests.verifier import board
from tests.verifier.board import Refused
from tests.verifier.changes import (
    CHANGES,
    IMPOSSIBLE_MAPS,
    MAPS,
    OF_STUDY,
    Change,
    ballot,
    edited_map,
    flooded,
    messages,
    model,
    noise,
    resigned,
    unchanged,
)
from tests.verifier.plans import plan_of
from tests.verifier.public import Public
from tests.verifier.recording import (
    BOUNDED,
    REHEARSED,
    STORED,
    STUDIES,
    TO_STORE,
    Recording,
    accepted,
    check_accepted,
    check_refused,
    public_file,
    record,
)
from tests.verifier.verifier import main, verify

Recordings = Callable[[str], Recording]
SLOW = [pytest.param(what, marks=pytest.mark.slow) for what in (*BOUNDED, *REHEARSED)]


def test_the_verifier_imports_nothing_of_psephos() -> None:
    paths = {path.stem: path for path in Path(__file__).parent.glob("*.py")}
    own = {name for name in paths if not name.startswith("test_")} - {"recording", "changes", "conftest"}
    assert len(own) > 15
    for name in own:
        nodes = list(ast.walk(ast.parse(paths[name].read_text(encoding="utf-8"))))
        imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        imported |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
        ours = {module for module in imported if re.match(r"psephos|protocol|parties|curator|tests", module)}
        assert ours - {"tests.verifier"} <= {f"tests.verifier.{name}" for name in own}, name


@pytest.mark.parametrize("what", [*sampled(STUDIES, 3), *SLOW])
def test_recorded_studies_are_accepted(recordings: Recordings, what: str) -> None:
    check_accepted(recordings(what))


@pytest.mark.parametrize("name", TO_STORE)
def test_stored_studies_are_accepted_by_later_versions(name: str, tmp_path: Path) -> None:
    """By both verifiers."""
    stored = json.loads((STORED / f"{name}.json").read_text(encoding="utf-8"))
    public, study, read = tmp_path / "public.csv", Study.parse(stored["study"]), MemoryBoard()
    public.write_text(stored["public"], encoding="utf-8")
    read.entries.extend(bytes.fromhex(text) for text in stored["entries"])
    report = verify(stored["study"], stored["public"], read.entries)
    assert report.accepted
    assert ("the result follows from the sum" in report.holds) == is_verifiable(study)
    checks = examine(study, PublicSamples.of(study, public), read).checks
    assert accepted(checks, verifiable=is_verifiable(study))


@pytest.mark.parametrize("what", ["statistic", "psgd", "pathak"])
def test_a_study_that_is_not_over_is_not_accepted(recordings: Recordings, what: str) -> None:
    recording = recordings(what)
    for length in range(0, len(recording.entries), 5):
        assert not recording.with_entries(recording.entries[:length]).second.accepted


@pytest.mark.parametrize("what", [*sampled(dict.fromkeys(what for what, _ in CHANGES.values()), 3)])
def test_boards_that_are_signed_again_without_a_change_are_accepted(recordings: Recordings, what: str) -> None:
    """So what is refused below is refused for its change."""
    changes: list[Change] = [messages(lambda recording, posts: None), model(lambda fields: None), resigned()]
    changes += [] if what == "pathak" else [ballot(unchanged)]
    changes += [noise(unchanged)] if what == "holders" else []
    for change in changes:
        assert change(recordings(what)).second.accepted


@pytest.mark.parametrize("name", sampled(CHANGES))
def test_changed_boards_are_refused(recordings: Recordings, name: str) -> None:
    """By the second verifier and by `psephos verify`."""
    what, change = CHANGES[name]
    changed = change(recordings(what))
    assert changed.entries != recordings(what).entries
    check_refused(changed)


@pytest.mark.parametrize("name", OF_STUDY)
def test_changed_studies_are_refused(recordings: Recordings, name: str) -> None:
    what, pattern, other = OF_STUDY[name]
    text = recordings(what).made.study.text()
    changed = re.sub(pattern, other, text, count=1)
    assert changed != text
    try:
        report = verify(changed, recordings(what).public_text, list(recordings(what).entries))
    except Refused:
        return
    assert not report.accepted


@pytest.mark.parametrize("edit", [("yes", "no"), ("x,z", "z,x"), ("\n", "\n0.5,no\n")])
def test_changed_public_samples_are_refused(recordings: Recordings, edit: tuple[str, str]) -> None:
    recording = recordings("pathak")
    with pytest.raises(Refused):
        verify(recording.made.study.text(), recording.public_text.replace(*edit, 1), list(recording.entries))


@pytest.mark.parametrize("name", [*MAPS, *IMPOSSIBLE_MAPS])
def test_both_verifiers_read_a_changed_map_alike(recordings: Recordings, name: str) -> None:
    """And compute the same features; an evaluation ignores which rows trees have drawn."""
    what, change = (MAPS | IMPOSSIBLE_MAPS)[name]
    recording = recordings(what)
    study, seen = recording.made.study, []
    changed = replace(study, parameters=dict(study.parameters) | {"map": edited_map(recording, change)})
    for other in (changed, replace(changed, protocol="evaluation"), study):
        try:
            read = PublicSamples.of(other, recording.public)
            seen.append((read.auxiliary.digest, read.scaler.mean_.tobytes(), read.scaler.deviation_.tobytes()))
        except StudyError:
            seen.append(())
        try:
            second = Public(board.Study(other.text()), recording.public_text)
            assert seen[-1] == (second.digest, second.mean.tobytes(), second.deviation.tobytes())
        except Refused:
            assert seen[-1] == ()
    assert seen[0] != seen[2] != ()
    assert (seen[0] == ()) == (name in IMPOSSIBLE_MAPS)


@pytest.mark.parametrize("name", ["low", "high", "labelled"])
def test_a_regression_of_another_plan_than_that_of_the_public_file_is_refused(name: str, tmp_path: Path) -> None:
    """The last bit of a bound; everything else follows from the plan that the study states."""
    path = public_file(tmp_path, "regression")
    value: Any = record("regression", path).made.study.parameters[name]
    other = value + 1 if name == "labelled" else float(np.nextafter(value, np.inf))
    changed = record("regression", path, parameters={name: other})
    assert changed.second.fails == [f"the {name} of the plan differ from the public file's"]
    assert not accepted(changed.evidence().checks, verifiable=True)


@pytest.mark.parametrize(
    ("terms", "edit"),
    [
        ({"confirmations": 2}, ("confirmations = 3", "confirmations = 2")),
        ({"parameters": {"colluders": 3}}, ("noise_from", "colluders = 3\nnoise_from")),
    ],
)
def test_noise_of_holders_needs_confirmations_and_an_honest_holder(
    recordings: Recordings, terms: dict[str, Any], edit: tuple[str, str], tmp_path: Path
) -> None:
    """Nobody can make such a study, and the second verifier refuses its board."""
    with pytest.raises((StudyError, ValueError)):
        record("holders", public_file(tmp_path), **terms)
    study = board.Study(recordings("holders").made.study.text().replace(*edit))
    with pytest.raises(Refused):
        _ = plan_of(study, Public(study, recordings("holders").public_text)).share


def test_entries_beyond_what_a_member_may_post_do_not_count(recordings: Recordings) -> None:
    """A ballot behind as many bytes as leave room for it counts; with one byte more, nobody reads it."""
    for room, counts in ((0, True), (-1, False)):
        changed = flooded(room)(recordings("regression"))
        assert changed.second.accepted == counts
        assert accepted(changed.evidence().checks, verifiable=True) == counts


@pytest.mark.parametrize(
    "changed",
    [{}, {"key_bits": 4096}, {"protocol": "psgd", "parameters": {"sizes": "9 9"}}, {"parameters": {"steps": 30}}],
)
def test_both_implementations_leave_members_as_many_bytes(changed: dict[str, Any]) -> None:
    study = trial(**changed).study
    second = board.Study(study.text())
    assert {role: second.most_bytes(role) for role in second.keys} == study.members.limits


def test_the_layout_of_a_study_file_does_not_matter(recordings: Recordings) -> None:
    recording = recordings("statistic")
    text = "# another layout\n" + recording.made.study.text().replace(" = ", "=")
    assert verify(text, recording.public_text, list(recording.entries)).accepted


def test_the_command_reads_the_file_of_a_board(
    recordings: Recordings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording, study = recordings("psgd"), tmp_path / "study.toml"
    study.write_text(recording.made.study.text(), encoding="utf-8")
    for entries, status in ((recording.entries, 0), (recording.entries[:-1], 1)):
        path = tmp_path / f"board {status}"
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE entries (number INTEGER PRIMARY KEY, data BLOB)")
            connection.executemany("INSERT INTO entries VALUES (?, ?)", enumerate(entries, 1))
        connection.close()
        assert main([str(study), str(recording.public), str(path)]) == status
    assert "holds  the result follows from the sum" in capsys.readouterr().out
