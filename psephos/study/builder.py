"""Writing a study from members' cards, public samples, and the options of `psephos study new`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.curator.evaluation import largest_error
from psephos.data.fit_features import FEATURES_HELP, Features, fit_features
from psephos.data.tables import check_classes, check_distinct
from psephos.model import Model, RegressionModel, read_model
from psephos.options import Options, join_list, option
from psephos.progress import Progress, silent
from psephos.protocol.encrypted_sum.rounds import Proofs, safe_confirmations
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.grids.own_data import OWN
from psephos.protocol.grids.record import NumericLabel
from psephos.protocol.randomness import SYSTEM
from psephos.protocol.study.study import Member, Study
from psephos.specs.base import Spec
from psephos.specs.registry import SPECS, ProtocolName, plan_study, spec_class, spec_of
from psephos.specs.rows import BOUNDS, encode_releases
from psephos.specs.terms import StudyTerms, encode_coordinates, encode_parameters, type_of_parameter
from psephos.study.identity import IdentityCard
from psephos.study.samples import PublicSamples


def _or(words: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _listed(joint: bool) -> str:
    """Return what protocols add up, with their names."""
    return _or([f"{spec.summand} ({name})" for name, spec in SPECS.items() if spec.joint == joint])


@dataclass(frozen=True, kw_only=True)
class NewOptions(Options):
    """The terms of a new study, besides its members' cards; a field is an option of `psephos study new`."""

    title: str = option("A study", "The name of the study for people.", name=True)
    curator: str = option("", "The file of the curator's card.")
    public: str = option("", "The public samples: a CSV or Parquet file that every member is given.", group="Data")
    label: str = option(
        "", "The column with the class, or the number to predict, in every party's own file.", group="Data", name=True
    )
    classes: tuple[str, ...] = option(
        (), "The classes, as they stand in that column; none for a number.", group="Data", name=True
    )
    ignore: tuple[str, ...] = option((), "Columns of the public file to leave out.", group="Data", name=True)
    text: tuple[str, ...] = option(
        (), "Columns that are text whatever they hold, such as codes.", group="Data", name=True
    )
    features: Features = option("auto", f"{FEATURES_HELP} The map is in the study.", group="Data")
    protocol: ProtocolName = option(
        "statistic",
        f"What is added up. With noise from every party: {_listed(True)}. With noise from the curator: "
        f"{_listed(False)}.",
        group="Protocol",
    )
    curator_noise: bool = option(
        False,
        "Let the curator add the noise, as tally and average do. It sees the exact sum, and nobody can verify that it "
        "added any noise.",
        group="Protocol",
    )
    method: str | None = option(
        None,
        f"What is released: {'; '.join(f'{name}: {_or(spec.methods)}' for name, spec in SPECS.items())}.",
        group="Protocol",
        shown="the first of the protocol's",
    )
    parameters: tuple[str, ...] = option(
        (),
        "Further parameters of the protocol, NAME=VALUE, such as dropouts=1 or steps=30,lam=0.1; docs/study.md lists "
        "them.",
        group="Protocol",
        name=True,
    )
    model: str = option(
        "",
        "With --protocol evaluation: the model file to evaluate, whose public rows were those of --public.",
        group="Protocol",
    )
    epsilon: float = option(1.0, "The epsilon that the release costs every party.", group="Privacy")
    delta: float = option(
        0.0,
        "A positive delta chooses Gaussian noise, which is smaller. With 0 the noise has a pure epsilon, stated at a "
        "delta of 2^-64 for numerical error.",
        group="Privacy",
    )
    minimum_ballots: int | None = option(
        None,
        "The smallest number of ballots whose sum is opened.",
        group="Vote",
        shown="half of the parties, or what the noise needs",
    )
    closes: str = option("", "The time at which the vote ends at the latest, such as 2026-12-01T12:00Z.", group="Vote")
    patience: int = option(600, "Seconds to wait for answers after the vote.", group="Vote")
    proofs: Proofs | None = option(
        None,
        "What every ballot proves: that its sender knows its content (knowledge), or also that it holds votes, or a "
        "vector within bounds (valid).",
        group="Vote",
        shown="valid where there is a proof, knowledge otherwise",
    )
    key_bits: int = option(3072, "The length of the Paillier modulus in bits.", group="Key")
    degree: int | None = option(
        None, "The degree of the key, from 1 to 4.", group="Key", shown="the one with the shortest ballots"
    )
    holders: int = option(3, "The number of key holders; they are the first parties that are named.", group="Key")
    threshold: int | None = option(
        None, "The number of holders that open a sum.", group="Key", shown="half of them, rounded up"
    )
    confirmations: int | None = option(
        None,
        "The number of holders that confirm what is opened.",
        group="Key",
        shown="enough to make two openings impossible",
    )
    trial: bool = option(
        False, "Allow short keys. Everything that shows a result then says that this is a trial.", group="Key"
    )


