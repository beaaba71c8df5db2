"""False-alarm rates of the tests that accept a sample: the probability that a correct implementation fails one.

Where the seed is fixed, the verdict changes only with the code, and the rate is over seeds: the probability that a
correct change of the code, which draws in another order, fails the test. Else it is that of each run.
`tests/test_statistical.py` checks that the lists are complete and that no rate exceeds 1e-9.
"""

FALSE_ALARM = 1e-11
"""Significance level of each goodness-of-fit test: the test fails when its p-value is at most this."""

MOST = 1e-9
"""Largest false-alarm rate of one test case."""

P_VALUES = {
    "tests/curator/test_error_estimates.py::test_stated_errors_are_those_of_the_noise": 4,
    "tests/curator/test_pate.py::test_the_flip_rate_of_one_query_follows_the_law": 1,
    "tests/curator/hamm/test_release.py::test_the_norm_is_gamma": 1,
    "tests/curator/hamm/test_release.py::test_the_direction_is_uniform_on_the_sphere": 28,
    "tests/parties/test_noise_shares.py::test_polya_shares_sum_to_discrete_laplace": 1,
    "tests/parties/test_noise_shares.py::test_one_share_is_a_difference_of_negative_binomials": 1,
    "tests/parties/test_noise_shares.py::test_gaussian_shares_sum_to_a_gaussian": 1,
    "tests/parties/test_noise_shares.py::test_shares_of_the_honest_minimum_have_the_complete_law": 1,
    "tests/parties/test_pathak_noise.py::test_printed_laplace_noise_has_the_papers_scale": 1,
    "tests/parties/test_pathak_noise.py::test_counted_shares_sum_to_discrete_laplace": 3,
    "tests/parties/test_pathak_noise.py::test_the_share_for_the_public_bound_has_the_smallest_size": 1,
    "tests/parties/test_psgd.py::test_shares_have_their_laws": 3,
    "tests/protocol/ceremony/test_search.py::test_residues_are_uniform": 1,
    "tests/protocol/paillier/test_comb.py::test_the_exponent_of_a_random_power_is_uniform": 1,
    "tests/protocol/pathak/test_comparison.py::test_the_asker_sees_uniform_units_in_a_uniform_order": 3,
    "tests/protocol/pathak/test_resharing.py::test_all_shares_but_one_are_uniform": 1,
    "tests/protocol/privacy/test_mechanisms.py::test_spherical_laplace_has_gamma_norms": 1,
    "tests/protocol/privacy/test_mechanisms.py::test_spherical_laplace_has_uniform_directions": 10,
    "tests/protocol/privacy/test_mechanisms.py::test_rounded_gaussian": 11,
    "tests/protocol/privacy/test_mechanisms.py::test_discrete_laplace": 1,
    "tests/protocol/privacy/test_mechanisms.py::test_a_wide_discrete_gaussian_is_normal": 1,
    "tests/protocol/privacy/test_mechanisms.py::test_poisson": 1,
    "tests/protocol/privacy/test_mechanisms.py::test_large_poisson_is_normal_and_both_precisions_agree": 1,
    "tests/protocol/privacy/test_mechanisms.py::test_discrete_gaussian": 1,
    "tests/protocol/privacy/test_mechanisms.py::test_simulated_noise_has_its_stated_law": 4,
    "tests/protocol/test_randomness.py::test_a_seeded_stream_looks_uniform": 1,
}
"""Goodness-of-fit tests: the largest number of p-values that one case compares with `FALSE_ALARM`."""

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
