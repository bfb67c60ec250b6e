"""Evidence about a release in formats that others read: registry, bill of materials, checker.

Everything here is a fact of the certificate or of the study, or says that somebody has to fill it
in.  The formats are those of the OpenDP registry of deployments, of CycloneDX 1.6 and of ACRO,
whose files the SACRO viewer shows to output checkers.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from typing import Any

from memberbound.errors import InputError
from memberbound.quantities import NO_LEAK, SIGNS, confident, percent, significant
from memberbound.report.decision import KINDS, About, Case, costs, measure, promised
from memberbound.report.model import access_floors
from memberbound.report.publication import (
    Fields,
    Promise,
    Publication,
    ReleasedFile,
    clean,
    escaped,
    table,
)

#: What is not said and nobody can derive.
_FILL = "[to fill in]"
#: Kind of a released file → product of the registry; what is not here is a model.
_PRODUCTS = {"vector": "Summary statistics", "synthetic table": "Synthetic data"}
_UNPROTECTED = (
    "The number of rows (or of persons), the names and types of the columns, and the bounds and "
    "categories that were declared: they are taken as public and are not protected."
)
_FLOATING_POINT = (
    "Noise is drawn from the operating system's source and added on a grid of powers of two whose "
    "step depends on the scale only; what rounding can tell is bounded in total variation and part "
    "of the guarantee."
)
_COMPOSITION = (
    "All noisy sums of the release are Gaussian measurements of one budget: their squared shifts "
    "add up, exactly, to that of the whole (Gaussian differential privacy)."
)


def _file_of(published: Publication, format: str) -> ReleasedFile:
    if published.file is None:
        raise InputError(
            f"report must be the certificate of a release with format {format!r}, or come with "
            "--release; got a study alone, of which nothing is released."
        )
    return published.file


def _unit(file: ReleasedFile) -> str:
    return "one row" if file.unit is None else f"one value of the column {file.unit!r}"


def parameters(published: Publication) -> str:
    """Return what experts ask for: ε, δ and μ with what the single number hides."""
    file = published.file
    if file is None or published.game != "neighbour":
        return "No parameters of differential privacy: the promise is about a secret random half."
    stated = [f"η ≤ {significant(published.eta, 'upper')}"]
    if file.epsilon_upper is not None and file.delta is not None:
        epsilon = significant(file.epsilon_upper, "upper", 4)
        stated.append(f"ε ≤ {epsilon} at δ = {significant(file.delta, 'given')}")
    if file.mu_upper is not None and file.mu_regret_upper is not None:
        mu = significant(file.mu_upper, "upper", 5)
        regret = significant(file.mu_regret_upper, "upper", 2)
        stated.append(f"μ ≤ {mu} (Gaussian differential privacy, regret ≤ {regret})")
    return f"{'; '.join(stated)}; one record replaced."


# ── The registry of deployments ───────────────────────────────────────────────────────────────────


def registry_entry(published: Publication, about: About) -> str:
    """Return an entry of the OpenDP registry of deployments, as YAML; a draft of tier 3.

    Edge cases: a promise about a secret half is no differential privacy, and refused.
    """
    import yaml

    file, promise = _file_of(published, "dp-registry"), published.promises[0]
    if promise.game != "neighbour":
        raise InputError(
            "report must be the certificate of a release of all rows with format 'dp-registry', "
            f"got one of the {promise.game} game, which is no differential privacy."
        )
    size = {"n": published.rows, "unit": published.counted}
    entry: Fields = {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", file.name.lower()).strip("-"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": clean(file.name),
                "data_curators": [about.controller or _FILL],
                "intended_use": about.purpose or _FILL,
                "data_product_type": _PRODUCTS.get(file.kind, "Machine learning model"),
                "data_product_region": about.region or _FILL,
                "description": f"{KINDS.get(file.kind, file.kind)} ({file.kind}), made from a "
                f"table of {size['n']} {size['unit']}; SHA-256 {file.sha256}",
                "publication_date": about.publication_date or _FILL,
            },
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": f"Tables with exactly {size['n']} {size['unit']} and the declared "
                "columns.",
                "unprotected_quantities": _UNPROTECTED,
            },
            "privacy_loss": {
                "privacy_unit": _unit(file),
                "privacy_unit_details": f"Adjacent tables differ in {_unit(file)}, which is "
                "replaced by another; their size is the same.",
                "privacy_parameters": {"epsilon": file.epsilon_upper, "delta": file.delta},
                "privacy_parameters_details": f"{parameters(published)} The whole trade-off curve "
                f"is proved; nobody's guess about membership is right more than "
                f"{percent(promise.accuracy_upper, 'upper')} of the time.",
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": "The curator sees the table. Whoever sees the file may know every other "
                "record and work together with others.",
                "release_type": "One release",
                "release_type_details": "Further releases of the same rows add up; a ledger keeps "
                "their sum.",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "Whatever is computed from the noisy sums; it costs nothing.",
                "composition": _COMPOSITION,
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "Everything that was learnt from the "
                "rows, for encoding and tuning as well, was paid for from the same budget.",
                "mechanisms": f"Gaussian noise ({file.method}) by memberbound {published.version}."
                f" {_FLOATING_POINT}"
                + ("" if file.secure else " The noise of this file comes from a seed: a test."),
                "justification": about.limit_reason or _FILL,
            },
            "administrative": {
                "notes": "Assumptions: " + " ".join(published.assumptions),
                "registry_authors": list(about.authors) or [_FILL],
            },
        },
    }
    text: str = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=2**20)
    return text


# ── A bill of materials with a model card ─────────────────────────────────────────────────────────


def cyclonedx(published: Publication) -> str:
    """Return a CycloneDX 1.6 document: the released file, with metrics, slices and intervals."""
    file, promise = _file_of(published, "cyclonedx"), published.promises[0]
    metrics = _metrics(promise)
    component: Fields = {
        "type": "data" if file.kind in _PRODUCTS else "machine-learning-model",
        "name": clean(file.name),
        "hashes": [{"alg": "SHA-256", "content": file.sha256}],
    }
    expert = {
        "game": promise.game,
        "protects": promise.protects,
        "theorems": ", ".join(promise.theorems),
        "confidence": confident(promise.confidence),
        "parameters": parameters(published),
    }
    properties = [{"name": f"memberbound:{k}", "value": clean(v)} for k, v in expert.items()]
    if file.kind in _PRODUCTS:
        component["data"] = [{"type": "dataset", "name": clean(file.name)}]
        properties += [
            {"name": f"memberbound:{m['type']} ({m['slice']})", "value": m["value"]}
            for m in metrics
        ]
    else:
        component["modelCard"] = {
            "quantitativeAnalysis": {"performanceMetrics": metrics},
            "considerations": {
                "technicalLimitations": [clean(text) for text in published.assumptions],
                "ethicalConsiderations": [
                    {
                        "name": "Somebody finds out who was in the training data",
                        "mitigationStrategy": f"Noise in training. {parameters(published)}",
                    }
                ],
            },
        }
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {
                "components": [
                    {"type": "application", "name": "memberbound", "version": published.version}
                ]
            }
        },
        "components": [component | {"properties": properties}],
    }
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def _metrics(promise: Promise) -> list[dict[str, Any]]:
    """Return the certified numbers: each value is an upper bound, its interval starts at chance."""
    whom = f"{promise.protects}, {promise.game} game"
    bounds = [("accuracy", whom, promise.blind, promise.accuracy_upper)]
    for fpr, most in promise.tpr_upper.items():
        bounds.append(
            ("true positive rate", f"{whom}, false positive rate {fpr}", float(fpr), most)
        )
    return [
        {
            "type": f"membership inference {name}, certified upper bound",
            "value": repr(most),
            "slice": part,
            "confidenceInterval": {"lowerBound": repr(least), "upperBound": repr(most)},
        }
        for name, part, least, most in bounds
    ]


# ── What an output checker sees ───────────────────────────────────────────────────────────────────

#: The version of ACRO whose files these are.
_ACRO = "1.0.1"


def sacro_record(case: Case) -> str:
    """Return ``results.json`` as ACRO writes it, for the folder of the released file.

    The status is ``review``, because a checker decides; it is ``fail`` where an attack on a given
    model succeeded or a structural rule is broken.
    """
    given = None if case.report is None else case.report.answer("given")
    if case.file is None and given is None:
        raise InputError(
            "report must be the certificate of a release with format 'sacro', or a study with "
            "--release or of a given model; got a study of which nothing is released."
        )
    outcome: dict[str, object] = {}
    failed = case.file is not None and not case.file.secure
    comments: list[str] = []
    if case.file is not None:
        comments += promised(case)
        name = case.file.name
        facts: dict[str, object] = {"kind": case.file.kind, "sha256": case.file.sha256}
        if case.release is not None:
            promise = case.release.promises[0]
            facts |= {
                "accuracy_upper": promise.accuracy_upper,
                "confidence": promise.confidence,
                "protects": promise.protects,
                "parameters": parameters(case.release),
            }
    else:
        assert given is not None
        name, facts = case.studied.question.model or "model", {"kind": "given model"}
    if given is not None and case.file is None:
        for access, _, _, floor in access_floors(given):
            beaten = floor is not None and floor > 0.5
            failed = failed or beaten
            least = SIGNS["lower"] + percent(floor or 0.5, "lower") if beaten else NO_LEAK
            outcome[f"attack seeing {access}"] = least
        for fact in given["facts"]:
            failed = failed or not fact["passes"]
            state = "passed" if fact["passes"] else "failed"
            outcome[fact["name"]] = f"{state}: {fact['value']} ({fact['rule']})"
        comments += given["warnings"]
    record = {
        "uid": "output_0",
        "status": "fail" if failed else "review",
        "type": "custom",
        "properties": {"method": "memberbound"} | facts,
        "files": [{"name": clean(name), "sdc": {}}],
        "outcome": outcome,
        "command": "memberbound export --format sacro",
        "summary": "; ".join(f"{k}: {v}" for k, v in outcome.items()) or f"review; {comments[0]}",
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        "comments": [clean(text) for text in comments],
        "exception": "",
        "fair": {},
    }
    document = {"version": _ACRO, "results": {"output_0": record}}
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


# ── Which line answers which question ─────────────────────────────────────────────────────────────

_ATTACKERS = {
    "neighbour": "Somebody who knows every other record.",
    "subset": "Somebody who knows the whole table, but not which half was drawn.",
    "iid": "Somebody who knows the source of the records, but not the table.",
}


@lru_cache(maxsize=1)
def _questions() -> list[dict[str, Any]]:
    import yaml

    text = files("memberbound.report").joinpath("templates", "checklist.yaml").read_text("utf-8")
    questions: list[dict[str, Any]] = yaml.safe_load(text)
    return questions


def checklist(case: Case) -> str:
    """Return which line of ours answers which question of four standards, and which it does not."""
    promise, file = case.promise, case.file
    if promise is None:
        raise InputError(
            "report must recommend a release with format 'checklist', got a study in which nothing "
            "keeps the limit."
        )
    private = promise.game == "neighbour" and case.release is not None
    published = case.published
    given = "No parameters of differential privacy are certified."
    facts = {
        "success": percent(promise.accuracy_upper, "upper"),
        "blind": percent(promise.blind, "upper"),
        "whom": "every record (maximum)" if promise.protects == "every record" else "the average",
        "attacker": _ATTACKERS[promise.game],
        "rows": case.size or "– rows",
        "unit": "what is protected is " + ("one row." if file is None else f"{_unit(file)}."),
        "private": "answered" if private else "not answered",
        "parameters": parameters(published) if private else given,
        "theorems": ", ".join(promise.theorems) or "as the report lists them",
        "change": measure(case),
        "cost": " ".join(costs(case)) or "not measured.",
        "digest": "no file yet" if file is None else f"SHA-256 {file.sha256}",
        "attacks": "The study attacked models of this kind; its report has the attack success.",
    }
    lines = [
        f"# Checklist: {escaped(case.subject)}",
        "",
        "Which line of ours answers which question, and which it does not. The questions are "
        "paraphrased; the texts themselves count. “Answered” means that there is a number or a "
        "fact, not that anybody has approved it.",
    ]
    for standard in _questions():
        rows = []
        for row in standard["rows"]:
            studied = case.report is not None
            answer = row.get("study", row["answer"]) if studied else row["answer"]
            line = row.get("with_study", row["line"]) if studied else row["line"]
            cells = (row["ref"], row["asks"], answer.format(**facts), line.format(**facts))
            rows.append([escaped(cell) for cell in cells])
        lines += ["", f"## {standard['title']}", "", f"{standard['source']}", ""]
        lines += table(["", "question", "answer", "line"], rows)
    return "\n".join([*lines, "", f"Made by memberbound {case.version}."]) + "\n"
