"""Ceilings, estimates and floors side by side, and the cheapest remedy that is enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memberbound.games import IidGame
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
from memberbound.studies.question import StudyQuestion, command_of, names_of
from memberbound.verbs.certify import accuracy_from_leak

__all__ = [
    "exposure",
    "remedies",
    "roc",
    "sandwich",
    "translation",
    "verdict",
]

# ── From the answers of the steps to the report: ceilings, estimates and floors side by side ──────
#
# Every number keeps its kind (certificate, estimate, audit), its game and its record; nothing is
# turned into another kind here.

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


# ── Which remedy is the cheapest that is enough, and the verdict in one sentence ──────────────────
#
# A remedy is *enough* if it is certified, about the record that was asked for, that nobody gains
# more than η over blind guessing (which is right ½ of the time, or ½ + 1/2N for halves of an odd
# number N of records).  Among those: nothing, if nothing is needed; then more rows, if so many can
# be had; else the smallest loss of score.  A change after which the model is no better than one
# fixed answer is never recommended.

#: Step → id of its remedy and its name for a reader.
_REMEDIES = {
    "rows": ("rows", "More rows"),
    "coarser": ("coarser", "Coarser columns"),
    "protect-average": ("noise-average", "Noise, for the average record"),
    "protect-every": ("noise-every", "Noise, for every record"),
}


def remedies(
    answers: Answers, asked: StudyQuestion, source: str, refused: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return every remedy with what is certified, what it costs, and which one is recommended.

    ``refused`` has the reasons of the steps that found that their remedy cannot work.
    """
    found = [
        _nothing(answers, asked),
        _rows(answers, asked),
        _coarser(answers, asked, source),
        _noise(answers, asked, source, "average"),
        _noise(answers, asked, source, "every"),
    ]
    listed = [remedy for remedy in found if remedy is not None]
    for step, (id, label) in _REMEDIES.items():
        if step in refused:
            listed.append(_remedy(id, label, sentence=f"Not possible here: {refused[step]}"))
    best = _cheapest(listed, asked)
    return [remedy | {"recommended": remedy is best} for remedy in listed]


def _cheapest(listed: list[dict[str, Any]], asked: StudyQuestion) -> dict[str, Any] | None:
    enough = [r for r in listed if r["enough"]]
    for remedy in enough:
        # What is proved of the table is proved, however well the model predicts.
        if remedy["id"] == "nothing":
            return remedy
        if remedy["id"] == "rows" and remedy["extra_rows"] <= asked.extra_rows:
            return remedy
    changes = [r for r in enough if r["id"] != "rows" and r["above_chance"] is not False]
    # A loss that could not be measured counts as the largest.
    return min(
        changes, key=lambda r: (r["loss_estimate"] is None, r["loss_estimate"] or 0), default=None
    )


def _remedy(id: str, label: str, **fields: Any) -> dict[str, Any]:
    """Return a remedy with every field, those without a value as ``None``."""
    blank: dict[str, Any] = {
        "protects": None,
        "game": None,
        "enough": False,
        "accuracy_upper": None,
        "confidence": None,
        "score_name": None,
        "score_before_estimate": None,
        "score_after_estimate": None,
        "loss_estimate": None,
        "above_chance": None,
        "extra_rows": None,
        "information_kept_estimate": None,
        "steps": [],
        "sentence": "",
        "command": None,
    }
    return {"id": id, "label": label} | blank | fields


def _score(answers: Answers) -> Mapping[str, Any] | None:
    return answers["audit"]["score"] if "audit" in answers else None


def _priced(answers: Answers, after: Mapping[str, Any] | None) -> dict[str, Any]:
    before = _score(answers)
    if after is None:
        return {}
    if before is None:  # the audit of the model as it is has failed
        return {"above_chance": after["estimate"] > after["chance"]}
    return {
        "score_name": before["name"],
        "score_before_estimate": before["estimate"],
        "score_after_estimate": after["estimate"],
        "loss_estimate": before["estimate"] - after["estimate"],
        "above_chance": after["estimate"] > after["chance"],
    }


