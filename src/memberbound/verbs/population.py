"""The verb ``population``: what does ε mean for *these* records?"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np

from memberbound.curve import GaussianCurve
from memberbound.declarations import (
    Column,
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
from memberbound.dp import guarantee_from_epsilon_delta
from memberbound.errors import (
    InputError,
    SearchError,
    fraction,
    nonnegative,
    one_of,
    positive,
    whole_number,
)
from memberbound.files import check_output, written_whole
from memberbound.games import SubsetGame
from memberbound.iid.gaussian_mean import leak_of_gaussian_mean, leak_of_gaussian_mean_bound
from memberbound.limits import Limited, Part, Success
from memberbound.numerics.roots import fixed_order, last_true, least_scale
from memberbound.numerics.rounding import FloatArray, down, shared_confidence, sum_slack, up
from memberbound.quantities import (
    Certificate,
    Readable,
    Side,
    Sides,
    at_confidence,
    common_fields,
    json_number,
    marked,
    percent,
    significant,
    vacuous,
)
from memberbound.subset.crowd import Crowd, CrowdTable
from memberbound.subset.distances import MOST_PAIRED_RECORDS, Query, largest_entry
from memberbound.subset.enumeration import MOST_SUBSETS, exact_bounds
from memberbound.subset.exponential import ExponentialMechanism
from memberbound.subset.gaussian import (
    clipped,
    dp_from_noise,
    gaussian_bounds,
    noise_for_pmp,
    noise_for_success,
    noise_from_dp,
    noise_on_query,
    noise_on_sum,
    worst_case_sensitivity,
    worst_pmp_epsilon,
    worst_success,
)
from memberbound.subset.iid_means import leak_of_means
from memberbound.subset.joint import repeated_noise
from memberbound.subset.mixtures import mixture_bounds
from memberbound.subset.profile import NeighbourProfile
from memberbound.subset.record_bounds import RecordBounds
from memberbound.subset.sampled import sampled_bounds
from memberbound.tables.in_memory import Population, read_population
from memberbound.tables.roles import Roles
from memberbound.tables.table import opened_table

__all__ = [
    "Amount",
    "Comparison",
    "ExponentialSetting",
    "GaussianSetting",
    "PopulationAnswer",
    "Progress",
    "Quantity",
    "Question",
    "Sampling",
    "Setting",
    "answer_exponential",
    "answer_gaussian",
    "population",
]

# ── What an answer asks of a mechanism on a population ────────────────────────────────────────────
#
# A setting holds what does not depend on the amount of noise (the neighbour profile, the losses)
# and answers for any of it: the worst case over all data sets, the worst case over neighbours
# inside the population, and the attacker who does not know who was drawn.

Progress = Callable[[int, int], None] | None
#: What an inverse question limits: ε̃, or the success of any attack.
Quantity = Literal["pmp", "success"]


@dataclass(frozen=True)
class Comparison:
    """Success bounds of three attackers at one ε: they know ever less.

    ``coupled`` is what coupling alone proves about the last one (L24-P12), where more is known.
    """

    epsilon: float
    worst_case: float
    population: float
    practical: float
    coupled: float | None = None


class Setting(Protocol):
    """A mechanism on a population, at any ε."""

    @property
    def game(self) -> SubsetGame:
        """Who is drawn."""
        ...

    def comparison(self, epsilon: float) -> Comparison:
        """Return the three success bounds at the worst-case DP parameter ``epsilon``."""
        ...


# ── The question of ``population``: which records, how many are drawn, how much noise ─────────────

#: Below this nothing is left to hide among.
FEWEST = 4


@dataclass(frozen=True)
class Amount:
    """How much noise: by ε, by σ, or by what may be reached."""

    epsilon: float | None = None
    sigma: float | None = None
    target_pmp: float | None = None
    target_success: float | None = None

    def __post_init__(self) -> None:
        asked = [name for name, value in vars(self).items() if value is not None]
        if len(asked) != 1:
            raise InputError(
                "population needs exactly one of epsilon, sigma, target_pmp and target_success, "
                f"got {' and '.join(asked) or 'none of them'}."
            )
        name = asked[0]
        value = getattr(self, name)
        if name == "target_success":
            number = fraction(name, value, open_left=True, open_right=True)
        else:
            number = nonnegative(name, value) if name == "epsilon" else positive(name, value)
        object.__setattr__(self, name, number)

    @property
    def target(self) -> tuple[Quantity, float] | None:
        """What an inverse question limits."""
        if self.target_pmp is not None:
            return "pmp", self.target_pmp
        return None if self.target_success is None else ("success", self.target_success)


@dataclass(frozen=True, eq=False)
class Question:
    """The records of the population and what is asked about them."""

    table: Population
    game: SubsetGame
    amount: Amount
    delta: float
    clip: float | None
    sensitivity: float | None
    notes: tuple[str, ...]

    @classmethod
    def about(
        cls,
        records: Any,
        amount: Amount,
        *,
        columns: Any,
        roles: Roles = None,
        database_table: str | None,
        unit: str | None = None,
        size: int | None,
        delta: float,
        clip: float | None,
        sensitivity: float | None,
    ) -> Question:
        """Read the records; say what is unusual about them."""
        chance = fraction("delta", delta, open_right=True)
        radius = None if clip is None else positive("clip", clip)
        shift = None if sensitivity is None else positive("sensitivity", sensitivity)
        table = read_population(
            records,
            columns,
            roles=roles,
            numeric=True,
            database_table=database_table,
            unit=unit,
        )
        total = table.values.shape[0]
        if total < FEWEST:
            raise InputError(f"{table.name} must hold at least {FEWEST} records, got {total}.")
        drawn = total // 2 if size is None else whole_number("size", size)
        notes = _remarks(table)
        if size is None and total % 2:
            notes.append(f"{total} records cannot be halved; {drawn} are drawn")
        game = SubsetGame(total, drawn)
        return cls(table, game, amount, chance, radius, shift, tuple(notes))

    def inside_ball(self) -> tuple[FloatArray, float, int | None, tuple[str, ...]]:
        """Return the records inside the ball, its radius, how many were moved, and a note."""
        values = self.table.values
        if self.clip is not None:
            inside, moved = clipped(values, self.clip)
            return inside, self.clip, moved, ()
        # Scaled by the largest entry, so that squares neither overflow nor vanish.
        scale = largest_entry(values) or 1.0
        blocks = np.array_split(values, max(1, values.size >> 22))
        most = max(float(np.square(block / scale).sum(axis=1).max()) for block in blocks)
        length = math.sqrt(most)
        radius = up(up(length, values.shape[1] + 8) * scale)
        note = (
            "no clip given: the worst case is over records of norm at most "
            f"{significant(radius, 'upper')}, the largest of these; DP asks for a bound that was "
            "fixed beforehand"
        )
        return values, radius, None, (note,)


def _remarks(table: Population) -> list[str]:
    notes = list(table.selection.notes)
    total = table.values.shape[0]
    distinct = _distinct(table.values)
    if distinct < total:
        notes.append(
            f"{total - distinct} records repeat another one; rows are told apart by their place, "
            "so somebody with two rows is protected as two records"
        )
    spread = np.array([column.std() for column in table.values.T])
    if spread.max() > 0 and (spread < spread.max() / 100).any():
        loud = table.columns[int(spread.argmax())]
        notes.append(
            f"column {loud!r} varies over 100 times more than another; distances are mostly its "
            "own, so consider scaling the columns"
        )
    return notes


def _distinct(values: FloatArray) -> int:
    """Return the number of different rows; only those that share a hash are compared."""
    mixed = np.zeros(len(values), dtype=np.uint64)
    for column in values.T:
        # Zero has one sign here, as in a comparison; products wrap around.
        mixed = (mixed ^ (column + 0.0).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    _, place, count = np.unique(mixed, return_inverse=True, return_counts=True)
    shared = count[place] > 1
    if not shared.any():
        return len(values)
    return int((~shared).sum()) + len(np.unique(values[shared], axis=0))


# ── The answer of ``population``: what ε means for these records ──────────────────────────────────

_BOUNDS: Sides = {"eta_upper": "upper", "pmp_epsilon_upper": "upper", "success_upper": "upper"}


@dataclass(frozen=True, eq=False, repr=False)
class PopulationAnswer(Readable, Limited):
    """Bounds for every record of a population under one mechanism, and what they compare with."""

    SIDES: ClassVar[Sides] = {
        **_BOUNDS,
        "confidence": "lower",
        "coupling": _BOUNDS,
        "crowd": {**_BOUNDS, "success_average_upper": "upper"},
        "delta": "given",
        "epsilon": "given",
        "epsilon_population": "upper",
        "fresh_rows": {
            "confidence": "lower",
            "leak_upper": "upper",
            "leak_of_normal_rows_bound": "upper",
            "leak_of_normal_rows_upper": "upper",
        },
        "most_exposed": {**_BOUNDS, "mean_distance": "estimate", "times_median": "estimate"},
        "sigma": "given",
        "success_blind": "upper",
        "success_population_upper": "upper",
        "success_worst_case_upper": "upper",
        "target_pmp": "given",
        "target_success": "given",
    }

    VERB: ClassVar = "population"
    FAILS_ON: ClassVar = ("ceiling",)
    COMPARED: ClassVar = "the certified success rate of any attack on any record"

    mechanism: str
    query: str
    bounds: RecordBounds
    coupled: RecordBounds | None
    epsilon: float
    epsilon_population: float
    sigma: float | None
    compared: Comparison
    mean_distance: FloatArray
    max_distance: FloatArray
    distance: str
    clipped: int | None
    amount: Amount
    warnings: tuple[str, ...] = ()
    records_out: str | None = None
    roles: dict[str, str] = field(default_factory=dict)
    crowd: RecordBounds | None = field(default=None, kw_only=True)
    fresh: Certificate | None = field(default=None, kw_only=True)
    columns: int = field(default=1, kw_only=True)
    setting: Setting = field(repr=False, kw_only=True)

    @property
    def game(self) -> SubsetGame:
        """The subset game: N records, k of them drawn."""
        return self.bounds.game

    @property
    def delta(self) -> float:
        """The δ at which all three ε are read."""
        return self.bounds.delta

    @property
    def pmp_epsilon_upper(self) -> float:
        """ε̃ for this population; never above the worst case over it."""
        return min(self.bounds.pmp_epsilon_upper, self.epsilon_population, self.epsilon)

    @property
    def success_upper(self) -> float:
        """No practical attack on any record is right more often."""
        return self.compared.practical

    @property
    def eta_upper(self) -> float:
        """Gain of the best attack over the blind guess, worst record."""
        return self.bounds.eta_upper

    @property
    def worst_record(self) -> int:
        """Row of the most exposed record, counted from 0."""
        return self.bounds.worst_record

    def sweep(self, epsilons: Sequence[float]) -> list[Comparison]:
        """Return the success bounds of the three attackers at other ε."""
        return [self.setting.comparison(float(epsilon)) for epsilon in epsilons]

    def most_exposed(self, count: int = 5) -> list[dict[str, Any]]:
        """Return the records with the largest success bounds and their distance from the rest."""
        order = np.lexsort((self.bounds.pmp_epsilon, self.bounds.success))[::-1][:count]
        typical = float(np.median(self.mean_distance))
        return [
            {
                "record": int(row),
                "pmp_epsilon_upper": json_number(float(self.bounds.pmp_epsilon[row])),
                "success_upper": float(self.bounds.success[row]),
                "mean_distance": float(self.mean_distance[row]),
                "times_median": json_number(
                    float(self.mean_distance[row]) / typical if typical > 0 else None
                ),
            }
            for row in order
        ]

    def certificate(self) -> Certificate:
        """Return the success bound as a certificate."""
        return Certificate(
            "accuracy of any attack on any record",
            self.success_upper,
            "upper",
            self.game,
            self.bounds.theorems,
            self.bounds.assumptions,
            self.bounds.confidence,
        )

    def successes(self, on: Part) -> tuple[Success, ...]:
        """Return what a limit is about: the success of any attack on any record."""
        del on
        what = "any attack on any record of the population"
        return (Success(what, self.blind, ceiling=self.success_upper),)

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract."""
        result = common_fields(
            "population", self.game, self.bounds.theorems, self.bounds.assumptions
        )
        result |= {
            "mechanism": self.mechanism,
            "query": self.query,
            "records": self.game.population,
            "size": self.game.size,
            "epsilon": json_number(self.epsilon),
            "delta": self.delta,
            "epsilon_population": json_number(self.epsilon_population),
            "pmp_epsilon_upper": json_number(self.pmp_epsilon_upper),
            "eta_upper": self.eta_upper,
            "success_upper": self.success_upper,
            "success_worst_case_upper": self.compared.worst_case,
            "success_population_upper": self.compared.population,
            "success_blind": self.blind,
            "sigma": self.sigma,
            "worst_record": self.worst_record,
            "most_exposed": self.most_exposed(),
            "method": self.bounds.method,
            "confidence": self.bounds.confidence,
            "clipped_records": self.clipped,
            "warnings": list(self.warnings),
            "records_out": self.records_out,
            "roles": dict(self.roles),
            "sentence": self.sentence,
        }
        if self.coupled is not None:
            result["coupling"] = {
                "pmp_epsilon_upper": json_number(self.coupled.pmp_epsilon_upper),
                "eta_upper": self.coupled.eta_upper,
                "success_upper": self.coupled.success_upper,
            }
        if self.crowd is not None:
            result["crowd"] = {
                "pmp_epsilon_upper": json_number(self.crowd.pmp_epsilon_upper),
                "eta_upper": self.crowd.eta_upper,
                "success_upper": self.crowd.success_upper,
                "success_average_upper": self._average(self.crowd),
            }
        if self.fresh is not None:
            result["fresh_rows"] = {
                "game": self.fresh.game.name,
                "protects": "the average record",
                "leak_upper": self.fresh.value,
                "confidence": self.fresh.confidence,
                "leak_of_normal_rows_upper": leak_of_gaussian_mean(self.game.size, self.columns),
                "leak_of_normal_rows_bound": self._closed,
                "theorems": [*self.fresh.theorems, "X8", "A25-P25"],
                "assumptions": list(self.fresh.assumptions),
            }
        if self.amount.target is not None:
            quantity, limit = self.amount.target
            result[f"target_{quantity}"] = limit
        return result

    @property
    def _closed(self) -> float:
        """A25-P25's bound on the leak of a mean of normal rows without noise."""
        return leak_of_gaussian_mean_bound(self.game.size, self.columns)

    def _average(self, bounds: RecordBounds) -> float:
        """The success bound of the average record, from above."""
        mean = float(bounds.success.mean())
        return min(1.0, up(mean * (1 + 2 * sum_slack(self.game.population))))

    @property
    def blind(self) -> float:
        """Accuracy of always giving the likelier answer."""
        return self.game.blind

    @property
    def _epsilon(self) -> str:
        """ε: as given, the short decimal that was found, or one that follows from σ (up)."""
        return significant(self.epsilon, "given" if self.amount.sigma is None else "upper")

    @property
    def release(self) -> str:
        """What is released, with what noise: a bound holds for this and nothing else."""
        total, drawn = self.game.population, self.game.size
        whose = f"a random half of these {total} records"
        if 2 * drawn != total:
            whose = f"{drawn} of these {total} records, drawn at random"
        at = "" if self.delta == 0 else f" and δ = {significant(self.delta, 'given')}"
        name = "this σ" if self.epsilon == float("inf") else f"ε = {self._epsilon}{at}"
        if self.mechanism == "gaussian":
            what, _, answers = self.query.partition(", ")
            what += f" ({answers})" if answers else ""
            return f"the {what} of {whose}, released with Gaussian noise for {name}"
        return f"the exponential mechanism's {self.query} on {whose}, at {name}"

    @property
    def sentence(self) -> str:
        """A sentence a privacy officer can pass on."""
        sure = at_confidence(self.bounds.confidence)
        if vacuous(self.success_upper):
            unproved = "nothing useful is proved about any record's membership"
            return f"From {self.release}, {unproved}{sure}."
        return (
            f"From {self.release}, an attacker who knows all of them, but not who was drawn, is "
            "right about any record's membership at most "
            f"{percent(self.success_upper, 'upper')} of the time{sure} (blind guessing: "
            f"{percent(self.blind, 'upper')})."
        )

    def summary(self) -> str:
        """Return the short readable table of the command line."""

        def number(value: float, quantity: str = "epsilon") -> str:
            if value == float("inf") or vacuous(value, quantity):
                return "nothing is proved"
            return f"≤ {significant(value, 'upper')}"

        at = "" if self.delta == 0 else f" at δ = {significant(self.delta, 'given')}"
        rows: list[tuple[str, object]] = [
            ("records (drawn)", f"{self.game.population} ({self.game.size})"),
            ("release", f"{self.mechanism} mechanism, {self.query}"),
        ]
        if self.sigma is not None:
            # σ that follows from a given ε is rounded up; one that was found is a short decimal.
            side: Side = "given" if self.amount.epsilon is None else "upper"
            rows.append(("noise σ", significant(self.sigma, side)))
        rows += [
            (f"ε{at}, any data set", self._epsilon),
            (f"ε(X){at}, these records", number(self.epsilon_population)),
            (f"ε̃{at}, practical", number(self.pmp_epsilon_upper)),
            ("success, any data set", marked(self.compared.worst_case, "certificate")),
            ("success, these records", marked(self.compared.population, "certificate")),
            ("success, practical", marked(self.success_upper, "certificate")),
            (
                "η (MIP)",
                marked(
                    self.eta_upper, "certificate", "eta", 6, largest_gain=self.game.largest_gain
                ),
            ),
            ("method", self.bounds.method),
        ]
        if self.crowd is not None:
            average = marked(self._average(self.bounds), "certificate")
            rows.append(("success, average record", average))
        if self.coupled is not None:
            alone = self.coupled
            rows.append(("success, by coupling alone", marked(alone.success_upper, "certificate")))
            rows.append(("ε̃, by coupling alone", number(alone.pmp_epsilon_upper)))
        if self.fresh is not None:
            sure = at_confidence(self.fresh.confidence)
            plain = leak_of_gaussian_mean(self.game.size, self.columns)
            rows += [
                ("leak of fresh rows (i.i.d.)", number(self.fresh.value, "leak") + sure),
                ("… normal ones, no noise: X8", number(plain, "leak")),
                ("… and by A25-P25", number(self._closed, "leak")),
            ]
        width = max(len(name) for name, _ in rows)
        table = "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
        shown = "\n".join(f"  {self._exposed(item)}" for item in self.most_exposed())
        notes = "".join(f"\nnote: {w}." for w in self.warnings)
        return f"{self.sentence}\n\n{table}\n\nmost exposed (rows counted from 0)\n{shown}{notes}"

    def _exposed(self, item: dict[str, Any]) -> str:
        times = item["times_median"]
        return (
            f"record {item['record']}: success {marked(item['success_upper'], 'certificate')}, "
            f"{self.distance} ≈ {significant(item['mean_distance'], 'estimate', 4)}"
            + ("" if times is None else f" (≈ {significant(times, 'estimate', 2)} × the median)")
        )


