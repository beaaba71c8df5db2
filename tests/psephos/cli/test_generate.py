"""Options that are generated from a dataclass: lists, paths, and the hints that name them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from psephos.cli.generate import SectionedCommand, with_options
from psephos.options import join_list, option, split_list, words_for


@dataclass(frozen=True)
class Options:
    ignore: tuple[str, ...] = option((), "Columns.")
    bits: tuple[int, ...] = option((1, 2), "Numbers.")
    sizes: tuple[int, ...] | None = option(None, "Numbers.")
    file: str = option("", "A file.")


def parsed(*words: str) -> Options:
    chosen: list[Options] = []
    app = typer.Typer()
    app.command(cls=SectionedCommand)(with_options(Options)(chosen.append))  # type: ignore[arg-type]
    done = CliRunner().invoke(app, list(words))
    if done.exit_code:
        raise ValueError(done.output)
    return chosen[0]


def test_a_list_is_split_as_csv_and_may_be_repeated() -> None:
    assert parsed() == Options()
    assert parsed("--ignore", 'a, "dose, mg",5" pipe', "--ignore", "b,").ignore == ("a", "dose, mg", '5" pipe', "b")
    assert parsed("--bits", "3,4", "--sizes", "5") == Options(bits=(3, 4), sizes=(5,))
    with pytest.raises(ValueError, match="3,x"):
        parsed("--bits", "3,x")


NAMES = st.lists(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1), min_size=1)


@example(["~"])
@given(NAMES)
def test_any_names_survive_a_list_and_a_hint(names: list[str]) -> None:
    assert split_list(join_list(names)) == tuple(names)
    assert parsed(*shlex.split(words_for("ignore", names))).ignore == tuple(names)


def test_the_home_directory_is_known_in_every_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/h")
    for words in (["--file", "~/b"], ["--file=~/b"]):
        assert parsed(*words).file == str(Path("/home/h/b"))
    assert parsed("--file=a~/b").file == "a~/b"
