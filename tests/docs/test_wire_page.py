"""docs/wire.md: its vectors are what Psephos and the second verifier compute, and it names every message and digest.

`python -m tests.docs.test_wire_page` writes the vectors anew.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from gmpy2 import mpz

from psephos.protocol.board.entries import SignedEntry
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
from psephos.protocol.signing import VerificationKey
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


def _key(degree: int) -> ThresholdKey:
    key = PublicKey(N, form="psephos", degree=degree)
    return ThresholdKey(key, 3, 2, SETUP, NUMBERS[0], NUMBERS[1:])


def _second_key(degree: int) -> second.Key:
    return second.Key(mpz(N), degree, 3, 2, SETUP, mpz(1), NUMBERS[0], NUMBERS[1:])


@cache
def _stored() -> tuple[str, tuple[bytes, ...]]:
    stored = json.loads((STORED / "statistic.json").read_text(encoding="utf-8"))
    return stored["study"], tuple(bytes.fromhex(text) for text in stored["entries"])


def _study() -> Study:
    return Study.parse(_stored()[0])


def _second_study() -> second_board.Study:
    return second_board.Study(_stored()[0])


def _root() -> bytes:
    history = History()
    for data in _stored()[1]:
        history.append(leaf_hash(data))
    return history.head.root


def _second_root() -> bytes:
    log = second_board.Log()
    for data in _stored()[1]:
        log.append(hashlib.sha256(b"\0" + data).digest())
    return log.roots[-1]


def _round() -> Round:
    key = _key(1)
    plan = PackingPlan.for_key(key.key, length=24, addends=5, minimum=0, maximum=1)
    roster = [member.key for member in _study().parties]
    return Round("votes", key, plan, roster, 3, bytes(range(32)), SETUP, True, "knowledge", 2, 3)


def _second_round() -> SecondRound:
    study = _second_study()
    study.minimum, study.proofs = 3, "knowledge"
    return SecondRound(study, _second_key(1), "votes", 24, 0, 1, bytes(range(32)), SETUP, 2)


def _bounded_round() -> Round:
    key = _key(1)
    plan = bounded_plan(key.key, length=24, addends=8, minimum=-1000, maximum=1000)
    roster = [member.key for member in _study().parties]
    terms = (3, bytes(range(32)), SETUP, True, "valid", 1, 3, 24_000_000, True, 1_000_000)
    return Round("statistic", key, plan, roster, *terms)  # type: ignore[arg-type]


def _second_bounded_round() -> SecondRound:
    study, noise = _second_study(), Noise(1000, 1_000_000)
    study.minimum, study.proofs = 3, "valid"
    return SecondRound(
        study, _second_key(1), "statistic", 24, -1000, 1000, bytes(range(32)), SETUP, squares=24_000_000, noise=noise
    )


def _second_base() -> bytes:
    terms = ceremony.terms_of(_second_study())
    return _big(terms.hashed(mpz(N), "verification base", mpz(N) ** 2)[0] ** 2 % N**2, 38)


@cache
def _encrypted() -> tuple[tuple[mpz, ...], bytes]:
    key = PublicKey(N, form="psephos")
    coins = SimulationRandomness(1, "wire vectors")
    encryptor = Encryptor(key, mode="half", randomness=coins)
    ciphertexts, witness = encryptor.encrypt_with_witness([mpz(7), mpz(0)])
    return ciphertexts, knowledge.prove(STATEMENT, key, ciphertexts, witness, "half", randomness=coins).encode(key)


@cache
def _opened() -> tuple[ThresholdKey, tuple[mpz, ...], tuple[mpz, ...], bytes]:
    key = _key(1)
    exponent = 2 * key.delta * 12345
    value = mpz(pow(int(key.verification_base), exponent, N**2))
    key = ThresholdKey(key.key, 3, 2, SETUP, key.verification_base, (value, *key.verification_values[1:]))
    share, ciphertexts = KeyShare(key, 1, 12345), _encrypted()[0]
    values = share.partially_decrypt(ciphertexts)
    coins = SimulationRandomness(2, "wire vectors")
    proof = opening.prove(STATEMENT, key, ciphertexts, values, share.exponent, randomness=coins)
    return key, ciphertexts, values, proof.encode(key)


def _split_number() -> bytes:
    coins = SimulationRandomness(0, "splits of a release")
    return _big(mpz([coins.bits(53) for _ in range(600)][-1]), 7)


def _le(numbers: tuple[mpz, ...]) -> bytes:
    return b"".join(int(x).to_bytes(38, "little") for x in numbers)


def _big(x: mpz, size: int) -> bytes:
    return int(x).to_bytes(size, "big")


PARTS = (b"a", b"bc")
VECTORS: dict[str, tuple[Callable[[], bytes], Callable[[], bytes] | None]] = {
    '`digest("x"; "a", "bc")`': (lambda: challenge.digest("x", PARTS), lambda: second.digest("x", PARTS)),
    '`stream("x"; "a", "bc"; 20)`': (
        lambda: challenge.stream("x", PARTS, 20),
        lambda: second.stream("x", PARTS, 20),
    ),
    '`challenges("x"; "a", "bc"; 1)`, big-endian': (
        lambda: _big(challenge.challenges("x", PARTS, 1)[0], 16),
        lambda: second.challenges("x", PARTS, 1)[0].to_bytes(16, "big"),
    ),
    "identifier of the key": (lambda: _key(1).key.identifier, lambda: _second_key(1).identifier),
    "identifier, degree 2": (lambda: _key(2).key.identifier, lambda: _second_key(2).identifier),
    "key digest": (lambda: _key(1).digest, lambda: _second_key(1).digest),
    "key digest, degree 2": (lambda: _key(2).digest, lambda: _second_key(2).digest),
    "h, big-endian": (
        lambda: _big(fixed_base(_key(1).key), 38),
        lambda: _big(_second_key(1).residue_base, 38),
    ),
    "plan of (24, 5, 0, 1, 150)": (lambda: _round().plan.digest, lambda: _second_round().plan),
    "round": (lambda: _round().digest, lambda: _second_round().digest),
    "plan of the round with bounds": (lambda: _bounded_round().plan.digest, lambda: _second_bounded_round().plan),
    "round with bounds": (lambda: _bounded_round().digest, lambda: _second_bounded_round().digest),
    "study": (lambda: _study().digest, lambda: _second_study().digest),
    "ceremony": (lambda: _study().ceremony().digest, lambda: _second_study().ceremony),
    "v of a ceremony, big-endian": (
        lambda: _big(verification_base(_study().ceremony(), mpz(N)), 38),
        _second_base,
    ),
    "16 bytes of the stream `top of a` of the seed 00 01 .. 1f": (
        lambda: stream(bytes(range(32)), "top of a", 16),
        lambda: ceremony.stream(bytes(range(32)), "top of a", 16),
    ),
    "nonce for `round`, with the vectors' key": (
        lambda: _study().nonce_for(_key(1)),
        lambda: _second_study().nonce(_second_key(1).digest, "round"),
    ),
    "root of the whole log": (_root, _second_root),
    "`H` of the four tables of records (8.4), f64": (
        lambda: hashlib.sha256(b"".join(table.astype("<f8").tobytes() for table in record.TABLES)).digest(),
        lambda: hashlib.sha256(records.tables().astype("<f8").tobytes()).digest(),
    ),
    "the 600th number of the four g (9), shifted, big-endian": (
        _split_number,
        lambda: multiclass.numbers(600)[-1].to_bytes(7, "big"),
    ),
    "the ciphertexts of 7 and 0, `le`": (lambda: _le(_encrypted()[0]), None),
    "a proof of knowledge of these": (lambda: _encrypted()[1], None),
    "their partial decryptions with exponent 2 · 3! · 12345, `le`": (lambda: _le(_opened()[2]), None),
    "a proof of these": (lambda: _opened()[3], None),
}
"""What, and how Psephos and the second verifier compute it."""


def vectors() -> dict[str, str]:
    values = {name.replace("`", ""): of_psephos().hex() for name, (of_psephos, _) in VECTORS.items()}
    return values | {"the first entry of the log, in which the curator joins": _stored()[1][0].hex()}


def test_the_stored_vectors_are_what_the_code_computes() -> None:
    assert json.loads(FILE.read_text(encoding="utf-8")) == vectors()


@pytest.mark.parametrize("name", [name for name, (_, other) in VECTORS.items() if other is not None])
def test_the_second_verifier_computes_the_same(name: str) -> None:
    of_psephos, of_verifier = VECTORS[name]
    assert of_verifier is not None
    assert of_verifier() == of_psephos()


def test_the_second_verifier_accepts_the_proofs_of_the_page() -> None:
    ciphertexts, proof = _encrypted()
    assert second.check_knowledge(_second_key(1), STATEMENT, ciphertexts, proof) == ""
    assert second.check_knowledge(_second_key(1), b"another", ciphertexts, proof) != ""
    key, _, values, opened = _opened()
    other = second.Key(mpz(N), 1, 3, 2, SETUP, mpz(1), NUMBERS[0], key.verification_values)
    assert second.check_opening(other, 1, STATEMENT, ciphertexts, values, opened) == ""
    assert second.check_opening(other, 2, STATEMENT, ciphertexts, values, opened) != ""


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


def test_the_first_entry_of_the_log_is_read() -> None:
    assert SignedEntry.decode(_stored()[1][0]).author == "curator"
    VerificationKey(_second_study().keys["curator"])


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n", encoding="utf-8")
