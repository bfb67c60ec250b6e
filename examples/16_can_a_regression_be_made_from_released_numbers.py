"""Can a regression be made from released numbers, without touching the rows again?

A covariance of all rows is released once, with a guarantee for every record. Ridge regression needs
nothing else for its slopes: anything computed from released numbers keeps their guarantee, for any
penalty, any target and any choice of columns. The intercept would need the means, a second release.
"""

import numpy as np
import pandas as pd

import memberbound as mb

draws = np.random.default_rng(0)
rows = 20_000
age, hours = draws.uniform(18, 90, rows), draws.uniform(0, 60, rows)
income = 400 + 30 * age + 50 * hours + draws.normal(0, 600, rows)
people = pd.DataFrame({"age": age, "hours": hours, "income": income.clip(0, 8000)})

# Public knowledge about the columns, never their own smallest and largest value.
bounds = {"age": [0, 120], "hours": [0, 80], "income": [0, 8000]}
released = mb.summarize(people, statistic="covariance", bounds=bounds, eta=0.05)
print(released.sentence)

columns = list(people.columns)
names = [tuple(name.split(", ")) for name in released.released.names]
covariance = pd.DataFrame(0.0, index=columns, columns=columns)
for (one, other), value in zip(names, released.released.values, strict=True):
    covariance.loc[one, other] = covariance.loc[other, one] = value


def ridge(moments: pd.DataFrame, target: str, strength: float) -> pd.Series:
    """Return the slopes of ridge regression, from second moments alone."""
    known = [name for name in moments if name != target]
    inner = moments.loc[known, known] + strength * np.eye(len(known))
    return pd.Series(np.linalg.solve(inner, moments.loc[known, target]), known)


print("\n── Slopes of income, from the released covariance and (for the owner) from the rows")
compared = {"released": covariance, "from the rows": people.cov()}
slopes = {name: ridge(moments, "income", 1.0) for name, moments in compared.items()}
print(pd.DataFrame(slopes).round(0).astype(int).to_string())

print("\n── Another question to the same release costs nothing: slopes of hours")
print(ridge(covariance, "hours", 1.0).round(3).to_string())
