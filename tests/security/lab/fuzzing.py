"""Hostile bytes for every decoder, made of valid messages of small runs.

A decoder either raises a named error (`PsephosError`), or returns a record whose own encoding is exactly those bytes.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from psephos.audit import case_psgd
from psephos.audit.adversary import Tampering, tampering
from psephos.audit.case_pathak import PathakAnalysis, decoded, keys_of
from psephos.audit.model import AnalysisContext
from psephos.audit.settings import AuditSetting, FixedVoter, SumRun, make_setting, round_of, run_sum
from psephos.audit.studies import trial
from psephos.parties.holder import KeyHolder
from psephos.protocol.board.client import announced_key, join_message
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.board.sealing import SealingKey, seal
from psephos.protocol.ceremony.messages import failure, reason
from psephos.protocol.ceremony.terms import SMALLEST_CEREMONY, CeremonyTerms
from psephos.protocol.encrypted_sum.messages import (
    Ballot,
    Close,
    Confirmation,
    NoiseBallot,
    PartialDecryption,
    TallyRequest,
)
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, VoteLayout, vote_round
from psephos.protocol.errors import CheatingError, PsephosError, UnexpectedMessageError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.paillier.threshold import deal
from psephos.protocol.pathak.comparison import Answer
from psephos.protocol.pathak.dgk import DgkPublicKey, generate_dgk_key
from psephos.protocol.pathak.messages import KEYED_SIZE_BITS
from psephos.protocol.pathak.terms import PathakTerms
from psephos.protocol.proofs import codewords, knowledge, opening
from psephos.protocol.proofs.knowledge import KnowledgeProof
from psephos.protocol.proofs.opening import OpeningProof
from psephos.protocol.proofs.validity import Layout
from psephos.protocol.psgd.series import Announcement
from psephos.protocol.psgd.state import PublishedSum
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.roles import BOARD, Entry, Post, Role, Step
from psephos.protocol.storage.keyfiles import (
    read_signing_key,
    write_signing_key,
)
from psephos.protocol.study.stages import decode_key, encode_key
from psephos.protocol.study.study import Study
from psephos.protocol.transcript import SentMessage
from psephos.protocol.wire import HEADER_BYTES, Kind, Reader, frame, kind_of
from psephos.simulation.encrypted_sum import PartyFactory
from psephos.simulation.key_setup import run_ceremony
from psephos.specs.exact import TallySpec


@dataclass(frozen=True)
class Decoder:
    """One target: `run` decodes and, where something was accepted, returns its encoding (None: nothing to compare)."""

    name: str
    samples: tuple[bytes, ...]
    run: Callable[[bytes], bytes | None]


def run_tally_round(
    context: AnalysisContext,
    setting: AuditSetting,
    auxiliary: np.ndarray,
    classes: int,
    voters: Sequence[Any],
    label: str,
) -> SumRun:
    """Run one round of the encrypted tally; `auxiliary`: float64 (N, d)."""
    spec = TallySpec(AuxiliarySet(auxiliary), classes)
    round_ = round_of(setting, spec, context.coins(label, "round"))
    return run_sum(context, setting, round_, PartyFactory(spec, voters), label)


class AcceptedError(Exception):
    """A decoder accepted bytes that are not what it would send."""


@cache
def decoders() -> dict[str, Decoder]:
    """Every decoder of the library, with valid messages to start from."""
    targets = [*_sums(), *_proofs(), *_series(), *_pathak(), *_ceremony(), *_study(), *_files()]
    return {decoder.name: decoder for decoder in targets}


def _sums() -> list[Decoder]:
    context = AnalysisContext(seed=4711, views=1)
    setting = make_setting(context.coins("fuzz"), degree=3)
    auxiliary = np.random.default_rng(0).normal(size=(25, 2))
    voters = [FixedVoter(np.arange(25) % 3) for _ in range(5)]
    run = run_tally_round(context, setting, auxiliary, 3, voters, "fuzz")
    round_ = run.round
    other = vote_round(
        setting.ceremony.threshold_key,
        setting.ceremony.roster,
        auxiliary[:3],
        3,
        test_key=True,
        proofs="none",
        randomness=context.coins("o"),
    )
    assert other.digest != round_.digest
    by_kind: dict[str, list[bytes]] = {}
    for message in run.transcript.messages:
        assert message.data is not None
        by_kind.setdefault(message.kind, []).append(message.data)
    product, _ = BallotProduct(round_).add_all(by_kind["ballot"])

    confirmed = tuple(Confirmation(round_.digest, holder, product.digest).encode() for holder in (1, 2, 3))

    key, holders = setting.ceremony.threshold_key, len(setting.ceremony.shares)
    plan = PackingPlan.for_key(key.key, length=20, addends=5 + holders, minimum=-50, maximum=50)
    noisy = replace(round_, kind="statistic", plan=plan, holder_noise=True, confirmations=holders)
    noise = [
        KeyHolder(share, noisy, randomness=context.coins(f"noise {share.holder}"), noise=lambda: [7, -50] * 10)
        for share in setting.ceremony.shares
    ]

    noises = tuple(holder.start().posts[0].data for holder in noise)
    product_ = (product.encode(),)
    opened, asked = tuple(by_kind["partial decryption"]), tuple(by_kind["tally request"])
    return [
        Decoder("noise ballot", noises, lambda d: NoiseBallot.decode(d, noisy).encode(noisy)),
        Decoder("ballot", tuple(by_kind["ballot"]), lambda d: Ballot.decode(d, round_).encode()),
        Decoder("close", tuple(by_kind["close"]), lambda d: Close.decode(d, round_).encode()),
        Decoder("confirmation", confirmed, lambda d: Confirmation.decode(d, round_).encode()),
        Decoder("tally request", asked, lambda d: TallyRequest.decode(d, round_).encode(round_)),
        Decoder("partial decryption", opened, lambda d: PartialDecryption.decode(d, round_).encode(round_)),
        Decoder("partial product", product_, lambda d: BallotProduct.decode(d, round_).encode()),
    ]


def _proofs() -> list[Decoder]:
    """Proofs are decoded *and* checked, against one statement each under a key of 128 bits: no other bytes may hold."""
    coins = SimulationRandomness(4714)
    threshold_key, shares = deal(
        generate_private_key(128, test_key=True, randomness=coins), holders=3, threshold=2, randomness=coins
    )
    key, here = threshold_key.key, b"here"
    votes = VoteLayout(4, 3)
    plan = votes.plan(key, 3)
    layout = Layout.of(key, plan, 2)
    entries = votes.encode(np.array([0, 1, 2, 1])).astype(np.int64)
    ciphertexts, witness = Encryptor(key, randomness=coins, expected=1).encrypt_with_witness(plan.pack(entries))
    values = shares[0].partially_decrypt(ciphertexts)

    def known(data: bytes) -> bytes:
        proof = KnowledgeProof.decode(data, key)
        knowledge.verify(here, key, ciphertexts, proof)
        return proof.encode(key)

    def opened(data: bytes) -> bytes:
        proof = OpeningProof.decode(data, threshold_key)
        opening.verify(here, threshold_key, 1, ciphertexts, values, proof)
        return proof.encode(threshold_key)

    def valid(data: bytes) -> bytes:
        codewords.verify(here, layout, ciphertexts, data)
        return data

    def decoder(name: str, check: Callable[[bytes], bytes], make: Callable[[], bytes]) -> Decoder:
        samples = (make(), make(), make())

        def run(data: bytes) -> bytes:
            again = check(data)
            if data not in samples:
                raise AcceptedError(f"{name}: bytes that nobody proved hold")
            return again

        return Decoder(name, samples, run)

    return [
        decoder(
            "proof of knowledge",
            known,
            lambda: knowledge.prove(here, key, ciphertexts, witness, "half", randomness=coins).encode(key),
        ),
        decoder(
            "proof of an opening",
            opened,
            lambda: opening.prove(
                here, threshold_key, ciphertexts, values, shares[0].exponent, randomness=coins
            ).encode(threshold_key),
        ),
        decoder(
            "proof of validity",
            valid,
            lambda: codewords.prove(here, layout, entries, ciphertexts, witness, randomness=coins),
        ),
    ]


def _study() -> list[Decoder]:
    """What a board carries around every protocol."""
    coins = SimulationRandomness(4713)
    made = trial(coins=coins, degree=2)
    study, seat = made.study, made.board_client("party 0", coins)
    private = generate_private_key(study.key_bits, degree=study.degree, test_key=True, randomness=coins)
    key, _ = deal(private, holders=3, threshold=2, randomness=coins)
    entries = tuple(seat.sign(Post(BOARD, bytes(length), "fuzz")) for length in (0, 1, 300))
    sealing = SealingKey.generate(coins)
    sealed = tuple(seal(bytes(length), sealing.public, b"here") for length in (1, 40))

    def joining(data: bytes) -> bytes:
        return join_message(study.digest, announced_key(data, study.members))

    def result(data: bytes) -> bytes:
        return frame(Kind.RESULT, study.digest, Reader(data, Kind.RESULT, study.digest).rest())

    def opened(data: bytes) -> None:
        if sealing.open(data, b"here").strip(b"\0"):
            raise AcceptedError("something else was opened than was sealed")

    def toml(data: bytes) -> None:
        study = Study.parse(data.decode("utf-8", "replace"))
        if Study.parse(study.text()) != study:
            raise AcceptedError("a study that is another one when it is written again")

    return [
        Decoder("signed entry", entries, lambda data: SignedEntry.decode(data).encode()),
        Decoder("joined", (join_message(study.digest, sealing.public),), joining),
        Decoder("public key", (encode_key(study, key),), lambda data: encode_key(study, decode_key(study, data))),
        Decoder(
            Kind.FAILED_CEREMONY.title,
            tuple(failure(study.ceremony(), why) for why in ("holder 3 lied", "x" * 400)),
            lambda data: failure(study.ceremony(), reason(study.ceremony(), data)),
        ),
        Decoder("result", (frame(Kind.RESULT, study.digest, b"result"),), result),
        Decoder("sealed message", sealed, opened),
        Decoder("study", (study.text().encode(),), toml),
    ]


def _series() -> list[Decoder]:
    context = AnalysisContext(seed=4712, views=1)
    terms = case_psgd.terms_of(context, case_psgd.agreement_of(context, "fuzz"))
    samples = tuple(
        Announcement.create(terms, step, (0.5, -1e300), SimulationRandomness(step)).encode() for step in (1, 2, 3)
    )
    sums = tuple(PublishedSum(step, holder, (-1, 2**9)).encode(terms) for step, holder in ((1, 1), (2, 3), (3, 2)))
    return [
        Decoder("announcement", samples, lambda data: Announcement.decode(data, terms).encode()),
        Decoder("published sum", sums, lambda data: PublishedSum.decode(data, terms).encode(terms)),
    ]


def _pathak() -> list[Decoder]:
    context = AnalysisContext(seed=4713, views=1)
    runs, keys = PathakAnalysis("repaired").real(context), keys_of(context)
    terms, dgk = runs[0].terms, keys.comparison.public_key
    of_kind: dict[str, list[SentMessage]] = {}
    for message in (message for run in runs for message in run.transcript.messages):
        of_kind.setdefault(message.kind, []).append(message)

    def decoder(kind: str, messages: list[SentMessage]) -> Decoder:
        def run(data: bytes) -> bytes | None:
            encoded: bytes = decoded(terms, keys, replace(messages[0], data=data)).encode(terms.digest)
            # Factors may come in either order; what is kept is the ordered pair.
            return None if kind_of(data) is Kind.GROUP_SECRET else encoded

        # Lists of opponents are read by who they are for.
        samples = [m.data for m in messages if m.data is not None and m.receiver == messages[0].receiver]
        return Decoder(kind, tuple(dict.fromkeys(samples)), run)

    size = Answer.encoded_length(dgk, KEYED_SIZE_BITS)
    bodies = [m.data[HEADER_BYTES + 1 :] for m in of_kind["answers"] if m.data is not None]
    answers = tuple(b[at : at + size] for b in bodies for at in range(0, len(b), size))
    small = generate_dgk_key(128, comparison_bits=2, test_key=True, randomness=SimulationRandomness(9))
    return [
        *(decoder(kind, messages) for kind, messages in of_kind.items()),
        Decoder("terms", tuple(one.terms.encode() for one in runs), lambda d: PathakTerms.decode(d).encode()),
        Decoder("comparison answer", answers, lambda d: Answer.decode(d, dgk, KEYED_SIZE_BITS).encode(dgk)),
        Decoder(
            "comparison key",
            (dgk.encode(), small.public_key.encode()),
            lambda d: DgkPublicKey.decode(d, test_key=True).encode(),
        ),
    ]


class _StateRecorder(Tampering):
    """An honest role, of which the state before the last message of each kind that changed something is kept."""

    def __init__(self, honest: Role, last_of_kind: dict[Kind, tuple[Role, Any, Entry]]) -> None:
        super().__init__(honest)
        self.last_of_kind = last_of_kind

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        posts: list[Post] = []
        for entry in entries:
            step = super().receive(state, [entry])
            if step.posts or step.refused or type(step.state.inner.state) is not type(state.inner.state):
                self.last_of_kind[entry.kind] = (self.honest, state.inner, entry)
            if step.refused:
                return replace(step, posts=(*posts, *step.posts))
            state, posts = step.state, [*posts, *step.posts]
        return Step(state, tuple(posts))


def _ceremony() -> list[Decoder]:
    """A ceremony's messages are read in the state that they are due in: holder 1 is given the last one of each kind."""
    terms = CeremonyTerms(SMALLEST_CEREMONY, 3, 2, bytes(32), test_key=True, degree=2)
    inputs: dict[Kind, tuple[Role, Any, Entry]] = {}

    def lie(kind: Kind, at: int, post: Post, seen: Sequence[Entry]) -> list[Post]:
        if kind_of(post.data) is not kind:
            return [post]
        data = bytearray(post.data)
        data[at] ^= 1
        return [replace(post, data=bytes(data))]

    of_d = HEADER_BYTES + 5 + terms.bits // 8  # batch and stage, theta, and now v^(Delta d_3)
    lies = (partial(lie, Kind.SEED_CONTRIBUTIONS, -1), partial(lie, Kind.EXPONENT_COMMITMENTS, of_d))
    for liars in (*(tampering(one, "holder 3") for one in lies), {}):
        roles = {"holder 1": lambda honest: _StateRecorder(honest, inputs), **liars}
        with suppress(CheatingError):
            run_ceremony(terms, roles=roles, coins=lambda name: SimulationRandomness(2, name))

    def target(kind: Kind) -> Decoder:
        role, state, entry = inputs[kind]

        honest = set(terms.names) - {entry.sender, "holder 3"}

        def run(data: bytes) -> None:
            for refusal in role.receive(state, [replace(entry, data=data)]).refused:
                named = re.match(r"(holder \d(, )?)*", str(refusal.error))
                if (
                    named
                    and honest & set(named[0].split(", "))
                    and not isinstance(refusal.error, UnexpectedMessageError)
                ):
                    raise AcceptedError(f"an honest holder is named: {refusal.error}")
                raise refusal.error

        return Decoder(kind.title, (entry.data,), run)

    return [target(kind) for kind in inputs]


