"""The receipt of a study says what its board shows, and nothing that the board does not show."""

from __future__ import annotations

import html
import json
import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from psephos.audit.studies import trial
from psephos.protocol.board import MemoryBoard
from psephos.protocol.errors import AgreementError, ReportError
from psephos.protocol.roles import BOARD
from psephos.protocol.wire import Kind, frame
from psephos.results.trust import colluders_text
from psephos.specs.registry import SPECS, coalition_of, is_verifiable, noise_from
from psephos.study.receipt import Receipt, receipt_of, render, write_receipt
from psephos.study.release import read_release
from psephos.study.verify import BoardEvidence, examine
from tests.psephos.study.cast import ALL, fields_of, shares_of
from tests.psephos.study.test_verify import (  # noqa: F401 - fixtures
    PARTIES,
    Played,
    after,
    before,
    bodies,
    bodies_for_curator,
    honest,
    of,
    play,
    public,
    public_file,
    samples,
    signed,
)


def receipt(played: Played, board: MemoryBoard | None = None) -> Receipt:
    return receipt_of(played.study, examine(played.study, played.samples, board or played.board))


def cut(played: Played, entries: int) -> MemoryBoard:
    """Return the board with its first entries alone."""
    board = MemoryBoard()
    for data in played.board.entries[:entries]:
        board.post(data)
    return board


def test_receipt_of_an_honest_tally(honest: Played) -> None:  # noqa: F811
    made = receipt(honest)
    assert made.trial
    assert not made.with_verdict("fails")
    curator, *parties = made.participants
    assert (curator.name, curator.roles, curator.joined, curator.ballot) == ("", ["curator"], ["curator"], None)
    assert [member.name for member in parties] == [member.name for member in honest.study.parties]
    assert [role for member in parties[1:4] for role in member.roles] == [
        "party 1",
        "holder 2",
        "party 2",
        "holder 3",
        "party 3",
    ]
    assert all(member.ballot and member.joined == member.roles for member in parties)
    assert made.encryption.in_use == "yes"
    assert made.encryption.key_bits == honest.study.key_bits
    # Partial decryptions are sealed to the curator, so a receipt names no holder that sent one.
    assert made.encryption.decrypted_by == []
    assert made.release.published
    assert (made.release.epsilon, made.release.unit) == (0.5, "all that one party holds")
    assert {check.what for check in made.with_verdict("not checked")} >= {
        "who holds the identities",
        "what the parties trained on",
        "that nobody has the whole key",
        "what other studies of the same data cost",
    }


def test_encryption_is_claimed_only_with_a_key_and_ballots(honest: Played) -> None:  # noqa: F811
    """On every prefix of a board: no encryption is claimed before a ballot counts, no release before the result."""
    claims = []
    for entries in range(len(honest.board.entries) + 1):
        made = receipt(honest, cut(honest, entries))
        claims.append((made.encryption.in_use, sum(member.ballot or False for member in made.participants)))
        assert (made.encryption.in_use == "yes") == (claims[-1][1] > 0 and made.encryption.key is not None)
        if made.release.published:
            assert any(check.what.startswith("the result:") for check in made.with_verdict("holds"))
    assert claims[0] == ("not established", 0)
    assert claims[-1] == ("yes", PARTIES)
    assert [count for _, count in claims] == sorted(count for _, count in claims)


def test_receipt_of_pathak_claims_no_encryption(play: Callable[..., Played]) -> None:  # noqa: F811
    made = receipt(play(**of("pathak")))
    assert (made.encryption.in_use, made.encryption.key, made.encryption.key_bits) == ("no", None, None)
    assert {member.ballot for member in made.participants} == {None}
    assert made.release.unit.startswith("one row of one party")
    assert "no Paillier encryption" in render(made)


def test_the_receipt_of_every_board_of_a_descent_is_true(play: Callable[..., Played]) -> None:  # noqa: F811
    """A step counts when it is completed; until then the receipt does not say that there are no ballots."""
    played = play(**of("psgd"))
    for entries in range(len(played.board.entries) + 1):
        made = receipt(played, cut(played, entries))
        assert "no ballot" not in made.encryption.what
        assert "sealed to the curator" not in made.encryption.decrypted
        assert bool(made.encryption.decrypted_by) == (made.encryption.in_use == "yes")
        assert made.release.published == (made.release.follows == "holds")


