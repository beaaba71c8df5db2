"""`psephos audit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from psephos.cli.generate import Grouped, examples
from psephos.cli.shared import AsJson, Progress, ReportDir, check_directory, finish
from psephos.outcomes import Outcome
from psephos.protocol.errors import InvalidParameter
from psephos.security.audit import PROTOCOLS
from psephos.security.audit import audit as run_audit
from psephos.security.privacy import audit_privacy


def register(app: typer.Typer, words: Sequence[str]) -> None:
    """Add the command."""

    @app.command(
        cls=Grouped,
        epilog=examples("psephos audit tally", "psephos audit --thorough --json", "psephos audit --privacy"),
    )
    def audit(
        protocol: Annotated[str | None, typer.Argument(help=f"One of {', '.join(PROTOCOLS)}; all by default.")] = None,
        thorough: Annotated[
            bool, typer.Option("--thorough", help="More views a test: smaller leaks are noticed.")
        ] = False,
        privacy: Annotated[
            bool,
            typer.Option(
                "--privacy",
                help="Bound every mechanism's epsilon from below instead, by sampling it.",
                rich_help_panel="Audit of the noise",
            ),
        ] = False,
        samples: Annotated[
            int | None,
            typer.Option(help="Outputs drawn per input.", show_default="100,000", rich_help_panel="Audit of the noise"),
        ] = None,
        epsilon: Annotated[
            float | None,
            typer.Option(help="What each mechanism claims.", show_default="1", rich_help_panel="Audit of the noise"),
        ] = None,
        report: ReportDir = None,
        as_json: AsJson = False,
    ) -> None:
        """The security analysis: who learned what, and whether a simulator can fake it. Exit status 1 on a surprise."""
        if privacy and (protocol is not None or thorough):
            raise InvalidParameter("--privacy audits the noise of every mechanism: leave the rest out")
        if not privacy and (samples is not None or epsilon is not None):
            raise InvalidParameter("--samples and --epsilon are about the noise: use them with --privacy")
        check_directory(report)
        with Progress() as progress:
            outcome: Outcome
            if privacy:
                outcome = audit_privacy(
                    1.0 if epsilon is None else epsilon, 100_000 if samples is None else samples, progress
                )
            else:
                outcome = run_audit(protocol, thorough, progress)
        finish(outcome, as_json=as_json, report=report)
