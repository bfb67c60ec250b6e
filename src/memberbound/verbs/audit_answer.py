"""Answers of the audit verbs: a table of attacks, a sentence, a lower bound to check limits."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypedDict

from memberbound.answers import INTERNAL, Answer, Lower, OmitEmpty, computed
from memberbound.attacks.checks import LawTest
from memberbound.attacks.model_audit import Groups, ModelAudit, Recognised
from memberbound.attacks.one_run import OneRun
from memberbound.attacks.scores import (
    AttackFields,
    IntervalFields,
    MeasuredAttacks,
    interval_fields,
    interval_text,
)
from memberbound.errors import fraction
from memberbound.files import check_output
from memberbound.games import Game, member_name
from memberbound.limits import Limited, Part, Success
from memberbound.numerics.rounding import down
from memberbound.quantities import NO_LEAK, confident, percent

#: False-positive rates at which the TPR is reported if there are enough non-members.
RATES = (0.1, 0.01, 0.001)
#: Appended to the description of an attack if no number can be checked against a limit.
NOT_COMPARABLE = ", on members and non-members that differ already in their columns"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AuditAnswer(Answer, Limited):
    """Attack results with intervals; never a guarantee.

    ``attacks`` has the contract's fields per attack, ``best`` the attack with the highest lower
    bound.
    """

    FAILS_ON: ClassVar = ("estimate", "floor")
    COMPARED: ClassVar = "the success of the best attack tried (one candidate in two is a member)"
    #: Parts of the sentence: the target of the attack, and the caveat.
    ATTACKED: ClassVar[str] = ""
    CAUTION: ClassVar[str] = "This is no guarantee: other attacks may achieve more."

    game: Game
    attacks: Mapping[str, AttackFields]
    best: str
    best_advantage: IntervalFields
    confidence: Lower
    assumptions: tuple[str, ...]
    theorems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    records_out: str | None = None
    unit: str | None = field(default=None, metadata=INTERNAL)

    @property
    def floor(self) -> float | None:
        """Lower bound on the best attack's advantage, valid despite the selection, or None."""
        return self.best_advantage["lower"]

    @property
    def reached(self) -> tuple[float, float | None]:
        """The largest estimated advantage of the attacks, and the lower bound on the best one's."""
        return self.attacks[self.strongest]["advantage"]["estimate"] or 0.0, self.floor

    @property
    def strongest(self) -> str:
        """The attack with the largest estimate; ``best`` if that is level with it."""
        gaps = {name: a["advantage"]["estimate"] or 0.0 for name, a in self.attacks.items()}
        return max(gaps, key=lambda name: (gaps[name], name == self.best))

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract."""
        return super().to_dict() | {"protects": "average record"}

    def successes(self, on: Part) -> tuple[Success, ...]:
        """Return the success rate to check against a limit: the best attack's, at prior ½.

        It is ½ + ½·advantage, for any share of members in the sample.
        """
        estimate, lower = self.reached
        best = self.strongest if on == "estimate" else self.best
        what = f"best attack tried ({best}), average {member_name(self.unit)}"
        if lower is None:
            # This is evidence neither for nor against a leak, so the limit still applies.
            return (Success(f"{what}{NOT_COMPARABLE}"),)
        return (Success(what, estimate=(1 + estimate) / 2, floor=down((1 + lower) / 2)),)

    @computed
    def sentence(self) -> str:
        """The result of the best attack, with its caveat."""
        estimate, lower = self.reached
        right = percent((1 + estimate) / 2, "estimate")
        sure = f"confidence {confident(self.confidence)}"
        least = f"; at {sure} {NO_LEAK}"
        if lower is None:
            least = ", which is no floor"
        elif lower > 0:
            proved = f"at least {percent(down((1 + lower) / 2), 'lower')} with {sure}"
            least = f", {proved}"
            if self.strongest != self.best:
                least = f"; another ({self.best}) {proved}"
        which = f"{self.ATTACKED} ({self.strongest})"
        return (
            f"The best attack tried{which} is right about {right} of the time"
            f"{self.about}{least} (blind guessing: 50 %). {self.caution}"
        )

    @property
    def about(self) -> str:
        """The records that the sentence is about, or an empty text."""
        return ""

    @property
    def caution(self) -> str:
        """The caveat."""
        return self.CAUTION

    def details(self) -> str:
        """Return readable lines below the table of attacks."""
        return ""

    def summary(self) -> str:
        """Return the short readable table of the command line."""
        rates = sorted({r for a in self.attacks.values() for r in a["tpr_at_fpr"]}, reverse=True)
        rows = [["attack", "AUC", "advantage", "success", *(f"TPR at FPR {r}" for r in rates)]]
        for name, a in self.attacks.items():
            quantities = (a["auc"], a["advantage"], a["accuracy"])
            tprs = (a["tpr_at_fpr"].get(r) for r in rates)
            cells = ("–" if c is None else interval_text(c) for c in (*quantities, *tprs))
            rows.append([name, *cells])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        text = f"{self.sentence}\n\n" + "\n".join(lines) + self.details()
        return text + "".join(f"\nnote: {w.rstrip('.')}." for w in self.warnings)


class AuditFields(TypedDict):
    """The fields of an :class:`AuditAnswer` that its attacks determine."""

    game: Game
    attacks: Mapping[str, AttackFields]
    best: str
    best_advantage: IntervalFields
    confidence: float
    warnings: tuple[str, ...]


class RecordsAnswerFields(AuditFields):
    """The fields of a :class:`RecordsAnswer` that its attacks determine."""

    members: int
    non_members: int
    records: Recognised | None
    groups: Groups | None


def audit_fields(audit: MeasuredAttacks, *, proved: bool = True) -> AuditFields:
    """Return the answer fields that all audits share."""
    best = audit.best_advantage
    return {
        "game": best.game,
        "attacks": {name: a.to_dict(proved=proved) for name, a in audit.attacks.items()},
        "best": best.attack,
        "best_advantage": interval_fields(best, proved=proved),
        "confidence": audit.confidence,
        "warnings": audit.warnings,
    }


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RecordsAnswer(AuditAnswer):
    """Attack results on one model or table: its members against fresh records.

    Includes single records, groups, and lower bounds on ε and μ if members were chosen by coin
    flips.
    """

    members: int
    non_members: int
    one_law: LawTest | None = None
    records: Recognised | None = None
    groups: Groups | None = None
    one_run: OmitEmpty[OneRun | None] = None

    @property
    def law(self) -> LawTest | None:
        """The test of whether members and non-members differ even without the model."""
        return self.one_law

    @computed
    def comparable(self) -> bool:
        """Whether members and non-members passed the test for equal distributions."""
        return self.law is None or not self.law.differs

    @property
    def floor(self) -> float | None:
        """Lower bound on the best attack's advantage; None if the two sides are not comparable."""
        return super().floor if self.comparable else None

    @property
    def caution(self) -> str:
        """The caveat, and the reason if there is no lower bound."""
        if self.comparable or self.law is None:
            return self.CAUTION
        return f"{self.law.sentence} {self.CAUTION}"

    @property
    def refuted_claim(self) -> str | None:
        """The reason why the claimed ε is refuted (the command then exits with code 3), or None."""
        if self.one_run is None or not self.one_run.claim_exceeded:
            return None
        return self.one_run.sentence

    def details(self) -> str:
        """Return readable lines below the table of attacks."""
        lines = [] if self.one_run is None else ["", self.one_run.sentence]
        lines += ["", *self.findings()]
        if self.comparable and self.records is not None:
            lines += ["", *_record_lines(self.records)]
        if self.comparable and self.groups is not None:
            lines += ["", *_group_lines(self.groups)]
        return "\n".join(("", *lines)).rstrip()

    def findings(self) -> Iterable[str]:
        """Return further notes of a verb."""
        return ()


