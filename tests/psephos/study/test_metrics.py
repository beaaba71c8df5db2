"""What Prometheus is told of a member's agents, to the last line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest

from psephos.protocol.errors import BoardError, EngineError, MessageError
from psephos.protocol.roles import MissingMessages
from psephos.protocol.wire import Kind

pytest.importorskip("prometheus_client")
from psephos.study.metrics import serve_metrics


def seat(name: str, **fields: Any) -> Any:
    errors = [SimpleNamespace(error=error) for error in (MessageError("a"), BoardError("b"), MessageError("c"))]
    agent = SimpleNamespace(
        head=SimpleNamespace(size=7),
        signed_entries=5,
        unconfirmed=2,
        role=SimpleNamespace(name=name),
        rejected=errors,
    )
    return SimpleNamespace(**{"agent": agent, "changed_at": 12.5, "done": False, "awaits": None} | fields)


def metrics(play: Any) -> list[str]:
    with urlopen(f"http://127.0.0.1:{serve_metrics(play, 0)}/metrics") as answer:
        return str(answer.read().decode()).splitlines()


def test_metrics_in_prometheus_format() -> None:
    one = seat("party 3", awaits=MissingMessages(Kind.PUBLIC_KEY, ("holder 1", "holder 2")))
    other = seat("curator", done=True)
    other.agent.rejected = []
    lines = metrics(SimpleNamespace(roles=[one, other], failure=""))
    help_ = [line[7:] for line in lines if line.startswith("# HELP ")]
    assert help_ == [
        "psephos_agent_head Entries of the board that were read.",
        "psephos_agent_entries_signed Entries that this role has signed.",
        "psephos_agent_entries_unread Of these, not read back from the board yet.",
        "psephos_agent_moved_seconds When the role last came to something, in seconds since 1970.",
        "psephos_agent_done Whether it has the result.",
        "psephos_agent_awaits Messages that it cannot go on without.",
        "psephos_agent_refused_total Entries not taken.",
        "psephos_agent_board_up Whether the board answers.",
    ]
    kinds = [line.split()[-1] for line in lines if line.startswith("# TYPE ")]
    assert kinds == ["gauge"] * 6 + ["counter", "gauge"]
    waits = f'psephos_agent_awaits{{kind="{Kind.PUBLIC_KEY.title}",role="party 3",sender="holder '
    assert sorted(line for line in lines if not line.startswith("#")) == sorted(
        [
            *(
                f'psephos_agent_{name}{{role="{role}"}} {value}'
                for role, done in (("party 3", 0.0), ("curator", 1.0))
                for name, value in (
                    ("head", 7.0),
                    ("entries_signed", 5.0),
                    ("entries_unread", 2.0),
                    ("moved_seconds", 12.5),
                    ("done", done),
                )
            ),
            f'{waits}1"}} 1.0',
            f'{waits}2"}} 1.0',
            'psephos_agent_refused_total{error="BoardError",role="party 3"} 1.0',
            'psephos_agent_refused_total{error="MessageError",role="party 3"} 2.0',
            "psephos_agent_board_up 1.0",
        ]
    )
    assert "psephos_agent_board_up 0.0" in metrics(SimpleNamespace(roles=[], failure="gone"))


def test_metrics_on_an_occupied_port_are_refused() -> None:
    play: Any = SimpleNamespace(roles=[], failure="")
    port = serve_metrics(play, 0)
    with pytest.raises(EngineError, match=f"nothing can listen on 127.0.0.1, port {port}: Address already in use"):
        serve_metrics(play, port)
