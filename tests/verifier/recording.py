"""Records studies for the second verifier: every role plays its part, as in a real study, under a toy key."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from psephos.audit.studies import Trial, trial
from psephos.protocol.agent import Agent
from psephos.protocol.board import MemoryBoard
from psephos.protocol.board.client import BoardClient
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import PsephosError
from psephos.protocol.paillier.threshold import KeyShare
from psephos.protocol.roles import Entry, Post, Role
from psephos.protocol.storage.store import Store
from psephos.protocol.study.study import Study
from psephos.protocol.wire import Kind
from psephos.specs.registry import is_verifiable
from psephos.specs.study import StudyTerms
from psephos.study.release import make_release
from psephos.study.roles import curator_role, holder_role, party_role
from psephos.study.samples import PublicSamples
from psephos.study.verify import BoardEvidence, StudyCheck, examine
from tests.psephos.study.cast import FixedVotes, fields_of, given, shares_of, unit
from tests.verifier.board import Report
from tests.verifier.verifier import verify

PARTIES, SAMPLES = 5, 12
RECORDED = (
    "tally",
    "statistic",
    "statistic, own data",
    "statistic, directions",
    "average",
    "average, own data",
    "psgd",
    "pathak",
)


def public_file(folder: Path) -> Path:
    """Write public samples with a column of numbers and one of text."""
    generator = np.random.default_rng(2)
    lines = ["x,z"]
    for place, x in enumerate(generator.normal(size=SAMPLES).tolist()):
        lines.append(f"{x!r},{'no' if place % 3 else 'yes'}")
    path = folder / "public.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@dataclass(frozen=True)
class Recording:
    """A study that was played to its end."""

    made: Trial
    public: Path
    entries: tuple[bytes, ...]

    def with_entries(self, entries: Sequence[bytes]) -> Recording:
        return Recording(self.made, self.public, tuple(entries))

    @property
    def decoded(self) -> list[SignedEntry]:
        return [SignedEntry.decode(data) for data in self.entries]

    def places(self, kind: Kind) -> list[int]:
        """The indices of the public entries of a kind."""
        return [place for place, one in enumerate(self.decoded) if not one.secret and _is_a(one, kind)]

    def main(self) -> list[StudyCheck]:
        """What `psephos verify` finds."""
        return self.evidence().checks

    def evidence(self) -> BoardEvidence:
        """What `psephos verify` finds, with what it has computed."""
        samples = PublicSamples.of(self.made.study, self.public)
        board = MemoryBoard()
        board.entries.extend(self.entries)
        return examine(self.made.study, samples, board)

    @cached_property
    def opened(self) -> OpenedSum:
        """The sum that the holders have opened."""
        opened = self.evidence().opened
        assert opened is not None
        return opened

    def second(self) -> Report:
        """What the second verifier finds."""
        return verify(self.made.study.text(), self.public.read_text(encoding="utf-8"), list(self.entries))

    def signed_again(self, posts: Sequence[tuple[str, Post]]) -> Recording:
        """Return a board on which these messages stand, each signed by its author, who has read all before it."""
        clients: dict[str, BoardClient] = {}
        board: list[bytes] = []
        for author, post in posts:
            client = clients.setdefault(author, self.made.board_client(author))
            for number in range(client.head.size, len(board)):
                client.check(number + 1, board[number])
            board.append(client.sign(post))
        return self.with_entries(board)

    def posts(self) -> list[tuple[str, Post]]:
        """The messages of the board in the clear, with their authors; sealed ones are replaced by an empty text."""
        posts = []
        for one in self.decoded:
            body = b"" if one.secret else one.body
            posts.append((one.author, Post(one.receiver, body, one.phase, secret=one.secret)))
        return posts


def _is_a(entry: SignedEntry, kind: Kind) -> bool:
    return Entry(1, entry.author, entry.receiver, entry.body).is_a(kind)


STORED = Path(__file__).parent / "recorded"
"""Studies that were recorded once: every later version must accept them as long as the formats are the same."""

TO_STORE: dict[str, dict[str, Any]] = {
    "tally": {"proofs": "knowledge", "parameters": {"lam": 0.3}},
    "statistic": {},
    "statistic, own data": {},
    "average": {},
    "psgd": {},
    "pathak": {},
}
"""What is stored, and terms that differ from those of `record`: a proof of validity is too long for a repository."""


def stored_at(folder: Path, what: str) -> Path:
    """The file of a stored study."""
    return folder / f"{what.replace(', ', '-').replace(' ', '-')}.json"


def save(recording: Recording, path: Path) -> None:
    """Write a study as JSON: its file, the public file, and the entries in hexadecimal."""
    path.parent.mkdir(exist_ok=True)
    public, entries = recording.public.read_text(encoding="utf-8"), [data.hex() for data in recording.entries]
    content = {"study": recording.made.study.text(), "public": public, "entries": entries}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def check_stored(path: Path, folder: Path) -> None:
    """Check that both verifiers accept a stored study."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    entries = [bytes.fromhex(text) for text in stored["entries"]]
    public, study, board = folder / "public.csv", Study.parse(stored["study"]), MemoryBoard()
    public.write_text(stored["public"], encoding="utf-8")
    board.entries.extend(entries)
    report = verify(stored["study"], stored["public"], entries)
    assert report.accepted
    assert ("the result follows from the sum" in report.holds) == is_verifiable(study)
    checks = examine(study, PublicSamples.of(study, public), board).checks
    assert accepted(checks, verifiable=is_verifiable(study))


