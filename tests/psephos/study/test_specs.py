"""Every protocol of a study over a board: each role an agent of its own, the key made without a dealer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psephos.audit.adversary import Tampering
from psephos.audit.rounds import short_key
from psephos.curator.hamm.averaging import average_of
from psephos.curator.ledger import Release
from psephos.curator.losses import loss_named
from psephos.curator.methods import ReleaseRequest, average_method, erm_method, statistic_method
from psephos.curator.pathak.bounds import proved_epsilon
from psephos.curator.pathak.curator import SharedSum
from psephos.curator.psgd.agreement import DescentOptions, agree
from psephos.curator.psgd.curator import GradientCuratorState
from psephos.parties.ceremony import CEREMONY_KINDS
from psephos.parties.ceremony_states import ModulusSearch, SeedMaterial
from psephos.protocol.agent import Agent
from psephos.protocol.board import Board, MemoryBoard
from psephos.protocol.board.client import BoardReader
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.votes import VoteLayout
from psephos.protocol.errors import EquivocationError, StudyError
from psephos.protocol.grids.fixed_point import FixedPoint
from psephos.protocol.paillier.threshold import deal
from psephos.protocol.pathak.noise import record_sensitivity
from psephos.protocol.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, RoundedGaussian, SphericalLaplace
from psephos.protocol.psgd.state import DescentState
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.roles import BOARD, Entry, Post
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import Store
from psephos.protocol.study.stages import StageState
from psephos.protocol.study.study import Study
from psephos.protocol.wire import Kind, frame, session_of
from psephos.specs.base import Spec
from psephos.specs.exact import OwnDataSpec
from psephos.specs.noisy import NoisySumSpec, StatisticSpec
from psephos.specs.pathak import PathakSpec, make_terms
from psephos.specs.psgd import PsgdSpec
from psephos.specs.registry import participants_of, spec_of
from psephos.specs.rows import EvaluationSpec, RecordSpec
from psephos.specs.terms import StudyTerms, encode_coordinates
from psephos.study import verify
from psephos.study.consent import describe_study
from psephos.study.roles import holder_role, party_role
from tests.psephos.study.cast import ALL, AUXILIARY, Cast, DealtCast, fields_of


def play(cast: Cast, agents: Callable[[str], Agent]) -> None:
    for _ in range(10_000):
        moved = [agents(name).step() for name in cast.names]
        if not any(moved):
            waiting = [(name, a.role.awaits(a.state)) for name in cast.names if (a := agents(name)).result is None]
            if not waiting:
                return
            curator = agents("curator")
            assert curator.role.is_ready(curator.state), waiting
            curator.on_idle()
    pytest.fail("the study goes on for ever")


def test_a_study_whose_holders_make_the_key_computes_its_result() -> None:
    cast, board = Cast("tally", key_bits=128), MemoryBoard()
    agents = {name: cast.agent(name, board, Store()) for name in cast.names}
    play(cast, agents.__getitem__)
    cast.check(agents)
    check_that_members_stay_below_their_limits(cast, board)


def check_that_members_stay_below_their_limits(cast: Cast, board: Board) -> None:
    """Honest members post less than an eighth of the bytes that the study leaves them."""
    members, posted = cast.made.study.members, Counter[str]()
    reader = BoardReader(members)
    for number, data in board.read(0):
        checked = reader.check(number, data)
        posted[checked.record.author] += checked.record.size
    assert posted.keys() == members.keys.keys()
    assert all(8 * posted[name] < members.limits[name] for name in posted)


class Cut(Tampering):
    """Party 1, which publishes a share that is none."""

    def send(self, post: Post, seen: Sequence[Entry]) -> list[Post]:
        return [replace(post, data=post.data[:-1]) if Entry(0, "", "", post.data).is_a(Kind.PUBLISHED_SHARE) else post]


def test_an_invalid_share_is_attributed_to_its_sender() -> None:
    """And not that of whoever published the last one."""
    cast, board = Cast("pathak"), MemoryBoard()
    agents = {name: cast.agent(name, board, Store()) for name in cast.names if name != "party 1"}
    role = party_role(cast.terms, 1, cast.made.keys["party 1"], cast.own(1), store := Store())
    agents["party 1"] = Agent(Cut(role), cast.made.study.members, cast.made.keys["party 1"], board, store)
    while any([agent.step() for agent in agents.values()]):  # noqa: C419 - all of them take a turn
        pass
    curator = agents["curator"]
    assert str(curator.role.awaits(curator.state)) == "the published share of party 1"
    assert [rejection.author for rejection in curator.rejected] == ["party 1"]
    evidence, study = verify.BoardEvidence(), cast.made.study
    verify._read(study, board, None, evidence)
    verify._protocol(cast.spec, study, False, evidence)
    assert "waits for the published share of party 1" in [check.found for check in evidence.checks]


class Crier(Tampering):
    """A holder that makes the key with the others, and says with every message that this has failed."""

    def send(self, post: Post, seen: Sequence[Entry]) -> list[Post]:
        if Entry(0, "", "", post.data).kind not in CEREMONY_KINDS:
            return [post]
        return [Post(BOARD, frame(Kind.FAILED_CEREMONY, session_of(post.data), b"nobody is honest")), post]


@pytest.mark.slow
def test_one_failure_report_does_not_end_the_ceremony() -> None:
    """One of three, where two open; the curator and the parties hear it before there is a key."""
    cast, board = Cast("tally", key_bits=128), MemoryBoard()
    agents = {name: cast.agent(name, board, Store()) for name in cast.names if name != "holder 2"}
    role = Crier(holder_role(cast.terms, 2, store := Store()))
    agents["holder 2"] = Agent(role, cast.made.study.members, cast.made.keys["holder 2"], board, store)
    play(cast, agents.__getitem__)
    assert len({agent.result.content for agent in agents.values()}) == 1
    assert {rejection.author for rejection in agents["party 4"].rejected} == {"holder 2"}, "of what it says twice"


def test_roles_that_wait_for_the_result_report_it() -> None:
    """Also where its own part is done: a holder that has opened, a party that has voted."""
    cast, board = Cast("tally", key_bits=128), MemoryBoard()
    agents = {name: cast.agent(name, board, Store()) for name in cast.names}
    while any([agents[name].step() for name in cast.names if name != "curator"] + [agents["curator"].step()]):
        pass
    missing = {name: str(agent.role.awaits(agent.state)) for name, agent in agents.items() if name != "curator"}
    assert set(missing.values()) == {"the result of curator"}


def ceremony_secrets(state: Any) -> Iterator[bytes]:
    """Wherever they are in a state."""
    if isinstance(state, SeedMaterial):
        yield from (*state.secrets, *state.contributions)
    if isinstance(state, ModulusSearch):
        yield from state.seeds
    if is_dataclass(state):
        for field in fields(state):
            yield from ceremony_secrets(getattr(state, field.name))


def test_forgotten_ceremony_secrets_are_not_on_disk(tmp_path: Path) -> None:
    """What a holder's store kept while the key was made is nowhere in its files afterwards."""

    def count_on_disk(name: str, secrets: set[bytes]) -> int:
        content = b"".join(path.read_bytes() for path in tmp_path.glob(f"{name}*"))
        return sum(secret in content for secret in secrets)

    cast, board = Cast("tally", key_bits=128), MemoryBoard()
    holders = {name: set[bytes]() for name in cast.names if name.startswith("holder")}
    stores = {name: Store(tmp_path / name if name in holders else None) for name in cast.names}
    agents = {name: cast.agent(name, board, stores[name]) for name in cast.names}
    while any(agents[name].role.listens(agents[name].state) for name in holders):
        for agent in agents.values():
            agent.step()
        for name, secrets in holders.items():
            if new := set(ceremony_secrets(agents[name].state)):
                records = b"".join(content for _, content in stores[name].items("role"))
                assert all(secret in records for secret in new)
                secrets |= new
    for name, secrets in holders.items():
        stores[name].close()
        assert secrets
        assert count_on_disk(name, secrets) == 0
    entries = list(board.read(0))
    with pytest.raises(EquivocationError, match="store"):
        cast.agent("holder 1", board, Store()).step()
    assert list(board.read(0)) == entries


