"""Every protocol of a study over a board: each role an agent of its own, the key made without a dealer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from psephos.parties.ceremony import CEREMONY_KINDS
from psephos.parties.ceremony_states import Searching, Told
from psephos.protocol.agent import Agent
from psephos.protocol.board import MemoryBoard
from psephos.protocol.errors import EquivocationError, StudyError
from psephos.protocol.privacy.mechanisms import DiscreteLaplace, RoundedGaussian, Skellam, SphericalLaplace
from psephos.protocol.psgd.walk import PublishedSum
from psephos.protocol.roles import BOARD, Entry, Post
from psephos.protocol.storage.store import Store
from psephos.protocol.wire import Kind, frame, session_of
from psephos.study import verify
from psephos.study.protocols import Psgd, Public, play_of
from psephos.study.roles import holder_role, party_role
from psephos.study.words import described
from psephos.testing.adversary import Adversary
from tests.psephos.study.cast import ALL, AUXILIARY, Cast, fields_of


def play(cast: Cast, agents: Callable[[str], Agent]) -> None:
    for _ in range(10_000):
        moved = [agents(name).step() for name in cast.names]
        if not any(moved):
            waiting = [(name, a.role.awaits(a.state)) for name in cast.names if (a := agents(name)).result is None]
            if not waiting:
                return
            curator = agents("curator")
            assert curator.role.complete(curator.state), waiting
            curator.hush()
    pytest.fail("the study goes on for ever")


def check(cast: Cast, agents: dict[str, Agent]) -> None:
    """What was released is what the parties put in, the same for everybody, and nobody was refused anything."""
    contents = {agent.result.content for agent in agents.values()}
    assert len(contents) == 1
    assert {name: agent.refused for name, agent in agents.items() if agent.refused} == {}
    parties = {number: agents[f"party {number}"] for number in range(cast.parties)}
    assert all(cast.sent(agent) for agent in parties.values())
    assert cast.judge(contents.pop(), parties) == list(range(cast.parties))


@pytest.mark.parametrize("what", ALL)
def test_a_study_comes_to_what_its_parties_put_in(what: str) -> None:
    cast, board = Cast(what), MemoryBoard()
    agents = {name: cast.agent(name, board, Store()) for name in cast.names}
    play(cast, agents.__getitem__)
    check(cast, agents)
    if what == "psgd":
        check_that_readers_walk_again(cast, board)


def check_that_readers_walk_again(cast: Cast, board: MemoryBoard) -> None:
    """Whoever reads the board opens every sum, and finds out t holders that publish another one."""
    protocol, found = cast.play, verify._Found()
    assert isinstance(protocol, Psgd)
    verify._read(protocol, board, None, found)
    assert verify._ready(protocol, found)
    key = found.key
    assert key is not None
    verify._series(protocol, False, found)
    assert {check.verdict for check in found.checks} == {"holds"}
    terms = protocol.terms(key)
    found.entries.append(Entry(10**9, "party 0", BOARD, b"junk"))
    for place, entry in enumerate(found.entries):
        if entry.is_a(Kind.PUBLISHED_SUM):
            said = PublishedSum.decode(entry.data, terms)
            lie = replace(said, sums=tuple(entry + 1 for entry in said.sums))
            found.entries[place] = replace(entry, data=lie.encode(terms))
    verify._series(protocol, False, found)
    assert [(check.what, check.found) for check in found.checks if check.verdict == "fails"] == [
        ("the published sum is the opened one, in each of 1 steps", "step 1")
    ]


@pytest.mark.parametrize("what", ["tally", "psgd", "pathak"])
def test_every_role_killed_after_every_step(what: str) -> None:
    """Made again from its store for each step, in which it may read or post anything."""
    cast, board = Cast(what), MemoryBoard()
    stores = {name: Store() for name in cast.names}
    play(cast, lambda name: cast.agent(name, board, stores[name]))
    check(cast, {name: cast.agent(name, board, stores[name]) for name in cast.names})


def test_who_signs_reads_of_this_protocol_and_of_no_other() -> None:
    said = {what: described(Cast(what).made.study) for what in ("tally", "psgd", "pathak")}
    assert [what for what, text in said.items() if "under encryption" in text] == ["tally", "psgd"]
    assert [what for what, text in said.items() if "are voted on" in text] == ["tally"]


class Cut(Adversary):
    """Party 1, which publishes a share that is none."""

    def send(self, post: Post, seen: Sequence[Entry]) -> list[Post]:
        return [replace(post, data=post.data[:-1]) if Entry(0, "", "", post.data).is_a(Kind.PUBLISHED_SHARE) else post]


def test_a_share_that_is_none_is_its_senders() -> None:
    """And not that of whoever published the last one."""
    cast, board = Cast("pathak"), MemoryBoard()
    agents = {name: cast.agent(name, board, Store()) for name in cast.names if name != "party 1"}
    role = party_role(cast.public, 1, cast.made.keys["party 1"], cast.own(1), store := Store())
    agents["party 1"] = Agent(Cut(role), cast.made.study.members, cast.made.keys["party 1"], board, store)
    while any([agent.step() for agent in agents.values()]):  # noqa: C419 - all of them take a turn
        pass
    curator = agents["curator"]
    assert str(curator.role.awaits(curator.state)) == "the published share of party 1"
    assert [told.author for told in curator.refused] == ["party 1"]
    found = verify._Found()
    verify._read(cast.play, board, None, found)
    assert verify._ready(cast.play, found)
    verify._shares(cast.play, found)  # type: ignore[arg-type]
    assert found.checks[-1].found == "waits for the published share of party 1"


class Crier(Adversary):
    """A holder that makes the key with the others, and says with every message that this has failed."""

    def send(self, post: Post, seen: Sequence[Entry]) -> list[Post]:
        if Entry(0, "", "", post.data).kind not in CEREMONY_KINDS:
            return [post]
        return [Post(BOARD, frame(Kind.FAILED_CEREMONY, session_of(post.data), b"nobody is honest")), post]


def test_a_holder_that_only_says_that_the_ceremony_failed_ends_nothing() -> None:
    """One of three, where two open; the curator and the parties hear it before there is a key."""
    cast, board = Cast("tally"), MemoryBoard()
    agents = {name: cast.agent(name, board, Store()) for name in cast.names if name != "holder 2"}
    role = Crier(holder_role(cast.public, 2, store := Store()))
    agents["holder 2"] = Agent(role, cast.made.study.members, cast.made.keys["holder 2"], board, store)
    play(cast, agents.__getitem__)
    assert len({agent.result.content for agent in agents.values()}) == 1
    assert {told.author for told in agents["party 4"].refused} == {"holder 2"}, "of what it says twice"


def test_who_waits_for_the_result_says_so() -> None:
    """Also where its own part is done: a holder that has opened, a party that has voted."""
    cast, board = Cast("tally"), MemoryBoard()
    agents = {name: cast.agent(name, board, Store()) for name in cast.names}
    while any([agents[name].step() for name in cast.names if name != "curator"] + [agents["curator"].step()]):
        pass
    missing = {name: str(agent.role.awaits(agent.state)) for name, agent in agents.items() if name != "curator"}
    assert set(missing.values()) == {"the result of curator"}


def ceremony_secrets(state: Any) -> Iterator[bytes]:
    """Wherever they are in a state."""
    if isinstance(state, Told):
        yield from (*state.secrets, *state.contributions)
    if isinstance(state, Searching):
        yield from state.seeds
    if is_dataclass(state):
        for field in fields(state):
            yield from ceremony_secrets(getattr(state, field.name))


def test_a_key_leaves_nothing_on_disk_and_is_not_made_again(tmp_path: Path) -> None:
    """What a holder's store held while the key was made is in it then, and nowhere in its files afterwards."""

    def found(name: str, secrets: set[bytes]) -> int:
        content = b"".join(path.read_bytes() for path in tmp_path.glob(f"{name}*"))
        return sum(secret in content for secret in secrets)

    cast, board = Cast("tally"), MemoryBoard()
    holders = {name: set[bytes]() for name in cast.names if name.startswith("holder")}
    stores = {name: Store(tmp_path / name if name in holders else None) for name in cast.names}
    agents = {name: cast.agent(name, board, stores[name]) for name in cast.names}
    while any(agents[name].role.listens(agents[name].state) for name in holders):
        for agent in agents.values():
            agent.step()
        for name, secrets in holders.items():
            if new := set(ceremony_secrets(agents[name].state)):
                assert found(name, new) == len(new)
                secrets |= new
    for name, secrets in holders.items():
        stores[name].close()
        assert secrets
        assert found(name, secrets) == 0
    said = list(board.read(0))
    with pytest.raises(EquivocationError, match="lost, or set back"):
        cast.agent("holder 1", board, Store()).step()
    assert list(board.read(0)) == said