def make_study(options: NewOptions, cards: Sequence[Path], progress: Progress = silent) -> tuple[Study, PublicSamples]:
    """Return a new study of these parties (files of cards), the first of whom hold the key, and its public samples.

    Raises StudyError, DataError or InvalidParameter for options that do not make a valid study.
    """
    _check_options(options)
    kind = spec_class(options.protocol)
    _check_cards(options, kind, len(cards))
    samples, evaluated = _read_files(options, kind)
    curator = IdentityCard.read(Path(options.curator))
    members = [IdentityCard.read(path) for path in cards]
    first = "unchanged" if isinstance(evaluated, RegressionModel) else kind.methods[0]
    method = first if options.method is None else options.method
    given = _parsed_parameters(options, kind)
    _check_persons(given.get("record"), samples)
    if evaluated is not None:
        given = _evaluation_parameters(options, given, samples, evaluated) | given
    holders = options.holders if kind.keyed else 0
    threshold = (holders + 1) // 2 if options.threshold is None else options.threshold
    safe = min(holders, safe_confirmations(holders, threshold))
    all_needed = kind.joint or method in OWN or "dropouts" in given
    minimum = len(cards) - int(given.get("dropouts", 0)) if all_needed else -(-len(cards) // 2)
    study = Study(
        title=options.title,
        nonce=SYSTEM.draw(16),
        protocol=options.protocol,
        method=method,
        epsilon=options.epsilon,
        delta=options.delta,
        parameters=_stated(_of_samples(options, samples) | given),
        classes=options.classes,
        features=samples.features,
        label=options.label,
        public_table=samples.digest,
        samples=len(samples.auxiliary.samples),
        minimum_ballots=minimum if options.minimum_ballots is None else options.minimum_ballots,
        proofs=options.proofs or "knowledge",
        public=kind.joint,
        closes=options.closes,
        patience=options.patience,
        key_bits=options.key_bits if kind.keyed else 0,
        degree=options.degree or 1,
        threshold=threshold if kind.keyed else 0,
        confirmations=safe if options.confirmations is None else options.confirmations,
        trial=options.trial,
        curator=curator.key,
        curator_name=curator.name,
        parties=tuple(
            Member(card.name, card.key, place + 1 if place < holders else 0) for place, card in enumerate(members)
        ),
    )
    planned = plan_study(StudyTerms(study, samples), progress)
    study = replace(study, parameters=_stated(encode_parameters(planned.stated()) | dict(study.parameters)))
    spec = spec_of(StudyTerms(study, samples))
    if options.degree is None:
        study = replace(study, degree=spec.best_degree(study.key_bits, len(study.roster)))
    try:
        spec.check_proofs(study.key_bits, study.degree, len(study.roster))
    except InvalidParameter:
        if study.proofs == "valid":
            raise
        return study, samples
    return study if options.proofs else replace(study, proofs="valid"), samples


def _of_samples(options: NewOptions, samples: PublicSamples) -> dict[str, Any]:
    """Return the parameters about the public samples."""
    stated = samples.encoding.map
    features = "" if stated is None else stated.encoded.decode()
    return {"ignore": join_list(options.ignore), "text": join_list(options.text), "map": features}


def _stated(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters without empty texts, which a study leaves out."""
    return {name: value for name, value in parameters.items() if value != ""}


def _read_files(options: NewOptions, kind: type[Spec]) -> tuple[PublicSamples, Model | RegressionModel | None]:
    """Return the public samples with their features, and the model that is evaluated, if any."""
    evaluated = read_model(options.model) if options.model else None
    numeric = kind.numeric or isinstance(evaluated, RegressionModel)
    path = Path(options.public)
    samples = PublicSamples.read(path, options.label, options.ignore, options.text, predicts_number=numeric)
    if evaluated is not None:
        encoding = evaluated.encoding
        known = encoding.map is not None and encoding.columns == samples.encoding.columns
        return (samples.mapped(encoding.map, ()) if known and encoding.map else samples), evaluated
    labels = samples.labels(options.classes)
    features = "linear" if kind.linear and options.features == "auto" else options.features
    fitted = fit_features(features, samples.inputs, labels, len(options.classes))
    if fitted.map is not None:
        samples = samples.mapped(fitted.map, options.classes)
    if kind.linear:  # a party's own table has columns of these names
        check_distinct(f"{path}: the features", samples.features)
    return replace(samples, note=fitted.note), None


def _check_cards(options: NewOptions, kind: type[Spec], parties: int) -> None:
    """Raise StudyError for too few parties, or a number of key holders that does not fit them."""
    if not kind.keyed:
        return
    if parties < 3:
        raise StudyError(
            f"a study of {options.protocol} needs the cards of 3 parties or more, since 3 of them make the key; there "
            f"{'is 1' if parties == 1 else f'are {parties}'}"
        )
    if not 0 < options.holders <= parties:
        raise StudyError(
            f"key holders are some of the {parties} parties: --holders is from 1 to {parties}, not {options.holders}"
        )


def _check_options(options: NewOptions) -> None:
    """Refuse missing options and options that do not fit the protocol."""
    if missing := [name for name in ("curator", "public", "label") if not getattr(options, name)]:
        raise InvalidParameter(f"a study needs --{missing[0]}")
    kind = spec_class(options.protocol)
    if bool(options.model) != kind.evaluates:
        raise InvalidParameter("--protocol evaluation evaluates the model of --model FILE: give both, or neither")
    if options.model and options.features != "auto":
        raise InvalidParameter("--features is not for an evaluation: the model of --model has its features")
    if kind.numeric and options.classes:
        raise InvalidParameter("the protocol predicts a number, which has no classes: leave --classes out")
    if options.classes:
        check_classes(options.classes)
    if not kind.joint and not options.curator_noise:
        raise InvalidParameter(
            f"in the protocol {options.protocol} the curator adds the noise, and nobody can verify that it does: "
            "choose --protocol statistic, where every party adds a share, or accept this with --curator-noise"
        )
    if kind.joint and options.curator_noise:
        raise InvalidParameter(
            f"--curator-noise is for {_listed(False)}; in the protocol {options.protocol} the parties add the noise"
        )


def _parsed_parameters(options: NewOptions, kind: type[Spec]) -> dict[str, Any]:
    """Return the parameters that were given as NAME=VALUE. Raises InvalidParameter for one that the protocol lacks."""
    parsed: dict[str, Any] = {}
    for word in options.parameters:
        name, _, text = word.partition("=")
        if name not in kind.parameters:
            raise InvalidParameter(
                f"{name} is no parameter of {options.protocol}; there are: {', '.join(kind.parameters) or 'none'}"
            )
        value_type = type_of_parameter(kind.parameters[name])
        try:
            parsed[name] = {"true": True, "false": False}[text.lower()] if value_type is bool else value_type(text)
        except (KeyError, ValueError):
            raise InvalidParameter(f"{word!r} should be {name}=VALUE, of type {value_type.__name__}") from None
    return parsed


def _check_persons(persons: str | None, samples: PublicSamples) -> None:
    """Raise InvalidParameter where the column that names persons is a feature of the samples."""
    if persons in [column.name for column in samples.encoding.columns]:
        raise InvalidParameter(f"the column {persons} names persons and would be a feature: add --ignore {persons}")


def _evaluation_parameters(
    options: NewOptions,
    given: Mapping[str, Any],
    samples: PublicSamples,
    model: Model | RegressionModel,
) -> dict[str, Any]:
    """Return the parameters of an evaluation: the model of --model for the samples' scaled rows, and bounds of errors.

    Parameters that are the model's own are refused: other bounds would move the intercept, relative to their middle.
    """
    if own := [name for name in ("classifier", "low", "high", "released") if name in given]:
        raise InvalidParameter(f"the parameter {own[0]} is that of the model of --model: leave it out")
    if isinstance(model, Model) and model.classes != options.classes:
        raise InvalidParameter(f"the model has the classes {', '.join(model.classes)}: name these with --classes")
    if isinstance(model, RegressionModel) and options.classes:
        raise InvalidParameter("the model predicts a number, which has no classes: leave --classes out")
    if isinstance(model, RegressionModel) and model.label != options.label:
        raise InvalidParameter(f"the model predicts the number {model.label}, and --label is {options.label}")
    released = {"released": encode_releases((model.release, *model.earlier))}
    same = model.encoding == samples.encoding
    if isinstance(model, RegressionModel):
        same &= np.array_equal(np.transpose(model.ranges), samples.ranges)
    if not same:
        raise InvalidParameter(
            "the model encodes columns in another way than the public samples do: use the public file, and the "
            "--ignore and --text, of its release"
        )
    if isinstance(model, Model):
        weights = samples.scaler.unfold(np.array(model.coefficients), np.array(model.intercepts))
        return {"classifier": _encoded_weights(weights), **released}
    low, high = model.bounds
    label = NumericLabel(low, high, largest_error(low, high))
    weights = samples.scaler.unfold(np.array([model.coefficients]), np.array([model.intercept - label.middle]))
    bounds = dict(zip(BOUNDS, (low, high, label.threshold), strict=True))
    return {"classifier": _encoded_weights(weights), **bounds, **released}


def _encoded_weights(weights: NDArray[np.float64]) -> str:
    """Return weights (k, d) of scaled rows as the parameter `classifier`, float32.

    Raises InvalidParameter where the largest one overflows, or so nearly underflows that its precision is lost.
    """
    largest, float32 = float(np.abs(weights).max()), np.finfo(np.float32)
    if not (largest == 0 or float(float32.tiny) * 2.0**24 <= largest <= float(float32.max)):
        raise InvalidParameter(
            f"the largest weight of the model, {largest:.3g}, is beyond the range of float32, in which a study states "
            "weights: release a model of the label in another unit"
        )
    return encode_coordinates(weights.T)
