"""Ceilings, estimates and floors side by side, and the cheapest remedy that is enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from memberbound.games import IidGame
from memberbound.iid.certified import accuracy_from_leak
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
    Ceiling,
    Exposure,
    Learned,
    Protected,
    Remedy,
    RemedyId,
    RocCurve,
    SandwichRow,
    StepId,
    Translation,
    Verdict,
)
from memberbound.studies import steps
from memberbound.studies.question import StudyQuestion, command_of, names_of

__all__ = ["Findings", "protects", "remedies", "verdict"]

# ── From the answers of the steps to the report: ceilings, estimates and floors side by side ──────
#
# Every number keeps its kind (certificate, estimate, audit), its game and its record; nothing is
# turned into another kind here.


@dataclass(frozen=True)
class Findings:
    """The answers of the steps that have one, by the step's id."""

    given: steps.Attacked | None = None
    certify: steps.Certified | None = None
    audit: steps.Audited | None = None
    protect_average: steps.Noised | None = None
    protect_every: steps.Noised | None = None
    explain: steps.Explained | None = None
    population: steps.Translated | None = None
    rows: steps.Planned | None = None
    coarser: steps.Coarsened | None = None

    @classmethod
    def of(cls, answers: Mapping[StepId, steps.Said]) -> Findings:
        """Return the answers of steps, each of which has the kind that its field takes."""
        named = {id.replace("-", "_"): answer for id, answer in answers.items()}
        return cls(**named)  # type: ignore[arg-type]

    @property
    def score(self) -> steps.Score | None:
        """How well the model as it is predicts: the given one, else the learner's."""
        found = self.audit if self.given is None else self.given
        return None if found is None else found.score

    def audits(self) -> list[tuple[Learned, str, steps.Audited, steps.Noised | None]]:
        """Return every attacked model: its id, its name, the audit, and its noise."""
        found: list[tuple[Learned, str, steps.Audited, steps.Noised | None]] = []
        if self.audit is not None:
            found.append(("model", "Model trained as usual", self.audit, None))
        if (noised := self.protect_average) is not None:
            label = "Model with noise that protects the average record"
            found.append(("noise-average", label, noised.audit, noised))
        if (noised := self.protect_every) is not None:
            label = "Model with noise that protects every record"
            found.append(("noise-every", label, noised.audit, noised))
        return found

    def sandwich(self) -> tuple[SandwichRow, ...]:
        """Return how often anybody can be right, per subject: the average and the worst record."""
        rows: list[SandwichRow] = []
        if self.given is not None and self.given.average is not None:
            one = self.given.average
            known = (one.blind, None, one.estimate, one.floor)
            rows.append(SandwichRow("given", "The given model", "average", "model", *known))
        records: tuple[Literal["average", "worst"], ...] = ("average", "worst")
        for subject, label, audited, noised in self.audits():
            for record in records:
                side = audited.average if record == "average" else audited.worst
                covers = subject == "noise-every" or record == "average"
                ceiling = None
                if noised is not None and covers:
                    ceiling = _ceiling(sum_up(side.blind, noised.gain.upper), noised.gain)
                numbers = (side.blind, ceiling, side.estimate, side.floor)
                rows.append(SandwichRow(subject, label, record, "subset", *numbers))
        if self.certify is not None:
            rows += _table_rows(self.certify.bound, "table", "Any model trained on the table")
        if self.coarser is not None:
            label = "Any model trained on the coarser table"
            rows += _table_rows(self.coarser.bound, "coarser-table", label)
        return tuple(rows)

    def roc(self) -> tuple[RocCurve, ...]:
        """Return measured curves and the lines that no attack on a protected release can cross."""
        measured, certified = [], []
        if self.given is not None and self.given.given.comparable:
            curve = self.given.roc
            name = f"The given model: best attack tried ({curve.attack})"
            measured.append(RocCurve("given", "estimate", name, curve.fpr, curve.tpr))
        for subject, label, audited, noised in self.audits():
            curve = audited.roc
            name = f"{label}: best attack tried ({curve.attack})"
            measured.append(RocCurve(subject, "estimate", name, curve.fpr, curve.tpr))
            if noised is not None:
                whom = "average record" if subject == "noise-average" else "every record"
                name = f"{label}: no attack can be above ({whom})"
                wall = _wall(noised.advantage_upper)
                certified.append(RocCurve(subject, "certificate", name, *wall))
        return (*measured, *certified)

    def exposure(self) -> tuple[Exposure, ...]:
        """Return who is exposed, per subject."""
        return tuple(
            Exposure(subject, label, audited.histogram, audited.records)
            for subject, label, audited, _ in self.audits()
        )

    def translation(self) -> Translation | None:
        """Return the promise in DP terms, and the user's ε as a promise."""
        if self.explain is None:
            return None
        people = None if self.population is None else self.population.population
        said = replace(self.explain.translation, population=people)
        for subject, _, _, noised in self.audits():
            if subject == "noise-every" and noised is not None:
                said = replace(said, guess_release_upper=noised.guess_upper)
        return said


