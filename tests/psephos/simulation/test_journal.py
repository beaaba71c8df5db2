"""The journal by itself: what it refuses, what it survives, what it shows to others."""

from __future__ import annotations

import re
import stat
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import psephos
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import JournalError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.roles import BOARD
from psephos.protocol.storage.values import encode
from psephos.protocol.transcript import SentMessage
from psephos.simulation.journal import Journal, SumState
from psephos.simulation.key_setup import KeySetup, setup_keys

PARTIES, HOLDERS = 6, 2
IDENTITY = {"dataset": "digits", "seed": 3, "lam": 1e-4, "learners": ("tree", "knn")}


@pytest.fixture(scope="module")
def ceremony() -> KeySetup:
    return setup_keys(PARTIES, key_bits=128, holders=HOLDERS, threshold=2, test_key=True)


def round_of(ceremony: KeySetup, context: bytes = bytes(32)) -> Round:
    plan = PackingPlan.for_key(ceremony.threshold_key.key, length=4, addends=PARTIES, minimum=-5, maximum=5)
    return Round.create("parameters", ceremony.threshold_key, plan, ceremony.roster, context=context, test_key=True)


def counted(ceremony: KeySetup, round_: Round, parties: list[int]) -> BallotProduct:
    product = BallotProduct(round_)
    for party in parties:
        vector = EncryptedVector.encrypt(Encryptor(round_.key, "full"), round_.plan, [party, -1, 0, 1])
        product, _ = product.add_all([Ballot.sign(round_, party, vector, ceremony.signing_keys[party]).encode()])
    return product


def state_of(ceremony: KeySetup, round_: Round, parties: list[int]) -> SumState:
    products = [counted(ceremony, round_, parties) for _ in range(1 + HOLDERS)]
    return SumState(products, np.array([sum(parties), -len(parties), 0, 2**70], dtype=object), {"encrypt": 1.5}, 12.0)


def messages(parties: list[int]) -> list[SentMessage]:
    return [SentMessage("cast", f"party {p}", BOARD, "ballot", 100, f"{p:064x}") for p in parties]


@pytest.fixture
def written(tmp_path: Path, ceremony: KeySetup) -> Path:
    """A journal with parties 0 to 2 committed."""
    path = tmp_path / "journal"
    with Journal(path, IDENTITY) as journal:
        journal.key_setup(lambda: ceremony)
        stored = journal.sum_of(round_of(ceremony))
        stored.load(HOLDERS)
        stored.commit(state_of(ceremony, stored.round, [0, 1]), messages([0, 1]))
        stored.commit(state_of(ceremony, stored.round, [0, 1, 2]), messages([2]))
    return path


def test_committed_values_are_returned(written: Path, ceremony: KeySetup) -> None:
    with Journal(written, IDENTITY) as journal:
        same = journal.key_setup(lambda: pytest.fail("the ceremony was held again"))
        assert same.threshold_key == ceremony.threshold_key
        assert same.roster == ceremony.roster
        assert [share.share() for share in same.shares] == [share.share() for share in ceremony.shares]
        fresh = round_of(ceremony)
        stored = journal.sum_of(fresh)
        assert stored.round.digest != fresh.digest, "the journal's nonce must take the fresh one's place"
        state = stored.load(HOLDERS)
        assert state.parties == {0, 1, 2}
        assert [product.parties for product in state.products] == [(0, 1, 2)] * 3
        assert state.plaintext_sum.tolist() == [3, -3, 0, 2**70]
        assert (state.seconds, state.memory_mb) == ({"encrypt": 1.5}, 12.0)
        assert stored.messages() == messages([0, 1, 2])
        state = state_of(ceremony, stored.round, [0, 1, 2, 4])
        state.products[1] = state_of(ceremony, stored.round, [0, 1]).products[1]  # a holder that has counted fewer
        stored.commit(state, messages([4]))
        again = journal.sum_of(fresh)
        assert [product.parties for product in again.load(HOLDERS).products] == [(0, 1, 2, 4), (0, 1), (0, 1, 2, 4)]
        assert again.messages() == messages([0, 1, 2, 4])


def test_the_journal_is_readable_by_its_owner_only(written: Path) -> None:
    assert stat.S_IMODE(written.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in written.iterdir()} == {0o600}
    written.chmod(0o755)
    with pytest.raises(JournalError, match="chmod 700"):
        Journal(written, IDENTITY)


