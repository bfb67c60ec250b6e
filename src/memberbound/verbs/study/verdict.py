"""Recommend the cheapest sufficient remedy, and summarise a study in one sentence.

A remedy is *enough* if a certificate for every record bounds any attacker's gain over blind
guessing by η.  Blind guessing is right ½ of the time, or ½ + 1/2N for halves of an odd number N of
records.  More rows are never enough, because the bounds for single records hold only for values
that already occur.

If nothing needs to change, nothing is recommended.  Otherwise recommend the sufficient change with
the smallest loss of score; among equal scores, the one that promises most.  Never recommend a
change that leaves a model worse than a constant, in AUC or log loss (R² for numbers).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from memberbound.learners.holdout import HoldoutScore, ModelScores
from memberbound.numerics.rounding import sum_up
from memberbound.quantities import at_confidence, confident, decimals, percent, points
from memberbound.report.fields import Level, RemedyId, StepId
from memberbound.report.model import Question, Remedy, SandwichRow, Verdict
from memberbound.verbs.study.findings import Finding

#: Findings by step; failed steps have none.
StepFindings = Mapping[StepId, Finding]
#: Scores that differ by less than this count as equal.
_ALIKE = 0.01


#: Steps that look for a remedy, in the order of the report.
_LISTED: tuple[StepId, ...] = (
    *("certify", "rows", "coarser", "synthetic", "protect-every", "protect-other"),
)


def remedies(findings: StepFindings) -> list[Remedy]:
    """Return all remedies found, with their costs, and mark the recommended one."""
    before, audited = _score_as_it_is(findings), findings.get("audit")
    usual = {} if audited is None or audited.score is None else audited.score.scores
    listed = []
    for step in _LISTED:
        finding = findings.get(step)
        if finding is not None and finding.remedy is not None:
            score = before if step == "certify" else finding.score
            listed.append(_price(finding.remedy, before, score, usual))
    best = _cheapest(listed)
    return [replace(remedy, recommended=remedy is best) for remedy in listed]


def _score_as_it_is(findings: StepFindings) -> HoldoutScore | None:
    """Return the score of the given model, or of the unchanged learner."""
    finding = findings.get("given") or findings.get("audit")
    return None if finding is None else finding.score


def _cheapest(listed: list[Remedy]) -> Remedy | None:
    enough = [remedy for remedy in listed if remedy.enough]
    for remedy in enough:
        # A certificate of the table holds for good and bad models alike.
        if remedy.id == "nothing":
            return remedy
    useful = [remedy for remedy in enough if remedy.above_chance is not False]
    losses = [remedy.loss_estimate for remedy in useful if remedy.loss_estimate is not None]
    least = min(losses, default=math.inf)

    def rank(remedy: Remedy) -> tuple[bool, bool, float]:
        # Rank an unmeasured loss last.
        loss = math.inf if remedy.loss_estimate is None else remedy.loss_estimate
        return loss > least + _ALIKE, remedy.game != "neighbour", loss

    return min(useful, key=rank, default=None)


#: Name of the model with a shortcoming, by remedy.
_MODELS: dict[RemedyId, str] = {
    "coarser": "models trained on the coarser table",
    "synthetic": "models trained on this table",
}


def _price(
    remedy: Remedy, before: HoldoutScore | None, after: HoldoutScore | None, usual: ModelScores
) -> Remedy:
    """Add the scores with and without the remedy, and the scores worse than a constant's.

    ``usual`` are the scores of the study's learner on the unchanged rows.  Models with noise have
    calibrated probabilities, even if the learner has not.
    """
    if after is None:
        return remedy
    noisy = remedy.id in ("noise-every", "noise-other")
    shortcoming = after.shortcoming(None if noisy else usual)
    if shortcoming is not None:
        shortcoming = f"{_MODELS.get(remedy.id, 'such models')} {shortcoming}"
    fixed = after.constant.get("log loss") if "log loss" in after.scores else None
    remedy = replace(
        remedy,
        above_chance=shortcoming is None,
        shortcoming=shortcoming,
        auc_estimate=after.scores.get("AUC"),
        log_loss_estimate=after.scores.get("log loss"),
        log_loss_constant_estimate=fixed,
    )
    if before is None:  # the audit of the unchanged model has failed
        return remedy
    return replace(
        remedy,
        score_name=before.name,
        score_before_estimate=before.estimate,
        score_after_estimate=after.estimate,
        score_spread_estimate=after.spread,
        loss_estimate=before.estimate - after.estimate,
    )


def verdict(
    findings: StepFindings, listed: Sequence[Remedy], question: Question, failed: Sequence[str]
) -> Verdict:
    """Return a level, one sentence and advice; ``failed`` has the titles of failed steps."""
    chosen = next((remedy for remedy in listed if remedy.recommended), None)
    safe = chosen is not None and chosen.id == "nothing"
    given = findings.get("given")
    unmeasured = None if given is None else given.not_comparable
    # Use one pre-specified lower bound, to avoid selecting the best of several.
    subject: StepId = "audit" if given is None else "given"
    attacked = findings[subject].rows if subject in findings else ()
    proved = _proved_leak(attacked, question)
    level: Level = "unproved"
    if chosen is not None and safe:
        level = "safe"
        now = f"As it is, {_nobody(chosen, question)}, whatever is trained on this table."
    elif proved is not None:
        level, now = "exposed", proved
    elif unmeasured is not None:
        now = "No guarantee for the given model: no attack on it could be measured."
    else:
        # In points, because blind guessing is right more than half of the time with odd rows.
        now = (
            "There is no guarantee for the model as it is: no attack was shown to beat blind "
            f"guessing about any record by more than {points(question.eta)}, but a better one "
            "may exist."
        )
    if unmeasured is not None:
        now += f" {unmeasured}"
    if failed:
        level = "partial" if level != "exposed" else level
        now += f" This study is incomplete, without an answer from: {', '.join(failed)}."
    too_few = not any(remedy.game == "neighbour" for remedy in listed)
    return Verdict(level, now, _advice(chosen, question, too_few=too_few))


def _proved_leak(attacked: Sequence[SandwichRow], question: Question) -> str | None:
    """Return the leak that attacks proved, if it exceeds the limit.

    The floors of the average and the worst record hold jointly at the study's confidence, so the
    choice between them is accounted for (proofs/audit-subset-game.md claim 6).
    """
    sure = f"(confidence {confident(question.confidence)})"
    for row in attacked:
        if row.accuracy_lower is None or row.accuracy_lower <= sum_up(row.blind, question.eta):
            continue
        least = percent(row.accuracy_lower, "lower")
        if row.record == "average":
            model = "the given model" if row.subject == "given" else "the model"
            return (
                f"As it is, {model} leaks its training records: an attack is right about the "
                f"average record at least {least} of the time {sure}."
            )
        return (
            "As it is, the model leaks some of its training records: an attack is right about one "
            f"of them at least {least} of the time {sure}."
        )
    return None


def _nobody(chosen: Remedy, question: Question) -> str:
    """Return the certified bound as a clause, with the attacker of its game."""
    record = "record" if question.unit is None else "person"
    whom = f"any {record}'s"
    if chosen.game == "iid":
        who = "nobody who knows the source of the records but not the table"
        whom = f"any of its {record}s'"
    else:
        who = f"nobody, not even somebody who knows all other {record}s,"
    sure = "" if chosen.confidence is None else at_confidence(chosen.confidence)
    most = percent(chosen.accuracy_upper, "upper")
    return f"{who} is right about {whom} membership more than {most} of the time{sure}"


#: Replacement of the model, by remedy.
_REPLACEMENTS: dict[RemedyId, str] = {
    "coarser": "the model trained on coarser columns",
    "synthetic": "the model trained on a table of new rows",
    "noise-every": "a {learner} model of all rows with noise",
    "noise-other": "a {learner} model of all rows with noise",
}


def _advice(chosen: Remedy | None, question: Question, *, too_few: bool) -> str:
    if chosen is None:
        ways = "Allow"
        if too_few:
            ways = "Give public bounds for the columns (memberbound bounds) or more rows, allow"
        return (
            "None of the remedies tried is certified to keep everybody within "
            f"{points(question.eta)} of blind guessing and leaves a useful model. {ways} a larger "
            "eta, or protect the average record only (memberbound harden, memberbound "
            "protect-half)."
        )
    if chosen.id == "nothing":
        return "Nothing needs to be changed."
    what = _REPLACEMENTS[chosen.id].format(learner=chosen.learner)
    cost = ""
    if chosen.loss_estimate is not None:
        before, after = chosen.score_before_estimate, chosen.score_after_estimate
        yours = "yours, about" if question.model is not None else "about"
        usual = "" if question.model is not None else " as it is"
        cost = (
            f", {chosen.score_name} about {decimals(after, 'estimate', 3)} against {yours} "
            f"{decimals(before, 'estimate', 3)}{usual}"
        )
    return f"Replace it: {what}{cost}. Then {_nobody(chosen, question)}."
