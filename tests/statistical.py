"""False-alarm rates of the tests that accept a sample: the probability that a correct implementation fails one.

Where the seed is fixed, the verdict changes only with the code, and the rate is over seeds: the probability that a
correct change of the code, which draws in another order, fails the test. Else it is that of each run.
`tests/test_statistical.py` checks that no rate exceeds 1e-9.
"""

FALSE_ALARM = 1e-11
"""Significance level of each goodness-of-fit test, which compares at most 100 p-values with it: the test fails when one
is at most this."""

MOST = 1e-9
"""Largest false-alarm rate of one test case."""

BOUNDS = {
    "tests/curator/psgd/test_bounds.py::test_sigma_bounds_the_privacy_loss_exactly": 2.6e-12,
    "tests/protocol/paillier/test_threshold.py::test_the_shares_of_a_key_hide_its_exponent_whatever_the_degree": 3e-14,
    "tests/protocol/pathak/test_comparison.py::test_the_asker_sees_uniform_units_in_a_uniform_order": 2.6e-12,
    "tests/protocol/pathak/test_resharing.py::test_every_bit_of_a_share_is_drawn_whatever_the_modulus": 4e-16,
    "tests/protocol/proofs/test_knowledge.py::test_the_mask_of_the_plaintexts_fills_its_range": 5e-11,
    "tests/protocol/proofs/test_opening.py::test_no_two_proofs_of_a_holder_have_related_masks": 1e-11,
    "tests/protocol/proofs/test_validity.py::test_opened_columns_do_not_depend_on_the_votes": 1e-11,
    "tests/psephos/audit/test_testing.py::test_advantage_of_a_perfect_and_a_blind_distinguisher": 1e-11,
    "tests/psephos/audit/test_testing.py::test_settings_are_fair_and_trials_have_independent_randomness": 2e-11,
    "tests/psephos/simulation/test_psgd.py::test_clear_descent_has_the_noise_of_all_parties": 1e-20,
}
"""Tests of means, frequencies, extremes or distances against bounds, with the rates at which they are exceeded."""
