"""How coarse must this table be, so that it is safe to train on?

Columns are binned, merged or dropped until the bound holds for every model trained on the table,
while preserving information about the target. Security 0.9 means that no attacker is right about
the average record more than 55 % of the time; rare rows may still be exposed. A record leak of 0.2
means at most 60 % for each released row, at the cost of more detail.
"""

import numpy as np
import pandas as pd

import memberbound as mb

draws = np.random.default_rng(0)
rows = 4000
age, bmi = draws.integers(18, 91, rows), draws.normal(26, 4, rows).round(1)
smoker = draws.choice(["no", "yes"], rows, p=[0.75, 0.25])
risk = (age - 55) / 12 + (bmi - 26) / 5 + 1.5 * (smoker == "yes") - 0.4
patients = pd.DataFrame(
    {
        "age": age,
        "bmi": bmi,
        "smoker": smoker,
        "ill": np.where(risk + draws.logistic(0, 0.6, rows) > 0, "yes", "no"),
    }
)

print("── Safe for the average record")
safe = mb.harden(patients, security=0.9, target="ill")
print(safe.summary(), end="\n\n")
print(safe.table.head(3).to_string(index=False))

print("\n── Safe for every released row")
print(mb.harden(patients, record_leak=0.2, target="ill").summary())
