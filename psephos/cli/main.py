"""The command `psephos`: reads options, shows progress, prints a table or one JSON object, names what went wrong."""

from __future__ import annotations

import json
import platform
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import psephos
from psephos.cli import show
from psephos.data.datasets import NAMES
from psephos.parties.learners import LEARNERS
from psephos.protocol.errors import InvalidParameter, PsephosError, ReportError
from psephos.protocol.paillier.encryption import RANDOMNESS_MODES, RandomnessMode
from psephos.protocol.transcript import Transcript
from psephos.report import FORMAT
from psephos.simulate.tally import RunOptions, Stage, run_tally

__all__ = ["app", "main"]

app = typer.Typer(
    name="psephos",
    help="Many parties' classifiers become one private classifier; the curator learns only what a round reveals.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_notes = Console(stderr=True)

_BAD_USAGE = 2
_FAILED = 1

_INTERRUPTED = 130

_REPORT_NEEDS = ("jinja2", "matplotlib")


def _examples(*lines: str) -> str:
    """An epilogue of one example a line; \\b keeps them from being filled into one paragraph."""
    return "\n".join(("\b", "Examples:", *("  " + line for line in lines)))


class _Bars(Stage):
    """Progress bars on standard error, and only where somebody looks at it."""

    def __init__(self) -> None:
        columns = (
            TextColumn("{task.description:<28}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._bars = Progress(*columns, console=_notes, disable=not sys.stderr.isatty())
        self.last = ""

    def __enter__(self) -> _Bars:
        self._bars.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._bars.stop()

    def phase(self, name: str, total: int) -> Callable[[int], object]:
        """A bar of its own, advanced by the numbers it is called with."""
        self.last = name
        task = self._bars.add_task(name, total=total)
        return lambda done: self._bars.advance(task, done)

    def watch(self) -> Callable[[str, int, int], object]:
        """One bar for all, told what is being done and how far it is."""
        task = self._bars.add_task("", total=None)

        def told(what: str, done: int, total: int) -> None:
            self.last = what
            self._bars.update(task, description=what, completed=done, total=total)

        return told


def _show_version(wanted: bool) -> None:
    if not wanted:
        return
    libraries = ("phe", "gmpy2", "numpy", "scipy", "scikit-learn", "cryptography", "dp-accounting")
    typer.echo(f"psephos {psephos.__version__}, Python {platform.python_version()}")
    typer.echo(", ".join(f"{name} {version(name)}" for name in libraries))
    raise typer.Exit


@app.callback()
def _root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show versions and leave.")
    ] = False,
) -> None:
    pass


AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, and nothing else there.")]
DataDir = Annotated[
    Path | None, typer.Option(help="Where the data files lie.", show_default="$PSEPHOS_DATA, or the user's cache")
]
ReportDir = Annotated[
    Path | None, typer.Option(help="Write report.html, its figures and its JSON into this directory.")
]

_DEFAULT = RunOptions()
_TALLY_ONLY = [
    "auxiliary",
    "scaling",
    "loss",
    "learner",
    "reveal",
    "mechanism",
    "min_ballots",
    "bound",
    "protect_auxiliary",
    "draws",
    "workers",
    "engine",
    "scheduler",
]  # of `run`, besides what several protocols share


@app.command(
    epilog=_examples(
        "psephos run",
        "psephos run --dataset digits --parties 50 --learner logistic,tree,knn",
        "psephos run --dataset har --parties 1000 --data-dir DIR --epsilon 3 --json",
        "psephos run --reveal statistic --colluders 3",
        "psephos run --protocol pathak --variant printed",
        "psephos run --protocol psgd --steps 50",
    )
)
def run(
    context: typer.Context,
    protocol: Annotated[str, typer.Option(help="tally, pathak or psgd.")] = "tally",
    dataset: Annotated[
        str, typer.Option(help=f"One of {', '.join(NAMES)}. Your own CSV file: see docs/own-data.md.")
    ] = _DEFAULT.dataset,
    parties: Annotated[int | None, typer.Option(help="Data owners, M.", show_default="25; pathak 5, psgd 15")] = None,
    samples_per_party: Annotated[
        int | None, typer.Option(help="Samples of each party.", show_default="90 % of the training data, dealt evenly")
    ] = None,
    auxiliary: Annotated[int | None, typer.Option(help="Auxiliary samples.", show_default="the rest")] = None,
    scaling: Annotated[
        str | None,
        typer.Option(
            help="max-norm (divide by the largest auxiliary norm, as Hamm does) or unit-rows.",
            show_default="unit-rows; with --lam as in the papers",
        ),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Privacy of each release; of a party, or as the protocol says.")] = 1.0,
    delta: Annotated[
        float | None, typer.Option(help="For gaussian noise and psgd.", show_default="1e-6; psgd 1e-5")
    ] = None,
    lam: Annotated[
        float | None,
        typer.Option(help="Ridge lambda everywhere, as in the papers.", show_default="each method's public rule"),
    ] = None,
    reveal: Annotated[
        str,
        typer.Option(help="What the curator is given: alpha (the counts), or statistic (private before it sees it)."),
    ] = _DEFAULT.reveal,
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="spherical-laplace, discrete-laplace or gaussian (Skellam with --reveal statistic).",
            show_default="spherical-laplace; discrete-laplace with --reveal statistic",
        ),
    ] = None,
    colluders: Annotated[int, typer.Option(help="Parties whose noise shares may be known (joint noise).")] = 0,
    dropouts: Annotated[int, typer.Option(help="Parties that may stay away (joint noise).")] = 0,
    loss: Annotated[str, typer.Option(help="logistic (softmax for several classes) or huber.")] = _DEFAULT.loss,
    learner: Annotated[
        str,
        typer.Option(help=f"Local classifiers, dealt to the parties in turn: NAME[,NAME...] of {', '.join(LEARNERS)}."),
    ] = "logistic",
    key_bits: Annotated[int, typer.Option(help="Length of the Paillier modulus.")] = _DEFAULT.key_bits,
    test_key: Annotated[
        bool, typer.Option("--test-key", help="Accept a key under 2048 bits: protects nothing.")
    ] = False,
    holders: Annotated[
        int | None, typer.Option(help="Key holders, the first n parties.", show_default="5; psgd 3")
    ] = None,
    threshold: Annotated[
        int | None, typer.Option(help="How many holders open a sum; more than half.", show_default="3; psgd 2")
    ] = None,
    min_ballots: Annotated[
        int | None, typer.Option(help="Holders open no sum of fewer ballots.", show_default="half of the parties")
    ] = None,
    randomness: Annotated[str, typer.Option(help=f"One of {', '.join(RANDOMNESS_MODES)}.")] = "half",
    workers: Annotated[int | None, typer.Option(help="Processes.", show_default="up to 2")] = None,
    bound: Annotated[
        str, typer.Option(help="Sensitivity: certified, or paper (the papers' own constants, for comparison).")
    ] = "certified",
    protect_auxiliary: Annotated[
        bool, typer.Option("--protect-auxiliary", help="One auxiliary sample is private too (Hamm 4.5).")
    ] = False,
    draws: Annotated[int, typer.Option(help="Average the private accuracies over so many noise draws.")] = 1,
    variant: Annotated[
        str | None,
        typer.Option(
            help="pathak: public-bound, repaired or printed. psgd: paper, footnote-4, halving or gaussian.",
            show_default="repaired; paper",
        ),
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help="pathak: laplace, or spherical (printed only).", show_default="laplace")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="psgd: T.", show_default="200")] = None,
    journal: Annotated[
        Path | None, typer.Option(help="Commit each batch here; an interrupted run goes on from it. Holds secrets.")
    ] = None,
    engine: Annotated[str, typer.Option(help="Where parties are simulated: local, or dask (a cluster).")] = "local",
    scheduler: Annotated[str | None, typer.Option(help="dask: the scheduler's address, HOST:PORT.")] = None,
    data_dir: DataDir = None,
    seed: Annotated[int, typer.Option(help="Drives splits and training; never keys or encryption.")] = 0,
    simulate_noise: Annotated[
        bool, typer.Option("--simulate-noise", help="Draw the noise from the seed: repeatable, not private.")
    ] = False,
    report: ReportDir = None,
    as_json: AsJson = False,
) -> None:
    """The main job: train locally, aggregate under encryption, release privately, compare."""
    given = {name: value for name, value in context.params.items() if _was_given(context, name)}
    for name in ("protocol", "report", "as_json"):
        given.pop(name, None)
    given |= {name: str(given[name]) for name in ("data_dir", "journal") if name in given}
    if protocol not in ("tally", "pathak", "psgd"):
        raise InvalidParameter(f"the protocol is tally, pathak or psgd, not {protocol!r}")
    _check_report(report)
    transcript = Transcript()
    with _Bars() as bars:
        try:
            if protocol == "tally":
                result = _run_tally(given, bars, transcript, for_report=report is not None)
            elif protocol == "pathak":
                result = _run_pathak(given, bars, transcript)
            else:
                result = _run_psgd(given, bars, transcript)
        except KeyboardInterrupt:
            if report is not None:
                _report_interrupted(
                    {"protocol": protocol, "dataset": dataset, "epsilon": epsilon}, bars, transcript, report
                )
            raise
    _finish(result, report, as_json, transcript, show.run)
    _check_exact(result)


