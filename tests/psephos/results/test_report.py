"""Run reports: the page shows exactly the result's numbers and the transcript's messages, and asks for nothing."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import re
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.audit.run import CASES
from psephos.curator.ledger import Release
from psephos.protocol.errors import ReportError
from psephos.protocol.transcript import Transcript
from psephos.protocol.wire import Kind
from psephos.results.base import ALPHA_NOTICE, Accuracy, Alpha, AuditedCell, Curve, Panel, Result, timed
from psephos.results.document import Message
from psephos.results.papers import PaperResult, beside
from psephos.results.runs import InterruptedResult, TallyResult
from psephos.results.security import (
    AttackedRelease,
    AuditedCoalition,
    AuditedProtocol,
    AuditResult,
    Mechanism,
    PrivacyAuditResult,
)
from psephos.results.sequence import arrange, contents_of, family
from psephos.results.write import report_from_json, write_report
from psephos.simulation.options import TallyOptions
from psephos.simulation.pathak import PathakOptions, simulate_pathak
from psephos.simulation.psgd import PsgdOptions, simulate_psgd
from psephos.simulation.tally import simulate_tally

Row = list[tuple[str, str | None]]

DASH = "\N{EN DASH}"


class Page(HTMLParser):
    """What a test needs of a page: tables as rows of (text, data value), arrows, ids, what it would load."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tables: dict[str, list[Row]] = {}
        self.arrows: list[dict[str, str]] = []
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.unclosed: list[str] = []
        self._table: str | None = None
        self._cell = False
        self.source = path.read_text(encoding="utf-8")
        self.text = ""
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags[tag] += 1
        if tag not in ("meta", "br", "hr", "img", "input"):
            self.unclosed.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        self.loads += [given[name] for name in ("src", "href", "xlink:href", "action", "srcset") if name in given]
        if tag == "table":
            self._table = given.get("id", given.get("class", ""))
            self.tables[self._table] = []
        elif tag == "tr" and self._table is not None:
            self.tables[self._table].append([])
        elif tag in ("td", "th") and self._table is not None:
            self.tables[self._table][-1].append(("", None))
            self._cell = True
        elif tag == "data" and self._table is not None and self.tables[self._table][-1][-1][1] is None:
            self.tables[self._table][-1][-1] = ("", given["value"])
        elif tag == "g" and "data-count" in given:
            self.arrows.append(given)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if self.unclosed[-1:] == [tag]:
            self.unclosed.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.unclosed[-1:] == [tag], f"</{tag}> closes <{self.unclosed[-1:]}>"
        self.unclosed.pop()
        if tag == "table":
            self._table = None
        elif tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._table is not None and self._cell:
            text, value = self.tables[self._table][-1][-1]
            self.tables[self._table][-1][-1] = (text + data, value)

    def body(self, table: str) -> list[Row]:
        return self.tables[table][1:]


@pytest.fixture(scope="module")
def run() -> tuple[TallyResult, list[dict[str, Any]]]:
    """A real run, small enough to take a second, and its redacted transcript."""
    transcript = Transcript()
    options = TallyOptions(parties=6, key_bits=512, test_key=True, holders=3, threshold=2, workers=1, draws=2)
    result = simulate_tally(options, transcript=transcript)
    assert isinstance(result, TallyResult)
    return replace(result, alpha=Alpha.of(COUNTS)), transcript.redacted()


@pytest.fixture(scope="module")
def result(run: tuple[TallyResult, list[dict[str, Any]]]) -> TallyResult:
    return run[0]


