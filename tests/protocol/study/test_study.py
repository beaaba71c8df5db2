"""A study: one meaning, one digest, and nothing in it that nobody should sign."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from psephos.protocol.errors import StudyError
from psephos.protocol.signing import SigningKey
from psephos.protocol.study.study import Member, Study, safe_confirmations
from psephos.testing.studies import trial

STUDY = trial().study


def test_written_and_read_again(tmp_path: Path) -> None:
    STUDY.write(tmp_path / "study.toml")
    again = Study.read(tmp_path / "study.toml")
    assert again == STUDY
    assert again.digest == STUDY.digest
    with pytest.raises(StudyError, match="exists already"):
        STUDY.write(tmp_path / "study.toml")


def test_layout_does_not_count_and_everything_else_does() -> None:
    text = "# what we agreed on\n\n" + STUDY.text().replace(" = ", "   =   ")
    assert Study.parse(text).digest == STUDY.digest
    digests = {STUDY.digest}
    for changed in (
        {"title": "Another"},
        {"nonce": b"1" * 16},
        {"method": "vote"},
        {"epsilon": 1.0000000001},
        {"delta": 1e-9},
        {"parameters": {"noise": "gaussian"}},
        {"classes": ("b", "a", "c")},
        {"features": ("w", "x", "y", "v")},
        {"label": "outcome"},
        {"auxiliary": b"2" * 32},
        {"samples": 13},
        {"minimum_ballots": 4},
        {"proofs": "valid"},
        {"protocol": "statistic", "public": True},
        {"closes": "2026-12-01T12:00:00Z"},
        {"patience": 7},
        {"key_bits": 258},
        {"confirmations": 2},
        {"parties": tuple(reversed(STUDY.parties))},
        {"curator": SigningKey.generate().verification_key},
    ):
        digests.add(replace(STUDY, **changed).digest)
    assert len(digests) == 21


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"threshold": 1, "confirmations": 3}, "more than half"),
        ({"title": "two\nlines"}, "title of one line"),
        ({"nonce": b"short"}, "nonce"),
        ({"protocol": "magic"}, "protocol is one of"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": 1e300}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"classes": ("a",)}, "classes"),
        ({"classes": ("a", "a")}, "classes"),
        ({"features": ()}, "feature"),
        ({"auxiliary": b"x"}, "32 bytes"),
        ({"proofs": "none"}, "prove"),
        ({"minimum_ballots": 1}, "minimum"),
        ({"minimum_ballots": 6}, "minimum"),
        ({"confirmations": 1}, "confirmed"),
        ({"confirmations": 4}, "confirmed"),
        ({"closes": "tomorrow"}, "no time"),
        ({"closes": "2026-12-01T12:00"}, "no time"),
        ({"patience": 0}, "patience"),
        ({"public": True}, "no epsilon would hold"),
        ({"key_bits": 1024, "trial": False}, "protects nothing"),
        ({"parties": STUDY.parties[:1]}, "two parties"),
        ({"parties": (*STUDY.parties, replace(STUDY.parties[0], holder=0))}, "name of its own"),
        ({"parties": (*STUDY.parties, replace(STUDY.parties[0], holder=0, name="X"))}, "identity of its own"),
        ({"parties": (*STUDY.parties, Member("X", STUDY.curator))}, "identity of its own"),
        ({"parties": tuple(replace(member, holder=0) for member in STUDY.parties)}, "confirmed|3 to 9 holders"),
        ({"parties": (*STUDY.parties[:4], replace(STUDY.parties[4], holder=3))}, "numbered"),
        *(
            ({"parties": (*STUDY.parties[:4], replace(STUDY.parties[4], name=name))}, "name of its own")
            for name in (
                " x",
                "Hospital\u202e 4",  # turns what follows around
                "Hospital 0\u200b",  # two that look alike
                "Ho\u0301spital",  # not composed, as it would be by another keyboard
                "HOSPITAL \uff10",
                "Hospital\x9b2J",  # moves the cursor of some terminals
            )
        ),
        ({"label": "class\x1b[1;1Hstudy 1111-2222"}, "moves a cursor"),
        ({"classes": ("a", "b\nWhat it costs each party")}, "moves a cursor"),
        ({"closes": "2026-12-01\x1b12:00Z"}, "moves a cursor|no time"),
        ({"method": "soft\r"}, "moves a cursor"),
        ({"parameters": {"lam\x1b[2J": 1.0}}, "moves a cursor"),
        ({"parameters": {"text": "a\x9b"}}, "moves a cursor"),
        ({"parameters": {"lam": math.nan}}, "finite"),
    ],
)
def test_what_nobody_should_sign(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        replace(STUDY, **changed)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "A trial"', "", "says nothing of title"),
        ('title = "A trial"', "title = 7", "of type str"),
        ("samples = 12", "samples = 12.5", "of type int"),
        ("samples = 12", "samples = true", "of type int"),
        ("samples = 12", 'samples = 12\nsurprise = "x"', "does not know: surprise"),
        ("psephos_study = 1", "psephos_study = 2", "format 2"),
        ("psephos_study = 1", "", "format None"),
        ('auxiliary = "', 'auxiliary = "zz', "hexadecimal"),
        ("[key]", "[clef]", "says nothing of key"),
        ("epsilon = 1.0", "epsilon = [1.0]", "of type float"),
        ("title", "title =", "not TOML"),
        ("epsilon = 1.0", "epsilon = 1" + "0" * 400, "64 bits"),
        ("patience = 600", "patience = " + "9" * 5000, "not TOML"),
        ("patience = 600", "patience = 0x" + "f" * 5000, "not TOML"),
        ("patience = 600", "patience = " + "[" * 5000 + "]" * 5000, "not TOML"),
    ],
)
def test_a_file_that_is_wrong_says_where(old: str, new: str, message: str) -> None:
    text = STUDY.text()
    assert old in text
    with pytest.raises(StudyError, match=message):
        Study.parse(text.replace(old, new, 1))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="cannot be read"):
        Study.read(tmp_path / "nothing.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\0")
    with pytest.raises(StudyError, match="not text"):
        Study.read(tmp_path / "binary.toml")


def test_who_plays_what() -> None:
    made = trial()
    assert made.study.roles_of(made.keys["party 0"].verification_key) == ["party 0", "holder 1"]
    assert made.study.roles_of(made.keys["party 4"].verification_key) == ["party 4"]
    assert made.study.roles_of(made.keys["curator"].verification_key) == ["curator"]
    with pytest.raises(StudyError, match="not in this study"):
        made.study.roles_of(SigningKey.generate().verification_key)


@pytest.mark.parametrize("holders", range(2, 12))
def test_safe_confirmations_leave_an_honest_holder_in_any_two_sets(holders: int) -> None:
    for threshold in range(holders // 2 + 1, holders + 1):
        q = safe_confirmations(holders, threshold)
        assert threshold <= q <= holders
        assert 2 * q - holders > threshold - 1  # two sets of q have more in common than there are liars
        assert q == threshold or 2 * (q - 1) - holders <= threshold - 1  # and no fewer do


def test_a_study_has_one_ceremony_of_its_own() -> None:
    other = replace(STUDY, title="Another")
    assert STUDY.ceremony().digest != other.ceremony().digest
    assert STUDY.ceremony().digest == Study.parse(STUDY.text()).ceremony().digest
