"""docs/examples/own_csv.py takes tables as people have them (text, gaps), and says what it cannot take."""

from __future__ import annotations

import csv
import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest

from psephos.protocol.errors import DataError

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "examples" / "own_csv.py"
HEAD = ["shop", "number", "age", "city", "tier"]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("own_csv", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table() -> list[list[str]]:
    """Three shops, 120 customers, three tiers; a gap in every tenth row of each column."""
    generator = random.Random(5)
    rows = []
    for place in range(120):
        tier = place // 3 % 3
        age = "" if place % 10 == 3 else str(30 + 10 * tier + generator.randrange(5))
        city = "" if place % 10 == 7 else ("Oslo", "Rome", "Lima")[tier]
        rows.append([f"shop {place % 3}", str(place), age, city, ("bronze", "silver", "gold")[tier]])
    return rows


def run(script: ModuleType, monkeypatch: pytest.MonkeyPatch, path: Path, rows: list[list[str]], *more: str) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    options = {"--label": "tier", "--party": "shop", "--public": "shop 2"}
    for place in range(0, len(more) - 1, 2):
        options[more[place]] = more[place + 1]
    words = [word for pair in options.items() for word in pair]
    monkeypatch.setattr(sys, "argv", ["own_csv.py", str(path), *words, "--test-key"])
    script.main()


def test_text_gaps_and_three_classes(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(script, monkeypatch, tmp_path / "t.csv", [HEAD, *table()], "--ignore", "number", "--learner", "tree")
    said = capsys.readouterr().out
    assert "2 parties, 40 public rows, 4 features, classes bronze, gold, silver" in said
    assert "city=Oslo" in said
    clear = int(said.rsplit("publish, ", 1)[1].split("%", 1)[0])
    assert clear >= 80  # the tier is nearly readable off the age and the city


def test_the_encoding_depends_on_public_rows_only(script: ModuleType) -> None:
    public = [{"age": "20", "city": "Oslo"}, {"age": "", "city": "Rome"}, {"age": "40", "city": ""}]
    encode = script.Encoder(public, ["age", "city"])
    private = [{"age": "", "city": "Lima"}, {"age": "7", "city": "Rome"}]
    assert encode.names == ["age", "city=Oslo", "city=Rome"]
    assert encode(private).tolist() == [[30.0, 0.0, 0.0], [7.0, 0.0, 1.0]]
    with pytest.raises(DataError, match="'age' holds numbers") as refusal:
        encode([{"age": "eleven", "city": "Rome"}])
    assert "eleven" not in str(refusal.value)


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda rows: rows, ("--label", "grade"), "no column 'grade'; it has: shop, number, age, city, tier"),
        (lambda rows: rows, ("--public", "shop 9"), "no row has 'shop 9'"),
        (lambda rows: [row for row in rows if row[0] != "shop 0"], (), "at least 2 parties, not 1"),
        (lambda rows: [*rows[:-1], rows[-1][:3]], (), "more or fewer cells"),
        (lambda rows: [*rows[:-1], [*rows[-1], "x"]], (), "more or fewer cells"),
        (lambda rows: [*rows[:-1], [*rows[-1][:4], ""]], (), "has no tier"),
        (lambda rows: [rows[0], *([*row[:4], "gold"] for row in rows[1:])], (), "one class only"),
        (lambda rows: [rows[0], *([*row[:2], "", *row[3:]] for row in rows[1:])], (), "--ignore age"),
        (lambda rows: [], (), "it has: nothing"),
    ],
)
def test_what_it_cannot_take_is_said(
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: object,
    options: tuple[str, ...],
    words: str,
) -> None:
    assert callable(change)
    with pytest.raises(DataError, match=words):
        run(script, monkeypatch, tmp_path / "t.csv", change([HEAD, *table()]), *options)
