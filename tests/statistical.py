"""False-alarm rates of the tests that accept a sample: the probability that a correct implementation fails one.

The seeds of all these tests are fixed, so the verdict changes only with the code. The rate is over seeds: the
probability that a correct change of the code, which draws in another order, fails the test. `tests/test_statistical.py`
checks that the lists are complete and that no rate exceeds 1e-9.
"""

FALSE_ALARM = 1e-11
"""Significance level of each goodness-of-fit test: the test fails when its p-value is at most this."""

MOST = 1e-9
"""Largest false-alarm rate of one test case."""

P_VALUES = {
    "tests/curator/hamm/test_pate.py::test_flip_rate_of_one_query_is_the_laws": 1,
    "tests/curator/hamm/test_pate.py::test_all_classifiers_are_projected_and_perturbed": 2,
    "tests/curator/hamm/test_release.py::test_the_norm_is_gamma": 1,
    "tests/curator/hamm/test_release.py::test_the_direction_is_uniform_on_the_sphere": 28,
    "tests/parties/test_noise_shares.py::test_polya_shares_sum_to_discrete_laplace": 1,
    "tests/parties/test_noise_shares.py::test_polya_shares_at_a_realistic_scale": 1,
    "tests/parties/test_noise_shares.py::test_one_share_is_a_difference_of_negative_binomials": 1,
    "tests/parties/test_noise_shares.py::test_skellam_shares_sum_to_skellam": 1,
    "tests/parties/test_noise_shares.py::test_the_honest_minimum_makes_up_the_whole_law": 1,
    "tests/parties/test_pathak_noise.py::test_printed_laplace_noise_has_the_papers_scale": 1,
    "tests/parties/test_pathak_noise.py::test_spherical_noise_has_a_gamma_norm": 1,
    "tests/parties/test_pathak_noise.py::test_shares_of_those_that_count_sum_to_discrete_laplace": 3,
    "tests/parties/test_pathak_noise.py::test_the_public_bounds_share_is_the_lowest_rungs": 1,
    "tests/parties/test_pathak_noise.py::test_small_scales_have_the_discrete_law": 1,
    "tests/parties/test_psgd.py::test_shares_have_their_laws": 3,
    "tests/protocol/ceremony/test_search.py::test_residues_are_uniform": 1,
    "tests/protocol/paillier/test_comb.py::test_the_exponent_of_a_random_power_is_uniform": 1,
    "tests/protocol/paillier/test_threshold.py::test_coefficients_are_uniform_over_their_whole_range": 2,
    "tests/protocol/paillier/test_threshold.py::test_a_share_modulo_other_primes_is_uniform": 2,
    "tests/protocol/pathak/test_comparison.py::test_the_asker_sees_uniform_units_in_a_uniform_order": 3,
    "tests/protocol/pathak/test_resharing.py::test_permutations_are_uniform": 1,
    "tests/protocol/pathak/test_resharing.py::test_all_shares_but_one_are_uniform": 1,
    "tests/protocol/privacy/test_mechanisms.py::test_spherical_laplace_has_gamma_norms": 1,
    "tests/protocol/privacy/test_mechanisms.py::test_spherical_laplace_has_uniform_directions": 10,
    "tests/protocol/privacy/test_mechanisms.py::test_spherical_laplace_on_a_coarse_grid_is_the_rounded_law": 1,
    "tests/protocol/privacy/test_mechanisms.py::test_rounded_gaussian": 11,
    "tests/protocol/privacy/test_mechanisms.py::test_discrete_laplace": 1,
    "tests/protocol/privacy/test_mechanisms.py::test_bernoulli_exp": 1,
    "tests/protocol/privacy/test_mechanisms.py::test_poisson": 1,
    "tests/protocol/privacy/test_mechanisms.py::test_large_poisson_is_normal_and_both_precisions_agree": 1,
    "tests/protocol/privacy/test_mechanisms.py::test_skellam": 1,
    "tests/protocol/privacy/test_mechanisms.py::test_simulated_noise_has_its_stated_law": 4,
    "tests/protocol/test_randomness.py::test_a_seeded_stream_looks_uniform": 1,
    "tests/test_benchmarks.py::test_noise_drawn_at_once_has_the_law_of_the_summed_shares": 1,
    "tests/test_benchmarks.py::test_wide_noise_has_the_variance_of_the_summed_shares": 1,
}
"""Goodness-of-fit tests: the largest number of p-values that one case compares with `FALSE_ALARM`."""

BOUNDS = {
    "tests/curator/psgd/test_bounds.py::test_sigma_bounds_the_privacy_loss_exactly": 2.6e-12,
    "tests/protocol/pathak/test_comparison.py::test_the_asker_sees_uniform_units_in_a_uniform_order": 2.6e-12,
    "tests/protocol/proofs/test_validity.py::test_opened_columns_do_not_depend_on_the_votes": 1e-11,
    "tests/psephos/audit/test_testing.py::test_whoever_sees_the_world_wins_and_whoever_sees_coins_does_not": 1e-11,
    "tests/psephos/audit/test_testing.py::test_worlds_are_tossed_fairly_and_trials_have_coins_of_their_own": 2e-11,
    "tests/psephos/data/test_own.py::test_parties_of_few_rows_hold_out_as_large_a_share_on_average": 1e-30,
    "tests/psephos/data/test_splits.py::test_every_row_is_equally_likely_to_be_auxiliary": 1e-10,
    "tests/psephos/simulation/test_psgd.py::test_clear_descent_has_the_noise_of_all_parties": 1e-20,
}
"""Tests of a mean or a frequency against bounds of at least seven standard deviations, with their rates."""
