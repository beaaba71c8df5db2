"""The security pages say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from psephos.audit.run import CASES
from tests.security.lab import attacks, tables

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "security"


def page(name: str) -> str:
    if name in ("attacks", "matrix"):  # made when the site is built
        return {"attacks": attacks.page, "matrix": tables.page}[name]()
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def test_every_case_has_its_place_in_the_threat_model() -> None:
    table = page("index").split("## Threat model")[1].split("## Assumptions")[0]
    assert all(f"`{name}`" in table for name in CASES)


@pytest.mark.parametrize("name", ["index", "proofs", "attacks", "matrix", "what-leaves"])
def test_links_and_named_files_exist(name: str) -> None:
    text = page(name)
    for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", text):
        assert (PAGES / target).exists(), target
    for path in re.findall(r"`((?:tests|examples|psephos|protocol|docs)/[\w/]+\.(?:py|md))", text):
        assert (ROOT / path).exists(), path


def test_the_ten_findings_have_their_evidence() -> None:
    text = page("index").split("\n## Findings\n")[1]
    findings = re.findall(r"^\*\*(\d+)\. (.*?)(?=\n\n|\Z)", text, flags=re.S | re.M)
    assert [number for number, _ in findings] == [str(i) for i in range(1, 11)]
    tests = (ROOT / "tests/security/test_findings.py").read_text(encoding="utf-8")
    numbers = re.findall(r"test_(\d+)_\.\.\.", text)
    assert set(numbers) == set(re.findall(r"def test_(\d+)_", tests))
    # Each has a test of its own, or an attack that the suite runs.
    for number, words in findings:
        assert re.search(rf"`test_{number}_\.\.\.`|attack `", words), number
    for script in re.findall(r"attack `(\w+\.py)`", text):
        assert (ROOT / "docs" / "examples" / "attacks" / script).exists()
        assert script.removesuffix(".py") in (ROOT / "tests/security/test_attacks.py").read_text(encoding="utf-8")


def test_every_error_that_a_party_or_holder_raises_is_on_the_page() -> None:
    """Others see it stop; InvalidParameter is what its own caller did wrong."""
    raised = {
        name
        for path in (ROOT / "parties").glob("*.py")
        for name in re.findall(r"raise (\w+Error)", path.read_text("utf-8"))
    }
    assert len(raised) > 8
    assert {name for name in raised if f"`{name}`" not in page("what-leaves")} == set()
