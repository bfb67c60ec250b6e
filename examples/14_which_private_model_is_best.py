"""Which private model is best, if the choice itself must be private?

Three learners are fitted to the same confidential rows and one is chosen. Whoever sees the choice
has learnt from all three models, so the promise has to hold for all of them together: `releases=3`
makes each noisier, and the certificate counts every one. They are compared on rows outside the
promise (public, or of people who agreed); scores on the confidential rows would be a release, too.
"""

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import memberbound as mb

draws = np.random.default_rng(0)
rows = 6000
age, bmi = draws.integers(18, 91, rows), draws.normal(26, 4, rows).round(1)
ill = np.where((age - 55) / 12 + (bmi - 26) / 4 + draws.logistic(0, 0.6, rows) > 0, "yes", "no")
patients = pd.DataFrame({"age": age, "bmi": bmi})
secret, agreed = slice(0, 5000), slice(5000, None)

public = {"age": [0, 120], "bmi": [10, 60], "y": ["no", "yes"]}
learners = [LogisticRegression(), LinearSVC(), HistGradientBoostingClassifier()]
models = [
    mb.MembershipPrivate(learner, eta=0.05, bounds=public, releases=len(learners))
    for learner in learners
]
for model in models:
    model.fit(patients[secret], ill[secret])
scores = [model.score(patients[agreed], ill[agreed]) for model in models]
best = models[int(np.argmax(scores))]
for model, score in zip(models, scores, strict=True):
    print(f"{type(model.estimator).__name__}: accuracy about {round(score, 2)}")

print("\n── What is promised about the chosen model and the two that were tried beside it")
print(best.certificate_.summary())
print(best.certificate_.assumptions[-1])

print("\n── Had each of the three been given the promise of a single model")
alone = mb.MembershipPrivate(LogisticRegression(), eta=0.05, bounds=public)
mu = alone.fit(patients[secret], ill[secret]).calibration_.details["mu"]
print(mb.explain(gdp=round(3**0.5 * mu, 3)).sentence)
