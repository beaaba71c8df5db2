"""What was paid for is kept, whatever happens to the terminal; and no text of others controls it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from psephos.cli.shared import OutputError, emit, finish, note, output_directory
from psephos.model import MODEL_FILE
from psephos.protocol.errors import InvalidParameter
from psephos.results import Result
from tests.psephos.cli.test_main import TINY, invoke

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
@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_a_character_that_a_terminal_lacks_ends_no_command(encoding: str, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    rows = pd.DataFrame(generator.normal(size=(80, 2)), columns=["Ωhm", "dose"])
    rows["result"] = np.where(rows["Ωhm"] > 0, "größer", "κλεινός")
    rows["clinic"] = generator.integers(5, size=80)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    words = ["--data", str(tmp_path / "rows.csv"), "--label", "result", "--party", "clinic", "--public", "4"]
    test_key = ["--method", "own-data", "--key-bits", "512", "--test-key", "--output", str(tmp_path)]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
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
