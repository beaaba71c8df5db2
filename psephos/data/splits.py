"""Splits of a data set into public auxiliary samples without labels and the private rows of the parties.

Hamm 2016, section 6: about 10 % of the training data become auxiliary samples, and M parties get the rest at random.
The experimenter splits before there are parties, so it may depend on every label; epsilon is about replacing what one
party holds after the split. Tables whose rows already have owners are split by `psephos.data.own`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psephos.data.datasets import Dataset
from psephos.data.tables import Encoding
from psephos.protocol.errors import DataError, InvalidParameter

AUXILIARY_SHARE = 0.1
"""Share of the training rows that become auxiliary samples (Hamm 2016, section 6)."""

TEST_SHARE = 0.3
"""Share of the rows that become test rows if a data set was published without a test split; our choice."""

Deal = Literal["equal", "dirichlet", "shards"]
DEALS: tuple[Deal, ...] = ("equal", "dirichlet", "shards")
"""The ways of distributing the private rows among the parties."""

Indices = NDArray[np.intp]

_SKEW_STREAM = 4  # number of the random stream of a split's seed that skews labels


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """The assignment of a data set's rows to the public set (`auxiliary`), the parties and the test set, as indices.

    Rows are indices into `dataset.X_train`; test rows are indices into `dataset.X_test` where there is one.

    Attributes, of a user's own table alone:
        encoding: how it was encoded.
        inputs: the encoded public rows before the encoding's map, float64 (N, d).
        note: how the map was chosen; "" where nothing had to be chosen.
        cautions: warnings about the public rows.
        remarks: warnings about private rows, which only their holder may read. Shown as `private_remarks`.
        schema: "" without a schema; "encoding" if it determined the encoding; "samples" if the auxiliary samples were
            drawn from it, too.
        persons: number of the person of each row, int64 (n,), where persons are protected. A secret.
        held_out: the rows of each party that are in `test`.
        digest: of a table that is in no file, 32 bytes; b"" of others.
    """

    dataset: Dataset
    seed: int
    auxiliary: Indices
    parties: tuple[Indices, ...]
    test: Indices
    encoding: Encoding | None = None
    inputs: NDArray[np.float64] | None = None
    note: str = ""
    cautions: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    schema: Literal["", "encoding", "samples"] = ""
    persons: NDArray[np.int64] | None = None
    held_out: tuple[Indices, ...] = ()
    digest: bytes = b""

    @property
    def unmapped(self) -> list[str]:
        """A warning where the public rows were to choose a map and are too few for one."""
        return [self.note] if self.note and self.encoding is not None and self.encoding.map is None else []

    @property
    def private_remarks(self) -> list[str]:
        """The remarks as they are shown: each says that it is private, since no epsilon covers it."""
        return [f"private, not for publication: {text}" for text in self.remarks]

    @property
    def public_labels(self) -> NDArray[np.int64]:
        """Class numbers of the public rows, int64 (N,); -1 where a row has no label."""
        labels: NDArray[np.int64] = self.dataset.y_train[self.auxiliary]
        return labels

    @property
    def labelled(self) -> int:
        """Number of public rows of a user's own table that have labels; 0 if these are of fewer than two classes.

        For a published data set it is 0: as in the papers, the labels of its auxiliary samples are used only by methods
        that are requested by name.
        """
        labels = self.public_labels
        known = labels[labels >= 0]
        return 0 if self.encoding is None or len(np.unique(known)) < 2 else len(known)

    @property
    def log_odds(self) -> tuple[int, ...]:
        """See `Encoding.log_odds`."""
        return () if self.encoding is None else self.encoding.log_odds

    @property
    def X_auxiliary(self) -> Any:
        """The auxiliary features (N, d), as in the data set (float, or CSR)."""
        return self.dataset.X_train[self.auxiliary]

    @property
    def X_test(self) -> Any:
        """The test features, as in the data set."""
        return self.dataset.X_train[self.test] if self.dataset.X_test is None else self.dataset.X_test

    @property
    def y_test(self) -> NDArray[np.int64]:
        """The test labels, int64 (n_test,), in the order of `X_test`."""
        return self.dataset.y_train[self.test] if self.dataset.y_test is None else self.dataset.y_test

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of samples of each party, (M,)."""
        return np.array([len(rows) for rows in self.parties], np.int64)

    def party(self, number: int) -> tuple[Any, NDArray[np.int64]]:
        """Return the private samples (n, d) of one party, as in the data set, and their labels, int64 (n,)."""
        rows = self.parties[number]
        return self.dataset.X_train[rows], self.dataset.y_train[rows]

    def private(self, start: int = 0, stop: int | None = None) -> tuple[Any, NDArray[np.int64], NDArray[np.int64]]:
        """Return X, y and sizes of the parties start to stop - 1, in the form for `psephos.parties.training`."""
        rows = np.concatenate(self.parties[start:stop])
        return self.dataset.X_train[rows], self.dataset.y_train[rows], self.sizes[start:stop]


