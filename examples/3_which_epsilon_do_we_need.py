"""Which ε do we need so that nobody is right more than 55 % of the time?

It depends on what is known about the release. The first answer holds for every mechanism with that
ε. The second is for DP-SGD, whose noise multiplier is what you set. The third is for one query, the
mean of a random half of these very records, and an attacker who does not know who was drawn.
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
