"""Results as tables, for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["audit", "bench", "plan", "privacy_audit", "reproduction", "run"]

_console = Console()

_METHODS = {
    "statistic": "noisy linear sum",
    "avg": "clipped averaging",
    "pate": "noisy majorities",
    "soft": "Algorithm 2",
    "vote": "Algorithm 1",
}


def _table(title: str, *headings: str, caption: str | None = None) -> Table:
    table = Table(title=title, caption=caption)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left")
    return table


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _say(text: str) -> None:
    _console.print(text, highlight=False, markup=False)


def run(result: dict[str, Any]) -> None:
    """The result of `psephos run`, whatever the protocol."""
    protocol = result["protocol"]
    if protocol.startswith("pathak"):
        _pathak(result)
    elif protocol == "psgd":
        _psgd(result)
    else:
        _tally(result)


def _tally(result: dict[str, Any]) -> None:
    accuracy = result["accuracy"]
    title = (
        f"{result['dataset']}: {result['parties']} parties, {result['auxiliary']} auxiliary samples, "
        f"{result['classes']} classes, {result['features']} features"
    )
    delta = f", delta = {result['delta']:g}" if result["delta"] else ""
    caption = f"accuracy on {result['test']} test samples; private at epsilon = {result['epsilon']:g}{delta} per party"
    table = _table(title, "algorithm", "not private", "private", "sensitivity", caption=caption)
    table.add_row("batch (all data in one place)", f"{accuracy['batch']:.3f}", "", "")
    table.add_row("ensemble (majority vote)", f"{accuracy['ensemble']:.3f}", "", "")
    for name, words in _METHODS.items():
        if name in accuracy:
            row = accuracy[name]
            spread = f" ± {row['private_std']:.3f}" if "private_std" in row else ""
            private = f"{row['private']:.3f}{spread}"
            table.add_row(
                f"{name} ({words})", f"{row['nonprivate']:.3f}", private, f"{result['sensitivity'][name]:.3g}"
            )
    table.add_row("indiv (each party alone)", f"{accuracy['indiv']:.3f}", "", "")
    _console.print(table)
    exact = "equals the clear one exactly" if result["tally_equals_plaintext"] else "DIFFERS FROM THE CLEAR ONE"
    _say(
        f"{result['ballots']} ballots under a {result['key_bits']}-bit key (randomness {result['randomness']}), "
        f"{_count(result['ciphertexts_per_ballot'], 'ciphertext')} and {result['bytes_per_ballot']:,} bytes each; "
        f"opened by {result['threshold']} of {result['holders']} holders; the opened sum {exact}."
    )
    if 2 * result["threshold"] <= result["holders"]:
        _say(
            "Two groups of holders without a common member could open this key: a curator that lies could have two "
            "parts of the board opened and see the difference. Take a threshold above half of the holders."
        )
    if result["noise_source"] != "system":
        _say("The noise was drawn from the seed: it protects nobody.")
    seconds = ", ".join(f"{phase} {taken:.1f}" for phase, taken in result["seconds"].items())
    _say(f"seconds: {seconds}; peak memory {result['peak_memory_mb']:.0f} MB")


def _pathak(result: dict[str, Any]) -> None:
    title = f"{result['dataset']}: Pathak 2010, {result['variant']}, {result['parties']} parties"
    table = _table(title, "classifier", "accuracy")
    for name, value in result["accuracy"].items():
        table.add_row(name, f"{value:.3f}")
    for caution in result["cautions"]:
        _say(caution)
    _console.print(table)
    table = _table("stages", "stage", "seconds", "bytes", "messages")
    for name, stage in result["stages"].items():
        table.add_row(name, f"{stage['seconds']:.2f}", f"{stage['bytes']:,}", str(stage["messages"]))
    _console.print(table)
    exact = "equal the clear computation exactly" if result["shares_equal_reference"] else "DIFFER FROM THE CLEAR ONE"
    _say(f"The published shares {exact}.")
    _say(
        f"epsilon asked {result['epsilon']:g}, proved {result['epsilon_proved']:.4g} ({result['epsilon_proved_for']})."
    )


def _psgd(result: dict[str, Any]) -> None:
    title = f"{result['dataset']}: Rajkumar 2012, {result['variant']}, {result['parties']} parties"
    table = _table(title, "classifier", "accuracy")
    for name, value in result["accuracy"].items():
        table.add_row(name, f"{value:.3f}")
    _console.print(table)
    if result["sums_equal_reference"] is None:
        _say(f"{result['steps']} steps, all found in the journal: nothing was opened here.")
    else:
        exact = "equal their references" if result["sums_equal_reference"] else "DIFFER FROM THEIR REFERENCES"
        _say(f"{result['steps']} steps of {result['seconds']['per_step']:.2f} s; the opened sums {exact}.")
    transcript = result["epsilon_transcript"]
    covers = "no finite epsilon" if transcript is None else f"epsilon = {transcript:.4g}"
    final = result["epsilon_final"]
    claim = "nothing is claimed" if final is None else f"epsilon = {final:.4g}"
    _say(
        f"At delta = {result['delta']:g}: {claim} for the final classifier (the paper's claim, for the exact "
        f"minimiser), {covers} for everything the curator saw."
    )


def audit(result: dict[str, Any]) -> None:
    """The matrix of who learned what, protocol by protocol, and what was not looked at."""
    for protocol in result["protocols"]:
        secrets = list(dict.fromkeys(secret for c in protocol["coalitions"] for secret in c["cells"]))
        table = _table(protocol["name"], "coalition", *secrets)
        for coalition in protocol["coalitions"]:
            cells = []
            for secret in secrets:
                cell = coalition["cells"].get(secret)
                mark = "" if cell is None or cell["verdict"] == cell["expected"] else " (UNEXPECTED)"
                cells.append("" if cell is None else f"{cell['verdict']}{mark}")
            table.add_row(coalition["name"], *cells)
        _console.print(table)
    table = _table("what was not looked at", "what", "why")
    for what, why in result["not_examined"].items():
        table.add_row(what, why)
    _console.print(table)
    verdict = "Every verdict is the expected one" if result["as_expected"] else "SOMETHING IS NOT AS EXPECTED"
    _say(f"{verdict}; false alarms at most {result['false_alarm_rate']:.2%}; {result['seconds']['total']:.0f} s")


def privacy_audit(result: dict[str, Any]) -> None:
    """Each mechanism's claimed epsilon and what sampling proves it to be at least."""
    table = _table("epsilon, bounded from below", "mechanism", "dimension", "claimed", "at least", "verdict")
    for one in result["mechanisms"]:
        verdict = "holds" if one["lower_bound"] <= one["epsilon"] else "VIOLATED"
        table.add_row(one["name"], str(one["dimension"]), f"{one['epsilon']:g}", f"{one['lower_bound']:.3f}", verdict)
    _console.print(table)
    first = result["mechanisms"][0]
    _say(f"each bound at {first['confidence']:.2%} confidence, from {first['samples']:,} outputs per input")


