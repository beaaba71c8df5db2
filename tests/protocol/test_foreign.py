"""Files and texts of others: every reader of such files is bounded, and what is shown controls no terminal."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.data.schema import read_schema
from psephos.protocol.errors import PsephosError
from psephos.protocol.foreign import has_controls, parse_toml, printable, read_text
from psephos.protocol.study.study import Study
from psephos.released import load_model
from psephos.results.write import report_from_json
from psephos.study.identity import IdentityCard


def _table_schema(path: Path) -> Any:
    (link := path.with_suffix(".json")).symlink_to(path)
    return read_schema(link)


READERS: dict[str, Callable[[Path], Any]] = {
    "schema": read_schema,
    "table schema": _table_schema,
    "card": IdentityCard.read,
    "study": Study.read,
    "model": load_model,
    "report": lambda path: report_from_json(path, path.parent / "report"),
}
SOON = 5.0
"""Seconds within which a file is refused; a pipe would be read for ever."""


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 33)


def _written(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None


HOSTILE: dict[str, Callable[[Path], Any]] = {
    "missing": lambda path: None,
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a directory": Path.mkdir,
    "8 GiB": _sparse,
    "not UTF-8": _written(b"\xff\xfe"),
    "control characters": _written(b"\x1b[2J\x00"),
    "deep arrays": _written(b"columns = " + b"[" * 4_000 + b"]" * 4_000),
    "deep tables": _written(b"columns = " + b"{a=" * 2_000 + b"1" + b"}" * 2_000),
    "a dotted key": _written(b".".join([b"a"] * 4_900) + b"=1"),
    "a long key": _written(b"a" * 5_000 + b"=1"),
    "a long integer": _written(b"classes = " + b"9" * 5_000),
    "a long hexadecimal integer": _written(b"classes = 0x" + b"f" * 5_000),
    "deep JSON": _written(b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "a long integer of JSON": _written(b'{"psephos_model": ' + b"9" * 5_000 + b"}"),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_a_named_error_at_once(kind: str, reader: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    HOSTILE[kind](path)
    start = time.monotonic()
    with pytest.raises(PsephosError) as caught:
        READERS[reader](path)
    assert time.monotonic() - start < SOON
    assert len(printable(str(caught.value))) < 2_000


@pytest.mark.parametrize(
    "text",
    [".".join(["a"] * 10_000) + "=1", "[" + " . ".join(['"a"'] * 10_000) + "]", "a=" + "[" * 40 + "]" * 40, "a=2e", "=",
     "x" * 1_001 + "=1", "a=1" + "0" * 1_000],
)  # fmt: skip
def test_a_document_beyond_the_bounds_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - callers name the class
        parse_toml(text)


def test_a_document_within_the_bounds_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text('\ufeffa = "' + "x." * 20 + '"\nb.c = [9223372036854775807, [{d = 1}]]\n', encoding="utf-8")
    assert parse_toml(read_text(path, 1_000)) == {"a": "x." * 20, "b": {"c": [2**63 - 1, [{"d": 1}]]}}
    with pytest.raises(OSError, match="10 bytes"):
        read_text(path, 10)


@given(st.text())
def test_nothing_that_is_shown_is_a_control_character(text: str) -> None:
    assert printable(text).isprintable()
    assert all(line.isprintable() for line in printable(text, lines=True).split("\n"))
    assert not has_controls(printable(text))


@pytest.mark.parametrize(
    ("name", "has"), [("a\u00a0b", False), ("\u0646\u200c", False), ("a\x7f", True), ("\u2066a", True)]
)
def test_which_characters_control_a_terminal(name: str, has: bool) -> None:
    assert has_controls(name) is has
