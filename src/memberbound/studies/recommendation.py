"""The cheapest remedy that is enough, and the verdict in one sentence.

A remedy is *enough* if it is certified, about every record, that nobody gains more than η over
blind guessing (which is right ½ of the time, or ½ + 1/2N for halves of an odd number N of records).
More rows never are: what is proved of single records holds for values that already occur.
Recommended is nothing, if nothing is needed; else the change that is enough with the smallest loss
of score, and of those that score alike the one that promises most.  A change after which the model
is no better than one fixed answer is never recommended.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from memberbound.games import IidGame
from memberbound.iid.certificates import accuracy_from_leak
from memberbound.numerics.rounding import sum_up
from memberbound.quantities import (
    allowed,
    at_confidence,
    confident,
    decimals,
    percent,
    points,
    significant,
)
from memberbound.report.model import (
    Question,
    Remedy,
    RemedyId,
    Result,
    SandwichRow,
    StepId,
    Verdict,
)
from memberbound.studies.question import equivalent_security
from memberbound.studies.rehearsal import Score
from memberbound.studies.steps import Finding
from memberbound.verbs.replacement import command_of

#: The findings of the steps that have one.
Findings = Mapping[StepId, Finding]

#: Remedies that a step looks for, with their names for a reader, in the order of the report.
_REMEDIES: dict[StepId, tuple[RemedyId, str]] = {
    "certify": ("nothing", "Change nothing"),
    "rows": ("rows", "More rows"),
    "coarser": ("coarser", "Coarser columns"),
    "synthetic": ("synthetic", "A table of new rows"),
    "protect-every": ("noise-every", "Noise that protects every record"),
    "protect-other": ("noise-other", "Another learner with noise"),
}
_NOT_POSSIBLE = "Not possible here; the list of steps has the reason."
#: Scores that differ by less than this are alike.
_ALIKE = 0.01


# ── Remedies ──────────────────────────────────────────────────────────────────────────────────────


def remedies(
    findings: Findings,
    question: Question,
    source: str,
    refused: Iterable[StepId] = (),
    columns: tuple[str, ...] | None = None,
) -> list[Remedy]:
    """Return every remedy with what is certified, what it costs, and which one is recommended.

    ``refused`` are the steps that found that their remedy cannot work, ``columns`` those that a
    release is made of, where they are not all.
    """
    columns = question.columns or columns
    listed = []
    for step, (id, label) in _REMEDIES.items():
        blank = Remedy(id=id, label=label)
        if step not in findings:
            continue
        finding = findings[step]
        if step == "certify":
            remedy = _nothing(blank, finding, question)
            score = score_as_it_is(findings)
        elif step == "rows":
            remedy, score = _rows(blank, finding.result, question), None
        elif step == "coarser":
            remedy, score = _coarser(blank, finding, question, source), finding.score
        else:
            remedy = _release(blank, finding, question, source, columns)
            score = finding.score
        listed.append(_priced(remedy, score_as_it_is(findings), score))
    for step in refused:
        if step in _REMEDIES:
            id, label = _REMEDIES[step]
            listed.append(Remedy(id=id, label=label, sentence=_NOT_POSSIBLE))
    best = _cheapest(listed)
    return [replace(remedy, recommended=remedy is best) for remedy in listed]


def score_as_it_is(findings: Findings) -> Score | None:
    """Return how well the model as it is predicts: the given one, else the learner's."""
    finding = findings.get("given") or findings.get("audit")
    return None if finding is None else finding.score


def _cheapest(listed: list[Remedy]) -> Remedy | None:
    enough = [remedy for remedy in listed if remedy.enough]
    for remedy in enough:
        # What is proved of the table is proved, however well the model predicts.
        if remedy.id == "nothing":
            return remedy
    useful = [remedy for remedy in enough if remedy.above_chance is not False]
    losses = [remedy.loss_estimate for remedy in useful if remedy.loss_estimate is not None]
    least = min(losses, default=math.inf)

    def rank(remedy: Remedy) -> tuple[bool, bool, float]:
        # A loss that could not be measured counts as the largest.
        loss = math.inf if remedy.loss_estimate is None else remedy.loss_estimate
        return loss > least + _ALIKE, remedy.game != "neighbour", loss

    return min(useful, key=rank, default=None)


def _priced(remedy: Remedy, before: Score | None, after: Score | None) -> Remedy:
    """Return a remedy with what it costs, beside the score of the model as it is."""
    if after is None:
        return remedy
    remedy = replace(remedy, above_chance=after.estimate > after.chance)
    if before is None:  # the audit of the model as it is has failed
        return remedy
    return replace(
        remedy,
        score_name=before.name,
        score_before_estimate=before.estimate,
        score_after_estimate=after.estimate,
        loss_estimate=before.estimate - after.estimate,
    )


