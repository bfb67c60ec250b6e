"""What the default runs are known not to match; imported, not run."""

from memberbound.reproduction.aubinais_mnist_claims import ACCURACY, DIVERSITY, LEAK

#: Id → how the claims that do not hold begin; the notes of each figure say why.
NOT_MATCHED = {
    "L24-F1": [
        "σ = 1: ε ≈ 28.5, with the exact Δ",
        "σ = 1: ε ≈ 28.5, with the cruder Δ",
        "σ = 1: ε̃(X)/ε ≈ 0.075, exact Δ",
        "σ = 1: ε̃(X)/ε ≈ 0.075, cruder Δ",
        "ε̃(X)/ε increases with σ, up to σ = 5",
        "ε̃(X)/ε(X) does not depend much on σ, up to σ = 5",
    ],
    "L24-F2": [],
    "L24-F3": [],
    "L24-F4": [
        "at 10 on the axis ε̃(X) < 0.9; axis read as ε(X), as printed",
        "ε̃(X)/ε increases with ε (",
        "ε̃(X)/ε increases with ε(X), axis as printed",
    ],
    "L24-F5": ["C = 100: ε = 5 becomes ε̃(X) = 1", "ε̃(X)/ε(X) falls as C grows"],
    "L24-F6": [],
    "I24-F1": ["I24-Alg1 as printed (Laplace radius)"],
    "A25-F1": ["the attack with ε = 1e-6 is nearly perfect only after"],
    "A25-F2": [],
    "A25-Tab1": [
        *(
            f"n = {n}, K = {k}: Δ ≤ {LEAK[n, k]:g}; certified, atoms are (cluster, label)"
            for n, k in LEAK
        ),
        "the printed bounds hold for a learner that releases the counts of pairs",
        "the printed bounds are C_K/(2√n) of the printed C_K",
        *(f"n = {n}, {f'K = {k}' if k else 'raw images'}: accuracy on" for n, k in ACCURACY),
        "the printed accuracies are the share of right labels",
        "the printed accuracies are the share of right yes-or-no answers",
        "the printed accuracies are the mean area",
        *(f"K = {k}: an accuracy of" for k in DIVERSITY),
        *(f"n = 1000, K = {k}: discretising costs" for k in DIVERSITY),
    ],
}
