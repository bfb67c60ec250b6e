"""Single records: which members a given model gives away, how groups fare, which are exposed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from memberbound.answers import Lower
from memberbound.attacks.intervals import clopper_pearson_lower, clopper_pearson_upper
from memberbound.attacks.learner_audit import ShadowAudit
from memberbound.attacks.scores import (
    FEWEST_SCORES,
    IntervalFields,
    Scores,
    audit_scores,
    content_generator,
    interval_fields,
)
from memberbound.attacks.signals import BoolArray
from memberbound.errors import InputError, fraction
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray, shared_confidence
from memberbound.quantities import INTERVAL, Sides, percent

# ── Members of a given model that are recognised, with false discoveries controlled ───────────────


@dataclass(frozen=True, eq=False)
class Recognised:
    """Members that a rule names which, on a list mixed with non-members, is seldom wrong.

    Attributes:
        rows: numbers (from 0) or names of the members that were tried, in the order of
            ``p_values``.
        p_values: share of calibrating non-members that score as high, per member.
        named: which of them the rule names.
        wrongly: how many of the ``others`` on the list it names.
        rate: the expected share of wrong names is at most this.
    """

    SIDES: ClassVar[Sides] = {
        "false_discovery_rate_upper": "upper",
        "named_share": "given",
        "most": {"p_value": "upper"},
    }

    attack: str
    rows: tuple[int | str, ...]
    p_values: FloatArray
    named: BoolArray
    wrongly: int
    others: int
    calibrating: int
    rate: float

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields, with the members that stand out most."""
        order = np.argsort(self.p_values, kind="stable")[:20]
        return {
            "attack": self.attack,
            "tried": len(self.rows),
            "recognised": int(self.named.sum()),
            "named_share": float(self.named.mean()) if len(self.rows) else 0.0,
            "others_tried": self.others,
            "others_named": self.wrongly,
            "calibrating": self.calibrating,
            "false_discovery_rate_upper": self.rate,
            "most": [
                {
                    "record": self.rows[i],
                    "p_value": float(self.p_values[i]),
                    "recognised": bool(self.named[i]),
                }
                for i in order
            ],
        }

    def summary(self) -> str:
        """Return readable lines."""
        count = int(self.named.sum())
        if not count:
            return (
                f"records: on a list of {len(self.rows)} members and {self.others} others the "
                f"attack ({self.attack}) identifies nobody with confidence\n  "
                f"(false identifications ≤ {percent(self.rate, 'upper')} on average)"
            )
        text = (
            f"records: of {len(self.rows)} members and {self.others} others on one list, the "
            f"attack ({self.attack}) identifies {count} members and {self.wrongly} others;\n  "
            f"false identifications ≤ {percent(self.rate, 'upper')} on average"
        )
        order = np.argsort(self.p_values, kind="stable")
        first = [str(self.rows[i]) for i in order if self.named[i]][:8]
        more = count - len(first)
        of = "members" if isinstance(self.rows[0], str) else "members (rows from 0)"
        text += f"\n  {of}: {', '.join(first)}"
        return text + (f" and {more} more" if more > 0 else "")


