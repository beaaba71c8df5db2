"""The README's library example and its commands work as printed; tests/psephos/cli/test_demo.py compares its demo."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.S)


def test_the_library_example_releases_a_useful_classifier(capsys: pytest.CaptureFixture[str]) -> None:
    """Its accuracy is 0.93 with a standard deviation of 0.021 over releases; the bound is 8 of them below."""
    (example,) = blocks("python")
    exec(compile(example, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102
    alpha, accuracy = capsys.readouterr().out.splitlines()
    assert alpha.startswith("alpha of the first public sample: [")
    match = re.fullmatch(r"released (\d\.\d\d), most frequent class (\d\.\d\d)", accuracy)
    assert match is not None
    assert float(match[1]) > float(match[2]) + 0.1


def test_make_targets_in_the_readme_exist() -> None:
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make ([\w-]+)", README.read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", makefile, re.M), target
