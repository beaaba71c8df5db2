"""`Study`: its file, its digest, and the limits of its terms."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from psephos.audit.rounds import short_key
from psephos.audit.studies import trial
from psephos.protocol.board import MOST_BYTES
from psephos.protocol.ceremony.messages import byte_length, packed_bytes
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.encrypted_sum.rounds import safe_confirmations
from psephos.protocol.errors import AgreementError, StudyError
from psephos.protocol.paillier.threshold import deal
from psephos.protocol.privacy.mechanisms import MAX_EPSILON, MIN_EPSILON
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.signing import SigningKey
from psephos.protocol.study.study import Member, Study

STUDY = trial().study


def test_the_digest_depends_on_every_field_but_not_on_the_layout() -> None:
    text = "# a comment\n\n" + STUDY.text().replace(" = ", "   =   ")
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
        {"public_table": b"2" * 32},
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
        {"curator_name": "University"},
    ):
        digests.add(replace(STUDY, **changed).digest)
    assert len(digests) == 22
    assert replace(STUDY, title="Another").ceremony().digest != STUDY.ceremony().digest


@pytest.mark.parametrize(
    "changed",
    [
        {"threshold": 1, "confirmations": 3},
        {"epsilon": math.nan},
        {"epsilon": 1e300},
        {"features": ("Gro\u0308sse",)},  # a letter and its accent as two characters
        {"closes": "tomorrow"},
        {"parties": STUDY.parties[:1]},
        {"parties": (*STUDY.parties, replace(STUDY.parties[0], holder=0))},
        {"parties": (*STUDY.parties, replace(STUDY.parties[0], holder=0, name="X"))},
        {"parties": (*STUDY.parties, Member("X", STUDY.curator))},
        {"parties": tuple(replace(member, holder=0) for member in STUDY.parties)},
        {"parties": (*STUDY.parties[:4], replace(STUDY.parties[4], holder=3))},
        *(
            {"parties": (*STUDY.parties[:4], replace(STUDY.parties[4], name=name))}
            for name in (
                " x",
                "Hospital\u202e 4",  # reverses the direction of what follows
                "Hospital 0\u200b",  # looks like another name
                "Ho\u0301spital",  # not composed
                "HOSPITAL \uff10",
                "Hospital\x9b2J",  # a control character of some terminals
            )
        ),
        {"label": "class\x1b[1;1Hstudy 1111-2222"},
        {"parameters": {"lam\x1b[2J": 1.0}},
        *({"format": version} for version in (1, 4, 3.0, True, "3")),
    ],
)
def test_invalid_terms_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(StudyError):
        replace(STUDY, **changed)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('title = "A trial"', ""),
        ('title = "A trial"', "title = 7"),
        ("samples = 12", "samples = 12.5"),
        ("samples = 12", "samples = true"),
        ("samples = 12", 'samples = 12\nsurprise = "x"'),
        ("psephos_study = 3", "psephos_study = 1"),
        ("psephos_study = 3", "psephos_study = 4"),
        ("psephos_study = 3", ""),
        ('public_table = "', 'public_table = "zz'),
        ("[key]", "[clef]"),
        ("epsilon = 1.0", "epsilon = [1.0]"),
        ("title", "title ="),
        ("epsilon = 1.0", "epsilon = 1" + "0" * 400),
        ("patience = 600", "patience = " + "9" * 5000),
        ("patience = 600", "patience = 0x" + "f" * 5000),
        ("patience = 600", "patience = " + "[" * 5000 + "]" * 5000),
    ],
)
def test_wrong_fields_are_refused(old: str, new: str) -> None:
    text = STUDY.text()
    assert old in text
    with pytest.raises(StudyError):
        Study.parse(text.replace(old, new, 1))


def test_roles_of_a_key() -> None:
    made = trial()
    assert made.study.roles_of(made.keys["party 0"].verification_key) == ["party 0", "holder 1"]
    assert made.study.roles_of(made.keys["party 4"].verification_key) == ["party 4"]
    assert made.study.roles_of(made.keys["curator"].verification_key) == ["curator"]
    with pytest.raises(StudyError):
        made.study.roles_of(SigningKey.generate().verification_key)


# -- every field in the file, and on both sides of its limits

KEYS = [SigningKey.generate(SimulationRandomness(k, "key")) for k in range(4)]
FIXED = Study(
    title="Hearts",
    nonce=bytes(range(16)),
    protocol="statistic",
    method="own-data",
    epsilon=2,  # type: ignore[arg-type]  # an integer, as in a file
    delta=1e-6,
    parameters={"dropouts": 1, "coordinates": "AA==", "flag": True, "x": 0.5},
    classes=("a", "b"),
    features=("w", "x"),
    label="class",
    public_table=b"\x17" * 32,
    samples=9,
    minimum_ballots=2,
    proofs="valid",
    public=True,
    closes="2026-12-01T12:00Z",
    patience=61,
    key_bits=256,
    degree=2,
    threshold=2,
    confirmations=3,
    trial=True,
    curator=KEYS[3].verification_key,
    parties=tuple(Member(f"H{k}", key.verification_key, (2, 3, 1)[k]) for k, key in enumerate(KEYS[:3])),
)


def test_a_negative_zero_is_zero() -> None:
    positive = replace(FIXED, delta=0.0, parameters={"x": 0.0})
    negative = replace(FIXED, delta=-0.0, parameters={"x": -0.0})
    assert negative == positive
    assert negative.digest == positive.digest


def test_in_a_study_without_a_key_all_roles_must_join() -> None:
    none: dict[str, Any] = {"key_bits": 0, "threshold": 0, "confirmations": 0, "degree": 1}
    parties = tuple(replace(member, holder=0) for member in FIXED.parties)
    study = replace(FIXED, protocol="pathak", parties=parties, **none)
    assert (study.uses_key, study.holders) == (False, ())
    assert study.must_join == ("curator", "party 0", "party 1", "party 2")
    for wrong in ({"key_bits": 256}, {"confirmations": 0, "threshold": -1}, {"parties": FIXED.parties}):
        with pytest.raises(StudyError):
            replace(study, **wrong)
    one = (replace(parties[0], holder=1), *parties[1:])
    for wrong in ({"parties": one}, {"parties": one, "confirmations": 1}, {"parties": one, "threshold": 1}):
        with pytest.raises(StudyError):
            replace(study, **wrong)


@pytest.mark.parametrize(("bits", "degree", "holders", "threshold"), [(258, 2, 3, 2), (256, 1, 3, 2), (256, 2, 4, 2)])
def test_a_key_of_other_terms_is_refused(bits: int, degree: int, holders: int, threshold: int) -> None:
    right, _ = deal(short_key(bits=256, degree=2), holders=3, threshold=2)
    FIXED.check_key(right)
    with pytest.raises(AgreementError):
        FIXED.check_key(deal(short_key(bits=bits, degree=degree), holders=holders, threshold=threshold)[0])
    with pytest.raises(AgreementError):
        FIXED.check_key(deal(short_key(bits=256, degree=2), holders=3, threshold=3)[0])


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ({"title": "x" * 100}, {"title": "x" * 101}),
        ({"title": "x"}, {"title": ""}),
        ({"title": "x y"}, {"title": " x"}),
        ({"nonce": bytes(16)}, {"nonce": bytes(15)}),
        ({"nonce": bytes(16)}, {"nonce": bytes(17)}),
        ({"epsilon": MIN_EPSILON}, {"epsilon": MIN_EPSILON * 0.999}),
        ({"epsilon": MAX_EPSILON}, {"epsilon": MAX_EPSILON * 1.001}),
        ({"delta": 0.0}, {"delta": -1e-300}),
        ({"delta": 1 - 2**-53}, {"delta": 1.0}),
        ({"classes": ("a", "b")}, {"classes": ("a",)}),
        ({"classes": ("a", "b", "c")}, {"classes": ("a", "b", "a")}),
        ({"features": ("w",)}, {"features": ("w", "w")}),
        ({"samples": 1}, {"samples": 0}),
        ({"public_table": bytes(32)}, {"public_table": bytes(33)}),
        ({"public_table": bytes(32)}, {"public_table": bytes(31)}),
        ({"proofs": "knowledge"}, {"proofs": "none"}),
        ({"minimum_ballots": 2}, {"minimum_ballots": 1}),
        ({"minimum_ballots": 3}, {"minimum_ballots": 4}),
        ({"threshold": 2, "confirmations": 2}, {"threshold": 2, "confirmations": 1}),
        ({"confirmations": 3}, {"confirmations": 4}),
        ({"patience": 1}, {"patience": 0}),
        ({"closes": ""}, {"closes": "2026-12-01T12:00"}),
        ({"closes": "2026-12-01T12:00+02:00"}, {"closes": "2026-13-01T12:00Z"}),
        ({"parameters": {"x": -1e308}}, {"parameters": {"x": math.inf}}),
        ({"parameters": {"x": "t"}}, {"parameters": {"x": "t\n"}}),
        ({"parameters": {"x": "t"}}, {"parameters": {"x\n": "t"}}),
        ({"label": "class"}, {"label": "cl\nass"}),
        ({"method": "own-data"}, {"method": "own\ndata"}),
        ({"features": ("a", "b")}, {"features": ("a", "b\u202e")}),
        ({"closes": "1970-01-02T00:00Z"}, {"closes": "0001-01-01T00:00+23:59"}),
        ({"classes": ("a", "b")}, {"classes": ("a", "b\n")}),
        ({"curator_name": ""}, {"curator_name": FIXED.parties[0].name}),
        ({"curator_name": "x"}, {"curator_name": "x\u202e"}),
        ({"threshold": 2}, {"threshold": 3}),
        ({"key_bits": 256}, {"key_bits": 256, "trial": False}),
        ({"degree": 4}, {"degree": 5}),
    ],
)
def test_both_sides_of_every_limit(good: dict[str, Any], bad: dict[str, Any]) -> None:
    replace(FIXED, **good)
    with pytest.raises(StudyError):
        replace(FIXED, **bad)


def test_parties_must_be_tables() -> None:
    text = FIXED.text()
    without = text[: text.index("[[party]]")]
    with pytest.raises(StudyError):
        Study.parse(f"party = [1, 2]\n{without}")
    with pytest.raises(StudyError):
        Study.parse(without)


def test_numbers_up_to_63_bits_are_accepted() -> None:
    most = 2**63 - 1
    for old, new in (("dropouts = 1", f"dropouts = {most}"), ("patience = 61", f"patience = {most}")):
        assert str(most) in Study.parse(FIXED.text().replace(old, new)).text()
    assert Study.parse(FIXED.text().replace("delta = 1e-06", "delta = 0")).delta == 0.0
    assert type(Study.parse(FIXED.text().replace("epsilon = 2.0", "epsilon = 2")).epsilon) is float


def test_a_written_study_is_read_back(tmp_path: Path) -> None:
    FIXED.write(tmp_path / "study.toml")
    for name in ("nowhere/study.toml", "study.toml"):
        with pytest.raises(StudyError):
            FIXED.write(tmp_path / name)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\0")
    for name in ("nothing.toml", "binary.toml"):
        with pytest.raises(StudyError):
            Study.read(tmp_path / name)
    assert (tmp_path / "study.toml").read_text(encoding="utf-8") == FIXED.text()
    assert Study.read(tmp_path / "study.toml") == FIXED
    (tmp_path / "study.toml").write_text("\ufeff" + FIXED.text(), encoding="utf-8")
    assert Study.read(tmp_path / "study.toml") == FIXED


@pytest.mark.parametrize(
    ("classes", "label", "allowed"),
    [(("a", "b"), "age", True), (("a", "b"), "", True), ((), "age", True), ((), "", False), (("a",), "age", False)],
)
def test_a_study_without_classes_predicts_a_number_and_names_it(
    classes: tuple[str, ...], label: str, allowed: bool
) -> None:
    if allowed:
        assert replace(FIXED, classes=classes, label=label).predicts_number is (not classes)
        return
    with pytest.raises(StudyError):
        replace(FIXED, classes=classes, label=label)


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("features", [1, 9])
def test_a_party_may_post_eight_messages_of_the_longest_vector(classes: int, features: int) -> None:
    """A kilobyte for each entry of a step in all features with a constant, for each class, two at least."""
    named = {"classes": tuple("abcdefghij"[:classes]), "features": tuple("abcdefghi"[:features]), "samples": 40}
    limits = replace(STUDY, **named).members.limits  # type: ignore[arg-type]
    assert limits["party 4"] == 8 * ((1 << 20) + (1 << 10) * (40 + (features + 1) ** 2) * classes)
    assert limits["curator"] == limits["party 4"] + MOST_BYTES
    assert limits["party 0"] == limits["party 4"]


@pytest.mark.parametrize("bits", [2048, 3072, 3074, 4096, 6144, 6146, 8192, 16384])
@pytest.mark.parametrize("holders", [3, 5, 9])
def test_a_holder_may_post_forty_times_what_a_key_takes(bits: int, holders: int) -> None:
    """The mean of all batches, of which every candidate is tested, and the pieces of the last one that are opened."""
    terms = CeremonyTerms(bits, holders, 2, bytes(32))
    sets = len(terms.subsets)
    batch = 2 * packed_bytes(terms) + 32 * sets + terms.batch * (terms.rest_bits // 8 + 1 + bits // 8)
    opened = -(-sets // holders) * 2 * terms.batch * byte_length(terms.step << terms.top_bits)
    mean = batch / (1 - (1 - terms.success) ** terms.batch) + opened
    limits = replace(STUDY, key_bits=bits, trial=False).members.limits
    assert limits["holder 1"] - limits["party 0"] > 40 * mean


def test_a_descent_may_post_a_message_in_each_step() -> None:
    """Where its study does not say how many steps it has, as many as it may have; other studies have none."""
    of_a_message = STUDY.members.limits["party 4"] / 8
    sizes = {"sizes": "9 9"}
    for parameters, steps in (
        (sizes | {"steps": 7}, 7),
        (sizes | {"steps": -7}, 0),
        (sizes, 1000),
        (sizes | {"steps": "many"}, 0),
        ({}, 0),
    ):
        made = replace(STUDY, parameters=parameters)
        assert made.members.limits["party 4"] == (8 + steps) * of_a_message


@pytest.mark.parametrize("holders", range(2, 12))
def test_two_sets_of_safe_confirmations_share_an_honest_holder(holders: int) -> None:
    for threshold in range(1, holders + 1):
        q = safe_confirmations(holders, threshold)
        assert threshold <= q <= holders
        assert 2 * q - holders > threshold - 1  # they share more holders than may deviate
        assert q == threshold or 2 * (q - 1) - holders <= threshold - 1  # q is minimal