def _wall(gain: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return TPR ≤ FPR + gain as points, close together for a logarithmic axis.

    The corner, where the line meets 1, is one of them: a chord across it would lie below.
    """
    near = [10 ** (-4 + i / 10) for i in range(40)]
    grid = sorted({0.0, *near, max(0.0, 1 - gain), 1.0})
    return tuple(grid), tuple(min(1.0, sum_up(alpha, gain)) for alpha in grid)


def _ceiling(value: float, held: steps.TableBound | steps.Gain) -> Ceiling:
    return Ceiling("certificate", min(1.0, value), held.confidence, held.theorems)


def _table_rows(
    bound: steps.TableBound, subject: Literal["table", "coarser-table"], label: str
) -> list[SandwichRow]:
    most = accuracy_from_leak(bound.worst_leak_upper, IidGame())
    average = _ceiling(bound.accuracy_upper, bound)
    return [
        SandwichRow(subject, label, "average", "iid", 0.5, average, None, None),
        SandwichRow(subject, label, "worst", "iid", 0.5, _ceiling(most, bound), None, None),
    ]


# ── Which remedy is the cheapest that is enough, and the verdict in one sentence ──────────────────
#
# A remedy is *enough* if it is certified, about the record that was asked for, that nobody gains
# more than η over blind guessing (which is right ½ of the time, or ½ + 1/2N for halves of an odd
# number N of records).  More rows are enough for the average record only: what is proved of single
# ones holds for values that already occur.  Among those: nothing, if nothing is needed; then more
# rows, if so many can be had; else the smallest loss of score.  A change after which the model is
# no better than one fixed answer is never recommended.

#: Remedies that a step looks for, with their names for a reader, in the order of the report.
_REMEDIES: dict[StepId, tuple[RemedyId, str]] = {
    "rows": ("rows", "More rows"),
    "coarser": ("coarser", "Coarser columns"),
    "protect-average": ("noise-average", "Noise that protects the average record"),
    "protect-every": ("noise-every", "Noise that protects every record"),
}
#: A remedy about which nothing is known.
_BLANK = Remedy(
    id="nothing",
    label="Change nothing",
    protects=None,
    game=None,
    enough=False,
    accuracy_upper=None,
    confidence=None,
    score_name=None,
    score_before_estimate=None,
    score_after_estimate=None,
    loss_estimate=None,
    above_chance=None,
    extra_rows=None,
    information_kept_estimate=None,
    steps=(),
    sentence="",
    command=None,
    recommended=False,
)


def _blank(step: StepId) -> Remedy:
    id, label = _REMEDIES[step]
    return replace(_BLANK, id=id, label=label)


def remedies(
    found: Findings, asked: StudyQuestion, source: str, refused: Mapping[StepId, str]
) -> list[Remedy]:
    """Return every remedy with what is certified, what it costs, and which one is recommended.

    ``refused`` has the reasons of the steps that found that their remedy cannot work.
    """
    listed = []
    if found.certify is not None:
        listed.append(_nothing(found.certify, asked, found.score))
    if found.rows is not None:
        listed.append(_rows(found.rows, asked))
    if found.coarser is not None:
        listed.append(_coarser(found.coarser, asked, source, found.score))
    if found.protect_average is not None:
        listed.append(_noise(found.protect_average, asked, source, "average", found.score))
    if found.protect_every is not None:
        listed.append(_noise(found.protect_every, asked, source, "every", found.score))
    for step in _REMEDIES:
        if step in refused:
            said = f"Not possible here: {refused[step]}"
            listed.append(replace(_blank(step), sentence=said))
    best = _cheapest(listed, asked)
    return [replace(remedy, recommended=remedy is best) for remedy in listed]


def _cheapest(listed: list[Remedy], asked: StudyQuestion) -> Remedy | None:
    enough = [r for r in listed if r.enough]
    for remedy in enough:
        # What is proved of the table is proved, however well the model predicts.
        if remedy.id == "nothing":
            return remedy
        if remedy.id == "rows" and (remedy.extra_rows or 0) <= asked.extra_rows:
            return remedy
    changes = [r for r in enough if r.id != "rows" and r.above_chance is not False]
    # A loss that could not be measured counts as the largest.
    return min(changes, key=lambda r: (r.loss_estimate is None, r.loss_estimate or 0), default=None)


def _priced(remedy: Remedy, before: steps.Score | None, after: steps.Score | None) -> Remedy:
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


def _table_promise(bound: steps.TableBound, asked: StudyQuestion) -> tuple[bool, float]:
    """Return whether a table's certificate is enough, and the accuracy that it allows."""
    average = bound.delta_upper <= 2 * asked.eta
    every = bound.worst_leak_upper <= 2 * asked.eta
    enough = average and every if asked.record == "every" else average
    most = bound.accuracy_upper
    if enough and asked.record == "every":
        # What is promised to every record is the worst record's bound, not the average one's.
        most = max(most, accuracy_from_leak(bound.worst_leak_upper, IidGame()))
    return enough, most


def _nothing(found: steps.Certified, asked: StudyQuestion, now: steps.Score | None) -> Remedy:
    enough, most = _table_promise(found.bound, asked)
    said = (
        "The table is coarse and large enough: whatever is trained on it stays within the limit."
        if enough
        else "It is not proved that the table or the model, as they are, stay within the limit."
    )
    remedy = replace(
        _BLANK,
        protects=protects(asked.record) if enough else "average record",
        game="iid",
        enough=enough,
        accuracy_upper=most,
        confidence=found.bound.confidence,
        sentence=said,
    )
    return _priced(remedy, now, now)


def _rows(found: steps.Planned, asked: StudyQuestion) -> Remedy:
    blank = replace(_blank("rows"), game="iid")
    if found.needed is None:
        return replace(blank, sentence=str(found.reason))
    extra = max(0, found.needed - found.rows)
    whom = "the average record"
    more = f"{extra} more than there are."
    if asked.record == "every":
        # Among the rows still to come may be values that the table does not hold.
        whom += " and for records whose values already occur in the table"
        more += (
            " Nothing is proved about records with other values, which the new rows may bring: "
            "this is not enough for every record."
        )
    return replace(
        blank,
        protects="average record",
        enough=asked.record == "average",
        # Rows that are still to come: the plan promises 1 - 2η, not less.
        accuracy_upper=sum_up(0.5, asked.eta),
        confidence=found.confidence,
        extra_rows=extra,
        sentence=f"{found.needed} rows of the same kind would be enough for {whom}, {more}",
    )


def _coarser(
    found: steps.Coarsened, asked: StudyQuestion, source: str, now: steps.Score | None
) -> Remedy:
    refusal = found.refusal_for_every_record
    enough, most = _table_promise(found.bound, asked)
    sentence = f"{found.rows_released} of {found.rows_read} rows remain, in "
    sentence += f"{found.atoms} different cells."
    if found.score is None:
        sentence += (
            f" {asked.target} itself is coarser: no score on it compares with the present one."
        )
    elif found.score.models == 0:
        sentence += " No feature is left to learn from."
    if refusal is not None:
        sentence += " It protects the average record only; for every record: " + refusal
    options = {
        "--security": significant(asked.security, "given"),
        "--record-leak": None if refusal or asked.record != "every" else 2 * asked.eta,
        "--target": asked.target,
        "--confidence": asked.confidence,
        "--seed": asked.seed,
        "--table": asked.database_table,
        "--unit": asked.unit,
        "--out": "safe.parquet",
    }
    # Of a whole file only: harden takes no choice of columns.
    whole = asked.columns is None
    remedy = replace(
        _blank("coarser"),
        protects="every record" if enough and asked.record == "every" else "average record",
        game="iid",
        enough=enough,
        accuracy_upper=most,
        confidence=found.bound.confidence,
        information_kept_estimate=found.information_kept_estimate,
        steps=found.steps,
        sentence=sentence,
        command=command_of("harden", source, options) if whole else None,
    )
    return _priced(remedy, now, found.score)


def _noise(
    found: steps.Noised,
    asked: StudyQuestion,
    source: str,
    record: Literal["average", "every"],
    now: steps.Score | None,
) -> Remedy:
    halves = found.game == "subset"
    options = {
        "--target": asked.target,
        "--learner": asked.learner,
        "--eta": asked.eta,
        "--record": record if halves else None,
        "--bounds": None if halves else asked.bounds,
        "--confidence": asked.confidence if halves else None,
        "--columns": names_of(asked.columns),
        "--table": asked.database_table,
        "--unit": asked.unit,
        "--out": "model.skops",
    }
    promised = found.gain.upper <= asked.eta
    blind = found.audit.average.blind if halves else 0.5
    remedy = replace(
        _blank("protect-every" if record == "every" else "protect-average"),
        protects=protects(record),
        game=found.game,
        enough=promised and (record == "every" or asked.record == "average"),
        accuracy_upper=min(1.0, sum_up(blind, found.gain.upper)),
        confidence=found.gain.confidence,
        sentence=found.sentence,
        command=command_of("protect-half" if halves else "protect", source, options),
    )
    return _priced(remedy, now, found.audit.score)


def protects(record: Literal["average", "every"]) -> Protected:
    """Return whom a promise about a record protects, in the words of the contract."""
    return "every record" if record == "every" else "average record"


def verdict(
    found: Findings, listed: Sequence[Remedy], asked: StudyQuestion, failed: list[str]
) -> Verdict:
    """Return the verdict: a level, one sentence, and what to do."""
    chosen = next((r for r in listed if r.recommended), None)
    safe = chosen if chosen is not None and chosen.id == "nothing" else None
    # One floor speaks, so that none is picked after looking at several.
    proved = _proved(found.audit, asked) if found.given is None else _shown(found.given, asked)
    level: Literal["safe", "exposed", "unproved", "partial"]
    if safe is not None:
        level = "safe"
        now = f"As it is, {_nobody(safe, asked)}, whatever is trained on this table."
    elif proved is not None:
        level = "exposed"
        now = proved
    else:
        level = "unproved"
        blind = 0.5 if found.audit is None else found.audit.average.blind
        about = "any record" if asked.record == "every" else "the average record"
        now = (
            f"Nothing is proved about the model as it is: no attack was shown to be right about "
            f"{about} more than {allowed(blind, asked.eta)} of the time, but a better one may "
            "exist."
        )
    if found.given is not None and not found.given.given.comparable:
        if level == "unproved":
            now = "Nothing is known about the given model: no attack on it could be measured."
        now += f" {found.given.given.sides}"
    if failed:
        level = "partial" if level != "exposed" else level
        now += f" This study is incomplete, without an answer from: {', '.join(failed)}."
    return Verdict(level, now, _advice(chosen, asked, safe is not None))


def _whom(record: str) -> str:
    return "any record's" if record == "every" else "the average record's"


def _nobody(chosen: Remedy, asked: StudyQuestion) -> str:
    """Return who is right how often at most, with what they know: a bound is one of its game."""
    if chosen.game == "iid":
        who = "nobody who knows the source of the records but not the table"
        whom = "any of its records'" if asked.record == "every" else "the average record's"
    elif chosen.game == "neighbour":
        who = "nobody, not even somebody who knows all other records,"
        whom = _whom(asked.record)
    else:
        who = "nobody who knows all records but not which half was drawn"
        whom = _whom(asked.record)
    sure = "" if chosen.confidence is None else at_confidence(chosen.confidence)
    most = percent(chosen.accuracy_upper, "upper")
    return f"{who} is right about {whom} membership more than {most} of the time{sure}"


def _proved(audit: steps.Audited | None, asked: StudyQuestion) -> str | None:
    """Return what attacks have proved against the model as it is, if more than is allowed.

    Both floors hold together at the confidence of the study, so taking one after looking is paid
    for (proofs/audit-subset-game.md claim 6).
    """
    if audit is None:
        return None
    average, worst = audit.average, audit.worst
    sure = confident(asked.confidence)
    if average.floor.lower > sum_up(average.blind, asked.eta):
        return (
            f"As it is, the model gives its training records away: an attack is right about the "
            f"average record at least {percent(average.floor.lower, 'lower')} of the time "
            f"(confidence {sure})."
        )
    if asked.record == "every" and worst.floor.lower > sum_up(worst.blind, asked.eta):
        return (
            f"As it is, the model gives some of its training records away: an attack is right "
            f"about one of them at least {percent(worst.floor.lower, 'lower')} of the time "
            f"(confidence {sure})."
        )
    return None


def _shown(found: steps.Attacked, asked: StudyQuestion) -> str | None:
    """Return what attacks have proved against the given model, if more than is allowed."""
    if found.average is None:
        return None
    floor = found.average.floor.lower
    if floor <= sum_up(found.average.blind, asked.eta):
        return None
    return (
        "As it is, the given model gives its training records away: an attack is right about the "
        f"average record at least {percent(floor, 'lower')} of the time (confidence "
        f"{confident(asked.confidence)})."
    )


def _advice(chosen: Remedy | None, asked: StudyQuestion, safe: bool) -> str:
    if safe:
        return "Nothing needs to be changed."
    if chosen is None:
        return (
            "None of the remedies tried is certified to keep everybody within "
            f"{points(asked.eta)} of blind guessing and leaves a useful model. Allow a larger eta, "
            + (
                "or protect the average record only."
                if asked.record == "every"
                else "or collect more rows (extra_rows)."
            )
        )
    name = f"{chosen.label[0].lower()}{chosen.label[1:]}"
    said = f"Recommended: {name}. Then {_nobody(chosen, asked)}"
    if chosen.id == "rows":
        return f"{said}; {chosen.extra_rows} more rows are needed."
    if chosen.loss_estimate is not None:
        said += (
            f"; {chosen.score_name} changes from about "
            f"{decimals(chosen.score_before_estimate, 'estimate', 3)} to about "
            f"{decimals(chosen.score_after_estimate, 'estimate', 3)}"
        )
    return said + "."