def write_records(answer: PopulationAnswer, target: Path, *, force: bool) -> str:
    """Write one line per record, most exposed first; the file appears whole or not at all."""
    order = np.lexsort((answer.bounds.pmp_epsilon, answer.bounds.success))[::-1]
    columns = {
        "record": order,
        "success_upper": answer.bounds.success[order],
        "eta_upper": answer.bounds.eta[order],
        "pmp_epsilon_upper": answer.bounds.pmp_epsilon[order],
        "mean_distance": answer.mean_distance[order],
        "max_distance": answer.max_distance[order],
    }

    def write(draft: Path) -> None:
        with draft.open("w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(columns)
            # repr keeps every digit: a bound must not shrink on its way into a file.
            lines.writerows(
                ["" if value == float("inf") else repr(value) for value in line]
                for line in zip(*(column.tolist() for column in columns.values()), strict=True)
            )

    written_whole(target, write, force)
    return str(target)


# ── ``population`` for Gaussian noise on a sum or a mean ──────────────────────────────────────────


#: Bounds by coupling, by the exact mixture and by the crowd.
_Parts = tuple[RecordBounds, RecordBounds | None, RecordBounds | None]


@dataclass(frozen=True, eq=False)
class GaussianSetting:
    """Gaussian noise on the sum or the mean of a uniform subset.

    The profile is that of the sum: a mean over k records with noise σ is the sum with noise k·σ,
    so one profile serves both queries and every size.  ``sensitivity`` is that of the sum over all
    data sets, ``releases`` the number of independent answers.
    """

    profile: NeighbourProfile
    game: SubsetGame
    delta: float
    query: Query
    sensitivity: float
    releases: int = 1
    line: FloatArray | None = None
    progress: Progress = None
    crowd: CrowdTable | None = None
    _last: dict[float, _Parts] = field(default_factory=dict, init=False, repr=False)

    def effective(self, sigma: float) -> float:
        """Noise on the sum that says as much as all releases together, from below."""
        return noise_on_sum(self.query, repeated_noise(sigma, self.releases), self.game.size)

    def released(self, effective: float) -> float:
        """Noise per released answer whose :meth:`effective` noise is at least the given one."""
        if effective == 0.0:
            return 0.0
        single = noise_on_query(self.query, effective, self.game.size)
        sigma = single if self.releases == 1 else up(single * math.sqrt(self.releases), 24)
        if self.effective(sigma) < effective:
            raise SearchError(f"no noise found for an effective σ of {effective!r}.")
        return sigma

    def sigma_from_epsilon(self, epsilon: float) -> float:
        """Smallest σ with (ε, δ)-DP over all data sets (L24-L10)."""
        return self.released(noise_from_dp(epsilon, self.delta, self.sensitivity))

    def epsilon_from_sigma(self, sigma: float) -> float:
        """ε of the worst case over all data sets."""
        return dp_from_noise(self.effective(sigma), self.delta, self.sensitivity)

    def epsilon_population(self, sigma: float) -> float:
        """ε of the worst case over neighbours inside the population."""
        return dp_from_noise(self.effective(sigma), self.delta, self.profile.diameter)

    def coupled(self, sigma: float) -> RecordBounds:
        """Bounds by coupling (X1, L24-P12)."""
        return gaussian_bounds(
            self.profile, self.game, sigma=self.effective(sigma), delta=self.delta
        )

    def exact(self, sigma: float, progress: Progress = None) -> RecordBounds | None:
        """Bounds by the exact mixture (X9), where the release is one number."""
        if self.line is None:
            return None
        return mixture_bounds(
            self.line, self.game, sigma=self.effective(sigma), delta=self.delta, progress=progress
        )

    def hidden(self, sigma: float) -> RecordBounds | None:
        """Bounds by what is proved of the others' sum (X21), where no exact mixture is at hand."""
        if self.crowd is None:
            return None
        return Crowd(self.crowd, self.effective(sigma)).bounds(self.delta)

    def parts(self, sigma: float) -> _Parts:
        """All bounds; the last ones are kept, as a search ends with those that are answered."""
        if sigma not in self._last:
            self._last.clear()
            found = self.coupled(sigma), self.exact(sigma, self.progress), self.hidden(sigma)
            self._last[sigma] = found
        return self._last[sigma]

    def best(self, sigma: float) -> RecordBounds:
        """The best of all, record by record."""
        found, *others = self.parts(sigma)
        for other in others:
            found = found if other is None else _tightened(found, other)
        return found

    def worst(self, quantity: Quantity, sigma: float) -> float:
        """ε̃ or success of the worst record: at least that of :meth:`best`, sooner; for searches."""
        noise = self.effective(sigma)
        if quantity == "pmp":
            return worst_pmp_epsilon(
                self.profile, self.game, noise, self.delta, self.line, crowd=self.crowd
            )
        return worst_success(self.profile, self.game, noise, self.line, crowd=self.crowd)

    def mechanism_for(self, quantity: Quantity, target: float) -> tuple[float, float]:
        """Return σ and ε of one mechanism with ε̃ ≤ target or success ≤ target, with little noise.

        Guarantee: both are short decimals, so what is printed is the mechanism that is certified.
        It has (ε, δ)-DP over all data sets, and meets the target; so does the least noise for ε.
        """
        pmp = quantity == "pmp"

        def found(line: FloatArray | None, crowd: CrowdTable | None) -> float:
            if pmp:
                return noise_for_pmp(self.profile, target, self.delta, self.game, line, crowd=crowd)
            return noise_for_success(self.profile, self.game, target, line, crowd=crowd)

        def reached(sigma: float) -> float:
            bounds = self.best(sigma)
            return bounds.pmp_epsilon_upper if pmp else bounds.success_upper

        def shortened(sigma: float) -> tuple[float, float]:
            # ε rounded down asks for a little more noise than was found.
            epsilon = float(significant(self.epsilon_from_sigma(sigma), "lower"))
            if math.isfinite(epsilon):
                sigma = max(sigma, self.sigma_from_epsilon(epsilon))

            # With ε as well, other values are worked out: the answer itself must meet the target.
            def enough(noise: float) -> bool:
                return self.epsilon_from_sigma(noise) <= epsilon and reached(noise) <= target

            return _short_decimal(sigma, "upper", enough), epsilon

        sigma = self.released(found(self.line, self.crowd))
        if sigma == 0.0:
            return 0.0, 0.0
        with suppress(SearchError):
            return shortened(sigma)
        return shortened(self.released(found(None, None)))

    def comparison(self, epsilon: float) -> Comparison:
        """Success at ε for who knows all but one, who knows the population's worst, and who not."""
        sigma = self.sigma_from_epsilon(epsilon)
        coupled = None
        if self.line is not None or self.crowd is not None:
            coupled = worst_success(self.profile, self.game, self.effective(sigma))
        return self.compared(epsilon, sigma, self.worst("success", sigma), coupled)

    def compared(
        self, epsilon: float, sigma: float, practical: float, coupled: float | None = None
    ) -> Comparison:
        """Return the comparison for success bounds that are already there."""
        noise, prior = self.effective(sigma), self.game.prior

        def success(shift: float) -> float:
            if shift == 0.0:
                return max(prior, 1 - prior)
            # Rounding k/N moves the accuracy by 2^-54 at most; one up covers it.
            return min(1.0, up(GaussianCurve(up(shift / noise)).accuracy(prior), 1))

        population = max(success(self.profile.diameter), practical)
        worst_case = max(success(self.sensitivity), population)
        return Comparison(epsilon, worst_case, population, practical, coupled)


def _short_decimal(value: float, side: Side, holds: Callable[[float], bool]) -> float:
    """Return a decimal of a few digits, at or beyond ``value`` on a side, where ``holds`` is seen.

    >>> _short_decimal(0.12345678, "upper", lambda x: True)
    0.123457
    """
    share = 1e-6 if side == "upper" else -1e-6
    for _ in range(40):
        found = float(significant(value, side))
        if holds(found):
            return found
        value = found * (1 + share)
        share *= 1.5
    raise SearchError(f"what was found, {value!r}, did not meet the target again.")


def _tightened(first: RecordBounds, second: RecordBounds) -> RecordBounds:
    """The smaller of two bounds for every record; one that is nowhere smaller is not named."""
    smaller = (second.success < first.success) | (second.pmp_epsilon < first.pmp_epsilon)
    return first.tightened(second) if smaller.any() else first


def answer_gaussian(
    question: Question,
    *,
    query: Query,
    releases: int,
    progress: Progress,
    confidence: float = 0.95,
) -> PopulationAnswer:
    """Answer for Gaussian noise on the query of a uniform subset."""
    if question.delta == 0.0:
        raise InputError(
            "delta must be greater than 0 for the Gaussian mechanism, got 0: no amount of Gaussian "
            "noise gives a finite ε at δ = 0. Try 1e-5."
        )
    share = question.game.size if query == "mean" else 1
    public = question.clip is not None or question.sensitivity is not None
    if question.sensitivity is None:
        values, radius, moved, notes = question.inside_ball()
        worst = worst_case_sensitivity("sum", radius, question.game.size) if radius > 0 else 0.0
    elif question.clip is None:
        values, moved, notes = question.table.values, None, ()
        worst = up(question.sensitivity * share)
    else:
        raise InputError("give clip or sensitivity, not both.")
    profile = NeighbourProfile.from_vectors(values, progress=progress)
    line = values[:, 0].copy() if values.shape[1] == 1 else None
    if len(values) > MOST_PAIRED_RECORDS:
        notes += (
            f"with more than {MOST_PAIRED_RECORDS} records the mean squared distance to groups of "
            "records stands in for distances to single ones: the bounds hold for every record all "
            "the same, and are a little larger",
        )
    if profile.diameter > worst * (1 + 1e-9) and question.sensitivity is not None:
        raise InputError(
            f"sensitivity must be at least {significant(profile.diameter / share, 'upper')}, which "
            f"these records reach by themselves, got {question.sensitivity!r}."
        )
    setting = GaussianSetting(
        profile,
        question.game,
        question.delta,
        query,
        max(worst, profile.diameter),
        releases,
        line,
        progress,
        CrowdTable.of(values, question.game) if line is None else None,
    )
    amount = question.amount
    if amount.target is not None:
        noise, epsilon = setting.mechanism_for(*amount.target)
    elif amount.epsilon is not None:
        noise, epsilon = setting.sigma_from_epsilon(amount.epsilon), amount.epsilon
    else:
        assert amount.sigma is not None
        noise, epsilon = amount.sigma, setting.epsilon_from_sigma(amount.sigma)
    if noise == 0.0:
        raise InputError("the records must differ from one another; equal ones need no noise.")
    coupled, _, hidden = setting.parts(noise)
    bounds = setting.best(noise)
    return PopulationAnswer(
        "gaussian",
        query if releases == 1 else f"{query}, {releases} answers",
        bounds,
        None if bounds is coupled else coupled,
        epsilon,
        setting.epsilon_population(noise),
        noise,
        setting.compared(
            epsilon,
            noise,
            bounds.success_upper,
            None if bounds is coupled else coupled.success_upper,
        ),
        profile.mean_distance,
        profile.max_distance,
        "mean distance to the others",
        moved,
        amount,
        question.notes + notes,
        crowd=hidden,
        # Noise that these rows had a part in choosing is no fixed noise for other rows.
        fresh=_fresh(values, setting, noise, confidence)
        if amount.sigma is not None
        or (amount.epsilon is not None and public and profile.diameter <= worst)
        else None,
        columns=values.shape[1],
        setting=replace(setting, progress=None),
    )


#: Tables of twice the drawn records that bound the leak of fresh rows: with fewer the confidence
#: costs more than 0.1, and each takes up to half a second.
_FEWEST_TABLES, _MOST_TABLES = 30, 40


def _fresh(
    values: FloatArray, setting: GaussianSetting, noise: float, confidence: float
) -> Certificate | None:
    """Return what the same release of fresh rows leaks about the average one (A25-T13, X21).

    The noise must be fixed without these rows: given, or by ε and a public clip or sensitivity.
    None where the rows are too few tables of 2k, as they always are where a half is drawn.
    """
    size = setting.game.size
    if size < 2 or len(values) < 2 * size * _FEWEST_TABLES:
        return None
    return leak_of_means(
        values,
        size,
        sigma=down(setting.effective(noise) / size),
        confidence=confidence,
        tables=_MOST_TABLES,
    )


# ── ``population`` for the exponential mechanism ──────────────────────────────────────────────────

#: More than 1/this times the ε of the population's own worst case is not looked for.
_LEAST_EXPONENTIAL = 2.0**-40


@dataclass(frozen=True)
class Sampling:
    """How subsets are sampled where they are too many to enumerate."""

    confidence: float = 0.95
    subsets: int | None = None
    seed: int = 0


@dataclass(frozen=True, eq=False)
class ExponentialSetting:
    """The exponential mechanism on the mean loss of a uniform subset (L24-D7)."""

    mechanism: ExponentialMechanism
    delta: float
    sampling: Sampling
    progress: Progress = None

    @property
    def game(self) -> SubsetGame:
        """The subset game of the mechanism."""
        return self.mechanism.game

    @property
    def enumerable(self) -> bool:
        """Whether all subsets can be enumerated."""
        return math.comb(self.game.population, self.game.size) <= MOST_SUBSETS

    def at(self, epsilon: float) -> ExponentialSetting:
        """Return the same setting at another ε."""
        return replace(self, mechanism=replace(self.mechanism, epsilon=epsilon))

    def best(self) -> RecordBounds:
        """Exact bounds where all subsets can be enumerated, else sampled ones."""
        if self.enumerable:
            return exact_bounds(self.mechanism, delta=self.delta, progress=self.progress)
        return sampled_bounds(
            self.mechanism,
            delta=self.delta,
            confidence=self.sampling.confidence,
            subsets=self.sampling.subsets,
            seed=self.sampling.seed,
            progress=self.progress,
        )

    def epsilon_for(self, quantity: Quantity, target: float) -> float:
        """Largest ε found with ε̃ ≤ target or success ≤ target, a short decimal.

        The first candidate is the ε at which the population's own worst case meets the target,
        which needs no enumeration.  Exact bounds are bisected.  Sampled bounds are tested at ε
        growing by fixed factors until the first failure: a fixed order needs no correction for the
        number of tests, since a wrong answer implies that the first false claim passed its test.
        """
        # The population's worst case is linear in ε; a unit of it is what ε = 1 gives.
        unit = replace(self.mechanism, epsilon=1.0).epsilon_population
        prior = self.game.prior

        def reached(epsilon: float) -> float:
            bounds = self.at(epsilon).best()
            return bounds.pmp_epsilon_upper if quantity == "pmp" else bounds.success_upper

        if unit == 0.0:
            raise InputError(
                "the losses must differ between records; here the choice never depends on who was "
                "drawn, and every ε meets the target."
            )
        allowed = target
        if quantity == "success":
            allowed = _pure_epsilon_for_success(target, prior)
        start = float(significant(down(allowed / unit, 8), "lower"))
        if start <= 0:
            return 0.0
        if not self.enumerable:
            trials = (float(significant(start * 1.25**step, "lower")) for step in range(1, 25))
            return fixed_order(lambda e: reached(e) <= target, trials) or start
        # ε falls as its inverse, the noise, grows.
        scale = least_scale(
            lambda s: reached(1 / s) - target, 1 / start, floor=_LEAST_EXPONENTIAL / start
        )
        return _short_decimal(1 / scale, "lower", lambda e: reached(e) <= target)

    def comparison(self, epsilon: float) -> Comparison:
        """Success at ε for the three attackers."""
        there = self.at(epsilon)
        return there.compared(epsilon, there.best())

    def compared(self, epsilon: float, bounds: RecordBounds) -> Comparison:
        """Return the comparison for bounds that are already there."""
        prior = self.game.prior
        inside = min(epsilon, replace(self.mechanism, epsilon=epsilon).epsilon_population)
        population = guarantee_from_epsilon_delta([(inside, 0.0)]).curve.accuracy(prior)
        return Comparison(
            epsilon,
            guarantee_from_epsilon_delta([(epsilon, 0.0)]).curve.accuracy(prior),
            population,
            min(population, bounds.success_upper),
        )


def _pure_epsilon_for_success(target: float, prior: float) -> float:
    """Return the largest ε found for which ε-indistinguishability keeps success at ``target``."""
    blind = max(prior, 1 - prior)
    if not target > blind:
        raise InputError(
            f"target_success must be above the blind guess of {blind!r}, got {target!r}."
        )
    return last_true(
        lambda e: guarantee_from_epsilon_delta([(e, 0.0)]).curve.accuracy(prior) <= target,
        0.0,
        float(np.log1p(2 * target / max(1e-12, 1 - target))) + 5.0,
    )


def answer_exponential(
    question: Question, *, candidates: Any, losses: Any, sampling: Sampling, progress: Progress
) -> PopulationAnswer:
    """Answer for the exponential mechanism's choice on a uniform subset."""
    amount = question.amount
    if amount.sigma is not None:
        raise InputError("sigma applies only to the Gaussian mechanism; give epsilon instead.")
    mechanism, moved = _mechanism(question, candidates, losses)
    setting = ExponentialSetting(mechanism, question.delta, sampling, progress)
    if amount.target is None:
        bounds = setting.best()
    else:
        setting, bounds = _searched(setting, *amount.target)
    chosen = setting.mechanism.epsilon
    mean, largest = _loss_distances(mechanism.losses)
    return PopulationAnswer(
        "exponential",
        f"choice among {mechanism.losses.shape[1]} candidates",
        bounds,
        None,
        chosen,
        min(chosen, setting.mechanism.epsilon_population),
        None,
        setting.compared(chosen, bounds),
        mean,
        largest,
        "mean largest difference of losses to the others",
        moved,
        amount,
        question.notes,
        setting=replace(setting, progress=None),
    )


def _searched(
    setting: ExponentialSetting, quantity: Quantity, target: float
) -> tuple[ExponentialSetting, RecordBounds]:
    """Return the setting at the ε found, and bounds there that hold although ε was chosen.

    Sampled subsets that chose ε say no more than "the target is met"; half of the error probability
    goes to that claim and half to bounds from fresh subsets, so both hold together.
    """
    if setting.enumerable:
        found = setting.at(setting.epsilon_for(quantity, target))
        return found, found.best()
    given = setting.sampling
    half = replace(given, confidence=shared_confidence(given.confidence, 2))
    epsilon = replace(setting, sampling=half).epsilon_for(quantity, target)
    found = replace(setting.at(epsilon), sampling=replace(half, seed=given.seed + 1))
    fresh = found.best()
    pmp = quantity == "pmp"
    bounds = replace(
        fresh,
        pmp_epsilon=np.minimum(fresh.pmp_epsilon, target) if pmp else fresh.pmp_epsilon,
        success=fresh.success if pmp else np.minimum(fresh.success, target),
        confidence=given.confidence,
    )
    return found, bounds


def _mechanism(
    question: Question, candidates: Any, losses: Any
) -> tuple[ExponentialMechanism, int | None]:
    """Return the mechanism (at ε = 1 for an inverse question) and how many were clipped."""
    if (candidates is None) == (losses is None):
        raise InputError("the exponential mechanism needs either candidates or losses.")
    if question.clip is None and question.sensitivity is None:
        raise InputError(
            "the exponential mechanism needs clip or sensitivity: by how much can one record move "
            "the mean loss?"
        )
    epsilon = 1.0 if question.amount.epsilon is None else question.amount.epsilon
    if losses is not None:
        if question.clip is not None or question.sensitivity is None:
            raise InputError("losses need sensitivity (clip applies only to candidates).")
        matrix = _matrix(losses)
        if matrix.shape[0] != question.game.population:
            raise InputError(
                f"losses must have one row per record ({question.game.population}), got "
                f"{matrix.shape[0]}."
            )
        return ExponentialMechanism(matrix, question.game.size, epsilon, question.sensitivity), None
    values, moved = question.table.values, None
    if question.clip is not None:
        values, moved = clipped(values, question.clip)
    mechanism = ExponentialMechanism.geometric_median(
        values,
        _matrix(candidates),
        size=question.game.size,
        epsilon=epsilon,
        clip=question.clip,
        sensitivity=question.sensitivity,
    )
    return mechanism, moved


def _matrix(source: Any) -> FloatArray:
    """Return a table of numbers as they are: no column of it is anything else."""
    with opened_table(source) as table:
        columns = None if table.is_array else table.columns
        return read_population(table, columns, numeric=True).values


def _loss_distances(losses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and largest, over the other records, of max_w |ℓ(w,x) - ℓ(w,x')|, for the table."""
    total = losses.shape[0]
    mean, largest = np.empty(total), np.empty(total)
    for row in range(total):
        gaps = np.abs(losses - losses[row]).max(axis=1)
        mean[row] = gaps.sum() / (total - 1)
        largest[row] = gaps.max()
    return mean, largest


# ── The verb ``population``: what does ε mean for *these* records? ────────────────────────────────


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
    unit: Column | None = None,
    database_table: DatabaseTable | None = None,
    confidence: float = 0.95,
    subsets: Annotated[int, Option("whole", least=2, most=1000000)] | None = None,
    seed: Seed = 0,
    records: RecordsFile | None = None,
    force: Force = False,
    progress: Annotated[Callable[..., None], Option("progress", metavar="bounding every record")]
    | None = None,
) -> PopulationAnswer:
    """Find what ε means for these records, or which ε a target allows.

    A uniform half of the records (or ``size`` of them) is drawn, and its mean or sum is released
    with Gaussian noise, or the exponential mechanism chooses among ``candidates``.  The attacker
    knows all records, the mechanism and the release, but not who was drawn.

    Guarantee: no attack on any record is right more often than ``success_upper``, and the release
    is (``pmp_epsilon_upper``, δ)-PMP for this population; with ``confidence`` where subsets are
    sampled.
    Theorem: X1, L24-P12, L24-L10, X21 (Gaussian); X9 (one numeric column); L24-P9 corrected and X10
    (exponential).
    Assumes: D is a uniform subset of the given size and the noise is drawn as described.
    Edge cases: N odd draws (N-1)/2 records; equal rows are separate records; a population of equal
    rows has success equal to the blind guess.  Beyond 20 000 records the time grows like their
    number: groups of records stand in for pairs.  Where at most a sixtieth is drawn, and the noise
    does not depend on the rows (``sigma``, or ``epsilon`` with ``clip`` or ``sensitivity``), they
    are many tables, and the leak of the same release about *fresh* rows of their law is bounded too
    (i.i.d. game, average record, with ``confidence``; A25-T13 with a number).

    Args:
        table: a file or a table, one record per row; its numeric columns are used.
        mechanism: how the noise is added.
        query: what the Gaussian mechanism releases.
        epsilon: the ε to which the mechanism is calibrated.
        sigma: instead of ε: the standard deviation of the noise on the released query.
        delta: δ (default: 1e-5 for Gaussian noise, 0 for the exponential mechanism).
        clip: first shrink longer records to this norm.
        sensitivity: instead of ``clip``: how far replacing one record can move the query (or the
            loss).
        candidates: among which the exponential mechanism chooses, by L2 loss: a file or an array.
        losses: instead of candidates: an N×m array, the loss of each candidate on each record.
        size: number of records drawn (default: half of them).
        target_pmp: find the noise or ε for at most this ε̃ (PMP).
        target_success: find the noise or ε for at most this attack success rate.
        releases: number of independent noisy answers to the same query, bounded as one release.
        columns: columns to use (default: all numeric ones but identifiers).
        roles: column → ``number``, ``category``, ``date``, ``identifier`` or ``text``, to correct
            the inferred role.
        unit: column that identifies the person; only each person's first row is used, so that a
            record is a person.
        database_table: the table inside a DuckDB or SQLite file.
        confidence: of bounds from sampled subsets, and of the leak of fresh rows.
        subsets: how many subsets to sample.
        seed: for the sampled subsets.
        records: write every record's bounds to this CSV file.
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
        unit=unit,
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
        sure = fraction("confidence", confidence, open_left=True, open_right=True)
        answer = answer_gaussian(
            question, query=kind, releases=repeats, progress=progress, confidence=sure
        )
    else:
        if query != "mean" or repeats != 1:
            raise InputError("query and releases apply only to the Gaussian mechanism.")
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
