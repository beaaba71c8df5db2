"""What leaves a party in the protocols that protect a record: gradient descent and Pathak's averaging."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from psephos.audit.adversary import Replacements, Tampering
from psephos.audit.neighbours import PartyTable
from psephos.audit.pipelines import SETTINGS, Bound, Seen, digest_of, messages_of, read_by
from psephos.curator.psgd.agreement import agree
from psephos.data.own import OwnTable
from psephos.data.partition import load_split
from psephos.protocol.pathak.noise import record_sensitivity
from psephos.protocol.roles import Step
from psephos.protocol.transcript import Transcript
from psephos.simulation.pathak import PathakOptions, simulate_pathak
from psephos.simulation.psgd import PsgdOptions, simulate_psgd

__all__ = ["gradients", "shared_parameters"]


def _observing(names: Sequence[str]) -> tuple[dict[str, Any], Replacements]:
    """Return a dictionary that a run fills with each role and its last result, and the replacements that do so."""
    results: dict[str, Any] = {}

    class Observed(Tampering):
        def observe(self, step: Step) -> None:
            results[self.name] = self.honest, self.honest.result(step.state)

    return results, dict.fromkeys(names, Observed)


def gradients(table: PartyTable, directory: Path, **asked: Any) -> Seen:
    """`psephos simulate psgd`, its first step: later ones start where it led, which is public."""
    given = {**SETTINGS, "lam": 0.1, "epsilon": 1.0, "steps": 1, **read_by(table, directory), **asked}
    options, split = load_split(PsgdOptions(**given))
    names, transcript = OwnTable(options).owners, Transcript(secrets=True)
    results, roles = _observing([f"party {number}" for number in range(options.parties)])
    outcome = simulate_psgd(options, data=split, roles=roles, transcript=transcript)
    seen, phase = Seen(roster=names, messages=messages_of(transcript)), "gradients"
    for number, name in enumerate(names):
        party, account = results[f"party {number}"]
        seen.vectors.setdefault(phase, {})[name] = account.vector
        seen.local[name] = {"rows": digest_of(*split.party(number))}
    series = party.terms.series
    seen.bounds[phase] = Bound(l2=outcome.gradient_sensitivity / series.pitch)
    seen.terms[phase] = replace(series, nonce=bytes(16)), tuple(outcome.party_sizes)
    # Every party knows its own share: of the variant "gaussian" that one is left out already.
    against = max(0, options.opening_threshold - 1 - (options.variant == "gaussian"))
    needed = agree(replace(options, colluders=against), outcome.party_sizes, outcome.features, bytes(16)).series
    seen.shares["fresh noise of a share"] = series.step_scale, needed.step_scale
    seen.shares["fixed noise of a share"] = min(series.fixed_sigmas), min(needed.fixed_sigmas)
    return seen


def shared_parameters(table: PartyTable, directory: Path, **asked: Any) -> Seen:
    """`psephos simulate pathak`, with noise for a public size."""
    given = {**SETTINGS, "lam": 0.1, "epsilon": 1.0, **read_by(table, directory), **asked}
    options, split = load_split(PathakOptions(**given))
    names, transcript = OwnTable(options).owners, Transcript(secrets=True)
    results, roles = _observing([f"party {number}" for number in range(options.parties)])
    simulate_pathak(options, data=split, roles=roles, transcript=transcript)
    seen, phase = Seen(roster=names, messages=messages_of(transcript)), "parameters"
    for number, name in enumerate(names):
        party, put_in = results[f"party {number}"]
        sent = [w + e for w, e in zip(put_in.parameters, put_in.noise[0], strict=True)]
        seen.vectors.setdefault(phase, {})[name] = tuple(sent)
        seen.local[name] = {"rows": digest_of(*split.party(number))}
    terms = party.terms
    root = float(np.sqrt(terms.features))
    moved = record_sensitivity(terms, terms.smallest_size) / terms.pitch
    # Two vectors that are rounded to the grid: an entry of each may move by half a unit.
    seen.bounds[phase] = Bound(root * moved + terms.features, moved + root)
    seen.terms[phase] = replace(terms, nonce="0" * 32)
    return seen
