"""The audit of a given model: members against fresh records (the model game).

The steps, for one record:

1. *Split*: the attacker knows a random part of the records and trains reference models on it
   (``shadows``); the rest are measured.
2. *Score*: the given model, the only target, is queried on the record (``evidence``); every attack
   (``attacks``) scores the answer, using the known part if it learns.  An attack that learns is
   evaluated on records unseen in its training.
3. *Interval*: the scores of members and of others give AUC, advantage and TPR with intervals
   (``scores``, ``intervals``; proofs/audit-intervals.md claims 1 to 4, proofs/given-models.md
   claim 1).
4. *Choice*: the best attack is selected after seeing the results, so its lower bound uses an error
   shared among all attacks that ran.
5. *Record*: one attack, fixed in advance, identifies members with the false discovery rate
   controlled; by group, its intervals hold for all groups at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from memberbound.answers import INTERNAL, Lower, Upper, computed
from memberbound.attacks.attacks import (
    ATTACKS,
    AccessLevel,
    Attack,
    Targets,
    runnable,
    score_targets,
)
from memberbound.attacks.checks import (
    Fact,
    LawTest,
    duplicate_notes,
    one_law_test,
    structural_facts,
)
from memberbound.attacks.evidence import Evidence, ScoreTable
from memberbound.attacks.own_attacks import OwnAttack, as_attacks
from memberbound.attacks.scores import (
    ASSUMPTIONS,
    FEWEST_SCORES,
    IntervalFields,
    MeasuredAttacks,
    Scores,
    audit_scores,
    content_generator,
    highest_floor,
    interval_fields,
)
from memberbound.attacks.shadows import ShadowRun, select_known_records
from memberbound.attacks.signals import BoolArray
from memberbound.certificate import AuditBound
from memberbound.errors import InputError
from memberbound.learners.learner import Labels
from memberbound.numerics.rounding import FloatArray, shared_confidence

#: Minimum number of members, and of non-members, in an audit.
FEWEST = 20
#: The name of the attack in a table of scores.
SCORES = "scores"
#: Attacks used for single records and groups, strongest first; fixed in advance.
_FOR_RECORDS = ("combined", "loss", "label-only")
_OTHER_HALF = (
    "Attacks that learn (combined) are trained on a random half of the records. An audit of the "
    "model itself draws another half: their numbers differ within the intervals."
)
_NO_COLUMNS = (
    "Whether members and non-members come from one distribution cannot be tested without their "
    "columns"
)
#: Scores of every record, and a mask of the records to evaluate the attack on.
AttackScores = Mapping[str, tuple[FloatArray, BoolArray]]


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelAudit(MeasuredAttacks):
    """The result of auditing one given model; see :func:`audit_records`.

    Attributes:
        scores: per attack, the score of every record and a mask of the evaluated records.
        evidence: None if only scores are known; the access of the attack is then unknown.
        law: None if the columns are unknown.
        groups: None unless requested.
    """

    ASSUMPTIONS = (
        "The numbers are about this model and its own members, not about other models of the same "
        "learner.",
        "The members are the model's whole training set, or records drawn from it uniformly.",
        "The non-members are independent draws from the source of the training records and had no "
        "part in the model (not in tuning or early stopping either).",
        "Each interval of an attack holds with the stated confidence on its own; those of "
        "best_advantage and by_access hold for all attacks at once.",
        "Attacks that learn (combined) or use reference models know the members in a "
        "random part of the records, and are measured on the others.",
    )

    scores: AttackScores = field(repr=False)
    member: BoolArray = field(repr=False)
    evidence: Evidence | None = field(default=None, repr=False)
    recognised: Recognised | None = None
    groups: Groups | None = None
    facts: tuple[Fact, ...] = ()
    law: LawTest | None = None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions under which the intervals hold."""
        return ASSUMPTIONS if self.evidence is None else self.ASSUMPTIONS

    @property
    def comparable(self) -> bool:
        """Whether no difference in distribution between members and non-members was found.

        Otherwise attacks measure that difference, and no lower bound applies to the model.
        """
        return self.law is None or not self.law.differs

    @property
    def by_access(self) -> dict[str, AuditBound]:
        """``best_advantage`` by access: labels only, or probabilities."""
        attacks = self.attacks.values()
        labels = [a.shared_advantage for a in attacks if a.access == "labels"]
        # An attacker with more access also sees the labels.
        return {
            level: highest_floor(labels) if level == "labels" else self.best_advantage
            for level in sorted({a.access for a in attacks if a.access is not None})
        }


# ── The steps of the audit ────────────────────────────────────────────────────────────────────────


