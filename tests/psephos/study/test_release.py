"""The model that a study releases, what of it is checked, and the whole text of its card."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest

from psephos.curator.tally import OpenedSum
from psephos.model import MOST_BYTES, Model, written_model
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import AgreementError, StudyError
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.study.study import Study
from psephos.specs.registry import spec_of
from psephos.specs.study import StudyTerms
from psephos.study.identity import fingerprint
from psephos.study.release import card, checked, released
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
    rows = {"auxiliary": samples.auxiliary.digest, "features": samples.features, "samples": 12}
    return replace(made, **rows, method="soft", parameters={"lam": 0.5}, epsilon=2.5, delta=1e-6, minimum_ballots=3)  # type: ignore[arg-type]


def seeded() -> SimulationRandomness:
    return SimulationRandomness(4, "release")


def test_a_model_file_is_what_the_protocol_released(study: Study, samples: PublicSamples) -> None:
    content = released(study, samples, OPENED, seeded())
    model = msgspec.json.decode(content, type=Model)
    w, paid = spec_of(StudyTerms(study, samples.auxiliary)).release(OPENED, seeded())
    coefficients, intercepts = samples.scaler.fold(w)
    assert model == Model(
        psephos_model=1,
        classes=("a", "b", "c"),
        encoding=samples.encoding,
        coefficients=tuple(map(tuple, coefficients.tolist())),
        intercepts=tuple(intercepts.tolist()),
        method="soft",
        parties=4,
        release=replace(paid, delta=1e-6 + 2.0**-64),
        warnings=("A trial: the key of this study may be too short to protect anything.",),
    )
    assert 0 < paid.delta <= model.release.delta
    assert content == written_model(model)
    assert released(study, samples, OPENED, seeded()) == content
    assert released(study, samples, OPENED) != content, "with the system's coins"
    assert checked(study, samples, content) == model
    real = replace(study, trial=False, key_bits=2048)
    assert checked(real, samples, released(real, samples, OPENED)).warnings == ()
    other = SimpleNamespace(auxiliary=AuxiliarySet(samples.auxiliary.samples[::-1].copy()))
    with pytest.raises(StudyError, match="not the auxiliary samples"):
        released(study, other, OPENED)  # type: ignore[arg-type]


def test_two_classes_have_one_row(study: Study, samples: PublicSamples) -> None:
    two = replace(study, classes=("a", "b"))
    opened = OpenedSum(tuple(k % 4 for k in range(12)), (0, 1, 2, 3))
    model = msgspec.json.decode(released(two, samples, opened), type=Model)
    assert (len(model.coefficients), len(model.intercepts)) == (1, 1)


@pytest.mark.parametrize(
    ("good", "bad", "what"),
    [
        ({}, {"classes": ("a", "c", "b")}, "classes"),
        ({}, {"method": "vote"}, "method"),
        ({"epsilon": 2.5 * (1 + 1e-12)}, {"epsilon": math.nextafter(2.5 * (1 + 1e-12), 3)}, "epsilon"),
        ({"epsilon": 2.5}, {"epsilon": None}, "epsilon"),
        ({"epsilon": 1e-3}, {"epsilon": 3.5}, "epsilon"),
        ({}, {"unit": "record"}, "unit of privacy"),
        ({"delta": 1e-6 + 2.0**-64}, {"delta": math.nextafter(1e-6 + 2.0**-64, 1)}, "delta"),
        ({}, {"delta": math.nextafter(1e-6 + 2.0**-64, 0)}, "delta"),
        ({}, {"delta": None}, "delta"),
        ({}, {"delta": 0.0}, "delta"),
        ({}, {"warnings": ()}, "warning"),
        ({}, {"warnings": ("Another.",)}, "warning"),
        ({"parties": 3}, {"parties": 2}, "number of ballots"),
        ({"parties": 5}, {"parties": 6}, "number of ballots"),
    ],
)
def test_a_model_is_held_to_what_was_agreed_on(
    study: Study, samples: PublicSamples, good: dict[str, Any], bad: dict[str, Any], what: str
) -> None:
    honest = msgspec.json.decode(released(study, samples, OPENED, seeded()), type=Model)

    def changed(fields: dict[str, Any]) -> bytes:
        paid = {name: fields[name] for name in ("epsilon", "delta", "unit") if name in fields}
        rest = {name: value for name, value in fields.items() if name not in paid}
        return written_model(msgspec.structs.replace(honest, release=replace(honest.release, **paid), **rest))

    checked(study, samples, changed(good))
    with pytest.raises(AgreementError, match=f"not what was agreed on: its {what} is another"):
        checked(study, samples, changed(bad))


def test_a_model_of_other_columns(study: Study, samples: PublicSamples, tmp_path: Path) -> None:
    frame = pd.DataFrame(np.random.default_rng(2).normal(size=(12, 2)), columns=["x", "z"])
    frame.assign(ward=["A", "B", "C"] * 4).to_csv(tmp_path / "public.csv", index=False)
    other = PublicSamples.read(tmp_path / "public.csv", "class")
    with pytest.raises(AgreementError, match="its encoding is another"):
        checked(study, other, released(study, samples, OPENED))


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff{}", b"[" * 100_000], ids=["nothing", "empty", "bytes", "deep"])
def test_bytes_that_are_no_model(study: Study, samples: PublicSamples, content: bytes) -> None:
    with pytest.raises(AgreementError, match="is no model of this version"):
        checked(study, samples, content)


class Long(bytes):
    """As long as it says, without the memory."""

    def __new__(cls, said: int) -> Long:
        made = super().__new__(cls, b"{}")
        made.said = said  # type: ignore[attr-defined]
        return made

    def __len__(self) -> int:
        return int(self.said)  # type: ignore[attr-defined]


def test_a_result_larger_than_any_model(study: Study, samples: PublicSamples) -> None:
    with pytest.raises(AgreementError, match="larger than any model"):
        checked(study, samples, Long(MOST_BYTES + 1))
    with pytest.raises(AgreementError, match="is no model"):
        checked(study, samples, Long(MOST_BYTES))


def test_the_whole_card(study: Study, samples: PublicSamples) -> None:
    model = msgspec.json.decode(released(study, samples, OPENED, seeded()), type=Model)
    paid = model.release
    rows = "".join(f"| {name} | {what} |\n" for name, what in samples.encoding.summary)
    assert rows.count("\n") == 3
    assert (
        card(study, model)
        == f"""# A trial

