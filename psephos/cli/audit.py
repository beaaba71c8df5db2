"""`psephos audit`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from psephos.cli.generate import Grouped, examples
from psephos.cli.shared import AsJson, Progress, ReportDir, check_directory, finish
from psephos.outcomes import Outcome, PrivacyAuditOutcome
from psephos.protocol.errors import InvalidParameter
from psephos.security.audit import PROTOCOLS
from psephos.security.audit import audit as run_audit
from psephos.security.end_to_end import audit_pipelines, pipelines, records
from psephos.security.neighbours import PartyTable
from psephos.security.privacy import audit_privacy

_PRIVACY, _TABLE = "Audit of releases", "Audit of releases of your own table"
_OWN = "psephos audit --privacy --data patients.csv --label outcome --party hospital --public 11"


def register(app: typer.Typer, words: Sequence[str]) -> None:
    """Add the command."""

    @app.command(
        cls=Grouped,
        epilog=examples("psephos audit tally", "psephos audit --thorough --json", "psephos audit --privacy", _OWN),
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
                help="Audit what releases cost instead: run every command on neighbouring tables and compare what "
                "leaves a party, and bound every mechanism's epsilon from below, by sampling it.",
                rich_help_panel=_PRIVACY,
            ),
        ] = False,
        samples: Annotated[
            int | None,
            typer.Option(help="Outputs of a mechanism per input.", show_default="100,000", rich_help_panel=_PRIVACY),
        ] = None,
        epsilon: Annotated[
            float | None,
            typer.Option(help="What each mechanism claims.", show_default="1", rich_help_panel=_PRIVACY),
        ] = None,
        data: Annotated[
            Path | None,
            typer.Option(
                help="Your own table: the commands are run on it and its neighbours, and no mechanism is sampled.",
                rich_help_panel=_TABLE,
            ),
        ] = None,
        label: Annotated[str | None, typer.Option(help="The column with the class.", rich_help_panel=_TABLE)] = None,
        party: Annotated[
            str | None, typer.Option(help="The column that says whose row it is.", rich_help_panel=_TABLE)
        ] = None,
        public: Annotated[
            str | None, typer.Option(help="Public rows: a party, or a file.", rich_help_panel=_TABLE)
        ] = None,
        schema: Annotated[
            Path | None, typer.Option(help="A schema in place of public rows.", rich_help_panel=_TABLE)
        ] = None,
        report: ReportDir = None,
        as_json: AsJson = False,
    ) -> None:
        """The security analysis: who learned what, and whether a simulator can fake it. Exit status 1 on a surprise."""
        table = {"data": data, "label": label, "party": party, "public": public, "schema": schema}
        named = [f"--{name}" for name, value in table.items() if value is not None]
        if privacy and (protocol is not None or thorough):
            raise InvalidParameter("--privacy audits what releases cost: leave the rest out")
        if not privacy and (samples is not None or epsilon is not None or named):
            raise InvalidParameter(f"{named[0] if named else '--samples and --epsilon'} goes with --privacy")
        if named and (samples is not None or epsilon is not None):
            raise InvalidParameter("--data runs commands on your table: --samples and --epsilon are for mechanisms")
        check_directory(report)
        with Progress() as progress:
            outcome: Outcome
            if privacy and named:
                outcome = _own_table(data, label, party, public, schema, progress)
            elif privacy:
                outcome = audit_privacy(
                    1.0 if epsilon is None else epsilon,
                    100_000 if samples is None else samples,
                    progress,
                    audit_pipelines(progress=progress),
                )
            else:
                outcome = run_audit(protocol, thorough, progress)
        finish(outcome, as_json=as_json, report=report)


def _own_table(
    data: Path | None,
    label: str | None,
    party: str | None,
    public: str | None,
    schema: Path | None,
    progress: Progress,
) -> PrivacyAuditOutcome:
    """The commands on a table of one's own and its neighbours; raises InvalidParameter where an option is missing."""
    if data is None or label is None or party is None or (public is None and schema is None):
        raise InvalidParameter("your own table takes --data, --label, --party, and --public or --schema")
    begun, table = time.perf_counter(), PartyTable.read(data.expanduser(), label, party)
    asked: dict[str, Any] = {"public": public, "schema": None if schema is None else str(schema)}
    table = replace(table, public=public or "") if public in table.parties else table
    chosen = (*pipelines(**asked), *(records(**asked) if len(table.classes) == 2 else ()))
    runs = list(audit_pipelines(table, chosen, progress=progress))
    return PrivacyAuditOutcome(mechanisms=[], runs=runs, seconds={"total": round(time.perf_counter() - begun, 1)})
