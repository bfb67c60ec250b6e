"""Recompute a certificate from its derivation record (X34, proofs/verification.md).

Sums of squares are compared in rationals, the normal law in decimals with 40 digits.  A printed
upper bound may be larger than what is recomputed, never smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, DecimalException, localcontext
from fractions import Fraction
from functools import partial
from typing import Any, TypeGuard

from memberbound.curve.base import TradeoffCurve
from memberbound.curve.families import SlackCurve, gaussian_summary
from memberbound.dp import DpSgd, DpSgdHistory
from memberbound.numerics.decimal_normal import (
    MARGIN,
    above,
    decimal,
    normal_cdf,
    normal_quantile_upper,
)
from memberbound.numerics.rounding import down, up
from memberbound.release.budget import DRAWS, NAMES
from memberbound.release.derivation import (
    FORMAT,
    GROUPS,
    SEAL,
    group_statement,
    public_numbers,
    seal,
    statement,
)
from memberbound.release.ledger_file import broken_chain, read_entry
from memberbound.release.record import CertificateRecord
from memberbound.release.schema import record_schema, violation

#: A scale is rounded up by a few units in the last place, and shares are rounded.
_TIGHT = Fraction(1, 10**12)
#: Relative difference of the lattice of sampled steps between machines, at most.
_LATTICE = 1e-11
#: … of the regret of summarising their curve by μ, a small difference of two curves.
_SUMMARY = 1e-6
#: Slack of a coordinate, and the chance to name what one record has (gradient-descent.md, 3 and 5).
_PER_DRAW = 42 * Fraction(1, 2**46) + Fraction(1, 2**70)
_NAMED_AT = Decimal("-6.075")
#: Theorems of releases of all rows.
_THEOREMS = {"X12", "X22", "X25", "X26", "X31"}
#: Least squared sensitivity of every measurement, by name; that of clips is the producer's choice.
_LEAST_SQUARES = {
    **dict.fromkeys(
        (
            "a trial",
            "boosting",
            "gradient descent",
            "means of columns with public ranges",
            "means of features",
            "steps on all records",
        ),
        0,
    ),
    **dict.fromkeys(
        (
            "calibrated probabilities",
            "calibration",
            "cells",
            "class frequencies",
            "classes of the target",
            "columns",
            "counts",
            "counts of halves",
            "further pairs",
            "histograms of values",
            "histograms within ranges",
            "how numbers are written",
            "means",
            "pairs",
            "products",
            "sums and missing values",
            "target",
        ),
        2,
    ),
    "scores of pairs": 4,
    "scores of further pairs": 4,
    "values of columns called identifiers": 1,
    "the trials' scores": 1,
}


@dataclass(frozen=True)
class Check:
    """One check of a release: whether it holds, and what was compared."""

    name: str
    holds: bool
    detail: str


class CheckFailed(Exception):  # noqa: N818
    """A check that does not hold, and why."""


def require(holds: bool, problem: str) -> None:
    """Raise :class:`CheckFailed` unless a check holds."""
    if not holds:
        raise CheckFailed(problem)


def _stated(number: float | None) -> float:
    """Return a number that a record must state for this check."""
    if number is None:
        raise TypeError("a number is missing")
    return number


def recompute_certificate(certificate: Mapping[str, object], digest: str) -> Iterator[Check]:
    """Yield the checks of a certificate against the SHA-256 of its file, in order.

    Theorem: X34 (proofs/verification.md, sections 1 to 7).
    Edge cases: what follows from a record that violates its schema is not checked.
    """
    yield file_check(certificate, digest)
    yield from recompute_fields(certificate, seal_check(certificate))


def recompute_fields(certificate: Mapping[str, object], *more: Check) -> Iterator[Check]:
    """Yield the schema check, these other checks, and those of the bounds."""
    yield run_check("schema", partial(_schema, certificate))
    yield from more
    if keeps_schema(certificate):
        for name, compare in _Work(certificate).checks():
            yield run_check(name, compare)


def keeps_schema(certificate: Mapping[str, object]) -> TypeGuard[CertificateRecord]:
    """Return whether a certificate has the keys and types of its schema."""
    return not violation(certificate, record_schema())


def run_check(name: str, compare: Callable[[], str]) -> Check:
    """Run a check that returns what it compared, or raises."""
    try:
        with localcontext() as context:
            context.prec = 60
            return Check(name, True, compare())
    except CheckFailed as problem:
        return Check(name, False, str(problem))
    except (ArithmeticError, DecimalException, LookupError, TypeError, ValueError) as problem:
        return Check(name, False, f"cannot be recomputed ({type(problem).__name__})")


def file_check(certificate: Mapping[str, object], digest: str) -> Check:
    """Check 1: the certificate is that of a file with this SHA-256."""
    if certificate.get("sha256") == digest:
        return Check("file", True, "the SHA-256 of the file is the one in the certificate")
    return Check("file", False, "the certificate belongs to another file, or the file was changed")


def seal_check(certificate: Mapping[str, object]) -> Check:
    """Check 3: the certificate's own hash."""

    def compare() -> str:
        require(certificate.get(SEAL) == seal(certificate), "the certificate was changed")
        return "nothing in the certificate was changed since its hash was taken"

    return run_check("seal", compare)


