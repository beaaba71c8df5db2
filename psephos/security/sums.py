"""What the analyses of all encrypted sums share: reading a coalition's view, and the checks every one of them runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.curator.tally import Tally, open_product
from psephos.parties.holder import KeyHolder
from psephos.protocol.encrypted_sum.messages import Ballot, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import PsephosError
from psephos.protocol.paillier.ciphertexts import add_ciphertexts, encode_ciphertexts
from psephos.protocol.paillier.sharing import deal_integer
from psephos.protocol.paillier.threshold import deal
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.roles import BOARD, Entry
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import OnceLedger
from psephos.protocol.transcript import Message
from psephos.security.compare import Comparison, two_sample
from psephos.security.model import Context, Result
from psephos.security.views import Sealed, jacobi, openable, stale, structure
from psephos.security.worlds import Setup, SumRun, setup

__all__ = [
    "Members",
    "compare_views",
    "dealt_shares",
    "deviations",
    "fresh",
    "lowered_threshold",
    "opened_ballot",
    "rows_of",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Members:
    """A coalition in an encrypted sum. `opens`: it can decrypt single ballots (dealer, t holders)."""

    curator: bool = False
    parties: tuple[int, ...] = ()
    holders: tuple[int, ...] = ()
    opens: bool = False


def _mine(message: Message, members: Members) -> bool:
    """Whether the coalition receives it."""
    if message.receiver == "board" or (message.receiver == "curator" and members.curator):
        return True
    return message.receiver in {f"holder {h}" for h in members.holders}


Extra = Callable[[SumRun], dict[str, float]]
"""What else a coalition knows of a run: the opened sums, with and without its own vectors."""


def rows_of(world: Setup, run: SumRun, members: Members, extra: Extra | None = None) -> tuple[list[float], list[str]]:
    """The opened view of one run as numbers, with their names.

    Of each honest ballot's ciphertexts: their place in (0, n^2), the residue's place in (0, n) and its Jacobi symbol,
    or, where the coalition opens ballots, the plaintext; quotients of neighbours; of each honest partial decryption
    its place and Jacobi symbol; the signature's first byte.
    """
    key = run.round.key
    row: list[float] = []
    names: list[str] = []

    def note(name: str, value: float) -> None:
        names.append(name)
        row.append(value)

    last: mpz | None = None
    for message in run.transcript.messages:
        if not _mine(message, members) or message.data is None:
            continue
        if message.kind == "ballot":
            ballot = Ballot.decode(message.data, run.round)
            if ballot.party in members.parties:
                continue
            note(f"party {ballot.party}: signature", ballot.signature[0])
            for place, c in enumerate(ballot.ciphertexts):
                where = f"party {ballot.party}, ciphertext {place}"
                note(where, float(c / key.modulus_squared))
                note(f"{where}: residue", float(c % key.modulus / key.modulus))
                note(f"{where}: Jacobi symbol", jacobi(key, c))
                if members.opens:
                    plain = mpz(world.private_key.raw_decrypt(c))
                    note(f"{where}: plaintext", float(plain / key.modulus))
                if last is not None:
                    quotient = c * pow(last, -1, key.modulus_squared) % key.modulus_squared
                    note(f"{where} over the one before", float(quotient / key.modulus_squared))
                last = c
        elif message.kind == "partial decryption":
            part = PartialDecryption.decode(message.data, run.round)
            if part.holder not in members.holders:
                for place, c in enumerate(part.values):
                    note(f"holder {part.holder}, value {place}", float(c / key.modulus_squared))
                    note(f"holder {part.holder}, value {place}: Jacobi symbol", jacobi(key, c))
    for name, value in ({} if extra is None else extra(run)).items():
        note(name, value)
    return row, names


def compare_views(
    context: Context,
    world: Setup,
    left: Sequence[SumRun],
    right: Sequence[SumRun],
    members: Members,
    what: str,
    extra: Extra | None = None,
) -> Result:
    """Structure exactly, everything else by a two-sample test; the opened sums exactly, or as numbers by `extra`."""
    visible = [structure(m for m in run.transcript.messages if _mine(m, members)) for run in (*left, *right)]
    if len(set(visible)) != 1:
        return Result(True, f"{what}: the messages differ in number, order, kind or length")
    if members.curator:
        if extra is None and len({tuple(run.opened.sums) for run in (*left, *right)}) != 1:
            return Result(True, f"{what}: the opened sums differ")
        for run in (*left, *right):
            if not _opens_to(run):
                return Result(True, f"{what}: the partial decryptions do not open to the ideal output")
    rows = [[rows_of(world, run, members, extra)[0] for run in side] for side in (left, right)]
    names = rows_of(world, left[0], members, extra)[1]
    found = two_sample(np.array(rows[0]), np.array(rows[1]), rate=context.rate, names=names, seed=context.seed)
    return comparison_result(found, what, len(left), len(names))


def comparison_result(found: Comparison, what: str, views: int, features: int) -> Result:
    """A comparison in words."""
    told = f"{what}: {views} + {views} views, {features} features"
    told += f", p = {found.p_value:.2g}, classifier {found.accuracy:.2f}"
    if found.differ:
        told += f" (they differ, most in {found.column})"
    return Result(found.differ, told, found.p_value)


def _opens_to(run: SumRun) -> bool:
    """Whether the recorded ballots and partial decryptions open to what the curator says it opened."""
    size = len(run.round.roster)
    ballots = [m.data for m in run.transcript.messages if m.kind == "ballot" and m.data is not None]
    product, _ = BallotProduct(run.round).add_all(ballots[-size:])  # of the last step, where there are several
    parts = [
        PartialDecryption.decode(m.data, run.round)
        for m in run.transcript.messages
        if m.kind == "partial decryption" and m.data is not None
    ]
    return open_product(product, parts[-run.round.threshold_key.threshold :]).sums == tuple(run.opened.sums)


def fresh(runs: Sequence[SumRun], members: Members) -> Result:
    """That every ciphertext of honest parties carries randomness of its own, in each run and across runs."""
    sealed: list[Sealed] = []
    seen: dict[mpz, str] = {}
    checked = 0
    for number, run in enumerate(runs):
        sealed.clear()
        own: list[Sealed] = []
        for message in run.transcript.messages:
            if message.kind != "ballot" or message.data is None:
                continue
            ballot = Ballot.decode(message.data, run.round)
            for place, c in enumerate(ballot.ciphertexts):
                item = Sealed(f"party {ballot.party}, ciphertext {place}", c)
                if ballot.party in members.parties:
                    own.append(item)
                    continue
                sealed.append(item)
                residue = c % run.round.key.modulus
                if residue in seen:
                    return Result(True, f"the randomness of {item.where} is that of {seen[residue]} in another run")
                seen[residue] = item.where
        if number < 5:
            relation = stale(run.round.key, sealed, own)
            if relation:
                return Result(True, relation)
        checked += len(sealed)
    return Result(False, f"{checked} ciphertexts: no two with the same or with related randomness")


def lowered_threshold(world: Setup, runs: Sequence[SumRun], members: Members) -> Result:
    """Whether the coalition's shares open a single honest ballot, for any threshold they might suffice for."""
    tried = 0
    run = runs[0]
    key = run.round.threshold_key
    shares = [world.ceremony.shares[h - 1] for h in members.holders]
    for message in run.transcript.messages:
        if message.kind != "ballot" or message.data is None or not shares:
            continue
        ballot = Ballot.decode(message.data, run.round)
        if ballot.party in members.parties:
            continue
        for c in ballot.ciphertexts:
            tried += 1
            parts = {share.holder: share.partially_decrypt([c])[0] for share in shares}
            if openable(key, parts) is not None:
                return Result(True, f"{len(shares)} of {key.threshold} shares open the ballot of party {ballot.party}")
    return Result(False, f"{len(shares)} shares open none of {tried} ciphertexts, whatever threshold is assumed")