def parameters(what: str) -> Any:
    return fields_of(what, 5)["parameters"]


@pytest.mark.parametrize(
    ("what", "delta", "law"),
    [
        ("statistic", 0.0, DiscreteLaplace),
        ("statistic", 1e-6, DiscreteGaussian),
        ("average, whitened", 0.0, SphericalLaplace),
        ("average, whitened", 1e-6, RoundedGaussian),
    ],
)
def test_the_noise_has_the_agreed_law(what: str, delta: float, law: type) -> None:
    plan = spec_of(StudyTerms(replace(Cast(what).made.study, delta=delta), AUXILIARY)).release_plan  # type: ignore[attr-defined]
    assert type(plan.mechanism) is law
    assert plan.delta == delta


def test_a_study_says_who_adds_the_noise() -> None:
    """The holders' shares are sized for the h - t + 1 that do not collude, and the description names the holders."""
    study = Cast("statistic, noise of holders").made.study
    spec = spec_of(StudyTerms(study, AUXILIARY))
    assert isinstance(spec, StatisticSpec)
    assert spec.holder_shares is not None
    assert (spec.holder_shares.parties, spec.holder_shares.contributors) == (3, 2)
    assert spec.norm_bound == spec.release_plan.grid.maximum  # a ballot carries no noise
    assert "every key holder adds its share of the noise" in " ".join(describe_study(study).split())
    assert "every party adds" not in " ".join(describe_study(study).split())
    with pytest.raises(StudyError, match="confirm"):
        spec_of(StudyTerms(replace(study, confirmations=2), AUXILIARY))
    with pytest.raises(StudyError, match="noise_from"):
        spec_of(StudyTerms(replace(study, parameters={**study.parameters, "noise_from": "curator"}), AUXILIARY))


