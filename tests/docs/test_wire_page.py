"""docs/wire.md: its vectors are what Psephos and the second verifier compute, and it names every message and digest.

`python -m tests.docs.test_wire_page` writes the vectors anew.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from pathlib import Path

from gmpy2 import mpz

from psephos.protocol.board.history import History, leaf_hash
from psephos.protocol.ceremony.exponent import verification_base
from psephos.protocol.ceremony.replicated import stream
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.grids import record
from psephos.protocol.paillier.encryption import Encryptor, fixed_base
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.threshold import KeyShare, ThresholdKey
from psephos.protocol.proofs import challenge, knowledge, opening
from psephos.protocol.proofs.bounded import bounded_plan
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.study.study import Study
from psephos.protocol.wire import Kind
from tests.verifier import board as second_board
from tests.verifier import ceremony, multiclass, records
from tests.verifier import paillier as second
from tests.verifier.board import KINDS
from tests.verifier.recording import STORED
from tests.verifier.sums import Noise
from tests.verifier.sums import Round as SecondRound

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "wire.md").read_text(encoding="utf-8")
FILE = Path(__file__).with_name("wire_vectors.json")

N = (2**61 - 1) * (2**89 - 1)
NUMBERS = tuple(mpz(x) for x in (4, 9, 16, 25))
"""v and the verification values of the vectors' key, of which no share exists."""
SETUP = bytes(range(16))
STATEMENT = b"statement"


def _stored() -> tuple[str, list[bytes]]:
    stored = json.loads((STORED / "statistic.json").read_text(encoding="utf-8"))
    return stored["study"], [bytes.fromhex(text) for text in stored["entries"]]


def _big(x: mpz, size: int = 38) -> bytes:
    return int(x).to_bytes(size, "big")


def _little(numbers: tuple[mpz, ...]) -> bytes:
    return b"".join(int(x).to_bytes(38, "little") for x in numbers)


def _second_key(degree: int, values: tuple[mpz, ...] = NUMBERS[1:]) -> second.Key:
    return second.Key(mpz(N), degree, 3, 2, SETUP, mpz(1), NUMBERS[0], values)


@cache
def _proved() -> tuple[ThresholdKey, tuple[mpz, ...], bytes, tuple[mpz, ...], bytes]:
    """A key, two ciphertexts, a proof of knowledge of them, their partial decryptions, and a proof of these."""
    plain = PublicKey(N, form="psephos")
    coins = SimulationRandomness(1, "wire vectors")
    ciphertexts, witness = Encryptor(plain, mode="half", randomness=coins).encrypt_with_witness([mpz(7), mpz(0)])
    known = knowledge.prove(STATEMENT, plain, ciphertexts, witness, "half", randomness=coins).encode(plain)
    value = mpz(pow(4, 2 * 6 * 12345, N**2))
    key = ThresholdKey(plain, 3, 2, SETUP, NUMBERS[0], (value, *NUMBERS[2:]))
    share, coins = KeyShare(key, 1, 12345), SimulationRandomness(2, "wire vectors")
    values = share.partially_decrypt(ciphertexts)
    proof = opening.prove(STATEMENT, key, ciphertexts, values, share.exponent, randomness=coins)
    return key, ciphertexts, known, values, proof.encode(key)


PARTS, CONTEXT = (b"a", b"bc"), bytes(range(32))


def of_psephos() -> dict[str, bytes]:
    """All vectors; the last five are of Psephos alone."""
    text, entries = _stored()
    study, history = Study.parse(text), History()
    for data in entries:
        history.append(leaf_hash(data))
    keys = [PublicKey(N, form="psephos", degree=degree) for degree in (1, 2)]
    key, other = (ThresholdKey(one, 3, 2, SETUP, NUMBERS[0], NUMBERS[1:]) for one in keys)
    roster = [member.key for member in study.parties]
    plan = PackingPlan.for_key(key.key, length=24, addends=5, minimum=0, maximum=1)
    round_ = Round("votes", key, plan, roster, 3, CONTEXT, SETUP, True, "knowledge", 2, 3)
    wide = bounded_plan(key.key, length=24, addends=8, minimum=-1000, maximum=1000)
    terms = (3, CONTEXT, SETUP, True, "valid", 1, 3, 24_000_000, True, 1_000_000)
    bounded = Round("statistic", key, wide, roster, *terms)  # type: ignore[arg-type]
    coins = SimulationRandomness(0, "splits of a release")
    splits = [mpz(coins.bits(53)) for _ in range(600)]
    _, ciphertexts, known, values, proof = _proved()
    return {
        'digest("x"; "a", "bc")': challenge.digest("x", PARTS),
        'stream("x"; "a", "bc"; 20)': challenge.stream("x", PARTS, 20),
        'challenges("x"; "a", "bc"; 1), big-endian': _big(challenge.challenges("x", PARTS, 1)[0], 16),
        "identifier of the key": key.key.identifier,
        "identifier, degree 2": other.key.identifier,
        "key digest": key.digest,
        "key digest, degree 2": other.digest,
        "h, big-endian": _big(fixed_base(key.key)),
        "plan of (24, 5, 0, 1, 150)": plan.digest,
        "round": round_.digest,
        "plan of the round with bounds": wide.digest,
        "round with bounds": bounded.digest,
        "study": study.digest,
        "ceremony": study.ceremony().digest,
        "v of a ceremony, big-endian": _big(verification_base(study.ceremony(), mpz(N))),
        "16 bytes of the stream top of a of the seed 00 01 .. 1f": stream(CONTEXT, "top of a", 16),
        "nonce for round, with the vectors' key": study.nonce_for(key),
        "root of the whole log": history.head.root,
        "H of the four tables of records (8.4), f64": hashlib.sha256(
            b"".join(table.astype("<f8").tobytes() for table in record.TABLES)
        ).digest(),
        "the 600th number of the four g (9), shifted, big-endian": _big(splits[-1], 7),
        "the ciphertexts of 7 and 0, le": _little(ciphertexts),
        "a proof of knowledge of these": known,
        "their partial decryptions with exponent 2 · 3! · 12345, le": _little(values),
        "a proof of these": proof,
        "the first entry of the log, in which the curator joins": entries[0],
    }


