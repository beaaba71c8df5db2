"""Values that cannot be mistaken, planted in private data, and a search for them in everything that leaves a role.

Searched are the numbers and words of the rows, and what follows from them. In bytes a number is its 8 bytes, in either
order; in text it is rounded to 9 digits or more, or to 5 if it tells of a party as a whole.
"""

from __future__ import annotations

import json
import logging
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from starlette.testclient import TestClient
from typer.testing import CliRunner

from psephos.audit import Tampering
from psephos.audit.studies import trial
from psephos.cli.main import build
from psephos.data.datasets import Dataset
from psephos.data.splits import Split, split_dataset
from psephos.parties.learners import make_learner
from psephos.parties.training import train_parties
from psephos.protocol.agent import Agent
from psephos.protocol.board import MemoryBoard
from psephos.protocol.errors import PsephosError
from psephos.protocol.roles import Entry, Post, Role
from psephos.protocol.storage.store import Store
from psephos.protocol.transcript import Transcript
from psephos.results.evaluation import Evaluation
from psephos.results.runs import RunResult
from psephos.results.write import write_report
from psephos.simulation.options import TallyOptions
from psephos.simulation.pathak import PathakOptions, simulate_pathak
from psephos.simulation.psgd import PsgdOptions, simulate_psgd
from psephos.simulation.tally import simulate_tally
from psephos.specs.terms import StudyTerms
from psephos.study.card import card
from psephos.study.monitor import Follower
from psephos.study.release import make_release, read_release
from psephos.study.roles import curator_role, holder_role, party_role
from psephos.study.samples import PublicSamples
from psephos.study.watch.app import application

Array = NDArray[np.float64]
SIZES = (2003, 2011, 2017, 2027)
"""Rows of each party: primes that nothing else here is as large as."""


@dataclass(frozen=True)
class Canaries:
    """What is searched for."""

    few: dict[float, str] = field(repr=False)
    whole: dict[int, str] = field(repr=False)
    many: Array = field(repr=False)
    words: tuple[str, ...] = ()

    @cached_property
    def every(self) -> Array:
        """All numbers but whole ones, in order."""
        numbers: Array = np.unique(np.concatenate([[*self.few], self.many]))
        return numbers

    def assert_absent(self, output: str | bytes, where: str, besides: Iterable[float] = ()) -> None:
        """Fail when any of them is in the output; `besides`: what the matrix says is meant."""
        few, every, meant = np.array([*self.few]), self.every, set(besides)
        text = output.decode("latin-1") if isinstance(output, bytes) else output
        for word in self.words:
            assert word not in text, f"{where} holds {word!r}"
        if isinstance(output, bytes):
            for offset in range(8):
                length = (len(output) - offset) // 8 * 8
                for order in "<>":
                    held = np.frombuffer(output[offset : offset + max(length, 0)], dtype=f"{order}f8")
                    at = np.minimum(np.searchsorted(every, held), len(every) - 1)
                    assert not (every[at] == held).any(), f"{where} holds a number of a row, or what follows from one"
            return
        for token in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])", text):
            if re.fullmatch(r"-?\d+", token):
                known = int(token) in self.whole and int(token) not in meant
                assert not known, f"{where} tells {self.whole[int(token)]}: {token}"
            digits = len(re.sub(r"[eE].*|\D", "", token).lstrip("0"))
            if digits >= 5 and 0 < (value := abs(float(token))) < float("inf"):  # a digest can read 5912161e5186
                size = 0.51 * 10.0 ** (np.floor(np.log10(value)) + 1 - min(digits, 15))
                among = few if digits < 9 else every
                matches = set(among[np.abs(np.abs(among) - value) <= size].tolist()) - meant
                assert not matches, f"{where} tells {[self.few.get(v, 'a number of a row') for v in matches]}: {token}"

    def file(self, path: Path, where: str) -> None:
        """As `assert_absent`, of a file that holds numbers in bytes and in text; whole ones are there by chance."""
        self.assert_absent(path.read_bytes(), where)
        self.assert_absent(path.read_bytes().decode("latin-1"), where, self.whole)


