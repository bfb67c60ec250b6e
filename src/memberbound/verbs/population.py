"""The verb ``population``: what does ε mean for *these* records?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import pandas as pd

from memberbound.declarations import (
    Column,
    ColumnRoles,
    DatabaseTable,
    Encoding,
    Force,
    Names,
    Option,
    Points,
    Progress,
    RecordsFile,
    TableLike,
)
from memberbound.errors import (
    InputError,
    finite_number,
    fraction,
    nonnegative,
    one_of,
    positive,
    whole_number,
)
from memberbound.files import check_output
from memberbound.games import SubsetGame, member_name
from memberbound.numerics.rounding import FloatArray, up
from memberbound.quantities import significant
from memberbound.subset.clipping import clipped
from memberbound.subset.distances import MOST_PAIRED_RECORDS, largest_entry
from memberbound.subset.exponential import ExponentialMechanism, clip_sensitivity, l2_losses
from memberbound.subset.exponential_setting import ExponentialSetting
from memberbound.subset.gaussian import GaussianSetting, NoisySum
from memberbound.subset.population_record import PopulationRecord, digest_of_rows, short_points
from memberbound.subset.profile import NeighbourProfile
from memberbound.subset.record_bounds import Asked, Solution
from memberbound.tables.frame_files import write_table
from memberbound.tables.opening import path_of, use_table
from memberbound.tables.public_rows import read_population
from memberbound.tables.table import Table
from memberbound.verbs.population_answer import (
    MethodBounds,
    PopulationAnswer,
    RecordAtRisk,
)


def population(
    table: TableLike,
    *,
    mechanism: Literal["gaussian", "exponential"] = "gaussian",
    query: Literal["mean", "sum"] = "mean",
    epsilon: float | None = None,
    sigma: float | None = None,
    delta: float | None = None,
    clip: Annotated[float, Option("number", metavar="C")] | None = None,
    sensitivity: float | None = None,
    candidates: Points | None = None,
    size: int | None = None,
    target_pmp: Annotated[float, Option("number", metavar="E")] | None = None,
    target_success: float | None = None,
    columns: Names | None = None,
    roles: ColumnRoles | None = None,
    unit: Column | None = None,
    database_table: DatabaseTable | None = None,
    encoding: Encoding | None = None,
    confidence: float = 0.95,
    subsets: int | None = None,
    seed: int = 0,
    records: RecordsFile | None = None,
    force: Force = False,
    progress: Annotated[Callable[..., None], Option("progress", metavar="bounding every record")]
    | None = None,
) -> PopulationAnswer:
    """Translate ε into attack success on these records, or find the ε for a target.

    A uniform half of the records (or ``size`` of them) is drawn, and its mean or sum is released
    with Gaussian noise, or the exponential mechanism selects one of the ``candidates``.  The
    attacker knows all records, the mechanism and the release, but not which records were drawn.

    Guarantee: no attack on any record is right more often than ``success_upper``, and the release
    is (``pmp_epsilon_upper``, δ)-PMP for this population; with ``confidence`` if subsets are
    sampled.
    Theorem: X1, L24-P12, L24-L10, X21 (Gaussian); X9 (one numeric column); L24-P9 corrected and X10
    (exponential).
    Assumes: D is a uniform subset of the given size and the noise is drawn as described.
    Edge cases: for odd N, (N-1)/2 records are drawn; equal rows are separate records; if all rows
    are equal, the success rate is that of blind guessing.  Beyond 20 000 records, mean squared
    distances replace pairwise distances, so that time grows linearly.

    Args:
        table: a file or a table, one record per row; its numeric columns are used.
        mechanism: how the noise is added.
        query: what the Gaussian mechanism releases.
        epsilon: the ε to which the mechanism is calibrated.
        sigma: instead of ε: the standard deviation of the noise on the released query.
        delta: δ (default: 1e-5 for Gaussian noise, 0 for the exponential mechanism).
        clip: clip records to this norm first.
        sensitivity: instead of ``clip``: the largest change of the query (or the loss) when one
            record is replaced.
        candidates: points from which the exponential mechanism selects by L2 loss: a file or an
            array.
        size: number of records drawn (default: half of them).
        target_pmp: find the noise or ε for at most this ε̃ (PMP).
        target_success: find the noise or ε for at most this attack success rate.
        columns: columns to use (default: all numeric ones but identifiers).
        unit: column that identifies the person; only each person's first row is used, so that a
            record is a person.
        confidence: of bounds from sampled subsets.
        subsets: number of subsets to sample.
        seed: for the sampled subsets.
        records: write each record's bounds to this CSV file.
        force: overwrite ``records``.

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
        out = check_output(
            records, name="records", formats=(".csv",), source=path_of(table), force=force
        )
    gaussian = mechanism == "gaussian"
    asked, amount = _parse_amount(epsilon, sigma, target_pmp, target_success)
    if delta is None:
        delta = 1e-5 if gaussian else 0.0
    fraction("delta", delta, open_right=True)
    level = fraction("confidence", confidence, open_left=True, open_right=True)
    data, selection = read_population(
        table,
        columns,
        roles=roles,
        numeric=True,
        database_table=database_table,
        encoding=encoding,
        unit=unit,
    )
    total = data.values.shape[0]
    if total < _FEWEST_RECORDS:
        raise InputError(f"{data.name} must hold at least {_FEWEST_RECORDS} records, got {total}.")
    drawn = total // 2 if size is None else whole_number("size", size)
    notes = [*selection.notes, *_remarks(data, unit)]
    if size is None and total % 2:
        notes.append(f"{total} {member_name(unit)}s cannot be halved; {drawn} are drawn")
    question = _Question(
        values=data.values,
        game=SubsetGame(total, drawn),
        asked=asked,
        amount=amount,
        delta=float(delta),
        clip=None if clip is None else positive("clip", clip),
        sensitivity=None if sensitivity is None else positive("sensitivity", sensitivity),
        notes=notes,
        who=member_name(unit),
        progress=progress,
    )
    record = PopulationRecord(
        rows_sha256=digest_of_rows(question.values),
        columns=tuple(data.columns),
        asked=question.asked,
        amount=question.amount,
        clip=question.clip,
        sensitivity=question.sensitivity,
        unit=unit,
    )
    setting: GaussianSetting | ExponentialSetting
    if gaussian:
        for name, value in (("candidates", candidates), ("subsets", subsets)):
            if value is not None:
                raise InputError(f"{name} cannot be used with the Gaussian mechanism.")
        one_of("query", query, ("mean", "sum"))
        noisy, moved = _gaussian_setting(question, drawn if query == "mean" else 1)
        setting, solution = noisy.solve(asked, amount)
        profile, release = noisy.noisy.profile, str(query)
        record = replace(record, reach=noisy.sensitivity, divisor=noisy.divisor)
    else:
        if asked == "sigma":
            raise InputError("sigma applies only to the Gaussian mechanism; give epsilon instead.")
        if query != "mean":
            raise InputError("query applies only to the Gaussian mechanism.")
        points = _matrix(candidates, encoding)
        chooser, moved = _mechanism(question, points)
        draws = None if subsets is None else whole_number("subsets", subsets, at_least=2)
        start = whole_number("seed", seed, at_least=0)
        choice = ExponentialSetting(chooser, question.delta, level, draws, start, progress)
        setting, solution = choice.solve(asked, amount)
        profile = NeighbourProfile.from_vectors(data.values)
        release = f"choice among {chooser.losses.shape[1]} candidates"
        record = replace(record, subsets=draws, seed=start, candidates=short_points(points))
    answer = _answer(
        question,
        solution,
        profile,
        setting=replace(setting, progress=None),
        mechanism=mechanism,
        query=release,
        roles=selection.roles,
        unit=unit,
        clipped_records=moved,
        derivation=replace(record, diameter=profile.diameter),
    )
    if out is None:
        return answer
    write_table(answer.records_table(), out, force=force, private=True)
    return replace(answer, records_out=str(out))


