"""Every field of a study that is made of options, cards and samples, for every protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from psephos.audit.studies import trial
from psephos.cli.main import build
from psephos.curator.hamm.rules import HAMM_LAMBDA, averaging_radius
from psephos.curator.losses import Logistic
from psephos.curator.methods import erm_method
from psephos.curator.record import ROWS_PER_PARTY
from psephos.curator.statistic import plan_statistic
from psephos.protocol.errors import DataError, InvalidParameter, StudyError
from psephos.protocol.paillier.packing import best_degree
from psephos.protocol.signing import SigningKey, VerificationKey
from psephos.protocol.study.study import Member, Study
from psephos.specs.exact import LABELS
from psephos.specs.registry import SPECS, read_study, spec_of
from psephos.specs.rows import RecordSpec
from psephos.specs.terms import PrivacyTerms, StudyTerms, encode_coordinates
from psephos.study.builder import NewOptions, make_study
from psephos.study.consent import describe_study
from psephos.study.identity import IdentityCard
from psephos.study.samples import PublicSamples

NAMES = ("north", "south", "east", "west")


class Files:
    """Four parties' cards, a curator's, and public samples."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.keys = folder, dict[str, VerificationKey]()
        for name in (*NAMES, "lab"):
            key = SigningKey.generate()
            self.keys[name] = key.verification_key
            (folder / f"{name}.toml").write_text(IdentityCard(f"The {name}", key.verification_key).text(key))
        frame = pd.DataFrame(np.random.default_rng(3).normal(size=(15, 3)), columns=["x", "y", "code"])
        frame.assign(ward=["A", "B", "C"] * 5, outcome="?").to_csv(folder / "public.csv", index=False)

    def cards(self, names: Sequence[str] = NAMES) -> list[Path]:
        return [self.folder / f"{name}.toml" for name in names]

    def made(self, names: Sequence[str] = NAMES, **options: Any) -> tuple[Study, PublicSamples]:
        given: dict[str, Any] = {
            "curator": str(self.folder / "lab.toml"),
            "public": str(self.folder / "public.csv"),
            "label": "outcome",
            "classes": ("a", "b"),
            "key_bits": 256,
            "trial": True,
            "protocol": "tally",
        } | options
        given.setdefault("curator_noise", given["protocol"] in ("tally", "average"))
        return make_study(NewOptions(**given), self.cards(names))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("make"))


def test_the_curator_adds_noise_only_with_the_option(files: Files) -> None:
    """By default the parties add it, and the release follows from the board."""
    default = NewOptions()
    assert (default.protocol, default.curator_noise) == ("statistic", False)
    study, _ = files.made(protocol=default.protocol)
    assert SPECS[study.protocol].joint
    assert study.public
    for protocol in ("tally", "average"):
        with pytest.raises(InvalidParameter, match="--curator-noise"):
            files.made(protocol=protocol, curator_noise=False)
    for protocol in ("statistic", "psgd", "pathak"):
        with pytest.raises(InvalidParameter, match="the parties add the noise"):
            files.made(protocol=protocol, curator_noise=True)


def test_tally_study_with_required_options_only(files: Files) -> None:
    study, samples = files.made()
    again = PublicSamples.read(files.folder / "public.csv", "outcome")
    assert (samples.encoding, samples.digest) == (again.encoding, again.digest)
    expected: dict[str, Any] = {
        "title": "A study",
        "nonce": study.nonce,
        "protocol": "tally",
        "method": "statistic",
        "epsilon": 1.0,
        "delta": 0.0,
        "parameters": {},
        "classes": ("a", "b"),
        "features": samples.features,
        "label": "outcome",
        "public_table": samples.digest,
        "samples": 15,
        "minimum_ballots": 2,
        "proofs": "valid",
        "public": False,
        "closes": "",
        "patience": 600,
        "key_bits": 256,
        "degree": best_degree(256, length=15, addends=4, minimum=0, maximum=1),
        "threshold": 2,
        "confirmations": 3,
        "trial": True,
        "curator": files.keys["lab"],
        "curator_name": "The lab",
        "parties": tuple(
            Member(f"The {name}", files.keys[name], holder) for name, holder in zip(NAMES, (1, 2, 3, 0), strict=True)
        ),
    }
    assert study == Study(**expected)
    assert files.made()[0].nonce != study.nonce
    real = files.made(key_bits=2048, trial=False)[0]
    assert (real.trial, real.key_bits) == (False, 2048)


