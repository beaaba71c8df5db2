"""Outcomes: what a command found goes to JSON and comes back the same, and nothing else comes back at all."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest

from psephos.curator.ledger import Release
from psephos.protocol.errors import ReportError
from psephos.results.base import FORMAT, KINDS, Accuracy, Result, timed
from psephos.results.runs import ComposedCost, Guarantee, RunResult, TallyResult
from psephos.results.trust import TrustModel, attack_text, facts

SOFT = Release("spherical-laplace", 1.0, 0.0, "party", 0.25, "l2", "Theorem 3", chosen={"lam": 0.5})
OPTIONS = {
    "parties": 9,
    "seed": 0,
    "epsilon": [1.0],
    "simulate_noise": False,
    "key_bits": 2048,
    "data": None,
    "party": None,
    "holders": 5,
    "threshold": 3,
    "keys": "dealer",
    "proofs": "none",
    "randomness": "half",
    "reveal": "alpha",
}
TALLY = TallyResult(
    protocol="tally",
    options=OPTIONS,
    dataset="digits",
    features=64,
    class_names=["a", "b"],
    test=100,
    delta=0.0,
    accuracy={"batch": Accuracy(0.9375), "soft": Accuracy(0.75, 0.5, 0.125)},
    phases=timed({"keygen": 1.5, "fit": 0.25}),
    ballots=8,
    auxiliary=50,
    mechanism="spherical-laplace",
    lam=0.5,
    min_ballots=4,
    slots_per_plaintext=40,
    ciphertexts_per_ballot=12,
    bytes_per_ballot=6222,
    tally_equals_plaintext=True,
    privacy={"soft": SOFT},
    composed=ComposedCost(1, 1.0, 2.0**-40),
    by_epsilon={"1": {"soft": Accuracy(0.75, 0.5, 0.125)}, "10": {"soft": Accuracy(0.75, 0.75, balanced=0.5)}},
)


def test_a_result_read_from_its_json_equals_the_original() -> None:
    document = json.loads(json.dumps(TALLY.as_json()))
    assert document["format"] == FORMAT == 4
    assert document["kind"] == "tally"
    scores = document["accuracy"]["soft"]
    assert (scores["nonprivate"], scores["private"], scores["private_std"]) == (0.75, 0.5, 0.125)
    assert document["sensitivity"] == {"soft": 0.25}
    assert document["seconds"] == {"keygen": 1.5, "fit": 0.25}
    assert (document["key_bits"], document["threshold"], document["classes"]) == (2048, 3, 2)
    assert not document.keys() & {"evaluation", "transcript"}  # secrets
    again = Result.from_json(document)
    assert again == TALLY
    assert again.as_json() == document


def test_names_that_scripts_read_are_in_the_json() -> None:
    """The changelog promises not to change these names."""
    runs = {kind: type_ for kind, type_ in KINDS.items() if issubclass(type_, RunResult)}
    names = {kind: {*type_.json_fields(), *type_.derived} for kind, type_ in runs.items()}
    for known in names.values():
        assert {"accuracy", "seconds", "key_bits", "peak_memory_mb", "sensitivity", "privacy", "classes"} <= known
    summed = {"tally_equals_plaintext", "threshold", "ciphertexts_per_ballot", "bytes_per_ballot", "auxiliary"}
    assert summed <= names["tally"] & names["average"]
    assert "shares_equal_reference" in names["pathak"]
    assert {"sums_equal_reference", "epsilon_final", "epsilon_transcript", "threshold"} <= names["psgd"]
    assert "sums_equal_reference" in {field.name for field in dataclasses.fields(KINDS["paper"])}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"accuracy": {"soft": {"private": 1.5}}}, r"\$\.accuracy\[\.\.\.\]\.private"),
        ({"accuracy": {"soft": {"private": "good"}}}, r"\$\.accuracy"),
        ({"phases": {"fit": {"seconds": -1}}}, r"\$\.phases"),
        ({"options": OPTIONS | {"parties": True}}, r"\$\.parties"),
        ({"options": OPTIONS | {"keys": "dice"}}, r"\$\.keys"),
        ({"options": {}}, "parties"),
        ({"privacy": {"soft": {"epsilon": 0, "mechanism": "x", "delta": 0, "unit": "party"}}}, "epsilon"),
        ({"by_epsilon": {"1": {"soft": {"private": 2}}}}, r"\$\.by_epsilon"),
        ({"surprise": 1}, "surprise"),
        ({"evaluation": {}}, "evaluation"),
        ({"kind": ["tally"]}, "kind"),
    ],
)
def test_a_field_out_of_range_is_refused_with_its_place(change: dict[str, Any], place: str) -> None:
    with pytest.raises(ReportError, match=place):
        Result.from_json(TALLY.as_json() | change)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_that_is_read_and_missing_is_refused(name: str) -> None:
    """A page would leave out warnings, or end in a KeyError."""
    document = TALLY.as_json()
    with pytest.raises(ReportError):
        Result.from_json(document | {"options": {key: value for key, value in OPTIONS.items() if key != name}})


@pytest.mark.parametrize("name", TallyResult.json_fields())
def test_a_field_that_is_missing_is_refused_unless_it_has_a_default(name: str) -> None:
    document = TALLY.as_json()
    del document[name]
    (field,) = (field for field in dataclasses.fields(TallyResult) if field.name == name)
    if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
        with pytest.raises(ReportError, match=name):
            Result.from_json(document)
    else:
        Result.from_json(document)


@pytest.mark.parametrize("version", [1, 2, "3", True, None])
def test_another_format_is_refused_by_name(version: Any) -> None:
    with pytest.raises(ReportError, match=f"reads format {FORMAT}"):
        Result.from_json(TALLY.as_json() | {"format": version})


@pytest.mark.parametrize("document", [[], 3, None, {}, {"format": FORMAT}])
def test_an_invalid_document_is_refused(document: Any) -> None:
    with pytest.raises(ReportError):
        Result.from_json(document)


def test_a_result_of_another_kind_is_refused() -> None:
    with pytest.raises(ReportError, match="its kind is 'tally'"):
        KINDS["plan"].from_json(TALLY.as_json())


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), np.array([math.nan])])
def test_values_without_json_form_are_refused(value: Any) -> None:
    with pytest.raises(ReportError, match="cannot be written as JSON"):
        dataclasses.replace(TALLY, options=OPTIONS | {"x": [value]}).as_json()


def test_arrays_and_numbers_of_numpy_are_written() -> None:
    changed = dataclasses.replace(TALLY, options=OPTIONS | {"w": np.array([1.0, 2.0]), "n": np.int64(3)})
    assert changed.as_json()["options"] == OPTIONS | {"w": [1.0, 2.0], "n": 3}


def test_an_infinite_epsilon_is_none() -> None:
    guarantee = Guarantee("record", 1e-5, None, "", None, math.inf, math.inf, 0.0, "nobody")
    assert guarantee.epsilon_transcript is None


def test_a_page_has_the_numbers_of_its_result() -> None:
    page = TALLY.page()
    assert {50, 1.0, 9, 2048, 6222} <= {fact.value for fact in page.about("fact")}
    unequal = dataclasses.replace(TALLY, tally_equals_plaintext=False).page()
    assert len({fact.text for fact in unequal.about("fact")} - {fact.text for fact in page.about("fact")}) == 1


def test_noise_of_several_is_among_what_nobody_checks() -> None:
    about: dict[str, Any] = {"noun": "classifier", "unit": "party", "parties": 9, "holders": 5, "threshold": 3}
    models = [TrustModel(**about, opened=opened, colluders=None) for opened in ("counts", "noisy")]
    exact, joint = ({one.text for one in facts(model) if one.topic == "unchecked"} for model in models)
    assert len(joint - exact) == 1
    assert exact < joint


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 1e-3), (3.0, 0.2), (1e4, 0.0)])
def test_a_card_states_how_often_the_best_guess_is_right(epsilon: float, delta: float) -> None:
    """As often as in randomised response that tells the truth with probability delta, which is (epsilon, delta)."""
    best = delta + (1 - delta) / (1 + math.exp(-epsilon))
    assert f" {best:.1%} of" in attack_text(Release("noise", epsilon, delta, "party"))
