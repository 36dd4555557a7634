"""What the tests of naive Bayes share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for `slow_bayes`, which several tests share

from streamcenters.estimators import stored_form
from streamcenters.estimators.bayes_selectors import OddsRatio, ThresholdedMultinomialNB
from streamcenters.estimators.naive_bayes import SparseBernoulliNB, SparseMultinomialNB

for estimator in (SparseBernoulliNB, SparseMultinomialNB, OddsRatio, ThresholdedMultinomialNB):
    stored_form.register_estimator(estimator)