# -- under a key that was dealt: every term that follows from a study, and every release, beside what was meant


@pytest.mark.parametrize("what", ALL)
def test_a_study_under_a_dealt_key_computes_its_result(what: str) -> None:
    cast = DealtCast(what)
    board, agents = cast.played()
    cast.check(agents)
    check_that_members_stay_below_their_limits(cast, board)
    state = agents["curator"].state
    counting = StageState(state.stage - 1, state.before[-1], state.before[:-1])
    assert cast.spec.ballots(agents["curator"].role.stage(counting).result(counting.state)) == 5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "what",
    [
        "tally",
        "statistic, gaussian",
        "statistic, noise of holders",
        "average",
        "average, own data",
        "head",
        "record, three classes",
        "regression, party",
        "evaluation, number",
    ],
)
def test_a_study_with_an_absent_party_releases_the_mean_of_the_others(what: str) -> None:
    """Party 4 signs and does not vote; what is summed is judged, and the cost is that of four parties."""
    cast, board = DealtCast(what), MemoryBoard()
    agents = {name: cast.agent(name, board, Store()) for name in cast.names}
    agents["party 4"].step()
    others = {name: agent for name, agent in agents.items() if name != "party 4"}
    while any([agent.step() for agent in others.values()]) or agents["curator"].on_idle():  # noqa: C419 - all take a turn
        pass
    contents = {agent.result.content for agent in others.values()}
    parties = {number: agents[f"party {number}"] for number in range(4)}
    assert [cast.judge(content, parties) for content in contents] == [[0, 1, 2, 3]]
    few, all_of_them = cast.spec.cost(4), cast.spec.cost(5)
    assert few.epsilon == all_of_them.epsilon == 1.0
    assert few.sensitivity is not None
    if what != "tally":  # its sensitivity of soft labels falls with the number of parties in another way
        share = 1.0 if isinstance(cast.spec, RecordSpec | EvaluationSpec) else 5 / 4
        assert few.sensitivity == pytest.approx((all_of_them.sensitivity or 0.0) * share, rel=1e-6)


OPENED = {
    "tally": ((1, 0, 2, 3, 0, 5, 1, 1, 2, 0, 4, 0, 1, 0, 2, 3, 0, 5, 1, 1, 2, 0, 4, 0), (0, 1, 2, 3, 4)),
    "statistic": ((9, -4, 5, 30, -20, 11), (0, 1, 2, 3, 4)),
    "average": ((1 << 20, 0, -(1 << 19), 7, 0, 0, 1, 2, 3, -4, 5, 1 << 18), (0, 2, 3, 4)),
}


def seeded() -> SimulationRandomness:
    return SimulationRandomness(3, "a release")


