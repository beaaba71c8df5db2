"""PSGD on the encrypted sum: what it opens, what it costs, and that an interrupt never costs anything twice."""

from __future__ import annotations

import json
import math
import resource
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import psephos.simulate.psgd as stage
from psephos.curator.losses import Huber, Logistic
from psephos.curator.psgd.curator import agree
from psephos.parties.gradients import gradient_sum, margin_slope
from psephos.parties.psgd import OpeningRecord, StepHolder
from psephos.protocol.encrypted_sum.messages import TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.series import Announcement
from psephos.protocol.errors import (
    BudgetExceededError,
    DivergenceError,
    GradientBoundError,
    InvalidParameter,
    JournalError,
    PackingError,
    PartyVanishedError,
    TooFewBallotsError,
    WeakKeyError,
)
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.transcript import BOARD, Transcript
from psephos.simulate.ceremony import Ceremony, hold_ceremony
from psephos.simulate.journal import Journal, StepLog
from psephos.simulate.psgd import SgdRun, run_psgd

SIZES = (5, 9, 2, 14)
OPTIONS = {
    "parties": 5,
    "steps": 6,
    "key_bits": 1024,
    "test_key": True,
    "delta": 1e-3,
    "simulate_noise": True,
    "seed": 3,
}


@pytest.fixture(scope="module")
def ceremony() -> Ceremony:
    return hold_ceremony(
        4, key_bits=1024, holders=3, threshold=2, test_key=True, randomness=SimulationRandomness(5, "psgd ceremony")
    )


