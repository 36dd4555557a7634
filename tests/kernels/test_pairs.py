"""Arithmetic on pairs against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamcenters.kernels.pairs import (
    add_pairs,
    centered_squares,
    scale_pairs,
    sum_pairs,
    two_product,
    two_sum,
)

ORDINARY = st.floats(-1e100, 1e100).filter(lambda x: x == 0 or abs(x) > 1e-100)


def value(pairs, *index):
    return Fraction(float(pairs[(0, *index)])) + Fraction(float(pairs[(1, *index)]))


@given(a=ORDINARY, b=ORDINARY)
def test_two_sum_loses_nothing(a, b):
    total, error = two_sum(a, b)
    assert total == a + b
    assert Fraction(total) + Fraction(error) == Fraction(a) + Fraction(b)


@given(a=ORDINARY, b=ORDINARY)
def test_two_product_loses_nothing(a, b):
    product, error = two_product(a, b)
    assert product == a * b
    assert Fraction(product) + Fraction(error) == Fraction(a) * Fraction(b)


def test_two_product_is_fused_and_not_a_product_of_zeros():
    # (1 + 2**-52)**2 needs 105 bits
    x = 1.0 + 2.0**-52
    assert two_product(x, x) == (1.0 + 2.0**-51, 2.0**-104)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_pairs_add_up_to_the_bound_and_are_normalised(sign):
    rng = np.random.default_rng(1)
    target = rng.normal(size=(2, 200)) * np.array([[1.0], [2.0**-54]])
    other = rng.normal(size=(2, 200)) * np.array([[1.0], [2.0**-54]])
    before = target.copy()
    add_pairs(target, other, sign)
    for i in range(200):
        exact = value(before, i) + int(sign) * value(other, i)
        terms = abs(value(before, i)) + abs(value(other, i))
        assert abs(value(target, i) - exact) <= terms / 2**104
        assert target[0, i] == target[0, i] + target[1, i]


def test_a_pair_times_a_factor_is_right_to_rounding():
    rng = np.random.default_rng(2)
    pairs = rng.normal(size=(2, 200)) * np.array([[1.0], [2.0**-54]])
    before = pairs.copy()
    scale_pairs(pairs, 0.3)
    for i in range(200):
        assert abs(value(pairs, i) - value(before, i) * Fraction(0.3)) <= abs(value(before, i)) / 2**100


def test_pairs_of_rows_sum_exactly_where_they_can():
    rows = np.zeros((2, 3, 1))
    rows[0, :, 0] = [2.0**80, 1.0, -(2.0**80)]
    total = np.zeros((2, 1))
    sum_pairs(rows, total)
    assert total[:, 0].tolist() == [1.0, 0.0]


def test_centered_squares_never_go_below_zero_and_keep_what_overflowed():
    sums = np.array([[3.0, 0.0, np.inf, 6.0], [0.0, 0.0, 0.0, 0.0]])
    squares = np.array([[3.0 - 1e-15, 0.0, np.inf, 20.0], [0.0, 0.0, 0.0, 0.0]])
    spread = centered_squares(sums, squares, np.array([[3.0, 0.0, 2.0, 2.0], [0.0] * 4]))
    assert spread[0] == 0.0
    assert spread[1] == 0.0
    assert not np.isfinite(spread[2])
    assert spread[3] == 2.0