def dealt_shares(context: Context) -> Result:
    """Shares of a real exponent against shares of 0: three of five, all five looked at, one and two at a time."""
    worlds = context.once("share keys", lambda: [setup(context.coins("share key", i), key_bits=64) for i in range(4)])
    real: list[list[float]] = []
    simulated: list[list[float]] = []
    names: list[str] = []
    for i in range(context.views):
        key = worlds[i % 4].private_key
        public = key.public_key
        coins = context.coins("deal", i)
        _, dealt = deal(key, holders=5, threshold=3, randomness=coins)
        fake = deal_integer(0, public.nsquare, holders=5, threshold=3, randomness=context.coins("deal 0", i))
        width = float(mpz(120 * 120 * public.nsquare) << 128)
        for rows, shares in ((real, [s.share() for s in dealt]), (simulated, fake)):
            row: list[float] = []
            names = []
            for j, f in enumerate(shares, start=1):
                for modulus in (2, 3, 4, 5, 7):
                    names.append(f"share {j} modulo {modulus}")
                    row.append(f % modulus)
                names.append(f"share {j}: size")
                row.append(f / width / j**2)
            # What two shares say about f(0) if f were of degree 1.
            names.append("shares 1 and 2 extrapolated to 0")
            row.append((2 * shares[0] - shares[1]) / width)
            rows.append(row)
    found = two_sample(np.array(real), np.array(simulated), rate=context.rate, names=names, seed=context.seed)
    return comparison_result(found, "shares of s against shares of 0", context.views, len(names))


