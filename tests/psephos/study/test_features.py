"""Studies with a feature map: it is in the signed terms, members apply it, and whoever verifies computes with it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from psephos.data.fit_features import fit_features, kind_of_map
from psephos.data.tables import read_table
from psephos.model import Model, written_model
from psephos.protocol.board import MemoryBoard
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import AgreementError, InvalidParameter
from psephos.protocol.study.study import Study
from psephos.released import ReleasedClassifier, load_model
from psephos.specs.registry import differs_from_plan, spec_of
from psephos.specs.terms import StudyTerms, decode_parameters
from psephos.study.builder import NewOptions, make_study
from psephos.study.card import card
from psephos.study.consent import describe_study
from psephos.study.identity import Identity
from psephos.study.release import follows_from_sum, make_release, read_release
from psephos.study.samples import PublicSamples, map_of
from psephos.study.verify import BoardEvidence, _map, examine

PARTIES, ROWS = 3, 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cards of three parties and a curator, and 120 public rows whose class is an exclusive-or; some have no label."""
    path, draw = tmp_path_factory.mktemp("features"), np.random.default_rng(0)
    for number in range(PARTIES):
        Identity.create(f"house {number}", path / f"party {number}")
    Identity.create("lab", path / "curator")
    X = draw.normal(size=(ROWS, 3)).round(4)
    names = np.where(X[:, 0] * X[:, 1] > 0, "yes", "no")
    names[::12] = ""
    for file, labels in (
        ("public.csv", names),
        ("unlabelled.csv", [""] * ROWS),
        ("few.csv", [*names[:30], *[""] * 90]),
    ):
        lines = [",".join([*map(str, row), name]) for row, name in zip(X, labels, strict=True)]
        (path / file).write_text("\n".join(["one,two,three,outcome", *lines]) + "\n", encoding="utf-8")
    return path


@cache
def made(folder: Path, public: str = "public.csv", **chosen: Any) -> tuple[Study, PublicSamples]:
    terms: dict[str, Any] = {"protocol": "record", "epsilon": 2.0, "delta": 1e-6, "parameters": ("rows=1000",)}
    terms |= {"curator": str(folder / "curator" / "card.toml"), "public": str(folder / public), "label": "outcome"}
    options = NewOptions(**(terms | {"classes": ("no", "yes"), "key_bits": 512, "trial": True} | chosen))
    return make_study(options, [folder / f"party {number}" / "card.toml" for number in range(PARTIES)])


def released(study: Study, samples: PublicSamples) -> tuple[bytes, OpenedSum]:
    plan = spec_of(StudyTerms(study, samples)).release_plan  # type: ignore[attr-defined]
    draw = np.random.default_rng(1)
    opened = OpenedSum(tuple(int(v) for v in draw.integers(-(2**40), 2**40, plan.grid.length)), tuple(range(PARTIES)))
    return make_release(study, samples, opened), opened


@pytest.mark.parametrize("features", ["auto", "forest", "landmarks", "products", "fourier"])
def test_members_have_the_features_of_the_signed_map(folder: Path, features: str) -> None:
    study, samples = made(folder, features=features)
    read = PublicSamples.of(Study.parse(study.text()), folder / "public.csv")
    assert read.encoding == samples.encoding
    assert np.array_equal(read.auxiliary.samples, samples.auxiliary.samples)
    labels = samples.labels(study.classes)
    fitted = fit_features(features, samples.inputs, labels, 2)  # type: ignore[arg-type]
    assert np.array_equal(read.rows, fitted.rows)
    assert map_of(study) == fitted.map
    assert study.features == (*samples.encoding.features, "(constant)")
    assert differs_from_plan(StudyTerms(study, read)) == []
    rows, classes = read.private(study, private(folder))
    assert rows.shape == (4, len(study.features))
    assert classes.tolist() == [1, 0, 1, 0]
    direct = samples.encoding.apply(read_table(private(folder)))
    assert np.array_equal(rows, read.scaler.transform(direct))
    if features == "auto":  # a public score may start from the log odds, which are linear in scaled rows
        np.testing.assert_allclose(rows / rows[:, -1:] @ read.log_odds, direct[:, 3:4], atol=1e-9)


def private(folder: Path) -> Path:
    path = folder / "own.csv"
    path.write_text("one,two,three,outcome\n1,1,0,yes\n1,-1,2,no\n-2,-1,0,yes\n9,-99,0,no\n", encoding="utf-8")
    return path