def _was_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _refuse_others(given: dict[str, Any], protocol: str, *names: str) -> None:
    """Options of another protocol are not silently ignored."""
    foreign = [name for name in names if name in given]
    if foreign:
        options = ", ".join("--" + name.replace("_", "-") for name in foreign)
        raise InvalidParameter(f"{options} means nothing to --protocol {protocol}")


def _report_interrupted(known: dict[str, Any], bars: _Bars, transcript: Transcript, report: Path) -> None:
    """What there is of a run that somebody stopped; the page says what is missing."""
    from psephos.report import write_report

    where = f"in the phase {bars.last!r}" if bars.last else "before anything was sent"
    page = write_report(known | {"interrupted": f"stopped {where}"}, transcript.redacted(), report, command=_command())
    _notes.print(f"report of what there is written to {page}", highlight=False, markup=False, soft_wrap=True)


def _run_tally(given: dict[str, Any], bars: _Bars, transcript: Transcript, *, for_report: bool) -> dict[str, Any]:
    _refuse_others(given, "tally", "variant", "noise", "steps")
    if "learner" in given:
        given["learners"] = tuple(name.strip() for name in given.pop("learner").split(",") if name.strip())
    return run_tally(RunOptions(**given), stage=bars, transcript=transcript, for_report=for_report)


