"""Evidence about a release in the formats of other tools and registries.

The formats are those of the Hugging Face Hub (``model-index``), the OpenDP registry of deployments,
CycloneDX 1.6, ACRO (shown to output checkers by the SACRO viewer), and a checklist of four
standards.  Every statement is a fact from the certificate or the study, or marked for completion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from memberbound.errors import InputError
from memberbound.games import ATTACKERS
from memberbound.quantities import confident, marked, percent
from memberbound.release.derivation import PREDICATE_TYPE
from memberbound.report.decision import costs, describe_promise, measure
from memberbound.report.markdown import clean, fill_markdown
from memberbound.report.page import environment
from memberbound.report.publication import (
    About,
    Case,
    Promise,
    Publication,
    ReleasedFile,
    kind_in_words,
    parameters,
    unit_in_words,
)

if TYPE_CHECKING:
    from jinja2 import Environment

#: Marks a statement that neither the certificate nor the study contains.
_FILL = "[to fill in]"
#: The registry's product for each kind of released file; other kinds are models.
_PRODUCTS = {"vector": "Summary statistics", "synthetic table": "Synthetic data"}


def _file_of(published: Publication, format: str) -> ReleasedFile:
    if published.file is None:
        raise InputError(
            f"report must be the certificate of a release with format {format!r}, or come with "
            "--release; got a study alone, of which nothing is released."
        )
    return published.file


# ── Structured documents: YAML templates, rendered by Jinja ───────────────────────────────────────


@cache
def _yaml_templates() -> Environment:
    """Return the Jinja environment of YAML templates, which writes every value as YAML."""
    from markupsafe import Markup

    def finalize(value: object) -> Markup:
        return value if isinstance(value, Markup) else Markup(_inline_yaml(value))

    templates = environment().overlay(finalize=finalize)
    templates.filters["plain"] = lambda value: Markup(clean(value))
    return templates


def _inline_yaml(value: object) -> str:
    """Return a value as YAML on one line.

    >>> _inline_yaml("a: b"), _inline_yaml(1e-05), _inline_yaml({"n": 3, "x": None})
    ('"a: b"', '1.0e-05', '{n: 3, x: null}')
    """
    import yaml

    style = '"' if isinstance(value, str) else None
    text: str = yaml.safe_dump(
        value, default_style=style, default_flow_style=True, allow_unicode=True, width=2**20
    )
    return text.removesuffix("...\n").strip()


def _fill_data(template: str, facts: Mapping[str, object]) -> Any:
    """Render a YAML template and return its data, without keys that have no value."""
    import yaml

    def prune(tree: object) -> object:
        if isinstance(tree, dict):
            return {key: prune(item) for key, item in tree.items() if item is not None}
        return [prune(item) for item in tree] if isinstance(tree, list) else tree

    return prune(yaml.safe_load(_yaml_templates().get_template(template).render(facts)))


def _yaml(tree: object) -> str:
    import yaml

    text: str = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=2**20)
    return text


def _json(tree: object) -> str:
    return json.dumps(tree, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _facts(published: Publication) -> dict[str, object]:
    """Return the public facts of a release, by their names in the YAML templates."""
    promise, file = published.promise, published.file
    learner = "" if published.learner is None else f"{clean(published.learner)}, "
    counts = {published.counted: published.rows, "columns": published.columns}
    facts = (
        {}
        if file is None
        else asdict(file) | {"unit": unit_in_words(file), "what": kind_in_words(file)}
    )
    return (
        facts
        | asdict(promise)
        | {
            "name": clean(published.name),
            "title": f"{learner}{clean(published.name)}",
            "version": published.version,
            "counts": {name: value for name, value in counts.items() if value is not None},
            "size": f"{'–' if published.rows is None else published.rows} {published.counted}",
            "theorems": [clean(name) for name in promise.theorems] or None,
            "theorem_ids": ", ".join(map(clean, promise.theorems)),
            "sure": confident(promise.confidence),
            "success": percent(promise.accuracy_upper, "upper"),
            "parameters": parameters(published),
            "assumptions": [clean(text) for text in published.assumptions],
            "notes": " ".join(published.assumptions),
        }
    )


# ── A model card's section on membership: ``model-index`` front matter and Markdown ───────────────


#: Characters with a meaning in HTML or Markdown → characters that ``clean`` removes from names.
_HIDDEN = str.maketrans({c: chr(0xE000 + i) for i, c in enumerate("<>&[]`")})


def _front_matter(tree: object) -> str:
    r"""Return YAML that is also harmless if a page shows it as Markdown or HTML.

    Special characters are written as YAML escapes, so YAML readers see them unchanged.

    >>> print(_front_matter({"name": "<b>", "kind": "table"}), end="")
    name: "\x3Cb\x3E"
    kind: table
    """
    import yaml

    escapes = str.maketrans({mark: f"\\x{code:02X}" for code, mark in _HIDDEN.items()})

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]
        pass

    def represent(dumper: Any, text: str) -> Any:
        safe = text.translate(_HIDDEN)
        return dumper.represent_scalar(
            "tag:yaml.org,2002:str", safe, style=None if safe == text else '"'
        )

    Dumper.add_representer(str, represent)
    text: str = yaml.dump(tree, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text.translate(escapes)


def model_card(published: Publication, stated: Mapping[str, str] | None = None) -> str:
    """Return the section: YAML between two lines of dashes, then Markdown."""
    head = _front_matter(_fill_data("model-index.yaml.j2", _facts(published)))
    facts = {
        "Table" if published.file is None else "Released file": published.name,
        "Learner": published.learner,
        "Target": published.target,
        published.counted.capitalize(): published.rows,
        "Columns beside the target": published.columns,
        "memberbound": published.version,
    }
    facts |= {name.replace("_", " "): text for name, text in (stated or {}).items()}
    return fill_markdown(
        "model-card.md.j2", head=head, published=published, facts=facts, attackers=ATTACKERS
    )


# ── The registry of deployments ───────────────────────────────────────────────────────────────────


def registry_entry(published: Publication, about: About) -> str:
    """Return an entry of the OpenDP registry of deployments, as YAML; a draft of tier 3.

    Edge cases: a guarantee about a secret half is not differential privacy, and is rejected.
    """
    file, game = _file_of(published, "dp-registry"), published.promise.game
    if game != "neighbour":
        raise InputError(
            "report must be the certificate of a release of all rows with format 'dp-registry', "
            f"got one of the {game} game, which is no differential privacy."
        )
    stated = {name: value or _FILL for name, value in asdict(about).items()}
    facts = (
        stated
        | _facts(published)
        | {
            "slug": re.sub(r"[^a-z0-9]+", "-", file.name.lower()).strip("-"),
            "product": _PRODUCTS.get(file.kind, "Machine learning model"),
            "seeded": "" if file.secure else "The noise of this file comes from a seed: a test.",
            "authors": list(about.authors) or [_FILL],
        }
    )
    return _yaml(_fill_data("registry.yaml.j2", facts))


# ── A bill of materials with a model card ─────────────────────────────────────────────────────────


def cyclonedx(published: Publication) -> str:
    """Return a CycloneDX 1.6 document: the released file, with metrics, slices and intervals."""
    table = _file_of(published, "cyclonedx").kind in _PRODUCTS
    metrics = _metrics(published.promise)
    kind = "data" if table else "machine-learning-model"
    facts = _facts(published) | {"component": kind, "metrics": metrics}
    document = _fill_data("cyclonedx.yaml.j2", facts)
    (component,) = document["components"]
    del component["modelCard" if table else "data"]
    if table:
        component["properties"] += [
            {"name": f"memberbound:{m['type']} ({m['slice']})", "value": m["value"]}
            for m in metrics
        ]
    return _json(document)


def in_toto(case: Case) -> str:
    """Return an in-toto statement: the subject is the released file, the predicate its certificate.

    It is unsigned: cosign, GPG or any other tool signs it (docs/howto/verify-a-certificate.md).
    """
    file = _file_of(case.published, "in-toto")
    if case.certificate is None:
        raise InputError("release must come with its certificate for format 'in-toto', got none.")
    return _json(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": file.name, "digest": {"sha256": file.sha256}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": dict(case.certificate),
        }
    )


def _metrics(promise: Promise) -> list[dict[str, object]]:
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


# ── Records for output checkers ───────────────────────────────────────────────────────────────────


def sacro_record(case: Case) -> str:
    """Return ``results.json`` in ACRO's format, for the folder of the released file.

    The status is ``review``, because a checker decides, or ``fail`` if an attack on a given model
    succeeded or a structural rule is broken.
    """
    given = None if case.report is None else case.report.given
    if case.file is None and given is None:
        raise InputError(
            "report must be the certificate of a release with format 'sacro', or a study with "
            "--release or of a given model; got a study of which nothing is released."
        )
    outcome: dict[str, object] = {}
    if case.file is not None:
        failed, comments, name = not case.file.secure, list(describe_promise(case)), case.file.name
        facts: dict[str, object] = {"kind": case.file.kind, "sha256": case.file.sha256}
        if case.release is not None:
            stated = ("accuracy_upper", "confidence", "protects", "parameters")
            public = _facts(case.release)
            facts |= {key: public[key] for key in stated}
    else:
        assert given is not None
        name, facts = case.studied.question.model or "model", {"kind": "given model"}
        comments = list(given.warnings)
        failed = not all(fact.passes for fact in given.facts)
        for floor in given.access_floors():
            least = marked(floor.lower or 0.5, "audit", blind=0.5)
            failed = failed or least.kind == "audit"
            outcome[f"attack seeing {floor.access}"] = str(least)
        for fact in given.facts:
            state = "passed" if fact.passes else "failed"
            outcome[fact.name] = f"{state}: {fact.value} ({fact.rule})"
    listed = "; ".join(f"{name}: {text}" for name, text in outcome.items())
    record = {
        "status": "fail" if failed else "review",
        "properties": {"method": "memberbound"} | facts,
        "name": clean(name),
        "outcome": outcome,
        "summary": listed or f"review; {comments[0]}",
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        "comments": [clean(text) for text in comments],
    }
    return _json(_fill_data("sacro.yaml.j2", record))


# ── Checklist of four standards ───────────────────────────────────────────────────────────────────


def checklist(case: Case) -> str:
    """Return a checklist: the answers to the questions of four standards, and open questions."""
    promise, file = case.promise, case.file
    if promise is None:
        raise InputError(
            "report must recommend a release with format 'checklist', got a study in which nothing "
            "keeps the limit."
        )
    private = promise.game == "neighbour" and case.release is not None
    published = case.published
    none = "No parameters of differential privacy are certified."
    facts = {
        "success": percent(promise.accuracy_upper, "upper"),
        "blind": percent(promise.blind, "upper"),
        "whom": "every record (maximum)" if promise.protects == "every record" else "the average",
        "attacker": f"{ATTACKERS[promise.game].capitalize()}.",
        "rows": case.size or "– rows",
        "unit": "what is protected is "
        + ("one row." if file is None else f"{unit_in_words(file)}."),
        "private": "answered" if private else "not answered",
        "parameters": parameters(published) if private else none,
        "theorems": ", ".join(promise.theorems) or "as the report lists them",
        "change": measure(case),
        "cost": " ".join(costs(case)) or "not measured.",
        "digest": "no file yet" if file is None else f"SHA-256 {file.sha256}",
        "attacks": "The study attacked models of this kind; its report has the attack success.",
    }
    return fill_markdown("checklist.md.j2", case=case, **facts)
