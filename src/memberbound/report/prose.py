"""The report's words: what is allowed, assumptions, limits and the glossary, in plain words."""

from __future__ import annotations

from memberbound.quantities import NO_GUARANTEE, Mark, allowed, percent, points
from memberbound.report.model import Report

#: Word for the verdict's level.
LEVELS = {
    "safe": "Passed",
    "exposed": "Exposed",
    "unproved": "No guarantee",
    "partial": "Incomplete",
}

STATES = {
    "done": "done",
    "impossible": "not possible here",
    "failed": "failed",
    "stopped": "stopped",
}

GAMES = {
    "neighbour": "the attacker knows every other record; one record is in, or another in its place",
    "subset": "a random half of these records is the training set; the attacker knows all of them",
    "iid": "all records are fresh draws from one source; the attacker knows that source",
    "model": "one given model; a candidate is one of its training records or a fresh one",
}

#: What an attacker sees of a model, in words.
ACCESS = {
    "labels": "labels only",
    "values": "predictions",
    "probabilities": "probabilities",
    "parameters": "the model itself",
}

#: Stands on everything that was computed from the rows and that no budget paid for.
OWNER_ONLY = (
    "For the owner of the table only: these numbers were computed from its rows, and no "
    "certificate covers them. Publish the released file with its certificate, "
    "and the model card."
)

#: What has to be true of a release of all rows.
RELEASE_ASSUMPTIONS = (
    "Noise on all rows: one person is one row, the number of rows and the names of the columns "
    "are public, and so are the bounds given for columns, which are not taken from the table. "
    "Other records do not depend on the record in question.",
    "The noise is fresh, secret and used for one release. This study's own trials come from a seed "
    "and are thrown away; a real release draws its own noise.",
)
#: Step → what has to be true for its numbers to hold.
_ASSUMED = {
    "given": (
        "The table is what the given model was trained on, and the non-members are fresh records "
        "of the same source that had no part in it, not in tuning either.",
    ),
    "certify": (
        "The rows are independent draws from one source: nobody appears twice, and no row is there "
        "because of another.",
        "The model sees only the columns that were studied.",
    ),
    "audit": (
        "Each attacked model was trained on its own random half of the records. The attacker knows "
        "the records, the learner and other models of the same kind.",
    ),
    "protect-every": RELEASE_ASSUMPTIONS,
    "protect-other": RELEASE_ASSUMPTIONS,
    "explain": (
        "ε and δ are about replacing one record by another. A person who owns several records is "
        "protected less.",
    ),
    "population": (
        "What is translated is a noisy mean of a random half of these records, and nothing else "
        "about that half is published.",
    ),
    "rows": ("Rows that are still to come are of the same kind as the present ones.",),
    "coarser": (
        "The coarser table is made once. Trying several and keeping the best is not covered.",
    ),
    "synthetic": (
        "The table of new rows is made once; what is made from it afterwards costs nothing more.",
    ),
}

#: What no certificate of a release says: a heading and a sentence or two.
RELEASE_LIMITS = (
    (
        "One release",
        "Each certificate is about one release. Several releases from the same records add up: two "
        "models with 55 % each may together allow more.",
    ),
    (
        "Facts about the population can still be learned",
        "That smoking harms is learned from a study whether or not a given person took part. "
        "Membership is hidden; what the data teach is not.",
    ),
    (
        "Other attacks",
        "Only membership is examined. Reconstruction of records, theft of the model and leaks "
        "outside the release (logs, backups, people) are not.",
    ),
    (
        "What was chosen by looking at the rows",
        "The recommended remedy is chosen by bounds and scores computed from the rows, and so is "
        "the learner where none was named. No bound covers what these choices tell.",
    ),
)

#: … and what a report does not say beside it.
LIMITS = (
    (
        "The average is not everybody",
        "A promise about the average record can hold while a few unusual records leak "
        "completely. That is why the most exposed record always stands beside it.",
    ),
    (
        "A floor is no ceiling",
        "Attacks that were tried show what is possible at least. A better attack may exist unless "
        "a certified ceiling excludes it.",
    ),
    (
        "Bounds against different attackers do not compare",
        "Numbers about this learner and numbers about any model on the table answer different "
        "questions. Who attacks stands beside each; do not subtract one from another.",
    ),
    (
        "Each statement by itself",
        "Every certificate and interval holds with its own confidence. They do not all hold at "
        "once with that confidence.",
    ),
    *RELEASE_LIMITS,
)