@cache
def private() -> Split:
    """Four parties with rows of many digits; the public rows and those to measure on are nobody's."""
    draw = np.random.default_rng(5)
    size = sum(SIZES) + 100
    X = draw.normal(size=(2 * size, 3)) + 0.2
    y = (X @ np.array([1.0, -0.6, 0.3]) + 0.4 * draw.normal(size=len(X)) > 0).astype(np.int64)
    data = Dataset("made up", X, y, None, None, ("no", "yes"), "made up here")
    split = split_dataset(data, len(SIZES), 3, auxiliary=60)
    rows = np.concatenate(split.parties)
    cut = np.split(rows[: sum(SIZES)], np.cumsum(SIZES)[:-1])
    return replace(split, parties=tuple(cut))


def canaries(scaler: Any) -> Canaries:
    """Of that data, given how rows are scaled."""
    few: dict[float, str] = {}
    whole: dict[int, str] = {}
    many = []
    for number in range(len(SIZES)):
        X, y = private().party(number)
        rows, signs = scaler.transform(X), 2.0 * y - 1
        many += [X.ravel(), rows.ravel(), np.linalg.norm(X, axis=1)]
        slope = (-expit(0 * signs) * signs) @ rows
        ((w),) = train_parties(rows, y, [len(y)], classes=2, lam=1e-4)
        about = {
            "least": X.min(axis=0), "largest": X.max(axis=0), "mean": X.mean(axis=0), "gradient": slope,
            "gradient's norm": [np.linalg.norm(slope)], "parameters": w, "parameters' norm": [np.linalg.norm(w)],
            "largest norm": [np.linalg.norm(X, axis=1).max()],
        }  # fmt: skip
        few |= {float(v): f"the {name} of party {number}" for name, values in about.items() for v in values}
        whole |= {len(y): f"the size of party {number}", int(y.sum()): f"how many labels of party {number} are yes"}
    return Canaries(few, {n: what for n, what in whole.items() if n > 60}, np.concatenate(many))


@contextmanager
def logged() -> Iterator[list[str]]:
    """Everything that is logged meanwhile, with what is attached to it."""
    lines: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            about, failed = getattr(record, "about", ""), record.exc_info
            lines.append(f"{record.getMessage()} {about} {failed and failed[1]!r}")

    logger, handler = logging.getLogger("psephos"), Handler(logging.DEBUG)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


# -- simulations

SMALL: dict[str, Any] = {"parties": 4, "key_bits": 384, "test_key": True, "seed": 3}
Run = Callable[..., Any]


def _tally(reveal: str, **how: Any) -> Any:
    more = {"holders": 3, "threshold": 2, "workers": 1, "draws": 1, "epsilon": (1.0,), "reveal": reveal}
    options = TallyOptions(**SMALL | more | {k: how.pop(k) for k in ("journal",) if k in how})
    return simulate_tally(options, data=private(), **how)


def _psgd(**how: Any) -> Any:
    settings: dict[str, Any] = {"holders": 3, "threshold": 2, "steps": 2, "epsilon": 1.0, "lam": 0.1}
    options = PsgdOptions(**SMALL | settings | {k: how.pop(k) for k in ("party_bound", "journal") if k in how})
    return simulate_psgd(options, data=private(), **how)


def _pathak(variant: str, **how: Any) -> Any:
    return simulate_pathak(PathakOptions(**SMALL, variant=variant, lam=0.1), data=private(), **how)  # type: ignore[arg-type]


RUNS: dict[str, Run] = {
    "alpha": partial(_tally, "alpha"),
    "statistic": partial(_tally, "statistic"),
    "psgd": _psgd,
    "public-bound": partial(_pathak, "public-bound"),
    "repaired": partial(_pathak, "repaired"),
}
SIZES_ARE_PUBLIC = ("psgd",)


def simulations(name: str, directory: Path) -> None:
    """Messages, log, JSON, report and figures of one run."""
    transcript, public = Transcript(secrets=True), SIZES if name in SIZES_ARE_PUBLIC else ()
    with logged() as lines:
        outcome = RUNS[name](transcript=transcript)
    bank = canaries(outcome.evaluation.scaler)
    assert len(transcript.messages) > 10
    for number, message in enumerate(transcript.messages):
        assert message.data is not None
        bank.assert_absent(message.data, f"message {number} of {name}, a {message.kind}")
    bank.assert_absent(json.dumps(transcript.redacted()), f"the transcript of {name}")
    bank.assert_absent("\n".join(lines), f"the log of {name}")
    # What compares with data in one place is a simulation's own, and said to be (docs/security/what-leaves.md).
    bank.assert_absent(json.dumps(outcome.as_json()), f"the result of {name}", public)
    write_report(outcome, transcript.redacted(), directory)
    for path in directory.rglob("*"):
        if path.is_file() and path.suffix in (".html", ".json", ".md"):
            text = re.sub(r"(?s)<(style|script|svg).*?</\1>|<[^>]*>", " ", path.read_text("utf-8"))
            bank.assert_absent(text, f"{path.name} of {name}'s report", public)
        elif path.suffix == ".svg":
            # Places on the paper have few digits, and many of them: there, numbers of nine digits and more.
            source = path.read_text("utf-8")
            text = re.sub(r"(?s)<(style|metadata|defs).*?</\1>|<[^>]*>", " ", source)
            bank.assert_absent(text, f"what is written in {path.name}")
            bank.assert_absent(
                " ".join(re.findall(r"-?\d+\.\d{8,}(?:e-?\d+)?", source)), f"what is drawn in {path.name}", public
            )