# ── The question ──────────────────────────────────────────────────────────────────────────────────

#: Minimum number of records.
_FEWEST_RECORDS = 4


def _parse_amount(
    epsilon: float | None,
    sigma: float | None,
    target_pmp: float | None,
    target_success: float | None,
) -> tuple[Asked, float]:
    """Return which of the four was given, and its value."""
    every: dict[Asked, float | None] = {
        "epsilon": epsilon,
        "sigma": sigma,
        "target_pmp": target_pmp,
        "target_success": target_success,
    }
    amounts = {name: value for name, value in every.items() if value is not None}
    if len(amounts) != 1:
        raise InputError(
            "population needs exactly one of epsilon, sigma, target_pmp and target_success, "
            f"got {' and '.join(amounts) or 'none of them'}."
        )
    ((name, value),) = amounts.items()
    if name == "target_success":
        return name, fraction(name, value, open_left=True, open_right=True)
    return name, nonnegative(name, value) if name == "epsilon" else positive(name, value)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Question:
    """The records of the population and the question about them."""

    values: FloatArray
    game: SubsetGame
    asked: Asked
    amount: float
    delta: float
    clip: float | None
    sensitivity: float | None
    notes: list[str]
    who: str
    progress: Progress | None

    def clipped_values(self) -> tuple[FloatArray, int | None]:
        """Return the records, clipped if required, and how many were clipped."""
        return (self.values, None) if self.clip is None else clipped(self.values, self.clip)


