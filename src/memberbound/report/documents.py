"""What ``export`` writes about a release: a card, two pages to sign, an annex, and evidence.

Everything here is a fact of the certificate or of the study, or says that somebody has to fill it
in.  Formats of others are those of the Hugging Face Hub (``model-index``), of the OpenDP registry
of deployments, of CycloneDX 1.6 and of ACRO, whose files the SACRO viewer shows to output checkers.
"""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from memberbound.errors import InputError
from memberbound.games import ATTACKERS
from memberbound.quantities import (
    allowed,
    confident,
    marked,
    of_hundred,
    percent,
    points,
    significant,
)
from memberbound.report import template_text, words
from memberbound.report.model import access_floors
from memberbound.report.page import environment, filled_page
from memberbound.report.publication import About, Case, Promise, Publication, ReleasedFile

if TYPE_CHECKING:
    from jinja2 import Environment

#: What is not said and nobody can derive.
_FILL = "[to fill in]"

# ── Markdown from texts that may hold anything: names of columns, labels, messages ────────────────
#
# Characters that Markdown, its tables, HTML or mathematics give a meaning to become numeric
# character references, which every renderer shows as the character itself and none reads as markup.

_MARKUP = frozenset("\\`*_{}[]<>|~$&#@")
#: Without these a text at the start of a line would become a list, a heading or a rule.
_FIRST = re.compile(r"^(?:[-+=]|(\d+)[.)](?=\s|$))")
#: Addresses that some renderers turn into links by themselves.
_ADDRESS = re.compile(r"(?i)(?<=[a-z])(:)(?=//)|(?<=www)(\.)|(?<=mailto)(:)|(?<=xmpp)(:)")
#: Categories of characters that cannot be seen or turn the direction of what follows.
_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


def clean(text: object) -> str:
    r"""Return a text on one line, without characters that cannot be seen or stored.

    >>> clean("two\nlines, a\u202e turn and half a pair \ud800")
    'two lines, a turn and half a pair �'
    """
    whole = "".join("\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c for c in str(text))
    visible = (c for c in whole if c.isspace() or unicodedata.category(c) not in _UNSEEN)
    return " ".join("".join(visible).split())


def escaped(text: object) -> str:
    """Return a text that Markdown shows as it is, on one line.

    >>> escaped("a|b <c> `d`")
    'a&#124;b &#60;c&#62; &#96;d&#96;'
    >>> escaped("1. x"), escaped("- x")
    ('1&#46; x', '&#45; x')
    """
    # An empty text between two marks would be a mark itself.
    safe = "".join(f"&#{ord(c)};" if c in _MARKUP else c for c in clean(text)) or "–"
    safe = _ADDRESS.sub(lambda mark: f"&#{ord(mark.group())};", safe)
    first = _FIRST.match(safe)
    if first is None:
        return safe
    number = first.group(1) or ""
    return f"{number}&#{ord(safe[len(number)])};{safe[len(number) + 1 :]}"


@cache
def _markdown() -> Environment:
    """Return the environment of Markdown templates, in which every value is escaped."""
    from markupsafe import Markup

    def finalize(value: object) -> Markup:
        return value if isinstance(value, Markup) else Markup(escaped(value))

    return environment().overlay(finalize=finalize)


def _filled(template: str, **facts: object) -> str:
    """Return a Markdown document."""
    text = _markdown().get_template(template).render(words=words(), **facts)
    return text.rstrip("\n") + "\n"


def _filled_data(template: str, facts: Mapping[str, object]) -> Any:
    """Return what a YAML template holds, with facts for names in braces.

    A text that is nothing but a name becomes that fact, whatever its type; a key without a value
    is left out.
    """
    import yaml

    def filled(tree: Any) -> Any:
        if isinstance(tree, dict):
            items = ((key, filled(item)) for key, item in tree.items())
            return {key: item for key, item in items if item is not None}
        if isinstance(tree, list):
            return [filled(item) for item in tree]
        if not isinstance(tree, str):
            return tree
        name = re.fullmatch(r"{(\w+)}", tree)
        return tree.format_map(facts) if name is None else facts[name[1]]

    return filled(yaml.safe_load(template_text(template)))


def _yaml(tree: object, width: float = 2**20) -> str:
    import yaml

    text: str = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=width)
    return text