@pytest.mark.parametrize(
    ("what", "method", "delta", "noise"),
    [
        ("tally", "statistic", 0.0, "spherical-laplace"),
        ("tally", "statistic", 1e-6, "gaussian"),
        ("tally", "soft", 0.0, "spherical-laplace"),
        ("tally", "soft", 1e-6, "gaussian"),
        ("tally", "vote", 0.0, "spherical-laplace"),
        ("average", "avg", 0.0, "spherical-laplace"),
        ("average", "avg", 1e-6, "gaussian"),
    ],
)
def test_releases_with_curator_noise_equal_those_of_run(what: str, method: str, delta: float, noise: Any) -> None:
    cast = Cast(what)
    settings: dict[str, Any] = {"method": method, "delta": delta, "epsilon": 1.25}
    if method == "soft":
        settings["parameters"] = {"lam": 1}  # a whole number where a number is asked for
    spec = spec_of(StudyTerms(replace(cast.made.study, **settings), AUXILIARY))
    opened = OpenedSum(*OPENED[what])
    counts = VoteLayout(12, 3).decode(*OPENED["tally"][:1], 5)
    lam = {"soft": 1.0, "avg": 0.1}.get(method)
    request = ReleaseRequest(1.25, delta, noise, lam)
    if method != "vote":  # whose lambda is the rule's
        assert spec.request == request  # type: ignore[attr-defined]
    if method == "statistic":
        meant = statistic_method(counts, AUXILIARY.samples, request)
    elif method == "avg":
        average = average_of(opened.sums, 4, 2.0, FixedPoint(24), features=4, classes=3)
        meant = average_method(average, 0.1, request)
    else:
        labels: Any = {"soft": "soft", "vote": "majority"}[method]
        meant = erm_method(labels, counts, AUXILIARY.samples, loss_named("logistic", 3), request)
    w, paid = spec.release(opened, seeded())
    assert paid == meant.ledger_entry
    assert (w == meant.draw(seeded())).all()
    if method != "statistic":  # of which few samples have few outcomes
        assert (w != spec.release(opened)[0]).any(), "of the system's randomness unless it is given other"
    assert spec.ballots(opened) == len(opened.parties)


def test_the_cost_of_a_descent_covers_all_steps() -> None:
    cast = DealtCast("psgd")
    spec, study = cast.spec, cast.made.study
    assert isinstance(spec, PsgdSpec)
    sizes = [6, 7, 8, 9, 10]
    options = DescentOptions(variant="gaussian", delta=1e-3, steps=2, lam=0.5, fraction_bits=12, colluders=1)
    assert spec.options == options
    agreed = agree(options, sizes, 4, bytes(16))
    key = cast.shares[0].threshold_key
    terms = cast.agreed(key)
    assert terms.series == replace(agreed.series, nonce=study.nonce_for(key, "series"))
    rest = (terms.descent, terms.threshold_key, terms.roster, terms.test_key, terms.proofs, terms.confirmations)
    assert rest == (agreed.descent, key, study.roster, True, "knowledge", 3)
    walk = DescentState.start(terms)
    w, paid = spec.release(GradientCuratorState(walk, OpenedSum((1,) * 4, (0, 1, 4))))
    assert list(w) == list(walk.point)
    cost = agreed.guarantee.epsilon_transcript
    assert paid == Release(
        "discrete-gaussian",
        cost,
        1e-3,
        "record",
        agreed.sensitivity,
        "l2",
        "one step's gradients; epsilon is that of all steps",
        chosen={"steps": 2, "lam": 0.5, "colluders": 1},
    )
    assert spec.ballots(GradientCuratorState(walk, OpenedSum((1,) * 4, (0, 1, 4)))) == 3


def test_a_descent_with_halving_steps_pays_the_samplers_delta() -> None:
    study = Cast("psgd").made.study
    parameters = study.parameters | {"variant": "halving", "party_bound": 12, "first_step": 0.5, "on_excess": "clip"}
    spec = spec_of(StudyTerms(replace(study, parameters=parameters), AUXILIARY))
    assert isinstance(spec, PsgdSpec)
    chosen: dict[str, Any] = {"party_bound": 12.0, "first_step": 0.5, "on_excess": "clip"}
    options = DescentOptions(variant="halving", delta=1e-3, steps=2, lam=0.5, fraction_bits=12, colluders=1, **chosen)
    assert spec.options == options
    agreed = agree(options, [6, 7, 8, 9, 10], 4, bytes(16))
    assert 0 < agreed.guarantee.delta_samplers < 1e-9
    key = deal(short_key(bits=256), holders=3, threshold=2)[0]
    terms = spec.terms(key, participants_of(study))
    paid = spec.cost(5)
    assert paid.delta == agreed.guarantee.delta_samplers
    assert paid.epsilon == agreed.guarantee.epsilon_transcript
    assert spec.party(0, SigningKey.generate(), spec.prepare(Cast("psgd").own(0)), terms)._clip is True