def test_values_that_no_epsilon_covers_are_named(play: Callable[..., Played], public: Played) -> None:  # noqa: F811
    assert "number of rows" in receipt(play(**of("psgd"))).release.not_covered
    assert "number of rows" not in receipt(public).release.not_covered
    assert "count of votes" in receipt(play(**of("tally"))).release.not_covered


def test_shares_that_are_not_published_are_not_claimed(play: Callable[..., Played]) -> None:  # noqa: F811
    played = play(**of("pathak"))
    assert "Not all shares" in receipt(played, cut(played, 20)).encryption.decrypted
    assert "Not all shares" not in receipt(played).encryption.decrypted


@pytest.mark.parametrize("what", ALL)
def test_the_noise_is_described_whole(what: str) -> None:
    """Of every protocol: who adds the noise, and, where members add it in shares, how many of them may collude."""
    study = trial(parties=PARTIES, epsilon=0.5, **fields_of(what, PARTIES)).study
    made = receipt_of(study, BoardEvidence())
    assert made.noun == ("prediction" if study.predicts_number else "classifier")
    noise = made.release.noise
    coalition, adders = coalition_of(study), noise_from(study)
    if not SPECS[study.protocol].joint:
        assert coalition is None
        assert "the curator adds the noise" in noise
        return
    assert coalition is not None
    assert ("every party adds its share of the noise" in noise) == (adders == "parties")
    assert ("every key holder adds its share of the noise" in noise) == (adders == "holders")
    assert colluders_text(coalition, study.threshold, adders) in noise
    assert "is not proved" in noise
    assert ("NOT VERIFIED" in noise) == (not is_verifiable(study))


@pytest.mark.parametrize("what", ALL)
def test_a_receipt_says_what_a_board_shows(what: str) -> None:
    """Of a key, of ballots under it, of steps, and of what was opened."""
    study = trial(parties=PARTIES, epsilon=0.5, **fields_of(what, PARTIES)).study
    key = shares_of(study)[0].threshold_key if study.uses_key else None
    ballots: dict[str, Any] = {"key": key, "counted": (0, 1), "counted_sums": Counter((0, 1))}
    boards: tuple[dict[str, Any], ...] = (
        {},
        {"key": key},
        {"key": key, "steps": 1},
        {**ballots, "steps": 1},
        {**ballots, "steps": 2, "openers": (1, 3)},
        {**ballots, "steps": 1, "openers": (1, 2), "exposed": (1, 2)},
    )
    for board in boards:
        made = receipt_of(study, BoardEvidence(**board))
        facts = made.encryption
        expected = "no" if key is None else "yes" if "counted" in board else "not established"
        assert (facts.in_use, facts.sums) == (expected, board.get("steps", 0) if study.uses_key else 0)
        assert facts.decrypted_by == ([f"holder {n}" for n in board.get("openers", ())] if study.uses_key else [])
        if key is None:
            continue
        shown = board.get("key")
        assert (facts.key_bits, facts.key) == (
            (None, None) if shown is None else (study.key_bits, shown.key.identifier.hex()[:24])
        )
        assert facts.holders == [member.name for member in study.parties[:3]]
        assert ("2 of 5 parties" in facts.what) == ("counted" in board)
        assert ("in the last of 2 steps" in facts.what) == (board.get("steps", 0) > 1)
        assert ("in the last of 2 steps" in facts.decrypted) == (board.get("steps", 0) > 1)
        sums = [(member.ballot, member.sums) for member in made.participants]
        assert sums[0] == (None, None)
        assert sums[1:] == ([(True, 1)] * 2 + [(False, 0)] * 3 if "counted" in board else [(False, 0)] * 5)


def test_a_study_that_is_unfinished_or_unverifiable_says_so_first(honest: Played, public: Played) -> None:  # noqa: F811
    """Of an exact sum to which the curator adds the noise, nobody can check that it did."""
    warnings = {
        "not finished": receipt(public, cut(public, len(public.board.entries) - 1)),
        "not verified": receipt(honest),
    }
    for words, made in warnings.items():
        assert words in made.warning
        page = render(made)
        assert page.index(made.warning) < page.index(made.summary)
    assert receipt(public).warning == ""