def parameters(what: str) -> Any:
    return fields_of(what, 5)["parameters"]


@pytest.mark.parametrize(
    ("what", "change", "said"),
    [
        ("tally", {"method": "pate"}, "one of statistic, soft, vote"),
        ("tally", {"parameters": {"lamb": 1.0}}, "lamb is no parameter of tally"),
        ("average", {"public": True}, "no epsilon would hold"),
        ("average", {"parameters": {"radius": 2.0}}, "says its lam"),
        ("average", {"parameters": {"radius": "2", "lam": 0.1}}, "of type float"),
        ("average", {"parameters": {"radius": -2.0, "lam": 0.1}}, "radius is a positive number"),
        ("psgd", {"parameters": parameters("psgd") | {"fraction_bits": 4000}}, "0 to 52 fraction bits"),
        ("statistic", {"parameters": {}}, "says its coordinates"),
        ("statistic", {"parameters": {"coordinates": "AAAA"}}, "not those of 4 features|no float32"),
        ("statistic", {"minimum_ballots": 3}, "whole from 5 ballots on"),
        ("statistic", {"parameters": parameters("statistic") | {"colluders": 4}}, "nobody's noise"),
        ("psgd", {"parameters": parameters("psgd") | {"sizes": "6 7"}}, "5 parties and says 2 sizes"),
        ("psgd", {"minimum_ballots": 4}, "the minimum of ballots is 5"),
        ("psgd", {"classes": ("a", "b", "c")}, "two classes"),
        ("psgd", {"parameters": parameters("psgd") | {"variant": "none"}}, "variant is one of"),
        ("pathak", {"minimum_ballots": 4}, "all of them"),
        ("pathak", {"parameters": {"lam": 0.1}}, "says its smallest_size"),
        ("pathak", {"parameters": {"lam": -0.1, "smallest_size": 6}}, "lambda"),
    ],
)
def test_studies_that_nobody_can_play(what: str, change: dict[str, Any], said: str) -> None:
    study = Cast(what).made.study
    with pytest.raises(StudyError, match=said):
        play_of(Public(replace(study, **change), AUXILIARY))


@pytest.mark.parametrize(
    ("what", "delta", "law"),
    [
        ("statistic", 0.0, DiscreteLaplace),
        ("statistic", 1e-6, Skellam),
        ("average, whitened", 0.0, SphericalLaplace),
        ("average, whitened", 1e-6, RoundedGaussian),
    ],
)
def test_the_noise_is_of_the_law_that_the_study_pays_for(what: str, delta: float, law: type) -> None:
    plan = play_of(Public(replace(Cast(what).made.study, delta=delta), AUXILIARY)).plan
    assert type(plan.mechanism) is law
    assert plan.delta == delta