def _json(tree: object) -> str:
    return json.dumps(tree, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _facts(published: Publication) -> dict[str, Any]:
    """Return what everybody may see, by the names of the YAML templates."""
    promise, file = published.promise, published.file
    learner = "" if published.learner is None else f"{clean(published.learner)}, "
    counts = {published.counted: published.rows, "columns": published.columns}
    facts = {} if file is None else asdict(file) | {"unit": _unit(file), "what": _kind(file)}
    return (
        facts
        | asdict(promise)
        | {
            "name": clean(published.name),
            "title": f"{learner}{clean(published.name)}",
            "version": published.version,
            "counts": {name: value for name, value in counts.items() if value is not None},
            "size": f"{published.rows} {published.counted}",
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
#
# The front matter follows the metadata of the Hugging Face Hub (``model-index``: name, results; a
# result has a task, a dataset and metrics; a metric has a type, a value, a name and args).  Numbers
# there are doubles.  In the text an upper bound is rounded up.


def model_card(published: Publication, stated: Mapping[str, str] | None = None) -> str:
    """Return the section: YAML between two lines of dashes, then Markdown."""
    head = _yaml(_filled_data("model-index.yaml", _facts(published)), width=100)
    facts = {
        "Table" if published.file is None else "Released file": published.name,
        "Learner": published.learner,
        "Target": published.target,
        published.counted.capitalize(): published.rows,
        "Columns beside the target": published.columns,
        "memberbound": published.version,
    }
    facts |= {name.replace("_", " "): text for name, text in (stated or {}).items()}
    return _filled(
        "model-card.md.j2", head=head, published=published, facts=facts, attackers=ATTACKERS
    )


# ── In plain words ────────────────────────────────────────────────────────────────────────────────

_OF_ONE = "It says nothing about one given person: an unusual one may be much easier to find."

_SEEDED = "This file was made with a test seed, so that its noise can be worked out. Do not sign."


def _kind(file: ReleasedFile) -> str:
    kind: str = words()["kinds"].get(file.kind, file.kind)
    return kind


def what_it_is(case: Case, file: ReleasedFile) -> str:
    """Return what a file is, for everybody."""
    kind = _kind(file)
    predicts = kind.endswith("predicts") and case.report is not None
    return f"{kind} “{case.studied.data.target}”" if predicts else kind


def promised(case: Case) -> tuple[str, ...]:
    """Return the promise: one sentence, then whom it holds against."""
    promise = case.promise
    if promise is None:
        return ("Nothing is promised: nothing that was tried keeps within the limit.",)
    right = of_hundred(promise.accuracy_upper, "upper")
    blind = of_hundred(promise.blind, "lower")
    every = promise.protects == "every record"
    whom = "any one person was" if every else "a person picked by chance was"
    sentence = (
        f"Nobody who has {case.subject} can say whether {whom} in the data it was made from, and "
        f"be right more than {right} times in 100. A pure guess is right {blind} times in 100."
    )
    persons = case.release is not None and case.release.counted == "persons"
    more = [words()["knowing"]["persons" if persons else promise.game]]
    if not every:
        more.append(_OF_ONE)
    if promise.confidence < 1:
        sure = confident(promise.confidence)
        more.append(
            f"The limit was worked out from trials. It is right in at least {sure} of such cases."
        )
    return (sentence, *more)


def must_be_true(case: Case) -> list[str]:
    """Return what the signer states about the data, in plain words."""
    file, game = case.file, "neighbour" if case.promise is None else case.promise.game
    unit = None if file is None else file.unit
    parts = ["row" if unit is None else "persons", "apart", game, "always"]
    if file is not None and case.release is None:
        parts.append("studied")
    facts = {
        "unit": unit,
        "counted": "rows" if unit is None else "people",
        "name": None if file is None else file.name,
    }
    texts = words()["must_be_true"]
    return [text.format_map(facts) for part in parts for text in texts[part]]


def costs(case: Case) -> list[str]:
    """Return what the protection costs, as far as somebody has measured it."""
    if case.about.cost is not None:
        return [case.about.cost]
    remedy = case.remedy
    if remedy is None or remedy.change is None:
        return []
    before = percent(remedy.score_before_estimate, "estimate")
    after = percent(remedy.score_after_estimate, "estimate")
    what = "gives the right answer in about {} of cases"
    if remedy.score_name != "accuracy":
        what = "explains about {} of the differences between people"
    return [
        f"In a rehearsal, such a file {what.format(after)}; without protection, {before}.",
        "Both were measured on rows of the table, so they are for its owner only.",
    ]


def limit(case: Case) -> str:
    """Return the limit, and whether anybody chose it."""
    source = case.source
    eta = source.eta if isinstance(source, Publication) else source.question.eta
    blind = 0.5 if case.promise is None else case.promise.blind
    text = (
        f"At most {allowed(blind, eta)} of guesses may be right: {points(eta)} above a pure guess."
    )
    report = case.report
    default = report is not None and report.defaulted("eta") and eta == report.question.eta
    if default and case.about.limit_chosen_by is None:
        text += " This is the default of the software. Nobody has chosen it for these people yet."
    return text


def measure(case: Case) -> str:
    """Return what was done to protect people."""
    if case.file is not None and case.file.noisy:
        drawn = "drawn fresh and is kept nowhere" if case.file.secure else "drawn from a test seed"
        return f"Noise was added when the file was made. It was {drawn}."
    remedy = case.remedy
    return "Nothing." if remedy is None else f"As the study recommends: {remedy.label.lower()}."


def exposed(case: Case) -> str | None:
    """Return what attacks showed about the model without protection, where they showed anything."""
    if case.report is None:
        return None
    for subject, record, whom in (
        ("given", "average", "people"),
        ("model", "worst", "the person who is easiest to find"),
    ):
        row = case.report.row_of(subject, record)
        if row is not None and row.beaten is not None:
            right = of_hundred(row.beaten, "lower")
            return (
                f"Without protection, a tested attack was right about {whom} at least {right} "
                "times in 100."
            )
    return None


def warnings(case: Case) -> list[str]:
    """Return what keeps anybody from signing."""
    texts = []
    if case.file is not None and not case.file.secure:
        texts.append(_SEEDED)
    if case.promise is None:
        texts.append("No release is recommended. There is nothing to sign.")
    elif case.file is None:
        texts.append(
            "Draft: the file is not made yet. Make it, then print this page again with "
            "--release FILE, so that the page names it."
        )
    report, release = case.report, case.release
    if report is not None and not report.complete:
        texts.append("The study did not finish. It rests on the steps that did.")
    if report is not None and release is not None and release.promise.game == "neighbour":
        studied, made = report.data.rows, release.rows
        if release.counted == "rows" and made not in (None, studied):
            texts.append(
                f"The file was made from {made} rows, and the study is about {studied} rows."
            )
    return texts


def _plain_words(case: Case) -> dict[str, Any]:
    """Return what is said about a case in plain words, by the names of the templates."""
    return {
        "case": case,
        "what": None if case.file is None else what_it_is(case, case.file),
        "promised": promised(case),
        "costs": costs(case),
        "exposed": exposed(case),
        "limit": limit(case),
        "measure": measure(case),
        "must_be_true": must_be_true(case),
        "warnings": warnings(case),
    }


#: Points of the type, the largest first; with smaller type more fits onto two sheets.
SIZES = (10.5, 9.4, 8.4)


def render_decision(case: Case, size: float = SIZES[0]) -> str:
    """Return the two sheets to sign, about the file that is released."""
    promise, remedy = case.promise, case.remedy
    style = template_text("decision.css").replace("PAPER", case.about.paper)
    return filled_page(
        "decision.html.j2",
        style.replace("SIZE", f"{size}pt"),
        right=None if promise is None else of_hundred(promise.accuracy_upper, "upper"),
        blind=None if promise is None else of_hundred(promise.blind, "lower"),
        command=None if remedy is None or case.file is not None else remedy.command,
        check=shlex.join(["sha256sum", "FILE" if case.file is None else case.file.name]),
        **_plain_words(case),
    )


def dpia_annex(case: Case) -> str:
    """Return the annex of an impact assessment, in the order of Article 35(7) GDPR."""
    columns = None
    if case.report is not None:
        columns = ", ".join((*case.report.data.columns, case.report.data.target))
    return _filled("dpia.md.j2", columns=columns, **_plain_words(case))


# ── Evidence in formats of others ─────────────────────────────────────────────────────────────────

#: Kind of a released file → product of the registry; what is not here is a model.
_PRODUCTS = {"vector": "Summary statistics", "synthetic table": "Synthetic data"}


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
    if file is None or published.promise.game != "neighbour":
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
            "seeded": "" if file.secure else " The noise of this file comes from a seed: a test.",
            "authors": list(about.authors) or [_FILL],
        }
    )
    return _yaml(_filled_data("registry.yaml", facts))


# ── A bill of materials with a model card ─────────────────────────────────────────────────────────


def cyclonedx(published: Publication) -> str:
    """Return a CycloneDX 1.6 document: the released file, with metrics, slices and intervals."""
    table = _file_of(published, "cyclonedx").kind in _PRODUCTS
    metrics = _metrics(published.promise)
    kind = "data" if table else "machine-learning-model"
    facts = _facts(published) | {"component": kind, "metrics": metrics}
    document = _filled_data("cyclonedx.yaml", facts)
    (component,) = document["components"]
    del component["modelCard" if table else "data"]
    if table:
        component["properties"] += [
            {"name": f"memberbound:{m['type']} ({m['slice']})", "value": m["value"]}
            for m in metrics
        ]
    return _json(document)


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
    if case.file is not None:
        failed, comments, name = not case.file.secure, list(promised(case)), case.file.name
        facts: dict[str, object] = {"kind": case.file.kind, "sha256": case.file.sha256}
        if case.release is not None:
            stated = ("accuracy_upper", "confidence", "protects", "parameters")
            public = _facts(case.release)
            facts |= {key: public[key] for key in stated}
    else:
        assert given is not None
        name, facts = case.studied.question.model or "model", {"kind": "given model"}
        comments = given["warnings"]
        failed = not all(fact["passes"] for fact in given["facts"])
        for access, _, _, floor in access_floors(given):
            least = marked(floor or 0.5, "audit", blind=0.5)
            failed = failed or least.kind == "audit"
            outcome[f"attack seeing {access}"] = str(least)
        for fact in given["facts"]:
            state = "passed" if fact["passes"] else "failed"
            outcome[fact["name"]] = f"{state}: {fact['value']} ({fact['rule']})"
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
    return _json(_filled_data("sacro.yaml", record))


# ── Which line answers which question ─────────────────────────────────────────────────────────────


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
    none = "No parameters of differential privacy are certified."
    facts = {
        "success": percent(promise.accuracy_upper, "upper"),
        "blind": percent(promise.blind, "upper"),
        "whom": "every record (maximum)" if promise.protects == "every record" else "the average",
        "attacker": f"{ATTACKERS[promise.game].capitalize()}.",
        "rows": case.size or "– rows",
        "unit": "what is protected is " + ("one row." if file is None else f"{_unit(file)}."),
        "private": "answered" if private else "not answered",
        "parameters": parameters(published) if private else none,
        "theorems": ", ".join(promise.theorems) or "as the report lists them",
        "change": measure(case),
        "cost": " ".join(costs(case)) or "not measured.",
        "digest": "no file yet" if file is None else f"SHA-256 {file.sha256}",
        "attacks": "The study attacked models of this kind; its report has the attack success.",
    }
    standards = _filled_data("checklist.yaml", facts)
    return _filled("checklist.md.j2", case=case, standards=standards)
