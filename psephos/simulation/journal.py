"""The journal of a simulation: what a long run stores on disk, so that it can be interrupted and continued.

It is a directory with one `Store`, which has a sum after every batch of parties, the states of a driver's roles, or the
results of a sweep's trials. **It contains the secrets of all simulated roles**, key shares and signing keys too, and is
readable by its owner only; delete it when the run is finished.
"""

from __future__ import annotations

import json
import os
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

_FILE, _FORMAT = "journal.sqlite", 3
"""File name and format version. A journal of another format is refused."""


@dataclass
class SumState:
    """Progress of a sum: the products of the curator and of each holder, and the sum of the vectors in the clear."""

    products: list[BallotProduct]
    plaintext_sum: NDArray[Any] = field(repr=False)
    seconds: dict[str, float]
    memory_mb: float = 0.0

    @property
    def parties(self) -> frozenset[int]:
        return frozenset(self.products[0].parties)


class Journal:
    """A directory that one run of one version at a time writes to. A context manager that closes it."""

    def __init__(self, path: str | os.PathLike[str], identity: Mapping[str, Any]) -> None:
        self.path = Path(path)
        if self.path.is_dir() and any(self.path.iterdir()) and not (self.path / _FILE).exists():
            raise JournalError(f"{self.path} is not empty and no journal; name another directory")
        self.store = Store(
            self.path / _FILE,
            {"version": psephos.__version__, "format": _FORMAT, **identity},
            exclusive=True,
            timeout=0,
        )

    def key_setup(self, make: Callable[[], KeySetup]) -> KeySetup:
        """Return the keys of the run: the stored ones, or those that `make` returns, which are then stored."""
        with self.store.transaction():
            stored = self.store.get("run", b"ceremony")
            if stored is None:
                keys = make()
                shares = tuple((share.holder, share.share()) for share in keys.shares)
                content = (keys.threshold_key, keys.roster, shares, keys.signing_keys.seeds)
                self.store.put("run", b"ceremony", encode(content))
                return keys
        threshold_key, roster, stored_shares, seeds = decode(stored)
        dealt = tuple(KeyShare(threshold_key, holder, share) for holder, share in stored_shares)
        return KeySetup(threshold_key, roster, dealt, SigningKeys(seeds))

    def sum_of(self, round_: Round, label: str = "") -> SumJournal:
        return SumJournal(self.store, round_, label)

    def result(self, name: str) -> Any:
        """Return the value that `store_result` stored under this name, or None."""
        return json.loads(self.store.get("results", name.encode()) or b"null")

    def store_result(self, name: str, result: Any) -> None:
        """Store the result of a finished part of the run, a JSON value."""
        self.store.put("results", name.encode(), json.dumps(result).encode())

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class SumJournal:
    """The part of a journal that belongs to one sum; `round`: its terms, with the nonce of its first run."""

    def __init__(self, store: Store, round_: Round, label: str = "") -> None:
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
        """Return the last committed state, or the initial state if nothing was committed."""
        stored = self._store.get(self._space, b"state")
        if stored is None:
            products = [BallotProduct(self.round)] * (1 + holders)
            return SumState(products, np.zeros(self.round.plan.length, dtype=np.int64), {})
        encoded_products, indices, values, seconds, memory_mb = decode(stored)
        distinct = [BallotProduct.decode(product, self.round) for product in encoded_products]
        products = [distinct[index] for index in indices]
        total = np.frombuffer(values, "<i8") if isinstance(values, bytes) else np.array(values, dtype=object)
        return SumState(products, total, dict(seconds), memory_mb)

    def messages(self) -> list[SentMessage]:
        batches = (decode(batch) for _, batch in self._store.items(f"messages of {self._space}"))
        return [SentMessage(*fields) for batch in batches for fields in batch]

    def commit(self, state: SumState, messages: Sequence[SentMessage]) -> None:
        """Store a state, from which the sum can be continued, in one transaction."""
        # Observers that counted the same ballots share one product, which is stored once.
        distinct = list({id(product): product for product in state.products}.values())
        encoded_products = tuple(product.encode() for product in distinct)
        indices = tuple(next(k for k, one in enumerate(distinct) if one is product) for product in state.products)
        total = state.plaintext_sum
        values = total.astype("<i8").tobytes() if total.dtype == np.int64 else tuple(map(int, total.tolist()))
        encoded_messages = tuple((m.phase, m.sender, m.receiver, m.kind, m.size, m.digest) for m in messages)
        batches = f"messages of {self._space}"
        with self._store.transaction():
            number = int.from_bytes(self._store.last(batches) or b"", "big") + 1
            self._store.put(batches, number.to_bytes(8, "big"), encode(encoded_messages))
            seconds = tuple(state.seconds.items())
            content = (encoded_products, indices, values, seconds, float(state.memory_mb))
            self._store.put(self._space, b"state", encode(content))
