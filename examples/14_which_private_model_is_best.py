"""Which private model is best, if the choice itself must be private?

Three learners are fitted to the same confidential rows and one is chosen. The choice reveals
something about all three models, so the guarantee must hold for all of them together: a ledger adds
them up and would refuse a fourth. They are compared on other rows (public, or of people who
consented); scores on the confidential rows would be another release.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import memberbound as mb

draws = np.random.default_rng(0)
rows = 6000
age, bmi = draws.integers(18, 91, rows), draws.normal(26, 4, rows).round(1)
ill = np.where((age - 55) / 12 + (bmi - 26) / 4 + draws.logistic(0, 0.6, rows) > 0, "yes", "no")
patients = pd.DataFrame({"age": age, "bmi": bmi, "ill": ill})
secret, agreed = patients[:5000], patients[5000:]

public = {"age": [0, 120], "bmi": [10, 60], "ill": ["no", "yes"]}
asked = {"target": "ill", "bounds": public, "eta": 0.0288}
with tempfile.TemporaryDirectory() as folder:
    ledger = Path(folder) / "patients.json"
    mb.ledger(ledger, limit_eta=0.05)
    models = {
        learner: mb.protect(secret, learner=learner, ledger=ledger, **asked).released
        for learner in ("logistic", "svm", "boosting")
    }
    together = mb.ledger(ledger)

scores = {name: np.mean(m.predict(agreed) == agreed["ill"]) for name, m in models.items()}
for name, score in scores.items():
    print(f"{name}: accuracy about {round(score, 2)}")
print(f"chosen: {max(scores, key=scores.get)}")

print("\n── What is promised about the chosen model and the two that were tried beside it")
print(together.summary())

print("\n── Had each of the three been given the promise of a single model")
alone = mb.protect(secret, **(asked | {"eta": 0.05}))
print(mb.explain(gdp=round(3**0.5 * alone.mu, 3)).sentence)
