"""The files that describe the project say the same: version, licence, title, requirements."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

import psephos

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CODEMETA = json.loads((ROOT / "codemeta.json").read_text(encoding="utf-8"))
CITATION = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_file_states_the_same_version() -> None:
    assert psephos.__version__ == PROJECT["version"] == CODEMETA["version"]
    assert f"\nversion: {PROJECT['version']}\n" in CITATION
    newest = re.findall(r"^## (\d\S*) - (\d{4}-\d\d-\d\d)$", CHANGELOG, re.MULTILINE)[0]
    assert newest == (PROJECT["version"], CODEMETA["datePublished"])


def test_every_file_states_the_same_licence_and_keywords() -> None:
    assert CODEMETA["license"] == f"https://spdx.org/licenses/{PROJECT['license']}"
    assert f"\nlicense: {PROJECT['license']}\n" in CITATION
    assert CODEMETA["keywords"] == PROJECT["keywords"]
    assert f"keywords: [{', '.join(PROJECT['keywords'])}]" in CITATION
    assert CODEMETA["description"] == PROJECT["description"]
    assert CODEMETA["softwareRequirements"] == sorted(PROJECT["dependencies"])


def test_cited_papers_are_the_same_everywhere() -> None:
    bibliography = (ROOT / "docs" / "paper" / "paper.bib").read_text(encoding="utf-8")
    for paper in CODEMETA["referencePublication"]:
        assert f"title: {paper['name']}\n" in CITATION
        assert f"title = {{{paper['name']}}}" in bibliography


def test_every_citation_of_the_paper_is_in_its_bibliography() -> None:
    text = (ROOT / "docs" / "paper" / "paper.md").read_text(encoding="utf-8")
    bibliography = (ROOT / "docs" / "paper" / "paper.bib").read_text(encoding="utf-8")
    assert set(re.findall(r"@([a-z]+\d*)", text)) == set(re.findall(r"^@\w+\{(\w+),", bibliography, re.MULTILINE))


@pytest.mark.parametrize("name", ["SECURITY.md", "CODE_OF_CONDUCT.md", "docs/paper/paper.md", "codemeta.json"])
def test_no_address_or_person_is_invented(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not re.search(r"[\w.]+@[\w-]+\.\w+", text)
    assert "maintainers of the repository" in text or name == "codemeta.json"
