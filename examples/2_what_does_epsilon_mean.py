"""What does ε = 8 mean?

Three well-known settings as upper bounds on any attack: its success rate on a record, and the share
of members that it identifies at a false-positive rate of 1 %. On its own, ε = 8 guarantees next to
nothing; the analysis of DP-SGD gives more.
"""

import memberbound as mb

settings = {
    # The budget most often reported for deep learning with DP, read as replace-one
    # here. If an accountant computed it for add/remove, pass adjacency="add-remove".
    "A common budget: ε = 8, δ = 1e-5": {"epsilon": 8.0, "delta": 1e-5},
    # U.S. Census Bureau, "Census Bureau Sets Key Parameters to Protect Privacy in 2020
    # Census Results", newsletter of 9 June 2021: ε = 17.14 for the persons file of the
    # redistricting data. The system accounts in zero-concentrated DP (Abowd et al.,
    # "The 2020 Census Disclosure Avoidance System TopDown Algorithm", Harvard Data Science
    # Review, 2022); this ε belongs to δ = 1e-10. It is read as replace-one here.
    "US Census 2020, persons: ε = 17.14, δ = 1e-10": {
        "epsilon": 17.14,
        "delta": 1e-10,
    },
    # Poisson-sampled DP-SGD, accounted for add/remove neighbours.
    "DP-SGD: σ = 1, q = 0.01, 1000 steps": {
        "noise_multiplier": 1.0,
        "sample_rate": 0.01,
        "steps": 1000,
        "delta": 1e-5,
    },
}

for name, setting in settings.items():
    print(f"── {name}")
    print(mb.explain(**setting, fpr=[0.01]).summary(), end="\n\n")
