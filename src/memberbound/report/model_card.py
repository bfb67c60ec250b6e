"""A model card's section on membership: ``model-index`` front matter and Markdown.

The front matter follows the metadata of the Hugging Face Hub (``model-index``: name, results; a
result has a task, a dataset and metrics; a metric has a type, a value, a name and args).  Numbers
there are the doubles of the report.  In the text an upper bound is rounded up and a lower one down.

A card is meant to be published, so it holds less than the report: no record's number, no seed
(it could tell who was drawn) and no fingerprint of the data (whoever knows all rows but one could
try them out against it).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memberbound.quantities import confident, marked, points, vacuous
from memberbound.report import prose
from memberbound.report.markdown import bullets, clean, escaped, table
from memberbound.report.marks import blind_guess, score
from memberbound.report.quantities import Quantity, Score, quantities, scores

__all__ = ["front_matter", "model_card"]

Report = Mapping[str, Any]
#: Ids of the Hub's metrics for the scores that a study estimates.
_SCORES = {"accuracy": "accuracy", "R²": "r_squared"}
_WHEN = ("before", "after")
_KINDS = (
    "**≤ certified ceiling**: proved. No attack whatsoever is right more often, in the stated "
    "game, under the assumptions below, with the stated confidence.",
    "**≈ estimate**: neither proved nor bounded. The truth may lie on either side.",
    "**≥ measured floor**: what an attack that was tried reaches at least, with the stated "
    "confidence. Other attacks may reach more, so a low floor is no guarantee.",
)
_ITS_OWN_ROW = (
    "**A ceiling belongs to its own row.** What is proved about a model with noise says nothing "
    "about the model as it is; it holds for what `memberbound protect` releases, with fresh noise. "
    "The models of the study were made for trial and thrown away."
)


def model_card(report: Report) -> str:
    """Return the section: YAML between two lines of dashes, then Markdown."""
    import yaml

    head = yaml.safe_dump(front_matter(report), sort_keys=False, allow_unicode=True, width=100)
    return f"---\n{head}---\n\n" + "\n".join(_body(report)) + "\n"


def front_matter(report: Report) -> dict[str, Any]:
    """Return the metadata as a dictionary: tags and a ``model-index``."""
    data, asked = report["data"], report["question"]
    results = []
    known = scores(report)
    if known:
        task = {
            "type": f"tabular-{clean(data['task'])}",
            "name": f"Prediction of {clean(data['target'])}",
        }
        metrics = [_score_metric(one) for one in known]
        results.append({"task": task, "dataset": _dataset(data), "metrics": metrics})
    found = quantities(report)
    if found:
        task = {"type": "membership-inference", "name": "Membership inference"}
        metrics = [_metric(quantity) for quantity in found]
        results.append({"task": task, "dataset": _dataset(data), "metrics": metrics})
    name = f"{clean(asked['learner'])} on {clean(data['name'])}"
    return {
        "tags": ["memberbound", "membership-inference", "privacy"],
        "model-index": [{"name": name, "results": results}],
    }


def _dataset(data: Mapping[str, Any]) -> dict[str, Any]:
    size = {"rows": data["rows"], "columns": len(data["columns"])}
    return {"type": "local-table", "name": clean(data["name"]), "args": size}


def _score_metric(one: Score) -> dict[str, Any]:
    return {
        "type": _SCORES.get(one.name, clean(one.name)),
        "value": one.estimate,
        "name": f"{clean(one.label)}: {clean(one.name)} on records not trained on (estimate)",
        "args": {"kind": "estimate", "subject": clean(one.subject)},
    }


def _metric(quantity: Quantity) -> dict[str, Any]:
    args: dict[str, Any] = {
        "kind": quantity.kind,
        "subject": clean(quantity.subject),
        "game": clean(quantity.game),
        "record": clean(quantity.record),
        "blind_guess": quantity.blind,
    }
    if quantity.confidence is not None:
        args["confidence"] = quantity.confidence
    if quantity.theorems:
        args["theorems"] = [clean(id) for id in quantity.theorems]
    for name, said in (("attack", quantity.attack), ("what", quantity.what)):
        if said is not None:
            args[name] = clean(said)
    return {
        # One type per kind: no ranking can put a ceiling beside a floor by accident.
        "type": f"membership_inference_accuracy_{quantity.side}",
        "value": quantity.value,
        "name": f"{clean(quantity.label)} ({clean(quantity.record)} record): {quantity.called}",
        "args": args,
    }


def _body(report: Report) -> list[str]:
    lines = ["## Membership privacy", ""]
    lines += _missing(report)
    said = report["verdict"]
    lines += [f"**{escaped(said['sentence'])}**", "", escaped(said["advice"]), ""]
    lines += _sandwich(report)
    lines += _remedies(report)
    lines += _translation(report)
    lines += _exposure(report)
    limits = [f"**{title}.** {sentence}" for title, sentence in prose.LIMITS]
    lines += ["### Limits", "", *bullets([_ITS_OWN_ROW, *limits]), ""]
    lines += _assumptions(report)
    return lines + _origin(report)


def _missing(report: Report) -> list[str]:
    if report["status"] == "complete":
        return []
    lines = ["**This study is partial.** These steps have no answer, so their numbers are missing:"]
    lines += [""]
    lines += bullets(
        f"{escaped(step['title'])}: {escaped(step['error'])}"
        for step in report["steps"]
        if step["state"] in ("failed", "stopped")
    )
    return [*lines, ""]


def _sandwich(report: Report) -> list[str]:
    rows = report["sandwich"]
    if not rows:
        return ["Nothing was certified, measured or estimated about membership.", ""]
    by_place: dict[tuple[str, str], dict[str, Quantity]] = {}
    for quantity in quantities(report):
        by_place.setdefault((quantity.subject, quantity.record), {})[quantity.side] = quantity
    head = ["what is seen", "record", "game", "blind guess"]
    head += ["≤ certified ceiling", "≈ estimate", "≥ measured floor"]
    cells = []
    for row in rows:
        found = by_place.get((row["subject"], row["record"]), {})
        cells.append(
            [
                *(escaped(row[name]) for name in ("label", "record", "game")),
                str(blind_guess(row["blind"])),
                *(_cell(found.get(side)) for side in ("upper", "estimate", "lower")),
            ]
        )
    games = dict.fromkeys(row["game"] for row in rows)
    return [
        "### How often can anybody be right about who was in the training set?",
        "",
        "Three kinds of numbers stand side by side and must not be mistaken for each other:",
        "",
        *bullets(_KINDS),
        "",
        *table(head, cells),
        "",
        "A dash: there is no such number. The games:",
        "",
        *bullets(f"{escaped(game)}: {prose.GAMES[game]}." for game in games),
        "",
    ]


def _cell(quantity: Quantity | None) -> str:
    if quantity is None:
        return "–"
    if quantity.side == "estimate":
        return f"{marked(quantity.value, 'estimate')}, estimated"
    sure = "" if quantity.confidence is None else f", confidence {confident(quantity.confidence)}"
    if quantity.side == "upper":
        if vacuous(quantity.value):
            return str(marked(quantity.value, "certificate"))
        names = ", ".join(escaped(id) for id in quantity.theorems)
        text = f"**{marked(quantity.value, 'certificate')}**, certified{sure}"
        return f"{text}, by {names}" if names else text
    floor = marked(quantity.value, "audit", blind=quantity.blind)
    text = f"*{floor}*, measured{sure}" if floor.kind == "audit" else f"{floor}{sure}"
    return text if quantity.attack is None else f"{text}, attack {escaped(quantity.attack)}"


def _remedies(report: Report) -> list[str]:
    listed = report["remedies"]
    if not listed:
        return []
    asked = report["question"]
    whom = "any record's" if asked["record"] == "every" else "the average record's"
    rows = []
    for remedy in listed:
        most = "–"
        if remedy["accuracy_upper"] is not None:
            most = str(marked(remedy["accuracy_upper"], "certificate"))
            if not vacuous(remedy["accuracy_upper"]):
                whose = "" if remedy["protects"] is None else f", {escaped(remedy['protects'])}"
                most = f"**{most}**, certified{whose}"
        cost = "–"
        if remedy["score_after_estimate"] is not None:
            before, after = (score(remedy[f"score_{when}_estimate"]) for when in _WHEN)
            cost = f"{escaped(remedy['score_name'])} {before} → {after}, estimated"
        name = escaped(remedy["label"]) + (" (recommended)" if remedy["recommended"] else "")
        rows.append([name, "yes" if remedy["enough"] else "no", most, cost])
    return [
        "### What each remedy promises and costs",
        "",
        f"Asked for: nobody is right about {whom} membership more often than a blind guess by more "
        f"than {points(asked['eta']).replace('point', 'percentage point')}.",
        "",
        *table(["remedy", "enough", "≤ certified ceiling", "≈ score"], rows),
        "",
        *_impossible(report),
    ]


def _impossible(report: Report) -> list[str]:
    found = [
        f"Not possible here: {escaped(step['title'])}. {escaped(step['error'])}"
        for step in report["steps"]
        if step["state"] == "impossible"
    ]
    return [*bullets(found), ""] if found else []


def _translation(report: Report) -> list[str]:
    said = report["translation"]
    if said is None:
        return []
    lines = ["### In terms of differential privacy", "", escaped(said["sentence"])]
    if said["population"] is not None:
        lines += ["", escaped(said["population"]["sentence"])]
    return [*lines, ""]


def _exposure(report: Report) -> list[str]:
    rows = []
    for entry in report["exposure"]:
        records = entry["records"]
        count = records["exposed_records"]
        all_rows = report["data"]["rows"]
        many = f"at least {count} of {all_rows} records are" if count else "no record is"
        rows.append(
            f"{escaped(entry['label'])}: {many} provably guessed better than blindly by the "
            f"attacks tried (measured, confidence {confident(records['confidence'])})."
        )
    return ["### Who is exposed", "", *bullets(rows), ""] if rows else []


def _assumptions(report: Report) -> list[str]:
    exact = [escaped(sentence) for sentence in report["assumptions"]]
    if not exact:
        return []
    plain = prose.assumed(dict(report))
    lines = ["### Assumptions", "", *bullets(plain), ""] if plain else ["### Assumptions", ""]
    return [*lines, "As the certificates and audits state them:", "", *bullets(exact), ""]


def _origin(report: Report) -> list[str]:
    data, asked = report["data"], report["question"]
    used = ", ".join(escaped(id) for id in report["theorems"]) or "none"
    lines = [
        f"Learner {escaped(asked['learner'])}, predicting {escaped(data['target'])}, on "
        f"{escaped(data['name'])}: {data['rows']} rows, {len(data['columns'])} columns.",
        f"Results that the certificates rest on (`memberbound theorems ID` states them): {used}.",
        f"Made by memberbound {escaped(report['version'])} from a study of "
        f"{escaped(report['run']['started'])}, format {escaped(report['schema'])}.",
    ]
    return ["### Where this comes from", "", *bullets(lines)]