def _table_promise(fields: Mapping[str, Any], asked: StudyQuestion) -> tuple[bool, float]:
    """Return whether a table's certificate is enough, and the accuracy that it allows."""
    average = fields["delta_upper"] <= 2 * asked.eta
    every = fields["record_leak"]["max"] <= 2 * asked.eta
    enough = average and every if asked.record == "every" else average
    most = float(fields["accuracy_upper"])
    if enough and asked.record == "every":
        # What is promised to every record is the worst record's bound, not the average one's.
        most = max(most, accuracy_from_leak(fields["record_leak"]["max"], IidGame()))
    return bool(enough), most


def _nothing(answers: Answers, asked: StudyQuestion) -> dict[str, Any] | None:
    if "certify" not in answers:
        return None
    fields = answers["certify"]["result"]
    enough, most = _table_promise(fields, asked)
    said = (
        "The table is coarse and large enough: whatever is trained on it keeps the promise."
        if enough
        else "Nothing that keeps the promise is proved about the table or the model as they are."
    )
    score = _score(answers)
    return _remedy(
        "nothing",
        "Change nothing",
        protects=f"{asked.record} record" if enough else "average record",
        game="iid",
        enough=enough,
        accuracy_upper=most,
        confidence=fields["confidence"],
        sentence=said,
        **(_priced(answers, score) if score else {}),
    )


def _rows(answers: Answers, asked: StudyQuestion) -> dict[str, Any] | None:
    if "rows" not in answers:
        return None
    result = answers["rows"]["result"]
    needed = result["n_required"]
    if needed is None:
        return _remedy(*_REMEDIES["rows"], sentence=str(result["reason"]), game="iid")
    extra = max(0, int(needed) - int(result["rows"]))
    return _remedy(
        *_REMEDIES["rows"],
        protects=f"{asked.record} record",
        game="iid",
        enough=True,
        # Rows that are still to come: the plan promises 1 - 2η, not less.
        accuracy_upper=sum_up(0.5, asked.eta),
        confidence=result["confidence"],
        extra_rows=extra,
        sentence=f"{needed} rows of the same kind would be enough, {extra} more than there are.",
    )


def _coarser(answers: Answers, asked: StudyQuestion, source: str) -> dict[str, Any] | None:
    if "coarser" not in answers:
        return None
    said = answers["coarser"]
    result = said["result"]
    fields = result["after"]
    refusal = said.get("refusal_for_every_record")
    enough, most = _table_promise(fields, asked)
    sentence = f"{result['rows_released']} of {result['rows_read']} rows remain, in "
    sentence += f"{fields['atoms']} different cells."
    if said["score"] is None:
        sentence += (
            f" {asked.target} itself is coarser: no score on it compares with the present one."
        )
    elif said["score"]["models"] == 0:
        sentence += " No feature is left to learn from."
    if refusal is not None:
        sentence += " It protects the average record only; for every record: " + refusal
    return _remedy(
        *_REMEDIES["coarser"],
        protects="every record" if enough and asked.record == "every" else "average record",
        game="iid",
        enough=enough,
        accuracy_upper=most,
        confidence=fields["confidence"],
        information_kept_estimate=result["information_kept_estimate"],
        steps=list(result["steps"]),
        sentence=sentence,
        # Of a whole file only: harden takes no choice of columns.
        command=None
        if asked.columns is not None or asked.database_table is not None
        else command_of(
            "harden",
            source,
            {
                "--security": significant(asked.security, "given"),
                "--record-leak": None if refusal or asked.record != "every" else 2 * asked.eta,
                "--target": asked.target,
                "--confidence": asked.confidence,
                "--seed": asked.seed,
                "--out": "safe.parquet",
            },
        ),
        **_priced(answers, said["score"]),
    )


def _noise(
    answers: Answers, asked: StudyQuestion, source: str, record: str
) -> dict[str, Any] | None:
    step = f"protect-{record}"
    if step not in answers:
        return None
    said = answers[step]
    certificate = said["result"]["certificate"]
    blind = said["audit"]["average"]["blind"]
    promised = certificate["upper"] <= asked.eta
    return _remedy(
        *_REMEDIES[step],
        protects=f"{record} record",
        game="subset",
        enough=bool(promised and (record == "every" or asked.record == "average")),
        accuracy_upper=min(1.0, sum_up(blind, certificate["upper"])),
        confidence=certificate["confidence"],
        sentence=said["sentence"],
        command=command_of(
            "protect",
            source,
            {
                "--target": asked.target,
                "--learner": asked.learner,
                "--eta": asked.eta,
                "--record": record,
                "--game": "subset" if record == "every" else None,
                "--confidence": asked.confidence,
                "--columns": names_of(asked.columns),
                "--table": asked.database_table,
                "--out": "model.skops",
            },
        ),
        **_priced(answers, said["audit"]["score"]),
    )