def test_study_with_every_option(files: Files) -> None:
    study, samples = files.made(
        title="Hearts",
        classes=("a", "b", "c"),
        ignore=("code",),
        text=("x", "y"),
        method="soft",
        parameters=("lam=0.25",),
        epsilon=2.0,
        delta=1e-6,
        minimum_ballots=3,
        closes="2026-12-01T12:00Z",
        patience=7,
        proofs="knowledge",
        degree=2,
        holders=4,
        threshold=2,
        confirmations=4,
    )
    assert not any(name.startswith("code") for name in samples.features)
    assert study.parameters == {"ignore": "code", "text": "x,y", "lam": 0.25}
    again = PublicSamples.of(study, files.folder / "public.csv")
    assert again.digest == study.public_table
    assert (study.title, study.classes, study.method) == ("Hearts", ("a", "b", "c"), "soft")
    assert (study.epsilon, study.delta, study.minimum_ballots) == (2.0, 1e-6, 3)
    assert (study.closes, study.patience, study.proofs) == ("2026-12-01T12:00Z", 7, "knowledge")
    assert (study.degree, study.threshold, study.confirmations) == (2, 2, 4)
    assert [member.holder for member in study.parties] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("options", "minimum", "proofs", "public"),
    [
        ({"protocol": "statistic"}, 4, "valid", True),
        ({"protocol": "statistic", "parameters": ("dropouts=1",)}, 3, "valid", True),
        ({"protocol": "average", "parameters": ("lam=0.5",)}, 2, "valid", False),
        ({"protocol": "average", "parameters": ("lam=0.5", "dropouts=1")}, 3, "valid", False),
        ({"protocol": "average", "method": "own-data"}, 4, "valid", False),
        ({"protocol": "psgd", "delta": 1e-3, "parameters": ("sizes=9 9 9 9", "steps=2")}, 4, "valid", True),
        ({"protocol": "pathak", "parameters": ("lam=0.1", "smallest_size=9")}, 4, "knowledge", True),
    ],
)
def test_defaults_that_depend_on_the_protocol(
    files: Files, options: dict[str, Any], minimum: int, proofs: str, public: bool
) -> None:
    study, _ = files.made(**options)
    assert (study.minimum_ballots, study.proofs, study.public) == (minimum, proofs, public)
    keyed = study.protocol != "pathak"
    shape = (study.key_bits, study.threshold, study.confirmations, [member.holder for member in study.parties])
    assert shape == ((256, 2, 3, [1, 2, 3, 0]) if keyed else (0, 0, 0, [0, 0, 0, 0]))
    if study.protocol in ("psgd", "pathak"):
        assert study.degree == 1
    assert study.method == {"average": options.get("method", "avg")}.get(study.protocol, study.protocol)


@pytest.mark.parametrize(
    ("protocol", "method", "delta", "noise", "source"),
    [
        ("statistic", "statistic", 0.0, "discrete-laplace", "votes"),
        ("statistic", "whitened", 1e-6, "gaussian", "whitened"),
        ("average", "own-data", 0.0, "spherical-laplace", "own-data"),
        ("average", "whitened", 1e-6, "gaussian", "whitened"),
    ],
)
def test_coordinates_and_noise_of_statistic_studies(  # wide: one row of a table
    files: Files, protocol: str, method: str, delta: float, noise: Any, source: Any
) -> None:
    study, samples = files.made(protocol=protocol, method=method, delta=delta, epsilon=50.0, classes=("a", "b", "c"))
    joint = protocol == "statistic"
    how: dict[str, Any] = {"mechanism": noise, "source": source, "joint": joint}
    plan = plan_statistic(samples.auxiliary.samples, 3, 4, epsilon=50.0, delta=delta, **how)
    assert study.parameters == {"coordinates": encode_coordinates(plan.transform)}


def test_radius_of_average_studies_follows_from_lambda(files: Files) -> None:
    for given, lam in (((), HAMM_LAMBDA), (("lam=0.5",), 0.5)):
        study, _ = files.made(protocol="average", parameters=given)
        assert study.parameters == {"lam": lam, "radius": averaging_radius(lam, 2)}
    study, _ = files.made(protocol="average", parameters=("lam=0.5", "radius=3"), classes=("a", "b", "c"))
    assert study.parameters == {"lam": 0.5, "radius": 3.0}, "what is said comes before what follows"
    study, _ = files.made(protocol="average", parameters=("lam=0.5",), classes=("a", "b", "c"))
    assert study.parameters["radius"] == averaging_radius(0.5, 3)