def opened_ballot(world: Setup, run: SumRun, members: Members) -> list[int] | None:
    """What a coalition with t shares, or the dealer, reads in the first ballot of a run; None when it opens nothing."""
    message = run.transcript.messages[0]
    assert message.data is not None
    ballot = Ballot.decode(message.data, run.round)
    if members.holders:
        shares = [world.ceremony.shares[h - 1] for h in members.holders]
        parts = [{s.holder: s.partially_decrypt([c])[0] for s in shares} for c in ballot.ciphertexts]
        plain = [openable(run.round.threshold_key, part) for part in parts]
    else:
        plain = [world.private_key.raw_decrypt(c) for c in ballot.ciphertexts]
    found = [m for m in plain if m is not None]
    return run.round.plan.unpack(found, 1) if len(found) == len(plain) else None


# -- what a curator may ask for and must not get


def deviations(context: Context, world: Setup, honest: Callable[[str], tuple[Round, list[Ballot]]]) -> Result:
    """Everything but the agreed opening is refused: each request that would isolate votes, tried on the real roles.

    `honest(label)` makes a fresh round and every party's ballot in it.
    """
    refused: list[str] = []
    for name, attempt in _ATTEMPTS.items():
        round_, ballots = honest(f"deviation {name}")
        try:
            got = attempt(context, world, round_, ballots)
        except PsephosError as error:
            refused.append(type(error).__name__)
            continue
        if got:
            return Result(True, f"{name}: not refused")
        refused.append("ignored")
    return Result(False, f"{len(refused)} deviating requests, all refused ({', '.join(sorted(set(refused)))})")


class _Holder:
    """Holder 1, shown these ballots and talked to directly; raises what it refuses."""

    def __init__(
        self, world: Setup, round_: Round, ballots: Sequence[Ballot] = (), openings: OnceLedger | None = None
    ) -> None:
        self._role = KeyHolder(world.ceremony.shares[0], round_, openings=openings)
        self._state = self._role.start().state
        self.show(*ballots)

    def _say(self, receiver: str, *messages: bytes) -> bool:
        step = self._role.receive(self._state, [Entry(0, "curator", receiver, data) for data in messages])
        for refusal in step.refused:
            raise refusal.error
        self._state = step.state
        return bool(step.posts)

    def show(self, *ballots: Ballot) -> None:
        self._say(BOARD, *(ballot.encode() for ballot in ballots))

    def ask(self, request: TallyRequest) -> bool:
        return self._say(self._role.name, request.encode(self._role.round))


def _request(round_: Round, ballots: Sequence[Ballot]) -> TallyRequest:
    """A deviating curator's, which ignores the minimum."""
    product, rejections = BallotProduct(round_).add_all(ballot.encode() for ballot in ballots)
    for rejection in rejections:
        raise rejection.error
    return TallyRequest(round_.digest, product.members, product.digest)


def _single(context: Context, world: Setup, round_: Round, ballots: list[Ballot]) -> bool:
    return _Holder(world, round_, ballots).ask(_request(round_, ballots[:1]))


def _left_out(context: Context, world: Setup, round_: Round, ballots: list[Ballot]) -> bool:
    return _Holder(world, round_, ballots).ask(_request(round_, ballots[:-1]))