def test_pathak_shares_are_multiples_of_the_grid_step() -> None:
    cast = Cast("pathak")
    spec, study = cast.spec, cast.made.study
    assert isinstance(spec, PathakSpec)
    terms = make_terms(parties=5, features=4, classes=("a", "b"), epsilon=1.0, lam=0.1, smallest_size=6)
    assert cast.agreed() == replace(terms, nonce=study.nonce_for(None, "pathak").hex())
    assert (terms.largest_size, terms.excluded, terms.tolerance) == (1 << 20, 1, 1e-9)
    w, paid = spec.release(SharedSum((5, -10, 0, 1)))
    assert list(w) == [total * (terms.pitch / 5) for total in (5, -10, 0, 1)]
    epsilon, delta = proved_epsilon(terms)
    where = (record_sensitivity(terms, 6), "l2", "one party's parameters")
    assert paid == Release("laplace in shares", epsilon, delta, "record", *where, chosen={"lam": 0.1})
    assert spec.ballots(SharedSum(())) == 5
    with pytest.raises(StudyError, match="no key is shared"):
        spec.holder(deal(short_key(bits=256), holders=3, threshold=2)[1][0], terms)


def changed(what: str, **fields: Any) -> Study:
    study = Cast(what).made.study
    if "parameters" in fields:
        fields["parameters"] = {**study.parameters, **fields["parameters"]}
    return replace(study, **fields)


@pytest.mark.parametrize(
    ("what", "good", "bad"),
    [
        ("tally", {"lam": 999_999.0}, {"lam": 1e6}),
        ("tally", {"lam": 5e-324}, {"lam": 0.0}),
        ("tally", {"lam": 7}, {"lam": True}),
        ("tally", {"ignore": "x", "text": "y"}, {"ignore": 1}),
        ("average", {"radius": 999_999.0}, {"radius": 1e6}),
        ("average", {"lam": 999_999.0}, {"lam": 1e6}),
        ("average", {"lam": 5e-324}, {"lam": -5e-324}),
        ("average", {"lam": 1.0}, {"lam": 0.0}),
        ("average", {}, {"radius": 0.0}),
        ("average, own data", {}, {"coordinates": ""}),
        ("average, own data", {"lam": 2e6}, {"coordinates": "AAAA"}),
        ("statistic", {}, {"coordinates": "A"}),
        ("statistic", {}, {"coordinates": ""}),
        ("statistic", {}, {"coordinates": encode_coordinates(np.ones((3, 1)))}),
        ("statistic", {}, {"coordinates": encode_coordinates(np.full((4, 1), np.inf))}),
        ("statistic", {}, {"colluders": 1.0}),
        ("statistic", {"colluders": 1}, {"surprise": 1}),
        ("head", {"radius": 2.0**20}, {"radius": 2.0**21}),
        ("head", {"radius": 2.0**-20}, {"radius": 0.0}),
        ("head", {"radius": 1}, {"radius": float("nan")}),
        ("head", {"noise_from": "parties"}, {"noise_from": "curator"}),
        ("record", {"rows": 1}, {"rows": 0}),
        ("record", {"labelled": 0}, {"labelled": -1}),
        ("record", {}, {"neighbours": "replace"}),
        ("record", {"constant": 0.5}, {"constant": 0.0}),
        ("record", {}, {"offset": encode_coordinates(np.ones((4, 2)))}),
        ("record", {"colluders": 3}, {"colluders": 4}),
        ("regression", {"threshold": 5e-324}, {"threshold": 0.0}),
        ("regression", {"low": 0.0}, {"low": 1e3}),
        ("regression, party", {"radius": 4.0}, {"radius": 4.1}),
        ("regression, party", {}, {"record": "patient"}),
        ("psgd", {"sizes": "1 1 1 1 1"}, {"sizes": "1 1 1 1 x"}),
        ("psgd", {}, {"sizes": "6 7 8 9 10 11"}),
        ("psgd", {"steps": 3}, {"steps": 0}),
        ("pathak", {"smallest_size": 1}, {"smallest_size": 0}),
    ],
)
def test_parameters_on_both_sides_of_their_limits(what: str, good: dict[str, Any], bad: dict[str, Any]) -> None:
    look(changed(what, parameters=good))
    with pytest.raises(StudyError):
        look(changed(what, parameters=bad))