**A trial: the key of this study may be too short to protect anything.**

A linear classifier of `class` (a, b, c), learned from 4 of
5 parties, with 12 public samples, which are voted on;
none of the parties' rows left them.

| | |
| --- | --- |
| study | {fingerprint(study.digest)} |
| method | soft, lam 0.5 |
| privacy | epsilon 2.5, delta 1e-06, of one party: all that it holds may change |
| noise | gaussian, for a sensitivity (l2) of {paid.sensitivity:.6g}: {paid.source} |
| key | 256 bits, made by 3 holders of whom 2 together open; none has it whole |
| curator | has seen the exact sum (of a tally, the counts per sample; unanimous ones tell everybody's vote): no part \
of this file, and no epsilon covers it |

Not checked: what the parties trained on, that the noise that was to be added was added, and how good the classifier is
on your own rows. Whoever holds 2 of the 3 shares of the key is not bound by epsilon.

## Columns

| column | becomes |
| --- | --- |
{rows}"""
    )


def test_a_card_of_noise_in_shares_and_without_a_key(study: Study, samples: PublicSamples) -> None:
    model = msgspec.json.decode(released(study, samples, OPENED, seeded()), type=Model)
    none = {name: value for name, value in fields_of("pathak", 5).items() if name not in ("auxiliary", "classes")}
    parties = tuple(replace(member, holder=0) for member in study.parties)
    none = {name: value for name, value in none.items() if name != "holders"} | {"parties": parties}
    pathak = replace(study, **none, trial=False)
    record = replace(model.release, unit="record", chosen={"b": 2, "a": 1}, delta=0.123456)
    text = card(pathak, msgspec.structs.replace(model, warnings=(), release=record))
    assert text.startswith("# A trial\n\nA linear classifier")
    assert "| method | soft, a 1, b 2 |\n" in text
    assert "| privacy | epsilon 2.5, delta 0.123, of one record: it may change |\n" in text
    assert "| colluders | 1: epsilon holds against any party that tells the curator its noise |\n" in text
    assert "| key | none: the parties share their sums among all of them |\n" in text
    assert "| curator | has seen the sum with all parties' noise in it, like everybody who reads the board |\n" in text
    assert "your own rows. \n" in text
    assert "Whoever holds" not in text