def _schema(certificate: Mapping[str, object]) -> str:
    problem = violation(certificate, record_schema())
    require(not problem, problem)
    return FORMAT


class _Work:
    """The numbers of a certificate with a valid schema, and what is recomputed from them."""

    def __init__(self, certificate: CertificateRecord) -> None:
        self.certificate = certificate
        self.record = certificate["derivation"]
        self.curve = certificate["curve"]
        self.replaced = self.curve["replace_one"]
        self.noisy = [part for part in self.record["measurements"] if part["vectors"]]
        self.steps = self.record["sampled"]
        self.slack = decimal(self.record["slack"])

    def checks(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """Yield the names of the checks and what each compares."""
        yield "noise scales", self.scales
        yield "grids", self.grids
        yield "shares", self.shares
        yield "sensitivities", self.sensitivities
        if self.steps:
            yield "sampled steps", self.sampled
        else:
            yield "budget", self.budget
        yield "slack", self.slacks
        yield "eta", self.eta
        yield "true-positive rates", self.rates
        yield "epsilon", self.epsilon
        yield "consistency", self.consistency
        yield "groups", self.groups
        yield "sentences", self.sentences

    def scales(self) -> str:
        """Check 4."""
        for part in self.record["measurements"]:
            name = part["name"]
            if not part["vectors"]:
                fields = part["sensitivity"], part["noise_scale"], part["grid_step"]
                empty = fields == (None, None, None) and part["coordinates"] == 0
                require(empty, f"{name!r} bought no noise and states some")
                continue
            require(None not in (part["sensitivity"], part["noise_scale"]), f"{name!r} has gaps")
            moved = part["vectors"] * Fraction(_stated(part["sensitivity"])) ** 2
            paid = (Fraction(part["mu"]) * Fraction(_stated(part["noise_scale"]))) ** 2
            require(moved <= paid, f"{name!r} has less noise than its share of the budget needs")
            require(moved >= paid * (1 - _TIGHT), f"{name!r} does not fit its noise scale")
        return f"√vectors·sensitivity/scale ≤ μ of the share, {len(self.noisy)} times"

    def grids(self) -> str:
        """Check 5."""
        for part in (*self.noisy, *self.steps):
            step, scale = part["grid_step"], part["noise_scale"]
            fits = step is not None and math.frexp(step)[0] == 0.5
            if fits:
                exact = Fraction(_stated(step))
                fits = 4 * exact <= Fraction(_stated(scale)) < 8 * exact
            require(fits, f"{part['name']!r} must have a power of two between scale/8 and scale/4")
        return "every step is a power of two between an eighth and a quarter of its scale"

    def shares(self) -> str:
        """Check 6."""
        require(bool(self.noisy or self.steps), "nothing was measured")
        whole, total = Fraction(self.record["budget_mu"]) ** 2, Fraction(0)
        for part in self.record["measurements"]:
            share = Fraction(part["mu"]) ** 2 / whole
            stated = Fraction(part["budget_share"])
            require(abs(stated - share) <= _TIGHT * share, f"{part['name']!r} has another share")
            total += stated
        gap = abs(Fraction(self.record["budget_spent"]) - total)
        require(gap <= _TIGHT, "the shares do not add up to what was spent: a part is missing")
        return f"they add up to {float(total):.4f} of μ²"

    def sensitivities(self) -> str:
        """Check 8."""
        for part in self.record["measurements"]:
            require(part["name"] in _LEAST_SQUARES, f"{part['name']!r} is not a known measurement")
        least = [_LEAST_SQUARES[part["name"]] for part in self.noisy]
        for part, square in zip(self.noisy, least, strict=True):
            enough = Fraction(_stated(part["sensitivity"])) ** 2 >= square
            require(enough, f"{part['name']!r} must have at least √{square}")
        known = sum(square > 0 for square in least)
        return f"{known} of {len(least)} follow from the names: none is below √2, 2 or 1"

    def budget(self) -> str:
        """Check 7."""
        mu = self.record["mu"]
        if mu is None or mu != self.record["budget_mu"]:
            raise CheckFailed("μ is not that of the budget")
        spent = sum(Fraction(part["mu"]) ** 2 for part in self.record["measurements"])
        require(spent <= Fraction(mu) ** 2, "the measurements took more than μ²")
        return f"Σμ² = {float(spent):.6g} ≤ μ² = {float(Fraction(mu) ** 2):.6g}"

    def slacks(self) -> str:
        """Check 9."""
        parts = self.record["slacks"]
        reasons = [part["reason"] for part in parts]
        require(len(set(reasons)) == len(reasons), "a reason stands twice")
        require(DRAWS in reasons, f"there is no part for {DRAWS}")
        require(set(reasons) <= {DRAWS, NAMES}, "a reason is not known")
        drawn = sum(part["coordinates"] for part in (*self.record["measurements"], *self.steps))
        require(drawn > 0, "no noisy number is counted")
        names = any(part["name"] == "classes of the target" for part in self.noisy)
        require(NAMES in reasons or not names, f"there is no part for {NAMES}")
        for part in parts:
            each, amount = Fraction(part["each"]), Fraction(part["amount"])
            exact = part["count"] * each
            fits = 0 < exact <= amount and (amount == 1 or amount * (1 - _TIGHT) <= exact)
            require(fits, f"{part['reason']}: not count·each, rounded up")
            if part["reason"] == DRAWS:
                require(each >= _PER_DRAW, "less than 42·2^-46 + 2^-70 for a draw")
                require(part["count"] >= drawn, f"{drawn} numbers were drawn, more than counted")
            else:
                named = decimal(each) >= normal_cdf(_NAMED_AT)
                require(named, "less than Φ(-6.075) for a name")
        total = sum(Fraction(part["amount"]) for part in parts)
        stated = Fraction(self.record["slack"])
        require(stated >= min(total, 1), "the parts add up to more")
        require(stated * (1 - _TIGHT) <= total, "the parts add up to less")
        return f"{drawn} noisy numbers; total variation ≤ {above(self.slack, 3)}"

    def sampled(self) -> str:
        """Check 15."""
        (steps,) = self.steps
        require(self.record["mu"] is None, "no normal pair has the curve of sampled steps")
        reached = Fraction(steps["noise_multiplier"]) * Fraction(steps["sensitivity"])
        scale = Fraction(steps["noise_scale"])
        require(reached <= scale, "the noise is smaller than multiplier·sensitivity")
        require(reached >= scale * (1 - _TIGHT), "multiplier, sensitivity and scale do not fit")
        rate, multiplier = steps["sample_rate"], steps["noise_multiplier"]
        return f"{steps['steps']} steps, sampling rate {rate:.6g}, multiplier {multiplier:.6g}"

    # ── Bounds ────────────────────────────────────────────────────────────────────────────────────

    def _distance(self, records: int = 1) -> Decimal:
        """Return the total variation of the ideal pair, and of a group."""
        mu = decimal(_stated(self.record["mu"])) * records
        return 2 * normal_cdf(mu / 2) - 1

    def _sampled_curve(self) -> TradeoffCurve:
        (steps,) = self.steps
        parts = [DpSgd(steps["noise_multiplier"], steps["sample_rate"], steps["steps"])]
        if self.noisy:
            paid = (part["mu"] for part in self.noisy)
            mu = up(math.hypot(*paid), 16 + len(self.noisy))
            parts.insert(0, DpSgd(down(2.0 / mu, 4), 1.0, 1))
        return DpSgdHistory(tuple(parts)).curve("replace-one")

    def eta(self) -> str:
        """Check 10, what the advantage gives; check 16."""
        if self.steps:
            exact = decimal(self._sampled_curve().advantage * (1 - _LATTICE))
        else:
            exact = self._distance()
        advantage = min(Decimal(1), exact + 2 * self.slack)
        for name, stated, least in (
            ("eta_upper", self.curve["eta_upper"], advantage / 2),
            ("advantage_upper", self.replaced["advantage_upper"], advantage),
            ("accuracy_upper", self.replaced["accuracy_upper"], (1 + advantage) / 2),
            ("1 - security_lower", 1 - Fraction(self.curve["security_lower"]), advantage),
        ):
            _at_least(name, stated, least)
        mu, regret = self.record["mu"], self.record["slack"]
        if self.steps:
            mu, regret = gaussian_summary(SlackCurve(self._sampled_curve(), self.record["slack"]))
            mu, regret = mu * (1 - _LATTICE), regret * (1 - _SUMMARY)
        require(self.curve["mu_upper"] >= _stated(mu), f"mu_upper is below {mu!r}")
        require(self.curve["mu_regret_upper"] >= regret, f"mu_regret_upper is below {regret!r}")
        return f"recomputed η ≤ {above(advantage / 2)}, printed {self.curve['eta_upper']:.6g}"

    def rates(self) -> str:
        """Check 10, the true-positive rates."""
        for rate, stated in self.replaced["tpr_upper"].items():
            _at_least(f"TPR at FPR {rate}", stated, self._rate(rate))
        return f"at FPR {', '.join(self.replaced['tpr_upper'])}"

    def _rate(self, rate: str) -> Decimal:
        """Return the true-positive rate that is recomputed."""
        if self.steps:
            curve = SlackCurve(self._sampled_curve(), self.record["slack"])
            return decimal(curve.tpr(float(rate)) * (1 - _LATTICE))
        moved = decimal(float(rate)) + self.slack
        if moved >= 1:
            return Decimal(1)
        tpr = normal_cdf(normal_quantile_upper(moved) + decimal(_stated(self.record["mu"])))
        return min(Decimal(1), tpr + self.slack)

    def epsilon(self) -> str:
        """Check 10, ε at δ."""
        delta, epsilon = self.curve["delta"], self.replaced["epsilon_upper"]
        if epsilon is None:
            return f"none is stated at δ = {delta:g}"
        if self.steps:
            curve = SlackCurve(self._sampled_curve(), self.record["slack"])
            least = decimal(curve.delta(epsilon) * (1 - _LATTICE))
            require(decimal(delta) >= least, f"δ = {delta:g} needs a larger ε than {epsilon}")
            return f"at ε = {epsilon:.6g} the profile is ≤ {above(least)} (δ = {delta:g})"
        mu, at = decimal(_stated(self.record["mu"])), decimal(epsilon)
        if self.slack:
            best = -mu * normal_quantile_upper(self.slack) - mu * mu / 2
            at = min(at, max(Decimal(0), best))
        weight = at.exp()
        stick = normal_cdf(mu / 2 - at / mu) - weight * normal_cdf(-mu / 2 - at / mu)
        least = stick + (1 + weight) * self.slack
        require(decimal(delta) >= least - MARGIN, f"δ = {delta:g} needs a larger ε than {epsilon}")
        return f"at ε = {epsilon:.6g} the profile is ≤ {above(least)} (δ = {delta:g})"

    def consistency(self) -> str:
        """Check 11."""
        stated, record = self.certificate, self.record
        bound = stated["certificate"]
        theorems = bound["theorems"]
        for holds, problem in (
            (bound["upper"] == self.curve["eta_upper"], "two values of η are printed"),
            (stated["eta"] >= bound["upper"], "η is above what was asked for"),
            (theorems == record["theorems"], "two lists of theorems are printed"),
            ({"X22"} <= set(theorems) <= _THEOREMS, "X22 is missing, or a theorem is not known"),
            (("X26" in theorems) == (record["unit"] is not None), "X26 goes with a unit"),
            ("X12" in theorems or not self.steps, "X12 goes with sampled steps"),
            (stated["unit"] == record["unit"], "two units are printed"),
            (stated["mu"] == record["mu"], "two values of μ are printed"),
            (stated["rows_trained"] == record["records"], "two numbers of records are printed"),
            (
                record["public"][0] in public_numbers(record["unit"]),
                "what is public does not fit the unit",
            ),
        ):
            require(holds, problem)
        return "game, unit, theorems, μ and η agree wherever they stand"

    def groups(self) -> str:
        """Checks 12 and 17."""
        listed = self.certificate["groups"]
        sizes = tuple(group["records"] for group in listed)
        require(sizes == GROUPS, "the groups must be of 2, 5 and 10 records")
        parts = {part["reason"]: part for part in self.record["slacks"]}
        draws = decimal(parts[DRAWS]["amount"])
        names = decimal(parts[NAMES]["amount"]) if NAMES in parts else Decimal(0)
        curve = self._sampled_curve() if self.steps else None
        for group in listed:
            size = group["records"]
            if curve is None:
                added, exact = self._check_chain(size, names), self._distance(size)
            else:
                chained = SlackCurve(curve, float(names)).group(size)
                added, exact = decimal(chained.slack), decimal(chained.base.advantage)
                exact *= 1 - decimal(_LATTICE)
            least = min(Decimal(1), exact + 2 * (added + size * draws))
            _at_least(f"η of {size} records", group["eta_upper"], least / 2)
            _at_least(f"accuracy on {size} records", group["accuracy_upper"], (1 + least) / 2)
        return "2, 5 and 10 records together"

    def _check_chain(self, size: int, names: Decimal) -> Decimal:
        added = names
        mu = decimal(_stated(self.record["mu"]))
        for _ in range(size - 1 if names else 0):
            if added + names >= 1:
                return Decimal(1)
            added = normal_cdf(normal_quantile_upper(added + names) + mu) + names
        return min(added, Decimal(1))

    def sentences(self) -> str:
        """Checks 13 and 14."""
        unit = self.record["unit"]
        wanted = statement(self.replaced["accuracy_upper"], unit)
        require(self.certificate["statement"] == wanted, f"the statement must read: {wanted}")
        for group in self.certificate["groups"]:
            wanted = group_statement(group["records"], group["accuracy_upper"], unit)
            require(group["statement"] == wanted, f"a statement must read: {wanted}")
        return "every sentence is the one of its number"


def _at_least(name: str, stated: float | Fraction, least: Decimal) -> None:
    """Require a printed bound to be at least what was recomputed."""
    printed = decimal(stated)
    shown = float(stated)
    require(printed >= least - MARGIN, f"{name} is printed as {shown!r}, below {above(least, 17)}")


def check_content(content: object, certificate: CertificateRecord) -> Check:
    """Check that the budget described in a file agrees with its certificate."""

    def compare() -> str:
        assert isinstance(content, dict)
        record = certificate["derivation"]
        for name, stated in (
            ("mu", record["budget_mu"]),
            *((key, record[key]) for key in ("slack", "slacks", "measurements", "unit")),
            ("rows", record["records"]),
        ):
            if name in content:
                require(content[name] == stated, f"the file states another {name}")
        return "the file itself states the same measurements"

    return run_check("file content", compare)


def check_ledger(content: Mapping[str, Any], certificate: CertificateRecord) -> Iterator[Check]:
    """Yield the checks of a ledger, and of the release's place in it.

    Theorem: X27, X34 (proofs/verification.md, section 8).
    """

    def chain() -> str:
        problem = broken_chain(content)
        require(problem is None, str(problem))
        ids = [entry["id"] for entry in entries]
        require(len(set(ids)) == len(ids), "two entries have the same id")
        known = set(content) <= {"format", "limit", "releases", "head"}
        require(known and set(content["limit"]) == {"eta", "mu", "slack"}, "another key is there")
        linked = sum(entry.get("previous") is not None for entry in entries)
        unlinked = len(entries) - linked
        before = f", {unlinked} of an earlier version" if unlinked else ""
        return f"{linked} linked entries{before}: none removed, moved or changed"

    def limit() -> str:
        stated = content["limit"]
        squares = sum(Fraction(entry["mu"]) ** 2 for entry in entries)
        slacks = sum(Fraction(entry["slack"]) for entry in entries)
        units = {entry["unit"] for entry in entries}
        require(units == {certificate["unit"]}, "the entries have another unit")
        require(squares <= Fraction(stated["mu"]) ** 2, "the entries exceed the limit of μ")
        require(slacks <= Fraction(stated["slack"]), "the entries exceed the limit of the slack")
        least = normal_cdf(decimal(stated["mu"]) / 2) - Decimal("0.5") + decimal(stated["slack"])
        _at_least("the limit's η", stated["eta"], least)
        return f"all releases together keep η ≤ {stated['eta']:.6g}"

    def inclusion() -> str:
        stored = certificate.get("ledger")
        require(isinstance(stored, dict), "the certificate names no entry of a ledger")
        assert isinstance(stored, dict)
        at, record = stored["position"], certificate["derivation"]
        require(at < len(entries), f"it has no entry {at + 1}")
        entry = read_entry(entries[at])
        same = (entry.id, entry.link) == (stored["entry"], stored["link"])
        require(same, f"entry {at + 1} is not the one of this release, or was changed")
        spent = (entry.mu, entry.slack, entry.unit)
        stated = (record["mu"], record["slack"], record["unit"])
        require(spent == stated, f"entry {at + 1} states another μ, slack or unit")
        known = entry.release_sha256
        require(known in (None, certificate["sha256"]), f"entry {at + 1} is of another file")
        return f"entry {at + 1} of {len(entries)}"

    entries = content["releases"]
    yield run_check("ledger chain", chain)
    yield run_check("ledger limit", limit)
    yield run_check("ledger inclusion", inclusion)