def records(dimension: int = 4, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(seed)
    made = []
    for size in SIZES:
        X = generator.normal(size=(size, dimension))
        X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
        made.append((X, np.where(X[:, 0] + 0.2 * generator.normal(size=size) > 0, 1, -1)))
    return made


def run_of(ceremony: Ceremony, *, steps: int = 5, dimension: int = 4, **options: object) -> SgdRun:
    own = {
        k: options.pop(k) for k in ("variant", "unit", "epsilon", "delta", "dropouts", "party_bound") if k in options
    }
    loss = options.pop("loss", Logistic())
    agreement = agree(
        **{"epsilon": 1.0, "delta": 1e-3, **own},
        lam=0.1,
        sizes=SIZES,
        dimension=dimension,
        steps=steps,
        loss=loss,
        randomness=SimulationRandomness(1, "nonce"),
    )
    return SgdRun(records(dimension), agreement, ceremony, loss=loss, test_key=True, **options)


class Interrupted(BaseException):
    """Stands for the power cut: nothing in the library may catch it."""


# -- the mistake to be feared most: a second release for one step


STEPS_OF_A_STEP = ("announce", "third ballot", "opened", "sum journaled")


@pytest.mark.parametrize("where", STEPS_OF_A_STEP)
def test_interrupt_never_releases_twice(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever moment it is killed at, the run goes on with the same bytes, and ends where the undisturbed one ends."""
    undisturbed = run_psgd(**OPTIONS, state_dir=tmp_path / "undisturbed")
    folder = tmp_path / "killed"
    seen: list[tuple[str, bytes]] = []

    class Watching(Transcript):
        def send(self, phase: str, sender: str, receiver: str, kind: str, data: bytes) -> bytes:
            seen.append((f"{phase}: {kind} of {sender}", data))
            if len(seen) >= 2 and armed and phase == "step 3":
                if where == "announce" and kind == "announcement":
                    raise Interrupted
                if where == "third ballot" and (kind, sender) == ("ballot", "party 2"):
                    raise Interrupted
                if where == "opened" and (kind, sender) == ("partial decryption", "holder 2"):
                    raise Interrupted
            return super().send(phase, sender, receiver, kind, data)

    def advance(self: object, opened: object) -> None:
        if armed and self.steps_done == 2:  # type: ignore[attr-defined]
            raise Interrupted
        original(self, opened)  # type: ignore[arg-type]

    original = stage.Curator.advance
    armed = True
    if where == "sum journaled":
        monkeypatch.setattr(stage.Curator, "advance", advance)
    with pytest.raises(Interrupted):
        run_psgd(**OPTIONS, state_dir=folder, transcript=Watching())
    armed = False
    resumed = run_psgd(**OPTIONS, state_dir=folder, transcript=Watching())

    assert resumed["resumed_at"] == (3 if where == "sum journaled" else 2)
    assert resumed["w"] == undisturbed["w"]
    assert resumed["steps"] == 6
    # One ballot and one opening per role and step, however often they were sent.
    for name, _ in seen:
        assert len({data for other, data in seen if other == name}) == 1, f"two different messages: {name}"
    ballots = Counter(name for name, _ in seen if "ballot" in name)
    assert len(ballots) == 5 * 6
    if where == "sum journaled":
        assert max(ballots.values()) == 1


def test_finished_run_is_not_repeated(tmp_path: Path) -> None:
    first = run_psgd(**OPTIONS, state_dir=tmp_path)
    watching = Transcript()
    again = run_psgd(**OPTIONS, state_dir=tmp_path, transcript=watching)
    assert again["w"] == first["w"]
    assert (again["resumed_at"], again["sums_equal_reference"]) == (6, None)
    assert not watching.messages


def test_other_options_are_another_run(tmp_path: Path) -> None:
    run_psgd(**OPTIONS, state_dir=tmp_path)
    with pytest.raises(JournalError, match=r"another run \(epsilon: 1.0 there, 2.0 here"):
        run_psgd(**{**OPTIONS, "epsilon": 2.0}, state_dir=tmp_path)


def test_lost_party_state_stops_the_run(tmp_path: Path) -> None:
    """A party that forgot its eta and its steps would answer them again."""
    run_psgd(**OPTIONS, state_dir=tmp_path)
    (tmp_path / "party-000002.state").unlink()
    with pytest.raises(JournalError, match="party 2 is older"):
        run_psgd(**OPTIONS, state_dir=tmp_path)


def test_damaged_journal(tmp_path: Path) -> None:
    run_psgd(**OPTIONS, state_dir=tmp_path)
    path = tmp_path / "steps"
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])  # torn in the last line: repeated
    resumed = run_psgd(**OPTIONS, state_dir=tmp_path)
    assert (resumed["resumed_at"], resumed["steps"]) == (5, 6)
    lines = whole.splitlines(keepends=True)
    for damage in (whole[:900] + b"{" + whole[900:], b"".join(lines[:1] + lines[3:]), b"".join(lines[:3] + lines[4:])):
        path.write_bytes(damage)
        with pytest.raises(JournalError):
            run_psgd(**OPTIONS, state_dir=tmp_path)


def test_log_drops_a_torn_line_only(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "j")
    log.append({"a": 1})
    log.append({"b": 2})
    with (tmp_path / "j").open("ab") as file:
        file.write(b'{"c": ')
    assert StepLog(tmp_path / "j").entries == [{"a": 1}, {"b": 2}]
    assert [json.loads(line) for line in (tmp_path / "j").read_text().splitlines()] == [{"a": 1}, {"b": 2}]
    for damage in (b"{]\n", b"[1]\n", b'"announced"\n'):
        (tmp_path / "j").write_bytes(damage)
        with pytest.raises(JournalError, match="damaged"):
            StepLog(tmp_path / "j")


@pytest.mark.parametrize("room", [100, None], ids=["none for a party's state", "none for the log"])
def test_a_full_disk_is_named_and_the_step_repeated(tmp_path: Path, room: int | None) -> None:
    undisturbed = run_psgd(**OPTIONS)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill(steps: int) -> None:
        if steps:
            # The kernel itself refuses to write files beyond this size; the log grows in every step.
            limit = (tmp_path / "steps").stat().st_size + 10 if room is None else room
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))

    try:
        with pytest.raises(JournalError, match="no room"):
            run_psgd(**OPTIONS, state_dir=tmp_path, progress=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    again = run_psgd(**OPTIONS, state_dir=tmp_path)
    assert (again["resumed_at"], again["steps"]) == (1, 6)
    assert again["w"] == undisturbed["w"]


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    """Both would answer the same steps with noise of their own."""
    with Journal(tmp_path, {}), pytest.raises(JournalError, match="another run is writing"):
        run_psgd(**OPTIONS, state_dir=tmp_path)


def test_a_folder_that_others_can_read_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(JournalError, match="chmod 700"):
        run_psgd(**OPTIONS, state_dir=tmp_path)


def test_nobody_else_can_read_the_states(tmp_path: Path) -> None:
    run_psgd(**OPTIONS, state_dir=tmp_path)
    assert [file for file in tmp_path.rglob("*") if file.stat().st_mode & 0o077] == []


# -- what is opened


@pytest.mark.parametrize("variant", ["paper", "footnote-4", "halving", "gaussian"])
def test_opened_sum_is_the_sum(ceremony: Ceremony, variant: str) -> None:
    run = run_of(ceremony, variant=variant)
    outcome = run.walk()
    assert outcome.sums_equal_reference is True
    assert outcome.steps == 5


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5)])
def test_fixed_point_sum_is_within_its_bound(ceremony: Ceremony, loss: Logistic | Huber) -> None:
    """With all noise off the opened sum is the plain sum but for half a unit per party and entry."""
    run = run_of(ceremony, loss=loss)
    quiet = replace(
        run.agreement.series, fixed_sigmas=(0.0,) * len(SIZES), step_law="none", step_scale=0.0, fraction_bits=12
    )
    run = SgdRun(records(), replace(run.agreement, series=quiet), ceremony, loss=loss, test_key=True)
    slope = margin_slope(loss.name)
    worst = 0.0
    for _ in range(5):
        w = run.curator.w
        opened = run.step()
        gradients = [gradient_sum(X, y.astype(float), w, slope) for X, y in records()]
        plain = [math.fsum(column) for column in zip(*gradients, strict=True)]
        errors = [abs(units - exact / quiet.pitch) for units, exact in zip(opened.sums, plain, strict=True)]
        worst = max(worst, *errors)
    assert 0.5 < worst <= len(SIZES) / 2


def test_every_message_goes_through_the_transcript(ceremony: Ceremony) -> None:
    transcript = Transcript()
    outcome = run_of(ceremony, transcript=transcript, steps=2).walk()
    kinds = Counter((m.kind, m.receiver if m.receiver == BOARD else m.receiver.split()[0]) for m in transcript.messages)
    assert kinds == {
        ("announcement", BOARD): 2,
        ("ballot", BOARD): 8,
        ("tally request", "holder"): 4,
        ("partial decryption", "curator"): 4,
    }
    assert outcome.bytes_posted == sum(m.size for m in transcript.messages)
    assert outcome.ballot_bytes == next(m.size for m in transcript.messages if m.kind == "ballot")


def test_curator_alone_cannot_read_a_ballot(ceremony: Ceremony) -> None:
    """No holder opens less than all ballots: the request for one party's is refused."""
    transcript = Transcript(secrets=True)
    run = run_of(ceremony, transcript=transcript)
    run.step()
    announcement = Announcement.decode(
        next(m.data for m in transcript.messages if m.kind == "announcement"), run.agreement.series
    )
    round_ = announcement.round(run.agreement.series, ceremony.threshold_key, ceremony.roster, test_key=True)
    one = next(m.data for m in transcript.messages if m.kind == "ballot")
    assert one is not None
    alone, _ = BallotProduct(round_).add_all([one])
    holder = StepHolder(ceremony.shares[2], round_, OpeningRecord())
    holder.observe(one)
    with pytest.raises(TooFewBallotsError):
        holder.partially_decrypt(TallyRequest(round_.digest, alone.members, alone.digest))


# -- parties that vanish


def test_vanished_party_stops_the_run_and_coming_back_repeats_the_step(ceremony: Ceremony) -> None:
    gone = True
    run = run_of(ceremony, attendance=lambda step, party: not (gone and step == 3 and party == 1))
    run.step()
    run.step()
    with pytest.raises(PartyVanishedError, match="1 parties did not answer step 3, and at most 0"):
        run.step()
    kept = [party._latest for party in run.parties]
    assert [party.steps_answered for party in run.parties] == [3, 2, 3, 3]
    gone = False
    outcome = run.walk()
    assert outcome.steps == 5
    assert outcome.sums_equal_reference is True
    assert kept[0] != run.parties[0]._latest


@pytest.mark.parametrize("variant", ["paper", "gaussian"])
def test_agreed_dropouts_are_tolerated(ceremony: Ceremony, variant: str) -> None:
    run = run_of(ceremony, variant=variant, dropouts=1, attendance=lambda step, party: party != 2)
    assert run.walk().sums_equal_reference is True
    with pytest.raises(PartyVanishedError):
        run_of(ceremony, variant=variant, dropouts=1, attendance=lambda step, party: party > 1).step()


def test_no_step_more_than_agreed(ceremony: Ceremony) -> None:
    run = run_of(ceremony, steps=1)
    run.walk()
    party, series = run.parties[0], run.agreement.series
    announcement = Announcement(series.digest, 2, bytes(16), (0.0,) * 4)
    round_ = run._round(Announcement.create(series, 1, (0.0,) * 4))
    with pytest.raises(BudgetExceededError):
        party.answer(announcement, round_)


# -- the job


def test_run_psgd_report() -> None:
    counted = []
    result = run_psgd(**OPTIONS, progress=counted.append)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert sum(counted) == 6
    assert result["sums_equal_reference"] is True
    assert result["steps"] == 6
    assert result["epsilon_final"] == 1.0
    assert result["guarantee"]["unit"] == "record"
    assert 1 < result["epsilon_transcript"] <= 6.0
    assert result["noise_source"].startswith("seed")
    assert result["accuracy"]["nonprivate"] > 0.9


def test_noise_is_the_systems_by_default() -> None:
    options = {k: v for k, v in OPTIONS.items() if k != "simulate_noise"} | {"steps": 2}
    first, second = run_psgd(**options), run_psgd(**options)
    assert first["noise_source"] == "operating system"
    assert first["w"] != second["w"]


def test_seeded_noise_repeats_exactly() -> None:
    assert run_psgd(**OPTIONS)["w"] == run_psgd(**OPTIONS)["w"]


def test_what_is_clipped_or_weak_is_said() -> None:
    clipped = run_psgd(**{**OPTIONS, "on_excess": "clip", "party_bound": 0.5, "steps": 1, "delta": 0.05})
    assert clipped["gradients_clipped_here"] == 5
    assert clipped["gradient_bound"] == 0.5
    assert clipped["epsilon_final"] is None
    assert any("not below 1/N" in note for note in clipped["notes"])
    assert any("scaled down" in note for note in clipped["notes"])
    with pytest.raises(GradientBoundError):
        run_psgd(**{**OPTIONS, "on_excess": "refuse", "party_bound": 0.5})
    gaussian = run_psgd(**{**OPTIONS, "variant": "gaussian", "steps": 1})
    assert gaussian["gradients_clipped_here"] == 0
    assert not gaussian["notes"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"first_step": 100.0}, DivergenceError),
        ({"step_power": 0.5}, InvalidParameter),
        ({"step_power": 1.5}, InvalidParameter),
        ({"delta": 0.0}, InvalidParameter),
        ({"delta": 1.0}, InvalidParameter),
        ({"epsilon": 0.0}, InvalidParameter),
        ({"epsilon": float("nan")}, InvalidParameter),
        ({"epsilon": 1e-320}, InvalidParameter),
        ({"lam": -1.0}, InvalidParameter),
        ({"steps": 0}, InvalidParameter),
        ({"parties": 1}, InvalidParameter),
        ({"loss": "softmax"}, InvalidParameter),
        ({"loss": "hinge"}, InvalidParameter),
        ({"dataset": "digits"}, InvalidParameter),
        ({"variant": "best"}, InvalidParameter),
        ({"unit": "person"}, InvalidParameter),
        ({"variant": "footnote-4", "unit": "party"}, InvalidParameter),
        ({"colluders": 5}, InvalidParameter),
        ({"dropouts": -1}, InvalidParameter),
        ({"variant": "gaussian", "delta": 1e-30}, InvalidParameter),
        ({"variant": "halving", "steps": 60, "key_bits": 64}, PackingError),
        ({"variant": "halving", "steps": 1000}, InvalidParameter),
        ({"radius": 0.0}, InvalidParameter),
        ({"stop_tolerance": -1.0}, InvalidParameter),
        ({"party_bound": float("inf")}, InvalidParameter),
        ({"on_excess": "ignore"}, InvalidParameter),
        ({"test_key": False}, WeakKeyError),
        ({"holders": 6}, InvalidParameter),
    ],
)
def test_bad_input(change: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        run_psgd(**{**OPTIONS, **change})