def look(study: Study) -> Spec:
    """Its protocol, and its coordinates, which are otherwise looked at when they are used."""
    spec = spec_of(StudyTerms(study, AUXILIARY))
    if isinstance(spec, StatisticSpec | OwnDataSpec) and study.method != "avg":
        assert spec.release_plan.rank
    return spec


@pytest.mark.parametrize(
    ("what", "good", "bad"),
    [
        ("statistic, gaussian", {"minimum_ballots": 5}, {"minimum_ballots": 3}),
        ("average, own data", {"minimum_ballots": 4}, {"minimum_ballots": 3}),
        ("average, whitened", {"minimum_ballots": 2}, {"parameters": {"dropouts": -1}}),
        ("average", {"minimum_ballots": 2}, {"parameters": {"dropouts": 0}, "minimum_ballots": 4}),
        ("average", {"minimum_ballots": 4}, {"method": "soft"}),
        ("psgd", {"delta": 1e-3}, {"minimum_ballots": 4}),
        ("psgd", {}, {"classes": ("a", "b", "c")}),
        ("pathak", {}, {"minimum_ballots": 4}),
    ],
)
def test_studies_on_both_sides_of_their_limits(what: str, good: dict[str, Any], bad: dict[str, Any]) -> None:
    look(changed(what, **good))
    with pytest.raises(StudyError):
        look(changed(what, **bad))


def test_a_descent_that_exceeds_the_studys_epsilon_is_refused() -> None:
    """Epsilon of the classifier alone, as the paper has it, is not that of the sums that stand on the board."""
    with pytest.raises(StudyError, match=r"all of them together cost epsilon .*, not 1: the variants"):
        look(changed("psgd", parameters={"variant": "paper"}))


def test_a_party_has_the_agreed_number_of_rows() -> None:
    spec = Cast("psgd").spec
    for number, rows in enumerate((6, 7, 8, 9, 10)):
        spec.check_rows(number, rows)
        for other in (rows - 1, rows + 1):
            with pytest.raises(StudyError, match=f"party {number} has {rows} rows, and these are {other}"):
                spec.check_rows(number, other)
    Cast("tally").spec.check_rows(0, 7)


@pytest.mark.parametrize(
    "fields", [{"samples": 11}, {"samples": 13}, {"features": tuple("xwyz")}, {"public_table": bytes(32)}], ids=str
)
def test_samples_that_do_not_match_the_study_are_refused(fields: dict[str, Any]) -> None:
    study = Cast("tally").made.study
    StudyTerms(study, AUXILIARY)
    with pytest.raises(StudyError):
        StudyTerms(replace(study, **fields), AUXILIARY)


@pytest.mark.parametrize("what", [what for what in ALL if what.partition(",")[0] not in ("psgd", "pathak")])
def test_a_party_that_has_sent_its_vector_needs_its_rows_no_more(what: str) -> None:
    """Its role is made again whenever its agent starts, and a holder's role starts with it."""

    class Gone:
        def __iter__(self) -> Iterator[Any]:
            raise OSError

        def predict_votes(self, X: Any) -> Any:
            raise OSError

    cast, key = DealtCast(what), deal(short_key(bits=256), holders=3, threshold=2)[0]
    role = cast.spec.party(2, cast.made.keys["party 2"], cast.spec.prepare(Gone()), cast.agreed(key))
    with pytest.raises((OSError, AttributeError)):
        role.start()


@pytest.mark.parametrize(
    "what", [what for what in ALL if what.partition(",")[0] not in ("tally", "average", "psgd", "pathak")]
)
def test_a_party_sends_its_vector_and_all_of_its_share_of_the_noise(what: str) -> None:
    """The audit compares vectors without noise, so it would not see a part of a share."""
    cast, spec = DealtCast(what), DealtCast(what).spec
    assert isinstance(spec, NoisySumSpec)
    key = deal(short_key(bits=256), holders=3, threshold=2)[0]
    given = spec.prepare(cast.own(2)), cast.agreed(key)
    role: Any = spec.party(2, cast.made.keys["party 2"], *given, randomness=SimulationRandomness(1, what))
    sent, clear = role.result(role.start().state), cast.clear(2)
    assert spec.shares is not None
    share = spec.shares.share(SimulationRandomness(1, what))
    assert any(share)
    if spec.holder_shares is not None:
        assert spec.noise_of(2, SimulationRandomness(1, what)) == share
        share = [0] * len(clear)
    assert list(sent) == [value + noise for value, noise in zip(clear, share, strict=True)]
