"""Arithmetic on pairs hi + lo: about 106 bits, the exact sum for ordinary data.

`add_value` and its siblings are chosen by the type of the value when a kernel is
compiled, so that a float32 pays nothing for what an int64 needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

Float = float


@intrinsic
def _fused_multiply_add(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """Emit LLVM's fma: a * b + c with one rounding."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), emit


@njit(inline="always")
def two_sum(a: Float, b: Float) -> tuple[Float, Float]:
    """Return fl(a + b) and its error, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@njit(inline="always")
def two_product(a: Float, b: Float) -> tuple[Float, Float]:
    """Return fl(a * b) and its error, exactly unless it underflows."""
    product = a * b
    return product, _fused_multiply_add(a, b, -product)


@njit(inline="always")
def add_float(hi: Float, lo: Float, x: Float) -> tuple[Float, Float]:
    """Add a float64 to a pair, without renormalising."""
    hi, error = two_sum(hi, x)
    return hi, lo + error


@njit(inline="always")
def add_pair(hi: Float, lo: Float, x: Float, x_error: Float) -> tuple[Float, Float]:
    """Add a pair to a pair, without renormalising."""
    hi, error = two_sum(hi, x)
    return hi, lo + (error + x_error)


def add_value(hi: Float, lo: Float, x: Any) -> tuple[Float, Float]:
    """Add a value of any numeric type to a pair, without renormalising."""
    raise NotImplementedError


def add_square(hi: Float, lo: Float, x: Any) -> tuple[Float, Float]:
    """Add the square of a value to a pair, without renormalising."""
    raise NotImplementedError


def add_weighted(hi: Float, lo: Float, x: Any, weight: Float) -> tuple[Float, Float]:
    """Add weight times value to a pair, without renormalising."""
    raise NotImplementedError


def add_weighted_square(hi: Float, lo: Float, x: Any, weight: Float) -> tuple[Float, Float]:
    """Add weight times the square of a value to a pair, without renormalising."""
    raise NotImplementedError


@njit(inline="always")
def _split_integer(x: Any) -> tuple[Float, Float]:
    # Two exact float64: an int64 has up to 63 bits, a float64 only 53.
    return np.float64(x >> 32) * 4294967296.0, np.float64(x & 0xFFFFFFFF)


def _is_wide_integer(x: Any) -> bool:
    return isinstance(x, types.Integer) and x.bitwidth > 32


def _has_exact_square(x: Any) -> bool:
    # Twice the bits of the value must fit into the 53 of a float64.
    return (
        x == types.float32
        or isinstance(x, types.Boolean)
        or (isinstance(x, types.Integer) and x.bitwidth <= 16)
    )


@overload(add_value, inline="always")
def _add_value(hi: Any, lo: Any, x: Any) -> Any:
    if _is_wide_integer(x):

        def add(hi: Any, lo: Any, x: Any) -> Any:
            high, low = _split_integer(x)
            hi, lo = add_float(hi, lo, high)
            return add_float(hi, lo, low)

        return add

    def add_narrow(hi: Any, lo: Any, x: Any) -> Any:
        return add_float(hi, lo, np.float64(x))

    return add_narrow


@overload(add_square, inline="always")
def _add_square(hi: Any, lo: Any, x: Any) -> Any:
    if _is_wide_integer(x):

        def add(hi: Any, lo: Any, x: Any) -> Any:
            high, low = _split_integer(x)
            product, error = two_product(high, high)
            hi, lo = add_pair(hi, lo, product, error)
            product, error = two_product(2.0 * high, low)
            hi, lo = add_pair(hi, lo, product, error)
            product, error = two_product(low, low)
            return add_pair(hi, lo, product, error)

        return add
    if _has_exact_square(x):

        def add_exact(hi: Any, lo: Any, x: Any) -> Any:
            return add_float(hi, lo, np.float64(x) * np.float64(x))

        return add_exact

    def add_product(hi: Any, lo: Any, x: Any) -> Any:
        product, error = two_product(np.float64(x), np.float64(x))
        return add_pair(hi, lo, product, error)

    return add_product


@overload(add_weighted, inline="always")
def _add_weighted(hi: Any, lo: Any, x: Any, weight: Any) -> Any:
    if _is_wide_integer(x):

        def add(hi: Any, lo: Any, x: Any, weight: Any) -> Any:
            high, low = _split_integer(x)
            product, error = two_product(weight, high)
            hi, lo = add_pair(hi, lo, product, error)
            product, error = two_product(weight, low)
            return add_pair(hi, lo, product, error)

        return add

    def add_product(hi: Any, lo: Any, x: Any, weight: Any) -> Any:
        product, error = two_product(weight, np.float64(x))
        return add_pair(hi, lo, product, error)

    return add_product


@overload(add_weighted_square, inline="always")
def _add_weighted_square(hi: Any, lo: Any, x: Any, weight: Any) -> Any:
    def add(hi: Any, lo: Any, x: Any, weight: Any) -> Any:
        square, square_error = add_square(0.0, 0.0, x)
        square, square_error = two_sum(square, square_error)
        product, error = two_product(weight, square)
        return add_pair(hi, lo, product, error + weight * square_error)

    return add


@njit(nogil=True, cache=True)
def add_pairs(target: NDArray[np.float64], other: NDArray[np.float64], sign: float) -> None:
    """Add `sign` (1 or -1) times the pairs `other` to the pairs `target`, both of shape (2, n)."""
    for i in range(target.shape[1]):
        hi, lo = add_pair(target[0, i], target[1, i], sign * other[0, i], sign * other[1, i])
        target[0, i], target[1, i] = two_sum(hi, lo)


@njit(nogil=True, cache=True)
def scale_pairs(target: NDArray[np.float64], factor: float) -> None:
    """Multiply the pairs `target` of shape (2, n) by `factor`, right to rounding."""
    for i in range(target.shape[1]):
        product, error = two_product(target[0, i], factor)
        target[0, i], target[1, i] = two_sum(product, error + target[1, i] * factor)


@njit(nogil=True, cache=True)
def sum_pairs(pairs: NDArray[np.float64], total: NDArray[np.float64]) -> None:
    """Add the pairs of shape (2, rows, n) over the rows into `total` of shape (2, n)."""
    for row in range(pairs.shape[1]):
        for i in range(pairs.shape[2]):
            hi, lo = add_pair(total[0, i], total[1, i], pairs[0, row, i], pairs[1, row, i])
            total[0, i], total[1, i] = two_sum(hi, lo)


@njit(inline="always")
def _divide(hi: Float, lo: Float, weight_hi: Float, weight_lo: Float) -> tuple[Float, Float]:
    # the remainder of the rounded quotient is exact up to its last term; dividing it corrects the quotient
    quotient = hi / weight_hi
    product, error = two_product(quotient, weight_hi)
    remainder = ((hi - product) - error) + (lo - quotient * weight_lo)
    return quotient, remainder / weight_hi


@njit(nogil=True, cache=True)
def divide_pairs(sums: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sums / weights for pairs of shape (2, n), rounded once; NaN where the weight is not positive."""
    result = np.full(sums.shape[1], np.nan)
    for i in range(sums.shape[1]):
        if weights[0, i] > 0.0:
            quotient, correction = _divide(sums[0, i], sums[1, i], weights[0, i], weights[1, i])
            result[i] = quotient + correction
    return result


@njit(nogil=True, cache=True)
def centered_squares(
    sums: NDArray[np.float64], squares: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return sum of squares minus (sum)^2 / weight for pairs of shape (2, n).

    The difference of two numbers that agree in almost all their digits, so it is
    taken on pairs and rounded once. Never negative; 0 where the weight is 0.
    """
    result = np.zeros(sums.shape[1])
    for i in range(sums.shape[1]):
        if weights[0, i] > 0.0:
            mean, correction = _divide(sums[0, i], sums[1, i], weights[0, i], weights[1, i])
            square, square_error = two_product(sums[0, i], mean)
            square_error += sums[0, i] * correction + sums[1, i] * mean
            hi, lo = add_pair(squares[0, i], squares[1, i], -square, -square_error)
            difference = hi + lo
            # a plain comparison would turn NaN (an overflowed square) into 0
            result[i] = 0.0 if difference < 0.0 else difference
    return result
