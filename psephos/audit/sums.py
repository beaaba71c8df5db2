"""Analyses of encrypted sums: runs, views of coalitions, and their checks.

Real runs are those of `psephos.simulation`, simulated ones those of `simulators`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from gmpy2 import mpz

from psephos.audit.attacks import Attack
from psephos.audit.compare import Sealed, ViewAnalysis
from psephos.audit.deviations import request_attacks
from psephos.audit.matrix import Members
from psephos.audit.model import AnalysisContext, CheckResult
from psephos.audit.settings import KEY_BITS, AuditSetting, SumRun, cast_ballot, make_setting, round_of, run_sum
from psephos.audit.simulators import ideal_sum, simulate_sum_view
from psephos.audit.view_checks import ViewCiphertext, jacobi
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import ThresholdError
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.threshold import combine
from psephos.protocol.roles import BOARD
from psephos.simulation.encrypted_sum import PartyFactory


@dataclass(frozen=True)
class SumAnalysis(ViewAnalysis):
    """The analysis of one kind of encrypted sum at test size: three holders have the key, two of whom open a sum."""

    label: str
    parties: int = 5
    key_bits: int = KEY_BITS
    degree: int = field(default=1, kw_only=True)

    @abstractmethod
    def spec(self, context: AnalysisContext) -> Any:
        """Return the specification of what is summed."""

    @abstractmethod
    def data(self, context: AnalysisContext, inputs: str) -> Sequence[Any]:
        """Return what each party brings; `inputs` names one of the inputs of the analysis, such as "honest"."""

    def exact(self, context: AnalysisContext) -> list[list[int]]:
        """Return the parties' vectors without noise, worked out without the roles."""
        raise NotImplementedError("not one sum, but one for each step")

    def round(self, context: AnalysisContext, label: str, **conditions: Any) -> Round:
        """Return a fresh round; `conditions`: as in `round_of`."""
        return round_of(self.setting(context), self.spec(context), context.coins(label, "round"), **conditions)

    def contribution(self, context: AnalysisContext, inputs: str) -> PartyFactory:
        return PartyFactory(self.spec(context), self.data(context, inputs))

    def noise(self, length: int, shares: int, generator: np.random.Generator) -> list[int]:
        """Return the sum of so many parties' shares of the noise, as the functionality draws it."""
        return [0] * length

    def output(self, context: AnalysisContext, own: Mapping[int, Sequence[int]], number: int) -> list[int]:
        """Return what the functionality gives to the curator; `own`: the coalition's vectors."""
        honest = [vector for p, vector in enumerate(self.exact(context)) if p not in own]
        noise = self.noise(len(honest[0]), len(honest), np.random.default_rng([context.seed, number, 78]))
        return ideal_sum(*honest, *own.values(), noise)

    def first_vector(self, context: AnalysisContext, run: SumRun) -> list[int]:
        """Return the vector that the ballot of party 0 encrypts."""
        return self.exact(context)[0]

    def opened_values(self, run: SumRun, members: Members) -> Iterator[tuple[str, float]] | None:
        """Yield (name, number) of what a coalition computes from the opened sums; None where they are exact."""
        return None

    # -- runs

    def setting(self, context: AnalysisContext) -> AuditSetting:
        sizes = {"key_bits": self.key_bits, "degree": self.degree}
        make = partial(make_setting, context.coins(self.label, "world"), self.parties, **sizes)
        return context.cached((self.label, "setting"), make)

    def run(self, context: AnalysisContext, number: int, inputs: str, members: Members) -> SumRun:
        label, contribution = f"{self.label} {inputs} {number}", self.contribution(context, inputs)
        return run_sum(context, self.setting(context), self.round(context, label), contribution, label)

    def simulate(self, context: AnalysisContext, number: int, members: Members) -> SumRun:
        setting, contribution = self.setting(context), self.contribution(context, "honest")
        label = f"{self.label} simulated {members} {number}"
        round_, coins = self.round(context, label), partial(context.coins, label)
        pairs = {p: cast_ballot(setting, round_, contribution, p, coins(f"party {p}")) for p in members.parties}
        own, vectors = {p: b for p, (b, _) in pairs.items()}, {p: v for p, (_, v) in pairs.items()}
        sums = self.output(context, vectors, number) if members.curator else [0] * round_.plan.length
        run = simulate_sum_view(setting, round_, members, own=own, sums=sums, coins=coins)
        return replace(run, vectors=vectors)

    def ballots(self, context: AnalysisContext, label: str) -> tuple[Round, list[Ballot]]:
        setting, round_ = self.setting(context), self.round(context, label)
        factory = self.contribution(context, "honest")
        ballots = [
            cast_ballot(setting, round_, factory, party, context.coins(label, party))[0]
            for party in range(self.parties)
        ]
        return round_, ballots

    # -- checks

    def _opened(self, context: AnalysisContext, run: SumRun, members: Members, ciphertext: mpz) -> int | None:
        """Return what the coalition's shares open a ciphertext to, as if the threshold were their number, or None."""
        shares = [self.setting(context).ceremony.shares[h - 1] for h in members.holders]
        lowered = replace(run.round.threshold_key, threshold=len(shares))
        try:
            return combine(lowered, {share.holder: share.partially_decrypt([ciphertext]) for share in shares})[0]
        except ThresholdError:
            return None

    def lowered_threshold(self, members: Members, context: AnalysisContext) -> CheckResult:
        """Check whether the coalition's shares open any honest ballot, as if the threshold were their number."""
        run, attempts, shares = self.real(context)[0], 0, len(members.holders)
        for ballot in run.ballots:
            for c in () if ballot.party in members.parties else ballot.ciphertexts:
                attempts += 1
                if self._opened(context, run, members, c) is not None:
                    of = f"{shares} of {run.round.threshold_key.threshold} shares"
                    return CheckResult(True, f"{of} open the ballot of party {ballot.party}")
        return CheckResult(False, f"{shares} shares open none of {attempts} ciphertexts, whatever threshold is assumed")

    @property
    def requests(self) -> tuple[Attack, ...]:
        """The deviating requests, as attacks on this sum."""
        return request_attacks(self.setting, self.ballots)

    def deviating_requests(self, context: AnalysisContext) -> CheckResult:
        """Check that every request other than the agreed one is refused."""
        results = {attack.name: attack.run(context) for attack in self.requests}
        if answered := [name for name, result in results.items() if result.gains]:
            return CheckResult(True, f"{answered[0]}: not refused")
        refused = {type(error).__name__ for result in results.values() for error in result.errors}
        return CheckResult(False, f"{len(results)} deviating requests, all refused ({', '.join(sorted(refused))})")

    def reads_sum(self, context: AnalysisContext) -> CheckResult:
        right = {run.opened.sums for run in self.real(context)} == {tuple(ideal_sum(*self.exact(context)))}
        return CheckResult(right, "it opens the exact sum of all vectors")

    def reads_last(self, context: AnalysisContext) -> CheckResult:
        """Check that all parties but party 0 compute its vector from the exact sum."""
        first, *others = self.exact(context)
        rest = np.subtract(self.real(context)[0].opened.sums, ideal_sum(*others))
        return CheckResult(rest.tolist() == first, "the sum less their own vectors is the vector of party 0")

    def reads_ballot(self, members: Members, why: str, context: AnalysisContext) -> CheckResult:
        """Check that t shares, or the dealer's key, open the ballot of party 0; `why`: the evidence."""
        run, private_key = self.real(context)[0], self.setting(context).private_key
        plaintexts: list[int | mpz | None] = [
            self._opened(context, run, members, c) if members.holders else private_key.raw_decrypt(c)
            for c in run.ballots[0].ciphertexts
        ]
        opened = [plaintext for plaintext in plaintexts if plaintext is not None]
        complete = len(opened) == len(plaintexts)
        read = complete and run.round.plan.unpack(opened, 1) == self.first_vector(context, run)
        return CheckResult(read, why)

    def sealed(self, run: SumRun, members: Members) -> Iterator[tuple[PublicKey, Sealed, Sealed]]:
        for one in (*run.before, run):
            sides: tuple[list[ViewCiphertext], list[ViewCiphertext]] = [], []
            for ballot in one.ballots:
                for place, c in enumerate(ballot.ciphertexts):
                    where = f"party {ballot.party}, ciphertext {place}"
                    sides[ballot.party in members.parties].append(ViewCiphertext(where, c))
            yield one.round.key, *sides

    def difference(self, runs: Sequence[SumRun], members: Members) -> str:
        received = [[m for m in run.transcript.messages if m.receiver in (BOARD, *members.names)] for run in runs]
        if (
            len({tuple((m.phase, m.sender, m.receiver, m.kind, m.size) for m in messages) for messages in received})
            != 1
        ):
            return "the messages differ in number, order, kind or length"
        if not members.curator:
            return ""
        if self.opened_values(runs[0], members) is None and len({run.opened.sums for run in runs}) != 1:
            return "the opened sums differ"
        opened = all(run.opens_to_its_sum for run in runs)
        return "" if opened else "the partial decryptions do not open to the ideal output"

    def row(self, context: AnalysisContext, run: SumRun, members: Members) -> Iterator[tuple[str, float]]:
        key, last = run.round.key, None
        for ballot in run.ballots:
            if ballot.party in members.parties:
                continue
            yield f"party {ballot.party}: signature", ballot.signature[0]
            for place, c in enumerate(ballot.ciphertexts):
                where = f"party {ballot.party}, ciphertext {place}"
                yield where, float(c / key.ciphertext_modulus)
                yield f"{where}: residue", float(c % key.modulus / key.modulus)
                yield f"{where}: Jacobi symbol", jacobi(key, c)
                if members.opens:
                    plain = mpz(self.setting(context).private_key.raw_decrypt(c))
                    yield f"{where}: plaintext", float(plain / key.plaintext_modulus)
                if last is not None:
                    quotient = c * pow(last, -1, key.ciphertext_modulus) % key.ciphertext_modulus
                    yield f"{where} over the one before", float(quotient / key.ciphertext_modulus)
                last = c
        for part in run.parts if members.curator else ():
            for place, c in enumerate(() if part.holder in members.holders else part.values):
                yield f"holder {part.holder}, value {place}", float(c / key.ciphertext_modulus)
                yield f"holder {part.holder}, value {place}: Jacobi symbol", jacobi(key, c)
        yield from self.opened_values(run, members) or ()
