"""Options common to all protocols: the data, its distribution among the parties, and absent parties."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from psephos.data.datasets import Dataset, load
from psephos.data.own import Frames, OwnTable, TableOptions
from psephos.data.splits import DEALS, Split, split_dataset
from psephos.options import BelowOne, option
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.roles import Role, Step


@dataclass(frozen=True, kw_only=True)
class DataOptions(TableOptions):
    """Options for the data set or table, the number of parties and their sizes, and the absent parties."""

    dataset: str = option(
        "breast-cancer", "A bundled or a downloaded data set, where --data names no table of your own."
    )
    parties: int = option(25, "Data owners, M.")
    samples_per_party: int | None = option(
        None, "Samples of each party, on average.", shown="90 % of the training data, dealt evenly"
    )
    sizes: str = option(
        "equal",
        "How rows are dealt: equal; dirichlet (unequal sizes, skewed labels); shards (a few labels each); or the size "
        "of each party, as in 5,5,20.",
    )
    concentration: float = option(0.5, "The concentration of the Dirichlet law: the smaller, the more skewed.")
    absent: BelowOne = option(0.0, "Share of the parties that stay away, chosen by the seed.")
    budget: str | None = option(
        None,
        "A file that adds up what all releases from the same rows have cost, across runs, evaluations and studies. It "
        "is charged before anything leaves.",
        group="Privacy",
        shown="nothing is added up",
    )
    budget_limit: str | None = option(
        None,
        "With a new --budget file: the most that all releases may cost together, EPSILON or EPSILON,DELTA.",
        group="Privacy",
        shown="no limit",
    )
    data_dir: str | None = option(
        None, "The directory of the data sets.", group="Machine", shown="PSEPHOS_DATA, or the cache"
    )
    seed: int = option(0, "The seed of splits and training; never of keys or encryption.", group="Machine")

    def check(self) -> None:
        """Raise InvalidParameter for invalid options, before anything is computed."""
        self.check_table()
        if self.budget_limit is not None and self.budget is None:
            raise InvalidParameter("--budget-limit is the limit of a budget file: name it with --budget FILE")
        if not self.parties >= 2:
            change = ": change --parties" if self.party is None else ", whose rows these are"
            raise InvalidParameter(f"a run needs at least 2 parties, not {self.parties}{change}")
        sizes = self._sizes()
        if self.party is not None and sizes != "equal":
            raise InvalidParameter("--party already says which rows each party holds: leave --sizes out")
        if isinstance(sizes, str):
            one_of("sizes", sizes, *DEALS)
        elif len(sizes) != self.parties or self.samples_per_party is not None:
            raise InvalidParameter(f"--sizes has the size of each of {self.parties} parties, or --samples-per-party")
        if self.protects_rows and self.data is not None and self.party is None and (sizes != "equal" or self.absent):
            # Which rows a random order puts where depends on how many there are, and on their labels for some sizes.
            # It is no matter where all are summed, and where the number is public and the order is the rows' own.
            raise InvalidParameter(
                "one row is private, and would change which rows are left out or who holds them where rows of a table "
                "are dealt at random: leave --sizes and --absent out, or name the owners with --party COLUMN"
            )

    def _sizes(self) -> str | list[int]:
        try:
            return [int(size) for size in self.sizes.split(",")]
        except ValueError:
            return self.sizes

    @property
    def absent_parties(self) -> list[int]:
        """Numbers of the absent parties, ascending."""
        count = round(self.absent * self.parties)
        return sorted(np.random.default_rng([self.seed, 1]).permutation(self.parties)[:count].tolist())

    def deal(self, data: Dataset | OwnTable, *, samples: int | None = None, auxiliary: int | None = None) -> Split:
        """Assign the rows of `data` to the public set, the parties and the test set.

        `samples` of each party and `auxiliary` samples count where the options do not set them.
        """
        sizes = self._sizes()
        if isinstance(data, OwnTable):
            terms: dict[str, Any] = {"sizes": sizes, "concentration": self.concentration, "samples": auxiliary}
            terms["by_content"] = self.protects_records
            return data.deal(self.parties, self.seed, **terms)
        fixed = sizes if not isinstance(sizes, str) else self.samples_per_party or samples
        return split_dataset(
            data,
            self.parties,
            self.seed,
            samples_per_party=fixed,
            auxiliary=auxiliary,
            deal=sizes if isinstance(sizes, str) else "equal",
            concentration=self.concentration,
        )

    @property
    def protects_records(self) -> bool:
        """Whether one row is private while the number of a party's rows is not public."""
        return False

    @property
    def protects_rows(self) -> bool:
        """Whether one row is private, whether or not the numbers of the parties' rows are public."""
        return self.protects_records

    @property
    def compares(self) -> bool:
        """Whether the run measures accuracy, so that there must be test rows."""
        return True

    def plain(self) -> dict[str, Any]:
        """Return the options as JSON values, by name."""
        return {
            name: [one if isinstance(one, str | int | float) else str(one) for one in value]
            if isinstance(value, tuple)
            else value
            for name, value in vars(self).items()
        }


Options = TypeVar("Options", bound=DataOptions)


def load_split(options: Options, data: Dataset | Split | Frames | None = None) -> tuple[Options, Split]:
    """Check the options and assign the rows of their data (or of `data`, which may be split already) to the parties.

    Returns the options, whose number of parties is that of the table if it names them, and the split.
    """
    source: Any = data  # a table in memory, which the options name as they name one in a file
    table = OwnTable(options, source) if not isinstance(data, Dataset | Split) and options.data is not None else None
    if table is not None and table.owners:
        parties = len(table.owners)
        options = replace(options, parties=parties)
    options.check()
    if not isinstance(data, Split):
        data = options.deal(table or source or _load_named(options))
    if options.compares and not len(data.test):
        raise InvalidParameter("no rows are left to measure on: leave --held-out out")
    return options, data


def _load_named(options: DataOptions) -> Dataset:
    """Load the data set that the options name; the synthetic one gets as many rows as the parties need."""
    if options.dataset != "synthetic":
        return load(options.dataset, options.data_dir)
    private = options.parties * (options.samples_per_party or 2)
    return load("synthetic", samples=max(2000, private + (getattr(options, "auxiliary", None) or private // 8)))


def one_of(name: str, chosen: str | None, *known: str | None) -> None:
    """Raise InvalidParameter unless `chosen` is one of the known values of the option `name`."""
    if chosen not in known:
        raise InvalidParameter(f"{name} is one of {', '.join(filter(None, known))}, not {chosen!r}")


class AbsentRole(Role):
    """The role of an absent party: it sends nothing and ignores every message."""

    def __init__(self, honest: Role) -> None:
        self.name = honest.name

    def start(self) -> Step:
        return Step(())

    def receive(self, state: Any, entries: Any) -> Step:
        return Step(())
