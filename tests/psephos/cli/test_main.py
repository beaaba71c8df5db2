"""What the command says to people: examples that can be copied, the way on after Ctrl-C, what to do about an error."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from psephos.cli import main as cli
from psephos.cli import show

COMMANDS = ["run", "audit", "reproduce", "plan", "bench", "report"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_one_example_a_line(command: str) -> None:
    said = CliRunner().invoke(cli.app, [command, "--help"]).output
    examples = said.split("Examples:\n", 1)[1].rstrip().splitlines()
    assert examples
    for line in examples:
        assert line.strip().startswith(f"psephos {'run' if '> result.json' in line else command}"), line
        assert line.count("psephos") == 1


def test_help_names_every_learner_and_variant() -> None:
    from psephos.curator.psgd.curator import VARIANTS
    from psephos.parties.learners import LEARNERS

    said = " ".join(CliRunner().invoke(cli.app, ["run", "--help"]).output.split())
    for name in (*LEARNERS, *VARIANTS):
        assert name in said


@pytest.mark.parametrize(
    ("words", "way_on"),
    [
        (["run"], "nothing is kept to go on from; with --journal DIR it would be"),
        (["run", "--protocol", "pathak"], "nothing is kept to go on from"),
        (["run", "--journal", "kept"], "the same command goes on from its journal"),
        (["run", "--journal=kept"], "the same command goes on from its journal"),
        (["reproduce", "hamm-har"], "nothing is kept to go on from; with --journal DIR it would be"),
        (["reproduce", "pathak-adult"], "nothing is kept to go on from"),
    ],
)
def test_an_interrupt_says_how_to_go_on(
    words: list[str], way_on: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*anything: Any, **more: Any) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run_tally", stopped)
    monkeypatch.setattr(cli, "_run_pathak", stopped)
    monkeypatch.setattr(cli, "_check_report", stopped)
    monkeypatch.setattr(sys, "argv", ["psephos", *words])
    with pytest.raises(SystemExit) as leaving:
        cli.main()
    assert leaving.value.code == 130
    printed = capsys.readouterr()
    assert printed.err == f"psephos: interrupted; {way_on}\n"
    assert not printed.out


@pytest.mark.parametrize(
    ("words", "way_on"),
    [
        (["--dataset", "shops.csv"], "docs/own-data.md"),
        (["--draws", "0"], "--draws are at least 1, not 2 and 0"),
        (["--colluders", "3"], "use them with --reveal statistic"),
        (["--learner", "tre"], "logistic, not tre"),
    ],
)
def test_errors_say_what_to_do(words: list[str], way_on: str) -> None:
    done = CliRunner().invoke(cli.app, ["run", "--workers", "2", *words])
    assert way_on in str(done.exception)


def test_a_report_into_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    done = CliRunner().invoke(cli.app, ["run", "--report", str(tmp_path / "taken")])
    assert "is a file; name another one" in str(done.exception)
    assert (tmp_path / "taken").read_text() == "mine"


def test_what_a_report_needs_is_installed_where_the_command_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "find_spec", lambda name: None)
    done = CliRunner().invoke(cli.app, ["run", "--report", "out"])
    assert f"{sys.executable} -m pip install jinja2 matplotlib" in str(done.exception)


def test_a_sweep_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cell is cut or broken in 80 columns, and no number has 16 digits."""
    methods = ("psgd", "gop", "la_printed", "la_repaired", "psgd_transcript", "gop_sigma_printed", "nonprivate")
    rows = [
        {"panel": "parties", "place": 5, "lambda": lam, "epsilon": epsilon}
        | {name: {"mean": 0.6914767111, "std": 0.0123456789} for name in methods}
        for lam in (0.1, 0.01)
        for epsilon in (0.1, 0.2)
    ]
    by_parties = {name: {"5": 0.6914767111, "10": 0.68883277} for name in methods}
    claims = {"rows": 4, "largest_gap": 0.0210093896, "mean_error_by_parties": by_parties}
    heard = io.StringIO()
    monkeypatch.setattr(show, "_console", Console(file=heard, width=80))
    show.reproduction({"experiment": "rajkumar-wdbc", "rows": rows, "claims": claims})
    said = heard.getvalue()
    assert "…" not in said
    assert "{" not in said
    assert "69147" not in said
    assert said.count("0.691±0.012") == 4 * len(methods)
    assert all(line.count("0.691±0.012") in (0, 4) for line in said.splitlines())
