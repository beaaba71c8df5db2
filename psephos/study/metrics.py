"""Metrics of an agent for Prometheus: entries read and signed, and the messages that it waits for. None is secret."""

from __future__ import annotations

from collections import Counter
from typing import Any

from psephos.protocol.errors import EngineError
from psephos.study.runner import MemberRunner

__all__ = ["serve_metrics"]


def serve_metrics(runner: MemberRunner, port: int, host: str = "127.0.0.1") -> int:
    """Serve the metrics of a member's agents in a new thread, and return the port.

    Args:
        runner: runs the agents.
        port: to listen on; 0 for any free one.
        host: address to listen on.

    Raises:
        EngineError: prometheus-client is missing, or nothing can listen on the port.
    """
    try:
        from prometheus_client import CollectorRegistry, start_http_server
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    except ModuleNotFoundError as error:
        raise EngineError(f"metrics need {error.name}; in a clone: pip install -e '.[watch]'") from None

    class Collector:
        def collect(self) -> list[Any]:
            def gauge(name: str, about: str, *labels: str) -> Any:
                return GaugeMetricFamily(f"psephos_agent_{name}", about, labels=["role", *labels])

            head = gauge("head", "Entries of the board that were read.")
            signed = gauge("entries_signed", "Entries that this role has signed.")
            posted = gauge("entries_unread", "Of these, not read back from the board yet.")
            moved = gauge("moved_seconds", "When the role last came to something, in seconds since 1970.")
            done = gauge("done", "Whether it has the result.")
            awaits = gauge("awaits", "Messages that it cannot go on without.", "kind", "sender")
            refused = CounterMetricFamily("psephos_agent_refused", "Entries not taken.", labels=["role", "error"])
            for running in runner.roles:
                agent, name = running.agent, running.agent.role.name
                head.add_metric([name], agent.head.size)
                signed.add_metric([name], agent.signed_entries)
                posted.add_metric([name], agent.unconfirmed)
                moved.add_metric([name], running.changed_at)
                done.add_metric([name], float(running.done))
                if running.awaits is not None:
                    for sender in running.awaits.senders:
                        awaits.add_metric([name, running.awaits.kind.title, sender], 1)
                for error, count in Counter(type(rejected.error).__name__ for rejected in agent.rejected).items():
                    refused.add_metric([name, error], count)
            up = GaugeMetricFamily(
                "psephos_agent_board_up", "Whether the board answers.", value=float(not runner.failure)
            )
            return [head, signed, posted, moved, done, awaits, refused, up]

    registry = CollectorRegistry()
    registry.register(Collector())
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        raise EngineError(f"nothing can listen on {host}, port {port}: {error.strerror}") from None
    return int(server.server_port)
