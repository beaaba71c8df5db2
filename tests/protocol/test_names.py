"""Names of owners, columns, classes and members: one spelling for one name, and none taken for another."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.protocol.names import confusable, plain


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Zu\u0308rich", "Z\u00fcrich"),
        ("St\u00a0 \u2009Gallen\u3000", "St Gallen"),
        ("a\r\n\tb", "a b"),
        ("3\u200b", "3"),
        ("\ufeffage\u200e\x00", "age"),
        ("so\u00adft", "soft"),
        ("\u200b \x1b", ""),
        (" old  name ", "old name"),
    ],
)
def test_a_name_has_one_spelling(text: str, name: str) -> None:
    assert plain(text) == name


@given(st.text())
def test_plain_names_stay_and_can_be_shown(text: str) -> None:
    name = plain(text)
    assert plain(name) == plain(unicodedata.normalize("NFD", name)) == name
    assert not any(unicodedata.category(letter) in ("Cc", "Cf", "Zs", "Zl", "Zp") for letter in name.replace(" ", ""))


def test_confusable_names() -> None:
    assert confusable(["Basel", "Bern", "basel"]) == ("Basel", "basel")
    assert confusable(["\uff21", "A"]) == ("\uff21", "A")
    assert confusable(["Ma\u00dfe", "MASSE"]) is not None
    assert confusable(["a", "b", "a"]) is None
