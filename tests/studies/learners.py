"""Learners that tests name as ``studies.learners:…``."""

from sklearn.base import BaseEstimator


class Stubborn(BaseEstimator):
    """Refuses to be trained."""

    def fit(self, X, y):
        raise RuntimeError("I will not learn this")

    def predict(self, X):
        raise RuntimeError("I have learnt nothing")


def stubborn():
    return Stubborn()
