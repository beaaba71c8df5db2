"""The receipt of a study says what its board shows, and nothing that the board does not show."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from psephos.cli.main import build
from psephos.protocol.board import MemoryBoard
from psephos.protocol.board.file import BoardFile
from psephos.study.receipt import Receipt, receipt_of, render, write_receipt
from psephos.study.verify import examine
from tests.psephos.study.test_verify import (  # noqa: F401 - fixtures
    PARTIES,
    SAMPLES,
    Played,
    honest,
    of,
    play,
    public,
    samples,
)


def receipt(played: Played, board: MemoryBoard | None = None) -> Receipt:
    return receipt_of(played.study, examine(played.study, played.samples, board or played.board))


def cut(played: Played, entries: int) -> MemoryBoard:
    """Return the board with its first entries alone."""
    board = MemoryBoard()
    for data in played.board.entries[:entries]:
        board.post(data)
    return board


def test_an_honest_tally(honest: Played) -> None:  # noqa: F811
    made = receipt(honest)
    assert made.trial
    assert not made.with_verdict("fails")
    curator, *parties = made.participants
    assert (curator.name, curator.roles, curator.joined, curator.ballot) == ("", ["curator"], ["curator"], None)
    assert [member.name for member in parties] == [member.name for member in honest.study.parties]
    assert all(member.ballot and member.joined == member.roles for member in parties)
    assert made.encryption.in_use == "yes"
    assert made.encryption.key_bits == honest.study.key_bits
    # Partial decryptions are sealed to the curator, so a receipt names no holder that sent one.
    assert made.encryption.decrypted_by == []
    assert made.release.published
    assert (made.release.epsilon, made.release.unit) == (0.5, "all rows of one party")
    assert {check.what for check in made.with_verdict("not checked")} >= {
        "who holds the identities",
        "what the parties trained on",
        "that nobody has p and q",
    }


def test_a_public_sum_names_the_holders_who_opened_it(public: Played) -> None:  # noqa: F811
    made = receipt(public)
    assert len(made.encryption.decrypted_by) >= public.study.threshold
    assert set(made.encryption.decrypted_by) <= set(public.study.holders)
    assert made.release.not_covered.startswith("Nothing")


def test_encryption_is_established_by_a_key_and_ballots_only(honest: Played) -> None:  # noqa: F811
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


def test_a_protocol_without_a_key_is_said_to_have_none(play: Callable[..., Played]) -> None:  # noqa: F811
    made = receipt(play(**of("pathak")))
    assert (made.encryption.in_use, made.encryption.key, made.encryption.key_bits) == ("no", None, None)
    assert {member.ballot for member in made.participants} == {None}
    assert made.release.unit == "one row of one party"
    assert "Paillier encryption was not used" in render(made)


def test_steps_of_a_descent(play: Callable[..., Played]) -> None:  # noqa: F811
    made = receipt(play(**of("psgd")))
    assert made.encryption.in_use == "yes"
    assert "steps" in made.encryption.what
    assert made.release.published


def test_a_failed_check_is_the_first_thing_on_the_page(honest: Played) -> None:  # noqa: F811
    made = receipt(honest)
    failed = replace(made, checks=[replace(made.checks[0], verdict="fails"), *made.checks[1:]])
    page = render(failed)
    assert page.index("Checks fail") < page.index("Who took part")
    assert "1 fails" in failed.summary
    assert "Checks fail" not in render(made)


def test_names_are_escaped_and_the_page_has_no_script(honest: Played) -> None:  # noqa: F811
    made = receipt(honest)
    hostile = replace(made, title="<script>alert(1)</script>")
    page = render(hostile)
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert not re.search(r'(?:src|href)="(?!#)', page)


@pytest.mark.parametrize("name", ["receipt.html", "receipt.json", "receipt"])
def test_both_files_say_the_same(honest: Played, tmp_path: Path, name: str) -> None:  # noqa: F811
    made = receipt(honest)
    page, document = write_receipt(made, tmp_path / name)
    assert (page.name, document.name) == ("receipt.html", "receipt.json")
    content = json.loads(document.read_text(encoding="utf-8"))
    assert content["kind"] == "receipt"
    assert "not a certification" in content["notice"]
    text = page.read_text(encoding="utf-8")
    for said in (made.study, made.head, made.encryption.key, made.summary, *(m.key for m in made.participants)):
        assert said in text
    assert [check["what"] for check in content["checks"]] == [check.what for check in made.checks]


def test_the_command(honest: Played, tmp_path: Path, samples: object) -> None:  # noqa: F811
    honest.study.write(tmp_path / "study.toml")
    board = BoardFile(tmp_path / "board.sqlite")
    for data in honest.board.entries:
        board.post(data)
    board.close()
    columns = pd.DataFrame(np.random.default_rng(2).normal(size=(SAMPLES, 3)), columns=list("xyz"))
    columns.to_csv(tmp_path / "public.csv", index=False)
    words = ["verify", str(tmp_path / "study.toml"), "--board", str(tmp_path / "board.sqlite")]
    words += ["--public", str(tmp_path / "public.csv"), "--report", str(tmp_path / "receipt.html")]
    done = CliRunner().invoke(build(), words, catch_exceptions=False)
    assert done.exit_code == 0
    assert (tmp_path / "receipt.json").exists()
    assert (tmp_path / "receipt.html").exists()
    refused = CliRunner().invoke(build(), [*words, "--curator", str(tmp_path)])
    assert refused.exit_code != 0
