"""The security pages say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

from psephos.audit.run import CASES
from psephos.protocol import errors
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


def test_every_error_on_the_pages_is_one_of_the_code() -> None:
    pages = (page(name) for name in ("attacks", *(path.stem for path in PAGES.glob("*.md"))))
    named = set(re.findall(r"`(\w+Error)`", " ".join(pages)))
    assert len(named) > 8
    assert named <= vars(errors).keys()


def test_every_error_that_a_party_or_holder_raises_is_on_the_page() -> None:
    """Others see it stop; InvalidParameter is what its own caller did wrong."""
    raised = {
        name
        for path in (ROOT / "parties").glob("*.py")
        for name in re.findall(r"raise (\w+Error)", path.read_text("utf-8"))
    }
    assert len(raised) > 8
    assert {name for name in raised if f"`{name}`" not in page("what-leaves")} == set()
