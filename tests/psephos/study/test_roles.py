"""Which stages each role of a study goes through, what each is made of, and when a party is charged."""

from __future__ import annotations

from typing import Any

import pytest

from psephos.audit.rounds import short_key
from psephos.curator.tally import Tally
from psephos.parties.party import VotingParty
from psephos.protocol.errors import BudgetExceededError
from psephos.protocol.paillier.threshold import deal
from psephos.protocol.storage.store import OnceLedger, Store
from psephos.protocol.study.stages import JoinStage, PublishStage, ResultWatcher
from psephos.study.roles import curator_role, party_role
from tests.psephos.study.cast import Cast

CAST = Cast("tally")
STUDY, TERMS, SPEC = CAST.made.study, CAST.terms, CAST.spec
KEY, SHARES = deal(short_key(bits=256), holders=3, threshold=2)


def stages(role: Any, *results: Any) -> list[Any]:
    """Its roles, each made from the first so many of these results."""
    made = [stage(*results[:place]) for place, stage in enumerate(role._stages)]
    assert {each.name for each in made} == {role.name}
    assert isinstance(made[0], JoinStage)
    assert made[0].awaits(made[0].start().state).senders == tuple(sorted(STUDY.must_join))  # type: ignore[union-attr]
    return made


def test_a_party_is_charged_when_it_contributes() -> None:
    charged = []
    role = party_role(TERMS, 3, CAST.made.keys["party 3"], CAST.own(3), Store(), charged.append)
    assert role._stages[1](("all",))._own is None  # type: ignore[attr-defined]
    assert charged == []
    _, _, plays = stages(role, ("all",), KEY)
    assert charged == [STUDY]
    assert isinstance(plays, ResultWatcher)
    assert isinstance(plays.inner, VotingParty)

    def refuse(study: object) -> None:
        raise BudgetExceededError("no")

    role = party_role(TERMS, 3, CAST.made.keys["party 3"], CAST.own(3), Store(), refuse)
    with pytest.raises(BudgetExceededError):
        role._stages[2](("all",), KEY)
    party_role(TERMS, 3, CAST.made.keys["party 3"], CAST.own(3), Store())._stages[2](("all",), KEY)


def test_one_time_contributions_are_in_the_partys_ledger() -> None:
    """Twice the same ballot from one store, whatever the object; another from another store."""
    posts = []
    for store in (first := Store(), first, Store()):
        role = party_role(TERMS, 3, CAST.made.keys["party 3"], CAST.own(3), store)
        posts.append(role._stages[2](("all",), KEY).start().posts)
    assert posts[0] == posts[1] != posts[2]
    assert len(list(first.items("once party 3"))) == 1


def test_the_curator_releases_once() -> None:
    released: list[Any] = []

    def release(result: Any) -> bytes:
        released.append(result)
        return b"content"

    store = Store()
    for _ in range(2):
        role = curator_role(TERMS, release, store)
        _, keyed, counts, publishes = stages(role, ("all",), KEY, "what it came to")
        assert keyed._own is None
        assert isinstance(counts, Tally)
        assert counts.round == CAST.agreed(KEY)  # type: ignore[attr-defined]
        assert isinstance(publishes, PublishStage)
        publishes.start()
    assert released == ["what it came to"]
    assert OnceLedger(store, "curator").do_once(b"release" + STUDY.digest, b"", lambda: b"another") == b"content"
    cast = Cast("pathak")
    _, counts, _ = (stage(*range(k)) for k, stage in enumerate(curator_role(cast.terms, release, Store())._stages))
    assert counts.terms == cast.agreed()
