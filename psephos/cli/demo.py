"""`psephos demo`: the vote count on a bundled data set, told step by step."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import typer

from psephos.cli.generate import command
from psephos.cli.shared import OutputDir, ProgressDisplay, emit, output_directory
from psephos.protocol.transcript import Transcript
from psephos.protocol.wire import Kind
from psephos.results.runs import TallyResult
from psephos.simulation.job import Job
from psephos.simulation.options import JobOptions

EPSILON = 5.0
LEARNER_NAMES = {
    "logistic": "logistic",
    "tree": "tree",
    "knn": "nearest-neighbour",
    "naive-bayes": "naive Bayes",
}
ROWS = {
    "batch": "pooled: all rows in one place",
    "trees": "pooled: boosted trees",
    "indiv": "one party alone, on average",
    "ensemble": "majority vote of all parties",
    "soft": "Hamm's weighted ERM on alpha (soft labels)",
    "statistic": "linear statistic of the votes (released)",
    "majority": "most frequent class",
}
"""The rows of the table of accuracies, in this order."""

app = typer.Typer(rich_markup_mode=None)


@command(
    app,
    "psephos demo",
    "psephos demo --output out",
    name="demo",
    help="The vote count on a bundled data set, told step by step, with keys of full size.",
)
def _(
    output: OutputDir = None,
) -> None:
    with output_directory(output, "a classifier"):
        job, transcript = Job(JobOptions(epsilon=(EPSILON,)), beside=("soft",)), Transcript()
        with ProgressDisplay() as progress:
            result = job.run(transcript=transcript, progress=progress)
        if not result.exact:
            raise typer.Exit(1)
        paths = [] if output is None else job.write(result, output)
        emit("\n".join([*_story(job, result, transcript), *_next_steps(paths), ""]))


def _story(job: Job, result: TallyResult, transcript: Transcript) -> list[str]:
    learners = job.options.local_learners
    trained = Counter(learners[number % len(learners)] for number in range(result.parties))
    kinds = [f"{count} {LEARNER_NAMES[name]}" for name, count in trained.items()]
    parts = [message for message in transcript.messages if message.kind == Kind.PARTIAL_DECRYPTION.title]
    opened_by = sorted({message.sender.removeprefix("holder ") for message in parts})
    counts = result.evaluation.counts
    assert counts is not None
    lines = [
        f"Psephos: {result.parties} parties share {result.dataset}; epsilon {EPSILON:g} per party.",
        "",
        f"1. Each party trained a classifier of its own on about {job.split.sizes.mean():.0f} private rows:",
        f"   {_listed(kinds)} classifiers.",
        f"2. Each voted on {result.auxiliary} public samples: {result.ballots} encrypted ballots of "
        f"{result.bytes_per_ballot:,} bytes,",
        f"   under a {result.key_bits:,}-bit Paillier key whose shares {result.options['holders']} holders have.",
        f"3. The curator multiplied the ballots, and holders {_listed(opened_by)} opened",
        "   the product: alpha, the share of votes for each class. No ballot was opened.",
        f"      {'sample':<8}" + "".join(f"{name:>12}" for name in result.class_names),
    ]
    for number, row in enumerate(counts[:3]):
        lines.append(f"      {number:<8}" + "".join(f"{count / result.ballots:>12.2f}" for count in row))
    lines += [
        "   alpha is exact, so it is not private: do not publish it.",
        f"4. It fitted classifiers on alpha and added noise. Right on {result.test} held-out rows:",
        f"      {'':<42}{'not private':>13}{'private':>9}",
    ]
    for name, label in ROWS.items():
        accuracy = result.accuracy[name]
        private = "" if accuracy.private is None else f"{accuracy.private:.1%}"
        lines.append(f"      {label:<42}{accuracy.nonprivate or 0:>13.1%}{private:>9}".rstrip())
    return [
        *lines,
        "",
        "The curator learned alpha and who voted, but no ballot, classifier or row.",
        f"A key holder learned no vote: fewer than {result.threshold} holders together open nothing.",
        f"The public learns the released classifier, private at epsilon {EPSILON:g} per party.",
    ]


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _next_steps(paths: list[Path]) -> list[str]:
    files = [f"Written into {paths[0].parent}: {', '.join(path.name for path in paths)}."] if paths else []
    return [
        "",
        *files,
        "One machine played every role here; psephos study gives each role its own.",
        "Next: psephos run --help, and docs/own-data.md for a table of your own.",
    ]
