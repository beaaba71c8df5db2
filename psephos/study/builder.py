"""Writing a study: from members' cards, public samples, and what is to come of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from psephos.curator.hamm.rules import HAMM_LAMBDA, averaging_radius
from psephos.curator.hamm.statistic import SOURCE_OF, MechanismName, plan_statistic
from psephos.options import option
from psephos.protocol.encrypted_sum.own_data import OWN
from psephos.protocol.encrypted_sum.rounds import Proofs
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.randomness import SYSTEM
from psephos.protocol.study.study import Member, ProtocolName, Study, safe_confirmations
from psephos.specs.base import Spec
from psephos.specs.registry import SPECS, spec_of, type_of_parameter
from psephos.specs.study import StudyTerms, encode_coordinates
from psephos.study.identity import IdentityCard
from psephos.study.samples import PublicSamples

__all__ = ["NewOptions", "make_study"]

_VALID_UP_TO = 10_000
"""Entries of a ballot, up to which it is proved to be valid unless somebody says otherwise: it costs little then."""


@dataclass(frozen=True, kw_only=True)
class NewOptions:
    """The terms of a new study, besides its members' cards; a field is an option of `psephos study new`."""

    title: str = option("A study", "The name of the study for people.")
    curator: str = option("", "The file of the curator's card.")
    public: str = option("", "The public samples: a CSV or Parquet file that every member is given.", group="Data")
    label: str = option("", "The column with the class, in every party's own file.", group="Data")
    classes: tuple[str, ...] = option((), "The classes, as they stand in that column.", group="Data")
    ignore: tuple[str, ...] = option((), "Columns of the public file to leave out.", group="Data")
    text: tuple[str, ...] = option((), "Columns that are text whatever they hold, such as codes.", group="Data")
    protocol: ProtocolName = option(
        "statistic",
        "What is added up. With noise from every party: a statistic of votes or own rows, gradients (psgd) or "
        "parameters (pathak). With noise from the curator: votes (tally) or parameters (average).",
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
        "What is released: statistic, own-data or whitened of a statistic; statistic, soft or vote of a tally; avg, "
        "own-data or whitened of an average.",
        group="Protocol",
        shown="the first of the protocol's",
    )
    parameters: tuple[str, ...] = option(
        (),
        "Further parameters of the protocol, NAME=VALUE, such as dropouts=1 or steps=30,lam=0.1; docs/study.md lists "
        "them.",
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
        "What every ballot proves: that its sender knows its content (knowledge), or also that it holds votes (valid).",
        group="Vote",
        shown=f"valid up to {_VALID_UP_TO:,} entries",
    )
    key_bits: int = option(3072, "The length of the Paillier modulus in bits.", group="Key")
    degree: int | None = option(
        None, "The degree of the key, from 1 to 4.", group="Key", shown="the one with the shortest ballots"
    )
    holders: int = option(3, "The number of key holders; they are the first parties that are named.", group="Key")
    threshold: int | None = option(None, "The number of holders that open a sum.", group="Key", shown="more than half")
    confirmations: int | None = option(
        None,
        "The number of holders that confirm what is opened.",
        group="Key",
        shown="enough to make two openings impossible",
    )
    trial: bool = option(
        False, "Allow short keys. Everything that shows a result then says that this is a trial.", group="Key"
    )


