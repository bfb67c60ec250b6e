"""Is this table safe to train on, whatever the model?

A model can only leak what its rows contain. With all columns every row is unique, and there is no
guarantee. With few coarse columns many people share their values, and the bound holds for every
model ever trained on such rows. It applies to the average row; rare rows are counted separately,
because a certificate for the average does not cover them.
"""

import numpy as np
import pandas as pd

import memberbound as mb

draws = np.random.default_rng(0)
rows, regions = 20_000, ["north", "south", "islands"]
survey = pd.DataFrame(
    {
        "age": draws.integers(18, 91, rows),
        "sex": draws.choice(["F", "M"], rows),
        "region": draws.choice(regions, rows, p=[0.55, 0.35, 0.1]),
        "income": draws.lognormal(10, 0.6, rows).round(2),
    }
)

print("── All columns")
print(mb.certify(survey).sentence)

print("\n── Without the income")
coarse = ["age", "sex", "region"]
print(mb.certify(survey, columns=coarse).summary())
