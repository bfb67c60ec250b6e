"""The slack of every release covers the probability that a value of one person is named.

Oracle: a value that one person has is named when its noise exceeds ``CLASS_SCALES`` scales, of
which the grid may save an eighth; the normal tail is its probability.  In the neighbouring table it
is never named, so that event alone has this total variation, once per private column.
"""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import memberbound
from memberbound.release import budget as budgets
from memberbound.release.all_rows.histograms import CLASS_SCALES
from memberbound.release.budget import Budget

#: The grid moves a noisy count by at most an eighth of the scale.
NAMED = float(stats.norm.sf(CLASS_SCALES - 0.125))
ROWS = 3000


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {"a": rng.choice(["x", "y"], ROWS), "b": rng.choice(["u", "v", "w"], ROWS)}
    )
    return frame.assign(ill=np.where(rng.random(ROWS) < 0.4, "yes", "no"))


PUBLIC = {"a": ["x", "y"], "b": ["u", "v", "w"], "ill": ["no", "yes"]}


def summarize(table, **options):
    return memberbound.summarize(table[["a", "b"]], statistic="contingency", **options)


def protect(table, **options):
    return memberbound.protect(table, target="ill", learner="logistic", **options)


def synthesize(table, **options):
    return memberbound.synthesize(table, **options)


class Seen(Exception):  # noqa: N818
    """Ends a release where its budget is made, with the slack."""


@pytest.mark.parametrize(
    ("release", "private"),
    [(summarize, ("a",)), (summarize, ("a", "b")), (protect, ("ill",)), (synthesize, ("a", "b"))],
)
def test_the_slack_covers_naming_one_person_in_every_private_column(
    monkeypatch, table, release, private
):
    def stop(eta, *, slack, **others):
        raise Seen(slack.total)

    monkeypatch.setattr(Budget, "for_eta", stop)
    # Ignore the slack of floating-point noise here.
    monkeypatch.setattr(budgets, "release_slack", lambda coordinates: 0.0)
    slacks = []
    for hidden in ((), private):
        known = {k: v for k, v in PUBLIC.items() if k not in hidden}
        if release is summarize:
            known.pop("ill")
        with pytest.raises(Seen) as seen:
            release(table, eta=0.3, bounds=known, insecure_seed=1)
        slacks.append(seen.value.args[0])
    assert slacks[0] == 0.0
    assert slacks[1] >= len(private) * NAMED