def audit_records(
    records: Evidence | ScoreTable,
    *,
    attacks: Iterable[str | OwnAttack] | None = None,
    references: ShadowRun | None = None,
    confidence: float = 0.95,
    fpr: Iterable[float] = (0.1, 0.01, 0.001),
    by: str | None = None,
    seed: int = 0,
) -> ModelAudit:
    """Audit a given model: attacks, single records, groups, structure and comparability.

    Guarantee: each interval of an attack contains its quantity with probability at least
    ``confidence``, given the model; the intervals of ``best_advantage`` and ``by_access`` hold for
    all attacks together with that probability, whichever is selected.  For the rest see
    :func:`recognise_members`, :func:`audit_groups` and :func:`one_law_test`, each on its own.
    Theorem: proofs/audit-intervals.md claims 1 to 4, proofs/given-models.md claim 1.
    Assumes: :attr:`ModelAudit.assumptions`.
    Edge cases: fewer than 20 records of either kind are refused.
    """
    measured = partial(audit_score_table, confidence=confidence, fpr=fpr, seed=seed)
    if isinstance(records, ScoreTable):
        if attacks is not None and tuple(attacks) != (SCORES,):
            raise InputError(f"attacks must be {SCORES!r} for a table of scores.")
        everywhere = np.ones(len(records.member), dtype=np.bool_)
        audit = measured({SCORES: (records.score, everywhere)}, records.member)
        audit = replace(audit, warnings=(*audit.warnings, _NO_COLUMNS))
        return with_records(audit, np.arange(len(records.score)), records.groups, by, seed=seed)
    notes = (_NO_COLUMNS,) if records.rows is None else duplicate_notes(records)
    member = records.member
    for kind, count in (("members", int(member.sum())), ("non-members", int((~member).sum()))):
        if count < FEWEST:
            raise InputError(f"{kind} must be at least {FEWEST} records, got {count}.")
    chosen = None if attacks is None else as_attacks(attacks)
    scores = attack_scores(records, attacks=chosen, references=references, seed=seed)
    own = {attack.name: attack for attack in chosen or () if isinstance(attack, Attack)}
    access = {name: (ATTACKS | own)[name].access(records.signals) for name in scores}
    if records.rows is None and any((ATTACKS | own)[name].learns for name in scores):
        notes = (*notes, _OTHER_HALF)
    audit = measured(scores, member, access=access)
    law = None
    if records.rows is not None:
        law = one_law_test(records, confidence=confidence, seed=seed)
    trained = () if references is None else references.warnings
    audit = replace(
        audit,
        evidence=records,
        facts=structural_facts(records),
        law=law,
        warnings=(*records.notes, *trained, *audit.warnings, *notes),
    )
    numbers = np.arange(len(member)) if records.numbers is None else records.numbers
    return with_records(audit, numbers, records.groups, by, seed=seed)


def attack_scores(
    evidence: Evidence,
    *,
    attacks: Iterable[str | Attack] | None = None,
    references: ShadowRun | None = None,
    seed: int = 0,
) -> AttackScores:
    """Return the scores of every attack, with a mask of the records to evaluate it on.

    Edge cases: unknown names, and named attacks that cannot run, are refused.
    """
    if references is None or references.known is None:
        known = select_known_records(evidence, seed, references=False)
        target = Targets.of_given_model(evidence, known)
    else:
        known = references.known
        target = Targets.of_given_model(evidence, known, references.signals, references.membership)
    chosen, skipped = runnable(target, attacks)
    if attacks is not None and skipped:
        raise InputError(f"attacks must be able to run here, got one that cannot. {skipped[0]}")
    everywhere = np.ones(len(known), dtype=np.bool_)
    return {
        name: (score_targets(attack, target)[0], ~known if attack.learns else everywhere)
        for name, attack in chosen.items()
    }


def audit_score_table(
    scores: AttackScores,
    member: BoolArray,
    *,
    access: Mapping[str, AccessLevel] | None = None,
    confidence: float = 0.95,
    fpr: Iterable[float] = (0.1, 0.01, 0.001),
    seed: int = 0,
) -> ModelAudit:
    """Measure attacks from their scores alone; ``access`` names the outputs that each one sees.

    Guarantee, Theorem, Assumes, Edge cases: as :func:`memberbound.attacks.scores.audit_scores`; the
    intervals of ``best_advantage`` and ``by_access`` hold for all attacks at once.
    """
    measured = partial(
        audit_scores, confidence=confidence, fpr=tuple(fpr), among=len(scores), seed=seed
    )
    audits = {}
    # Keep one note per rate where non-members are too few: attacks that learn would repeat it.
    too_few: dict[str, str] = {}
    for name, (score, where) in scores.items():
        audit = measured(Scores.of(score[where], member[where]), attack=name)
        audits[name] = replace(audit, access=None if access is None else access[name])
        for note in audit.notes:
            too_few.setdefault(note.partition(":")[0], note)
    return ModelAudit(
        attacks=audits,
        confidence=confidence,
        warnings=tuple(too_few.values()),
        scores=scores,
        member=member,
    )


# ── Single records, and groups of them ────────────────────────────────────────────────────────────