def _files() -> list[Decoder]:
    """Key files: read from a file of the owner's alone, as on disk."""
    memory = Path("/dev/shm")  # noqa: S108 - only because it is fast
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    setting = make_setting(SimulationRandomness(3, "files"), degree=2)
    writers: dict[str, tuple[Callable[[Path], None], Callable[[Path], Any]]] = {
        "signing key file": (lambda p: write_signing_key(p, setting.ceremony.signing_keys[0]), read_signing_key),
    }
    targets = []
    for name, (write, read) in writers.items():
        sample = folder / f"{name} sample"
        write(sample)
        place = folder / name
        place.touch(mode=0o600)

        def run(data: bytes, place: Path = place, read: Callable[[Path], Any] = read) -> None:
            place.write_bytes(data)
            read(place)

        targets.append(Decoder(name, (sample.read_bytes(),), run))
        sample.unlink()
    return targets


DECODERS = sorted(
    {kind.title for kind in Kind}
    | {"partial product", "proof of knowledge", "proof of an opening", "proof of validity", "signed entry"}
    | {"sealed message", "study", "terms", "comparison answer", "comparison key", "signing key file"}
)
"""The names of all targets: every message decoder and file reader."""

_EDGES = (
    *map(bytes.fromhex, ("00", "01", "7f", "80", "ff", 8 * "00", 8 * "ff")),
    b"null",
    b"-1",
    b"1e999",
    b"[]",
    b"{}",
)