def _run_pathak(given: dict[str, Any], bars: _Bars, transcript: Transcript) -> dict[str, Any]:
    from psephos.simulate.pathak import PathakOptions, simulate_pathak

    others = (
        *_TALLY_ONLY,
        "delta",
        "colluders",
        "dropouts",
        "holders",
        "threshold",
        "randomness",
        "steps",
        "journal",
    )
    _refuse_others(given, "pathak", *others)
    outcome = simulate_pathak(PathakOptions(**given), transcript=transcript, progress=bars.watch())
    found = outcome.as_json()
    for name in ("format", "kind", "privacy", "sensitivity", "options"):  # until outcomes are taken as they are
        del found[name]
    of = outcome.accuracy
    clear = {"average": of["pathak"], "pooled": of["batch"], "majority": of["majority"], "indiv": of["indiv"]}
    measured = {name: accuracy.nonprivate for name, accuracy in clear.items()}
    return found | {"accuracy": {"private": of["pathak"].private, **measured}}


def _run_psgd(given: dict[str, Any], bars: _Bars, transcript: Transcript) -> dict[str, Any]:
    from psephos.simulate.psgd import PsgdOptions, simulate_psgd

    _refuse_others(given, "psgd", *(name for name in _TALLY_ONLY if name != "loss"), "noise")
    for name in ("journal", "data_dir"):
        if name in given:
            given[name] = str(given[name])
    options = PsgdOptions(**given)
    step = bars.phase("steps", options.steps)
    done = 0

    def progress(what: str, steps: int, total: int) -> None:
        nonlocal done
        step(steps - done)
        done = steps

    return psgd_result(simulate_psgd(options, transcript=transcript, progress=progress))


def psgd_result(outcome: Any) -> dict[str, Any]:
    """The outcome under the names of the present report, until that reads outcomes."""
    accuracy = outcome.accuracy["psgd"]
    result: dict[str, Any] = outcome.as_json()
    return result | {
        "lambda": outcome.lam,
        "accuracy": {"nonprivate": accuracy.nonprivate, "psgd": accuracy.private},
        "notes": [*outcome.cautions, *outcome.remarks],
        "noise_source": "operating system" if outcome.noise_source == "system" else "seed (simulation)",
        "ballot_bytes": outcome.bytes_per_ballot,
    }