def test_a_failed_check_is_the_first_thing_on_the_page(honest: Played) -> None:  # noqa: F811
    made = receipt(honest)
    failed = replace(made, checks=[replace(made.checks[0], verdict="fails"), *made.checks[1:]])
    page = render(failed)
    assert page.index("Checks fail") < page.index("Who took part")
    assert f"{len(made.with_verdict('holds')) - 1} hold, 1 fail" in failed.summary
    assert "Checks fail" not in render(made)


def test_names_are_escaped_and_the_page_has_no_script(honest: Played) -> None:  # noqa: F811
    made = receipt(honest)
    hostile = replace(made, title="<script>alert(1)</script>")
    page = render(hostile)
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert not re.search(r'(?:src|href)="(?!#)', page)


def leaves(value: object) -> list[object]:
    """Return the strings and numbers in a JSON value."""
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in leaves(inner)]
    return [value] if isinstance(value, str) or type(value) in (int, float) else []


@pytest.mark.parametrize("what", ["tally", "statistic", "psgd", "pathak"])
def test_the_page_contains_every_value_of_the_json(play: Callable[..., Played], what: str) -> None:  # noqa: F811
    """Also an epsilon of many digits, which a shorter form would state too low."""
    made = receipt(play(**of(what, epsilon=0.500000009)))
    content = made.as_json()
    page = html.unescape(re.sub(r"<[^>]*>", "", render(made)))
    assert "0.500000009" in page
    known = {"format", "kind", "ballot"}
    for leaf in leaves({name: value for name, value in content.items() if name not in known}):
        assert str(leaf) in page, leaf


def test_names_cannot_move_the_text_around_them(honest: Played) -> None:  # noqa: F811
    """Letters that are written from right to left, or a hundred marks over one letter."""
    made = receipt(honest)
    names = [replace(member, name=f"\u05d0 {number}\u0301") for number, member in enumerate(made.participants)]
    encryption = replace(made.encryption, holders=[member.name for member in names])
    page = render(replace(made, participants=names, encryption=encryption, title="\u05d1"))
    for name in ("\u05d1", *(member.name for member in names)):
        assert page.count(name) - (name in page.partition("</title>")[0]) == page.count(f"<bdi>{name}</bdi>")


@pytest.mark.parametrize("how", [{"skip": -1}, {"forked": True}])
def test_misconduct_is_at_the_top_and_the_result_stands(public: Played, how: dict[str, Any]) -> None:  # noqa: F811
    """Members have signed two entries in one place, or have read another log than this one."""
    made = receipt(public, after(public, *(signed(public, name, b"x", **how) for name in ("party 4", "party 3"))))
    assert made.warning == ""
    (check,) = made.with_verdict("misconduct")
    assert check.culprits == ("party 3", "party 4")
    assert made.misconduct in render(made)
    assert all(name in made.misconduct for name in check.culprits)
    assert receipt(public, after(public, signed(public, "curator", b"x", **how))).warning.startswith("FAILED")
    assert receipt(public).misconduct == ""


@pytest.mark.parametrize("receiver", [BOARD, "curator"])
def test_published_decryptions_of_an_exact_sum_fail(honest: Played, receiver: str) -> None:  # noqa: F811
    """As many holders as open it let everybody read what only the curator may see: no epsilon holds then."""
    parts = bodies_for_curator(honest)
    for number in (1, 2):
        made = receipt(honest, before(honest, None, *parts[:number], receiver=receiver))
        assert made.warning.startswith("FAILED") == (number == 2)
        (check,) = made.with_verdict("fails" if number == 2 else "misconduct")
        assert check.what.startswith("the exact sum")
        assert "everybody" in made.encryption.decrypted
        assert made.encryption.decrypted_by == [name for name, _ in parts[:number]]
        assert ("Everybody who reads the board is given the exact" in made.release.not_covered) == (number == 2)


@pytest.mark.parametrize("field", ["x\x1b[2J\u202e", "Z" * 3_000_000])
def test_texts_of_a_curator_cannot_fill_or_control_a_terminal(public: Played, field: str) -> None:  # noqa: F811
    """The name of an unknown field of its result is part of an error, which every member and reader is shown."""
    content = json.loads(public.agents["curator"].result.content) | {field: 1}
    result = ("curator", frame(Kind.RESULT, public.study.digest, json.dumps(content).encode()))
    made = receipt(public, before(public, Kind.RESULT, result))
    (check,) = made.with_verdict("fails")
    assert check.found.isprintable()
    assert len(check.found) <= 1003
    with pytest.raises(AgreementError) as caught:
        read_release(public.study, public.samples, json.dumps(content).encode())
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_a_party_that_counts_in_one_step_only_has_taken_part(play: Callable[..., Played]) -> None:  # noqa: F811
    played = play(**of("psgd"))
    evidence = examine(played.study, played.samples, played.board)
    assert evidence.counted_sums == Counter(dict.fromkeys(range(PARTIES), 2))
    evidence.counted, evidence.counted_sums[4], evidence.counted_sums[3] = (0, 1, 2), 1, 0
    made = receipt_of(played.study, evidence)
    assert [(member.ballot, member.sums) for member in made.participants[-2:]] == [(False, 0), (True, 1)]
    assert "in 1 of 2 steps" in render(made)


