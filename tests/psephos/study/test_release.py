"""The model that a study releases, what of it is checked, and the whole text of its card."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest

from psephos.curator.ledger import Release
from psephos.curator.signal import Signal
from psephos.model import MOST_BYTES, Model, written_model
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import AgreementError, StudyError
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.study.study import Study
from psephos.results.card import markdown
from psephos.results.trust import facts
from psephos.specs.registry import is_verifiable, spec_of
from psephos.specs.terms import StudyTerms
from psephos.study.card import card
from psephos.study.consent import describe_study, trust_of
from psephos.study.release import _ERROR, _grid_step, _is_rounded, make_release, read_release
from psephos.study.samples import PublicSamples
from tests.psephos.study.cast import Cast, fields_of

OPENED = OpenedSum(tuple(int(k) for k in np.arange(24) % 3), (0, 1, 2, 3))


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> PublicSamples:
    path = tmp_path_factory.mktemp("public") / "public.csv"
    frame = pd.DataFrame(np.random.default_rng(2).normal(size=(12, 2)), columns=["x", "y"])
    frame.assign(ward=["A", "B", "C"] * 4).to_csv(path, index=False)
    return PublicSamples.read(path, "class")


@pytest.fixture(scope="module")
def study(samples: PublicSamples) -> Study:
    made = Cast("tally").made.study
    rows = {"public_table": samples.digest, "features": samples.features, "samples": 12}
    return replace(made, **rows, method="soft", parameters={"lam": 0.5}, epsilon=2.5, delta=1e-6, minimum_ballots=3)  # type: ignore[arg-type]


def seeded() -> SimulationRandomness:
    return SimulationRandomness(4, "release")


def test_the_model_file_contains_the_rounded_release(study: Study, samples: PublicSamples) -> None:
    content = make_release(study, samples, OPENED, seeded())
    model = msgspec.json.decode(content, type=Model)
    w, paid = spec_of(StudyTerms(study, samples)).release(OPENED, seeded())
    step = _grid_step(w)
    assert np.abs(w).max() < step * 2**24 <= 2 * np.abs(w).max()
    coefficients, intercepts = samples.scaler.fold(np.rint(w / step) * step)
    assert model == Model(
        psephos_model=1,
        classes=("a", "b", "c"),
        encoding=samples.encoding,
        coefficients=tuple(map(tuple, coefficients.tolist())),
        intercepts=tuple(intercepts.tolist()),
        method="soft",
        parties=4,
        release=replace(paid, delta=1e-6 + 2.0**-64, protects=PrivacyUnit("party")),
        warnings=("A trial: the key of this study may be too short to protect anything.",),
    )
    assert 0 < paid.delta <= model.release.delta
    assert content == written_model(model)
    assert make_release(study, samples, OPENED, seeded()) == content
    assert make_release(study, samples, OPENED) != content, "with the system's coins"
    assert read_release(study, samples, content) == model
    real = replace(study, trial=False, key_bits=2048)
    assert read_release(real, samples, make_release(real, samples, OPENED)).warnings == ()
    with pytest.raises(StudyError):
        make_release(study, replace(samples, inputs=samples.inputs[::-1]), OPENED)


@pytest.mark.parametrize(
    ("good", "bad", "what"),
    [
        ({}, {"classes": ("a", "c", "b")}, "classes"),
        ({}, {"method": "vote"}, "method"),
        ({"epsilon": 2.5 * (1 + 1e-12)}, {"epsilon": math.nextafter(2.5 * (1 + 1e-12), 3)}, "epsilon"),
        ({"epsilon": 2.5}, {"epsilon": None}, "epsilon"),
        ({"epsilon": 2.5}, {"epsilon": 3.5}, "epsilon"),
        ({"epsilon": 2.5 * (1 - 0.9e-9)}, {"epsilon": 2.5 * (1 - 1.1e-9)}, "epsilon"),
        ({}, {"epsilon": 1e-9}, "epsilon"),
        ({}, {"unit": "record"}, "unit"),
        ({}, {"mechanism": "none needed |<script>alert(1)</script>"}, "mechanism"),
        ({}, {"source": "Audited by the regulator."}, "source"),
        ({}, {"norm": "l1"}, "norm"),
        ({}, {"norm": None}, "norm"),
        ({}, {"sensitivity": 1e-12}, "sensitivity"),
        ({}, {"sensitivity": None}, "sensitivity"),
        ({}, {"said": "perfectly private"}, "said"),
        ({}, {"signal": Signal(1.0, 0.0, 1.0, 0.5, False)}, "signal"),
        ({}, {"chosen": {}}, "chosen"),
        ({"chosen": {"lam": 0.5}}, {"chosen": {"lam": 0.6}}, "chosen"),
        ({}, {"chosen": {"lam": 0.5, "approved by": "the regulator"}}, "chosen"),
        ({"delta": 1e-6 + 2.0**-64}, {"delta": math.nextafter(1e-6 + 2.0**-64, 1)}, "delta"),
        ({}, {"delta": math.nextafter(1e-6 + 2.0**-64, 0)}, "delta"),
        ({}, {"delta": None}, "delta"),
        ({}, {"delta": 0.0}, "delta"),
        ({}, {"warnings": ()}, "warnings"),
        ({}, {"warnings": ("Another.",)}, "warnings"),
        ({}, {"parties": 2}, "number of ballots"),
        ({}, {"parties": 6}, "number of ballots"),
        ({}, {"parties": 3}, "sensitivity"),
    ],
)
def test_a_model_against_the_study_is_refused(
    study: Study, samples: PublicSamples, good: dict[str, Any], bad: dict[str, Any], what: str
) -> None:
    honest = msgspec.json.decode(make_release(study, samples, OPENED, seeded()), type=Model)

    def changed(fields: dict[str, Any]) -> bytes:
        paid = {name: value for name, value in fields.items() if name in Release.__dataclass_fields__}
        rest = {name: value for name, value in fields.items() if name not in paid}
        return written_model(msgspec.structs.replace(honest, release=replace(honest.release, **paid), **rest))

    read_release(study, samples, changed(good))
    with pytest.raises(AgreementError, match=f"differs from the study in .*{what}"):
        read_release(study, samples, changed(bad))


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff{}", b"[" * 100_000], ids=["nothing", "empty", "bytes", "deep"])
def test_invalid_model_bytes_are_refused(study: Study, samples: PublicSamples, content: bytes) -> None:
    with pytest.raises(AgreementError, match="not a model"):
        read_release(study, samples, content)


@pytest.mark.parametrize("lie", ["twice", "space", "number", "byte order mark"])
def test_ambiguous_model_json_is_refused(study: Study, samples: PublicSamples, lie: str) -> None:
    """Agents write the curator's bytes: of a field that occurs twice, some readers take the first and some the last."""
    content = make_release(study, samples, OPENED)
    changed = {
        "twice": content.replace(b"{\n", b'{\n "intercepts": [0.0, 0.0, 1e9],\n', 1),
        "space": content + b" ",
        "number": content.replace(b'"parties": 4', b'"parties": 4.0'),
        "byte order mark": b"\xef\xbb\xbf" + content,
    }[lie]
    assert changed != content
    with pytest.raises(AgreementError):
        read_release(study, samples, changed)