def _other_product(context: Context, world: Setup, round_: Round, ballots: list[Ballot]) -> bool:
    """All parties named, but the product is one party's ballot."""
    everyone = sum(1 << b.party for b in ballots)
    return _Holder(world, round_, ballots).ask(replace(_request(round_, ballots[:1]), members=everyone))


def _unseen(context: Context, world: Setup, round_: Round, ballots: list[Ballot]) -> bool:
    return _Holder(world, round_, ballots[:-1]).ask(_request(round_, ballots))


def _too_few(context: Context, world: Setup, round_: Round, ballots: list[Ballot]) -> bool:
    few = ballots[: round_.minimum_ballots - 1]
    return _Holder(world, round_, few).ask(_request(round_, few))


def _too_few_counted(context: Context, world: Setup, round_: Round, ballots: list[Ballot]) -> bool:
    few, _ = BallotProduct(round_).add_all(b.encode() for b in ballots[: round_.minimum_ballots - 1])
    curator = Tally(round_, seen=few)
    return curator.quiet(curator.start().state) is not None


def _again(context: Context, world: Setup, round_: Round, ballots: list[Ballot]) -> bool:
    """A holder that has opened all ballots is restarted, shown another ballot of a party that lies, and asked again."""
    openings, last = OnceLedger(), ballots[-1]
    _Holder(world, round_, ballots, openings).ask(_request(round_, ballots))
    ciphertexts = tuple(c * (1 + round_.key.modulus) % round_.key.modulus_squared for c in last.ciphertexts)
    vector = EncryptedVector(round_.key, round_.plan, ciphertexts)
    second = [*ballots[:-1], Ballot.sign(round_, last.party, vector, world.ceremony.signing_keys[last.party])]
    return _Holder(world, round_, second, openings).ask(_request(round_, second))


def _other_round(context: Context, world: Setup, round_: Round, ballots: list[Ballot]) -> bool:
    return _Holder(world, round_, ballots).ask(replace(_request(round_, ballots), round_digest=bytes(32)))


def _signed_by_another(context: Context, world: Setup, round_: Round, ballots: list[Ballot]) -> bool:
    """The curator replaces a ballot by one of its own, signed with a key of its own."""
    forger = SigningKey.generate(context.coins("forger"))
    _Holder(world, round_, [replace(ballots[1], signature=forger.sign(b"anything"))])
    return True


def _changed_payload(context: Context, world: Setup, round_: Round, ballots: list[Ballot]) -> bool:
    """The curator multiplies the inverse of one ballot into another, whose signature it keeps."""
    key = round_.key
    inverse = tuple(pow(c, -1, key.modulus_squared) for c in ballots[0].ciphertexts)
    payload = encode_ciphertexts(key, add_ciphertexts(key, ballots[1].ciphertexts, inverse))
    _Holder(world, round_, [replace(ballots[1], payload=payload)])
    return True


def _same_party_twice(context: Context, world: Setup, round_: Round, ballots: list[Ballot]) -> bool:
    """One party's ballot weighs as much as the others' together and is read off the total."""
    _Holder(world, round_, ballots).show(ballots[0])
    return True


def _replayed(context: Context, world: Setup, round_: Round, ballots: list[Ballot]) -> bool:
    """A ballot of this round in a second one over the same auxiliary set, with one other party less."""
    second = replace(round_, nonce=context.coins("second nonce").draw(16))
    _Holder(world, second, [replace(ballots[0], round_digest=second.digest)])
    return True


_ATTEMPTS: dict[str, Callable[[Context, Setup, Round, list[Ballot]], bool]] = {
    "open one ballot": _single,
    "open all but one ballot": _left_out,
    "open another product than the ballots'": _other_product,
    "open a product with a ballot the holder has not seen": _unseen,
    "open fewer ballots than the minimum": _too_few,
    "close a tally of fewer ballots than the minimum": _too_few_counted,
    "open another product of a round that is opened": _again,
    "open for another round": _other_round,
    "count a ballot signed by nobody on the roster": _signed_by_another,
    "count a ballot changed after signing": _changed_payload,
    "count a party twice": _same_party_twice,
    "count a ballot of another round": _replayed,
}
