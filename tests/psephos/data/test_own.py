"""A table of one's own, dealt: what is public comes from public rows or a schema, the rest from a party's own rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.data.own import OwnTable, TableOptions, coins, held_out_rows, row_keys
from psephos.data.schema import DRAWN_SAMPLES
from psephos.data.splits import Split
from psephos.protocol.errors import DataError, InvalidParameter

CITIES = ("Lima", "Oslo", "Rome")
TIERS = ("gold", "silver", "tin")
SCHEMA = """
classes = ["gold", "silver", "tin"]

[columns.age]
kind = "number"
minimum = 18
maximum = 90

[columns.city]
kind = "text"
values = ["Lima", "Oslo"]
"""


def written(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def shops(path: Path, rows: int = 120) -> Path:
    """Four shops, three tiers."""
    lines = ["shop,age,city,tier"]
    for n in range(rows):
        tier = n // 4 % 3
        lines.append(f"shop {n % 4},{30 + 10 * tier + n % 5},{CITIES[tier]},{TIERS[tier]}")
    return written(path, "\n".join(lines) + "\n")


def options(path: Path, **more: object) -> TableOptions:
    return TableOptions(**({"data": str(path), "label": "tier", "party": "shop", "public": "shop 3"} | more))  # type: ignore[arg-type]


def by_schema(path: Path, schema: str = SCHEMA, **more: object) -> TableOptions:
    return options(path, public=None, schema=str(written(path.with_suffix(".toml"), schema)), **more)


def own_rows(split: Split, number: int) -> tuple[list[list[float]], list[int]]:
    """What a party trains on."""
    X, y = split.party(number)
    return X.tolist(), y.tolist()


# -- dealing


def test_the_party_column_names_owners_and_the_public_part(tmp_path: Path) -> None:
    table = OwnTable(options(shops(tmp_path / "t.csv")))
    assert table.owners == ("shop 0", "shop 1", "shop 2")
    assert table.classes == TIERS
    split = table.deal(3, seed=1)
    assert len(split.auxiliary) == 30
    rows = np.concatenate([*split.parties, split.test, split.auxiliary])
    assert sorted(rows.tolist()) == list(range(120))
    for number, mine in enumerate(split.parties):
        assert {row % 4 for row in mine.tolist()} == {number}
        assert len(mine) == 24
    assert split.encoding is not None
    assert split.encoding.features == ["age", "city=Lima", "city=Oslo", "city=Rome"]
    assert split.cautions == ()
    assert OwnTable(options(tmp_path / "t.csv", held_out=0.0)).deal(3, seed=1).sizes.tolist() == [30, 30, 30]


def test_public_rows_from_another_file_need_no_label_where_the_classes_are_named(tmp_path: Path) -> None:
    shops(tmp_path / "t.csv")
    written(tmp_path / "open.csv", "city;age\nLima;30\nOslo;41,5\n" + "Lima;30\n" * 8)
    table_options = options(tmp_path / "t.csv", public=str(tmp_path / "open.csv"), classes=TIERS)
    split = OwnTable(table_options).deal(4, seed=0)
    assert split.dataset.X_train[split.auxiliary[:2]].tolist() == [[30, 1, 0], [41.5, 0, 1]]
    assert split.dataset.y_train[split.auxiliary].tolist() == [-1] * 10
    assert len(split.parties) == 4
    with pytest.raises(DataError, match=r"0 classes.*--classes"):
        OwnTable(options(tmp_path / "t.csv", public=str(tmp_path / "open.csv")))


# -- held-out rows


@given(
    count=st.integers(1, 60),
    share=st.floats(0, 0.99),
    seed=st.integers(0, 1 << 30),
)
def test_held_out_rows_are_a_share_of_each_partys_rows(count: int, share: float, seed: int) -> None:
    rows = np.arange(100, 100 + count)
    out = held_out_rows(rows, share, np.random.default_rng(seed))
    assert set(out.tolist()) <= set(rows.tolist())
    assert len(np.unique(out)) == len(out) < count
    assert len(out) in {min(count - 1, int(share * count)), min(count - 1, int(share * count) + 1)}


# -- nothing of a party depends on another's rows

CHANGES: dict[str, Callable[[list[str]], list[str]]] = {
    "a row added": lambda lines: [*lines, lines[0]],
    "rows removed": lambda lines: lines[:1],
    "relabelled": lambda lines: [line.rsplit(",", 1)[0] + ",tin" for line in lines],
    "another category": lambda lines: [line.replace("Lima", "Cairo") for line in lines],
    "gaps": lambda lines: [f"{line.split(',')[0]},,,{line.rsplit(',', 1)[1]}" for line in lines],
    "in another order": lambda lines: lines[::-1],
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["public rows", "schema"])
def test_rows_of_one_party_do_not_affect_another(tmp_path: Path, kind: str, change: str) -> None:
    path = shops(tmp_path / "t.csv")
    table_options = options(path) if kind == "public rows" else by_schema(path)
    table = OwnTable(table_options)
    before, roster = table.deal(len(table.owners), seed=5), table.owners
    head, *lines = path.read_text().splitlines()
    own = [line for line in lines if line.startswith("shop 1")]
    others = [line for line in lines if not line.startswith("shop 1")]
    written(path, "\n".join([head, *CHANGES[change](own), *others]) + "\n")  # and they now stand first in the file
    table = OwnTable(table_options)
    after = table.deal(len(table.owners), seed=5)
    assert (table.owners, table.classes, after.encoding, after.cautions) == (
        roster,
        TIERS,
        before.encoding,
        before.cautions,
    )
    np.testing.assert_array_equal(before.X_auxiliary, after.X_auxiliary)
    for number, name in enumerate(roster):
        if name != "shop 1":
            assert own_rows(before, number) == own_rows(after, number)


# -- classes


def test_other_labels_are_handled_by_the_option(tmp_path: Path) -> None:
    path = shops(tmp_path / "t.csv")
    written(path, path.read_text() + "shop 0,30,Lima,bronze\n")
    with pytest.raises(DataError, match="line 122"):
        OwnTable(options(path))
    dropped = OwnTable(options(path, other_labels="drop", held_out=0.0)).deal(3, seed=0)
    assert dropped.sizes.tolist() == [30, 30, 30]
    assert "1 private rows without a valid label were left out" in dropped.remarks[0]
    mapped = OwnTable(options(path, other_labels="tin", held_out=0.0)).deal(3, seed=0)
    assert mapped.sizes.tolist() == [31, 30, 30]
    assert mapped.party(0)[1][-1] == 2
    with pytest.raises(InvalidParameter, match="--other-labels"):
        OwnTable(options(path, other_labels="lead"))
    named = OwnTable(options(path, classes=(*TIERS, "bronze")))
    assert named.classes == (*TIERS, "bronze")


def test_classes_come_from_one_source(tmp_path: Path) -> None:
    path = shops(tmp_path / "t.csv")
    assert OwnTable(by_schema(path)).classes == TIERS
    with pytest.raises(InvalidParameter, match="different classes"):
        OwnTable(by_schema(path, classes=("gold", "tin")))
    for names in (("gold",), ("gold", "gold"), ("gold", "1", "1.0"), ("gold", "tin", "NA")):
        with pytest.raises(InvalidParameter):
            OwnTable(options(path, classes=names))


# -- a schema


def test_a_schema_replaces_public_rows(tmp_path: Path) -> None:
    path = shops(tmp_path / "t.csv")
    table = OwnTable(by_schema(path))
    assert table.owners == ("shop 0", "shop 1", "shop 2", "shop 3")
    split = table.deal(4, seed=3)
    assert split.schema == "samples"
    assert split.encoding is not None
    assert split.encoding.features == ["age", "city=Lima", "city=Oslo"]
    assert split.encoding.columns[0].fill == 54.0
    auxiliary = split.X_auxiliary
    assert auxiliary.shape == (DRAWN_SAMPLES, 3)
    assert 18 <= auxiliary[:, 0].min() < 22 < 86 < auxiliary[:, 0].max() <= 90
    assert (auxiliary[:, 1:].sum(axis=1) == 1).all()
    assert (split.dataset.y_train[split.auxiliary] == -1).all()
    assert len(table.deal(4, seed=3, samples=77).auxiliary) == 77
    assert "40 private cells of the column 'city'" in " ".join(split.remarks)
    with pytest.raises(DataError, match="9 public rows are too few"):
        table.deal(4, seed=3, samples=9)


def test_the_schema_of_the_documentation_fits_the_table_of_the_examples() -> None:
    docs = Path(__file__).parents[3] / "docs"
    page, example = (docs / "own-data.md").read_text(), (docs / "examples" / "patients.toml").read_text()
    assert page.split("```toml\n")[1].split("```")[0] == example.partition("\n")[2]
    table = {"data": str(docs / "examples" / "patients.csv"), "label": "outcome", "party": "hospital"}
    split = OwnTable(TableOptions(**table, schema=str(docs / "examples" / "patients.toml"))).deal(12, seed=0)
    assert not [text for text in split.remarks if "outside the range" in text]


def test_public_rows_beside_a_schema_are_encoded_by_it(tmp_path: Path) -> None:
    path = shops(tmp_path / "t.csv")
    schema = str(written(tmp_path / "t.toml", SCHEMA))
    split = OwnTable(options(path, schema=schema)).deal(3, seed=0)
    assert split.schema == "encoding"
    assert split.encoding is not None
    assert split.encoding.features == ["age", "city=Lima", "city=Oslo"]
    assert len(split.auxiliary) == 30
    with pytest.raises(InvalidParameter, match="named public rows are all auxiliary samples"):
        OwnTable(options(path, schema=schema)).deal(3, seed=0, samples=50)


@pytest.mark.parametrize(
    "schema",
    [
        "columns = {",
        "classes = []",
        "columns = {}",
        '[columns.age]\nkind = "colour"',
        SCHEMA + "unit = 3\n",
        "\ufeff" + SCHEMA.replace("minimum = 18", "minimum = 90"),
        SCHEMA.replace("minimum = 18", "minimum = nan"),
        SCHEMA.replace("maximum = 90", "maximum = inf"),
        SCHEMA.replace('["Lima", "Oslo"]', "[]"),
        SCHEMA.replace('["Lima", "Oslo"]', '["Lima", "Lima"]'),
        SCHEMA.replace('["Lima", "Oslo"]', '["7", "7.0"]'),
        SCHEMA.replace('["Lima", "Oslo"]', '["Lima", "na"]'),
        SCHEMA.replace("[columns.age]", "[columns.height]"),
        '[columns.age]\nkind = "number"\nminimum = 1\nmaximum = 2',
        SCHEMA.replace('classes = ["gold", "silver", "tin"]', ""),
    ],
)
def test_a_schema_that_does_not_fit_the_table_is_refused(tmp_path: Path, schema: str) -> None:
    with pytest.raises(DataError):
        OwnTable(by_schema(shops(tmp_path / "t.csv"), schema))


def test_a_table_schema_is_read_as_ours_is(tmp_path: Path) -> None:
    fields: list[dict[str, Any]] = [
        {"name": "shop", "type": "string"},
        {"name": "age", "type": "integer", "constraints": {"minimum": 18, "maximum": 90, "required": True}},
        {"name": "city", "constraints": {"enum": ["Lima", "Oslo"]}},
        {"name": "tier", "type": "string", "constraints": {"enum": list(TIERS)}},
    ]

    private = shops(tmp_path / "t.csv")

    def table(fields: list[dict[str, Any]]) -> OwnTable:
        described = json.dumps({"fields": fields, "missingValues": ["", "NA"]})
        path = str(written(tmp_path / "schema.json", described))
        return OwnTable(options(private, public=None, schema=path))

    ours, theirs = (one.deal(4, seed=3) for one in (OwnTable(by_schema(private)), table(fields)))
    assert theirs.encoding == ours.encoding
    assert theirs.dataset.classes == ours.dataset.classes == TIERS
    assert (theirs.X_auxiliary == ours.X_auxiliary).all()
    for change in ({"type": "string"}, {"type": "geopoint"}, {"constraints": {"minimum": 18}}, {"name": "city"}):
        with pytest.raises(DataError):
            table([fields[0], fields[1] | {"constraints": {"minimum": 18, "maximum": 90}} | change, *fields[2:]])


# -- what cannot be dealt


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ("", {"label": "grade"}),
        ("", {"ignore": ("size",)}),
        ("", {"ignore": ("age", "city")}),
        ("", {"public": "shop 9"}),
        ("", {"public": "shop 9", "party": None}),
        ("shop 0,30,Lima,\n", {}),
        (",30,Lima,gold\n", {}),
        ("NA,30,Lima,gold\n", {}),
        ("9007199254740993,30,Lima,gold\n", {}),
        ("shop 9,30,Lima,gold\n", {"public": "shop 9", "classes": TIERS}),
        ("shop 0,old,Lima,gold\n", {}),
        ("shop 3,inf,Lima,gold\n", {}),
    ],
)
def test_tables_that_cannot_be_split_are_refused(tmp_path: Path, change: str, more: dict[str, object]) -> None:
    path = shops(tmp_path / "t.csv")
    written(path, path.read_text() + change)
    with pytest.raises(DataError):
        OwnTable(options(path, **more)).deal(3, seed=0)


def test_missing_private_rows_and_missing_classes_are_reported(tmp_path: Path) -> None:
    one_class = "shop,x,tier\n" + "1,2,a\n2,3,a\n" * 12
    with pytest.raises(DataError, match="1 classes"):
        OwnTable(options(written(tmp_path / "t.csv", one_class), public="1"))
    with pytest.raises(DataError, match="every row is public"):
        OwnTable(options(written(tmp_path / "t.csv", "shop,x,tier\n1,2,a\n1,3,a\n"), public="1"))
    lines = [f"{n % 2},{n},{n / 7}" for n in range(60)]
    with pytest.raises(DataError, match="30 different values, most of them once"):
        OwnTable(options(written(tmp_path / "t.csv", "\n".join(["shop,x,tier", *lines])), public="1"))


# -- spellings and copies


@pytest.mark.parametrize(
    ("line", "owners"),
    [
        ("sho\u0301p,30,Lima,gold", ("sh\u00f3p",)),
        ("shop\u00a0 0,30,Lima,gold", ()),
        ("shop 0\u200b,30,Lima,g\u00adold", ()),
        ("Shop 0,30,Lima,gold", None),
        ("Shop 3,30,Lima,gold", None),
        ("\uff53hop 0,30,Lima,gold", None),
        ("na,30,Lima,gold", None),
        ("\u200b,30,Lima,gold", None),
        ("shop 3,30,Lima,Gold", None),
    ],
)
def test_spellings_of_one_owner_or_class_are_one_or_refused(
    tmp_path: Path, line: str, owners: tuple[str, ...] | None
) -> None:
    path = shops(tmp_path / "t.csv")
    written(path, path.read_text() + f"{line}\n")
    if owners is None:
        with pytest.raises(DataError):
            OwnTable(options(path))
    else:
        table = OwnTable(options(path, public="shop\u200a3"))
        assert table.owners == tuple(sorted(("shop 0", "shop 1", "shop 2", *owners)))
        assert table.classes == TIERS


def test_one_file_is_not_private_and_public(tmp_path: Path) -> None:
    path = shops(tmp_path / "t.csv")
    (tmp_path / "hard.csv").hardlink_to(path)
    (tmp_path / "soft.csv").symlink_to(path)
    for other in ("t.csv", "hard.csv", "soft.csv"):
        with pytest.raises(DataError, match="private and public"):
            OwnTable(options(path, public=str(tmp_path / other)))


@pytest.mark.parametrize(
    ("kind", "remarked"), [("all", True), ("an owner's", True), ("others", False), ("codes", False)]
)
def test_public_rows_that_are_private_ones_are_remarked_on(tmp_path: Path, kind: str, remarked: bool) -> None:
    """Only to the holder: what is public may not depend on it. Rows of few values are alike by chance."""
    generator = np.random.default_rng(5)
    head, *lines = shops(tmp_path / "t.csv").read_text().splitlines()
    if kind != "codes":
        lines = [line.replace(",", f",{generator.normal():.3f}", 1) for line in lines]
    chosen = {"all": lines, "an owner's": lines[::4], "others": lines[:30], "codes": lines[:30]}[kind]
    private = lines[30:] if kind in ("others", "codes") else lines
    public = written(tmp_path / "public.csv", "\n".join([head, *chosen]))
    written(tmp_path / "t.csv", "\n".join([head, *private]))
    split = OwnTable(options(tmp_path / "t.csv", public=str(public))).deal(4, seed=0)
    assert ["public rows" in remark for remark in split.remarks] == [True] * remarked
    assert not split.cautions


def test_what_is_held_out_by_its_key_depends_on_nothing_else() -> None:
    """Not on the order, the number, or what else is there; the share is met within five deviations."""
    generator = np.random.default_rng(0)
    keys = row_keys(generator.normal(size=(4000, 2)), np.arange(4000) % 7, ["north"] * 4000)
    held = coins(keys, 0.2, 3)
    assert abs(held.mean() - 0.2) < 5 * (0.16 / 4000) ** 0.5
    order = generator.permutation(4000)
    assert np.array_equal(coins([keys[place] for place in order], 0.2, 3), held[order])
    assert np.array_equal(coins(keys[17:18], 0.2, 3), held[17:18])
    assert not np.array_equal(coins(keys, 0.2, 4), held)
    assert not coins(keys, 0.0, 3).any()
    assert coins([], 0.2, 3).shape == (0,)


@given(
    st.lists(st.tuples(st.sampled_from((0.0, -0.0, 1.0)), st.integers(0, 1), st.sampled_from("ab")), max_size=12),
    st.data(),
)
def test_a_row_more_adds_a_key_and_changes_no_other(rows: list[tuple[float, int, str]], data: st.DataObject) -> None:
    """Wherever it stands and whatever it equals; equal rows part, and rows of two owners as well."""

    def keys(rows: list[tuple[float, int, str]]) -> list[bytes]:
        x, y, owners = zip(*rows, strict=True) if rows else ((), (), ())
        return row_keys(np.array(x).reshape(-1, 1), np.array(y, dtype=np.int64), owners)

    before = keys(rows)
    assert len(set(before)) == len(rows)
    more = data.draw(st.tuples(st.sampled_from((0.0, 2.0)), st.integers(0, 1), st.sampled_from("abc")))
    at = data.draw(st.integers(0, len(rows)))
    assert len(set(keys([*rows[:at], more, *rows[at:]])) - set(before)) == 1
    assert set(keys([*rows[:at], more, *rows[at:]])) > set(before)


@pytest.mark.parametrize("owners", [10, 600])
@pytest.mark.parametrize("party", ["shop", None])
def test_equal_rows_are_not_held_out_together(tmp_path: Path, owners: int, party: str | None) -> None:
    """Of 16 different rows with their labels a fifth each, within five deviations, whoever has how many of them."""
    generator = np.random.default_rng(0)
    cells = generator.choice(["x", "y"], size=(3000, 4)).tolist()
    lines = [f"shop {place % owners},{','.join(row)}" for place, row in enumerate(cells)]
    lines += [f"open,{','.join(row)}" for row in cells[:40]]
    path = written(tmp_path / "t.csv", "\n".join(["shop,a,b,c,tier", *lines]) + "\n")
    public = written(tmp_path / "open.csv", "\n".join(["shop,a,b,c,tier", *lines[-40:]]) + "\n")
    about = {"public": "open"} if party else {"public": str(public), "party": None, "ignore": ("shop",)}
    table = OwnTable(options(path, **about))
    for seed in range(3):
        split = table.deal(owners, seed, by_content=True)
        held = Counter(map(str, np.column_stack([split.X_test, split.y_test])))
        whole = Counter(map(str, np.column_stack([split.dataset.X_train, split.dataset.y_train])[:3000]))
        assert len(whole) == 16
        assert all(abs(held[row] - count / 5) < 5 * (0.16 * count) ** 0.5 for row, count in whole.items())