def _check_report(directory: Path | None, what: str = "a report", needs: tuple[str, ...] = _REPORT_NEEDS) -> None:
    """Find out that a report cannot be written before hours are spent on what it is about."""
    if directory is None:
        return
    if directory.exists() and not directory.is_dir():
        raise ReportError(f"{what} is written into a directory, and {directory} is a file; name another one")
    missing = [package for package in needs if find_spec(package) is None]
    if missing:
        raise ReportError(f"{what} needs {' and '.join(missing)}: {sys.executable} -m pip install {' '.join(missing)}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise ReportError(f"{what} cannot be written to {directory}: {error.strerror}; choose another one") from None


def _check_exact(result: dict[str, Any]) -> None:
    """Exit status 1 when something opened was not what the clear computation says; the result says what."""
    compared = [result.get(name) for name in ("tally_equals_plaintext", "sums_equal_reference")]
    compared.append(result.get("shares_equal_reference"))
    compared += [one["equals_plaintext"] for panel in result.get("panels", []) for one in panel.get("encrypted", [])]
    if False in compared:
        raise typer.Exit(_FAILED)


def _command() -> list[str]:
    """What was typed, for whoever repeats it."""
    return ["psephos", *sys.argv[1:]]


def _finish(
    result: dict[str, Any],
    report: Path | None,
    as_json: bool,
    transcript: Transcript | None,
    table: Callable[[dict[str, Any]], None],
) -> None:
    """Print the result, and write its report where one was asked for."""
    if report is not None:
        from psephos.report import write_report

        messages = None if transcript is None else transcript.redacted()
        page = write_report(result, messages, report, command=_command())
        _notes.print(f"report written to {page}", highlight=False, markup=False, soft_wrap=True)
    if as_json:
        sys.stdout.write(json.dumps({"format": FORMAT, **result}) + "\n")
    else:
        table(result)


@app.command(epilog=_examples("psephos audit tally", "psephos audit --thorough --json", "psephos audit --privacy"))
def audit(
    protocol: Annotated[
        str | None,
        typer.Argument(
            help=(
                "One of tally, statistic, statistic-gaussian, pathak-printed, pathak-spherical, pathak-repaired, "
                "pathak-all-pairs, psgd, psgd-gaussian."
            ),
            show_default="all",
        ),
    ] = None,
    thorough: Annotated[bool, typer.Option("--thorough", help="More views a test: smaller leaks are noticed.")] = False,
    privacy: Annotated[
        bool, typer.Option("--privacy", help="Bound every mechanism's epsilon from below instead, by sampling it.")
    ] = False,
    samples: Annotated[int, typer.Option(help="--privacy: outputs drawn per input.")] = 100_000,
    epsilon: Annotated[float, typer.Option(help="--privacy: what each mechanism claims.")] = 1.0,
    report: ReportDir = None,
    as_json: AsJson = False,
) -> None:
    """The security analysis: who learned what, and whether a simulator can fake it. Exit status 1 on a surprise."""
    _check_report(report)
    with _Bars() as bars:
        if privacy:
            if protocol is not None or thorough:
                raise InvalidParameter("--privacy audits the noise of every mechanism: leave the rest out")
            from psephos.security.privacy import audit_privacy

            result = audit_privacy(epsilon, samples, bars.watch()).as_json()
        else:
            from psephos.security.audit import audit as run_audit

            result = run_audit(protocol, thorough, bars.watch()).as_json()
    _finish(result, report, as_json, None, show.privacy_audit if privacy else show.audit)
    if not result["as_expected"]:
        raise typer.Exit(_FAILED)


_EXPERIMENTS = ("hamm-har", "hamm-kdd99", "hamm-url", "pathak-adult", "rajkumar-simulated", "rajkumar-wdbc")


@app.command(
    epilog=_examples(
        "psephos reproduce rajkumar-wdbc --quick",
        "psephos reproduce hamm-har --data-dir DIR --quick --figures figures",
        "psephos reproduce hamm-kdd99 --encrypted --randomness short --journal DIR",
        "psephos reproduce pathak-adult --json",
    )
)
def reproduce(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(_EXPERIMENTS)}.")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer trials and points: nothing to cite.")] = False,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Splits, deals or data sets.", show_default="the paper's")
    ] = None,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Noise draws for each of them.", show_default="the paper's")
    ] = None,
    parties: Annotated[str | None, typer.Option(help="hamm: M[,M...].", show_default="the paper's")] = None,
    encrypted: Annotated[
        bool,
        typer.Option("--encrypted", help="hamm: count encrypted ballots, not clear ones."),
    ] = False,
    randomness: Annotated[str, typer.Option(help=f"One of {', '.join(RANDOMNESS_MODES)}.")] = "half",
    workers: Annotated[int, typer.Option(help="hamm: processes.")] = _DEFAULT.workers,
    engine: Annotated[str, typer.Option(help="hamm: local, or dask, for the encrypted counts.")] = "local",
    scheduler: Annotated[str | None, typer.Option(help="dask: the scheduler's address, HOST:PORT.")] = None,
    journal: Annotated[
        Path | None, typer.Option(help="hamm: keep finished trials and encrypted counts, and go on. Holds secrets.")
    ] = None,
    stand_in: Annotated[bool, typer.Option("--stand-in", help="hamm-url: synthetic data of its shape.")] = False,
    data_dir: DataDir = None,
    seed: Annotated[int, typer.Option(help="Drives splits and noise.")] = 0,
    figures: Annotated[Path | None, typer.Option(help="Draw the figures into this directory.")] = None,
    report: ReportDir = None,
    as_json: AsJson = False,
) -> None:
    """A paper's experiment: its table and figures, with the paper's own numbers beside ours."""
    given = {key for key in context.params if _was_given(context, key)}
    if name not in _EXPERIMENTS:
        raise InvalidParameter(f"the experiment is one of {', '.join(_EXPERIMENTS)}, not {name!r}")
    hamm_only = {"parties", "encrypted", "randomness", "workers", "engine", "scheduler", "journal", "stand_in"}
    if not name.startswith("hamm-") and given & hamm_only:
        options = ", ".join("--" + option.replace("_", "-") for option in sorted(given & hamm_only))
        raise InvalidParameter(f"{options} means nothing to {name}")
    _check_report(report)
    _check_report(figures, "a figure", ("matplotlib",))
    folder = None if data_dir is None else str(data_dir)
    with _Bars() as bars:
        if name.startswith("hamm-"):
            from psephos.papers.hamm import HammOptions, reproduce_hamm
            from psephos.simulate.engines import make_engine

            chosen = HammOptions(
                name,
                parties=None if parties is None else _numbers(parties),
                quick=quick,
                encrypted=encrypted,
                mode=_mode(randomness),
                workers=workers,
                journal=None if journal is None else str(journal),
                data_dir=folder,
                seed=seed,
                stand_in=stand_in,
            )
            chosen = replace(chosen, trials=trials or chosen.trials, draws=draws or chosen.draws)
            where = make_engine(engine, workers=workers, scheduler=scheduler)
            result = reproduce_hamm(chosen, engine=where, progress=bars.watch())
        elif name == "pathak-adult":
            from psephos.papers.pathak import reproduce_pathak_adult

            deals = trials or (2 if quick else 10)
            result = reproduce_pathak_adult(
                data_dir=folder,
                deals=deals,
                executions=deals * (draws or (5 if quick else 20)),
                seed=seed,
                progress=bars.watch(),
            )
        else:
            result = _reproduce_rajkumar(name, quick, trials, draws, seed, bars)
    if figures is not None:
        from psephos.papers.curves import draw_hamm, draw_pathak, draw_rajkumar

        draw = {"hamm": draw_hamm, "pathak": draw_pathak, "rajkumar": draw_rajkumar}[name.split("-")[0]]
        result["figures"] = draw(result, figures)
    _finish(result, report, as_json, None, show.reproduction)
    _check_exact(result)