@pytest.mark.parametrize(("method", "delta"), [("soft", 0.0), ("vote", 0.0), ("soft", 1e-6)])
def test_the_ridge_of_votes_is_signed(files: Files, method: str, delta: float) -> None:
    """The one that the public rule takes, so that another version of the rule verifies the study all the same."""
    made: dict[str, Any] = {"protocol": "tally", "method": method, "delta": delta, "epsilon": 50.0}
    study, samples = files.made(**made)
    request = PrivacyTerms(epsilon=study.epsilon, delta=study.delta).request
    X = samples.auxiliary.samples
    counts = np.column_stack([np.full(len(X), 4), np.zeros(len(X), int)])
    chosen = erm_method(LABELS[method], counts, X, Logistic(), request).chosen["lam"]
    assert study.parameters == {"lam": chosen}
    assert files.made(**made, parameters=("lam=0.25",))[0].parameters == {"lam": 0.25}
    assert files.made(**made | {"method": "statistic"})[0].parameters == {}


def test_wide_entries_are_proved_bounded_by_default(files: Files, tmp_path: Path) -> None:
    """A statistic of many votes, with much noise: 67 bits an entry."""
    columns = np.random.default_rng(0).normal(size=(900, 20)).T
    pd.DataFrame({f"x{k}": column for k, column in enumerate(columns)}).to_csv(tmp_path / "wide.csv", index=False)
    wide: dict[str, Any] = {"public": str(tmp_path / "wide.csv"), "classes": tuple("abcdefghij"), "epsilon": 0.01}
    for method in ("own-data", "statistic", "vote-directions", "whitened"):
        study, _ = files.made(protocol="statistic", method=method, **wide)
        assert study.proofs == "valid"
    assert files.made(protocol="statistic", method="statistic", proofs="knowledge", **wide)[0].proofs == "knowledge"


def test_studies_whose_vectors_no_proof_fits_are_refused(files: Files) -> None:
    """Before the members have made a key; by default they prove what can be proved."""
    halving: dict[str, Any] = {
        "protocol": "psgd",
        "delta": 1e-3,
        "parameters": ("sizes=10 10 10 10", "variant=halving", "steps=90"),
    }
    with pytest.raises(InvalidParameter, match="bounds"):
        files.made(**halving, proofs="valid")
    assert files.made(**halving)[0].proofs == "knowledge"
    pathak = {"protocol": "pathak", "parameters": ("lam=0.1", "smallest_size=9")}
    with pytest.raises(StudyError, match="knowledge"):
        files.made(**pathak, proofs="valid")
    assert files.made(**pathak)[0].proofs == "knowledge"


@pytest.mark.parametrize(
    "options",
    [
        *({name: ""} for name in ("curator", "public", "label")),
        *({"holders": number} for number in (0, 2, 5)),
        {"threshold": 1},
        {"confirmations": 1},
        *({"minimum_ballots": number} for number in (1, 5)),
        *({"classes": classes} for classes in (("a",), ("NA", "b"))),
        {"closes": "tomorrow"},
        {"epsilon": 0.0},
        {"key_bits": 100},
        {"ignore": ("nothing",)},
        *({"parameters": (word,)} for word in ("lam=x", "lam", "lam=-1", "lamb=1", "dropouts=1")),
        {"proofs": "none"},
        {"method": "avg"},
        {"model": "model.json"},
        {"protocol": "average", "parameters": ("lam=-1",)},
        {"protocol": "statistic", "method": "soft"},
        {"protocol": "statistic", "minimum_ballots": 2},
        {"protocol": "statistic", "parameters": ("colluders=1.5",)},
        {"protocol": "statistic", "parameters": ("colluders=9",)},
        {"protocol": "psgd", "delta": 1e-6},
        {"protocol": "psgd", "delta": 1e-6, "parameters": ("sizes=9 9",)},
        {"protocol": "psgd", "delta": 1e-6, "parameters": ("sizes=9 9 9 9", "variant=paper")},  # all sums are public
        {"protocol": "pathak", "parameters": ("smallest_size=9",)},
        {"protocol": "evaluation"},
        {"protocol": "regression"},
    ],
    ids=str,
)
def test_invalid_options_are_refused(files: Files, options: dict[str, Any]) -> None:
    with pytest.raises((StudyError, DataError, InvalidParameter)):
        files.made(**options)