def mutate(sample: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """A hostile neighbour of a valid message."""
    if chance.random() < 0.02:
        return chance.randbytes(chance.choice((0, 1, len(sample), chance.randrange(2 * len(sample) + 2))))
    data = bytearray(sample)
    for _ in range(1 + (chance.random() < 0.3) + (chance.random() < 0.1)):
        if not data:
            break
        at = chance.randrange(len(data))
        kind = chance.randrange(8)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[at] = chance.randrange(256)
        elif kind == 2:
            edge = chance.choice(_EDGES)
            data[at : at + len(edge)] = edge
        elif kind == 3:  # a field of all zeros or all ones: what is 0 or above every bound
            length = chance.choice((1, 2, 4, 8, 32, 64, 96))
            data[at : at + length] = chance.choice((b"\0", b"\xff")) * min(length, len(data) - at)
        elif kind == 4:
            del data[at : at + chance.choice((1, 2, 8, len(data)))]
        elif kind == 5:
            data[at:at] = chance.choice((chance.randbytes(chance.randrange(1, 9)), bytes(data[:at])))
        elif kind == 6:
            other = chance.choice(others)
            data[at:] = other[at:] if chance.random() < 0.7 else other[chance.randrange(len(other) + 1) :]
        else:
            swap = chance.randrange(len(data))
            data[at], data[swap] = data[swap], data[at]
    return bytes(data)


def attempt(decoder: Decoder, data: bytes) -> bool:
    """Whether the bytes were accepted; raises AcceptedError, or whatever unnamed error the decoder let through."""
    try:
        again = decoder.run(data)
    except PsephosError:
        return False
    if again is not None and again != data:
        raise AcceptedError(f"{decoder.name}: accepted {data.hex()[:200]}, which it would send as {again.hex()[:200]}")
    return True
