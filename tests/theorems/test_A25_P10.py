"""A25-P10: stopping only at a mean loss of at most ε·α leaves at most a share α above ε."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memberbound.papers.aubinais2025 import stopping_loss


@given(st.floats(1e-300, 1e300), st.floats(0, 1))
def test_stopping_loss_is_rounded_down(epsilon, alpha):
    assert Fraction(stopping_loss(epsilon, alpha)) <= Fraction(epsilon) * Fraction(alpha)
    assert stopping_loss(0.0, alpha) == 0.0


def stop_by(rule, seed=0, count=200):
    """Learners that shrink their losses until the rule lets them stop; worst share above ε."""
    rng = np.random.default_rng(seed)
    worst = 0.0
    for _ in range(count):
        losses = rng.pareto(0.7, 50)
        while losses.mean() > rule:
            losses *= rng.uniform(0.9, 1.0)
        worst = max(worst, float(np.mean(losses > 0.01)))
    return worst


def test_every_run_of_a_learner_with_the_rule_overfits():
    assert stop_by(stopping_loss(0.01, 0.2)) <= 0.2
    # Negative control: a rule that is five times as lax lets some run end above.
    assert stop_by(5 * stopping_loss(0.01, 0.2)) > 0.2


def test_tight_when_losses_are_0_or_just_above_epsilon():
    epsilon, losses = 0.01, np.array([0.01 * (1 + 1e-9)] * 3 + [0.0] * 7)
    assert np.mean(losses > epsilon) == 0.3
    assert stopping_loss(epsilon, 0.3) < losses.mean() < stopping_loss(epsilon, 0.3) * (1 + 1e-8)