def split_dataset(
    dataset: Dataset,
    parties: int,
    seed: int = 0,
    *,
    samples_per_party: int | Sequence[int] | None = None,
    auxiliary: int | None = None,
    deal: Deal | str = "equal",
    concentration: float = 0.5,
) -> Split:
    """Divide the training data at random among the parties and a public auxiliary set.

    If the data set has no published test split, 30 % of the rows of each class first become the test set; n training
    rows remain. By default every party gets floor(0.9 n / parties) of them, and *all* others are auxiliary, which are
    at least 10 % (HAR with 1,000 parties: 6 each and 1,352 auxiliary, as in Hamm 2016, 6.1).

    With `samples_per_party`, the size of every party or of each one, about 10 % of the rows are auxiliary, and rows
    that remain are unused. `auxiliary` is 0 for protocols that need none (Pathak, PSGD).

    `deal` says how private rows are dealt. "equal": at random. "dirichlet": each class by shares of its own from a
    symmetric Dirichlet distribution with this concentration (Yurochkin et al. 2019). "shards": sorted by class, cut
    into two pieces for each party, and the pieces at random (McMahan et al. 2017). All three deal the same rows and
    leave the same ones public, and every party gets a row.
    """
    if deal not in DEALS or not 0 < concentration < float("inf"):
        raise InvalidParameter(f"rows are dealt {', '.join(DEALS)}, by a positive concentration; got {deal!r}")
    if parties < 1 or seed < 0:
        raise InvalidParameter(f"at least one party and a non-negative seed are needed; got {parties} and {seed}")
    generator = np.random.default_rng(seed)
    if dataset.y_test is None:
        train, test = _hold_out(dataset.y_train, generator)
    else:
        train, test = np.arange(len(dataset.y_train)), np.arange(len(dataset.y_test))
    n = len(train)
    tenth = round(AUXILIARY_SHARE * n)
    if auxiliary is not None and not 0 <= auxiliary < n:
        raise InvalidParameter(f"the auxiliary set takes 0 to {n - 1} of {n} training samples; got {auxiliary}")
    public = tenth if auxiliary is None else auxiliary
    if isinstance(samples_per_party, int | np.integer):
        sizes = [int(samples_per_party)] * parties
    elif samples_per_party is not None:
        sizes = [int(size) for size in samples_per_party]
    else:
        sizes = [(n - public) // parties] * parties
    if len(sizes) != parties:
        raise InvalidParameter(f"{len(sizes)} sizes were given for {parties} parties")
    if min(sizes) < 1:
        raise InvalidParameter(f"{parties} parties cannot each hold one of {n} training samples, {public} auxiliary")
    if auxiliary is None and samples_per_party is None:
        public = n - sum(sizes)
    elif auxiliary is None:
        # The given sizes may take up a little of the tenth; the remaining auxiliary rows are still "about 10 %".
        public = min(tenth, n - sum(sizes))
    if sum(sizes) + public > n or (auxiliary is None and public < 1):
        raise InvalidParameter(
            f"{parties} parties with {sum(sizes)} samples in all leave no room for {max(public, 1)} auxiliary ones: "
            f"{dataset.name} has {n} training samples"
        )
    order = train[generator.permutation(n)]
    cuts = np.cumsum(sizes)
    private = order[: cuts[-1]]
    by_size = sizes if deal == "equal" else deal
    shares = deal_rows(private, dataset.y_train[private], parties, by_size, concentration, generator)
    return Split(
        dataset,
        seed,
        auxiliary=order[cuts[-1] : cuts[-1] + public],
        parties=tuple(shares),
        test=test,
    )


def deal_rows(
    rows: Indices,
    labels: NDArray[np.int64],
    parties: int,
    sizes: str | Sequence[int],
    concentration: float,
    generator: np.random.Generator,
) -> list[Indices]:
    """Distribute rows (n,), in random order, with labels (n,) among the parties.

    `sizes` are the size of each party, or one of `DEALS`, as `deal` in `split_dataset`.
    """
    if not isinstance(sizes, str):
        if sum(sizes) > len(rows) or len(sizes) != parties:
            raise InvalidParameter(f"{parties} parties of {sum(sizes)} rows in all were asked for, of {len(rows)}")
        return np.split(rows, np.cumsum(sizes))[:-1]
    if sizes == "equal":
        return np.array_split(rows, parties)
    if sizes == "shards":
        if len(rows) < 2 * parties:
            raise InvalidParameter(f"{parties} parties cannot each hold two shards of {len(rows)} rows; ask for fewer")
        shards = np.array_split(rows[np.argsort(labels, kind="stable")], 2 * parties)
        return [np.concatenate([shards[a], shards[b]]) for a, b in generator.permutation(2 * parties).reshape(-1, 2)]
    owner = np.empty(len(rows), dtype=np.int64)
    for label in np.unique(labels):
        of_class = np.flatnonzero(labels == label)
        owner[of_class] = generator.choice(
            parties, len(of_class), p=generator.dirichlet(np.full(parties, concentration))
        )
    for party in np.setdiff1d(np.arange(parties), owner):
        owner[np.flatnonzero(owner == np.bincount(owner).argmax())[0]] = party  # from the party with the most rows
    return [rows[owner == party] for party in range(parties)]


def skewed(split: Split, skew: str) -> Split:
    """Return a split in which the same private rows are dealt anew: parties of the same sizes, with skewed labels.

    Each party in turn draws its rows from those that are left, their classes by shares of its own from a symmetric
    Dirichlet distribution (after Hsu, Qi and Brown 2019, section 3), among the classes that are not used up. `skew`
    names its concentration, as "dirichlet(0.5)"; raises InvalidParameter.
    """
    match = re.fullmatch(r"dirichlet\((\d*\.?\d+)\)", skew)
    if match is None or not float(match[1]):
        raise InvalidParameter(f"skew is dirichlet(0.5), or of another positive number, not {skew}", option="skew")
    generator, labels = np.random.default_rng([split.seed, _SKEW_STREAM]), split.dataset.y_train
    rows = generator.permutation(np.concatenate(split.parties))
    left = [rows[labels[rows] == label].tolist() for label in range(len(split.dataset.classes))]
    parties = []
    for size in split.sizes:
        shares, own = generator.dirichlet(np.full(len(left), float(match[1]))), list[int]()
        while len(own) < size:
            open_shares = np.array([share + 1e-12 if some else 0.0 for share, some in zip(shares, left, strict=True)])
            own.append(left[generator.choice(len(left), p=open_shares / open_shares.sum())].pop())
        parties.append(np.array(own, dtype=np.intp))
    return replace(split, parties=tuple(parties))


def _hold_out(labels: NDArray[np.int64], generator: np.random.Generator) -> tuple[Indices, Indices]:
    """Return the training and the test rows; the test set has 30 % of each class, rounded."""
    train, test = [], []
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        test_count = round(TEST_SHARE * len(rows))
        if not 0 < test_count < len(rows):
            raise DataError(f"class {label} has {len(rows)} samples, too few for a training and a test set")
        test.append(rows[:test_count])
        train.append(rows[test_count:])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(test))