def of_verifier() -> list[bytes]:
    """The vectors that are not of Psephos alone, by the second verifier, in the same order."""
    text, entries = _stored()
    votes, bounds, key, other = second_board.Study(text), second_board.Study(text), _second_key(1), _second_key(2)
    digest, nonce, terms = votes.digest, votes.nonce(key.digest, "round"), ceremony.terms_of(votes)
    votes.minimum, votes.proofs = 3, "knowledge"
    bounds.minimum, bounds.proofs = 3, "valid"
    round_ = SecondRound(votes, key, "votes", 24, 0, 1, CONTEXT, SETUP, 2)
    noise = Noise(1000, 1_000_000)
    bounded = SecondRound(bounds, key, "statistic", 24, -1000, 1000, CONTEXT, SETUP, squares=24_000_000, noise=noise)
    log = second_board.Log()
    for data in entries:
        log.append(hashlib.sha256(b"\0" + data).digest())
    return [
        second.digest("x", PARTS),
        second.stream("x", PARTS, 20),
        second.challenges("x", PARTS, 1)[0].to_bytes(16, "big"),
        key.identifier,
        other.identifier,
        key.digest,
        other.digest,
        _big(key.residue_base),
        round_.plan,
        round_.digest,
        bounded.plan,
        bounded.digest,
        digest,
        votes.ceremony,
        _big(terms.hashed(mpz(N), "verification base", mpz(N) ** 2)[0] ** 2 % N**2),
        ceremony.stream(CONTEXT, "top of a", 16),
        nonce,
        log.roots[-1],
        hashlib.sha256(records.tables().astype("<f8").tobytes()).digest(),
        multiclass.numbers(600)[-1].to_bytes(7, "big"),
    ]


def vectors() -> dict[str, str]:
    return {name: value.hex() for name, value in of_psephos().items()}


def test_the_stored_vectors_are_what_the_code_computes() -> None:
    assert json.loads(FILE.read_text(encoding="utf-8")) == vectors()


def test_the_second_verifier_computes_the_same() -> None:
    computed = of_verifier()
    assert computed == list(of_psephos().values())[: len(computed)]


def test_the_second_verifier_accepts_the_proofs_of_the_page() -> None:
    key, ciphertexts, known, values, proof = _proved()
    assert second.check_knowledge(_second_key(1), STATEMENT, ciphertexts, known) == ""
    assert second.check_knowledge(_second_key(1), b"another", ciphertexts, known) != ""
    other = _second_key(1, key.verification_values)
    assert second.check_opening(other, 1, STATEMENT, ciphertexts, values, proof) == ""
    assert second.check_opening(other, 2, STATEMENT, ciphertexts, values, proof) != ""


def test_the_page_names_every_kind_of_message_of_a_study() -> None:
    table = PAGE.split("## 3. ")[1].split("## 4. ")[0]
    rows = dict(re.findall(r"(?:^\||;) (\d+) ([a-z ]+[a-z])", table, re.M))
    assert rows == {str(int(kind)): kind.title for kind in Kind if not 33 <= kind <= 46}
    assert {name: Kind[name.replace(" ", "_").upper()] for name in KINDS} == KINDS


def test_the_page_names_every_label_of_the_second_verifier() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "verifier").glob("*.py")]
    labels = {label for text in sources for label in re.findall(r'b?"(psephos [a-z, ]+[a-z])(?:: )?(?:\\0)?"', text)}
    assert len(labels) > 20
    assert sorted(label for label in labels if label not in PAGE) == []


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n", encoding="utf-8")