def store() -> None:
    """Record the stored studies again."""
    with TemporaryDirectory() as folder:
        public = public_file(Path(folder))
        for what, fields in TO_STORE.items():
            save(record(what, public, **fields), stored_at(STORED, what))


def check_accepted(recording: Recording) -> None:
    """Check that both verifiers accept a whole study, and its result where everybody can compute it."""
    report, follows = recording.second(), is_verifiable(recording.made.study)
    assert (report.fails, report.lacks) == ([], [])
    assert ("the result follows from the sum" in report.holds) == follows
    assert accepted(recording.main(), verifiable=follows)


def check_refused(recording: Recording, changed: Recording) -> None:
    """Check that both verifiers refuse a changed study."""
    assert changed.entries != recording.entries
    assert not changed.second().accepted
    with suppress(PsephosError):
        assert not accepted(changed.main(), verifiable=is_verifiable(changed.made.study))


def accepted(checks: Sequence[StudyCheck], *, verifiable: bool) -> bool:
    """Whether `psephos verify` finds a whole study in which nothing fails."""
    verdicts = {check.what: check.verdict for check in checks}
    follows = verdicts.get("the result follows from the sum")
    agreed = next((v for what, v in verdicts.items() if what.startswith("the result: of the classes")), None)
    return "fails" not in verdicts.values() and agreed == "holds" and (follows == "holds" or not verifiable)


def fields_for(what: str) -> dict[str, Any]:
    """Return the terms of a study, in which everything is public that may be."""
    known = "statistic, own data" if what == "statistic, directions" else what
    given_fields = {name: value for name, value in fields_of(known, PARTIES).items() if name != "samples"}
    if what == "statistic, directions":
        given_fields["method"] = "vote-directions"
    if what.startswith("statistic"):
        given_fields |= {"classes": ("a", "b"), "public": True}
    return given_fields


def record(what: str, public: Path, *, absent: Sequence[str] = (), ceremony: bool = False, **fields: Any) -> Recording:
    """Play a study under a dealt key, or one that its holders make."""
    samples = PublicSamples.read(public, "class")
    own_terms = {"public_table": samples.digest, "features": samples.features, "samples": SAMPLES}
    made = trial(parties=PARTIES, **fields_for(what) | own_terms | fields)
    return play(made, public, samples, _own, absent=absent, ceremony=ceremony)


def play(
    made: Trial,
    public: Path,
    samples: PublicSamples,
    own: Callable[[Trial, int], Any],
    *,
    absent: Sequence[str] = (),
    ceremony: bool = False,
) -> Recording:
    """Play a study whose parties bring what `own` returns."""
    study, board, terms = made.study, MemoryBoard(), StudyTerms(made.study, samples)
    shares: Sequence[KeyShare] = shares_of(study) if study.uses_key and not ceremony else []

    def role(name: str) -> Role:
        kind, _, number = name.partition(" ")
        if kind == "curator":
            return curator_role(terms, lambda result: make_release(study, samples, result), Store())
        if kind == "holder":
            holder = holder_role(terms, int(number), Store())
            return given(holder, shares[int(number) - 1]) if shares else holder
        return party_role(terms, int(number), made.keys[name], own(made, int(number)), Store())

    agents = {
        name: Agent(role(name), study.members, key, board, Store())
        for name, key in made.keys.items()
        if name not in absent and (study.uses_key or not name.startswith("holder"))
    }
    for _ in range(8):
        while any([agent.step() for agent in agents.values()]):  # noqa: C419 - all of them take a turn
            pass
        agents["curator"].on_idle()
    return Recording(made, public, tuple(board.entries))


def _own(made: Trial, number: int) -> Any:
    """Votes, or rows and their labels."""
    study, generator = made.study, np.random.default_rng([7, number])
    votes = FixedVotes(generator.integers(0, len(study.classes), size=SAMPLES))
    X = unit(generator, 6 + number)
    of_votes = study.method in ("soft", "statistic", "vote-directions")
    return votes if of_votes else (X, (X[:, 0] > 0).astype(np.int64))


if __name__ == "__main__":
    store()
