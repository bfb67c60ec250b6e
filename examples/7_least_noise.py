"""What is the least noise for "no attacker is right about any record more than 55 % of the time"?

A model is trained on all rows of a confidential table and released with this guarantee (η = 0.05).
The public facts about the columns are in a file that you fill in from common knowledge, never from
the table. The released model takes raw rows. Scores are for the owner only.
"""

from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

import memberbound as mb

draws = np.random.default_rng(0)
age = draws.integers(18, 91, 3000)
smoker = draws.choice(["no", "yes"], 3000, p=[0.75, 0.25])
risk = (age - 55) / 12 + 1.5 * (smoker == "yes") + draws.logistic(-0.4, 0.6, 3000)
ill = np.where(risk > 0, "yes", "no")
patients = pd.DataFrame({"age": age, "smoker": smoker, "ill": ill})

with TemporaryDirectory() as folder, chdir(folder):
    print("── What has to be public: a form to fill in")
    print(mb.bounds(patients).summary())
    filled_in = "age: [0, 120]\nsmoker: ['no', 'yes']\nill: ['no', 'yes']\n"
    Path("bounds.yaml").write_text(filled_in, encoding="utf-8")

    print("\n── The release")
    released = mb.protect(
        patients,
        target="ill",
        learner="logistic",
        eta=0.05,
        bounds="bounds.yaml",
        out="model.json",
    )
    print(released.summary())

    print("\n── What it says about new patients")
    new = pd.DataFrame({"age": [24, 87], "smoker": ["no", "yes"]})
    answers = mb.predict("model.json", new).frame
    print(new.join(answers[["prediction"]]).to_string(index=False))