@pytest.mark.parametrize("change", [{"seed": 4}, {"lam": 1e-3}, {"learners": ("tree",)}, {"parties": 7}], ids=str)
def test_a_journal_of_another_run_is_refused_by_name(written: Path, change: dict) -> None:
    with pytest.raises(JournalError, match=f"another run.*{next(iter(change))}"):
        Journal(written, {**IDENTITY, **change})
    Journal(written, IDENTITY).close()


def test_two_concurrent_runs_are_refused(written: Path) -> None:
    with Journal(written, IDENTITY), pytest.raises(JournalError):
        Journal(written, IDENTITY)
    Journal(written, IDENTITY).close()


def test_a_journal_of_another_round_is_refused(written: Path, ceremony: KeySetup) -> None:
    with Journal(written, IDENTITY) as journal, pytest.raises(JournalError, match="another round"):
        journal.sum_of(round_of(ceremony, context=b"x" * 32))


def test_a_failed_commit_keeps_the_previous_state(written: Path, ceremony: KeySetup) -> None:
    with Journal(written, IDENTITY) as journal:
        stored = journal.sum_of(round_of(ceremony))
        state = state_of(ceremony, stored.round, [0, 1, 2, 3])
        state.seconds["encrypt"] = object()  # type: ignore[assignment]
        with pytest.raises(TypeError):
            stored.commit(state, messages([3]))
    with Journal(written, IDENTITY) as journal:
        stored = journal.sum_of(round_of(ceremony))
        assert stored.load(HOLDERS).parties == {0, 1, 2}
        assert stored.messages() == messages([0, 1, 2])


def test_a_damaged_journal_is_reported(written: Path) -> None:
    (file,) = (path for path in written.iterdir() if not path.name.endswith("-journal"))
    whole = file.read_bytes()
    place = whole.index(b"party 0")
    for damaged in (b"", whole[: len(whole) // 2], whole[:place] + b"b" + whole[place + 1 :]):
        file.write_bytes(damaged)
        with pytest.raises(JournalError, match="damaged") if damaged else nullcontext():
            Journal(written, IDENTITY).close()  # nothing at all is a journal that died while it was made


def test_a_folder_with_other_files_is_refused_and_unchanged(tmp_path: Path) -> None:
    folder = tmp_path / "thesis"
    folder.mkdir(mode=0o700)
    (folder / "chapter-1").touch()
    with pytest.raises(JournalError, match="no journal"):
        Journal(folder, IDENTITY)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(JournalError, match="file"):
        Journal(file, IDENTITY)


def test_a_journal_of_another_program_version_is_refused(tmp_path: Path) -> None:
    """It may deal, train or vote differently: half of the parties each way would be a count of nothing."""
    with Journal(tmp_path / "journal", {**IDENTITY, "version": "99.0"}):
        pass
    with pytest.raises(JournalError, match=rf"version: '99\.0' there, '{re.escape(psephos.__version__)}' here"):
        Journal(tmp_path / "journal", IDENTITY)


def test_an_interrupted_key_setup_is_repeated(tmp_path: Path, ceremony: KeySetup) -> None:
    path = tmp_path / "journal"

    def interrupted() -> KeySetup:
        raise KeyboardInterrupt

    with Journal(path, IDENTITY) as journal:
        with pytest.raises(KeyboardInterrupt):
            journal.key_setup(interrupted)
        assert journal.key_setup(lambda: ceremony) is ceremony
        assert journal.key_setup(lambda: pytest.fail("again")).threshold_key == ceremony.threshold_key


def test_sums_and_messages_of_many_batches_keep_their_order(tmp_path: Path, ceremony: KeySetup) -> None:
    """More than a byte counts, in their order."""
    with Journal(tmp_path / "journal", IDENTITY) as journal:
        stored = journal.sum_of(round_of(ceremony))
        state = stored.load(HOLDERS)
        state.plaintext_sum = np.array([2**62, -(2**62), 0, -1], dtype=np.int64)
        journal.store.put("messages of sum of parameters", (254).to_bytes(8, "big"), encode(()))  # as if after many
        for batch in range(3):
            stored.commit(state, messages([batch]))
        state = stored.load(HOLDERS)
        assert (state.plaintext_sum.tolist(), state.plaintext_sum.dtype) == ([2**62, -(2**62), 0, -1], np.int64)
        assert stored.messages() == messages([0, 1, 2])
