"""The answer of ``explain``: a guarantee, read for somebody guessing membership."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from memberbound.dp import DpGuarantee, leak_from_pure_dp
from memberbound.games import Adjacency, IidGame, NeighbourGame, gamma_from_priors
from memberbound.numerics.rounding import down
from memberbound.quantities import (
    Certificate,
    Sides,
    common_fields,
    json_number,
    marked,
    percent,
    significant,
    vacuous,
)

__all__ = ["DEFAULT_FPR", "Explanation"]

DEFAULT_FPR = (0.1, 0.01, 0.001)

#: What the curve itself rests on, by notion.
_CURVE_THEOREMS = {
    "(ε, δ)-DP": ("I24-T4", "X2"),
    "μ-GDP": ("L24-L10",),
    "DP-SGD": ("L24-L10", "X12"),
}


@dataclass(frozen=True)
class Explanation:
    """What a guarantee says about membership; keeps its inputs and its curve.

    ``guarantee.curve`` is the neighbour game at the stated adjacency, and
    ``guarantee.replaced().curve`` the one that η and MIS are read from.
    """

    SIDES: ClassVar[Sides] = {
        "accuracy_upper": "upper",
        "advantage_upper": "upper",
        "delta": "given",
        "epsilon": "given",
        "eta_upper": "upper",
        "gdp": "given",
        "lam": "given",
        "noise_multiplier": "given",
        "nu": "given",
        "precision_upper": "upper",
        "prior": "given",
        "sample_rate": "given",
        "security_lower": "lower",
        "security_lower_iid": "lower",
        "tpr_upper": "upper",
    }

    guarantee: DpGuarantee
    epsilon: float | None
    delta: float | None
    nu: float = 0.5
    lam: float = 1.0
    prior: float = 0.5
    fpr: tuple[float, ...] = DEFAULT_FPR
    parameters: dict[str, float] = field(default_factory=dict)
    target: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def adjacency(self) -> Adjacency:
        """How the two neighbouring data sets differ."""
        return self.guarantee.adjacency

    @cached_property
    def advantage_upper(self) -> float:
        """Largest TPR - FPR."""
        return self.guarantee.curve.advantage

    @cached_property
    def accuracy_upper(self) -> float:
        """Best probability of being right at the prior."""
        return self.guarantee.curve.accuracy(self.prior)

    @cached_property
    def precision_upper(self) -> float:
        """Best probability that a record named "in" was in, naming as few as one likes."""
        return self.guarantee.curve.precision(self.prior)

    @cached_property
    def tpr_upper(self) -> dict[str, float]:
        """Best TPR at each FPR, keyed by the FPR as text."""
        return {repr(alpha): self.guarantee.curve.tpr(alpha) for alpha in self.fpr}

    @cached_property
    def eta_upper(self) -> float:
        """Least η for which MIP is certain, replace-one."""
        return self.guarantee.replaced().curve.eta

    @cached_property
    def security_lower(self) -> float:
        """MIS at (ν, λ) from the curve alone, replace-one."""
        return self.guarantee.replaced().curve.security(self.nu, self.lam)

    @cached_property
    def security_lower_iid(self) -> float | None:
        """MIS by the sharper bound for pure replace-one ε-DP (X11); ``None`` where δ > 0."""
        largest = self.guarantee.replaced().curve.epsilon(0.0)
        if not math.isfinite(largest):
            return None
        leak = leak_from_pure_dp(largest, self.nu, self.lam)
        return max(self.security_lower, 1.0 if leak == 0.0 else down(1.0 - leak))

    @property
    def theorems(self) -> tuple[str, ...]:
        """Results the numbers rest on."""
        used = ["A25-P5", "A25-T6", "I24-P2", *_CURVE_THEOREMS[self.guarantee.notion]]
        if self.security_lower_iid is not None:
            used.append("X11")
        return tuple(used)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What has to be true of the system for the numbers to hold."""
        first = {
            "(ε, δ)-DP": f"The release is (ε, δ)-DP under {self.adjacency} adjacency.",
            "μ-GDP": f"The release is μ-GDP under {self.adjacency} adjacency.",
            "DP-SGD": (
                "Every step samples each record independently with the stated rate, clips its "
                "gradient, and adds Gaussian noise of the stated multiple of the clipping norm; "
                "nothing else about the data is released."
            ),
        }[self.guarantee.notion]
        convert = (
            "advantage, accuracy and TPR speak of the neighbour game at "
            f"{self.adjacency} adjacency; η and MIS are converted to replace-one."
        )
        one = "One record is one person's whole contribution; groups are less protected."
        return (first, convert, one, *self.notes)

    def certificates(self) -> tuple[Certificate, ...]:
        """Return the main numbers as certificates, each in its own game."""
        here, iid = NeighbourGame(self.adjacency), IidGame(self.nu, self.lam)
        swap = NeighbourGame("replace-one")
        rest, base = self.assumptions, _CURVE_THEOREMS[self.guarantee.notion]
        read = ("I24-P2", *base)
        mis = ("A25-P5", "A25-T6", *base)
        return (
            Certificate("advantage", self.advantage_upper, "upper", here, read, rest),
            Certificate("accuracy", self.accuracy_upper, "upper", here, read, rest),
            Certificate("eta", self.eta_upper, "upper", swap, read, rest),
            Certificate("security", self.security_lower, "lower", iid, mis, rest),
        )

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract."""
        result = common_fields(
            "explain", NeighbourGame(self.adjacency), self.theorems, self.assumptions
        )
        result |= {
            "adjacency": self.adjacency,
            "advantage_upper": self.advantage_upper,
            "accuracy_upper": self.accuracy_upper,
            "eta_upper": self.eta_upper,
            "security_lower": self.security_lower,
            "security_lower_iid": json_number(self.security_lower_iid),
            "tpr_upper": self.tpr_upper,
            "precision_upper": self.precision_upper,
            "epsilon": json_number(self.epsilon),
            "delta": json_number(self.delta),
            "prior": self.prior,
            "nu": self.nu,
            "lam": self.lam,
            "notion": self.guarantee.notion,
            "target": self.target,
            "sentence": self.sentence,
        }
        return result | dict(self.parameters)

    @property
    def setting(self) -> str:
        """The parameters, in words; one that was looked for is rounded to the safe side."""
        p = self.parameters
        if self.guarantee.notion == "DP-SGD":
            noise = float(p["noise_multiplier"])
            shown = significant(noise, "given" if self.target is None else "upper")
            return (
                f"noise multiplier {shown}, sampling rate "
                f"{significant(p['sample_rate'], 'given')} and {int(p['steps'])} steps"
            )
        if self.guarantee.notion == "μ-GDP":
            return f"μ = {significant(p['gdp'], 'given')} (Gaussian DP)"
        delta = "" if not self.delta else f" and δ = {significant(self.delta, 'given')}"
        return f"ε = {self._epsilon_in_words()}{delta}"

    def _epsilon_in_words(self) -> str:
        """ε: as given, the largest that may be used (down), or one that follows (up)."""
        if self.epsilon is None or math.isinf(self.epsilon):
            return "no finite ε"
        if self.guarantee.notion != "(ε, δ)-DP":
            return significant(self.epsilon, "upper")
        return significant(self.epsilon, "given" if self.target is None else "lower")

    @property
    def sentence(self) -> str:
        """A sentence a lawyer understands; every number in it is rounded to the safe side."""
        lead = f"With {self.setting}, "
        if self.target is not None:
            lead = f"To keep {self.target}, use {self.setting}: then "
        odds = (
            ""
            if self.prior == 0.5
            else f" when {percent(self.prior, 'given')} of the candidates were in"
        )
        other = (
            "another record in its place"
            if self.adjacency == "replace-one"
            else "the same data without that record"
        )
        blind = percent(max(self.prior, 1 - self.prior), "upper")
        parts = [
            f"{lead}an attacker who must decide between “in” and “out” can be right at most "
            f"{percent(self.accuracy_upper, 'upper')} of the time{odds} (always giving the "
            f"likelier answer is right {blind})"
        ]
        if vacuous(self.accuracy_upper):
            parts = [f"{lead}nothing is proved about how often an attacker can be right{odds}"]
        if self.fpr:
            alpha = min(self.fpr, key=lambda a: abs(a - 0.01))
            parts.append(
                f"one who wrongly accuses at most {percent(alpha, 'given')} of the outsiders "
                f"finds at most {percent(self.tpr_upper[repr(alpha)], 'upper')} of the members"
            )
        parts.append(
            "this holds for every record and every attack, where “out” means training on " + other
        )
        return "; ".join(parts) + "."

    def summary(self) -> str:
        """Return the short readable table of the command line."""
        eps = self._epsilon_in_words()
        rows = [
            (
                "ε at δ",
                eps if self.delta is None else f"{eps} at {significant(self.delta, 'given')}",
            ),
            ("adjacency", self.adjacency),
            (
                f"accuracy at prior {significant(self.prior, 'given')}",
                marked(self.accuracy_upper, "certificate"),
            ),
            (
                "advantage (TPR - FPR)",
                marked(self.advantage_upper, "certificate", "advantage", 6),
            ),
            *(
                (
                    f"TPR at FPR {significant(float(alpha), 'given')}",
                    marked(value, "certificate", "tpr", 6),
                )
                for alpha, value in self.tpr_upper.items()
            ),
            ("η (MIP, replace-one)", marked(self.eta_upper, "certificate", "eta", 6)),
            (
                f"MIS at γ = {significant(gamma_from_priors(self.nu, self.lam), 'given')}",
                marked(self.security_lower, "certificate", "security", 6),
            ),
        ]
        if self.security_lower_iid is not None:
            rows.append(
                (
                    "  and for i.i.d. records",
                    marked(self.security_lower_iid, "certificate", "security", 6),
                )
            )
        width = max(len(name) for name, _ in rows)
        table = "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
        return f"{self.sentence}\n\n{table}"