def _reproduce_rajkumar(
    name: str, quick: bool, trials: int | None, draws: int | None, seed: int, bars: _Bars
) -> dict[str, Any]:
    from psephos.papers.rajkumar import SweepOptions, reproduce_rajkumar

    count, times, steps = trials or (2 if quick else 5), draws or (1 if quick else 2), 1000 if quick else 10_000
    options = SweepOptions(name, datasets=count, draws=times, steps=steps, seed=seed, quick=quick)
    done = bars.phase(name, options.runs)
    outcome = reproduce_rajkumar(options, progress=lambda what, runs, total: done(1))
    result = outcome.as_json()
    return result | {
        "settings": {
            "records": outcome.records, "test": outcome.test, "dimension": outcome.dimension,
            "data_sets": outcome.data_sets, "draws": times, "lambdas": list(options.lambdas),
            "epsilons": list(options.epsilons), "delta": outcome.delta, "steps": steps,
            "transcript_steps": outcome.transcript_steps, "unit": "record", "skews": outcome.skews, "seed": seed,
        },
        "rows": [{"panel": row["panel"], "place": row["place"], "lambda": row["lam"], "epsilon": row["epsilon"]}
                 | row["errors"] for row in result["rows"]],
        "paper": {"numbers": "in Figures 1 and 2 only, which the text at hand does not hold", "claims": []},
        "seconds": outcome.seconds["total"],
    }  # fmt: skip


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise InvalidParameter(f"numbers are given as N[,N...], not {text!r}") from None


