"""How many rows are enough, so that no model leaks them?

The more people share a combination of values, the less a model can reveal about one of them. Before
any data are collected, assume that all combinations are equally likely. A pilot table provides
actual frequencies, at a stated confidence: for the average row, and for each single one.
"""

import numpy as np
import pandas as pd

import memberbound as mb

print("── Before the survey: 48 equally likely combinations")
planned = mb.plan(security=0.95, uniform=48)
print(planned.sentence)
print(mb.certify(uniform=48, n=planned.n_required).sentence)

print("\n── From a pilot of 3000 rows")
draws = np.random.default_rng(0)
pilot = pd.DataFrame(
    {
        "age": draws.choice(["18-39", "40-64", "65+"], 3000, p=[0.35, 0.4, 0.25]),
        "sex": draws.choice(["F", "M"], 3000),
        "region": draws.choice(["north", "south", "east"], 3000, p=[0.5, 0.3, 0.2]),
    }
)
print(mb.plan(pilot, security=0.95).sentence)

print(mb.plan(pilot, record_leak=0.05).sentence)
