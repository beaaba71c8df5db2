"""The tiers of the suite: `make test` leaves out the slow ones, `make test-all` and CI run everything."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
MARKERS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"][
    "markers"
]
TIERS = [marker.partition(":")[0] for marker in MARKERS]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def recipe(target: str) -> str:
    """The commands of a target of the Makefile."""
    match = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert match is not None, target
    return match[1]


def test_make_test_leaves_out_every_tier() -> None:
    left_out = re.search(r"^TIERS := (.*)$", MAKEFILE, re.MULTILINE)
    assert left_out is not None
    assert left_out[1].split(" or ") == TIERS
    assert '-m "not ($(TIERS))"' in recipe("test")


def test_make_test_draws_few_cases_and_no_others_the_next_time(pytestconfig: pytest.Config) -> None:
    few = pytestconfig.getoption("markexpr").startswith("not ")
    drawn = settings.default
    assert (drawn.max_examples, drawn.derandomize) == ((30, True) if few else (100, False))
    assert drawn.database is None or not few
    assert drawn.print_blob, "a case that was found by chance can be run again"
    assert "--randomly-seed=" in recipe("test")
    assert "--randomly-seed=" not in recipe("test-all")


def test_make_test_all_leaves_out_nothing_and_ci_runs_it() -> None:
    assert " -m " not in recipe("test-all").replace("python -m", "")
    assert "deselect" not in recipe("test-all")
    assert "make test-all\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize("tier", TIERS)
def test_every_tier_has_tests_and_is_explained(tier: str) -> None:
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    assert any(f"pytest.mark.{tier}" in path.read_text(encoding="utf-8") for path in files)
    assert f"`{tier}`" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