def recognised_members(
    scores: FloatArray,
    member: BoolArray,
    rows: Sequence[int | str],
    *,
    attack: str,
    rate: float = 0.1,
    seed: int = 0,
) -> Recognised:
    """Name members by conformal p-values and Benjamini and Hochberg's rule.

    Half of the non-members calibrate: a record's p-value is the share of them that scores at least
    as high.  The other half is mixed with the members, and the rule sees one list.

    Guarantee: E[wrong names / max(1, names)] ≤ ``rate``·(others)/(members + others), for any scores
    of the members.  It is reported as the rate.
    Theorem: proofs/given-models.md claim 2 (after Bates, Candès, Lei, Romano and Sesia 2023; the
    p-values of fresh records are positively dependent, which Benjamini and Yekutieli's theorem
    allows).
    Assumes: given the model, non-members are exchangeable draws whose scores do not depend on each
    other, in whatever order they are listed; the attack was chosen without looking.
    Edge cases: ties are broken by coins; with fewer than 20 non-members nobody is named.
    """
    level = fraction("rate", rate, open_left=True, open_right=True)
    rng = content_generator(seed, scores, member, purpose="recognised")
    # Ties are broken by coins: then all orders of exchangeable scores are equally likely.
    order = np.lexsort((rng.random(len(scores)), scores))
    rank = np.empty(len(scores), dtype=np.int64)
    rank[order] = np.arange(len(scores))
    outside = rng.permutation(np.flatnonzero(~member))
    calibrating, others = outside[: len(outside) // 2], outside[len(outside) // 2 :]
    tried = np.concatenate([np.flatnonzero(member), others])
    below = np.searchsorted(np.sort(rank[calibrating]), rank[tried], "left")
    p_values = (1 + len(calibrating) - below) / (1 + len(calibrating))
    named = _benjamini_hochberg(p_values, level)
    size = int(member.sum())
    if len(outside) < FEWEST_SCORES:
        named[:] = False
    return Recognised(
        attack,
        tuple(rows),
        p_values[:size],
        named[:size],
        int(named[size:].sum()),
        len(others),
        len(calibrating),
        level * len(others) / max(len(tried), 1),
    )


def _benjamini_hochberg(p_values: FloatArray, rate: float) -> BoolArray:
    """Return which hypotheses are rejected.

    Examples:
        >>> _benjamini_hochberg(np.array([0.01, 0.9, 0.03]), 0.1).tolist()
        [True, False, True]
    """
    ordered = np.sort(p_values)
    # p ≤ k·q/m; where rounding leaves it open, the record is not named.
    steps = np.arange(1, len(ordered) + 1) * rate
    passed = np.flatnonzero(ordered * len(ordered) <= steps * (1 - 1e-12))
    limit = ordered[passed[-1]] if passed.size else -1.0
    return np.asarray(p_values <= limit)


# ── Groups of records ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Group:
    """What one attack reaches within a group; no intervals where the records are too few."""

    value: str
    members: int
    non_members: int
    auc: IntervalFields | None = None
    advantage: IntervalFields | None = None


@dataclass(frozen=True)
class Groups:
    """Groups by the values of one column, with intervals that hold for all groups at once."""

    column: str
    attack: str
    confidence: Lower
    groups: tuple[Group, ...]
    ends_hold: str = "for all groups at once, for each quantity"


def audit_groups(
    scores: FloatArray,
    member: BoolArray,
    values: Sequence[object],
    *,
    column: str,
    attack: str,
    confidence: float = 0.95,
    seed: int = 0,
) -> Groups:
    """Measure one attack within each value of a column.

    Guarantee: with probability at least ``confidence`` the advantages of all groups lie in their
    intervals together, and so do the AUCs.
    Theorem: proofs/audit-intervals.md claims 1 and 4, the error shared among the groups.
    Assumes: as :func:`memberbound.attacks.model_audit.audit_evidence`, within each group.
    Edge cases: more than 50 values are refused; a group with fewer than 10 members or others is
    counted but not measured, and pays for nothing.
    """
    import pandas as pd

    series = pd.Series(list(values), dtype=object)
    texts = series.astype(str).where(series.notna(), "(missing)").to_numpy(dtype=str)
    names = sorted(set(texts.tolist()))
    if len(names) > 50:
        raise InputError(
            f"by must be a column with at most 50 values, got {column!r} with {len(names)}. "
            "Make classes of it first."
        )
    samples = {
        name: (scores[member & (texts == name)], scores[~member & (texts == name)])
        for name in names
    }
    measured = [n for n in names if min(map(len, samples[n])) >= FEWEST_SCORES // 2]
    level = shared_confidence(confidence, max(len(measured), 1))
    groups = []
    for name, (inside, outside) in samples.items():
        group = Group(name, len(inside), len(outside))
        if name in measured:
            pair = Scores.from_samples(inside, outside)
            audit = audit_scores(pair, confidence=level, fpr=(), attack=attack, seed=seed)
            auc, advantage = interval_fields(audit.auc), interval_fields(audit.advantage)
            group = replace(group, auc=auc, advantage=advantage)
        groups.append(group)
    return Groups(column, attack, confidence, tuple(groups))


# ── Records that a learner exposes: the attacks' accuracy on each, and a list that is proved ──────
#
# Each target model gives one verdict about a record, "in" or "out", which is right or wrong.
# Whoever reads the result looks at the records that were guessed best, so every end holds for all
# records at once (the error is shared among them); records of one release may depend on each other.


@dataclass(frozen=True, eq=False)
class Exposure:
    """Accuracy of the attack on every record, with intervals that hold for all records at once.

    Attributes:
        estimate: share of the target models on which the attack was right about the record.
        lower: the best of the attacks is right at least this often; for all records at once, with
            half of the error.
        upper: the weakest of the attacks is right at most this often; likewise.
        exposed: numbers of the records whose ``lower`` exceeds ``blind``, the most exposed first.
        worst_estimate: accuracy on the record that is guessed best, chosen on half of the target
            models and measured on the other, so that choosing it does not flatter it; the largest
            ``lower`` where that is more.
        blind: accuracy of an attacker who sees no model.
        attacks: the attack of each block of targets, chosen on the shadows before it.
    """

    SIDES: ClassVar[Sides] = {
        "accuracy_estimate": "estimate",
        "blind_accuracy": "upper",
        "confidence": "lower",
        "exposed_above": "lower",
        "exposed_share": "lower",
        "most_exposed": INTERVAL,
        "worst_record_estimate": "estimate",
    }

    estimate: FloatArray
    lower: FloatArray
    upper: FloatArray
    exposed: NDArray[np.int64]
    blind: float
    targets: int
    confidence: float
    attacks: tuple[str, ...]
    game: SubsetGame
    worst_estimate: float
    #: The rows of the attacked records in the population, where not all of them were attacked.
    rows: NDArray[np.int64] | None = None

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
            "exposed_above": self.blind,
            "confidence": self.confidence,
            "ends_hold": "for all records at once",
            "most_exposed": [
                {
                    "record": int(r if self.rows is None else self.rows[r]),
                    "estimate": float(self.estimate[r]),
                    "lower": float(self.lower[r]),
                    "upper": float(self.upper[r]),
                    "proved": bool(np.isin(r, self.exposed)),
                }
                for r in order
            ],
        }


def record_exposure(
    audit: ShadowAudit,
    *,
    confidence: float | None = None,
) -> Exposure:
    """Measure how often the attack is right about each record, and list the exposed ones.

    Each block of targets is attacked with the attack that was best on the shadows before it.  A
    record is listed if its accuracy provably exceeds blind guessing.

    Guarantee: with probability at least ``confidence`` every ``lower`` and every ``upper`` of all
    records hold together, so whichever records are looked at; ``lower`` alone fails with half the
    error.  About every listed record some attack is right more often than by blind guessing, so no
    certificate for every record may promise less.
    Theorem: proofs/audit-subset-game.md claim 3, the error shared among the records.
    Assumes: as the audit.
    Numerics: ends are rounded outward.
    Edge cases: with T targets and N records nothing can be listed unless 2^-T ≤ (1-confidence)/2N.

    Examples:
        >>> from memberbound.attacks.learner_audit import audit_shadows
        >>> from memberbound.attacks.shadows import train_shadows
        >>> from memberbound.learners import Examples, learner_from_name
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(40, 2)), np.arange(40) % 2
        >>> x[0], y[0] = (0.0, 0.0), 1  # an outlier: the only one of its class far from the others
        >>> x[1:, 0] += 9 * y[1:]
        >>> rows = Examples(x, y, "classification", ("a", "b"), ("0", "1"))
        >>> run = train_shadows(rows, learner_from_name("tree"), models=24, n_jobs=1)
        >>> record_exposure(audit_shadows(run, attacks=["lira"])).exposed.tolist()
        [0]
    """
    sure = audit.confidence if confidence is None else confidence
    error = 1 - fraction("confidence", sure, open_left=True, open_right=True)
    membership = audit.run.membership
    right, used = [], []
    for block in audit.blocks:
        name = max(block.trust, key=lambda n: block.trust[n])
        used.append(name)
        right.append(block.guesses[name] == membership[block.first : block.last])
    answers = np.vstack(right)
    trials = len(answers)
    hits = answers.sum(axis=0)
    prior = audit.game.prior
    blind = max(prior, 1 - prior)
    each = error / (2 * len(hits))
    lower = clopper_pearson_lower(hits, trials, each)
    listed = np.flatnonzero(lower > blind)
    listed = listed[np.argsort(-hits[listed], kind="stable")]
    return Exposure(
        hits / trials,
        lower,
        clopper_pearson_upper(hits, trials, each),
        listed,
        blind,
        trials,
        sure,
        tuple(used),
        audit.game,
        max(_worst(answers), float(lower.max())),
        audit.run.sample,
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
