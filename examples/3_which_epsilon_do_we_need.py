"""Which ε do we need so that no attacker is right more than 55 % of the time?

It depends on the release. The first answer holds for every mechanism with that ε. The second is the
noise multiplier of DP-SGD. The third is for one query, the mean of a random half of these records,
against an attacker who does not know which ones were drawn.
"""

from sklearn.datasets import load_breast_cancer

import memberbound as mb

print("── Whatever the mechanism")
print(mb.explain(target_eta=0.05, delta=1e-5).sentence)

print("\n── DP-SGD, 1000 steps that sample 1 % of the records")
sampling = {"sample_rate": 0.01, "steps": 1000, "adjacency": "replace-one"}
print(mb.explain(target_eta=0.05, **sampling).sentence)

print("\n── The mean of these records")
patients = load_breast_cancer(as_frame=True).frame[["mean radius", "mean texture"]]
print(mb.population(patients, target_success=0.55, clip=50).summary())