def with_records(
    audit: ModelAudit,
    names: Sequence[int | str] | Labels,
    groups: Sequence[object] | None,
    by: str | None,
    *,
    attacks: Sequence[str] = _FOR_RECORDS,
    seed: int = 0,
) -> ModelAudit:
    """Add one attack's results for single records, and for groups by the column ``by``.

    The attack is the first of ``attacks`` that ran, an order fixed in advance.  If members and
    non-members are not comparable, groups are omitted: their intervals would measure that
    difference.
    """
    attack = next((n for n in attacks if n in audit.attacks), next(iter(audit.attacks)))
    scores, where = audit.scores[attack]
    scores, member = scores[where], audit.member[where]
    rows = np.asarray(names)[where & audit.member].tolist()
    recognised = recognise_members(scores, member, rows, attack=attack, seed=seed)
    if groups is None or by is None or not audit.comparable:
        return replace(audit, recognised=recognised)
    values = [value for value, used in zip(groups, where, strict=True) if used]
    measured = audit_groups(
        scores, member, values, column=by, attack=attack, confidence=audit.confidence, seed=seed
    )
    return replace(audit, recognised=recognised, groups=measured)


@dataclass(frozen=True)
class NamedMember:
    """A member with its p-value: the share of calibration non-members that score as high."""

    record: int | str
    p_value: Upper
    recognised: bool


@dataclass(frozen=True, eq=False)
class Recognised:
    """Members identified by a rule with a controlled false discovery rate.

    Attributes:
        rows: numbers (from 0) or names of the tested members, in the order of ``p_values``.
        p_values: share of calibration non-members that score as high, per member.
        named: mask of the members that the rule identifies.
        others_named: number of tested non-members that the rule identifies.
        false_discovery_rate_upper: upper bound on the expected share of false discoveries.
    """

    rows: tuple[int | str, ...] = field(metadata=INTERNAL)
    p_values: FloatArray = field(metadata=INTERNAL)
    named: BoolArray = field(metadata=INTERNAL)
    attack: str
    others_tried: int
    others_named: int
    false_discovery_rate_upper: Upper

    @computed
    def tried(self) -> int:
        """The number of tested members."""
        return len(self.rows)

    @computed
    def recognised(self) -> int:
        """The number of identified members."""
        return int(self.named.sum())

    @computed
    def most(self) -> tuple[NamedMember, ...]:
        """The members with the smallest p-values."""
        return tuple(
            NamedMember(self.rows[index], float(self.p_values[index]), bool(self.named[index]))
            for index in np.argsort(self.p_values, kind="stable")[:20]
        )


def recognise_members(
    scores: FloatArray,
    member: BoolArray,
    rows: Sequence[int | str],
    *,
    attack: str,
    rate: float = 0.1,
    seed: int = 0,
) -> Recognised:
    """Identify members by conformal p-values and the Benjamini-Hochberg procedure.

    Half of the non-members calibrate: a record's p-value is the share of them that score at least
    as high.  The other half is mixed with the members, and the procedure tests them together.

    Guarantee: E[false discoveries / max(1, discoveries)] ≤ ``rate``·(others)/(members + others),
    for any scores of the members.  It is reported as the rate.
    Theorem: proofs/given-models.md claim 2 (after Bates, Candès, Lei, Romano and Sesia 2023; the
    p-values of fresh records are positively dependent, which Benjamini and Yekutieli's theorem
    allows).
    Assumes: given the model, non-members are exchangeable draws with scores that do not depend on
    each other or on their order; the attack was chosen in advance.
    Edge cases: ties are broken at random; with fewer than 20 non-members nothing is identified.
    """
    from scipy.stats import false_discovery_control

    rng = content_generator(seed, scores, member, purpose="recognised")
    # Break ties at random: then all orders of exchangeable scores are equally likely.
    rank = np.argsort(np.lexsort((rng.random(len(scores)), scores)))
    outside = rng.permutation(np.flatnonzero(~member))
    calibrating, others = outside[: len(outside) // 2], outside[len(outside) // 2 :]
    tried = np.concatenate([np.flatnonzero(member), others])
    below = np.searchsorted(np.sort(rank[calibrating]), rank[tried], "left")
    p_values = (1 + len(calibrating) - below) / (1 + len(calibrating))
    # Do not identify the record if rounding leaves p ≤ k·rate/m undecided.
    named = false_discovery_control(p_values) <= rate * (1 - 1e-12)
    if len(outside) < FEWEST_SCORES:
        named[:] = False
    size = int(member.sum())
    return Recognised(
        tuple(rows),
        p_values[:size],
        named[:size],
        attack,
        len(others),
        int(named[size:].sum()),
        rate * len(others) / max(len(tried), 1),
    )


@dataclass(frozen=True)
class Group:
    """One attack's results within a group; without intervals if there are too few records."""

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
    Assumes: as :func:`audit_records`, within each group.
    Edge cases: more than 50 values are refused; a group with fewer than 10 members or non-members
    is counted but not measured, and takes no share of the error.
    """
    import pandas as pd

    series = pd.Series(list(values), dtype=object)
    texts = series.astype(str).where(series.notna(), "(missing)").to_numpy(dtype=str)
    names = sorted(set(texts.tolist()))
    if len(names) > 50:
        raise InputError(
            f"by must be a column with at most 50 values, got {column!r} with {len(names)}. "
            "Group its values first."
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
