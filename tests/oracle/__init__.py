"""Exact oracle: every quantity by enumeration in rational arithmetic.

The exact modules use nothing of the library under test and no floating point, so a
disagreement between library and oracle is never a rounding question.  Each quantity that matters
is computed in two ways which share no code; ``test_oracle.py`` compares them.

Modules: ``claims`` (a bound and its broken variants against the truth), ``finite`` (one pair of
laws), ``iid`` (records drawn from a law), ``subset`` (a uniform subset of a known population),
``mechanisms`` (toy releases for both games), ``exponential`` (the exponential mechanism),
``pairs`` (random pairs and exact operations on ROCs), ``readoffs`` (a curve against its pair),
``real`` (irrational truths bracketed to 50 digits).  Truths in doubles, each with its margin:
``gaussian_mean``, ``large_laws``, ``normal_mixtures``,
``released_statistic``, ``sampled_gaussian``, ``bayes_attack`` (which takes the library's noise).
"""
