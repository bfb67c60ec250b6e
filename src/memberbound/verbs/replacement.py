"""What could stand in the place of a model that leaks: a protected one of the same rows."""

from __future__ import annotations

import csv
import io
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from memberbound.answers import EstimateOf, Upper
from memberbound.attacks.model_audit import ModelAudit
from memberbound.errors import InputError
from memberbound.files import csv_codec
from memberbound.learners.examples import Task
from memberbound.quantities import decimals, percent
from memberbound.verbs.protect import protect

_ETA = 0.05


def command_of(verb: str, source: str, options: Mapping[str, object]) -> str:
    r"""Return a command line; options without a value are left out, names are joined by commas.

    The declared encoding of CSV files is one of the options.

    >>> from memberbound.files import csv_encoding
    >>> command_of("protect", "my table.csv", {"--eta": 0.05, "--record": None})
    "memberbound protect 'my table.csv' --eta 0.05"
    >>> command_of("protect", "t.csv", {"--columns": ("age", "height, cm")})
    'memberbound protect t.csv --columns \'age,"height, cm"\''
    >>> with csv_encoding("cp1252"):
    ...     command_of("protect", "t.csv", {})
    'memberbound protect t.csv --encoding cp1252'
    """
    parts = ["memberbound", verb, source]
    for name, value in options.items():
        if value is not None:
            parts += [name, _names(value) if isinstance(value, tuple) else str(value)]
    if csv_codec() != "utf-8":
        parts += ["--encoding", csv_codec()]
    return shlex.join(parts)


def _names(columns: Iterable[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(columns)
    return text.getvalue()


def other_learners(task: Task) -> tuple[str, ...]:
    """Return the learners that work well with noise on all rows.

    >>> other_learners("classification")
    ('logistic', 'boosting')
    """
    return ("ridge" if task == "regression" else "logistic", "boosting")


@dataclass(frozen=True)
class Replacement:
    """A protected model of the same rows: what it scores beside the present one, and promises."""

    learner: str
    score: str
    score_released_estimate: EstimateOf
    score_yours_estimate: EstimateOf
    success_upper: Upper
    command: str

    @property
    def sentence(self) -> str:
        """The advice."""
        after, before = (
            decimals(score, "estimate", 3)
            for score in (self.score_released_estimate, self.score_yours_estimate)
        )
        return (
            f"Replace it: a {self.learner} model of all rows with noise, {self.score} about "
            f"{after} against yours, about {before}. Then nobody, not even somebody who knows all "
            "other records, is right about any record's membership more than "
            f"{percent(self.success_upper, 'upper')} of the time. The choice between learners "
            "looked at scores of the rows, and that bound does not cover it."
        )


def rehearse_replacement(
    members: object,
    target: str,
    detail: ModelAudit,
    *,
    columns: tuple[str, ...] | None,
    seed: int,
) -> Replacement | None:
    """Try protected models of an audited model's rows and return the one that scores best.

    Scores are those of ``protect``, on rows that a trial was not trained on.  None where no learner
    can be trained on these rows, or none is better than one fixed answer.
    """
    evidence = detail.evidence
    yours = None
    if evidence is not None:
        yours = evidence.signals.score(0, evidence.truth, ~evidence.member)
    if evidence is None or yours is None:
        return None
    source = Path(members).name if isinstance(members, (str, os.PathLike)) else "TABLE"
    best: Replacement | None = None
    for learner in other_learners(evidence.task):
        try:
            answer = protect(
                members,
                target=target,
                learner=learner,
                eta=_ETA,
                columns=columns,
                # For trial: this model is thrown away, the real release draws its own noise.
                insecure_seed=seed,
            )
        except InputError:
            continue
        score, chance = answer.score_released, answer.score_baseline
        if score is None or answer.score is None or (chance is not None and score <= chance):
            continue
        if best is None or score > best.score_released_estimate:
            options = {
                "--target": target,
                "--learner": learner,
                "--eta": _ETA,
                "--columns": columns,
                "--out": "model.skops",
            }
            command = command_of("protect", source, options)
            best = Replacement(learner, answer.score, score, yours, answer.success_upper, command)
    return best