def plan(result: dict[str, Any]) -> None:
    """What a counting round will take."""
    table = _table("predicted", "phase", "seconds")
    for phase, taken in result["seconds"].items():
        table.add_row(phase, f"{taken:,.1f}")
    _console.print(table)
    size = result["bytes"]
    table = _table("on the wire", "what", "bytes")
    for what, count in size.items():
        table.add_row(what.replace("_", " "), f"{count:,}")
    _console.print(table)
    _say(
        f"{result['bits_per_count']:.1f} bits a count, the floor is {result['floor_bits']}; "
        f"memory about {result['memory_mb']:.0f} MB in all processes, without the data set"
    )


def reproduction(result: dict[str, Any]) -> None:
    """The result of `psephos reproduce`, whatever the paper."""
    if "published" in result:
        _hamm(result)
    elif "settings" in result and "theorem_4_2_counterexample" in result:
        _pathak_adult(result)
    else:
        _rajkumar(result)
    for path in result.get("figures", []):
        _say(f"figure: {path}")


def _hamm(result: dict[str, Any]) -> None:
    _say(f"{result['paper']}; {result['data']}")
    _say(f"{result['trials']} splits, {result['releases']} releases; counts {result['counts']}; noise from the seed")
    table = _table(result["experiment"], "what", "noise", "paper", "ours", "reproduces")
    for row in result["published"]:
        verdict = "yes" if row["reproduces"] else "no"
        table.add_row(row["what"], row["family"], str(row["paper"]), str(row["ours"]), verdict)
    _console.print(table)
    for panel in result["panels"]:
        for one in panel.get("encrypted", []):
            exact = "equal the clear ones exactly" if one["equals_plaintext"] else "DIFFER FROM THE CLEAR ONES"
            _say(f"M = {panel['parties']}, split {one['trial']}: the counts opened from encrypted ballots {exact}.")
    for row in result["published"]:
        if not row["reproduces"]:
            _say(f"why not ({row['what']}; {row['family']}): {row['why']}")
    for family, words in result["families"].items():
        _say(f"{family}: {words}")
        for panel in result["panels"]:
            curves = panel["curves"][family]
            table = _table(f"{family}, M = {panel['parties']}", "1/epsilon", *curves)
            for place, point in enumerate(result["inverse_epsilons"][1:]):
                table.add_row(f"{point:g}", *(f"{points[place]['mean']:.3f}" for points in curves.values()))
            _console.print(table)