def journals(name: str, directory: Path) -> None:
    """What a run keeps to go on from is its owner's only, and has no row in it."""
    evaluation = RUNS[name](journal=str(directory / "journal")).evaluation
    bank, looked = canaries(evaluation.scaler), 0
    for path in (directory / "journal").rglob("*"):
        assert path.stat().st_mode & 0o77 == 0, f"others can read {path.name}"
        if path.is_file():
            bank.file(path, f"{path.name} of {name}'s journal")
            looked += path.stat().st_size
    assert looked > 10_000


# -- errors


def _raised(run: Callable[[], RunResult]) -> str:
    """Everything that is said when it fails, or of what went wrong in it; empty when nothing did."""
    try:
        return "\n".join(map(str, run().deviations))
    except PsephosError as raised:
        message, error = "", cast("BaseException | None", raised)
        while error is not None:
            message += f"{type(error).__name__}: {error} {error.args!r}\n"
            error = error.__cause__ or error.__context__
        return message


def gradient_errors() -> None:
    """A gradient that is too long for what was agreed on: what its party says, and what the run does."""
    evaluation = Evaluation()
    message = _raised(lambda: _psgd(party_bound=0.5, evaluation=evaluation))
    assert "GradientBoundError" in message
    canaries(evaluation.scaler).assert_absent(message, "a GradientBoundError", SIZES)