@pytest.mark.parametrize("scale", [1e-290, 1e-30, 1.0, 1e30, 1e290])
def test_classifiers_of_any_scale_are_compared_entry_by_entry(
    samples: PublicSamples, template: Model, scale: float
) -> None:
    w = np.random.default_rng(4).normal(size=(3, 6)) * scale
    w[1] = 0.0
    step = _grid_step(w)
    honest = model_of(np.rint(w / step) * step, samples, template)
    assert _is_rounded(w, honest, samples.scaler)
    turned = tuple(tuple(-value for value in row) for row in honest.coefficients)
    zeros = (honest.coefficients[0], tuple(-0.0 for _ in honest.coefficients[1]), honest.coefficients[2])
    for coefficients in (turned, zeros, honest.coefficients[::-1], (honest.coefficients[0],) * 3):
        lie = msgspec.structs.replace(honest, coefficients=coefficients)
        assert not _is_rounded(w, lie, samples.scaler)
    for value in (-0.0, scale, 1e300):
        lie = msgspec.structs.replace(honest, intercepts=(honest.intercepts[0], value, honest.intercepts[2]))
        assert not _is_rounded(w, lie, samples.scaler)


class Long(bytes):
    """As long as it says, without the memory."""

    def __new__(cls, length: int) -> Long:
        made = super().__new__(cls, b"{}")
        made.length = length  # type: ignore[attr-defined]
        return made

    def __len__(self) -> int:
        return int(self.length)  # type: ignore[attr-defined]


def test_an_oversized_result_is_refused(study: Study, samples: PublicSamples) -> None:
    with pytest.raises(AgreementError, match="larger than any model"):
        read_release(study, samples, Long(MOST_BYTES + 1))
    with pytest.raises(AgreementError, match="not a model"):
        read_release(study, samples, Long(MOST_BYTES))


# -- the same coefficients on every machine


def model_of(w: Any, samples: PublicSamples, template: Model) -> Model:
    coefficients, intercepts = samples.scaler.fold(w + 0.0)
    rows = {"coefficients": tuple(map(tuple, coefficients.tolist())), "intercepts": tuple(intercepts.tolist())}
    return msgspec.structs.replace(template, **rows)


