"""The analysis of every protocol: `psephos audit`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from joblib import Parallel, cpu_count, delayed

from psephos.audit.case_ceremony import CEREMONY
from psephos.audit.case_pathak import PATHAK, PATHAK_LIARS
from psephos.audit.case_psgd import PSGD, PSGD_GAUSSIAN
from psephos.audit.case_sums import STATISTICS, TALLY
from psephos.audit.compare import detectable_accuracy
from psephos.audit.liars import LIARS, PSGD_LIARS
from psephos.audit.model import AnalysisContext, Case, CheckResult, judge
from psephos.progress import Progress, silent
from psephos.protocol.errors import InvalidParameter
from psephos.results.base import timed
from psephos.results.security import AuditedProtocol, AuditResult

_ALL = (CEREMONY, TALLY, LIARS, *STATISTICS, *PATHAK, PATHAK_LIARS, PSGD, PSGD_GAUSSIAN, PSGD_LIARS)
CASES: dict[str, Case] = {case.name: case for case in _ALL}
"""The case of each audited protocol, by its name."""
PROTOCOLS = tuple(CASES)
"""Their names, as `psephos audit` takes them."""

VIEWS, THOROUGH_VIEWS = 80, 400
"""Views per side of a two-sample test."""

RATE = 5e-5
"""False-alarm rate of each statistical check."""

NOT_EXAMINED: dict[str, str] = {
    "what a run does around its messages": (
        "files, JSON, logs, errors and journals are in no view, but searched for planted values "
        "(tests/security/test_canaries.py); memory, which holds secrets, is not"
    ),
    "what is released": (
        "views end where a sum is opened; the suite measures each release's law, scale and cost "
        "(tests/security/test_published.py)"
    ),
    "data, options and studies": "cases run on inputs of their own, without training, options and stages of a study",
    "engines and journals": "views come from whole runs in one process; elsewhere tests compare the opened sums only",
    "sizes in use": (
        "keys have 64 to 512 bits, parties are four or five: other sizes are left to the proofs, and widths at "
        "3072 bits to the suite (tests/security/test_parameters.py)"
    ),
    "how far a release's noise protects": "docs/theory.md has the proofs, `psephos audit --privacy` bounds from below",
    "small differences": "sampling detects leaks above `power`; a mask 40 bits too narrow passes",
    "deviations that are not listed": "the cases of liars and the deviating checks try those that are",
    "`short` exponents where `half` was agreed": (
        "no test distinguishes an exponent of 256 bits from one of 1536; a party's choice affects nobody else"
    ),
    "an operating system with predictable randomness": (
        "a pseudo-random stream under an unknown seed passes every test: coins must be used once, not be random"
    ),
    "a dealer who keeps p and q": "no view shows whether they were deleted",
    "timing, memory accesses and traffic": "views hold messages and coins, not when they came (docs/security/index.md)",
}
"""What no check examines, and why; the verdict "hidden" says no more than the checks of the cell."""


def run_audit(
    protocol: str | Case | Sequence[str] | None = None,
    thorough: bool = False,
    progress: Progress = silent,
    *,
    seed: int | None = None,
    views: int | None = None,
    jobs: int | None = None,
) -> AuditResult:
    """Run every check of one protocol or of several, and return who learned what.

    Args:
        protocol: one of `PROTOCOLS`, several, or a `Case`; all of `PROTOCOLS` by default.
        thorough: samples more views per test, so that smaller leaks are detected; `power` in the result says how small.
        progress: called before each check of one protocol, or after each of several protocols.
        seed: makes the run repeatable; fresh coins by default.
        views: per side of a two-sample test; by default 80, with `thorough` 400.
        jobs: worker processes, where there are several protocols; one per core by default.
    """
    chosen = (protocol,) if isinstance(protocol, str | Case) else protocol or PROTOCOLS
    for name in chosen:
        if isinstance(name, str) and name not in CASES:
            raise InvalidParameter(f"the protocol must be one of {', '.join(PROTOCOLS)}, not {name!r}")
    cases = [CASES[name] if isinstance(name, str) else name for name in chosen]
    start = time.perf_counter()
    if views is None:
        views = THOROUGH_VIEWS if thorough else VIEWS
    seed = AnalysisContext(seed=seed).seed
    if isinstance(protocol, str | Case):
        protocols = [_examine(cases[0], seed, views, progress)]
    else:
        audited: dict[str, AuditedProtocol] = {}
        work = Parallel(n_jobs=jobs or cpu_count(), batch_size=1, return_as="generator_unordered")
        for one in work(delayed(_examine)(case.name, seed, views) for case in reversed(cases)):  # the longest first
            audited[one.name] = one
            progress(one.name, len(audited), len(cases))
        protocols = [audited[case.name] for case in cases]
    statistical = sum(check.statistical for case in cases for check in case.checks)
    return AuditResult(
        protocols=protocols,
        as_expected=as_expected(protocols),
        false_alarm_rate=statistical * RATE,
        power=round(detectable_accuracy(views, rate=RATE), 3),
        views=views,
        seed=seed,
        not_examined=NOT_EXAMINED,
        phases=timed({"total": round(time.perf_counter() - start, 1)}),
    )


def _examine(protocol: str | Case, seed: int, views: int, progress: Progress = silent) -> AuditedProtocol:
    """Run the checks of one protocol on shared views; a worker gets its name, since checks cannot be pickled."""
    case = CASES[protocol] if isinstance(protocol, str) else protocol
    context = AnalysisContext(seed=seed, views=views, rate=RATE)
    results: dict[str, CheckResult] = {}
    for done, check in enumerate(case.checks):
        progress(f"{case.name}: {check.name}", done, len(case.checks))
        results[check.name] = check.run(context)
    return judge(case, results)


def as_expected(protocols: Iterable[AuditedProtocol]) -> bool:
    """Return whether every verdict is the expected one, which decides the exit status."""
    return all(
        cell.verdict == cell.expected
        for protocol in protocols
        for coalition in protocol.coalitions
        for cell in coalition.cells.values()
    )
