"""The answer of ``explain``: a guarantee in terms of membership inference."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from memberbound.answers import INTERNAL, Answer, Given, Inline, Lower, OmitEmpty, Upper, computed
from memberbound.certificate import Certificate
from memberbound.curve.families import gaussian_summary
from memberbound.dp import DpGuarantee, leak_from_pure_dp
from memberbound.games import (
    GUESSES_STAND_ALONE,
    Adjacency,
    NeighbourGame,
    gamma_from_priors,
    member_name,
)
from memberbound.limits import Limited, Part, Success
from memberbound.numerics.rounding import down
from memberbound.quantities import marked, mu_row, percent, significant, vacuous
from memberbound.release.precision import IntervalTarget, IntervalWidth, widths_at

#: False-positive rates at which the TPR is bounded unless others are given.
DEFAULT_FPR = (0.1, 0.01, 0.001)
#: The notion of privacy of all releases that share a ledger.
LEDGER = "ledger of releases"
#: Theorems behind the curve, by notion.
_CURVE_THEOREMS = {
    "(ε, δ)-DP": ("I24-T4", "X2"),
    "μ-GDP": ("L24-L10",),
    "DP-SGD": ("L24-L10", "X12"),
    LEDGER: ("X22", "X27"),
}
#: Releases that a guarantee of each notion covers.
_COVERED = {
    "(ε, δ)-DP": "every mechanism with this guarantee",
    "μ-GDP": "every mechanism with this guarantee",
    "DP-SGD": "DP-SGD with these parameters",
    LEDGER: "all these releases together",
}


@dataclass(frozen=True)
class Parameters:
    """Parameters of a guarantee other than ε and δ."""

    gdp: OmitEmpty[Given | None] = None
    noise_multiplier: OmitEmpty[Given | None] = None
    sample_rate: OmitEmpty[Given | None] = None
    steps: OmitEmpty[int | None] = None
    #: Noise multiplier, sample rate and number of steps, per kind of step.
    history: OmitEmpty[tuple[tuple[Given, Given, int], ...]] = ()
    ledger: OmitEmpty[str | None] = None
    limit_eta: OmitEmpty[Given | None] = None
    #: The column that identifies the records of a ledger; None if every row is a record.
    unit: OmitEmpty[str | None] = None
    #: Number of records that are replaced together.
    records: OmitEmpty[int | None] = None
    #: The η for an interval of the target width.
    interval: OmitEmpty[IntervalTarget | None] = None
    ledger_assumptions: tuple[str, ...] = field(default=(), metadata=INTERNAL)


@dataclass(frozen=True, repr=False)
class Explanation(Answer, Limited):
    """A guarantee in terms of membership inference, with its inputs and its curve.

    ``guarantee.curve`` is the trade-off curve at the stated adjacency;
    ``guarantee.replaced().curve`` is the one from which η and MIS are computed.
    """

    VERB: ClassVar = "explain"
    FAILS_ON: ClassVar = ("ceiling",)
    COMPARED: ClassVar = "the certified success of any attack on any record"

    guarantee: DpGuarantee = field(metadata=INTERNAL)
    epsilon: Given | None
    delta: Given | None
    nu: Given = 0.5
    lam: Given = 1.0
    prior: Given = 0.5
    fpr: tuple[float, ...] = field(default=DEFAULT_FPR, metadata=INTERNAL)
    parameters: Inline[Parameters] = field(default_factory=Parameters)
    target: str | None = None
    notes: tuple[str, ...] = field(default=(), metadata=INTERNAL)
    baseline: tuple[float, ...] = field(default=(), metadata=INTERNAL)

    @cached_property
    def game(self) -> NeighbourGame:
        """The neighbour game at the stated adjacency."""
        return NeighbourGame(self.adjacency)

    @property
    def certificate(self) -> Certificate:
        """The certified advantage of every attack on any record."""
        promise = (self.game, self.theorems, self.assumptions)
        return Certificate("advantage", self.advantage_upper, "upper", *promise)

    @computed
    def adjacency(self) -> Adjacency:
        """The neighbour relation: replace one record, or add or remove one."""
        return self.guarantee.adjacency

    @computed
    def notion(self) -> str:
        """The notion of privacy in which the guarantee is given."""
        return self.guarantee.notion

    @computed
    def advantage_upper(self) -> Upper:
        """Largest TPR - FPR."""
        return self.guarantee.curve.advantage

    @computed
    def accuracy_upper(self) -> Upper:
        """Best probability of being right at the prior."""
        return self.guarantee.curve.accuracy(self.prior)

    @computed
    def precision_upper(self) -> Upper:
        """Best precision: probability that a record called a member is one, at any recall."""
        return self.guarantee.curve.precision(self.prior)

    @computed
    def tpr_upper(self) -> dict[str, Upper]:
        """Best TPR at each FPR, keyed by the FPR as text."""
        return {repr(alpha): self.guarantee.curve.tpr(alpha) for alpha in self.fpr}

    @computed
    def guess_upper(self) -> OmitEmpty[dict[str, Upper]]:
        """Best chance of guessing a fact about a record, by the chance without the release."""
        return {repr(chance): self.guarantee.curve.tpr(chance) for chance in self.baseline}

    @computed
    def eta_upper(self) -> Upper:
        """Smallest η for which MIP is certified, replace-one."""
        return self.guarantee.replaced().curve.eta

    @cached_property
    def _gaussian(self) -> tuple[float, float]:
        return gaussian_summary(self.guarantee.replaced().curve)

    @computed
    def mu_upper(self) -> Upper:
        """μ of a μ-GDP curve that summarizes this one, replace-one."""
        return self._gaussian[0]

    @computed
    def mu_regret_upper(self) -> Upper:
        """Regret of that summary: the shift in both rates that reverses the curves' order."""
        return self._gaussian[1]

    @computed
    def interval_widths(self) -> tuple[IntervalWidth, ...]:
        """Widths of the intervals of means that are released at this η (X32); may be empty."""
        return () if self.parameters.records is not None else widths_at(self.eta_upper)

    @computed
    def security_lower(self) -> Lower:
        """MIS at (ν, λ) from the curve alone, replace-one."""
        return self.guarantee.replaced().curve.security(self.nu, self.lam)

    @computed
    def security_lower_iid(self) -> Lower | None:
        """MIS by the sharper bound for pure replace-one ε-DP (X11); ``None`` if δ > 0."""
        if self.parameters.records is not None:
            return None
        largest = self.guarantee.replaced().curve.epsilon(0.0)
        if not math.isfinite(largest):
            return None
        leak = leak_from_pure_dp(largest, self.nu, self.lam)
        return max(self.security_lower, 1.0 if leak == 0.0 else down(1.0 - leak))

    @cached_property
    def theorems(self) -> tuple[str, ...]:
        """The theorems behind the numbers."""
        used = ["A25-P5", "A25-T6", "I24-P2", *_CURVE_THEOREMS[self.notion]]
        if self.security_lower_iid is not None:
            used.append("X11")
        used += ["X33"] if self.parameters.records is not None else []
        used += ["X32"] if self.interval_widths else []
        return (*used, "X23") if self.baseline else tuple(used)

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions about the system behind the numbers."""
        first = {
            "(ε, δ)-DP": f"The release is (ε, δ)-DP under {self.adjacency} adjacency.",
            "μ-GDP": f"The release is μ-GDP under {self.adjacency} adjacency.",
            "DP-SGD": (
                "Every step samples each record independently with the stated rate, clips its "
                "gradient, and adds Gaussian noise of the stated multiple of the clipping norm; "
                "nothing else about the data is released."
            ),
        }.get(self.notion)
        convert = (
            "advantage, accuracy and TPR are against an attacker who knows every other record, at "
            f"{self.adjacency} adjacency; η and MIS are converted to replace-one."
        )
        one = "One record is one person's whole contribution; groups are less protected."
        if self.parameters.records is not None:
            one = f"At most {self.parameters.records} records differ, all of them together."
        beyond = (GUESSES_STAND_ALONE,) if self.baseline else ()
        if first is None:
            group = () if self.parameters.records is None else (one,)
            return (*self.parameters.ledger_assumptions, convert, *group, *beyond, *self.notes)
        return (first, convert, one, *beyond, *self.notes)

    def successes(self, on: Part) -> tuple[Success, ...]:
        """Return the success rate to check against a limit: any attack on any record."""
        del on
        blind = max(self.prior, 1 - self.prior)
        what = f"any attack on any {member_name(self.parameters.unit)}"
        return (Success(what, blind, ceiling=self.accuracy_upper),)

    @property
    def setting(self) -> str:
        """The parameters in words; a calibrated one is rounded to the safe side."""
        p = self.parameters
        if p.history:
            total = sum(steps for _, _, steps in p.history)
            return f"{total} steps of DP-SGD of {len(p.history)} kinds of noise and sampling"
        if self.notion == "DP-SGD":
            sigma = significant(p.noise_multiplier, "given" if self.target is None else "upper")
            rate = significant(p.sample_rate, "given")
            return f"noise multiplier {sigma}, sampling rate {rate} and {p.steps} steps"
        if self.notion == "μ-GDP":
            mu = significant(p.gdp, "given" if self.target is None else "upper")
            return f"μ = {mu} (Gaussian DP)"
        if p.ledger is not None:
            limit = significant(p.limit_eta, "given")
            return f"all releases that the ledger {p.ledger} allows (limit η = {limit})"
        delta = "" if not self.delta else f" and δ = {significant(self.delta, 'given')}"
        return f"ε = {self._epsilon_in_words()}{delta}"

    def _epsilon_in_words(self) -> str:
        """Format ε: as given, rounded down if calibrated, rounded up if derived."""
        if self.epsilon is None or math.isinf(self.epsilon):
            return "no finite ε"
        if self.notion != "(ε, δ)-DP":
            return significant(self.epsilon, "upper")
        return significant(self.epsilon, "given" if self.target is None else "lower")

    @computed
    def sentence(self) -> str:
        """The guarantee in plain words, with every number rounded to the safe side."""
        who, size = member_name(self.parameters.unit), self.parameters.records
        whose, subject = f"a {who}'s membership", f"that {who}"
        if size is not None:
            whose, subject = f"the membership of {size} {who}s together", f"these {size} {who}s"
        lead = f"With {self.setting}, "
        if self.target is not None:
            lead = f"To keep {self.target}, use {self.setting}: then "
        odds = ""
        if self.prior != 0.5:
            odds = f" when {percent(self.prior, 'given')} of the candidates are members"
        if vacuous(self.accuracy_upper):
            success = f"there is no useful guarantee{odds}."
        else:
            blind = percent(max(self.prior, 1 - self.prior), "upper")
            success = (
                f"no attacker is right about {whose} more than "
                f"{percent(self.accuracy_upper, 'upper')} of the time{odds} (blind guessing: "
                f"{blind})."
            )
        parts = [lead + success]
        if self.fpr and not vacuous(self.accuracy_upper):
            alpha = min(self.fpr, key=lambda a: abs(a - 0.01))
            parts.append(
                f"An attack with a false-positive rate of at most {percent(alpha, 'given')} "
                f"identifies at most {percent(self.tpr_upper[repr(alpha)], 'upper')} of the "
                "members."
            )
        other = f"the same data without {subject}"
        if self.adjacency == "replace-one":
            other = f"another {who} in its place" if size is None else "others in their place"
        every = f"every {who}" if size is None else f"all {size} {who}s"
        parts.append(
            f"This holds for {_COVERED[self.notion]}, {every} and every attack; “out” means "
            f"training on {other}."
        )
        if self.parameters.interval is not None:
            parts.append(_interval_sentence(self.parameters.interval))
        return " ".join(parts)

    def summary_rows(self) -> list[tuple[str, object]]:
        """Return the rows of the command line's table."""
        epsilon = self._epsilon_in_words()
        if self.delta is not None:
            epsilon += f" at {significant(self.delta, 'given')}"
        gamma = significant(gamma_from_priors(self.nu, self.lam), "given")
        bounds = [("advantage (TPR - FPR)", self.advantage_upper, "advantage")]
        for alpha, value in self.tpr_upper.items():
            bounds.append((f"TPR at FPR {significant(float(alpha), 'given')}", value, "tpr"))
        for before, after in self.guess_upper.items():
            chance = percent(float(before), "given")
            bounds.append((f"a guess right {chance} of the time before", after, "tpr"))
        bounds.append(("η (MIP, replace-one)", self.eta_upper, "eta"))
        bounds.append((f"MIS at γ = {gamma}", self.security_lower, "security"))
        if self.security_lower_iid is not None:
            bounds.append(("  and for i.i.d. records", self.security_lower_iid, "security"))
        accuracy = marked(self.accuracy_upper, "certificate")
        summed_up = [] if vacuous(self.eta_upper, "eta") else [self._gaussian]
        widths = [
            (
                f"95 % interval of a mean of {width.rows} rows",
                f"width {significant(width.noise_upper, 'upper', 3)} at this η, "
                f"{significant(width.population_upper, 'upper', 3)} with sampling",
            )
            for width in self.interval_widths
            if width.noise_upper < 1
        ]
        return [
            ("ε at δ", epsilon),
            ("adjacency", self.adjacency),
            (f"attack success at prior {significant(self.prior, 'given')}", accuracy),
            *((name, marked(v, "certificate", quantity, 6)) for name, v, quantity in bounds),
            *(mu_row(*pair, member_name(self.parameters.unit)) for pair in summed_up),
            *widths,
        ]


def _interval_sentence(wanted: IntervalTarget) -> str:
    """Return a sentence on the η needed for a width, from noise alone and with sampling."""
    width, rows = significant(wanted.width, "given"), wanted.rows
    eta = significant(wanted.noise.eta, "upper", 4)
    alone = significant(wanted.sampling_alone_upper, "upper", 3)
    first = (
        f"At η = {eta} noise alone gives a mean or share of {rows} rows, of values in [0, 1], a "
        f"95 % interval of width {width}"
    )
    if wanted.population is None:
        return f"{first}; for the population sampling alone is wider already: up to {alone}."
    eta = significant(wanted.population.eta, "upper", 4)
    return (
        f"{first}; with sampling, which alone gives up to {alone}, an interval for the population "
        f"needs η = {eta}."
    )
