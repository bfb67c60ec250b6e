"""What may be published: a certificate, or what settings alone promise; and its model card.

A study is computed from rows that nobody has paid for: its scores, floors, ceilings of the table
and its choices are for the owner of the rows (:class:`~memberbound.report.model.Report`).  What is
published is another type, :class:`Publication`.  Whatever is rendered for everybody takes that type
and no other, and it has no field for anything computed from rows but their number.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from memberbound.errors import InputError
from memberbound.games import ATTACKERS, NeighbourGame, SubsetGame
from memberbound.numerics.rounding import sum_up
from memberbound.quantities import confident, marked, points
from memberbound.report import prose
from memberbound.report.model import (
    Confidence,
    Name,
    Protected,
    Report,
    Right,
    Rule,
    Share,
    ShareName,
    typed_as,
)


@dataclass(frozen=True)
class Promise:
    """How often anybody is right about a record at most, in one game, by a certificate."""

    game: Literal["neighbour", "subset", "iid"]
    protects: Protected
    blind: Right
    accuracy_upper: Right
    confidence: Confidence
    theorems: tuple[str, ...] = ()
    #: Members found at most, by the share of false alarms, where the certificate has a curve.
    tpr_upper: Mapping[ShareName, Share] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ReleasedFile:
    """The file that is released, as the certificate beside it describes it."""

    name: Name
    sha256: Annotated[str, Rule(pattern="^[0-9a-f]{64}$")]
    kind: Name
    method: Name
    noise: Mapping[str, float | str] = field(default_factory=dict)
    #: The column whose values are persons, None where every row is one.
    unit: str | None = None
    #: Whether nobody knows the noise; a seed makes it known.
    secure: bool
    delta: Share | None = None
    epsilon_upper: float | None = None
    mu_upper: float | None = None
    mu_regret_upper: float | None = None


@dataclass(frozen=True, kw_only=True)
class Publication:
    """What everybody may see, ``of_study`` or ``of_release``.

    ``name`` is that of the table or of the released file; what was not declared is None.
    """

    name: str
    version: str
    rows: int | None
    columns: int | None
    target: str | None
    learner: str | None
    eta: float
    promises: tuple[Promise, ...]
    assumptions: tuple[str, ...]
    file: ReleasedFile | None = None

    @property
    def released(self) -> bool:
        """Whether this is about a file, and not about the settings of a study."""
        return self.file is not None

    @property
    def counted(self) -> Literal["rows", "persons"]:
        """What ``rows`` is the number of; of persons the number of rows is not known."""
        return "rows" if self.file is None or self.file.unit is None else "persons"

    @property
    def game(self) -> str:
        """The game of the first promise."""
        return self.promises[0].game

    @property
    def played(self) -> NeighbourGame | SubsetGame:
        """The game of the first promise, with whom it protects."""
        if self.game == "neighbour":
            return NeighbourGame()
        rows = max(2, self.rows or 2)
        every = self.protects == "every record"
        return SubsetGame(rows, rows // 2, "every" if every else "average")

    @property
    def protects(self) -> str:
        """Whom the first promise protects."""
        return self.promises[0].protects

    @property
    def theorems(self) -> tuple[str, ...]:
        """What the promises rest on, where a certificate says so."""
        return tuple(dict.fromkeys(name for each in self.promises for name in each.theorems))

    @classmethod
    def of_study(cls, report: Report) -> Publication:
        """Return what a study's settings and the table's shape say, whatever its rows hold.

        Guarantee: two reports of the same question about tables with as many rows that have a
        target, a number that is taken for public, and the same columns give equal publications;
        the study's numbers, steps, verdict and choices are not looked at.
        """
        asked, data = report.question, report.data
        # Which columns look like identifiers depends on the rows; how many there are does not.
        columns = {*data.columns, *data.left_out} - {data.target}
        blind = report.subset_game.blind
        whole, half = (min(1.0, sum_up(each, asked.eta)) for each in (0.5, blind))
        promises = [
            Promise("neighbour", "every record", 0.5, whole, 1.0),
            Promise("subset", "every record", blind, half, asked.confidence),
        ]
        assumed = dict.fromkeys(
            text for promise in promises for text in prose.assumed_of_release(promise.game)
        )
        return cls(
            name=data.name,
            version=report.version,
            rows=data.rows,
            columns=len(columns),
            target=asked.target,
            learner=None if report.defaulted("learner") else asked.learner,
            eta=asked.eta,
            promises=tuple(promises),
            assumptions=tuple(assumed),
        )

    @classmethod
    def of_release(cls, certificate: Mapping[str, object]) -> Publication:
        """Return what the certificate beside a released file says about attacks.

        Edge cases: what is no certificate of a release is refused.
        """
        try:
            bound, curve = certificate["certificate"], certificate.get("curve", {})
            if not isinstance(bound, Mapping) or not isinstance(curve, Mapping):
                raise TypeError("its certificate must be an object")
            blind = 0.5
            if bound["game"] == "subset":
                sizes = [certificate[name] for name in ("population", "size")]
                blind = SubsetGame(*sizes).blind  # type: ignore[arg-type]  # checked there
            promise = {
                "game": bound["game"],
                "protects": bound["protects"],
                "blind": blind,
                "accuracy_upper": min(1.0, sum_up(blind, float(bound["upper"]))),
                "confidence": bound["confidence"],
                "theorems": bound["theorems"],
                "tpr_upper": curve.get("replace_one", {}).get("tpr_upper", {}),
            }
            file = {
                "name": certificate["file"],
                "sha256": certificate["sha256"],
                "kind": certificate["kind"],
                "method": certificate["method"],
                "noise": {
                    name: value
                    for name, value in certificate["noise"].items()  # type: ignore[attr-defined]
                    if isinstance(value, (str, float, int))
                },
                "unit": certificate.get("unit"),
                "secure": certificate["secure_source"],
                "delta": curve.get("delta"),
                "epsilon_upper": curve.get("replace_one", {}).get("epsilon_upper"),
                "mu_upper": curve.get("mu_upper"),
                "mu_regret_upper": curve.get("mu_regret_upper"),
            }
            fields = {
                "name": certificate["file"],
                "version": certificate["version"],
                "rows": certificate.get("rows_trained", certificate.get("size")),
                "columns": None,
                "target": None,
                "learner": certificate.get("learner", certificate.get("estimator")),
                "eta": certificate["eta"],
                "promises": [promise],
                "assumptions": bound["assumptions"],
                "file": file,
            }
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise InputError(
                f"certificate must be one that protect wrote, got another: {problem}."
            ) from None
        return typed_as(cls, fields, "certificate")


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


def bullets(items: Iterable[str]) -> list[str]:
    """Return the lines of a list; the items are Markdown already."""
    return [f"- {item}" for item in items]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; the cells are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


# ── A model card's section on membership: ``model-index`` front matter and Markdown ───────────────
#
# The front matter follows the metadata of the Hugging Face Hub (``model-index``: name, results; a
# result has a task, a dataset and metrics; a metric has a type, a value, a name and args).  Numbers
# there are doubles.  In the text an upper bound is rounded up.

#: Metadata, as YAML takes it.
Fields = dict[str, object]
_OF_RELEASE = (
    "It holds for the file named below, whose certificate lies beside it, and for one release from "
    "these records."
)
_OF_SETTINGS = (
    "It holds against the attacker that the certificate beside the model's file names, and for one "
    "release "
    "from these records. It says nothing about a model that is trained in another way."
)
_NOT_HERE = (
    "**Nothing else is said about the records.** Scores, attacks that were tried and bounds of the "
    "table are computed from the records and paid for by no budget. They are in the report, which "
    "is for the owner of the records."
)


def model_card(published: Publication, stated: Mapping[str, str] | None = None) -> str:
    """Return the section: YAML between two lines of dashes, then Markdown."""
    import yaml

    head = yaml.safe_dump(front_matter(published), sort_keys=False, allow_unicode=True, width=100)
    return f"---\n{head}---\n\n" + "\n".join(_body(published, stated or {})) + "\n"


def front_matter(published: Publication) -> Fields:
    """Return the metadata as a dictionary: tags and a ``model-index``."""
    size = {published.counted: published.rows, "columns": published.columns}
    args = {name: value for name, value in size.items() if value is not None}
    result = {
        "task": {"type": "membership-inference", "name": "Membership inference"},
        "dataset": {"type": "local-table", "name": clean(published.name), "args": args},
        "metrics": [_metric(promise) for promise in published.promises],
    }
    learner = "" if published.learner is None else f"{clean(published.learner)}, "
    return {
        "tags": ["memberbound", "membership-inference", "privacy"],
        "model-index": [{"name": f"{learner}{clean(published.name)}", "results": [result]}],
    }


def _metric(promise: Promise) -> Fields:
    args: Fields = {
        "kind": "certificate",
        "game": promise.game,
        "protects": promise.protects,
        "blind_guess": promise.blind,
        "confidence": promise.confidence,
    }
    if promise.theorems:
        args["theorems"] = [clean(name) for name in promise.theorems]
    return {
        "type": "membership_inference_accuracy_upper",
        "value": promise.accuracy_upper,
        "name": f"{promise.protects}, {promise.game} game: certified ceiling",
        "args": args,
    }


def _body(published: Publication, stated: Mapping[str, str]) -> list[str]:
    every = any(promise.protects == "every record" for promise in published.promises)
    whom = "any record's" if every else "the average record's"
    commands = " or ".join(
        f"`memberbound {'protect' if game == 'neighbour' else 'protect-half'}`"
        for game in dict.fromkeys(promise.game for promise in published.promises)
    )
    subject = (
        "This release"
        if published.released
        else f"A model that {commands} releases with these settings"
    )
    more = points(published.eta).replace("point", "percentage point")
    rows = [
        [
            escaped(ATTACKERS[promise.game]),
            escaped(promise.protects),
            str(prose.blind_guess(promise.blind)),
            _ceiling(promise),
        ]
        for promise in published.promises
    ]
    curves = [
        f"At {marked(float(rate), 'given')} false alarms an attack identifies "
        f"{marked(most, 'certificate', 'tpr')} of the members (against {ATTACKERS[promise.game]})."
        for promise in published.promises
        for rate, most in promise.tpr_upper.items()
    ]
    games = [f"{each.game}: {prose.GAMES[each.game]}." for each in published.promises]
    limits = [f"**{title}.** {sentence}" for title, sentence in prose.RELEASE_LIMITS]
    return [
        "## Membership privacy",
        "",
        f"**{subject} lets nobody be right about {whom} membership in the training set more often "
        f"than a blind guess, by more than {more}.**",
        "",
        _OF_RELEASE if published.released else _OF_SETTINGS,
        "",
        *table(["who attacks", "protects", "blind guess", "≤ certified ceiling"], rows),
        "",
        *bullets([*games, *curves]),
        "",
        "### Limits",
        "",
        *bullets([_NOT_HERE, *limits]),
        "",
        "### Assumptions",
        "",
        *bullets(escaped(text) for text in published.assumptions),
        "",
        *_origin(published, stated),
    ]


def _ceiling(promise: Promise) -> str:
    most = marked(promise.accuracy_upper, "certificate")
    if most.kind != "certificate":
        return str(most)
    text = f"**{most}**, certified, confidence {confident(promise.confidence)}"
    names = ", ".join(escaped(id) for id in promise.theorems)
    return f"{text}, by {names}" if names else text


def _origin(published: Publication, stated: Mapping[str, str]) -> list[str]:
    facts = [
        ("Released file" if published.released else "Table", published.name),
        ("Learner", published.learner),
        ("Target", published.target),
        (published.counted.capitalize(), published.rows),
        ("Columns beside the target", published.columns),
        ("memberbound", published.version),
        *((name.replace("_", " "), text) for name, text in stated.items()),
    ]
    lines = [f"{name}: {escaped(value)}" for name, value in facts if value is not None]
    return ["### Where this comes from", "", *bullets(lines)]
