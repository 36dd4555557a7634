"""Frames cannot be lazy: asked for one, transform computes a dask array and says so."""

import dask.array as da
import numpy as np
import pytest
import sklearn

import streamcenters as sc
from streamcenters.errors import StreamcentersWarning


@pytest.fixture
def model(rng):
    return sc.L2Centers(k=2).fit(rng.standard_normal((20, 4)), np.arange(20) % 2)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_frame_of_a_dask_array_is_computed_with_a_warning(model, kind, rng):
    X = rng.standard_normal((20, 4))
    model.set_output(transform=kind)
    with pytest.warns(StreamcentersWarning, match=f"a {kind} frame cannot be lazy.*keeps them lazy") as seen:
        frame = model.transform(da.from_array(X, chunks=5))
    assert seen[0].filename == __file__
    assert type(frame).__module__.startswith(kind)
    assert list(frame.columns) == model.get_feature_names_out().tolist()
    assert np.array_equal(frame.to_numpy(), X[:, model.support_])


def test_the_setting_of_scikit_learn_counts_as_well(model, rng):
    X = da.from_array(rng.standard_normal((20, 4)), chunks=5)
    with sklearn.config_context(transform_output="pandas"), pytest.warns(StreamcentersWarning):
        model.transform(X)
    assert isinstance(model.transform(X), da.Array)