def test_fewer_than_three_parties_cannot_make_a_key(files: Files) -> None:
    with pytest.raises(StudyError, match="3 parties or more"):
        files.made(NAMES[:2])


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_record_studies_state_coordinates_and_the_public_score(files: Files, tmp_path: Path, delta: float) -> None:
    """The specification that members read from the study is the plan that the public file gives."""
    table = pd.read_csv(files.folder / "public.csv")
    table["outcome"] = ["a", "b", "?"] * 5
    table.to_csv(tmp_path / "labelled.csv", index=False)
    for public, labelled in (("labelled.csv", 10), (str(files.folder / "public.csv"), 0)):
        chosen: dict[str, Any] = {"protocol": "record", "delta": delta, "public": str(tmp_path / public)}
        study, samples = files.made(**chosen, parameters=("rows=500", "dropouts=1"))
        assert (study.method, study.public, study.minimum_ballots) == ("newton", True, 3)
        assert {name: study.parameters[name] for name in ("rows", "labelled", "dropouts")} == {
            "rows": 500,
            "labelled": labelled,
            "dropouts": 1,
        }
        spec = spec_of(StudyTerms(study, samples))
        assert isinstance(spec, RecordSpec)
        grid = spec.release_plan.grid
        assert grid.offset.any() == bool(labelled)
        assert grid.norm == ("l2" if delta else "l1")
        assert (spec.release_plan.parties, spec.release_plan.epsilon, spec.release_plan.inflation) == (4, 1.0, 4.0)
        assert spec.cost(4).unit == "record"
    default, _ = files.made(protocol="record")
    assert default.parameters["rows"] == 4 * ROWS_PER_PARTY
    assert "added or removed" in describe_study(default)


def test_a_study_that_protects_persons_names_them_everywhere(files: Files, tmp_path: Path) -> None:
    """The column is a signed term, no feature, and in the consent text and the cost."""
    study, samples = files.made(protocol="record", parameters=("record=patient",))
    spec = spec_of(StudyTerms(study, samples))
    assert isinstance(spec, RecordSpec)
    assert (spec.persons, spec.cost(4).chosen["persons"]) == ("patient", "patient")
    assert "one person, as the column patient names them" in " ".join(describe_study(study).split())
    table = pd.read_csv(files.folder / "public.csv").assign(patient=list("abc") * 5)
    table.to_csv(tmp_path / "named.csv", index=False)
    chosen: dict[str, Any] = {"protocol": "record", "public": str(tmp_path / "named.csv")}
    with pytest.raises(InvalidParameter, match="--ignore patient"):
        files.made(**chosen, parameters=("record=patient",))
    ignored, _ = files.made(**chosen, parameters=("record=patient",), ignore=("patient",))
    assert ignored.features == study.features


NO_KEY: dict[str, Any] = {"key_bits": 0, "threshold": 0, "confirmations": 0}


@pytest.mark.parametrize(
    "changed",
    [
        {"protocol": "magic"},
        {"public": True},  # counts of votes
        {"protocol": "average", "method": "avg", "public": True},
        {"protocol": "pathak", "method": "pathak"},  # with a key
        {"protocol": "statistic", "method": "statistic", "parties": "without holders", **NO_KEY},
        {"protocol": "record", "method": "newton", "classes": ()},
        {"protocol": "regression", "method": "newton"},  # with classes
        {"parameters": {"sizes": "9 9"}},
    ],
    ids=str,
)
def test_a_study_that_does_not_fit_its_protocol_is_refused_wherever_it_is_read(
    changed: dict[str, Any], tmp_path: Path
) -> None:
    made = trial().study
    if "parties" in changed:
        changed = changed | {"parties": tuple(replace(party, holder=0) for party in made.parties)}
    (tmp_path / "study.toml").write_text(replace(made, **changed).text())
    with pytest.raises(StudyError):
        read_study(tmp_path / "study.toml")
    done = CliRunner().invoke(build(), ["study", "show", str(tmp_path / "study.toml")])
    assert isinstance(done.exception, StudyError | SystemExit)
    assert done.exit_code