def make_study(options: NewOptions, cards: Sequence[Path]) -> tuple[Study, PublicSamples]:
    """Return a new study of these parties, the first of whom hold the key, and its public samples.

    Args:
        options: the terms.
        cards: the files of the parties' cards.

    Raises:
        StudyError, DataError, InvalidParameter: the options do not make a valid study.
    """
    _check_options(options)
    keyed = options.protocol != "pathak"
    if keyed and not 0 < options.holders <= len(cards):
        raise StudyError(
            f"key holders are some of the {len(cards)} parties: --holders is from 1 to {len(cards)}, not "
            f"{options.holders}"
        )
    samples = PublicSamples.read(Path(options.public), options.label, options.ignore, options.text)
    curator = IdentityCard.read(Path(options.curator))
    members, spec_class = [IdentityCard.read(path) for path in cards], SPECS[options.protocol]
    method = spec_class.methods[0] if options.method is None else options.method
    parsed = _parsed_parameters(options, spec_class)
    derived = _derived_parameters(options, method, parsed, samples, len(cards))
    parameters: dict[str, Any] = {"ignore": ",".join(options.ignore), "text": ",".join(options.text)} | derived | parsed
    holders = options.holders if keyed else 0
    threshold = holders // 2 + 1 if options.threshold is None else options.threshold
    confirmations = options.confirmations
    if confirmations is None:
        confirmations = min(holders, safe_confirmations(holders, threshold))
    rows, proofs = len(samples.auxiliary.samples), options.proofs
    if proofs is None:
        short = rows * (len(options.classes) - 1) <= _VALID_UP_TO
        proofs = "valid" if options.protocol == "tally" and short else "knowledge"
    all_needed = spec_class.joint or method in OWN  # the noise is sized for all but the dropouts
    minimum = len(cards) - int(parsed.get("dropouts", 0)) if all_needed else -(-len(cards) // 2)
    study = Study(
        title=options.title,
        nonce=SYSTEM.draw(16),
        protocol=options.protocol,
        method=method,
        epsilon=options.epsilon,
        delta=options.delta,
        parameters={name: value for name, value in parameters.items() if value != ""},
        classes=options.classes,
        features=samples.features,
        label=options.label,
        auxiliary=samples.auxiliary.digest,
        samples=rows,
        minimum_ballots=minimum if options.minimum_ballots is None else options.minimum_ballots,
        proofs=proofs,
        public=spec_class.joint,
        closes=options.closes,
        patience=options.patience,
        key_bits=options.key_bits if keyed else 0,
        degree=options.degree or 1,
        threshold=threshold if keyed else 0,
        confirmations=confirmations,
        trial=options.trial,
        curator=curator.key,
        curator_name=curator.name,
        parties=tuple(
            Member(card.name, card.key, place + 1 if place < holders else 0) for place, card in enumerate(members)
        ),
    )
    spec = spec_of(StudyTerms(study, samples.auxiliary))
    if options.degree is None:
        study = replace(study, degree=spec.best_degree(study.key_bits, len(study.roster)))
    return study, samples


def _check_options(options: NewOptions) -> None:
    """Raise InvalidParameter for missing options, and unless curator's noise is asked for where there is such."""
    if missing := [name for name in ("curator", "public", "label") if not getattr(options, name)]:
        raise InvalidParameter(f"a study needs --{missing[0]}")
    joint = SPECS[options.protocol].joint
    if not joint and not options.curator_noise:
        raise InvalidParameter(
            f"in the protocol {options.protocol} the curator adds the noise, and nobody can verify that it does: "
            "choose --protocol statistic, where every party adds a share, or accept this with --curator-noise"
        )
    if joint and options.curator_noise:
        raise InvalidParameter(
            f"--curator-noise is for tally and average; in the protocol {options.protocol} the parties add the noise"
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
        wanted = type_of_parameter(kind.parameters[name])
        try:
            parsed[name] = {"true": True, "false": False}[text.lower()] if wanted is bool else wanted(text)
        except (KeyError, ValueError):
            raise InvalidParameter(f"{word!r} should be {name}=VALUE, of type {wanted.__name__}") from None
    return parsed


def _derived_parameters(
    options: NewOptions, method: str, given: Mapping[str, Any], samples: PublicSamples, parties: int
) -> dict[str, Any]:
    """Return the parameters that follow by a public rule; they are stated so that all members have the same bits."""
    joint, own = options.protocol == "statistic", method in OWN
    if joint or own:
        noise: MechanismName = "gaussian" if options.delta else "discrete-laplace" if joint else "spherical-laplace"
        plan = plan_statistic(
            samples.auxiliary.samples,
            len(options.classes),
            parties,
            epsilon=options.epsilon,
            delta=options.delta,
            mechanism=noise,
            source=SOURCE_OF.get(method, "votes"),
            joint=joint,
        )
        return {"coordinates": encode_coordinates(plan.transform)}
    if options.protocol == "average":
        lam = given.get("lam", HAMM_LAMBDA)
        return {"lam": lam, "radius": averaging_radius(lam, len(options.classes))}
    return {}