def verdict(
    answers: Answers, listed: list[dict[str, Any]], asked: StudyQuestion, failed: list[str]
) -> dict[str, Any]:
    """Return the verdict: a level, one sentence, and what to do."""
    chosen = next((r for r in listed if r["recommended"]), None)
    safe = chosen if chosen is not None and chosen["id"] == "nothing" else None
    proved = _proved(answers, asked)
    if safe is not None:
        level = "safe"
        now = f"As it is, {_nobody(safe, asked)}, whatever is trained on this table."
    elif proved is not None:
        level = "exposed"
        now = proved
    else:
        level = "unproved"
        blind = answers["audit"]["average"]["blind"] if "audit" in answers else 0.5
        now = (
            f"As it is, it is not proved that nobody gains more than {points(asked.eta)} over "
            f"blind guessing about {_whom(asked.record)} membership, and no attack was proved to "
            f"be right more than {allowed(blind, asked.eta)} of the time."
        )
    if failed:
        level = "partial" if level != "exposed" else level
        now += f" This study is incomplete, without an answer from: {', '.join(failed)}."
    return {"level": level, "sentence": now, "advice": _advice(chosen, asked, safe is not None)}


def _whom(record: str) -> str:
    return "any record's" if record == "every" else "the average record's"


def _nobody(chosen: Mapping[str, Any], asked: StudyQuestion) -> str:
    """Return who is right how often at most, with what they know: a bound is one of its game."""
    if chosen["game"] == "iid":
        who = "nobody who knows the source of the records but not the table"
        whom = "any of its records'" if asked.record == "every" else "the average record's"
    else:
        who = "nobody who knows all records but not which half was drawn"
        whom = _whom(asked.record)
    sure = at_confidence(chosen["confidence"])
    most = percent(chosen["accuracy_upper"], "upper")
    return f"{who} is right about {whom} membership more than {most} of the time{sure}"


def _proved(answers: Answers, asked: StudyQuestion) -> str | None:
    """Return what attacks have proved against the model as it is, if more than is allowed.

    Both floors hold together at the confidence of the study, so taking one after looking is paid
    for (proofs/audit-subset-game.md claim 6).
    """
    if "audit" not in answers:
        return None
    average, worst = answers["audit"]["average"], answers["audit"]["worst"]
    sure = confident(asked.confidence)
    if average["lower"] > sum_up(average["blind"], asked.eta):
        return (
            f"As it is, the model gives its training records away: an attack is right about the "
            f"average record at least {percent(average['lower'], 'lower')} of the time "
            f"(confidence {sure})."
        )
    if asked.record == "every" and worst["lower"] > sum_up(worst["blind"], asked.eta):
        return (
            f"As it is, the model gives some of its training records away: an attack is right "
            f"about one of them at least {percent(worst['lower'], 'lower')} of the time "
            f"(confidence {sure})."
        )
    return None


def _advice(chosen: dict[str, Any] | None, asked: StudyQuestion, safe: bool) -> str:
    if safe:
        return "Nothing needs to be changed."
    if chosen is None:
        return (
            "None of the remedies tried is certified to keep everybody within "
            f"{points(asked.eta)} of blind guessing and leaves a model worth having; allow a "
            "larger eta, "
            + ("ask for the average record, " if asked.record == "every" else "")
            + "or collect more rows (extra_rows)."
        )
    name = f"{chosen['label'][0].lower()}{chosen['label'][1:]}"
    said = f"Recommended: {name}. Then {_nobody(chosen, asked)}"
    if chosen["id"] == "rows":
        return f"{said}; {chosen['extra_rows']} more rows are needed."
    if chosen["loss_estimate"] is not None:
        said += (
            f"; {chosen['score_name']} changes from about "
            f"{decimals(chosen['score_before_estimate'], 'estimate', 3)} to about "
            f"{decimals(chosen['score_after_estimate'], 'estimate', 3)}"
        )
    return said + "."