def fault_messages(name: str, every: int) -> int:
    """Each `every`-th message of a run is lost, cut, changed in a byte or sent twice; returns how many errors, or
    lists of deviations, were looked at."""
    transcript = Transcript()
    bank, looked = canaries(RUNS[name](transcript=transcript).evaluation.scaler), 0
    senders = sorted({message.sender for message in transcript.messages})
    faults: dict[str, Callable[[Post], list[Post]]] = {
        "lost": lambda post: [],
        "cut": lambda post: [replace(post, data=post.data[: len(post.data) // 2])],
        "changed": lambda post: [replace(post, data=post.data[:-3] + bytes([post.data[-3] ^ 4]) + post.data[-2:])],
        "twice": lambda post: [post, post],
    }
    for place in range(0, len(transcript.messages), every):
        for fault, change in faults.items():
            count = iter(range(10**6))

            class Faulty(Tampering):
                def send(
                    self, post: Post, seen: Sequence[Entry], change: Any = change, count: Any = count, at: int = place
                ) -> Iterable[Post]:
                    return change(post) if next(count) == at else [post]

            with logged() as lines:
                error_text = _raised(lambda: RUNS[name](roles=dict.fromkeys(senders, Faulty)))
            where = f"message {place} of {name} {fault}"
            bank.assert_absent(error_text, f"the error when {where}", SIZES)
            bank.assert_absent("\n".join(lines), f"the log when {where}")
            looked += bool(error_text)
    return looked


# -- tables: the main job, and a study

TOWN = "Zürich-canary"  # a word of private rows alone
COLUMNS = ["age", "height", "weight"]


def table(directory: Path) -> tuple[Any, PublicSamples]:
    """Everybody's rows with a column of words, of which the public ones, in a file, have two others."""
    import pandas as pd

    split = private()
    frame = pd.DataFrame(split.dataset.X_train, columns=COLUMNS)
    frame["town"] = np.where(np.arange(len(frame)) % 2, "Bern", "Basel")
    frame["class"] = np.array(["no", "yes"])[split.dataset.y_train]
    frame.iloc[split.auxiliary].drop(columns="class").to_csv(directory / "public.csv", index=False)
    frame.loc[np.concatenate(split.parties), "town"] = TOWN
    return frame, PublicSamples.read(directory / "public.csv", "class")


def job(directory: Path) -> None:
    """`psephos run` as it is typed: model and card, log, temporary files; what it keeps is its owner's to read."""
    frame, samples = table(directory)
    owners = [(number, row) for number, rows in enumerate(private().parties) for row in rows]
    own = frame.iloc[[row for _, row in owners]].assign(who=[f"hospital {number}" for number, _ in owners])
    own.to_csv(directory / "table.csv", index=False)
    out, temporary = directory / "out", directory / "tmp"
    temporary.mkdir()
    words = f"run --data {directory}/table.csv --label class --party who --public {directory}/public.csv --held-out 0 "
    words += "--classes no,yes --anyway "
    words += f"--output {out} --key-bits 512 --test-key --workers 1 --holders 3 --threshold 2 --json"
    before, tempfile.tempdir = tempfile.tempdir, str(temporary)
    try:
        with logged() as lines:
            done = CliRunner().invoke(build(), words.split(), catch_exceptions=False)
    finally:
        tempfile.tempdir = before
    assert done.exit_code == 0, done.output
    bank = replace(canaries(samples_scaler(samples)), words=(TOWN,))
    for name in ("model.json", "card.md"):
        bank.assert_absent((out / name).read_text("utf-8"), name)
    bank.assert_absent("\n".join(lines), "the log of psephos run")
    for path in temporary.rglob("*"):
        bank.assert_absent(path.read_bytes(), f"the temporary file {path.name}")
    assert (out / "result.json").stat().st_mode & 0o77 == 0, "others can read accuracies on private rows"


def study(directory: Path) -> None:
    """A study over a board in memory, from joining to the card: every entry, every refusal, the log, model and card."""
    split, (frame, samples) = private(), table(directory)
    made = trial(
        parties=4, classes=("no", "yes"), features=samples.features, public_table=samples.digest,
        samples=len(samples.auxiliary.samples), proofs="valid", key_bits=128,
    )  # fmt: skip
    terms, board, agents = StudyTerms(made.study, samples), MemoryBoard(), {}
    stores = {name: directory / "stores" / f"{name}.sqlite" for name in made.study.members.keys}
    for name in made.study.members.keys:
        kind, _, number = name.partition(" ")
        store = Store(stores[name])
        role: Role
        if kind == "curator":
            role = curator_role(terms, lambda opened: make_release(made.study, samples, opened), store)
        elif kind == "holder":
            role = holder_role(terms, int(number), store)
        else:
            own = frame.iloc[split.parties[int(number)]]
            own.to_csv(directory / f"{number}.csv", index=False)
            rows, classes = samples.private(made.study, directory / f"{number}.csv")
            role = party_role(
                terms, int(number), made.keys[name], make_learner("logistic", classes=2).fit(rows, classes), store
            )
        agents[name] = Agent(role, made.study.members, made.keys[name], board, store)
    with logged() as lines:
        while any(agent.step() for agent in agents.values()) or agents["curator"].result is None:
            if agents["curator"].role.is_ready(agents["curator"].state):
                agents["curator"].on_idle()
    bank = replace(canaries(samples_scaler(samples)), words=(TOWN,))
    assert len(board.entries) > 30
    for place, entry in enumerate(board.entries, 1):
        bank.assert_absent(entry, f"entry {place} of the board")
    bank.assert_absent("\n".join(lines), "the log of a study")
    content = agents["curator"].result.content
    bank.assert_absent(content.decode(), "the model")
    bank.assert_absent(card(made.study, read_release(made.study, samples, content)), "the card")
    follower = Follower(made.study, lambda: board, StudyTerms(made.study, samples))
    follower.step()
    with TestClient(application(follower)) as client:
        for page in ("/", "/state.json"):
            bank.assert_absent(client.get(page).text, f"{page} of whoever watches")
    for name, path in stores.items():
        for file in path.parent.glob(f"{path.name}*"):
            bank.file(file, f"{file.name}, which {name} keeps")


def samples_scaler(samples: PublicSamples) -> Any:
    """Rows of numbers as the study's scaler takes them: two towns, of which a private row is neither."""

    class Scaled:
        def transform(self, X: Array) -> Array:
            import pandas as pd

            rows = pd.DataFrame(X, columns=COLUMNS).astype(str).assign(town="elsewhere")
            return samples.scaler.transform(samples.encoding.apply(rows))

    return Scaled()
