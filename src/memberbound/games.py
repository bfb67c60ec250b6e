"""The games, which define what is random and which record is protected (theory §1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from memberbound.errors import InputError, finite_number, one_of, positive, whole_number

#: Description of the attacker in each game.
ATTACKERS = {
    "neighbour": "an attacker who knows every other record",
    "subset": "an attacker who knows all records, but not which were drawn",
    "iid": "an attacker who knows the source of the records, but not the table",
    "model": "the attacks that were run on this model",
}
#: Neighbour relations of data sets.
Adjacency = Literal["replace-one", "add-remove"]
ADJACENCIES: tuple[Adjacency, ...] = ("replace-one", "add-remove")


#: The assumption of a bound on guesses about a record (X23).
GUESSES_STAND_ALONE = (
    "The guessed fact about a record does not depend on the other records, beyond what the chance "
    "without the release already accounts for."
)


def gamma_from_priors(nu: float, lam: float) -> float:
    """Return γ = ν/(λ(1-ν)), the price of a false alarm in the i.i.d. game (A25-P5).

    ν in (0, 1) is the probability of a fresh test point, λ > 0 the weight of a missed member.
    """
    fresh = finite_number("nu", nu)
    if not 0 < fresh < 1:
        raise InputError(f"nu must be in (0, 1), got {nu!r}.")
    gamma = fresh / (positive("lambda", lam) * (1 - fresh))
    return positive("nu/(lambda(1-nu))", gamma)


@dataclass(frozen=True)
class IidGame:
    """D = (z₁…z_n) i.i.d. from P; the test point is fresh with probability ν, else a member.

    Protects the *average* record: a rare record can be exposed while MIS is high (A25-D1…D3).
    """

    nu: float = 0.5
    lam: float = 1.0
    name: ClassVar[str] = "iid"
    protects: ClassVar[str] = "average record"

    def __post_init__(self) -> None:
        gamma_from_priors(self.nu, self.lam)

    @property
    def gamma(self) -> float:
        """γ = ν/(λ(1-ν))."""
        return gamma_from_priors(self.nu, self.lam)

    @property
    def blind(self) -> float:
        """The accuracy of the likelier answer: max(ν, 1 - ν)."""
        return max(self.nu, 1 - self.nu)


@dataclass(frozen=True)
class SubsetGame:
    """A known population of N records; D is a uniform subset of k of them (I24-D1, L24-D2).

    MIP and PMP protect every record; ``record="average"`` marks the weaker promise about a record
    that is itself drawn uniformly from the population.
    """

    population: int
    size: int
    record: Literal["every", "average"] = "every"
    name: ClassVar[str] = "subset"

    @property
    def protects(self) -> str:
        """The protected record: every record, or the average one."""
        return f"{self.record} record"

    def __post_init__(self) -> None:
        one_of("record", self.record, ("every", "average"))
        total = whole_number("population", self.population, at_least=2)
        size = whole_number("size", self.size)
        if size >= total:
            raise InputError(
                f"size must be smaller than the population of {total}, got {self.size!r}."
            )

    @property
    def prior(self) -> float:
        """Probability k/N that a given record is in."""
        return self.size / self.population

    @property
    def blind(self) -> float:
        """The accuracy of always giving the likelier answer: max(k/N, 1 - k/N)."""
        return max(self.size, self.population - self.size) / self.population

    @property
    def largest_gain(self) -> float:
        """The gain over ``blind`` of an attacker who is always right: min(k/N, 1 - k/N)."""
        return min(self.size, self.population - self.size) / self.population


@dataclass(frozen=True)
class NeighbourGame:
    """Two data sets that differ in one record; only the mechanism is random (DP)."""

    adjacency: Adjacency = "replace-one"
    name: ClassVar[str] = "neighbour"
    protects: ClassVar[str] = "every record"

    def __post_init__(self) -> None:
        one_of("adjacency", self.adjacency, ADJACENCIES)


@dataclass(frozen=True)
class ModelGame:
    """One given model: a member is a uniform record of *its* training set, a non-member is fresh.

    The model and its training set are fixed, so results hold for this model only, not for others of
    the same learner: a learner that memorises in half of its runs produces models that leak
    everything and models that leak nothing.  Only audits use this game; a certificate of another
    game covers many models, and neither bounds this one nor is refuted by it.
    """

    name: ClassVar[str] = "model"
    protects: ClassVar[str] = "average record"


Game = IidGame | SubsetGame | NeighbourGame | ModelGame


# ── Records in words ──────────────────────────────────────────────────────────────────────────────


def record_name(unit: str | None) -> str:
    """Return the noun for a record: a row, or with ``unit`` a person with all of their rows."""
    return "row" if unit is None else "person"


def member_name(unit: str | None) -> Literal["record", "person"]:
    """Return the noun for a member: a record, or with ``unit`` a person."""
    return "record" if unit is None else "person"


def independent_records(unit: str | None, when: str = "") -> tuple[str, ...]:
    """Return the assumptions about the records of the i.i.d. game."""
    if unit is not None:
        return (
            f"A person is one value of “{unit}” with all its rows; persons are independent draws "
            f"from one distribution{when}.",
        )
    return (
        f"The rows are independent draws from one distribution{when}.",
        "One person is one row; if a person may have several rows, name the column that identifies "
        "persons (unit).",
    )