def _remarks(table: Table, unit: str | None) -> list[str]:
    """Return notes about unusual properties of the records."""
    notes = []
    repeated = int(pd.DataFrame(table.values).duplicated().sum())
    if repeated and unit is None:
        notes.append(
            f"{repeated} records repeat another one; a person with two rows is protected as two "
            "records"
        )
    spread = np.array([column.std() for column in table.values.T])
    if spread.max() > 0 and (spread < spread.max() / 100).any():
        widest = table.columns[int(spread.argmax())]
        notes.append(
            f"column {widest!r} varies over 100 times more than another and dominates the "
            "distances, so consider scaling the columns"
        )
    return notes


def _answer(
    question: _Question,
    solution: Solution,
    profile: NeighbourProfile,
    *,
    setting: GaussianSetting | ExponentialSetting,
    mechanism: str,
    query: str,
    roles: dict[str, str],
    unit: str | None,
    clipped_records: int | None,
    derivation: PopulationRecord,
) -> PopulationAnswer:
    """Build the answer; the keywords describe the release."""
    game, bounds, compared = question.game, solution.bounds, solution.compared
    epsilon, inside, coupled = solution.epsilon, solution.epsilon_population, solution.coupled
    mean_distance = profile.mean_distance
    typical = float(np.median(mean_distance))
    return PopulationAnswer(
        records=game.population,
        size=game.size,
        epsilon=epsilon,
        delta=bounds.delta,
        epsilon_population=inside,
        # At most the worst case over the population, and over all data sets.
        pmp_epsilon_upper=min(bounds.pmp_epsilon_upper, inside, epsilon),
        eta_upper=bounds.eta_upper,
        success_upper=compared.practical,
        success_worst_case_upper=compared.worst_case,
        success_population_upper=compared.population,
        success_blind=game.blind,
        sigma=solution.sigma,
        worst_record=bounds.worst_record,
        most_exposed=tuple(
            RecordAtRisk(
                int(row),
                float(bounds.pmp_epsilon[row]),
                float(bounds.success[row]),
                float(mean_distance[row]),
                float(mean_distance[row]) / typical if typical > 0 else None,
            )
            for row in bounds.by_exposure[:5]
        ),
        method=bounds.method,
        confidence=bounds.confidence,
        warnings=tuple(question.notes),
        coupling=None if coupled is None else MethodBounds.of(coupled),
        target_pmp=question.amount if question.asked == "target_pmp" else None,
        target_success=question.amount if question.asked == "target_success" else None,
        game=game,
        theorems=bounds.theorems,
        assumptions=bounds.assumptions,
        asked=question.asked,
        compared=compared,
        bounds=bounds,
        coupled=coupled,
        mean_distance=mean_distance,
        max_distance=profile.max_distance,
        setting=setting,
        mechanism=mechanism,
        query=query,
        roles=roles,
        unit=unit,
        derivation=derivation,
        clipped_records=clipped_records,
    )