def _mode(name: str) -> RandomnessMode:
    for mode in RANDOMNESS_MODES:
        if mode == name:
            return mode
    raise InvalidParameter(f"the randomness is one of {', '.join(RANDOMNESS_MODES)}, not {name!r}")


@app.command(epilog=_examples("psephos plan --parties 20000 --samples 43000 --randomness short"))
def plan(
    parties: Annotated[int, typer.Option(help="M.")],
    samples: Annotated[int, typer.Option(help="Auxiliary samples, N.")],
    classes: Annotated[int, typer.Option(help="K.")] = 2,
    features: Annotated[int, typer.Option(help="d, for the time a vote takes.")] = 100,
    key_bits: Annotated[int, typer.Option(help="Length of the Paillier modulus.")] = _DEFAULT.key_bits,
    randomness: Annotated[str, typer.Option(help=f"One of {', '.join(RANDOMNESS_MODES)}.")] = "half",
    workers: Annotated[int, typer.Option(help="Processes.")] = _DEFAULT.workers,
    holders: Annotated[int, typer.Option(help="Key holders.")] = _DEFAULT.holders,
    threshold: Annotated[int, typer.Option(help="How many of them open a sum.")] = _DEFAULT.threshold,
    as_json: AsJson = False,
) -> None:
    """Predict the time, bytes and memory of a counting round, from a short calibration on this machine."""
    from psephos.plan import plan as predict

    result = predict(
        parties,
        samples,
        classes,
        features=features,
        key_bits=key_bits,
        mode=_mode(randomness),
        workers=workers,
        holders=holders,
        threshold=threshold,
    )
    _finish(result, None, as_json, None, show.plan)


@app.command(epilog=_examples("psephos bench", "psephos bench --bits 2048,3072,4096 --repetitions 15 --json"))
def bench(
    bits: Annotated[str, typer.Option(help="Key sizes: N[,N...].")] = "2048,3072",
    repetitions: Annotated[int, typer.Option(help="Interleaved repetitions; medians are shown.")] = 7,
    as_json: AsJson = False,
) -> None:
    """Speed and size on this machine, beside the Paillier libraries that are installed."""
    from psephos.bench import PHASES, measure

    sizes = _numbers(bits)
    with _Bars() as bars:
        result = measure(sizes, repetitions, bars.phase("benchmarks", PHASES * len(sizes)))
    _finish(result, None, as_json, None, show.bench)


@app.command(
    name="report", epilog=_examples("psephos run --json > result.json", "psephos report result.json --output out")
)
def report_(
    file: Annotated[Path, typer.Argument(help="What a command printed with --json, or a report's own JSON.")],
    output: Annotated[Path, typer.Option(help="Directory to write into.")] = Path("report"),
    as_json: AsJson = False,
) -> None:
    """Draw a report again from a saved JSON."""
    from psephos.report import report_from_json

    page = report_from_json(file, output)
    if as_json:
        figures = sorted(str(path) for path in (output / "figures").iterdir())
        written = {"report": str(page), "json": str(output / "report.json"), "figures": figures}
        sys.stdout.write(json.dumps({"format": FORMAT, **written}) + "\n")
    else:
        typer.echo(page)


def main() -> None:
    """Run the command; the named errors become one line on standard error and exit status 1 or 2."""
    try:
        app(standalone_mode=True)
    except PsephosError as error:
        _notes.print(f"psephos: {error}", highlight=False, markup=False, soft_wrap=True)
        sys.exit(_BAD_USAGE if isinstance(error, InvalidParameter) else _FAILED)
    except SystemExit as leaving:
        # Typer makes this of Ctrl-C, without a word.
        if leaving.code == _INTERRUPTED:
            _notes.print(
                f"psephos: interrupted; {_how_to_go_on(sys.argv[1:])}", highlight=False, markup=False, soft_wrap=True
            )
        raise


def _how_to_go_on(words: list[str]) -> str:
    if any(word.split("=")[0] == "--journal" for word in words):
        return "the same command goes on from its journal"
    can = (words[:1] == ["run"] and "pathak" not in words) or any(word.startswith("hamm-") for word in words)
    return "nothing is kept to go on from" + ("; with --journal DIR it would be" if can else "")
