"""What a party of a study sends, made from its own file by the classes that its agent plays.

Every member has a directory of its own with its identity, the signed study and its settings, as `psephos join` makes
them. The round's key is dealt instead of made together, and the noise of the parties is left out, so that what is
compared is the party's exact vector.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from psephos.audit.neighbours import PartyTable
from psephos.audit.pipelines import Seen, contributed, digest_of, public_files
from psephos.parties.noise import Shares
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.storage.store import OnceLedger
from psephos.simulation.key_setup import setup_keys
from psephos.specs.base import SumSpec
from psephos.specs.registry import participants_of, spec_of
from psephos.specs.statistic import StatisticSpec
from psephos.specs.study import StudyTerms
from psephos.study.builder import NewOptions, make_study
from psephos.study.identity import Identity, fingerprint
from psephos.study.member import sign
from psephos.study.release import card, checked, released

__all__ = ["studied"]

HOLDERS, THRESHOLD = 5, 3


@dataclass(frozen=True)
class Silent(Shares):
    """In place of a plan's shares: the same bound and the same number of contributors, without any noise."""

    limit: int

    @classmethod
    def of(cls, shares: Shares) -> Silent:
        """In the place of these."""
        return cls(shares.dimension, shares.parties, shares.contributors, shares.bound)

    @property
    def bound(self) -> int:
        return self.limit

    def share(self, randomness: Randomness = SYSTEM) -> list[int]:
        """Zeros."""
        return [0] * self.dimension


def studied(table: PartyTable, directory: Path, **asked: Any) -> Seen:
    """Every party of a study on the table: the rows of a party are its own file, the public ones everybody's.

    Args:
        table: with public rows.
        directory: empty.
        asked: options of `NewOptions`, such as protocol and method. Only protocols of one sum are played.

    Raises InvalidParameter for another protocol, and what a member of the study raises.
    """
    names = table.parties
    members = [Identity.create(name, directory / f"member {number}") for number, name in enumerate(names)]
    curator = Identity.create("curator", directory / "curator")
    public = _file(table, table.public, directory / "public.csv")
    options = NewOptions(
        curator=str(curator.directory / "card.toml"),
        public=str(public),
        label=table.label,
        classes=tuple(table.classes),
        key_bits=256,
        holders=HOLDERS,
        threshold=THRESHOLD,
        trial=True,
        **asked,
    )
    study, samples = make_study(options, [member.directory / "card.toml" for member in members])
    spec = spec_of(StudyTerms(study, samples.auxiliary))
    if not isinstance(spec, SumSpec):
        raise InvalidParameter(f"the audit plays studies of one sum, and {study.protocol} has none")
    agreed = spec
    if isinstance(spec, StatisticSpec) and spec.shares is not None:
        spec = replace(spec, shares=Silent.of(spec.shares))
    seen = Seen(roster=tuple(member.name for member in study.parties))
    key = _dealt_key(study.key_bits, len(names), spec.best_degree(study.key_bits, len(names)))
    round_, vectors = spec.terms(key, participants_of(study)), {}
    for number, (name, identity) in enumerate(zip(names, members, strict=True)):
        member = sign(study, identity)
        member.keep(public=str(public), data=str(_file(table, name, directory / f"{name}.csv")))
        seen.local[name] = {"rows": digest_of(*member.voter)}
        role = spec.party(number, identity.key, spec.prepare(member.voter), round_, ledger=OnceLedger())
        vectors[name] = role.result(role.start().state)
    unknown = len(names) - int(study.parameters.get("dropouts", 0)) - (study.threshold - 1)
    contributed(seen, study.protocol, round_, agreed, vectors, unknown)
    seen.terms["parameters"] = dict(study.parameters)
    seen.terms["samples"] = study.auxiliary.hex(), study.classes, study.features, study.minimum_ballots
    total = tuple(sum(column) for column in zip(*vectors.values(), strict=True))
    content = released(study, samples, OpenedSum(total, tuple(range(len(names)))))
    text = card(study, checked(study, samples, content))
    # Every study has a digest of its own: it names the study, and says nothing about rows.
    seen.files = public_files(content, text.replace(study.digest.hex(), "").replace(fingerprint(study.digest), ""))
    return seen


def _dealt_key(bits: int, parties: int, degree: int) -> Any:
    """A key that a dealer made, for a round that nobody opens."""
    ceremony = setup_keys(parties, key_bits=bits, degree=degree, holders=HOLDERS, threshold=THRESHOLD, test_key=True)
    return ceremony.threshold_key


def _file(table: PartyTable, owner: str, path: Path) -> Path:
    """The rows of one owner, without the column that says whose they are."""
    own = table.with_cells(table.cells[table.cells[table.party] == owner])
    replace(own, cells=own.cells.drop(columns=[table.party])).write(path)
    return path