@pytest.fixture
def messages(run: tuple[TallyResult, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return copy.deepcopy(run[1])


@pytest.fixture(scope="module")
def whole(run: tuple[TallyResult, list[dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of that run's report, with everything a report can have. Tests only read it."""
    directory = tmp_path_factory.mktemp("report")
    write_report(*run, directory, command=["psephos", "run", "--report", "my out"])
    return directory


@pytest.fixture(scope="module")
def page(whole: Path) -> Page:
    return Page(whole / "report.html")


COUNTS = np.array([[6, 0], [1, 5], [3, 3], [0, 6]])


def typed(messages: list[dict[str, Any]]) -> list[Message]:
    return msgspec.convert(messages, list[Message])


def message(number: int, kind: str = "ballot", phase: str = "cast", size: int = 10) -> dict[str, Any]:
    return {"phase": phase, "from": f"party {number}", "to": "board", "kind": kind, "bytes": size, "sha256": "0" * 64}


# -- the page says what the JSON says


def test_the_table_has_exactly_the_numbers_of_the_result(result: TallyResult, page: Page) -> None:
    rows = {}
    for row in page.body("results"):
        name = row[0][0].split()[0]
        rows[name] = dict(zip(("nonprivate", "private", "balanced"), row[1:], strict=True))
    for name, accuracy in result.accuracy.items():
        values = asdict(accuracy)
        for key, (text, value) in rows.pop(name).items():
            assert (None if value is None else json.loads(value)) == values[key]
            std = values.get(f"{key}_std")
            spread = "" if std is None else f"± {std:.3f}"
            assert text.strip() == (DASH if value is None else f"{values[key]:.3f}") + spread
    assert not rows


def test_every_entry_of_the_json_is_on_the_page(result: TallyResult, page: Page) -> None:

    def leaves(value: Any, path: str = "") -> dict[str, Any]:
        if isinstance(value, dict):
            parts = [leaves(inner, f"{path}.{key}" if path else key) for key, inner in value.items()]
        elif isinstance(value, list):
            parts = [leaves(inner, f"{path}[{n}]") for n, inner in enumerate(value)]
        else:
            return {path: value}
        return {key: inner for part in parts for key, inner in part.items()}

    assert {row[0][0].strip(): json.loads(row[1][1] or "") for row in page.body("all")} == leaves(result.as_json())
    seconds = {row[0][0]: json.loads(row[1][1] or "") for row in page.body("seconds")}
    assert seconds == {phase.replace("_", " "): duration for phase, duration in result.seconds.items()}


def test_the_diagram_has_exactly_the_transcripts_messages(messages: list[dict[str, Any]], page: Page) -> None:
    arrows: Counter[tuple[str, str, str]] = Counter()
    size: Counter[tuple[str, str, str]] = Counter()
    for arrow in page.arrows:
        key = (arrow["data-from"], arrow["data-to"], arrow["data-kind"])
        arrows[key] += int(arrow["data-count"])
        size[key] += int(arrow["data-bytes"])
    keys = [(family(m["from"]), family(m["to"]), m["kind"]) for m in messages]
    assert arrows == Counter(keys)
    assert size == Counter(
        {k: sum(m["bytes"] for m, mine in zip(messages, keys, strict=True) if mine == k) for k in keys}
    )
    listed = [
        (row[1][0], row[2][0], row[3][0], row[4][0], json.loads(row[5][1] or "")) for row in page.body("transcript")
    ]
    assert listed == [(m["phase"], m["from"], m["to"], m["kind"], m["bytes"]) for m in messages]


UNICODE = json.dumps({"format": 4, "kind": "interrupted", "protocol": "\ud800", "options": {}, "stopped": "x"})

ROLES = st.sampled_from(["board", "curator", *(f"party {n}" for n in range(9)), *(f"holder {n}" for n in range(4))])
MESSAGES = st.lists(
    st.builds(
        lambda phase, sender, receiver, kind, size: {
            "phase": phase, "from": sender, "to": receiver, "kind": kind, "bytes": size, "sha256": "",
        },
        st.sampled_from(["cast", "open", *(f"step {n}" for n in range(12))]),
        ROLES,
        ROLES,
        st.sampled_from(["ballot", "tally request", "partial decryption", "something new"]),
        st.integers(0, 10**9),
    ),
    max_size=120,
)  # fmt: skip


@given(MESSAGES)
def test_arrows_add_up_to_the_number_of_messages(messages: list[dict[str, Any]]) -> None:
    lanes, blocks = arrange(typed(messages))
    arrows = [arrow for block in blocks for arrow in block.arrows]
    assert sum(arrow.count for arrow in arrows) == len(messages)
    assert sum(arrow.total for arrow in arrows) == sum(m["bytes"] for m in messages)
    kinds: Counter[str] = Counter()
    for arrow in arrows:
        kinds[arrow.kind] += arrow.count
        assert min(arrow.sizes) * arrow.count <= arrow.total <= max(arrow.sizes) * arrow.count
        assert {arrow.sender, arrow.receiver} <= set(lanes)
    assert kinds == Counter(m["kind"] for m in messages)


def test_every_kind_that_the_protocols_send_is_described(messages: list[dict[str, Any]]) -> None:
    kinds = {m["kind"] for m in messages} | {kind.title for kind in Kind}
    assert not [kind for kind in kinds if contents_of(kind).look == "unknown"]


def test_alpha_is_marked_wherever_it_is_shown(whole: Path, page: Page) -> None:
    assert f"{ALPHA_NOTICE}." in page.text
    svg = (whole / "figures" / "alpha.svg").read_text()
    assert all(part in svg for part in ALPHA_NOTICE.split(": "))
    saved = json.loads((whole / "report.json").read_text())["result"]["alpha"]
    assert saved["notice"] == ALPHA_NOTICE
    assert sum(saved["samples_per_share"]) == len(COUNTS)
    assert saved["mean_alpha"] == pytest.approx((COUNTS / 6).mean(axis=0))


def test_a_report_says_who_adds_the_noise(run: tuple[TallyResult, list[dict[str, Any]]]) -> None:
    result, _ = run
    by_parties = replace(result, options=result.options | {"reveal": "statistic"}, colluders=1, alpha=None)
    for each, adds in ((result, "noise that it adds"), (by_parties, "noise that the parties added")):
        page = each.page()
        (released,) = page.about("after")
        assert released.label == "curator"
        assert adds in released.value
        assert any("the curator adds the noise" in note.lower() for note in page.texts("note")) is (each is result)


@pytest.mark.parametrize("name", list(CASES))
def test_the_matrix_of_a_run_is_the_expected_one(name: str, tmp_path: Path) -> None:
    page = Page(write_report(InterruptedResult(protocol=name, options={}, stopped="at once"), None, tmp_path))
    assert "This run did not test it" in page.text
    case = CASES[name]
    (table,) = (table for table in page.tables if table.startswith("matrix"))
    for coalition, row in zip(case.coalitions, page.body(table), strict=True):
        assert row[0][0].strip() == coalition.name
        for secret, (text, _) in zip(case.secrets, row[1:], strict=True):
            assert coalition.expected(secret) in text
            reasons = (*coalition.granted.values(), *coalition.known_leaks.values())
            assert all(why.replace("`", "") in page.text for why in reasons)


# -- one document, one page


def test_a_report_is_drawn_again_byte_for_byte(whole: Path, tmp_path: Path) -> None:
    again = report_from_json(whole / "report.json", tmp_path)
    files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    assert {path.suffix for path in files} == {".html", ".json", ".svg", ".png"}
    for path in files:
        assert (whole / path).read_bytes() == (tmp_path / path).read_bytes(), path
    assert "psephos run --report 'my out'" in Page(again).text


# -- nothing is asked of anybody, and everybody can read it


def check_alone(page: Page) -> None:
    assert not {"script", "link", "img", "iframe", "object", "embed", "form", "foreignobject"} & set(page.tags)
    assert all(target.startswith("#") for target in page.loads)
    assert {target[1:] for target in page.loads} <= set(page.ids)
    assert not re.search(r"@import|url\(\s*['\"]?(?!#)", page.source)
    assert "Content-Security-Policy" in page.source
    assert len(page.ids) == len(set(page.ids))
    # Namespaces are names, not addresses; nothing else may look like one.
    addresses = set(re.findall(r"https?://[^\"' <]+", page.source))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


@pytest.mark.slow
def test_texts_in_the_json_are_escaped(result: TallyResult, messages: list[dict[str, Any]], tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>$x$"
    named = {"dataset": evil, "remarks": [evil], "cautions": [evil], "class_names": [evil, "b"]}
    changed = replace(result, accuracy=result.accuracy | {evil: Accuracy(0.5)}, **named)
    messages[0] |= {"kind": evil, "from": evil, "phase": evil}
    page = Page(write_report(changed, messages, tmp_path, command=[evil]))
    assert page.tags["script"] == 0
    assert evil in page.text


KINDS = ("tally", "statistic", "pathak", "psgd", "interrupted", "audit", "privacy-audit", "paper")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_report_is_self_contained(kind: str, reports: dict[str, Path]) -> None:
    """Without a browser: it is well-formed, what it refers to is in it, and it refers to nothing else."""
    page = Page(reports[kind])
    check_alone(page)
    assert page.unclosed == []
    referred = set(re.findall(r'(?:aria-labelledby|aria-describedby)="([^"]+)"', page.source))
    referred |= set(re.findall(r"url\(#([^)]+)\)", page.source))
    assert {name for names in referred for name in names.split()} <= set(page.ids)
    assert not re.search(r"(?:fill|stroke|color)\s*[:=]\s*\"?#[0-9a-fA-F]{3,6}", page.source.split("</style>", 1)[1])
    for words in ("Repeat it", "Every number", "Time and bytes"):
        assert words in page.text
    empty = [name for name, rows in page.tables.items() for row in rows[1:] for text, _ in row if not text.strip()]
    assert empty == [], "a cell that says nothing"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tally", "statistic", "pathak", "psgd"])
def test_a_result_without_one_of_its_options_is_refused_or_shown(kind: str, reports: dict[str, Path]) -> None:
    saved = json.loads(reports[kind].with_name("report.json").read_text())["result"]
    for name in saved["options"]:
        options = {key: value for key, value in saved["options"].items() if key != name}
        with suppress(ReportError):
            Result.from_json(saved | {"options": options}).page()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tally", "statistic", "pathak", "psgd"])
def test_a_report_has_all_promised_sections(kind: str, reports: dict[str, Path]) -> None:
    """Results; a ledger with mechanism, sensitivity and source; a diagram with what is inside; a matrix; costs."""
    page = Page(reports[kind])
    assert {"bought", "privacy", "messages", "knowledge", "cost", "repeat", "numbers"} <= set(page.ids)
    for row in page.body("ledger"):
        assert all(text.strip() not in ("", DASH, "not recorded") for text, _ in row[1:]), row
    saved = json.loads(reports[kind].with_name("report.json").read_text())
    received = {(family(m["to"]), m["kind"]) for m in saved["transcript"]}
    kinds = {(row[0][0].split()[0], row[1][0]) for row in page.body("kinds")}
    assert kinds == received
    assert all(contents_of(row[1][0]).inside == row[3][0] for row in page.body("kinds"))
    assert "not recorded" not in page.text.lower()
    assert " a secret" not in " ".join(row[2][0] for row in page.body("ledger")) or kind == "pathak"
    sees = re.findall(r'<g class="sees" data-role="([^"]+)">', page.source)
    assert set(sees) == {"pathak": {"board", "curator"}, "psgd": {"board"}}.get(kind, {"curator"})


BROWSER = importlib.util.spec_from_file_location(
    "docs_config_chromium", Path(__file__).resolve().parents[3] / "docs" / "config" / "chromium.py"
)
assert BROWSER is not None
assert BROWSER.loader is not None
browser = importlib.util.module_from_spec(BROWSER)
BROWSER.loader.exec_module(browser)

LOOK = """(() => {
  const faults = [];
  const channels = text => text.match(/[\\d.]+/g).map(Number);
  const light = c => c.slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const c = channels(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, words = walker.currentNode.data.trim();
    if (!words || element.closest("title,style") || !element.getClientRects().length) continue;
    const style = getComputedStyle(element), drawn = element.closest("svg");
    const ink = channels(drawn ? style.fill : style.color);
    if (ratio(ink, behind(element)) < 4.5) faults.push(`contrast ${ratio(ink, behind(element)).toFixed(2)}: ${words}`);
    let size = parseFloat(style.fontSize);
    if (drawn) size *= Math.hypot(element.getScreenCTM().a, element.getScreenCTM().b);
    if (size < 9.5) faults.push(`text of ${size.toFixed(1)} px: ${words}`);
  }
  for (const svg of document.querySelectorAll("svg.figure, svg.sequence")) {
    const boxes = [...svg.querySelectorAll("text")].filter(t => t.textContent.trim())
      .map(t => [t.textContent.trim(), t.getBoundingClientRect()]);
    boxes.forEach(([one, a], n) => boxes.slice(n + 1).forEach(([two, b]) => {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 2 && high > 3) faults.push(`"${one}" and "${two}" overlap`);
    }));
  }
  for (const table of document.querySelectorAll("table.matrix"))
    if (table.scrollWidth > table.parentElement.clientWidth + 1) faults.push("a matrix does not fit");
  const wide = document.documentElement.scrollWidth;
  if (wide > WIDTH) faults.push(`the page is ${wide} px wide on a screen of WIDTH`);
  return faults;
})()"""


@pytest.mark.browser
@pytest.mark.skipif(browser.CHROMIUM is None, reason="no Chromium here; the static checks above hold without it")
def test_every_kind_of_report_opens_in_chromium(reports: dict[str, Path]) -> None:
    """No console message and no request; each text in contrast and large enough, none over another, nothing cut off."""
    faults: dict[str, list[str]] = {}
    with browser.chromium() as chromium:
        for kind in KINDS:
            for width, dark, media in ((1200, False, ""), (400, True, ""), (700, True, "print")):
                chromium.open(reports[kind], width=width, dark=dark, media=media)
                where = f"{kind}, {width} px, {'dark' if dark else 'light'} {media}"
                problems = [*chromium.said(), *chromium.value(LOOK.replace("WIDTH", str(width)))]
                problems += chromium.requested() - {reports[kind].resolve().as_uri()}
                background = chromium.value("getComputedStyle(document.documentElement).backgroundColor")
                if (background == "rgb(255, 255, 255)") == (dark and media != "print"):
                    problems.append(f"the page is {background}")
                faults |= {where: problems} if problems else {}
    assert faults == {}


# -- bad input


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"\xff\xfe\x00",
        b'{"protocol": "tally", "accuracy": {"batch": 0.9',
        b'{"protocol": "tally"}{"protocol": "tally"}',
        b'{"protocol": "tally", "accuracy": {"batch": NaN}}',
        b'{"kind": "tally", "epsilon": 1e999}',
        b"[" * 100_000,
        b"[]",
        b"3",
        b'{"format": 4, "name": "a router"}',
        b'{"format": 4, "kind": "tally"}',
        b'{"format": 4, "kind": "report", "result": {}}',
        UNICODE.encode(),
    ],
)
def test_bad_files_are_refused_by_name_and_nothing_is_written(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(ReportError):
        report_from_json(tmp_path / "bad.json", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"options": {"simulate_noise": True}}, "nothing here is private"),
        ({"tally_equals_plaintext": False}, "Do not use this result"),
        ({"options": {"key_bits": 512}}, "protects nothing"),
        ({"options": {"threshold": 2, "holders": 5}}, "above half of the holders"),
        ({"cautions": ["one liar opens it"]}, "one liar opens it"),
    ],
)
def test_warnings_stand_first(result: TallyResult, tmp_path: Path, change: dict[str, Any], words: str) -> None:
    if "options" in change:
        change = {"options": result.options | change["options"]}
    header = Page(write_report(replace(result, **change), None, tmp_path)).source.split("<main>")[0]
    assert words in header


def test_a_saved_report_with_swapped_parts_is_refused(whole: Path, tmp_path: Path) -> None:
    saved = json.loads((whole / "report.json").read_text())
    for part, value in (
        ("environment", {"psephos": 3}),
        ("command", ["psephos"]),
        ("transcript", 3),
        ("result", saved),
    ):
        (tmp_path / "bad.json").write_text(json.dumps(saved | {part: value}))
        with pytest.raises(ReportError):
            report_from_json(tmp_path / "bad.json", tmp_path / "b")


def test_a_directory_without_write_access_is_refused(result: TallyResult, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ReportError, match="choose a directory"):
        write_report(result, None, tmp_path / "file")
    if os.geteuid():  # root writes everywhere
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(ReportError, match="choose a directory"):
            write_report(result, None, tmp_path / "locked" / "out")


def test_a_transcript_with_secrets_is_refused(result: TallyResult, tmp_path: Path) -> None:
    for bad in ({"data": "secret bytes"}, {"bytes": "12"}, {"bytes": -1}):
        with pytest.raises(ReportError) as caught:
            write_report(result, [message(0) | bad], tmp_path)
        assert "secret bytes" not in str(caught.value)
    with pytest.raises(ReportError, match="redacted"):
        write_report(result, [{"phase": "cast"}], tmp_path)


# -- the command


# -- one report of every kind, for the tests of what they have in common


def experiments() -> dict[str, Result]:
    """Small outcomes of `psephos reproduce`."""
    common: dict[str, Any] = {
        "paper": "Figure 2",
        "test": 9,
        "seed": 0,
        "draws_per_point": 4,
        "phases": timed({"total": 1.5}),
    }
    hostile = "<b>the paper's</b>"
    curves = [Curve("soft", [1.0, 10.0], [0.5, 0.25], [0.125, 0.125]), Curve("batch", [1.0, 10.0], [0.5, 0.5])]
    paper = PaperResult(
        experiment="hamm-har",
        quick=True,
        facts=[("Data", hostile, "")],
        panels=[
            Panel("9 parties", "1/epsilon", "accuracy", curves, note="NOT epsilon-private"),
            Panel("by parties", "parties", "test error", [Curve("gop", [5.0, 10.0], [0.5, 0.25])], log=False),
        ],
        privacy={"exponential": Release("a norm", None, 0.0, "party", source="printed", said="NONE: not private")},
        tables=beside([("soft", "0.76", "0.5", "reproduces", ""), ("avg", "0.67", "0.5", "not tested", "M differs")]),
        sums_equal_reference=True,
        **common,
    )
    return {"paper": paper}


AUDIT = AuditResult(
    protocols=[], as_expected=True, false_alarm_rate=0.01, power=0.8, views=80, seed=1, phases=timed({"total": 2.5})
)


def audits() -> dict[str, Result]:
    """Outcomes of `psephos audit`: of a protocol, as its analysis expects it; of the noise."""
    case = CASES["pathak-printed"]
    coalitions = [
        AuditedCoalition(
            coalition.name,
            list(coalition.members),
            {
                secret: AuditedCell(
                    coalition.expected(secret),
                    coalition.expected(secret),
                    f"simulation, {coalition.name}: 80 + 80 views; {secret} swapped: alike",
                )
                for secret in case.secrets
            },
        )
        for coalition in case.coalitions
    ]
    noise = Mechanism("laplace", 2, 1.0, 0.0, 0.75, 1000, 0.9999)
    attacked = AttackedRelease("own-data", 16, 1.0, 0.0, 0.75, 1000, 0.9999, success=0.69, allowed=0.73)
    return {
        "audit": replace(
            AUDIT, protocols=[AuditedProtocol(case.name, coalitions)], not_examined={"timing": "not modelled"}
        ),
        "privacy-audit": PrivacyAuditResult(mechanisms=[noise], attacked=[attacked], phases=timed({"total": 1.0})),
    }


@pytest.fixture(scope="module")
def reports(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of every kind, by name: runs that were really made, and results of the other commands' shapes."""
    pages = {"tally": whole / "report.html"}
    command = ["psephos", "run"]

    def write(kind: str, result: Any, transcript: Transcript | None = None) -> None:
        messages = None if transcript is None else transcript.redacted()
        pages[kind] = write_report(result, messages, tmp_path_factory.mktemp(kind), command=command)

    small: dict[str, Any] = {"key_bits": 512, "test_key": True}
    transcript = Transcript()
    options = TallyOptions(parties=6, holders=3, threshold=2, workers=1, reveal="statistic", **small)
    write("statistic", simulate_tally(options, transcript=transcript), transcript)
    transcript = Transcript()
    pathak = PathakOptions(parties=3, variant="printed", **small)
    write("pathak", simulate_pathak(pathak, transcript=transcript), transcript)
    transcript = Transcript()
    write("psgd", simulate_psgd(PsgdOptions(parties=4, steps=6, **small), transcript=transcript), transcript)
    # As many lanes as a diagram has.
    few = [message(number) for number in range(4)]
    few.append({**message(0, "tally request"), "from": "curator", "to": "holder 1"})
    stopped = InterruptedResult(protocol="tally", options={"dataset": "digits"}, stopped="at once")
    pages["interrupted"] = write_report(stopped, few, tmp_path_factory.mktemp("interrupted"))
    for kind, result in (*audits().items(), *experiments().items()):
        write(kind, result)
    return pages
