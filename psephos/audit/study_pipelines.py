"""Record what a party of a study sends, computed from its own file by the roles of its agent.

Every member has a directory with its identity, the signed study and its settings, as `psephos join` makes them. The key
of the round is dealt instead of generated together, and the parties add no noise, so that their exact vectors are
compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from psephos.audit.neighbours import PartyTable
from psephos.audit.pipelines import RunRecord, digest_of, public_files, record_sum
from psephos.parties.noise import Shares
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import Randomness
from psephos.protocol.storage.store import OnceLedger
from psephos.simulation.key_setup import setup_keys
from psephos.specs.base import SumSpec
from psephos.specs.evaluation import EvaluationSpec
from psephos.specs.record import RecordSpec
from psephos.specs.registry import SPECS, participants_of, spec_of
from psephos.specs.rehearsed import RehearsedSpec
from psephos.specs.statistic import StatisticSpec
from psephos.specs.study import StudyTerms
from psephos.study.builder import NewOptions, make_study
from psephos.study.card import card
from psephos.study.identity import Identity, fingerprint
from psephos.study.member import sign
from psephos.study.release import make_release, read_release

__all__ = ["run_study"]

HOLDERS, THRESHOLD = 5, 3


@dataclass(frozen=True)
class ZeroShares(Shares):
    """Shares without noise, with the same bounds and the same number of contributors as the shares of a plan."""

    limit: int
    longest: int

    @classmethod
    def of(cls, shares: Shares) -> ZeroShares:
        """Return shares without noise in place of these."""
        return cls(shares.dimension, shares.parties, shares.contributors, shares.bound, shares.norm_bound)

    @property
    def bound(self) -> int:
        return self.limit

    @property
    def norm_bound(self) -> int:
        return self.longest

    def _draw(self, randomness: Randomness) -> list[int]:
        return [0] * self.dimension


def run_study(table: PartyTable, directory: Path, *, absent: int = 0, **chosen: Any) -> RunRecord:
    """Run every party of a study: each has a file of its own rows, and all have the public rows."""
    names = table.parties
    members = [Identity.create(name, directory / f"member {number}") for number, name in enumerate(names)]
    curator = Identity.create("curator", directory / "curator")
    public = _file(table, table.public, directory / "public.csv")
    options = NewOptions(
        curator=str(curator.directory / "card.toml"),
        public=str(public),
        label=table.label,
        classes=() if chosen.get("protocol") == "regression" else tuple(table.classes),
        key_bits=256,
        holders=HOLDERS,
        threshold=THRESHOLD,
        trial=True,
        curator_noise=not SPECS[chosen.get("protocol", NewOptions.protocol)].joint,
        **chosen,
    )
    study, samples = make_study(options, [member.directory / "card.toml" for member in members])
    spec = spec_of(StudyTerms(study, samples))
    if not isinstance(spec, SumSpec):
        raise InvalidParameter(f"the audit runs studies of one encrypted sum, which {study.protocol} is not")
    agreed = spec
    if isinstance(spec, StatisticSpec | RecordSpec | RehearsedSpec | EvaluationSpec) and spec.shares is not None:
        spec = replace(spec, shares=ZeroShares.of(spec.shares))
    record = RunRecord(roster=tuple(member.name for member in study.parties))
    key = _dealt_key(study.key_bits, len(names), spec.best_degree(study.key_bits, len(names)))
    round_, vectors = spec.terms(key, participants_of(study)), {}
    for number, (name, identity) in enumerate(zip(names, members, strict=True)):
        member = sign(study, identity)
        member.keep(public=str(public), data=str(_file(table, name, directory / f"{name}.csv")))
        record.local[name] = {"rows": digest_of(*member.voter)}
        if number >= len(names) - absent:
            continue
        role = spec.party(number, identity.key, spec.prepare(member.voter), round_, ledger=OnceLedger())
        vectors[name] = role.result(role.start().state)
    unknown = len(names) - int(study.parameters.get("dropouts", 0)) - (study.threshold - 1)
    record_sum(record, study.protocol, round_, agreed, vectors, unknown)
    record.terms["parameters"] = dict(study.parameters)
    record.terms["samples"] = study.public_table.hex(), study.classes, study.features, study.minimum_ballots
    total = tuple(sum(column) for column in zip(*vectors.values(), strict=True))
    content = make_release(study, samples, OpenedSum(total, tuple(range(len(vectors)))))
    text = card(study, read_release(study, samples, content))
    # The digest differs between any two studies, and does not depend on rows.
    record.files = public_files(content, text.replace(study.digest.hex(), "").replace(fingerprint(study.digest), ""))
    return record


def _dealt_key(bits: int, parties: int, degree: int) -> Any:
    """Return a key from a dealer, for a round that is not opened."""
    ceremony = setup_keys(parties, key_bits=bits, degree=degree, holders=HOLDERS, threshold=THRESHOLD, test_key=True)
    return ceremony.threshold_key


def _file(table: PartyTable, owner: str, path: Path) -> Path:
    """Write the rows of one owner to a file, without the column of the owners; return its path."""
    own = table.with_cells(table.cells[table.cells[table.party] == owner])
    replace(own, cells=own.cells.drop(columns=[table.party])).write(path)
    return path
