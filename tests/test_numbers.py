"""The numbers behind every release and every format, as they were: bounds, scales, costs, sizes, slacks.

Each follows from public terms alone. That they are right is what the tests of their modules are about, at some points
and against other formulas; that none of them changes by accident, anywhere, is what this file is about. numbers.json
has them; `python -m tests.test_numbers` writes it again after a change that is meant: look at the difference.
"""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest
from gmpy2 import mpz

import psephos
from psephos.audit.rounds import short_key
from psephos.curator import evaluation
from psephos.curator.hamm import erm, methods, pate, records, rehearsal, release, rules, sensitivity, statistic
from psephos.curator.losses import loss_named
from psephos.curator.pathak import bounds as pathak_bounds
from psephos.curator.psgd import bounds as psgd_bounds
from psephos.curator.psgd.agreement import DescentOptions, agree
from psephos.parties.noise import DiscreteGaussianShares, PolyaShares, contributors
from psephos.protocol.ceremony.exponent import share_bound
from psephos.protocol.ceremony.search import exponent_share_bits
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.encrypted_sum.own_data import contrast_basis
from psephos.protocol.encrypted_sum.votes import VoteLayout
from psephos.protocol.paillier.comb import CombShape, FixedBaseComb, best_shape
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.kernel import Array, Ring
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.multi_power import multi_powers
from psephos.protocol.paillier.packing import PackingPlan, best_degree
from psephos.protocol.paillier.public_power import public_power
from psephos.protocol.pathak import dgk
from psephos.protocol.pathak import noise as pathak_noise
from psephos.protocol.privacy import accounting, mechanisms
from psephos.protocol.proofs import knowledge, opening, validity
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.wire import Kind
from psephos.simulation.average import AverageOptions
from psephos.simulation.job import JobOptions
from psephos.simulation.pathak import PathakOptions, make_terms
from psephos.simulation.psgd import PsgdOptions
from psephos.simulation.tally import TallyOptions

_FILE = Path(__file__).with_name("numbers.json")
_LONG = PublicKey(2**3071 + 1, form="psephos")
"""Nothing is computed with it but lengths."""
_GENERATOR = np.random.default_rng(20)
_AUXILIARY = _GENERATOR.normal(size=(40, 3))
_AUXILIARY /= np.linalg.norm(_AUXILIARY, axis=1).max() * (1 + 1e-9)
_COUNTS = {k: _GENERATOR.multinomial(30, [1 / k] * k, size=40) for k in (2, 3)}


