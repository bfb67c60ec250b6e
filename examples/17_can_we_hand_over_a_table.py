"""Can we hand over a table, and not only a model?

New rows are drawn from noisy counts of the old ones. The promise is about every record, and about
everything that is ever made of the new rows. What a model trained on them is worth is seen on real
rows; attacks that compare the new rows with the old ones find nothing, as the certificate says.
"""

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import memberbound as mb

draws = np.random.default_rng(0)


def people(rows: int) -> pd.DataFrame:
    """Return rows of a made-up survey."""
    age = draws.integers(18, 90, rows)
    school = draws.choice(["none", "school", "college"], rows, p=[0.2, 0.5, 0.3])
    hours = np.where(age < 67, draws.integers(0, 60, rows), draws.integers(0, 20, rows))
    points = 0.05 * hours + 1.5 * (school == "college") - 0.0008 * (age - 50) ** 2 - 1.2
    earns = np.where(draws.random(rows) < 1 / (1 + np.exp(-points)), "much", "little")
    return pd.DataFrame({"age": age, "school": school, "hours": hours, "earns": earns})


members, fresh = people(20_000), people(5_000)
bounds = {
    "age": [18, 90],
    "school": ["none", "school", "college"],
    "hours": [0, 60],
    "earns": ["little", "much"],
}
answer = mb.synthesize(members, target="earns", bounds=bounds, eta=0.05)
print(answer.sentence)
print("\n── New rows")
print(answer.table.head(3).to_string(index=False))

print("\n── Boosting trained on old and on new rows, right about fresh people")
for name, table in (("old", members), ("new", answer.table)):
    model = HistGradientBoostingClassifier(random_state=0)
    model.fit(table[["age", "hours"]].astype(float), table["earns"].astype(str))
    right = (model.predict(fresh[["age", "hours"]].astype(float)) == fresh["earns"]).mean()
    print(f"{name} rows: {round(right, 3)}")

print("\n── Attacks on the new rows")
audit = mb.audit_table(members[:3000], nonmembers=fresh[:3000], synthetic=answer.table)
print(audit.sentence)