def table_promise(bounds: Result, question: Question) -> tuple[bool, float]:
    """Return whether a table's certificate is enough, and the accuracy that it allows."""
    most, worst_leak = float(bounds["accuracy_upper"]), bounds["record_leak"]["max"]
    enough = bool(max(bounds["delta_upper"], worst_leak) <= 2 * question.eta)
    if enough:
        # What is promised to every record is the worst record's bound, not the average one's.
        most = max(most, accuracy_from_leak(worst_leak, IidGame()))
    return enough, most


def _nothing(blank: Remedy, finding: Finding, question: Question) -> Remedy:
    enough, most = table_promise(finding.result, question)
    return replace(
        blank,
        protects="every record" if enough else "average record",
        game="iid",
        enough=enough,
        accuracy_upper=most,
        confidence=finding.result["confidence"],
        sentence=(
            "The table is coarse and large enough: whatever is trained on it stays within the "
            "limit."
            if enough
            else "It is not proved that the table or the model, as they are, stay within the limit."
        ),
    )


def _rows(blank: Remedy, result: Result, question: Question) -> Remedy:
    needed = result["n_required"]
    if needed is None:
        return replace(blank, game="iid", sentence=str(result["reason"]))
    extra = max(0, needed - result["rows"])
    return replace(
        blank,
        protects="average record",
        game="iid",
        # Rows that are still to come: the plan promises 1 - 2η, not less.
        accuracy_upper=sum_up(0.5, question.eta),
        confidence=result["confidence"],
        extra_rows=extra,
        # Among the rows still to come may be values that the table does not hold.
        sentence=(
            f"{needed} rows of the same kind would be enough for the average record and for "
            f"records whose values already occur in the table, {extra} more than there are. There "
            "is no guarantee for records with other values, which the new rows may bring: this is "
            "not enough for every record."
        ),
    )


def _coarser(blank: Remedy, finding: Finding, question: Question, source: str) -> Remedy:
    result, after = finding.result, finding.result["after"]
    enough, most = table_promise(after, question)
    sentence = (
        f"{result['rows_released']} of {result['rows_read']} rows remain, in {after['atoms']} "
        "different cells."
    )
    if finding.score is None:
        sentence += (
            f" {question.target} itself is coarser: no score on it compares with the present one."
        )
    elif finding.score.models == 0:
        sentence += " No feature is left to learn from."
    if finding.average_only:
        sentence += " It protects the average record only: nothing coarser protects every one."
    options = {
        "--security": significant(equivalent_security(question.eta), "given"),
        "--record-leak": None if finding.average_only else 2 * question.eta,
        "--target": question.target,
        "--confidence": question.confidence,
        "--seed": question.seed,
        "--table": question.database_table,
        "--unit": question.unit,
        "--out": "safe.parquet",
    }
    # Of a whole file only: harden takes no choice of columns.
    whole = question.columns is None
    return replace(
        blank,
        protects="every record" if enough else "average record",
        game="iid",
        enough=enough,
        accuracy_upper=most,
        confidence=after["confidence"],
        information_kept_estimate=result["information_kept_estimate"],
        steps=tuple(result["steps"]),
        sentence=sentence,
        command=command_of("harden", source, options) if whole else None,
    )


def _release(
    blank: Remedy,
    finding: Finding,
    question: Question,
    source: str,
    columns: tuple[str, ...] | None,
) -> Remedy:
    """Return a model with noise, or a table of new rows."""
    certificate, verb = finding.result["certificate"], "protect"
    learner: str | None = finding.learner or question.learner
    label, sentence = blank.label, finding.sentence
    if blank.id == "noise-other":
        label += f": {learner}"
    elif blank.id == "synthetic":
        verb, learner = "synthesize", None
        sentence = (
            "Whatever is trained on the new rows, by anybody and however often, is covered. "
            + sentence
        )
    options = {
        "--target": question.target,
        "--learner": learner,
        "--eta": question.eta,
        "--bounds": question.bounds,
        "--columns": columns,
        "--table": question.database_table,
        "--unit": question.unit,
        "--out": "model.skops" if learner else "safe.parquet",
    }
    return replace(
        blank,
        label=label,
        learner=learner,
        protects="every record",
        game="neighbour",
        enough=certificate["upper"] <= question.eta,
        accuracy_upper=min(1.0, sum_up(0.5, certificate["upper"])),
        confidence=certificate["confidence"],
        sentence=sentence,
        command=command_of(verb, source, options),
    )


