"""A run that goes on despite roles that lie, send nonsense or vanish names them, the same in every view."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import psephos
from psephos.audit import Tampering
from psephos.cli.show import show
from psephos.data.partition import AbsentRole
from psephos.protocol.errors import TooFewBallotsError
from psephos.protocol.roles import Entry, Post, Role
from psephos.protocol.wire import Kind, kind_of
from psephos.results.base import Result
from psephos.results.write import write_report
from psephos.simulation.job import Job
from psephos.simulation.options import JobOptions

SHORT: dict[str, Any] = {"key_bits": 512, "test_key": True, "holders": 5, "threshold": 3}
Roles = Mapping[str, Callable[[Role], Role]]


class WrongPart(Tampering):
    """A holder whose partial decryption is another number."""

    def send(self, post: Post, seen: Sequence[Entry]) -> Iterable[Post]:
        if kind_of(post.data) is not Kind.PARTIAL_DECRYPTION:
            return [post]
        return [Post(post.receiver, post.data[:-1] + bytes([post.data[-1] ^ 1]), post.phase)]


class Garbage(Tampering):
    """A role that sends bytes that mean nothing."""

    def send(self, post: Post, seen: Sequence[Entry]) -> Iterable[Post]:
        return [Post(post.receiver, b"garbage", post.phase)]


class Twice(Tampering):
    """A role that sends everything twice."""

    def send(self, post: Post, seen: Sequence[Entry]) -> Iterable[Post]:
        return [post, post]


ROLES: Roles = {
    "holder 1": WrongPart,
    "holder 2": AbsentRole,
    "party 6": Garbage,
    "party 7": Twice,
    "party 8": AbsentRole,
}
EXPECTED = {
    ("holder 1", "partial decryption", "wrong", ""),
    ("holder 2", "partial decryption", "missing", ""),
    ("party 6", "message", "refused", "MessageError"),
    ("party 7", "ballot", "refused", "DuplicateBallotError"),
    ("party 8", "ballot", "missing", ""),
}


def run(roles: Roles | None = None, **more: Any) -> Any:
    chosen: dict[str, Any] = {"parties": 9, "methods": ["soft"], "draws": 1} | more
    return psephos.simulate(dataset="breast-cancer", roles=roles, **SHORT, **chosen).results[0]


def found(result: Any) -> set[tuple[str, str, str, str]]:
    return {(each.who, each.message, each.found, each.error) for each in result.deviations}


def test_a_result_names_who_did_not_follow_the_protocol() -> None:
    result = run(ROLES)
    assert found(result) == EXPECTED
    assert result.exact
    steps = {each.who: each.step for each in result.deviations}
    assert (steps["holder 1"], steps["party 7"], steps["party 8"]) == ("votes: open", "votes: cast", "")
    readers = {each.who: each.by for each in result.deviations}
    assert set(readers["party 7"]) == {"curator", "holder 1", "holder 3", "holder 4", "holder 5"}
    assert readers["holder 1"] == ("curator",)


def test_with_proofs_a_wrong_share_is_refused() -> None:
    result = run({"holder 1": WrongPart}, proofs="valid")
    assert found(result) == {("holder 1", "partial decryption", "refused", "WrongPartialDecryptionError")}


@pytest.mark.parametrize("change", [{"methods": ["vote-directions"]}, {"protocol": "psgd", "steps": 3, "methods": ()}])
def test_deviations_in_several_sums_are_counted(change: dict[str, Any]) -> None:
    sums = change.get("steps", 2)
    draws = {} if "steps" in change else {"protocol": "statistic", "draws": sums}
    roles = {name: role for name, role in ROLES.items() if name != "holder 1"}
    result = run(roles, dropouts=2, **({"draws": None} | change | draws))
    assert found(result) == {each for each in EXPECTED if each[0] != "holder 1"}
    assert {each.times for each in result.deviations} == {sums}


def test_every_view_has_every_deviation(tmp_path: Path) -> None:
    result = run(ROLES)
    texts = [str(each) for each in result.deviations]
    assert len(texts) == len(EXPECTED)
    console = Console(file=io.StringIO(), width=1000)
    show(result, console)
    write_report(result, None, tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    again = Result.from_json(json.loads(json.dumps(result.as_json())))
    assert again.page().texts("deviation") == texts
    for text in texts:
        assert text in console.file.getvalue()  # type: ignore[attr-defined]
        assert text in page


def test_the_card_of_a_release_has_every_deviation(tmp_path: Path) -> None:
    job = Job(JobOptions(parties=9, epsilon=(5.0,), **SHORT))
    result = job.run(roles={"holder 1": WrongPart, "party 8": AbsentRole})
    job.write(result, tmp_path)
    card = (tmp_path / "card.md").read_text(encoding="utf-8")
    for each in result.deviations:
        assert f"| {each.who} | {each.fact.value} |" in card


@pytest.mark.parametrize("roles", [None, {"holder 1": Tampering, "party 0": Tampering}])
def test_an_honest_run_lists_nothing(roles: Roles | None, tmp_path: Path) -> None:
    result = run(roles, absent=0.2)
    assert result.as_json()["deviations"] == []
    assert not result.page().texts("deviation")


def test_an_error_that_ends_a_run_names_whose_messages_were_refused() -> None:
    with pytest.raises(TooFewBallotsError) as caught:
        run(dict.fromkeys(("party 1", "party 2", "party 3", "party 4", "party 5"), Garbage))
    assert caught.value.culprits == ("party 1", "party 2", "party 3", "party 4", "party 5")