def test_the_release_is_computed_again_with_the_signed_map(folder: Path, tmp_path: Path) -> None:
    study, samples = made(folder)
    content, opened = released(study, samples)
    again = PublicSamples.of(study, folder / "public.csv")
    model = read_release(study, again, content)
    assert follows_from_sum(study, again, model, opened)
    assert isinstance(model, Model)
    assert model.encoding.map == map_of(study)
    (tmp_path / "model.json").write_bytes(content)
    loaded = load_model(tmp_path / "model.json")
    assert isinstance(loaded, ReleasedClassifier)
    assert loaded.predict(read_table(private(folder))).shape == (4,)
    other = msgspec.structs.replace(model.encoding.map, means=(0.5, *model.encoding.map.means[1:]))
    changed = msgspec.structs.replace(model, encoding=msgspec.structs.replace(model.encoding, map=other))
    with pytest.raises(AgreementError):
        read_release(study, again, written_model(changed))
    assert "200 trees" in card(study, model)


def test_a_member_reads_what_the_features_are_and_how_large_the_map_is(folder: Path) -> None:
    study, _ = made(folder)
    stated = map_of(study)
    assert stated is not None
    text = " ".join(describe_study(study).split())
    assert stated.summary in text
    assert f"{len(stated.encoded):,} bytes" in text
    assert stated.encoded.decode() not in text
    assert len(study.text()) < 2 * len(stated.encoded) + 20_000
    linear, _ = made(folder, features="linear")
    assert "linear in the encoded columns." in " ".join(describe_study(linear).split())


@pytest.mark.parametrize("public", ["unlabelled.csv", "few.csv"])
def test_without_labels_a_study_is_linear_and_says_so(folder: Path, public: str) -> None:
    study, samples = made(folder, public, protocol="statistic", parameters=(), delta=0.0)
    assert map_of(study) is None
    assert "linear" in samples.note
    assert "map" not in study.parameters


def test_another_map_is_another_study(folder: Path) -> None:
    study, samples = made(folder)
    stated = map_of(study)
    assert stated is not None
    other = msgspec.structs.replace(stated, means=(0.25, *stated.means[1:]))
    changed = replace(study, parameters=dict(study.parameters) | {"map": other.encoded.decode()})
    assert changed.digest != study.digest
    read = PublicSamples.of(changed, folder / "public.csv")
    assert read.digest == samples.digest
    assert "offset" in differs_from_plan(StudyTerms(changed, read))


def test_whoever_verifies_fits_the_map_again(folder: Path) -> None:
    study, samples = made(folder)
    stated = map_of(study)
    assert stated is not None
    other = msgspec.structs.replace(stated, means=(0.25, *stated.means[1:]))
    verdicts = {}
    for name, each in (("same", samples), ("other", samples.mapped(other, study.classes))):
        evidence = BoardEvidence()
        _map(study, each, evidence)
        (check,) = evidence.checks
        verdicts[name] = check.verdict
    assert verdicts == {"same": "holds", "other": "not checked"}
    evidence = examine(study, samples, MemoryBoard())
    assert [check.verdict for check in evidence.checks if check.what.startswith("the feature map")] == ["holds"]


@pytest.mark.parametrize("features", ["auto", "forest", "landmarks", "products", "fourier"])
def test_a_map_shows_what_was_asked_for(folder: Path, features: str) -> None:
    _, samples = made(folder, features=features)
    assert samples.encoding.map is not None
    assert kind_of_map(samples.encoding.map) == features


def test_an_evaluation_states_the_map_of_its_model(folder: Path, tmp_path: Path) -> None:
    study, samples = made(folder)
    content, _ = released(study, samples)
    path = tmp_path / "model.json"
    path.write_bytes(content)
    evaluation: dict[str, Any] = {"protocol": "evaluation", "parameters": (), "delta": 0.0, "model": str(path)}
    of, evaluated = made(folder, **evaluation)
    assert map_of(of) == map_of(study)
    read = PublicSamples.of(of, folder / "public.csv")
    assert np.array_equal(read.rows, samples.encoding.apply(read_table(folder / "public.csv")))
    assert np.array_equal(read.auxiliary.samples, evaluated.auxiliary.samples)
    rows, _ = read.private(of, private(folder))
    spec = spec_of(StudyTerms(of, read))
    weights = decode_parameters(of, spec.parameters)["classifier"]
    released_model = ReleasedClassifier(msgspec.json.decode(content, type=Model))
    expected = released_model.decision_function(released_model.encode(read_table(private(folder))))
    assert np.array_equal(rows @ weights[:, 0] > 0, expected > 0)
    with pytest.raises(InvalidParameter):
        made(folder, **evaluation, features="forest")


def test_a_number_is_no_class_of_the_rows_that_a_forest_was_grown_on(folder: Path) -> None:
    study, samples = made(folder)
    stated = map_of(study)
    assert stated is not None
    of_numbers = replace(samples, label_cells=(), label_numbers=tuple(float(k) for k in range(ROWS)))
    assert np.array_equal(of_numbers.mapped(stated, ()).rows, stated.apply(samples.inputs))