def _gaussian_setting(question: _Question, divisor: int) -> tuple[GaussianSetting, int | None]:
    """Return the Gaussian mechanism on sum / ``divisor``, and the number of clipped records."""
    if question.delta == 0.0:
        raise InputError(
            "delta must be greater than 0 for the Gaussian mechanism, got 0: no amount of Gaussian "
            "noise gives a finite ε at δ = 0. Try 1e-5."
        )
    if question.clip is not None and question.sensitivity is not None:
        raise InputError("give clip or sensitivity, not both.")
    values, moved = question.clipped_values()
    if question.sensitivity is not None:
        worst = up(question.sensitivity * divisor)
    else:
        radius = question.clip
        if radius is None:
            radius = _largest_norm(values)
            question.notes.append(
                f"no clip given: the worst case is over {question.who}s of norm at most "
                f"{significant(radius, 'upper')}, the largest norm here; DP requires a bound fixed "
                "in advance"
            )
        worst = finite_number("twice the largest norm", 2 * radius)
    if len(values) > MOST_PAIRED_RECORDS:
        question.notes.append(
            f"with more than {MOST_PAIRED_RECORDS} {question.who}s, mean squared distances replace "
            f"pairwise distances: the bounds still hold for every {question.who}, but those from "
            "coupling are larger"
        )
    # For a single number the exact mixtures are already optimal.
    noisy = NoisySum.of(
        values, question.game, crowd=values.shape[1] > 1, progress=question.progress
    )
    diameter = noisy.profile.diameter
    if diameter > worst * (1 + 1e-9) and question.sensitivity is not None:
        raise InputError(
            f"sensitivity must be at least {significant(diameter / divisor, 'upper')}, which "
            f"these records reach, got {question.sensitivity!r}."
        )
    reach = max(worst, diameter)
    return GaussianSetting(noisy, question.delta, divisor, reach, question.progress), moved


def _largest_norm(values: FloatArray) -> float:
    """Return the largest norm of a record, rounded up."""
    # Scale by the largest entry so that squares neither overflow nor underflow.
    scale = largest_entry(values) or 1.0
    most = float(np.linalg.norm(values / scale, axis=1).max())
    return up(up(most, values.shape[1] + 8) * scale)


# ── The exponential mechanism ─────────────────────────────────────────────────────────────────────


def _mechanism(question: _Question, points: FloatArray) -> tuple[ExponentialMechanism, int | None]:
    """Return the mechanism (at ε = 1 for an inverse question) and the number of clipped records."""
    values, moved = question.clipped_values()
    size, sensitivity = question.game.size, question.sensitivity
    if sensitivity is None and question.clip is not None:
        sensitivity = clip_sensitivity(points, question.clip, size)
    if sensitivity is None:
        raise InputError(
            "the exponential mechanism needs clip or sensitivity: by how much can one record move "
            "the mean loss?"
        )
    epsilon = question.amount if question.asked == "epsilon" else 1.0
    return ExponentialMechanism(l2_losses(values, points), size, epsilon, sensitivity), moved


def _matrix(source: object, encoding: str | None) -> FloatArray:
    """Read the candidates from an all-numeric table."""
    if source is None:
        raise InputError("the exponential mechanism needs candidates.")
    with use_table(source, encoding=encoding) as table:
        columns = None if table.is_array else table.columns
        return read_population(table, columns, numeric=True)[0].values
