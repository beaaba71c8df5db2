"""Writing a study: from members' cards, public samples, and what is to come of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from psephos.curator.hamm.statistic import SOURCE_OF, plan_statistic
from psephos.options import option
from psephos.protocol.encrypted_sum.rounds import Proofs
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.randomness import SYSTEM
from psephos.protocol.study.study import Member, Study, safe_confirmations
from psephos.study.identity import Card
from psephos.study.protocols import Public, coordinates, play_of
from psephos.study.release import check_release
from psephos.study.samples import PublicSamples

__all__ = ["NewOptions", "make_study"]

_VALID_UP_TO = 10_000
"""Entries of a ballot, up to which it is proved to be valid unless somebody says otherwise: it costs little then."""


@dataclass(frozen=True, kw_only=True)
class NewOptions:
    """What a study is made of, besides its members' cards; a field is an option of `psephos study new`."""

    title: str = option("A study", "What people call it.")
    curator: str = option("", "The curator's card.")
    public: str = option("", "The public samples: a CSV or Parquet file that every member is given.", group="Data")
    label: str = option("", "The column with the class, in every party's own file.", group="Data")
    classes: tuple[str, ...] = option((), "The classes, as they stand in that column.", group="Data")
    ignore: tuple[str, ...] = option((), "Columns of the public file to leave out.", group="Data")
    text: tuple[str, ...] = option((), "Columns that are text whatever they hold, such as codes.", group="Data")
    reveal: Literal["counts", "statistic"] = option(
        "counts",
        "What is opened: the counts of votes, to the curator, who adds the noise; or a statistic with noise from every "
        "party, to everybody.",
        group="Privacy",
    )
    method: Literal["statistic", "soft", "vote", "own-data", "whitened"] = option(
        "statistic",
        "What it is learned from: counts by statistic, soft or vote; sums by statistic, own-data or whitened.",
        group="Privacy",
    )
    colluders: int = option(0, "With --reveal statistic: parties whose shares of noise may be known.", group="Privacy")
    dropouts: int = option(0, "With --reveal statistic: parties that may stay away.", group="Privacy")
    epsilon: float = option(1.0, "What the release costs every party.", group="Privacy")
    delta: float = option(0.0, "Positive: Gaussian noise, which is smaller.", group="Privacy")
    lam: float | None = option(None, "Ridge lambda of soft and vote.", group="Privacy", shown="a public rule")
    minimum_ballots: int | None = option(
        None, "Nothing is opened of fewer ballots.", group="Vote", shown="half of the parties"
    )
    closes: str = option("", "When the vote ends at the latest, as 2026-12-01T12:00Z.", group="Vote")
    patience: int = option(600, "Seconds to wait for answers after the vote.", group="Vote")
    proofs: Proofs | None = option(
        None, "What a ballot proves: knowledge, or valid.", group="Vote", shown=f"valid up to {_VALID_UP_TO:,} entries"
    )
    key_bits: int = option(3072, "Length of the Paillier modulus.", group="Key")
    degree: int | None = option(None, "Of the key, 1 to 4.", group="Key", shown="what ballots take fewest bytes with")
    holders: int = option(3, "The first so many parties make and hold the key.", group="Key")
    threshold: int | None = option(None, "How many of them open a sum.", group="Key", shown="more than half")
    confirmations: int | None = option(
        None, "How many confirm what is opened.", group="Key", shown="as many as make two openings impossible"
    )
    trial: bool = option(False, "Allow short keys, and say everywhere that this is a trial.", group="Key")


def make_study(options: NewOptions, cards: Sequence[Path]) -> tuple[Study, PublicSamples]:
    """A fresh study of these parties, the first of whom hold the key, and the samples that it is about.

    Raises StudyError, DataError or InvalidParameter for what nobody should sign.
    """
    for name in ("curator", "public", "label"):
        if not getattr(options, name):
            raise InvalidParameter(f"a study needs --{name}")
    if not 0 < options.holders <= len(cards):
        raise StudyError(f"key holders are some of the parties: {options.holders} of {len(cards)} cannot be")
    samples = PublicSamples.read(Path(options.public), options.label, options.ignore, options.text)
    members = [Card.read(path) for path in cards]
    threshold = options.holders // 2 + 1 if options.threshold is None else options.threshold
    confirmations = options.confirmations
    if confirmations is None:
        confirmations = min(options.holders, safe_confirmations(options.holders, threshold))
    rows, proofs = len(samples.auxiliary.samples), options.proofs
    if proofs is None:
        proofs = "valid" if rows * (len(options.classes) - 1) <= _VALID_UP_TO else "knowledge"
    given: dict[str, Any] = {"ignore": ",".join(options.ignore), "text": ",".join(options.text), "lam": options.lam}
    minimum, joint = -(-len(cards) // 2), options.reveal == "statistic"
    if joint:
        minimum, proofs = len(cards) - options.dropouts, "knowledge"
        given |= {"colluders": options.colluders, "dropouts": options.dropouts}
        given["coordinates"] = _coordinates(options, samples, len(cards))
    elif options.colluders or options.dropouts:
        raise InvalidParameter("--colluders and --dropouts are about the parties' noise: use --reveal statistic")
    study = Study(
        title=options.title,
        nonce=SYSTEM.draw(16),
        protocol="statistic" if joint else "tally",
        method=options.method,
        epsilon=options.epsilon,
        delta=options.delta,
        parameters={name: value for name, value in given.items() if value},
        classes=options.classes,
        features=samples.features,
        label=options.label,
        auxiliary=samples.auxiliary.digest,
        samples=rows,
        minimum_ballots=minimum if options.minimum_ballots is None else options.minimum_ballots,
        proofs=proofs,
        public=joint,
        closes=options.closes,
        patience=options.patience,
        key_bits=options.key_bits,
        degree=options.degree or 1,
        threshold=threshold,
        confirmations=confirmations,
        trial=options.trial,
        curator=Card.read(options.curator).key,
        parties=tuple(
            Member(card.name, card.key, place + 1 if place < options.holders else 0)
            for place, card in enumerate(members)
        ),
    )
    check_release(study)
    play = play_of(Public(study, samples.auxiliary))
    if options.degree is None:
        study = replace(study, degree=play.best_degree)
    return study, samples


def _coordinates(options: NewOptions, samples: PublicSamples, parties: int) -> str:
    """The public coordinates of the statistic, which its study says: everybody must have the same bits."""
    plan = plan_statistic(
        samples.auxiliary.samples,
        len(options.classes),
        parties,
        epsilon=options.epsilon,
        delta=options.delta,
        mechanism="gaussian" if options.delta else "discrete-laplace",
        source=SOURCE_OF.get(options.method, "votes"),
        joint=True,
    )
    return coordinates(plan.transform)
