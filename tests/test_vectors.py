"""Test vectors: the same coins give the same messages, byte for byte, as long as the formats' versions are the same.

What somebody has signed, stored or proved can be read and verified as long as this holds, and another implementation
can be compared with ours. Each run is that of `psephos.audit`, with its seeded coins and test keys, from the first
message to the last; vectors.json has the SHA-256 of its messages of each kind. A format that changes gets another
version, and `python -m tests.test_vectors` writes the file again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psephos.audit import case_pathak, case_psgd
from psephos.audit.case_ceremony import TERMS
from psephos.audit.case_sums import PARAMETERS, SUMS
from psephos.audit.model import AnalysisContext
from psephos.audit.settings import FixedVoter, make_setting, run_sum
from psephos.audit.studies import trial
from psephos.curator.statistic import plan_statistic
from psephos.parties.ceremony import CEREMONY_KINDS
from psephos.parties.noise import DiscreteGaussianShares, PolyaShares
from psephos.protocol.board.client import BoardClient, join_message
from psephos.protocol.board.sealing import SECRET_BYTES, X25519_BYTES, SealingKey
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, vote_round
from psephos.protocol.grids.error_evaluation import ErrorGrid
from psephos.protocol.grids.evaluation import ScoreGrid, ShareGrid
from psephos.protocol.grids.fixed_point import parameters_context
from psephos.protocol.grids.local_step import LocalStepGrid
from psephos.protocol.grids.own_data import OwnDataGrid
from psephos.protocol.grids.record import NumericLabel, PartyBall, RecordGrid
from psephos.protocol.grids.statistic import StatisticGrid
from psephos.protocol.grids.vote_directions import VoteDirectionGrid
from psephos.protocol.privacy import mechanisms
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.roles import Post
from psephos.protocol.signing import SigningKey
from psephos.protocol.transcript import SentMessage, Transcript
from psephos.protocol.wire import Kind, frame
from psephos.simulation.encrypted_sum import PartyFactory
from psephos.simulation.key_setup import run_ceremony
from psephos.specs.base import Participants
from psephos.specs.exact import TallySpec
from psephos.specs.noisy import StatisticSpec
from psephos.specs.terms import PrivacyTerms
from psephos.study.identity import IdentityCard, fingerprint

_FILE = Path(__file__).with_name("vectors.json")


def of_messages(messages: Iterable[SentMessage]) -> dict[str, str]:
    """By kind; and of all of them in their order, who sent what to whom in which phase."""
    digests: dict[str, Any] = {}
    for message in messages:
        way = (message.phase, message.sender, message.receiver, message.kind)
        digests.setdefault("ways", hashlib.sha256()).update(repr(way).encode())
        if message.data is not None:
            digests.setdefault(message.kind, hashlib.sha256()).update(message.data)
    return {kind: digest.hexdigest()[:16] for kind, digest in digests.items()}


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def tally(proofs: Any) -> dict[str, str]:
    context = AnalysisContext(seed=1, views=1)
    setting = make_setting(context.coins("world"), key_bits=512)
    auxiliary = np.arange(12.0).reshape(6, 2) / 20
    ceremony, coins = setting.ceremony, context.coins("round")
    key, roster = ceremony.threshold_key, ceremony.roster
    round_ = vote_round(key, roster, auxiliary, 3, test_key=True, proofs=proofs, randomness=coins)
    voters = [FixedVoter(np.arange(number, number + 6) % 3) for number in range(5)]
    run = run_sum(context, setting, round_, PartyFactory(TallySpec(AuxiliarySet.of(auxiliary), 3), voters), "tally")
    return of_messages(run.transcript.messages)


def holder_noise() -> dict[str, str]:
    """A sum of directions of own rows, to which the key holders add the noise."""
    context = AnalysisContext(seed=1, views=1)
    setting = make_setting(context.coins("world"), key_bits=1024)
    plan = plan_statistic(np.eye(3), 2, 5, epsilon=1.0, mechanism="gaussian", delta=1e-6, source="own-data", joint=True)
    spec = StatisticSpec.private(plan, PrivacyTerms(epsilon=1.0, colluders=1, holders=3))
    nobody = Participants(setting.ceremony.roster, None, True, "valid", nonce=lambda key, about: bytes(16))
    rows = [(np.eye(3) * (number + 1) / 5, np.array([0, 1, number % 2])) for number in range(5)]
    round_ = spec.terms(setting.ceremony.threshold_key, nobody)
    run = run_sum(context, setting, round_, PartyFactory(spec, rows), "holder noise")
    return of_messages(run.transcript.messages)


def one(analysis: Any) -> dict[str, str]:
    run = analysis.real(AnalysisContext(seed=1, views=1))[0]
    return of_messages(message for done in (*getattr(run, "before", ()), run) for message in done.transcript.messages)


def ceremony() -> dict[str, str]:
    context, transcript = AnalysisContext(seed=1, views=1), Transcript(secrets=True)
    run_ceremony(TERMS, coins=lambda name: context.coins(name), transcript=transcript)
    return of_messages(transcript.messages)


def board() -> dict[str, str]:
    """Entries as they stand on a board; what is sealed, and the study they are signed for."""
    made = trial(coins=SimulationRandomness(1, "board"))
    sealing = SealingKey.generate(SimulationRandomness(1, "sealing"))
    seat = made.board_client("party 3", SimulationRandomness(1, "seat"))
    entries = [seat.sign(Post("board", join_message(made.study.digest, sealing.public), "join"))]
    entries.append(seat.sign(Post("board", frame(Kind.BALLOT, made.study.digest, b"ballot"), "cast")))
    texts = {"study": made.study.text().encode(), "session": made.study.digest, "keyed": made.study.ceremony().digest}
    texts |= {f"entry {place}": data for place, data in enumerate(entries)}
    return {name: _short(data) for name, data in texts.items()}


def digests() -> dict[str, str]:
    """Of public terms and identities that are compared, but of which no message of these runs is made.

    Those of rounds, keys, plans and terms are in the messages, as their session or in their proofs.
    """
    matrix, integers = np.arange(6.0).reshape(3, 2) / 8, np.arange(6).reshape(3, 2)
    scores = ScoreGrid(matrix[:, :1], [-0.5, 0.0, 0.5], 2)
    number = RecordGrid(matrix, 0.5, matrix[:, :1], 1, "l1", NumericLabel(-1.0, 2.0, 0.25))
    study, key = (
        trial(coins=SimulationRandomness(1, "board")).study,
        SigningKey.generate(SimulationRandomness(1, "card")),
    )
    known: dict[str, bytes] = {
        "votes": StatisticGrid(integers, np.array([[1, -1]])).digest,
        "directions of votes": VoteDirectionGrid(matrix, 2).digest,
        "own data": OwnDataGrid(matrix, 2).digest,
        "own data, L1": OwnDataGrid(matrix, 2, norm="l1").digest,
        "local step": LocalStepGrid(matrix, matrix[:, :1], 2, 0.5, 2.0, 0.25).digest,
        "records": RecordGrid(matrix, 0.5, matrix[:, :1], 2).digest,
        "records, three classes": RecordGrid(matrix, 0.5, matrix, 3).digest,
        "a number": number.digest,
        "a number, of a party": replace(number, ball=PartyBall(np.arange(number.length), 5)).digest,
        "scores": scores.digest,
        "errors": ErrorGrid(matrix[:, :1], NumericLabel(-1.0, 2.0, 0.25)).digest,
        "shares of right predictions": ShareGrid(scores).digest,
        "parameters": parameters_context(1.5),
        "nonce": study.nonce_for(None),
        "nonce of steps": study.nonce_for(None, "series"),
        "fingerprint": fingerprint(key.verification_key.raw).encode(),
        "card": IdentityCard("A hospital", key.verification_key).text(key).encode(),
    }
    return {name: _short(data) for name, data in known.items()}


def draws() -> dict[str, str]:
    """Of every law."""
    laws: dict[str, Callable[[SimulationRandomness], Any]] = {
        "spherical Laplace": mechanisms.SphericalLaplace(5, 0.7, 2.0**-20).sample,
        "rounded Gaussian": mechanisms.RoundedGaussian(5, 0.7, 2.0**-20).sample,
        "discrete Laplace": mechanisms.DiscreteLaplace(5, Fraction(19, 2)).sample,
        "discrete Gaussian": mechanisms.DiscreteGaussian(5, Fraction(1234567, 100)).sample,
        "Poisson, small": lambda coins: [mechanisms.poisson(Fraction(7, 3), coins) for _ in range(20)],
        "Poisson, large": lambda coins: [mechanisms.poisson(Fraction(10**9, 7), coins) for _ in range(20)],
        "Polya share": PolyaShares(4, 5, 3, Fraction(25, 2)).share,
        "discrete Gaussian share": DiscreteGaussianShares(4, 5, 3, Fraction(3000)).share,
    }
    return {
        name: _short(str([int(n) for n in draw(SimulationRandomness(1, name))]).encode()) for name, draw in laws.items()
    }


RUNS: dict[str, Callable[[], dict[str, str]]] = {
    "tally": lambda: tally("none"),
    "tally, knowledge": lambda: tally("knowledge"),
    "tally, valid": lambda: tally("valid"),
    "parameters": lambda: one(PARAMETERS),
    "statistic": lambda: one(SUMS["statistic"]),
    "statistic, Gaussian": lambda: one(SUMS["statistic-gaussian"]),
    "own data": lambda: one(SUMS["own-data"]),
    "whitened": lambda: one(SUMS["whitened"]),
    "noise of holders": holder_noise,
    "psgd": lambda: one(case_psgd.DescentAnalysis("paper")),
    "psgd, Gaussian": lambda: one(case_psgd.DescentAnalysis("gaussian")),
    **{f"pathak, {kind}": partial(one, case_pathak.PathakAnalysis(kind)) for kind in case_pathak.KINDS},
    "ceremony": ceremony,
    "board": board,
    "digests": digests,
    "draws": draws,
}


@pytest.mark.parametrize("name", RUNS)
def test_the_same_randomness_gives_the_same_bytes(name: str) -> None:
    assert RUNS[name]() == json.loads(_FILE.read_text())[name]


SEALED = {"sealed": SECRET_BYTES, "sealed by earlier versions": X25519_BYTES}
"""Lengths of the receiver's secret key, in studies of format 2, which allows both."""


