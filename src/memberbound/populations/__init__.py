"""The verb ``population``: what does ε mean for *these* records?"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from memberbound.declarations import (
    ColumnRoles,
    DatabaseTable,
    Force,
    InputFile,
    Names,
    Option,
    Points,
    RecordsFile,
    Seed,
    Table,
)
from memberbound.errors import InputError, fraction, one_of, whole_number
from memberbound.files import check_output
from memberbound.populations.answer import PopulationAnswer, write_records
from memberbound.populations.exponential import Sampling, answer_exponential
from memberbound.populations.gaussian import answer_gaussian
from memberbound.populations.question import Amount, Question
from memberbound.subset.clipping import Query

__all__ = ["PopulationAnswer", "population"]


def population(
    table: Table,
    *,
    mechanism: Literal["gaussian", "exponential"] = "gaussian",
    query: Literal["mean", "sum"] = "mean",
    epsilon: float | None = None,
    sigma: float | None = None,
    delta: float | None = None,
    clip: Annotated[float, Option("number", metavar="C")] | None = None,
    sensitivity: float | None = None,
    candidates: Points | None = None,
    losses: InputFile | None = None,
    size: Annotated[int, Option("whole", metavar="K")] | None = None,
    target_pmp: Annotated[float, Option("number", metavar="E")] | None = None,
    target_success: float | None = None,
    releases: Annotated[int, Option("whole", least=1, most=1000000000)] = 1,
    columns: Names | None = None,
    roles: ColumnRoles | None = None,
    database_table: DatabaseTable | None = None,
    confidence: float = 0.95,
    subsets: Annotated[int, Option("whole", least=2, most=1000000)] | None = None,
    seed: Seed = 0,
    records: RecordsFile | None = None,
    force: Force = False,
    progress: Annotated[Callable[..., None], Option("progress", metavar="bounding every record")]
    | None = None,
) -> PopulationAnswer:
    """Say what a DP parameter means for the records of a known population.

    A uniform half of the records (or ``size`` of them) is drawn, and its mean or sum is released
    with Gaussian noise, or the exponential mechanism chooses among ``candidates``.  The attacker
    knows all records, the mechanism and the release, but not who was drawn.

    Guarantee: no attack on any record is right more often than ``success_upper``, and the release
    is (``pmp_epsilon_upper``, δ)-PMP for this population; with ``confidence`` where subsets are
    sampled.
    Theorem: X1, L24-P12, L24-L10 (Gaussian); X9 (one numeric column); L24-P9 corrected and X10
    (exponential).
    Assumes: D is a uniform subset of the given size and the noise is drawn as described.
    Edge cases: N odd draws (N-1)/2 records; equal rows are separate records; a population of equal
    rows has success equal to the blind guess.

    Args:
        table: a file or an object with one record per row; its numeric columns are used.
        mechanism: ``gaussian`` or ``exponential``.
        query: ``mean`` or ``sum`` (Gaussian mechanism).
        epsilon: the worst-case DP parameter to which the mechanism is calibrated.
        sigma: instead of ε, the standard deviation of the noise on the released query.
        delta: δ of all three ε; 1e-5 for Gaussian noise, 0 for the exponential mechanism.
        clip: records are scaled onto the ball of this radius first.
        sensitivity: instead of ``clip``, how far one replaced record moves the query (or the loss).
        candidates: file or array of the candidates of the exponential mechanism (L2 loss).
        losses: instead of candidates, an N×m array of losses of each candidate on each record.
        size: number of records drawn; half of them unless given.
        target_pmp: inverse: largest ε̃ that you accept; the noise or ε is found.
        target_success: inverse: largest success rate that you accept.
        releases: number of independent answers to the same Gaussian query, as one joint release.
        columns: use these columns only; all numbers but identifiers unless named.
        roles: column → ``number``, ``category``, ``date``, ``identifier`` or ``text``, where the
            inferred role is not the right one.
        database_table: the table inside a DuckDB or SQLite file.
        confidence: for sampled subsets.
        subsets: how many subsets to sample.
        seed: of the sampled subsets.
        records: CSV file for the bounds of every record.
        force: overwrite ``records``.
        progress: called with (done, total).

    Command line:
        memberbound population patients.csv --epsilon 10 --clip 5 --plot success.png
        memberbound population patients.csv --target-success 0.55 --clip 5
        memberbound population xy.csv --mechanism exponential --candidates c.csv --epsilon 5

    Examples:
        >>> rows = [index / 20 for index in range(-20, 20)]
        >>> answer = population(rows, epsilon=10, delta=1e-2, clip=5)
        >>> answer.pmp_epsilon_upper < 1 < answer.epsilon
        True
    """
    one_of("mechanism", mechanism, ("gaussian", "exponential"))
    out = None
    if records is not None:
        source = Path(table) if isinstance(table, (str, os.PathLike)) else None
        out = check_output(
            Path(records), name="records", formats=(".csv",), source=source, force=force
        )
    gaussian = mechanism == "gaussian"
    question = Question.about(
        table,
        Amount(epsilon, sigma, target_pmp, target_success),
        columns=columns,
        roles=roles,
        database_table=database_table,
        size=size,
        delta=(1e-5 if gaussian else 0.0) if delta is None else delta,
        clip=clip,
        sensitivity=sensitivity,
    )
    repeats = whole_number("releases", releases)
    if gaussian:
        for name, value in (("candidates", candidates), ("losses", losses), ("subsets", subsets)):
            if value is not None:
                raise InputError(f"{name} cannot be used with the Gaussian mechanism.")
        one_of("query", query, ("mean", "sum"))
        kind: Query = "sum" if query == "sum" else "mean"
        answer = answer_gaussian(question, query=kind, releases=repeats, progress=progress)
    else:
        if query != "mean" or repeats != 1:
            raise InputError("query and releases belong to the Gaussian mechanism.")
        sampling = Sampling(
            fraction("confidence", confidence, open_left=True, open_right=True),
            None if subsets is None else whole_number("subsets", subsets, at_least=2),
            whole_number("seed", seed, at_least=0),
        )
        answer = answer_exponential(
            question,
            candidates=candidates,
            losses=losses,
            sampling=sampling,
            progress=progress,
        )
    answer = replace(answer, roles=question.table.selection.roles)
    if out is None:
        return answer
    return replace(answer, records_out=write_records(answer, out, force=force))
