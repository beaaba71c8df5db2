"""What is written about a user's own rows is its owner's only, and says first that it is not for publication."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from psephos.cli.main import build
from psephos.results.base import Result
from psephos.results.runs import PRIVATE_ROWS_NOTICE, TallyResult
from psephos.results.write import report_from_json, write_report
from tests.psephos.results.test_results import OPTIONS, TALLY
from tests.psephos.simulation.test_job import patients

OWN: TallyResult = replace(
    TALLY, dataset="patients.csv", options=TALLY.options | {"data": "patients.csv", "party": "hospital"}
)
PUBLISHED: TallyResult = TALLY
QUICK = ["--key-bits", "512", "--test-key", "--workers", "1", "--holders", "3", "--threshold", "2", "--epsilon", "10"]


@pytest.fixture(autouse=True)
def permissive() -> Iterator[None]:
    """The umask under which every new file is everybody's to read and write."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes(directory: Path) -> tuple[set[int], set[int]]:
    """Of the directories, itself included, and of the files in them."""
    paths = [directory, *directory.rglob("*")]
    return {mode(one) for one in paths if one.is_dir()}, {mode(one) for one in paths if one.is_file()}


@pytest.mark.slow
def test_a_report_on_private_rows_is_owner_only_and_says_so_first(tmp_path: Path) -> None:
    out = tmp_path / "made" / "here"
    write_report(OWN, None, out)
    assert modes(tmp_path / "made") == ({0o700}, {0o600})
    assert PRIVATE_ROWS_NOTICE in "\n".join((out / "report.html").read_text().splitlines()[:2])
    text = (out / "report.json").read_text()
    assert next(iter(json.loads(text))) == next(iter(json.loads(text)["result"])) == "notice"
    figures = list((out / "figures").glob("*.svg"))
    assert figures
    for figure in figures:
        assert PRIVATE_ROWS_NOTICE in "\n".join(figure.read_text().splitlines()[:2])
    # Drawn again, from either JSON.
    (tmp_path / "result.json").write_text(json.dumps(OWN.as_json()))
    for number, file in enumerate((out / "report.json", tmp_path / "result.json")):
        again = tmp_path / f"again{number}"
        report_from_json(file, again)
        assert modes(again) == ({0o700}, {0o600})


def test_old_report_files_lose_their_wider_mode(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("of an earlier run")
    write_report(OWN, None, tmp_path)
    assert {mode(tmp_path / name) for name in ("report.html", "report.json")} == {0o600}
    assert mode(tmp_path / "figures") == 0o700
    assert not list(tmp_path.glob(".*.part"))


def test_a_report_on_published_data_has_default_modes(tmp_path: Path) -> None:
    write_report(PUBLISHED, None, tmp_path / "out")
    assert modes(tmp_path / "out") == ({0o777}, {0o666})  # as the umask says
    assert "notice" not in PUBLISHED.as_json()
    assert PRIVATE_ROWS_NOTICE not in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("change", "private"),
    [
        ({}, False),
        ({"options": OPTIONS | {"data": "t.csv"}}, True),
        ({"options": OPTIONS | {"data": "t.csv"}, "dataset": "digits"}, True),
        ({"dataset": "my arrays"}, True),
        ({"dataset": "breast-cancer"}, False),
    ],
)
def test_own_rows_follow_from_the_options(change: dict[str, Any], private: bool) -> None:
    outcome = replace(PUBLISHED, **change)
    assert outcome.own_rows is private
    assert bool(outcome.page().text("notice")) is private
    assert Result.from_json(json.loads(json.dumps(outcome.as_json()))) == outcome


@pytest.mark.slow
@pytest.mark.parametrize("party", [True, False])
def test_notice_and_unit_names_of_commands_on_a_table(tmp_path: Path, party: bool) -> None:
    """What it writes, and whether its parties are called owners or shards."""
    path, public = patients(tmp_path / "t.csv"), patients(tmp_path / "public.csv", hospitals=1, seed=7)
    (tmp_path / "out").mkdir()
    words = ["run", "--data", str(path), "--label", "outcome", "--ignore", "number", "--public", str(public), *QUICK]
    words += ["--anyway", "--method", "statistic"]
    words += ["--party", "hospital"] if party else ["--parties", "9", "--ignore", "hospital"]
    journal = tmp_path / "journal"
    words += ["--output", str(tmp_path / "out"), "--report", str(tmp_path / "report"), "--journal", str(journal)]
    done = CliRunner().invoke(build(), [*words, "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["notice"] == PRIVATE_ROWS_NOTICE
    assert document["parties_are"] == ("owners" if party else "shards")
    assert PRIVATE_ROWS_NOTICE in done.stderr
    assert modes(tmp_path / "report") == ({0o700}, {0o600})
    assert modes(journal) == ({0o700}, {0o600})
    assert mode(tmp_path / "out" / "result.json") == 0o600
    assert next(iter(json.loads((tmp_path / "out" / "result.json").read_text()))) == "notice"
    card = (tmp_path / "out" / "card.md").read_text()
    assert ("shards of one table" in card) is not party
    assert ("dealt at random" in done.stderr) is not party
    assert PRIVATE_ROWS_NOTICE not in card + (tmp_path / "out" / "model.json").read_text()  # these are for publication


def test_the_terminal_prints_the_notice_first(capsys: pytest.CaptureFixture[str]) -> None:
    from psephos.cli.show import show

    show(OWN)
    assert capsys.readouterr().out.startswith(PRIVATE_ROWS_NOTICE[:40])
    show(PUBLISHED)
    assert "shards dealt at random" in capsys.readouterr().out
    show(PUBLISHED, verbose=True)
    assert "shards of one published data set, dealt at random" in " ".join(capsys.readouterr().out.split())
