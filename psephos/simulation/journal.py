"""What a long run keeps on disk, so that it can be interrupted and continued.

A journal is a folder with one `Store` (psephos.protocol.storage.store), so that there is a whole state at every moment:

* **A sum**, after every batch of parties: the curator's and each holder's product so far with who is counted in it, the
  clear sum, and the digests of the batch's messages. Parties that are in it are not asked again; a batch that was being
  worked on when the run ended leaves no trace and is worked on again.
* **A run of a driver** (`Driver(store=journal.store)`): the roles' states and their messages.
* **A sweep of many trials** (`psephos reproduce`): what each came to.

A continued run needs the same version of this program, and the same round, keys and shares. **A journal therefore holds
the secrets of everybody in the simulation**: the holders' shares and the parties' signing keys, for its owner's eyes.
Real roles never write such a thing. Delete it (`Journal.forget`) when the run is done.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import psephos
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import JournalError
from psephos.protocol.paillier.threshold import KeyShare
from psephos.protocol.storage.store import Store
from psephos.protocol.storage.values import decode, encode
from psephos.protocol.transcript import SentMessage
from psephos.simulation.key_setup import KeySetup, SigningKeys

__all__ = ["Journal", "SumJournal", "SumState"]

_FILE, _FORMAT = "journal.sqlite", 3
"""Where it is, and in which form: another one is refused by name."""


@dataclass
class SumState:
    """How far a sum is.

    products: the curator's, then each holder's. clear: integers (plan.length,), the sum of the same
    vectors in the clear.
    seconds: wall-clock seconds by phase so far. memory_mb: the largest peak so far.
    """

    products: list[BallotProduct]
    clear: NDArray[Any] = field(repr=False)
    seconds: dict[str, float]
    memory_mb: float = 0.0

    @property
    def parties(self) -> frozenset[int]:
        """Who is counted."""
        return frozenset(self.products[0].parties)


class Journal:
    """A folder that one run writes to at a time; `store` is what it keeps. A context manager."""

    def __init__(self, path: str | os.PathLike[str], identity: Mapping[str, Any]) -> None:
        """Begin a journal, or continue one.

        Args:
            path: a directory, new or empty or a journal.
            identity: what the run was asked for (JSON values): whatever changes its result. Not the engine or the
                number of workers. The version of this program is always part of it, since another one may deal, train
                or vote differently.

        Raises:
            JournalError: no journal and not empty, of another run or an older format, damaged, readable by others, in
                use, or the disk is full.
        """
        self.path = Path(path)
        if (self.path / "run.json").exists():
            raise JournalError(
                f"the journal {self.path} was begun by an older version of Psephos, which stored it in another form: "
                "finish the run with that version, or delete the journal and start again"
            )
        if self.path.is_dir() and any(self.path.iterdir()) and not (self.path / _FILE).exists():
            raise JournalError(f"{self.path} is not empty and no journal; name another directory")
        self.store = Store(
            self.path / _FILE,
            {"version": psephos.__version__, "format": _FORMAT, **identity},
            exclusive=True,
            timeout=0,
        )

    def ceremony(self, hold: Callable[[], KeySetup]) -> KeySetup:
        """The run's keys: those of the journal, or those that `hold` makes, which are stored first."""
        with self.store.transaction():
            stored = self.store.get("run", b"ceremony")
            if stored is None:
                made = hold()
                self.store.put("run", b"ceremony", _encode_ceremony(made))
                return made
        return _decode_keys(stored)

    def sum_of(self, round_: Round, label: str = "") -> SumJournal:
        """The part of the journal for the sum of that name, its round's kind by default; begun if it is not there."""
        return SumJournal(self.store, round_, label)

    def result(self, name: str) -> Any:
        """What `keep_result` stored under this name; None when there is nothing."""
        return json.loads(self.store.get("results", name.encode()) or b"null")

    def keep_result(self, name: str, result: Any) -> None:
        """Keep a JSON value, what a finished part of the run came to."""
        self.store.put("results", name.encode(), json.dumps(result).encode())

    def close(self) -> None:
        """Let go of it; what it keeps stays."""
        self.store.close()

    def forget(self) -> None:
        """Delete the journal with all the secrets in it."""
        self.close()
        shutil.rmtree(self.path)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Journal {self.path}>"


class SumJournal:
    """One sum of a run. `round` is the journal's own: the given one with the nonce it was begun with."""

    def __init__(self, store: Store, round_: Round, label: str = "") -> None:
        """Raises JournalError when the journal was begun with another round."""
        self._store, self._space = store, f"sum of {label or round_.kind}"
        stored = store.get(self._space, b"round")
        if stored is None:
            store.put(self._space, b"round", encode((round_.nonce, round_.digest)))
            self.round = round_
            return
        nonce, digest = decode(stored)
        self.round = replace(round_, nonce=nonce)
        if self.round.digest != digest:
            raise JournalError(
                f"{store} was begun with another round: the key, roster, auxiliary set, minimum or packing differs"
            )

    def load(self, holders: int) -> SumState:
        """How far the sum is; a fresh state when nothing is committed. Raises JournalError when it is damaged."""
        stored = self._store.get(self._space, b"state")
        if stored is None:
            products = [BallotProduct(self.round)] * (1 + holders)
            return SumState(products, np.zeros(self.round.plan.length, dtype=np.int64), {})
        blobs, whose, values, seconds, memory_mb = decode(stored)
        distinct = [BallotProduct.decode(blob, self.round) for blob in blobs]
        products = [distinct[place] for place in whose]
        clear = np.frombuffer(values, "<i8") if isinstance(values, bytes) else np.array(values, dtype=object)
        return SumState(products, clear, dict(seconds), memory_mb)

    def messages(self) -> list[SentMessage]:
        """All so far."""
        batches = (decode(batch) for _, batch in self._store.items(f"messages of {self._space}"))
        return [SentMessage(*fields) for batch in batches for fields in batch]

    def commit(self, state: SumState, messages: Sequence[SentMessage]) -> None:
        """Make `state` the one to continue from, `messages` being those since the last commit.

        Raises JournalError, the state before staying in force, when it cannot be written.
        """
        distinct = list({id(product): product for product in state.products}.values())  # one, if all counted the same
        stored = tuple(product.encode() for product in distinct)
        whose = tuple(next(k for k, one in enumerate(distinct) if one is mine) for mine in state.products)
        small = state.clear.dtype == np.int64
        values = state.clear.astype("<i8").tobytes() if small else tuple(int(value) for value in state.clear.tolist())
        noted = tuple((m.phase, m.sender, m.receiver, m.kind, m.size, m.digest) for m in messages)
        batches = f"messages of {self._space}"
        with self._store.transaction():
            number = int.from_bytes(self._store.last(batches) or b"", "big") + 1
            self._store.put(batches, number.to_bytes(8, "big"), encode(noted))
            seconds = tuple(state.seconds.items())
            self._store.put(self._space, b"state", encode((stored, whose, values, seconds, float(state.memory_mb))))

    def __repr__(self) -> str:
        return f"<SumJournal of {self.round.kind} in {self._store}>"


def _encode_ceremony(ceremony: KeySetup) -> bytes:
    shares = tuple((share.holder, share.share()) for share in ceremony.shares)
    return encode((ceremony.threshold_key, ceremony.roster, shares, ceremony.signing_keys.seeds))


def _decode_keys(stored: bytes) -> KeySetup:
    threshold_key, roster, stored_shares, seeds = decode(stored)
    shares = tuple(KeyShare(threshold_key, holder, share) for holder, share in stored_shares)
    return KeySetup(threshold_key, roster, shares, SigningKeys(seeds))
