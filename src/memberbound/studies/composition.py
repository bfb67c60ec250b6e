"""From the answers of the steps to the report: ceilings, estimates and floors side by side.

Every number keeps its kind (certificate, estimate, audit), its game and its record; nothing is
turned into another kind here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memberbound.certification.answer import accuracy_from_leak
from memberbound.games import IidGame
from memberbound.numerics.rounding import sum_up

__all__ = ["exposure", "roc", "sandwich", "translation"]

Answers = Mapping[str, Mapping[str, Any]]
#: Step → subject of the report and its name for a reader.
_SUBJECTS = {
    "audit": ("model", "The model as it is"),
    "protect-average": ("noise-average", "With noise, for the average record"),
    "protect-every": ("noise-every", "With noise, for every record"),
}


def _ceiling(
    value: float, result: Mapping[str, Any], confidence: float | None = None
) -> dict[str, Any]:
    return {
        "kind": "certificate",
        "upper": min(1.0, value),
        "confidence": result["confidence"] if confidence is None else confidence,
        "theorems": list(result["theorems"]),
    }


def _floor(side: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kind": "audit",
        "lower": side["lower"],
        "confidence": side["confidence"],
        "attack": side["attack"],
    }


def _estimate(side: Mapping[str, Any], what: str) -> dict[str, Any]:
    # Whoever does worse than what is proved, or than a blind guess, can do that instead.
    return {"kind": "estimate", "estimate": max(side["estimate"], side["lower"]), "what": what}


def _audits(answers: Answers) -> dict[str, Mapping[str, Any]]:
    """Return the audit of each subject that has one."""
    found = {}
    for step, (subject, _) in _SUBJECTS.items():
        if step in answers:
            answer = answers[step]
            found[subject] = answer if step == "audit" else answer["audit"]
    return found


def _labels() -> dict[str, str]:
    return dict(_SUBJECTS.values())


def _noise_certificate(answers: Answers, subject: str) -> Mapping[str, Any] | None:
    step = {"noise-average": "protect-average", "noise-every": "protect-every"}.get(subject)
    if step is None or step not in answers:
        return None
    found: Mapping[str, Any] = answers[step]["result"]["certificate"]
    return found


def sandwich(answers: Answers) -> list[dict[str, Any]]:
    """Return how often anybody can be right, per subject, for the average and the worst record."""
    rows = []
    for subject, audited in _audits(answers).items():
        certificate = _noise_certificate(answers, subject)
        for record in ("average", "worst"):
            side = audited[record]
            ceiling = None
            covers = subject == "noise-every" or record == "average"
            if certificate is not None and covers:
                ceiling = _ceiling(sum_up(side["blind"], certificate["upper"]), certificate)
            what = (
                "mean over records and models of the best attack"
                if record == "average"
                else "the record guessed best, chosen on half of the models, measured on the others"
            ) + "; never below its floor"
            rows.append(
                {
                    "subject": subject,
                    "label": _labels()[subject],
                    "record": record,
                    "game": "subset",
                    "blind": side["blind"],
                    "ceiling": ceiling,
                    "estimate": _estimate(side, what),
                    "floor": _floor(side),
                }
            )
    for step, subject, label in (
        ("certify", "table", "Any model trained on the table"),
        ("coarser", "coarser-table", "Any model trained on the coarser table"),
    ):
        if step in answers:
            rows += _table_rows(answers[step]["result"], subject, label)
    return rows


def _table_rows(result: Mapping[str, Any], subject: str, label: str) -> list[dict[str, Any]]:
    fields = result.get("after", result)
    said = {"confidence": fields["confidence"], "theorems": result["theorems"]}
    most = accuracy_from_leak(fields["record_leak"]["max"], IidGame())
    return [
        {
            "subject": subject,
            "label": label,
            "record": record,
            "game": "iid",
            "blind": 0.5,
            "ceiling": _ceiling(value, said),
            "estimate": None,
            "floor": None,
        }
        for record, value in (("average", fields["accuracy_upper"]), ("worst", most))
    ]


def roc(answers: Answers) -> list[dict[str, Any]]:
    """Return measured curves and the lines that no attack on a protected release can cross."""
    curves = []
    for subject, audited in _audits(answers).items():
        label = _labels()[subject]
        curves.append(
            {
                "subject": subject,
                "kind": "estimate",
                "label": f"{label}: best attack tried ({audited['roc']['attack']})",
                "fpr": audited["roc"]["fpr"],
                "tpr": audited["roc"]["tpr"],
            }
        )
    for step, (subject, label) in _SUBJECTS.items():
        if step in answers and "ceiling_advantage" in answers[step]:
            gain = answers[step]["ceiling_advantage"]
            whom = "average record" if subject == "noise-average" else "every record"
            # TPR - FPR ≤ gain at every threshold; points close together for a logarithmic axis.
            # The corner, where the line meets 1, is one of them: a chord across it would lie below.
            steps = [10 ** (-4 + i / 10) for i in range(40)]
            grid = sorted({0.0, *steps, max(0.0, 1 - gain), 1.0})
            curves.append(
                {
                    "subject": subject,
                    "kind": "certificate",
                    "label": f"{label}: no attack can be above ({whom})",
                    "fpr": grid,
                    "tpr": [min(1.0, sum_up(alpha, gain)) for alpha in grid],
                }
            )
    return curves


def exposure(answers: Answers) -> list[dict[str, Any]]:
    """Return who is exposed, per subject."""
    return [
        {
            "subject": subject,
            "label": _labels()[subject],
            "histogram": audited["histogram"],
            "records": audited["result"]["records"],
        }
        for subject, audited in _audits(answers).items()
    ]


def translation(answers: Answers, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the promise in DP terms, and the user's ε as a promise."""
    if "explain" not in answers:
        return None
    said = answers["explain"]
    given = said["result"]
    people = answers.get("population")
    return {
        "eta": asked["eta"],
        "epsilon_as_strict": said["strict"]["epsilon"],
        "epsilon_as_strict_with_delta": said["strict_with_delta"]["epsilon"],
        "delta": asked["delta"],
        "epsilon": asked["epsilon"],
        "accuracy_upper": given["accuracy_upper"],
        "eta_upper": given["eta_upper"],
        "tpr_upper": given["tpr_upper"],
        "sentence": said["sentence"],
        "population": None
        if people is None
        else {
            "sentence": people["sentence"],
            "blind": people["result"]["success_blind"],
            "worst_case_upper": people["result"]["success_worst_case_upper"],
            "population_upper": people["result"]["success_population_upper"],
            "practical_upper": people["result"]["success_upper"],
            "pmp_epsilon_upper": people["result"]["pmp_epsilon_upper"],
            "sweep": people["sweep"],
        },
    }