# ── The verdict ───────────────────────────────────────────────────────────────────────────────────


def verdict(
    findings: Findings, listed: Sequence[Remedy], question: Question, failed: Sequence[str]
) -> Verdict:
    """Return the verdict: a level, one sentence, and what to do; ``failed`` has titles of steps."""
    chosen = next((remedy for remedy in listed if remedy.recommended), None)
    safe = chosen is not None and chosen.id == "nothing"
    given = None if "given" not in findings else findings["given"].result
    # One floor speaks, so that none is picked after looking at several.
    subject: StepId = "audit" if given is None else "given"
    attacked = findings[subject].rows if subject in findings else ()
    proved = _proved_leak(attacked, question)
    level: Literal["safe", "exposed", "unproved", "partial"] = "unproved"
    if chosen is not None and safe:
        level = "safe"
        now = f"As it is, {_nobody(chosen)}, whatever is trained on this table."
    elif proved is not None:
        level, now = "exposed", proved
    elif given is not None and not given["comparable"]:
        now = "No guarantee for the given model: no attack on it could be measured."
    else:
        audited = findings.get("audit")
        blind = 0.5 if audited is None else audited.rows[0].blind
        now = (
            "There is no guarantee for the model as it is: no attack was shown to be right about "
            f"any record more than {allowed(blind, question.eta)} of the time, but a better one "
            "may exist."
        )
    if given is not None and not given["comparable"]:
        now += f" {given['one_law']['sentence']}"
    if failed:
        level = "partial" if level != "exposed" else level
        now += f" This study is incomplete, without an answer from: {', '.join(failed)}."
    too_few = not any(remedy.game == "neighbour" for remedy in listed)
    return Verdict(level, now, _advice(chosen, question, too_few=too_few))


def _proved_leak(attacked: Sequence[SandwichRow], question: Question) -> str | None:
    """Return what attacks have proved against the model as it is, if more than is allowed.

    The floors about the average and about the worst record hold together at the confidence of the
    study, so taking one after looking is paid for (proofs/audit-subset-game.md claim 6).
    """
    sure = f"(confidence {confident(question.confidence)})"
    for row in attacked:
        if row.floor is None or row.floor.lower <= sum_up(row.blind, question.eta):
            continue
        least = percent(row.floor.lower, "lower")
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


def _nobody(chosen: Remedy) -> str:
    """Return who is right how often at most, with what they know: a bound is one of its game."""
    whom = "any record's"
    if chosen.game == "iid":
        who = "nobody who knows the source of the records but not the table"
        whom = "any of its records'"
    else:
        who = "nobody, not even somebody who knows all other records,"
    sure = "" if chosen.confidence is None else at_confidence(chosen.confidence)
    most = percent(chosen.accuracy_upper, "upper")
    return f"{who} is right about {whom} membership more than {most} of the time{sure}"


#: What a remedy puts in the place of the model.
_WHAT: dict[RemedyId, str] = {
    "coarser": "the model trained on coarser columns",
    "synthetic": "the model trained on a table of new rows",
    "noise-every": "a {learner} model of all rows with noise",
    "noise-other": "a {learner} model of all rows with noise",
}


def _advice(chosen: Remedy | None, question: Question, *, too_few: bool) -> str:
    if chosen is None:
        ways = "Allow"
        if too_few:
            bounds = (
                ""
                if question.bounds
                else "Give public bounds for the columns (memberbound bounds), "
            )
            ways = f"{bounds}collect more rows, allow"
        return (
            "None of the remedies tried is certified to keep everybody within "
            f"{points(question.eta)} of blind guessing and leaves a useful model. {ways} a larger "
            "eta, or protect the average record only (memberbound harden, memberbound "
            "protect-half)."
        )
    if chosen.id == "nothing":
        return "Nothing needs to be changed."
    what = _WHAT[chosen.id].format(learner=chosen.learner)
    cost = ""
    if chosen.loss_estimate is not None:
        before, after = chosen.score_before_estimate, chosen.score_after_estimate
        yours = "yours, about" if question.model is not None else "about"
        usual = "" if question.model is not None else " as it is"
        cost = (
            f", {chosen.score_name} about {decimals(after, 'estimate', 3)} against {yours} "
            f"{decimals(before, 'estimate', 3)}{usual}"
        )
    return f"Replace it: {what}{cost}. Then {_nobody(chosen)}."