def _pathak_adult(result: dict[str, Any]) -> None:
    for setting in result["settings"]:
        curves = list(dict.fromkeys(point["series"] for point in setting["points"]))
        table = _table(f"test error, {setting['name']}", "epsilon", *curves)
        for epsilon in dict.fromkeys(point["epsilon"] for point in setting["points"]):
            cells = {p["series"]: p for p in setting["points"] if p["epsilon"] == epsilon}
            table.add_row(
                f"{epsilon:g}", *(f"{cells[name]['error']:.3f} ± {cells[name]['std']:.3f}" for name in curves)
            )
        _console.print(table)
        _say(f"pooled {setting['pooled_error']:.3f}; always the majority {result['majority_error']:.3f}")
        for claim, holds in setting["claims"].items():
            _say(f"  {'holds' if holds else 'FAILS'}: {claim}")
    _say(f"printed noise at epsilon = 1 really gives epsilon = {result['epsilon_real_per_epsilon']:.4g}")


def _rajkumar(result: dict[str, Any]) -> None:
    panels: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in result["rows"]:
        panels.setdefault((row["panel"], str(row["place"])), []).append(row)
    # Methods are rows and settings columns: the other way round is wider than a terminal.
    for (panel, place), rows in panels.items():
        settings = [f"lambda {row['lambda']:g}\nepsilon {row['epsilon']:g}" for row in rows]
        table = _table(f"{result['experiment']}: test error, {panel} {place}", "method", *settings)
        for name in (name for name in rows[0] if isinstance(rows[0][name], dict)):
            cells = (f"{row[name]['mean']:.3f}±{row[name]['std']:.3f}" for row in rows)
            table.add_row(name.replace("_", " "), *cells)
        _console.print(table)
    for claim, answer in result["claims"].items():
        _claim(claim.replace("_", " "), answer)


def _claim(words: str, answer: Any) -> None:
    """An answer, or a table of answers by method."""
    if not isinstance(answer, dict):
        _say(f"{words}: {answer:.3g}" if isinstance(answer, float) else f"{words}: {answer}")
        return
    table = _table(words, "method", *next(iter(answer.values())))
    for name, numbers in answer.items():
        table.add_row(name.replace("_", " "), *(f"{number:.3f}" for number in numbers.values()))
    _console.print(table)


def bench(result: dict[str, Any]) -> None:
    """Encryption and counting, beside phe and the other libraries."""
    heading = ("ms / ciphertext", "x phe / ciphertext", "x phe / vote, M = 20,000")
    table = _table("encryption on one core, medians; phe's encrypt is 1", "bits, mode", *heading)
    for measured in result["encryption"]:
        for mode, taken in measured["milliseconds_per_ciphertext"].items():
            ratio = measured["times_faster_than_phe_per_ciphertext"].get(mode, 1.0)
            vote = measured["times_faster_than_phe_per_vote"].get(mode, 1.0)
            table.add_row(f"{measured['key_bits']} {mode}", f"{taken:.3f}", f"{ratio:.1f}", f"{vote:,.0f}")
    _console.print(table)
    heading = ("ciphertexts", "ms / ballot", "over bare multiplications")
    table = _table("counting a ballot, all checks included", "bits, ballots like", *heading)
    for measured in result["addition"]:
        table.add_row(
            f"{measured['key_bits']} {measured['like']}",
            str(measured["ciphertexts_per_ballot"]),
            f"{measured['milliseconds_per_ballot']:.2f}",
            f"{measured['over_bare_multiplications']:.2f}",
        )
    _console.print(table)
    for measured in result["peers"]:
        table = _table(f"other libraries, {measured['key_bits']} bits, CPU ms", "library", "encrypt", "add", "decrypt")
        for name, work in measured["milliseconds"].items():
            table.add_row(name, *(f"{work[one]:.3f}" if one in work else "" for one in ("encrypt", "add", "decrypt")))
        _console.print(table)
        for name, why in measured["not_measured"].items():
            _say(f"{name} is not measured: {why}")
    for measured in result.get("comparison", []):
        bits = f"{measured['key_bits']} bits, integers of {measured['compared_bits']}"
        table = _table(f"one secure comparison, {bits}", "library", "CPU ms", "times TNO's speed")
        for name, taken in measured["milliseconds"].items():
            ratio = measured["times_faster_than_tno"] if name == "psephos" else 1.0
            table.add_row(name, f"{taken:.1f}", "" if ratio is None else f"{ratio:.1f}")
        _console.print(table)
        for name, why in measured["not_measured"].items():
            _say(f"{name} is not measured: {why}")
