"""Can this model leak who trained it?

A decision tree was trained on half of a register of patients. The audit attacks this one model
through its confidence in the right answer: members against unseen patients. The study then examines
the training procedure: the success of attacks on such models (measured: ≥), a bound for every
attack (certified: ≤), and the cheapest remedy.
"""

import numpy as np
import pandas as pd
from sklearn.tree import DecisionTreeClassifier

import memberbound as mb

draws = np.random.default_rng(0)
rows = 1500
age, bmi = draws.integers(18, 91, rows), draws.normal(26, 4, rows).round(1)
smoker = draws.random(rows) < 0.25
risk = (age - 55) / 12 + (bmi - 26) / 5 + 1.5 * smoker - 0.4
ill = risk + draws.logistic(0, 0.6, rows) > 0
patients = pd.DataFrame({"age": age, "bmi": bmi, "smoker": smoker, "ill": ill})

print("── This one model")
features = patients.drop(columns="ill")
member = draws.permutation(rows) < rows // 2
tree = DecisionTreeClassifier(random_state=0).fit(features[member], ill[member])
confidence_in_truth = tree.predict_proba(features)[np.arange(rows), ill.astype(int)]
scores = pd.DataFrame({"score": confidence_in_truth, "member": member.astype(int)})
print(mb.audit(scores).sentence)

print("\n── Every model made this way")
folder = "reports/example"  # for report.html, the same as a page
asked = {"target": "ill", "learner": "tree", "shadows": 32}
print(mb.study(patients, **asked, out=folder, force=True, workers=1).summary())