@pytest.mark.parametrize("name", SEALED)
def test_a_message_that_was_sealed_is_opened(name: str) -> None:
    """Nobody can seal it again: the sender's key for one message comes from the operating system."""
    recorded = json.loads(_FILE.read_text())[name]
    made = trial(format=2, coins=SimulationRandomness(1, "board"))
    sealing = SealingKey(SimulationRandomness(1, "sealing").draw(SEALED[name]))
    curator = BoardClient(made.study.members, "curator", made.keys["curator"], sealing)
    curator.check(1, bytes.fromhex(recorded["join"]))
    message = curator.check(2, bytes.fromhex(recorded["entry"])).entry
    assert message is not None
    assert message.data == frame(Kind.PARTIAL_DECRYPTION, made.study.digest, b"part")


def sealed(length: int) -> dict[str, str]:
    """The entry with which a curator joins, and one whose message is for the curator alone."""
    made = trial(format=2, coins=SimulationRandomness(1, "board"))
    sealing = SealingKey(SimulationRandomness(1, "sealing").draw(length))
    curator = BoardClient(made.study.members, "curator", made.keys["curator"], sealing)
    holder, part = made.board_client("holder 1"), frame(Kind.PARTIAL_DECRYPTION, made.study.digest, b"part")
    join = curator.sign(Post("board", join_message(made.study.digest, sealing.public), "join"))
    holder.check(1, join)
    return {"join": join.hex(), "entry": holder.sign(Post("curator", part, "open", secret=True)).hex()}


UNRECORDED = {
    "joined",
    "public key",
    "result",  # in studies, whose keys are signed for
    "opened seeds",
    "complaint",
    "failed ceremony",  # where a holder cheats
}
"""Kinds of messages that none of these runs sends."""


def test_every_kind_of_message_has_a_digest() -> None:
    """A run whose transcript keeps no bytes has digests of nothing."""
    recorded = {name: run for name, run in json.loads(_FILE.read_text()).items() if name not in SEALED}
    assert {kind.title for kind in Kind} - set().union(*recorded.values()) == UNRECORDED
    ceremony_kinds = {kind.title for kind in CEREMONY_KINDS} - UNRECORDED
    assert ceremony_kinds <= recorded["ceremony"].keys()
    assert min(len(digests) for name, digests in recorded.items()) > 3


if __name__ == "__main__":
    vectors = {name: run() for name, run in RUNS.items()} | {name: sealed(length) for name, length in SEALED.items()}
    _FILE.write_text(json.dumps(vectors, indent=1) + "\n")