def numbers(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """All numbers of a value: of a record, its fields and properties."""
    if isinstance(value, Fraction):
        yield name, str(value)
    elif isinstance(value, mpz):
        yield name, int(value % (2**61 - 1))  # some have thousands of digits
    elif isinstance(value, bool | int | float | str) or value is None:
        yield name, value
    elif isinstance(value, np.ndarray):
        yield name, float(np.linalg.norm(value))  # of coordinates, whose signs another LAPACK may choose otherwise
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from numbers(f"{name} {key}", entry)
    elif isinstance(value, list | tuple):
        for place, entry in enumerate(value[:12]):
            yield from numbers(f"{name}[{place}]", entry)
    elif is_dataclass(value):
        kind = type(value)
        derived = [n for n in dir(kind) if isinstance(getattr(kind, n), property | cached_property)]
        for attribute in sorted({f.name for f in fields(value) if not f.name.startswith("_")} | set(derived)):
            if attribute not in ("nonce", "key"):
                yield from numbers(f"{name}.{attribute}", getattr(value, attribute))


def method(label: str, classes: int, mechanism: Any, bound: Any) -> dict[str, Any]:
    """A method's costs, and one release, drawn by seeded coins."""
    request = methods.ReleaseRequest(2.0, 1e-5, mechanism, None if bound == "certified" else 0.01, bound, False)
    counts, loss = _COUNTS[classes], loss_named("logistic", classes)
    made = {
        "vote": lambda: methods.erm_method("majority", counts, _AUXILIARY, loss, request),
        "soft": lambda: methods.erm_method("soft", counts, _AUXILIARY, loss, request),
        "statistic": lambda: methods.statistic_method(counts, _AUXILIARY, request),
        "pate": lambda: methods.pate_method(counts, _AUXILIARY, request, 7),
    }[label]()
    release = made.draw(SimulationRandomness(3, label)) if label != "statistic" else None
    return {"sensitivity": made.sensitivity, "event": made.event, "chosen": made.chosen, "drawn": release}


def bounds_of_hamm() -> dict[str, Any]:
    bounds: dict[str, Any] = {}
    for lam, parties, classes in ((0.01, 20, 3), (1e-4, 1000, 10)):
        where = f"lambda {lam}, M {parties}, K {classes}"
        bounds[where] = {
            "radius": [sensitivity.radius(lam), sensitivity.radius(lam, classes)],
            "binary": [sensitivity.binary_majority(lam, 0.7), sensitivity.binary_soft(lam, parties, 0.7)],
            "several": [
                sensitivity.multiclass_majority(lam, classes, 0.7),
                sensitivity.multiclass_soft(lam, parties, classes, 0.7),
            ],
            "average": sensitivity.average(2.5, parties),
            "private auxiliary": [
                sensitivity.binary_soft_private_auxiliary(lam, parties, 50),
                sensitivity.binary_majority_private_auxiliary(lam, 50),
                sensitivity.multiclass_soft_private_auxiliary(lam, parties, 50, classes),
                sensitivity.multiclass_majority_private_auxiliary(lam, 50, classes),
            ],
            "lattice": sensitivity.with_lattice(sensitivity.average(2.5, parties), 2.0**-10, 12),
            "papers": [
                sensitivity.hamm_theorem_1(lam),
                sensitivity.hamm_theorem_3(lam, parties),
                sensitivity.hamm_b2(lam),
                sensitivity.hamm_b3(lam, parties),
                sensitivity.hamm_b4(lam, parties),
                sensitivity.hamm_b4_binary(lam, parties),
                sensitivity.hamm_4_5_factor(parties, 50),
            ],
            "rules": [
                rules.ridge(sensitivity.binary_soft(1.0, parties), 12, classes, 2.0),
                rules.averaging_radius(lam, classes),
            ],
            "pate": [pate.choose_queries(10**6, classes, parties, 2.0, 1e-5, kind) for kind in ("gnmax", "lnmax")],
            "output noise": [
                release.mechanism_for((classes, 5), 1e-9, 12.0, sensitivity.average(2.5, parties), 2.0, noise=noise)
                for noise in ("spherical-laplace", "gaussian")
            ],
        }
    for name, classes in (("logistic", 2), ("logistic", 3)):
        loss = loss_named(name, classes)
        bounds[f"{name}, {classes} classes"] = {
            "norm": erm.norm_bound(loss, classes, 0.01),
            "rounding": erm.rounding_floor(1000, 30, classes, 20.0, 0.01, loss),
            "tolerance": erm.smallest_tolerance(1000, 30, classes, 0.01, loss),
            "lipschitz": loss.lipschitz,
            "smoothness": loss.smoothness,
        }
    x = _AUXILIARY[:20]
    bounds["features"] = [sensitivity.rho(x), sensitivity.operator_norm(x), sensitivity.largest_row_norm(x)]
    return bounds


def noise() -> dict[str, Any]:
    return {
        "discrete Gaussian": [mechanisms.discrete_gaussian_variance(40.0, e, 1e-6, 3) for e in (0.5, 5.0)],
        "gaussian": [mechanisms.gaussian_sigma(1.5, 0.7, 1e-6), mechanisms.gaussian_delta(1.5, 0.7, 6.0)],
        "pitch": [mechanisms.choose_pitch(s, d) for s, d in ((1e-3, 5), (2.0, 1000))],
        "for epsilon": [
            mechanisms.SphericalLaplace.for_epsilon(0.3, 2.0, 6, 2.0**-20),
            mechanisms.RoundedGaussian.for_epsilon_delta(0.3, 2.0, 1e-6, 6, 2.0**-20),
        ],
        "contributors": [contributors(9, 0), contributors(9, 2, 3)],
        "shares": [PolyaShares(4, 9, 6, Fraction(91, 3)), DiscreteGaussianShares(4, 9, 6, Fraction(3000))],
    }


def accounts() -> dict[str, Any]:
    events = [
        accounting.pure_event("pure", 0.5, distance=2.0**-70),
        accounting.gaussian_event("gaussian", 3.0, 1.0, 2.0),
        accounting.PrivacyEvent("approximate", 0.3, 1e-7),
    ]
    return {"events": events, "both": accounting.compose(events, 1e-5), "shown": accounting.shown_together(events)}


def statistics() -> dict[str, Any]:
    plans: dict[str, Any] = {}
    for source in ("votes", "own-data", "whitened"):
        for mechanism in ("spherical-laplace", "discrete-laplace", "gaussian"):
            for joint in (False, True):
                if joint and mechanism == "spherical-laplace":
                    continue
                plan = statistic.plan_statistic(
                    _AUXILIARY, 3, 50, epsilon=2.0, delta=1e-6, mechanism=mechanism, source=source, joint=joint
                )
                plans[f"{source} {mechanism} {joint}"] = plan
    return plans


def _public_rows(classes: int) -> tuple[Any, Any]:
    """Public rows with a constant, and labels that follow from them; numbers for one class."""
    generator = np.random.default_rng([22, classes])
    X = generator.normal(size=(90, 5)) * [3.0, 2.0, 1.0, 0.5, 0.3]
    scores = X @ generator.normal(size=(5, max(classes, 2))) + generator.gumbel(size=(90, max(classes, 2)))
    return np.column_stack([X, np.ones(90)]), scores[:, 0] if classes == 1 else scores.argmax(axis=1)


def record_steps() -> dict[str, Any]:
    """Plans, and the step of a sum with noise, of one without, and of rows that span one direction."""
    values: dict[str, Any] = {}
    cases: list[tuple[int, dict[str, Any]]] = [
        (2, {"mechanism": "gaussian"}),
        (2, {"mechanism": "discrete-laplace", "neighbours": "add-remove"}),
        (3, {"mechanism": "gaussian", "contributors": 3}),
        (1, {"mechanism": "gaussian"}),
        (1, {"mechanism": "discrete-laplace", "unit": "party"}),
        (2, {"epsilon": None}),
    ]
    for classes, terms in cases:
        X, y = _public_rows(classes)
        plan = records.plan_records(X, y, classes, 5, **{"rows": 4000, "epsilon": 1.0, **terms})
        coins = SimulationRandomness(1, "record step")
        noise = None if plan.mechanism is None else plan.mechanism.sample(coins)
        made: dict[str, Any] = {} if noise is None else {"plan": plan}  # whose cost is not defined
        for name, own in (("all", X), ("one direction", np.outer(X[:, 0], [1, 1, 1, 1, 1, 0]) + np.eye(6)[5])):
            exact = plan.grid.contribution(own, y)
            total = exact if noise is None else [int(e) + int(n) for e, n in zip(exact, noise, strict=True)]
            made[name] = records.fit_records(records.release_records(plan, total))
        values[f"{classes} classes, {terms}"] = made
    return values


def evaluations() -> dict[str, Any]:
    values: dict[str, Any] = {}
    for classes, terms in ((2, {"bins": 6}), (2, {"neighbours": "add-remove"}), (3, {}), (2, {"unit": "party"})):
        X, y = _public_rows(classes)
        weights = np.linspace(-1, 1, 6 * classes).reshape(6, classes)[:, 1 if classes == 2 else 0 :]
        plan = evaluation.plan_evaluation(X, weights, classes, 5, epsilon=2.0, contributors=3, **terms)  # type: ignore[arg-type]
        total = (40 * np.array(plan.grid.contribution(X, y), dtype=object) + 12345).tolist()
        values[f"{classes} classes, {terms}"] = [plan, evaluation.estimate_evaluation(plan, total, 5)]
    return values


def rehearsals() -> dict[str, Any]:
    """Of a public model that no solver has fitted."""
    values: dict[str, Any] = {}
    for classes in (2, 4):
        generator = np.random.default_rng([23, classes])
        variances = np.array([9.0, 4.0, 1.0, 0.25])
        rows, weights = generator.normal(size=(60, 4)) * np.sqrt(variances), generator.normal(size=(classes - 1, 4))
        held_out = rows @ weights.T + 0.5 * generator.normal(size=(60, classes - 1))
        labels = ((held_out + generator.normal(size=held_out.shape)) @ contrast_basis(classes)).argmax(axis=1)
        constant, axes = np.zeros(classes - 1), np.eye(4)
        model = rehearsal.PublicModel(
            np.zeros(4), np.ones(4), axes, variances, rows, weights, constant, 0.1, labels, held_out, bytes(32)
        )
        noises = [lambda entries: rehearsal.Noise("l1", 0.05), lambda entries: rehearsal.Noise("l2", 0.04)]
        done = rehearsal.rehearse(model, 20, 10, noises)
        values[f"{classes} classes"] = {
            "calibration": rehearsal.calibrate(model, np.random.default_rng(3)),
            "scales": [model.scale(3, power) for power in (0.0, 0.5)],
            "shares": [model.shares, rehearsal.class_shift(model.shares), model.losses, int(model.hits.sum())],
            "rehearsed": [done.plan, done.noise, done.limit, done.radius, done.unit, done.gain, done.spread],
        }
    return values


def pathak() -> dict[str, Any]:
    releases: dict[str, Any] = {}
    laws = (("public-bound", "laplace"), ("repaired", "laplace"), ("printed", "laplace"), ("printed", "spherical"))
    agreed = {"parties": 5, "features": 4, "lam": 0.1, "epsilon": 1.0, "smallest_size": 100, "largest_size": 4000}
    for variant, law in laws:
        terms = make_terms(variant=variant, noise=law, **agreed)
        releases[f"{variant} {law}"] = {
            "terms": terms,
            "proved": pathak_bounds.proved_epsilon(terms),
            "party": pathak_bounds.party_level_epsilon(terms, 100),
            **{
                make.__name__: make(terms)
                for make in (
                    pathak_noise.noise_delta,
                    pathak_noise.noise_addends,
                    pathak_noise.noise_bound,
                    pathak_noise.weight_bound,
                    pathak_noise.modulus_bits,
                    pathak_noise.mask_bits,
                )
            },
            "scale": pathak_noise.noise_scale(terms, 100),
            "sensitivity": pathak_noise.record_sensitivity(terms, 100),
        }
    releases["papers"] = [
        pathak_bounds.printed_epsilon(epsilon=1.0, features=4, parties=5),
        pathak_bounds.theorem_4_2(parties=5, smallest=100, lam=0.1),
        pathak_bounds.theorem_4_3(parties=5, smallest=100, lam=0.1, features=4, epsilon=1.0, delta=0.05),
    ]
    return releases


def psgd() -> dict[str, Any]:
    values: dict[str, Any] = {
        "slack": psgd_bounds.compute_slack(1.0, 0.01, 5000, 0.25),
        "slack, party": psgd_bounds.compute_slack_party(1.0, 0.1, 5000, 0.25, party_records=100, dimension=4),
        "sigma": psgd_bounds.sigma_from_density_ratio(4, 1.0, 1e-3),
        "printed": psgd_bounds.sigma_as_printed(4, 1.0, 1e-3),
        "footnote": psgd_bounds.footnote_four(1.0, 1e-3, 0.01, [100, 200], 0.25, 4),
        "composed": [psgd_bounds.pure_composition(0.1, 20, 1e-6), psgd_bounds.pure_composition(0.001, 2, 0.5)],
    }
    for variant in ("paper", "halving", "gaussian"):
        options = DescentOptions(variant=variant, epsilon=2.0, delta=1e-3, lam=0.5, steps=5, colluders=1, dropouts=1)
        agreed = values[variant] = agree(options, [40] * 6, 3, bytes(16))
        series = agreed.series
        values[f"{variant}, bounds"] = [series.fixed_bound(), series.step_bound(1), series.step_bound(3)]
    return values


def formats() -> dict[str, Any]:
    key = short_key().public_key
    plans = [PackingPlan.for_key(key, length=30, addends=7, minimum=a, maximum=b) for a, b in ((0, 1), (-5, 9))]
    layout = VoteLayout(15, 3)
    return {
        "plans": plans,
        "votes": layout,
        "proof": validity.Layout.of(key, layout.plan(key, 7), 2),
        "proofs": {
            f"{samples} {classes}": validity.Layout.of(
                _LONG, VoteLayout(samples, classes).plan(_LONG, 900), classes - 1
            )
            for samples, classes in ((50, 2), (1352, 6), (10_000, 3), (43_000, 2))
        },
        "knowledge": {
            k.bits: [knowledge.mask_bits(k), knowledge.answer_bits(k), knowledge.KnowledgeProof.encoded_length(k)]
            for k in (key, _LONG)
        },
        "opening": opening.OpeningProof.encoded_length(_LONG, 7001),
        "degrees": {
            f"{bits} {addends}": str([best_degree(bits, length=300 * k, addends=addends) for k in range(1, 30)])
            for bits in (2048, 3072)
            for addends in (1, 50, 20_000)
        },
        "comparisons": [dgk.plaintext_modulus(bits) for bits in (1, 2, 3, 4, 8, 16, 33, 96, 97)],
    }


def ceremonies() -> dict[str, Any]:
    values: dict[str, Any] = {}
    for bits, holders in ((128, 3), (256, 5), (512, 9), (2048, 5), (3072, 5), (3072, 9)):
        terms = CeremonyTerms(bits, holders, (holders + 1) // 2, bytes(32), test_key=bits < 2048)
        values[f"{bits} {holders}"] = [terms, len(terms.draws), exponent_share_bits(terms), share_bound(terms)]
    return values


class Counted(Ring):
    """How many products were made in it."""

    made = 0

    def multiply(self, left: Array, right: Array) -> Array:
        self.made += left[..., 0].size
        return super().multiply(left, right)


class Wide(Counted):
    """Makes eight together, or says so."""

    lanes = 8


def costs() -> dict[str, Any]:
    """Products modulo n, and tables: what is slower by accident gives the same result."""
    values: dict[str, Any] = {
        f"shape {case}": best_shape(case[0], powers=case[1], entry_bytes=case[2], memory=case[3])
        for case in (
            *((bits, powers, 768, 50_000_000) for bits in (1, 13, 255, 1536, 3072) for powers in (0, 1, 40, 10**5)),
            *((1536, 10**7, 768, memory) for memory in (0, 10**5, 10**6, 10**7)),
        )
    }
    shapes = (best_shape(bits, powers=900, entry_bytes=384, memory=10**6) for bits in range(1, 4000, 40))
    values["shapes"] = str([(shape.rows, shape.tables, shape.columns) for shape in shapes])
    for mode in ("half", "short"):
        for expected in (0, 1, 2, 3, 4, 5, 8, 9, 1024, 4096, 4097, 10**7):
            values[f"{mode}, {expected} expected"] = Encryptor(_LONG, mode, expected=expected).shape
    values["base powers"] = [knowledge.comb_shape(key) for key in (short_key().public_key, _LONG)]
    values["comparisons"] = [dgk._shape(_comparisons(), powers) for powers in (0, 1, 2, 3, 5000)]
    for kind in (Counted, Wide):
        for bases, bits in ((1, 128), (5, 128), (6, 128), (40, 128), (200, 64), (1500, 24)):
            ring = kind(mpz(2**61 - 1))
            terms = [(mpz(3 + i), mpz(pow(7, i + 1, 1 << bits))) for i in range(bases)]
            power = public_power([b for b, _ in terms], [e for _, e in terms], ring)
            values[f"{kind.__name__}, {bases} public powers of {bits} bits"] = [ring.made, power]
        few = []
        for bases in range(1, 100, 2):  # where one way of doing it gets cheaper than the other
            ring = kind(mpz(2**61 - 1))
            public_power([mpz(3)] * bases, [mpz(2**24 - 1)] * bases, ring)
            few.append(ring.made)
        values[f"{kind.__name__}, up to 100 public powers"] = str(few)
        ring = kind(mpz(2**61 - 1))
        powers = multi_powers([mpz(3), mpz(5)], [[2**90, 1], [77 << 70, 0], [0, 5]], ring)
        values[f"{kind.__name__}, several powers"] = [ring.made, powers]
        ring = kind(mpz(2**61 - 1))
        comb = FixedBaseComb(mpz(3), ring, CombShape(3, 5, 4))
        values[f"{kind.__name__}, tables"] = ring.made
        for count in (1, 2, 3, 9, 200):
            ring.made = 0
            powers_ = comb.random_powers(count, SimulationRandomness(1, "costs"))
            values[f"{kind.__name__}, {count} fixed-base powers"] = [ring.made, powers_]
    return values


def _comparisons() -> dgk.DgkPublicKey:
    return dgk.DgkPublicKey(2**2047 + 1, 2, 4, dgk.plaintext_modulus(96), 224)


def modules() -> Iterator[ModuleType]:
    """All that is mutated: `protocol`, `parties`, `curator`, and what of `psephos` plays them."""
    root = Path(psephos.__file__).parent
    for folder in ("protocol", "parties", "curator", "simulation", "study"):
        for path in sorted((root / folder).rglob("*.py")):
            yield import_module(".".join(("psephos", *path.relative_to(root).with_suffix("").parts)))


def plain(value: Any) -> bool:
    """Whether `repr` is all that there is to it."""
    if isinstance(value, tuple):
        return all(map(plain, value))
    return value is None or isinstance(value, bool | int | float | str | bytes | Fraction)


def constants() -> dict[str, Any]:
    """Every number or text that a module gives a name in capitals."""
    values = dict[str, Any]()
    for module in modules():
        text = Path(module.__file__ or "").read_text()
        named = [line.split(" = ")[0].split(":")[0] for line in text.splitlines() if re.match(r"[_A-Z].* = ", line)]
        for name in filter(re.compile("_?[A-Z][A-Z_0-9]*").fullmatch, ", ".join(named).split(", ")):
            values[f"{module.__name__}.{name}"] = getattr(module, name)
    return {
        name: value if isinstance(value, int | float | Fraction) else repr(value)
        for name, value in values.items()
        # a program's place and the kernels are the machine's
        if plain(value) and not str(value).startswith("/") and not name.endswith(".KERNELS")
    }


def defaults() -> dict[str, str]:
    """Of every function and record, what is meant where nobody says."""
    values = dict[str, str]()
    for module in modules():
        own = [kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__]
        for member in (*vars(module).values(), *(member for kind in own for member in vars(kind).values())):
            function = inspect.unwrap(getattr(member, "__func__", member))
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                known = inspect.signature(function).parameters.values()
                parameters = {p.name: p.default for p in known if p.default is not p.empty and plain(p.default)}
                if parameters:
                    values[f"{module.__name__}.{function.__qualname__}"] = repr(parameters)
    return values


def options() -> dict[str, Any]:
    """Of every option of a command, where its help stands and what that says of the default."""
    return {
        f"{kind.__module__}.{kind.__qualname__} {field.name}": [field.metadata["group"], field.metadata["shown"]]
        for kind in (TallyOptions, AverageOptions, PathakOptions, PsgdOptions, JobOptions)
        for field in fields(kind)
        if field.metadata["help"]
    }


def kinds() -> dict[str, Any]:
    """A number is given once and never again; what is public is what everybody counts."""
    return {kind.name: [kind.value, kind.public, kind.title] for kind in Kind}


def hidden() -> dict[str, str]:
    """Of every record, the fields that its repr does not show: secrets, and what is long."""
    named = {
        f"{kind.__module__}.{kind.__qualname__}": " ".join(field.name for field in fields(kind) if not field.repr)
        for module in modules()
        for kind in vars(module).values()
        if isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == module.__name__
    }
    return {name: hidden for name, hidden in named.items() if hidden}


GROUPS: dict[str, Callable[[], Any]] = {
    **{
        f"{label}, {classes} classes, {mechanism}, {bound}": partial(method, label, classes, mechanism, bound)
        for label in ("vote", "soft", "statistic", "pate")
        for classes in (2, 3)
        for mechanism in ("spherical-laplace", "gaussian")
        for bound in (("certified", "paper") if label in ("vote", "soft") else ("certified",))
    },
    "bounds of Hamm": bounds_of_hamm,
    "noise": noise,
    "accounts": accounts,
    "statistics": statistics,
    "record steps": record_steps,
    "evaluations": evaluations,
    "rehearsals": rehearsals,
    "pathak": pathak,
    "psgd": psgd,
    "formats": formats,
    "ceremonies": ceremonies,
    "costs": costs,
    "constants": constants,
    "hidden": hidden,
    "defaults": defaults,
    "kinds": kinds,
    "options": options,
}


@pytest.mark.parametrize("group", GROUPS)
def test_public_numbers_are_unchanged(group: str) -> None:
    values, expected = dict(numbers("", GROUPS[group]())), json.loads(_FILE.read_text())[group]
    assert values.keys() >= expected.keys() or group in (
        "constants",
        "defaults",
    )  # one may go; the same name means the same number
    for name, value in ((name, expected[name]) for name in expected if name in values):
        same = values[name] == value
        if isinstance(value, float):  # another BLAS or libm may round otherwise
            same = math.isclose(values[name], value, rel_tol=1e-6)
        assert same, f"{name}: {values[name]} and not {value}"


if __name__ == "__main__":
    _FILE.write_text(json.dumps({group: dict(numbers("", make())) for group, make in GROUPS.items()}, indent=0) + "\n")
