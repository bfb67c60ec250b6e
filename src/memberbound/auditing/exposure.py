"""Which records are exposed: the attacks' accuracy on each record, and a list that is proved.

A record is played once per target model: the attack says "in" or "out" and is right or wrong.
Whoever reads the result looks at the records that were guessed best, so every end holds for all
records at once (the error is shared among them); records of one release may depend on each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from memberbound.auditing.intervals import clopper_pearson_lower, clopper_pearson_upper
from memberbound.auditing.learner_audit import LearnerAudit
from memberbound.errors import InputError, fraction
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray

__all__ = ["Exposure", "record_exposure"]


@dataclass(frozen=True, eq=False)
class Exposure:
    """Accuracy of the attack on every record, with intervals that hold for all records at once.

    Attributes:
        estimate: share of the target models on which the attack was right about the record.
        lower: the best of the attacks is right at least this often; for all records at once, with
            half of the error.
        upper: the weakest of the attacks is right at most this often; likewise.
        exposed: numbers of the records whose ``lower`` exceeds ``level``, the most exposed first.
        worst_estimate: accuracy on the record that is guessed best, chosen on half of the target
            models and measured on the other, so that choosing it does not flatter it; the largest
            ``lower`` where that is more.
        blind: accuracy of an attacker who sees no model.
        attacks: the attack of each block of targets, chosen on the shadows before it.
    """

    estimate: FloatArray
    lower: FloatArray
    upper: FloatArray
    exposed: NDArray[np.int64]
    level: float
    blind: float
    targets: int
    confidence: float
    attacks: tuple[str, ...]
    game: SubsetGame
    worst_estimate: float

    @property
    def eta_lower(self) -> FloatArray:
        """Accuracy beyond blind guessing that is proved, per record, for all records at once."""
        return np.maximum(np.nextafter(self.lower - self.blind, -1.0), 0.0)

    def unproved(self) -> Exposure:
        """Return the same without any floor, for halves that were not uniform."""
        nobody = np.zeros(0, dtype=np.int64)
        return replace(self, exposed=nobody, lower=np.zeros_like(self.lower))

    def to_dict(self, most: int = 20) -> dict[str, object]:
        """Return JSON-ready fields, with the records that are guessed best."""
        order = np.argsort(-self.estimate, kind="stable")[:most]
        return {
            "targets": self.targets,
            "attacks": list(self.attacks),
            "blind_accuracy": self.blind,
            "accuracy_estimate": {
                "mean": float(self.estimate.mean()),
                "median": float(np.median(self.estimate)),
                "p99": float(np.quantile(self.estimate, 0.99)),
                "max": float(self.estimate.max()),
            },
            "worst_record_estimate": self.worst_estimate,
            "exposed_records": int(self.exposed.size),
            "exposed_share": float(self.exposed.size / self.estimate.size),
            "exposed_above": self.level,
            "confidence": self.confidence,
            "ends_hold": "for all records at once",
            "most_exposed": [
                {
                    "record": int(r),
                    "estimate": float(self.estimate[r]),
                    "lower": float(self.lower[r]),
                    "upper": float(self.upper[r]),
                    "proved": bool(np.isin(r, self.exposed)),
                }
                for r in order
            ],
        }


def record_exposure(
    audit: LearnerAudit,
    *,
    attack: str | None = None,
    above: float | None = None,
    confidence: float | None = None,
) -> Exposure:
    """Measure how often the attack is right about each record, and list the exposed ones.

    ``attack`` names one of the audited attacks; left out, each block of targets is attacked with
    the one that was best on the shadows before it.  A record is listed if its accuracy provably
    exceeds ``above``, which is blind guessing unless told otherwise.

    Guarantee: with probability at least ``confidence`` every ``lower`` and every ``upper`` of all
    records hold together, so whichever records are looked at; ``lower`` alone fails with half the
    error.  About every listed record some attack is right with probability above ``above``, so no
    certificate for every record may promise less.
    Theorem: proofs/audit-subset-game.md claim 3, the error shared among the records.
    Assumes: as the audit.
    Numerics: ends are rounded outward.
    Edge cases: with T targets and N records nothing can be listed unless 2^-T ≤ (1-confidence)/2N.

    Examples:
        >>> from memberbound.auditing.learner_audit import audit_shadows
        >>> from memberbound.auditing.shadows import train_shadows
        >>> from memberbound.learners import Examples, learner_from_name
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(40, 2)), np.arange(40) % 2
        >>> x[0], y[0] = (0.0, 0.0), 1  # an outlier: the only one of its class far from the others
        >>> x[1:, 0] += 9 * y[1:]
        >>> rows = Examples(x, y, "classification", ("a", "b"), ("0", "1"))
        >>> run = train_shadows(rows, learner_from_name("tree"), models=24, backend="sequential")
        >>> record_exposure(audit_shadows(run, attacks=["lira"])).exposed.tolist()
        [0]
    """
    sure = audit.confidence if confidence is None else confidence
    error = 1 - fraction("confidence", sure, open_left=True, open_right=True)
    if attack is not None and attack not in audit.attacks:
        raise InputError(f"attack must be one of {', '.join(audit.attacks)}, got {attack!r}.")
    membership = audit.run.membership
    right, used = [], []
    for block in audit.blocks:
        name = attack or max(block.trust, key=lambda n: block.trust[n])
        used.append(name)
        right.append(block.guesses[name] == membership[block.first : block.last])
    answers = np.vstack(right)
    trials = len(answers)
    hits = answers.sum(axis=0)
    prior = audit.game.prior
    blind = max(prior, 1 - prior)
    level = blind if above is None else fraction("above", above)
    if level < blind:
        raise InputError(f"above must be at least blind guessing {blind!r}, got {above!r}.")
    each = error / (2 * len(hits))
    lower = clopper_pearson_lower(hits, trials, each)
    listed = np.flatnonzero(lower > level)
    listed = listed[np.argsort(-hits[listed], kind="stable")]
    return Exposure(
        hits / trials,
        lower,
        clopper_pearson_upper(hits, trials, each),
        listed,
        level,
        blind,
        trials,
        sure,
        tuple(used),
        audit.game,
        max(_worst(answers), float(lower.max())),
    )


def _worst(answers: NDArray[np.bool_]) -> float:
    """Return the accuracy on the record guessed best, chosen and measured on different targets."""
    odd = np.arange(len(answers)) % 2 == 1
    shares = []
    for choosing, measuring in ((answers[odd], answers[~odd]), (answers[~odd], answers[odd])):
        share = choosing.mean(axis=0)
        # Several may look equally bad: the mean over all of them.
        shares.append(float(measuring[:, share == share.max()].mean()))
    return sum(shares) / 2
