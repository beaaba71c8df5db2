"""The analysis of the encrypted tally that reveals alpha (docs/design.md, sections 2 and 4).

Five parties vote, and two of three holders open the counts. `psephos simulate tally` runs two sums: of the votes, and,
for the method avg, of the parties' parameters. The curator receives both exactly, and adds the noise of every release.
Here the votes are summed under a key of degree 1, and the parameters under one of degree 2, in two ciphertexts of three
times the key's length each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from psephos.audit.matrix import EXPECTED, TALLY_MEMBERS
from psephos.audit.model import AnalysisContext, CheckResult, Checks, case_of
from psephos.audit.settings import FixedVoter, TrainedVoter, run_tally_round
from psephos.audit.sums import SumAnalysis
from psephos.curator.methods import ReleaseRequest, statistic_method
from psephos.parties.party import Voter
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, VoteLayout
from psephos.protocol.randomness import RecordedRandomness, ReplayedRandomness
from psephos.specs.average import VectorSpec
from psephos.specs.base import VectorFormat
from psephos.specs.tally import TallySpec

PARTIES, SAMPLES, CLASSES = 5, 25, 3
LAYOUT = VoteLayout(SAMPLES, CLASSES)
ENTRIES, LARGEST = 24, 5000
"""The number of a party's parameters, and the bound of each in fixed point."""


def _auxiliary(context: AnalysisContext) -> NDArray[np.float64]:
    return np.random.default_rng(context.seed).normal(size=(SAMPLES, 2))


def _votes(context: AnalysisContext) -> NDArray[np.int64]:
    return np.random.default_rng([context.seed, 1]).integers(0, CLASSES, size=(PARTIES, SAMPLES))


def _voters(context: AnalysisContext, inputs: str) -> Sequence[Voter]:
    """Return the parties' classifiers; of "trained" and "twin" the first one has other data and the same votes."""
    votes = _votes(context)
    if inputs == "swapped":
        votes = votes[[1, 0, 2, 3, 4]]
    voters: list[Voter] = [FixedVoter(v) for v in votes]
    if inputs in ("trained", "twin"):
        voters[0] = TrainedVoter(context.seed, 5 if inputs == "twin" else 1, CLASSES)
    return voters


class _Votes(SumAnalysis):
    def spec(self, context: AnalysisContext) -> TallySpec:
        return TallySpec(AuxiliarySet(_auxiliary(context)), CLASSES)

    def data(self, context: AnalysisContext, inputs: str) -> Sequence[Voter]:
        return _voters(context, inputs)

    def exact(self, context: AnalysisContext) -> list[list[int]]:
        return [[int(vote == k) for vote in votes for k in range(1, CLASSES)] for votes in _votes(context)]


class _Parameters(SumAnalysis):
    def spec(self, context: AnalysisContext) -> VectorSpec:
        return VectorSpec(VectorFormat(ENTRIES, -LARGEST, LARGEST), bytes(32))

    def data(self, context: AnalysisContext, inputs: str) -> list[list[int]]:
        return self.exact(context)

    def exact(self, context: AnalysisContext) -> list[list[int]]:
        draw = np.random.default_rng([context.seed, 3])
        parameters: list[list[int]] = draw.integers(-LARGEST, LARGEST + 1, size=(PARTIES, ENTRIES)).tolist()
        return parameters


VOTES, PARAMETERS = _Votes("tally"), _Parameters("parameters", degree=2)


# -- the checks


def _replays_noise(context: AnalysisContext) -> CheckResult:
    """Reproduce the release from the counts and the curator's coins, with which the curator can subtract the noise."""
    counts, tape = LAYOUT.decode(VOTES.real(context)[0].opened.sums, PARTIES), RecordedRandomness(context.coins("draw"))
    method = statistic_method(counts, _auxiliary(context), ReleaseRequest(1.0, 0.0, "spherical-laplace", None))
    released, other = method.draw(tape), method.draw(context.coins("another release"))
    replayed = method.draw(ReplayedRandomness(tape.tape()))
    known = np.array_equal(released, replayed) and not np.array_equal(released, other)
    return CheckResult(known, "the curator's own coins replay the noise of the release")


def _messages_without_noise(context: AnalysisContext) -> CheckResult:
    """Check that no message depends on the curator's coins, of which the noise of the release is made."""
    voters, first = _voters(context, "honest"), VOTES.real(context)[0].transcript.messages
    replay = run_tally_round(context, VOTES.setting(context), _auxiliary(context), CLASSES, voters, "tally honest 0")
    alike = [m.data for m in replay.transcript.messages] == [m.data for m in first]
    outcome = f"all {len(first)} messages follow from the parties' inputs and coins" if alike else "the messages differ"
    return CheckResult(not alike, f"replayed, {outcome}: the curator's, which make the noise, enter none")


def _checks() -> Checks:
    checks = Checks()
    add = checks.add
    for coalition in EXPECTED["tally"].coalitions:
        name, m, granted = coalition.name, TALLY_MEMBERS[coalition.name], coalition.granted
        hidden = tuple(s for s in ("data", "votes", "sizes", "alpha") if s not in granted)
        about = tuple(s for s in ("classifier", "sum of parameters") if s not in granted)
        if m.opens:
            reads, opens = "it opens the ballot of party 0 and reads its votes", "it opens party 0's parameters"
            add("opening", name, ("votes", "alpha"), partial(VOTES.reads_ballot, m, reads))
            both = ("classifier", "sum of parameters")
            add("opening parameters", name, both, partial(PARAMETERS.reads_ballot, m, f"{opens}, and so everybody's"))
        else:
            add("simulation", name, hidden, partial(VOTES.simulation, m), statistical=True)
            # Data enter the sum of parameters through the classifier alone.
            tested = about or ("data",)
            add("parameters simulated", name, tested, partial(PARAMETERS.simulation, m), statistical=True)
            add("fresh parameters", name, tested, partial(PARAMETERS.freshness, m))
        if "votes" in hidden:
            swapped = partial(VOTES.same_output, m, "honest", "swapped", "votes swapped")
            add("freshness", name, ("votes",), partial(VOTES.freshness, m))
            add("votes swapped", name, ("votes",), swapped, statistical=True)
            if m.holders:
                add("threshold", name, ("votes",), partial(VOTES.lowered_threshold, m))
        elif not m.opens:
            add("last party", name, ("votes",), VOTES.reads_last)
            add("last party's parameters", name, ("classifier",), PARAMETERS.reads_last)
        same = "other data, same votes"
        votes_only = tuple(s for s in ("data", "classifier", "sizes") if s not in granted)
        add(same, name, votes_only, partial(VOTES.same_output, m, "trained", "twin", same), statistical=True)
        if m.curator:
            add("sum read", name, ("sum of parameters",), PARAMETERS.reads_sum)
            add("alpha read", name, ("alpha",), VOTES.reads_sum)
            add("noise replayed", name, ("noise",), _replays_noise)
        else:
            add("messages replayed", name, ("noise",), _messages_without_noise)
    add("deviating requests", "curator and t - 1 holders", ("votes",), VOTES.deviating_requests)
    return checks


TALLY = case_of("tally", _checks())
