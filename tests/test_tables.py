"""What `benchmarks.tables` says of announced class shares."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import tables


def test_announced_shares_are_rounded_and_never_none() -> None:
    labels = np.repeat([0, 1, 2], [700, 298, 2])
    assert tables.announced_shares(labels, 3) == pytest.approx(np.array([0.70, 0.30, 0.01]) / 1.01)
    assert tables.announced_shares(labels, 3, 0.05) == pytest.approx(np.array([0.65, 0.325, 0.035]) / 1.01)


def a_line(seed: int, without: float, stated: float, wrong: float) -> dict[str, Any]:
    cell = {}
    for method in tables.TODAY:
        cell |= {method: [without], f"{method}, class shares": [stated], f"{method}, wrong class shares": [wrong]}
    references = {"public": 0.8, "most frequent": 0.7, "pooled": 0.9}
    return {"table": "iris", "seed": seed, "law": tables.SHARES, "cells": {"1": cell, "3": cell}} | references


def test_a_page_has_the_mean_and_the_worst_change() -> None:
    lines = [a_line(0, 0.5, 0.7, 0.4), a_line(1, 0.6, 0.6, 0.6)]
    page = tables.shares_page(lines)
    for method in tables.TODAY:
        assert f"| {method} | 0.550 | 0.650 | +0.100 | 0.500 | -0.050 |" in page
    assert "| iris | 3 | 0.700 | 0.550 | 0.650 |" in page


def test_measured_splits_of_shares_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, measured = tmp_path / "out.json", []
    out.write_text(json.dumps(a_line(0, 0.5, 0.7, 0.4)) + "\n")
    monkeypatch.setattr(
        tables,
        "measure_shares",
        lambda half, name, seed, draws: measured.append((name, seed)) or a_line(seed, 0.5, 0.7, 0.4),
    )
    chosen = ["--half", "confirmation", "--only", "iris", "--splits", "2", "--class-shares"]
    monkeypatch.setattr(sys, "argv", ["tables", str(out), *chosen])
    tables.main()
    assert measured == [("iris", 1)]
    assert "| statistic | 0.500 | 0.700 |" in capsys.readouterr().out


def test_every_release_is_measured_with_and_without_shares() -> None:
    cell = tables.measure_shares("confirmation", "iris", 0, 2)["cells"]["10"]
    words = ("", f", {tables.SHARES}", f", wrong {tables.SHARES}")
    assert cell.keys() == {f"{method}{stated}" for method in tables.TODAY for stated in words}
    assert {len(values) for values in cell.values()} == {2}