@pytest.fixture
def template(study: Study, samples: PublicSamples) -> Model:
    return msgspec.json.decode(make_release(study, samples, OPENED, seeded()), type=Model)


@pytest.mark.parametrize("seed", range(20))
def test_rounding_hides_machine_differences(samples: PublicSamples, template: Model, seed: int) -> None:
    generator = np.random.default_rng(seed)
    w = generator.normal(size=(3, 6)) * 10.0 ** generator.integers(-6, 6)
    step = _grid_step(w)
    published = model_of(np.rint(w / step) * step, samples, template)
    assert _is_rounded(w, published, samples.scaler)
    noise = generator.uniform(-1, 1, size=w.shape) * np.abs(w).max() * _ERROR / 4
    assert _is_rounded(w + noise, published, samples.scaler), "another machine's computation"


def test_ties_in_rounding_accept_both_neighbours_and_nothing_else(samples: PublicSamples, template: Model) -> None:
    w = np.random.default_rng(3).uniform(-1, 1, size=(3, 6))
    w[0, 0] = 1.75
    step, error = _grid_step(w), _ERROR * 1.75
    assert step == 2.0**-23
    for place in ((1, 2), (2, 5)):  # the coefficient of a feature, and the constant's
        for distance, tie in ((0.0, True), (0.9 * error, True), (-0.9 * error, True), (1.1 * error, False)):
            other = w.copy()
            other[place] = (1000 + 0.5) * step + distance
            rounded = np.rint(other / step)
            for multiple in (998, 999, 1000, 1001, 1002):
                rounded[place] = multiple
                expected = multiple in (1000, 1001) if tie else multiple == 1001
                assert _is_rounded(other, model_of(rounded * step, samples, template), samples.scaler) == expected
    zero = np.zeros((3, 6))
    assert _grid_step(zero) == 1.0
    assert _is_rounded(zero, model_of(zero, samples, template), samples.scaler)
    assert not _is_rounded(zero, model_of(w, samples, template), samples.scaler)


@pytest.mark.parametrize("fields", [{"method": name} for name in ("soft", "vote", "statistic")], ids=str)
def test_the_cost_of_a_vote_release_depends_on_no_vote(
    study: Study, samples: PublicSamples, fields: dict[str, Any]
) -> None:
    """Members compute the cost from the number of ballots alone, and compare the curator's with it."""
    spec = spec_of(StudyTerms(replace(study, **fields), samples))
    generator = np.random.default_rng(5)
    for ballots in (3, 5):
        for _ in range(5):
            votes = generator.integers(0, 3, size=(ballots, 12))
            sums = np.stack([(votes == k).sum(axis=0) for k in (0, 1)], axis=1).ravel()
            assert spec.release(OpenedSum(tuple(sums.tolist()), tuple(range(ballots))))[1] == spec.cost(ballots)
    if fields["method"] != "vote":
        assert spec.cost(3) != spec.cost(5)


# -- the card


def test_texts_of_a_study_are_escaped_in_its_card(study: Study, samples: PublicSamples) -> None:
    model = msgspec.json.decode(make_release(study, samples, OPENED, seeded()), type=Model)
    text = card(replace(study, title="<b>A</b> [x](y) |", classes=("a`", "b|", "c*"), label="l|`"), model)
    assert text.partition("---\n\n")[2].splitlines()[0] == r"# \<b\>A\</b\> \[x\](y) \|"
    assert r"of l\|\` (a\`, b\|, c\*)" in text


def test_a_card_has_every_statement_about_privacy_and_trust(study: Study, samples: PublicSamples) -> None:
    """And its cost; no name is markup or ends a cell."""
    model = msgspec.json.decode(make_release(study, samples, OPENED, seeded()), type=Model)
    text = card(replace(study, title="a|b <script>"), model)
    for fact in facts(trust_of(study)):
        assert markdown(fact.value) in text or fact.topic == "proved", fact
    assert "epsilon 2.5, delta 1e-06" in text
    assert text.partition("---\n\n")[2].startswith("# a\\|b \\<script\\>\n")


def test_card_of_a_sealed_joint_sum_says_not_verified(study: Study, samples: PublicSamples) -> None:
    model = msgspec.json.decode(make_release(study, samples, OPENED, seeded()), type=Model)
    fields = {name: value for name, value in fields_of("statistic", 5).items() if name in ("protocol", "method")}
    for public in (True, False):
        joint = replace(study, **fields, parameters={}, public=public)
        assert is_verifiable(joint) == public
        assert ("NOT VERIFIED" in card(joint, model)) != public
        assert ("NOT VERIFIED" in " ".join(describe_study(joint).split())) != public
    assert not is_verifiable(study)
