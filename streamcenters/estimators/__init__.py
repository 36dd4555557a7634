"""The scikit-learn face: thin estimators over passes, accumulators and gains."""

from streamcenters.estimators.bayes_selectors import OddsRatio, ThresholdedMultinomialNB
from streamcenters.estimators.centers import L2Centers
from streamcenters.estimators.l1_centers import L1Centers
from streamcenters.estimators.naive_bayes import SparseBernoulliNB, SparseMultinomialNB
from streamcenters.estimators.sliding_window import SlidingWindow, refuse_to_store
from streamcenters.estimators.stored_form import register_estimator
from streamcenters.storage import register

for estimator in (
    L1Centers,
    L2Centers,
    OddsRatio,
    SparseBernoulliNB,
    SparseMultinomialNB,
    ThresholdedMultinomialNB,
):
    register_estimator(estimator)
register(SlidingWindow, refuse_to_store, refuse_to_store)

__all__ = [
    "L1Centers",
    "L2Centers",
    "OddsRatio",
    "SparseBernoulliNB",
    "SparseMultinomialNB",
    "ThresholdedMultinomialNB",
]