def test_a_wrong_opening_of_a_descent_is_counted_once_a_step(play: Callable[..., Played]) -> None:  # noqa: F811
    """In the step of a liar two checks have one name: the lie, and how many honest holders are there."""
    played = play(**of("psgd"))
    (name, data), *_ = bodies(played, Kind.PARTIAL_DECRYPTION)
    wrong = ("holder 3", data[:80] + bytes(10) + data[90:])
    made = receipt(played, before(played, Kind.PARTIAL_DECRYPTION, wrong, (name, data), count=2))
    assert name != "holder 3"
    assert not any("2 steps" in check.what for check in made.checks)


def test_who_could_have_learned_a_contribution_is_complete(
    honest: Played,  # noqa: F811
    public: Played,  # noqa: F811
    play: Callable[..., Played],  # noqa: F811
) -> None:
    """All others together subtract what they sent; the short key of a trial can be factored."""
    exact, noisy = (" ".join(receipt(played).encryption.could_decrypt) for played in (honest, public))
    assert "All other parties: together with the curator" in exact
    assert "All other parties" in noisy
    assert "factors the key" in exact
    final = replace(public.study, trial=False, key_bits=2048)
    assert "factors" not in " ".join(receipt_of(final, BoardEvidence()).encryption.could_decrypt)
    shares = receipt(play(**of("pathak"))).encryption.could_decrypt
    assert shares[0].startswith("All other parties")


def test_a_check_of_nothing_does_not_hold(public: Played) -> None:  # noqa: F811
    """No ballots, or no entries, were checked; and a shorter board does not show that a study is not finished."""
    for board in (MemoryBoard(), before(public, Kind.BALLOT)):
        held = {check.what for check in receipt(public, board).with_verdict("holds")}
        assert not any(what.startswith("ballots") for what in held)
        assert any(what.startswith("signatures") for what in held) == bool(board.entries)
    assert "on this board" in receipt(public, before(public, Kind.RESULT)).warning


@pytest.mark.parametrize("name", ["receipt.html", "receipt.json", "receipt"])
def test_both_receipt_files_agree(honest: Played, tmp_path: Path, name: str) -> None:  # noqa: F811
    made = receipt(honest)
    page, document = write_receipt(made, tmp_path / name)
    assert (page.name, document.name) == ("receipt.html", "receipt.json")
    content = json.loads(document.read_text(encoding="utf-8"))
    assert content["kind"] == "receipt"
    assert "not a certification" in content["notice"]
    text = page.read_text(encoding="utf-8")
    for value in (made.study, made.head, made.encryption.key, made.summary, *(m.key for m in made.participants)):
        assert value in text
    assert [check["what"] for check in content["checks"]] == [check.what for check in made.checks]


def test_other_files_are_never_overwritten(honest: Played, tmp_path: Path) -> None:  # noqa: F811
    made = receipt(honest)
    (tmp_path / "model.json").write_text("{}")
    os.mkfifo(tmp_path / "pipe.html")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link.json").symlink_to("elsewhere")
    (tmp_path / "folder.html").mkdir()
    before_all = sorted(path.name for path in tmp_path.iterdir())
    bad = ("model.html", "model.json", "report.md", "pipe", "link", "folder", "missing/receipt", "model.json/receipt")
    for path in (*(tmp_path / name for name in bad), tmp_path, Path("/")):
        with pytest.raises(ReportError):
            write_receipt(made, path)
    assert sorted(path.name for path in tmp_path.iterdir()) == before_all
    for _ in range(2):  # an earlier receipt is replaced
        page, document = write_receipt(made, tmp_path / "study")
        assert (page.name, document.name) == ("study.html", "study.json")
