"""What the command says to people, and that what was paid for is kept; no text of others controls a terminal."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click.testing
import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from psephos.cli import reproduce, simulate
from psephos.cli.main import COMMANDS, build, main
from psephos.cli.shared import OutputError, emit, finish, note, output_directory
from psephos.model import MODEL_FILE
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.wire import Kind
from psephos.results.base import KINDS, Result

SIMULATIONS = [f"simulate {name}" for name in simulate.HELP]
BOARDS = ["board init", "board export", "board import"]
EXPERIMENTS = [f"reproduce {name}" for name in reproduce.HELP]
STUDY = [
    *(f"study {name}" for name in ("identity", "new", "show", "sign", "budget", "try")),
    *("join", "agent", "status"),
]
TINY = ("--parties", "4", "--key-bits", "512", "--test-key", "--holders", "3", "--threshold", "2", "--workers", "1")


def invoke(*words: str) -> click.testing.Result:
    return CliRunner().invoke(build(), list(words))


def started(*words: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "psephos", *words],
        text=True,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a suite in the background ignores it
        **{"stdout": subprocess.PIPE, **more},
    )


def test_the_help_lists_every_command_and_imports_none() -> None:
    code = (
        "import sys; from psephos.cli.main import build; from typer.testing import CliRunner\n"
        "print(CliRunner().invoke(build(), ['--help']).output)\n"
        "heavy = {'scipy', 'sklearn', 'joblib', 'matplotlib', 'dask', 'flwr', 'ray'}\n"
        "print({name.partition('.')[0] for name in sys.modules} & heavy)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(f"  {name} " in done.stdout for name in COMMANDS)
    assert done.stdout.rstrip().endswith("set()")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status", "message"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_ends_with_one_line_and_its_status(number: int, status: int, message: str) -> None:
    """In the middle of a run that would take hours; the log says when it has begun."""
    with started("--log-level", "info", "run", "--parties", "1000", "--dataset", "synthetic", "--workers", "1") as run:
        assert run.stderr is not None
        first = json.loads(run.stderr.readline())
        assert first["message"] == "phase"
        run.send_signal(number)
        lines = [line for line in run.stderr.read().splitlines() if not line.startswith("{")]
        (line,) = lines
        assert line.startswith(f"psephos: {message}; nothing was saved")
    assert run.returncode == status


AT_A_CALL = """
import signal, sys
from psephos.cli.main import main
def count(frame, event, argument):
    global left
    left -= 1
    if not left:
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)
left = int(sys.argv.pop(1))
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever starts tests in the background ignores it
sys.setprofile(count)
main()
"""


@pytest.mark.parametrize("call", [3, 100, 5_000, 100_000, 500_000])
def test_ctrl_c_during_startup_prints_one_line(call: int) -> None:
    """At the so manyth call of a function: in imports (of typer, NumPy, scikit-learn), and before the run begins."""
    words = ["run", "--parties", "1000", "--dataset", "synthetic", "--workers", "1"]
    done = subprocess.run([sys.executable, "-c", AT_A_CALL, str(call), *words], capture_output=True, text=True)
    (line,) = done.stderr.splitlines()
    assert line.startswith("psephos: interrupted; nothing was saved")
    assert done.returncode == 130


@pytest.mark.parametrize(
    ("command", "later"),
    [
        ("main", {"typing", "typer", "numpy"}),  # what Python does before Ctrl-C is handled ends in its own words
        ("run", {"sklearn", "pandas", "scipy.special"}),  # its help takes half a second
        ("member", {"sklearn", "pandas", "scipy.special"}),  # psephos status and its like
        ("board", {"sklearn", "pandas", "scipy.special"}),
    ],
)
def test_a_command_starts_without_what_takes_long(command: str, later: set[str]) -> None:
    code = f"import sys; old = set(sys.modules); import psephos.cli.{command}; print(*sorted({{*sys.modules}} - old))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not later & set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["run", "--key-bits", "1024"], 2, "2048"),
        (["run", "--dataset", "har", "--data-dir", "/nonexistent"], 1, "/nonexistent"),
        (["run", "--report", "/proc/nowhere"], 1, "/proc/nowhere"),
        (["reproduce", "hamm-mnist"], 2, "hamm-mnist"),
        (["reproduce", "hamm-url", "--stand-in", "--report", "/proc/nowhere"], 1, "/proc/nowhere"),
        (["reproduce", "hamm-har", "--parties", "ten"], 2, "ten"),
        (["report", "/nowhere.json"], 1, "/nowhere.json"),
        (["audit", "rsa"], 2, "tally"),
        (["run", "--workers", "0"], 2, "workers cannot be 0"),
        (["status", "/nowhere", "--board", "board.sqlite"], 2, "/nowhere"),
    ],
    ids=str,
)
def test_errors_are_one_line_with_a_status(
    words: list[str], status: int, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["psephos", *words])
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with pytest.raises(SystemExit) as leaving:
        main()
    for number, handler in before.items():
        signal.signal(number, handler)
    output = capsys.readouterr()
    assert leaving.value.code == status
    assert says in output.err
    assert not output.out


@pytest.mark.parametrize(
    ("words", "exact"),
    [
        (["tally", *TINY], "tally_equals_plaintext"),
        (["average", *TINY], "tally_equals_plaintext"),
        (["pathak", "--key-bits", "512", "--test-key", "--parties", "3"], "shares_equal_reference"),
        (["psgd", "--key-bits", "512", "--test-key", "--parties", "3", "--steps", "2"], "sums_equal_reference"),
    ],
)
def test_every_protocol_prints_one_json_object_and_nothing_else(words: list[str], exact: str) -> None:
    done = invoke("simulate", *words, "--json")
    assert done.exit_code == 0, done.exception
    assert done.stdout.count("\n") == 1
    document = json.loads(done.stdout)
    assert document[exact] is True
    assert Result.from_json(document).as_json() == document


def test_a_wrong_count_is_shown_and_fails(result: Any, capsys: pytest.CaptureFixture[str]) -> None:
    finish(result, as_json=True)
    with pytest.raises(typer.Exit) as leaving:
        finish(replace(result, tally_equals_plaintext=False), as_json=True)
    assert leaving.value.exit_code == 1
    shown = [json.loads(line)["tally_equals_plaintext"] for line in capsys.readouterr().out.splitlines()]
    assert shown == [True, False]


def test_a_failing_report_loses_no_result(tmp_path: Path) -> None:
    """The result is there; then the figures turn out to have no place."""
    (tmp_path / "figures").write_text("in the way")
    done = invoke("simulate", "tally", *TINY, "--json", "--report", str(tmp_path))
    assert "cannot be written" in str(done.exception)
    assert Result.from_json(json.loads(done.stdout)).exact is True


def test_a_test_key_is_announced_with_every_result() -> None:
    plain = invoke("simulate", "tally", *TINY)
    assert plain.stdout.startswith("WARNING: A 512-bit key is a test key: it protects nothing.")
    machine = invoke("simulate", "tally", *TINY, "--json")
    assert "WARNING: A 512-bit key is a test key" in machine.stderr
    assert len(machine.stdout.splitlines()) == 1


ROLE = re.compile(r"board|curator|consumers|(party|holder) \d+")


@pytest.mark.parametrize(
    "words",
    [("tally", *TINY), ("psgd", "--parties", "3", "--steps", "2", "--key-bits", "512", "--test-key")],
    ids=lambda words: words[0],
)
def test_the_log_has_json_lines_without_secrets(words: tuple[str, ...]) -> None:
    """Of everything that a run logs each field is one that says nothing: names, kinds, sizes, times."""
    done = invoke("--log-level", "debug", "simulate", *words, "--json")
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert {line["message"] for line in lines} == {"phase", "posted", "result"}
    kinds = {kind.title for kind in Kind}
    harmless: dict[str, Callable[[Any], bool]] = {
        "time": lambda value: datetime.fromisoformat(value).tzinfo is not None,
        "level": lambda value: value in ("debug", "info"),
        "logger": lambda value: value in ("psephos.cli", "psephos.driver"),
        "message": lambda value: True,  # above
        "phase": lambda value: re.fullmatch(r"[a-z :-]{1,40}\d{0,4}", value) is not None,
        "of": lambda value: value <= 10_000,
        "sender": lambda value: ROLE.fullmatch(value) is not None,
        "receiver": lambda value: ROLE.fullmatch(value) is not None,
        "kind": lambda value: value in kinds or value in KINDS,
        "bytes": lambda value: value <= 100_000,
        "exact": lambda value: value is True,
    }
    assert [(name, value) for line in lines for name, value in line.items() if not harmless[name](value)] == []


def test_the_help_of_run_shows_its_main_options_and_help_all_shows_every_one() -> None:
    def shown(word: str) -> set[str]:
        return {line.split()[0] for line in invoke("run", word).output.splitlines() if line.startswith("  --")}

    few, every = shown("--help"), shown("--help-all")
    assert len(few) == 14
    assert few | {"--test-key", "--help-all", "--json"} <= every


HOSTILE = "\x1b[2J\u202eowned\x07\ud800"


@pytest.fixture(scope="module")
def result() -> Any:
    return Result.from_json(json.loads(invoke("simulate", "tally", *TINY, "--json").stdout))


class FullDisk(io.StringIO):
    """A standard output that takes nothing."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")

    def fileno(self) -> int:
        return os.open(os.devnull, os.O_WRONLY)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_result_is_saved_and_reported_where_nothing_can_be_printed(
    result: Any, as_json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[Any] = []
    monkeypatch.setattr(sys, "stdout", FullDisk())
    monkeypatch.setattr(sys, "stderr", FullDisk())
    with pytest.raises(OutputError):
        finish(result, as_json=as_json, report=tmp_path, save=lambda one: saved.append(one) or ["a line"])  # type: ignore[func-returns-value]
    assert saved == [result]
    assert (tmp_path / "report.html").exists()


def test_a_result_is_printed_and_reported_where_it_cannot_be_saved(
    result: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def save(_: Any) -> list[str]:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        finish(result, as_json=True, report=tmp_path, save=save)
    assert Result.from_json(json.loads(capsys.readouterr().out)) == result
    assert (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_a_character_that_a_terminal_lacks_ends_no_command(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    rows = pd.DataFrame(generator.normal(size=(80, 2)), columns=["Ωhm", "dose"])
    rows["result"] = np.where(rows["Ωhm"] > 0, "größer", "κλεινός")
    rows["clinic"] = generator.integers(5, size=80)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    words = ["--data", str(tmp_path / "rows.csv"), "--label", "result", "--party", "clinic", "--public", "4"]
    test_key = ["--method", "own-data", "--anyway", "--key-bits", "512", "--test-key", "--output", str(tmp_path)]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for command in (["run", *words, *test_key], ["predict", str(tmp_path), str(tmp_path / "rows.csv")]):
        done = subprocess.run([sys.executable, "-m", "psephos", *command], capture_output=True, env=environment)
        assert done.returncode == 0, done.stderr
    predicted = pd.read_csv(io.BytesIO(done.stdout))  # data, in the encoding of all files
    assert set(predicted["predicted"]) <= {"größer", "κλεινός"}
    assert {"Ωhm", "dose"} <= set(predicted.columns)


def test_one_command_at_a_time_computes_a_release_for_a_directory(tmp_path: Path) -> None:
    place = tmp_path / "out"
    with output_directory(place, "a classifier"):
        with pytest.raises(InvalidParameter), output_directory(place, "a classifier"):
            pass
        assert list(place.iterdir()) == []
    with output_directory(place, "a classifier"):
        (place / MODEL_FILE).touch()
    with pytest.raises(InvalidParameter), output_directory(place, "a classifier"):
        pass


def test_texts_of_others_control_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    emit(f"a\n{HOSTILE}\n")
    note(f"b\n{HOSTILE}")
    for stream in capsys.readouterr():
        assert all(line.isprintable() for line in stream.splitlines())
        assert "owned" in stream
        assert len(stream.splitlines()) == 2
