"""Numba loops over plain arrays: values, class rows, sums. No classes, no policy.

A *pair* is an unevaluated sum hi + lo of two float64; arrays of pairs have a
leading axis of length two. See docs/mathematics.md, "Sums that do not depend
on the order".
"""
