"""Quantile sketches over many columns at once.

A sketch sees rows, forgets most of their values and still answers for every
column what its median or any other quantile is, within a rank error that it
states. `columnar_kll` is the default; `tdigest_sketch` is for interchange.
"""
