"""`psephos audit`."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from psephos.audit.end_to_end import audit_pipelines, pipelines
from psephos.audit.neighbours import PartyTable
from psephos.audit.privacy import audit_privacy
from psephos.audit.run import PROTOCOLS, run_audit
from psephos.cli.generate import command, with_options
from psephos.cli.shared import AsJson, ProgressDisplay, ReportDir, Verbose, check_directory, finish
from psephos.data.own import TableOptions
from psephos.protocol.errors import InvalidParameter
from psephos.results.base import Result, timed
from psephos.results.security import PrivacyAuditResult

_NOISE = "Audit of releases"
_OWN = "psephos audit --privacy --data patients.csv --label result --party hospital --public 11"


_HELP = (
    "The security analysis: who learns what, compared with a simulator that knows only the intended outputs; "
    "with --privacy, whether epsilon holds for whole commands and for every mechanism. The exit status is 1 if a "
    "verdict is not the expected one."
)

app = typer.Typer(rich_markup_mode=None)


@command(
    app,
    "psephos audit tally",
    "psephos audit --thorough --json",
    "psephos audit --privacy",
    _OWN,
    name="audit",
    help=_HELP,
)
@with_options(TableOptions, ("held_out",))
def _(  # wide: a command's options
    table: TableOptions,
    *,
    protocol: Annotated[str | None, typer.Argument(help=f"One of {', '.join(PROTOCOLS)}; all by default.")] = None,
    thorough: Annotated[bool, typer.Option("--thorough", help="More views a test: smaller leaks are noticed.")] = False,
    privacy: Annotated[
        bool,
        typer.Option(
            "--privacy",
            help="Audit what releases cost instead: run every command on neighbouring tables and compare what "
            "leaves a party; and bound every mechanism's epsilon from below, by sampling it, and that of noisy sums, "
            "by attacking them, in about ten minutes. With --data the commands alone, on your table.",
            rich_help_panel=_NOISE,
        ),
    ] = False,
    samples: Annotated[
        int | None,
        typer.Option(help="Outputs of a mechanism per input.", show_default="100,000", rich_help_panel=_NOISE),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="The epsilon that each mechanism claims.", show_default="1", rich_help_panel=_NOISE),
    ] = None,
    report: ReportDir = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    if privacy and (protocol is not None or thorough):
        raise InvalidParameter("--privacy audits what releases cost: leave the rest out")
    if not privacy and (samples is not None or epsilon is not None):
        raise InvalidParameter("--samples and --epsilon are about the noise: use them with --privacy")
    if not privacy and table.data is not None:
        raise InvalidParameter("--data names a table whose releases are audited: use it with --privacy")
    table.check_table()
    check_directory(report)
    with ProgressDisplay() as progress:
        result: Result
        if table.data is not None:
            result = _own_table(table, progress)
        elif privacy:
            chosen_options = 1.0 if epsilon is None else epsilon, 100_000 if samples is None else samples
            result = audit_privacy(*chosen_options, progress, audit_pipelines(progress=progress))
        else:
            result = run_audit(protocol, thorough, progress)
    finish(result, as_json=as_json, report=report, verbose=verbose)


def _own_table(options: TableOptions, progress: ProgressDisplay) -> PrivacyAuditResult:
    if options.data is None or options.label is None or options.party is None:
        raise InvalidParameter(
            "the audit changes one party's rows: name the column of their owners with --party, and the label with "
            "--label"
        )
    start = time.perf_counter()
    table = PartyTable.read(Path(options.data).expanduser(), options.label, options.party)
    chosen_options = {
        name: getattr(options, name) for name in ("public", "schema", "classes", "other_labels", "ignore", "text")
    }
    if options.public in table.parties:
        table = replace(table, public=options.public)
    runs = list(audit_pipelines(table, pipelines(table, **chosen_options), progress=progress))
    return PrivacyAuditResult(mechanisms=[], runs=runs, phases=timed({"total": round(time.perf_counter() - start, 1)}))
