"""One delta of a release: the terminal, the card, the JSON and the model of a run show the same number."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from psephos.cli.main import build
from psephos.protocol.privacy.accounting import (
    stated_delta,
)

RUN = ("run", "--dataset", "synthetic", "--key-bits", "512", "--test-key", "--workers", "1")
DELTA = re.compile(r"delta(?: =)?\s+([0-9.]+(?:e-?[0-9]+)?)")


def deltas(document: Any) -> Iterator[float]:
    """Every number called delta in JSON, but for what was asked for."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name == "delta":
                yield value
            elif name != "options":
                yield from deltas(value)
    elif isinstance(document, list):
        for value in document:
            yield from deltas(value)


@pytest.mark.parametrize("method", ["own-data", "vote", "avg", "pate"])
@pytest.mark.parametrize("mechanism", [None, "gaussian"])
def test_every_output_of_a_run_states_the_same_delta(method: str, mechanism: str | None, tmp_path: Path) -> None:
    words = [*RUN, "--parties", "6", "--method", method, "--output", str(tmp_path)]
    words.append("--verbose")
    if mechanism is not None:
        words += ["--mechanism", mechanism, "--delta", "1e-5"]
    done = CliRunner().invoke(build(), words)
    assert done.exit_code == 0, done.output
    delta = stated_delta(0.0 if mechanism is None else 1e-5)
    expected = f"{delta:.3g}"
    result, model = (json.loads((tmp_path / name).read_text()) for name in ("result.json", "model.json"))
    in_json = [*deltas(result), *deltas(model)]
    assert len(in_json) >= 4, "of the run, of its release, of all its releases together, of the model"
    assert set(in_json) == {delta}
    text = " ".join(done.stdout.split())
    assert len(DELTA.findall(text)) >= 3, "the cost, the facts and the answer"
    assert set(DELTA.findall(text)) == {expected}
    assert DELTA.findall((tmp_path / "card.md").read_text()) == [expected]


@pytest.mark.parametrize(("colluders", "count", "warned"), [(None, 2, False), (1, 1, True), (3, 3, False)])
def test_a_run_states_the_number_of_colluders(colluders: int | None, count: int, warned: bool, tmp_path: Path) -> None:
    """On the card, in the JSON and on the terminal: by default one fewer than the 3 of 5 holders who open."""
    words = [*RUN, "--parties", "7", "--method", "own-data", "--output", str(tmp_path)]
    words += [] if colluders is None else ["--colluders", str(colluders)]
    done = CliRunner().invoke(build(), words)
    assert done.exit_code == 0, done.output
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["colluders"], result["threshold"]) == (count, 3)
    assert result["privacy"]["own-data"]["chosen"]["contributors"] == 7 - count - 1
    for text in ((tmp_path / "card.md").read_text(), " ".join(done.stdout.split())):
        assert f"{count}: epsilon holds against any" in text
        assert ("WARNING: 2 key holders" in text) is warned