GLOSSARY = (
    ("record", "One row of the table; usually one person."),
    ("training set", "The records that a model was trained on."),
    ("member, non-member", "A record that was, or was not, in the training set."),
    ("attack", "A method that looks at what was released and says “in” or “out” about a record."),
    (
        "attack success",
        "How often an attack is right about membership, where half of the candidates are members. "
        "“Accuracy” alone is the model's own.",
    ),
    ("blind guessing", "Always giving the likelier answer without looking; right about half."),
    (
        "certified ceiling (≤)",
        "Proved: no attack, known or unknown, is right more often, if the assumptions hold.",
    ),
    (
        "measured floor (≥)",
        "Shown by experiment: an attack that was tried is right at least this often. “No leak "
        "shown”: no attack was shown to do better than blind guessing.",
    ),
    ("estimate (≈)", "The best single guess of a number. It may be too high or too low."),
    (
        NO_GUARANTEE,
        "There is no ceiling below 100 %. This says nothing about how good attacks are.",
    ),
    (
        "average record",
        "A record picked at random. A bound for it says nothing about any particular record.",
    ),
    (
        "most exposed record",
        "The record about which attacks are right most often; its bound holds for every record.",
    ),
    (
        "confidence",
        "With 95 %, at most 5 in 100 such statements are wrong because the data or the random "
        "trials were unlucky.",
    ),
    (
        "η (eta)",
        "How much more often than blind guessing an attack may be right; 0.05 is 5 points.",
    ),
    (
        "remedy",
        "A change that lowers the ceiling, at a cost: noise, new rows, coarser columns, more rows.",
    ),
    (
        "ε, δ (epsilon, delta)",
        "The parameters of differential privacy. Smaller ones promise more; with ε and δ near 0, "
        "every attack is as good as blind.",
    ),
    (
        "ε̃ (PMP)",
        "The ε against an attacker who knows the population but not who was drawn from it.",
    ),
    (
        "TPR, FPR",
        "True-positive rate: the share of members that an attack identifies. False-positive rate: "
        "the share of non-members that it calls members (false alarms).",
    ),
    ("advantage", "TPR minus FPR: 0 is blind guessing, 1 is certainty."),
    ("ROC", "The members an attack identifies at each rate of false alarms."),
    (
        "shadow model",
        "A model trained only for the attack, on records whose membership the attacker knows.",
    ),
    (
        "MIS, leak Δ",
        "Membership Inference Security, between 0 and 1; 1 means that attacks are no better than "
        "blind guessing about the average record. The leak is Δ = 1 − MIS.",
    ),
    ("cell", "All rows with the same values in the columns studied."),
    (
        "who attacks",
        "What the attacker knows, and what “out” means (“game” in JSON and in the theory). Bounds "
        "against different attackers do not compare.",
    ),
)


def assumed(report: Report) -> list[str]:
    """Return the assumptions in plain words, of the steps that gave an answer."""
    steps = [step.id for step in report.steps_in("done")]
    return list(dict.fromkeys(text for step in steps for text in _ASSUMED.get(step, ())))


#: Whom a study is to protect.
WHOM = "every single record"


def who_chose(report: Report) -> str:
    """Return whose limit the study holds the model to."""
    default = report.defaulted("eta")
    return "memberbound's default, which nobody chose" if default else "chosen by you"


def blind_guess(value: float) -> Mark:
    """Return how often a blind guess is right: known exactly, and rounded as bounds beside it."""
    return Mark("given", percent(value, "upper"))


def allowed_over(blind: float, eta: float) -> Mark:
    """Return what a study allows somebody who could as well guess blindly."""
    return Mark("given", allowed(blind, eta))


def promise(blind: float, eta: float) -> str:
    """Return where the allowed share comes from.

    >>> promise(0.5008787346221442, 0.05)
    'blind guessing 50.09 % + 5 points'
    """
    return f"blind guessing {blind_guess(blind)} + {points(eta)}"
