"""scikit-learn's own checks, complete."""

import pytest
from sklearn.utils.estimator_checks import check_estimator

from streamcenters.estimators.bayes_selectors import OddsRatio, ThresholdedMultinomialNB
from streamcenters.estimators.naive_bayes import SparseBernoulliNB, SparseMultinomialNB


@pytest.mark.parametrize(
    "estimator",
    [
        SparseBernoulliNB(),
        SparseBernoulliNB(missing="ignore"),
        SparseMultinomialNB(),
        SparseMultinomialNB(missing="ignore"),
        OddsRatio(),
        ThresholdedMultinomialNB(),
    ],
    ids=str,
)
def test_every_check_of_scikit_learn_passes_and_none_is_skipped(estimator):
    results = check_estimator(estimator, on_fail="raise", on_skip=None)
    assert len(results) > 40
    assert {result["status"] for result in results} == {"passed"}
