"""Scaling: learned on public rows only, and every row inside the unit ball, exactly."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from psephos.data.preprocessing import PublicScaler, own_scaler, project_on_unit_ball
from psephos.protocol.errors import DataError, InvalidParameter


def squared_norm(row: NDArray[np.float64]) -> Fraction:
    """Without rounding."""
    return sum((Fraction(float(value)) ** 2 for value in row), Fraction(0))


VARIANTS = [
    PublicScaler(),
    PublicScaler(scaling="unit-rows"),
    PublicScaler(columns="standardise"),
    PublicScaler(columns="max-abs", scaling="unit-rows"),
    PublicScaler(components=1, intercept=0.5),
    PublicScaler(columns="standardise", components=1, scaling="unit-rows", intercept=1.0),
]


@pytest.mark.parametrize("scaler", VARIANTS, ids=str)
def test_scikit_learn_conventions(scaler: PublicScaler) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of skipped checks
        check_estimator(scaler)


@given(arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 9)), elements=st.floats(-1e200, 1e200)))
@settings(max_examples=200)
def test_projection_is_exact(X: NDArray[np.float64]) -> None:
    inside = project_on_unit_ball(X)
    for before, after in zip(X, inside, strict=True):
        assert squared_norm(after) <= 1
        if squared_norm(before) > 1:
            assert squared_norm(after) >= 1 - Fraction(1, 2**40)
            assert np.allclose(after * np.abs(before).max(), before * np.abs(after).max(), rtol=1e-12)
        elif squared_norm(before) < 1 - Fraction(1, 2**40):
            assert np.array_equal(before, after)


@pytest.mark.parametrize("scaler", VARIANTS, ids=str)
def test_every_scaled_row_is_in_the_unit_ball(scaler: PublicScaler) -> None:
    generator = np.random.default_rng(1)
    auxiliary, private = generator.normal(size=(40, 5)) + 2, 10 * generator.normal(size=(60, 5))
    scaler.fit(auxiliary)
    for X in (auxiliary, private):
        rows = scaler.transform(X)
        norms = [squared_norm(row) for row in rows]
        assert max(norms) <= 1
        assert max(norms) > 1 - 1e-12


@pytest.mark.parametrize("margin", [None, 0.5])
@pytest.mark.parametrize("scaling", ["max-norm", "unit-rows"])
@pytest.mark.parametrize("d", [1, 2, 9, 40])
def test_a_scaled_row_is_a_function_of_that_row_bit_for_bit(scaling: str, d: int, margin: float | None) -> None:
    """Alone, among others and in another memory layout, without principal components; privacy of a record needs it."""
    generator = np.random.default_rng(d)
    scaler = PublicScaler(scaling=scaling, columns="standardise", intercept=1.0, margin=margin)
    scaler.fit(generator.normal(size=(50, d)))
    X = generator.normal(size=(120, d)) * 10.0 ** generator.uniform(-5, 5, size=(120, 1))
    together = scaler.transform(X)
    assert np.array_equal(scaler.transform(np.asfortranarray(X)), together)
    assert np.array_equal(scaler.transform(X[::3]), together[::3])
    assert all(np.array_equal(scaler.transform(X[[n]])[0], together[n]) for n in range(len(X)))


def test_features_are_clipped_to_extended_ranges_of_the_auxiliary_rows() -> None:
    scaler = own_scaler(predicts_number=True).fit([[0.0, 7.0], [4.0, 7.0]])
    assert scaler.ranges_.tolist() == [[-2.0, 7.0], [6.0, 7.0]]
    inside = scaler.transform([[6.0, 7.0], [-2.0, 7.0]])
    assert np.array_equal(scaler.transform([[1e99, 8.0], [-1e99, -1e99]]), inside)
    assert own_scaler(predicts_number=False).fit([[0.0], [4.0]]).ranges_ is None
    for margin, X in ((-0.1, np.eye(2)), (np.inf, np.eye(2)), (0.5, scipy.sparse.eye_array(2).tocsr())):
        with pytest.raises(InvalidParameter):
            PublicScaler(margin=margin).fit(X)


def test_agrees_with_scikit_learn() -> None:
    generator = np.random.default_rng(2)
    auxiliary, private = generator.normal(size=(50, 8)) * np.arange(1, 9), generator.normal(size=(20, 8))
    for columns, oracle in (("standardise", StandardScaler()), ("max-abs", MaxAbsScaler())):
        oracle.fit(auxiliary)
        pca = PCA(3).fit(oracle.transform(auxiliary))
        largest = np.linalg.norm(pca.transform(oracle.transform(auxiliary)), axis=1).max()
        ours = PublicScaler(columns=columns, components=3).fit(auxiliary).transform(private)
        assert np.allclose(ours, pca.transform(oracle.transform(private)) / largest, atol=1e-12)


def test_sparse_and_dense_features_agree() -> None:
    generator = np.random.default_rng(3)
    dense = generator.normal(size=(60, 40)) * (generator.random((60, 40)) < 0.2)
    dense[:, 7] = 0
    dense[50, 7] = 3.0  # a feature that no auxiliary row has
    auxiliary, private = scipy.sparse.csr_matrix(dense[:50]), scipy.sparse.csr_matrix(dense[50:])
    for options in ({}, {"columns": "standardise"}, {"columns": "max-abs", "scaling": "unit-rows"}):
        plain, sparse = PublicScaler(**options).fit(dense[:50]), PublicScaler(**options).fit(auxiliary)
        used = np.delete(plain.transform(dense[51:]), 7, axis=1)
        assert np.allclose(sparse.transform(private[1:]), used)
    plain, sparse = PublicScaler(components=4).fit(dense[:50]), PublicScaler(components=4).fit(auxiliary)
    assert np.allclose(np.abs(sparse.transform(private[1:])), np.abs(plain.transform(dense[51:])))
    with pytest.raises(InvalidParameter, match="39"):
        PublicScaler(components=39).fit(auxiliary)


def test_unit_rows_alone_learn_nothing_from_the_auxiliary_rows() -> None:
    """Private auxiliary samples: one of them decides neither the width nor any number of what is released."""
    generator = np.random.default_rng(4)
    rows = generator.normal(size=(20, 12)) * (generator.random((20, 12)) < 0.3)
    rows[:, 9:] = 0
    other = rows.copy()
    other[0, 11] = 5.0  # the one sample that differs has a feature that no other has
    private = scipy.sparse.csr_matrix(generator.normal(size=(5, 12)))
    scalers = [PublicScaler(scaling="unit-rows").fit(scipy.sparse.csr_matrix(X)) for X in (rows, other)]
    one, two = (scaler.transform(private) for scaler in scalers)
    assert one.shape == two.shape == (5, 12)
    assert np.array_equal(one, two)


def test_wide_sparse_features_need_components() -> None:
    generator = np.random.default_rng(5)
    wide = scipy.sparse.random(30, 3_231_961, density=1e-5, format="csr", rng=generator)
    rows = PublicScaler(components=5).fit(wide).transform(wide)
    assert rows.shape == (30, 5)
    with pytest.raises(DataError, match="components"):
        PublicScaler().fit(scipy.sparse.csr_matrix(([1.0] * 20_000, (np.arange(20_000), np.arange(20_000)))))


@pytest.mark.parametrize(
    "options",
    [
        {"scaling": "l1"},
        {"columns": "robust"},
        {"components": 0},
        {"components": 6},
        {"intercept": -1.0},
        {"intercept": float("nan")},
    ],
)
def test_bad_options(options: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter):
        PublicScaler(**options).fit(np.ones((9, 5)))


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("scaler", VARIANTS, ids=str)
def test_a_classifier_with_folded_scaling_decides_alike_on_raw_rows(scaler: PublicScaler, sparse: bool) -> None:
    generator = np.random.default_rng(3)
    X = generator.normal(size=(40, 6)) * [1, 2, 0, 4, 5, 6] + 1
    X[:, 3] = 0
    rows = scipy.sparse.csr_array(X) if sparse else X
    Z = scaler.fit(rows[:20]).transform(rows)
    w = generator.normal(size=(3, Z.shape[1]))
    coefficients, intercept = scaler.fold(w)
    assert coefficients.shape == (3, 6)
    inside = X @ coefficients.T + intercept
    # A row is divided by something positive, which is another one for each row.
    longest = np.abs(inside).max(axis=1)
    np.testing.assert_allclose(inside / longest[:, None], Z @ w.T / np.abs(Z @ w.T).max(axis=1)[:, None], atol=1e-9)
