"""The scikit-learn face: thin estimators over passes, accumulators and gains."""

from streamcenters.estimators.centers import L2Centers
from streamcenters.estimators.stored_form import register_estimator

register_estimator(L2Centers)

__all__ = ["L2Centers"]