def records_answer_fields(audit: ModelAudit) -> RecordsAnswerFields:
    """Return the fields of a :class:`RecordsAnswer`; estimates only if sides are not comparable."""
    members = int(audit.member.sum())
    return {
        **audit_fields(audit, proved=audit.comparable),
        "members": members,
        "non_members": len(audit.member) - members,
        "records": audit.recognised,
        "groups": audit.groups,
    }


def _record_lines(records: Recognised) -> list[str]:
    found = [member.record for member in records.most if member.recognised][:8]
    first = [str(name + 1 if isinstance(name, int) else name) for name in found]
    rows = "rows, counted from 1" if found and isinstance(found[0], int) else "members"
    identified = "nobody"
    if first:
        identified = f"{records.recognised} members and {records.others_named} others"
    lines = [
        f"records: of {records.tried} members and {records.others_tried} others on one list, the "
        f"attack ({records.attack}) identifies {identified}",
        "  (false identifications ≤ "
        f"{percent(records.false_discovery_rate_upper, 'upper')} on average)",
    ]
    if first:
        more = records.recognised - len(first)
        lines.append(f"  {rows}: {', '.join(first)}{f' and {more} more' if more else ''}")
    return lines


def _group_lines(groups: Groups) -> list[str]:
    lines = [
        f"groups by {groups.column} ({groups.attack}; ends hold for all groups at once, confidence "
        f"{confident(groups.confidence)}):"
    ]
    for group in groups.groups:
        shown = f"too few records ({group.members} members, {group.non_members} others)"
        if group.advantage is not None and group.auc is not None:
            shown = f"advantage {interval_text(group.advantage)}, AUC {interval_text(group.auc)}"
        lines.append(f"  {group.value}: {shown}")
    return lines


def records_file(
    records: str | os.PathLike[str] | None, table: object, *, force: bool
) -> Path | None:
    """Return the checked path of the per-record output file, before any work is done."""
    if records is None:
        return None
    source = Path(table) if isinstance(table, (str, os.PathLike)) else None
    return check_output(
        Path(records), name="records", formats=(".csv",), source=source, force=force
    )


def check_rates(fpr: float | Iterable[float]) -> tuple[float, ...]:
    """Check the false-positive rates at which the TPR is measured, and return them."""
    rates = fpr if isinstance(fpr, Iterable) else (fpr,)
    return tuple(fraction("fpr", rate, open_left=True, open_right=True) for rate in rates)
