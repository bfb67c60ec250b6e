#!/usr/bin/env python3
"""Recompute a certificate of memberbound without memberbound.

    python verify.py model.skops [--certificate FILE] [--ledger FILE]

One file, Python 3.11 or newer, the standard library alone: paste it anywhere.  It was written from
``proofs/verification.md``, whose section numbers the comments give, and shares no code with the
program that wrote the certificate.

Doubles are taken as the rational numbers that they are.  Products and sums of them are compared as
fractions; what needs a root, an exponential or the normal distribution is enclosed in an interval
of decimals (:class:`Interval`).  The exit status is 0 if nothing contradicts the certificate, 3 if
a check fails, and 2 if a file cannot be read.

It cannot check that the noise was drawn as stated and kept secret.  It cannot check that the stated
sensitivities are those of the code that ran.  It cannot check that nothing else was published.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

LARGEST = 2**24


class UnreadableError(Exception):
    """A file that cannot be read or is no certificate at all."""


# ── Intervals of decimals ─────────────────────────────────────────────────────────────────────────

_DIGITS = 40
_LOW = Context(_DIGITS, ROUND_FLOOR, -999999, 999999)
_HIGH = Context(_DIGITS, ROUND_CEILING, -999999, 999999)
_NEAR = Context(_DIGITS, ROUND_HALF_EVEN, -999999, 999999)
_TINY = Decimal("1e-42")


@dataclass(frozen=True)
class Interval:
    """A closed interval that holds a real number.

    Sums, products and quotients are rounded outward.  ``sqrt`` and ``exp`` of :mod:`decimal` are
    correctly rounded, so the neighbours of their results enclose the real value.
    """

    lo: Decimal
    hi: Decimal

    @classmethod
    def of(cls, value: Fraction | float | int) -> Interval:
        """Enclose a rational number."""
        exact = Fraction(value)
        above, below = Decimal(exact.numerator), Decimal(exact.denominator)
        return cls(_LOW.divide(above, below), _HIGH.divide(above, below))

    def __add__(self, other: Interval) -> Interval:
        return Interval(_LOW.add(self.lo, other.lo), _HIGH.add(self.hi, other.hi))

    def __neg__(self) -> Interval:
        return Interval(self.hi.copy_negate(), self.lo.copy_negate())  # `-` would round

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        pairs = [(a, b) for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        return Interval(
            min(_LOW.multiply(*pair) for pair in pairs),
            max(_HIGH.multiply(*pair) for pair in pairs),
        )

    def __truediv__(self, other: Interval) -> Interval:
        if other.lo <= 0 <= other.hi:
            raise ZeroDivisionError("the divisor may be 0")
        inverse = Interval(_LOW.divide(Decimal(1), other.hi), _HIGH.divide(Decimal(1), other.lo))
        return self * inverse

    def sqrt(self) -> Interval:
        """Enclose the square root."""
        low = max(self.lo, Decimal(0))
        return Interval(
            max(Decimal(0), _NEAR.sqrt(low).next_minus(_LOW)),
            _NEAR.sqrt(max(self.hi, low)).next_plus(_HIGH),
        )

    def exp(self) -> Interval:
        """Enclose the exponential."""
        return Interval(_NEAR.exp(self.lo).next_minus(_LOW), _NEAR.exp(self.hi).next_plus(_HIGH))

    def cut(self, most: int | Fraction = 1) -> Interval:
        """Enclose the smaller of the number and ``most``."""
        limit = Interval.of(most)
        return Interval(min(self.lo, limit.lo), min(self.hi, limit.hi))


ZERO, HALF, ONE, TWO = (Interval.of(Fraction(k, 2)) for k in (0, 1, 2, 4))
_PI = Interval(
    Decimal("3.14159265358979323846264338327950288419716939937510"),
    Decimal("3.14159265358979323846264338327950288419716939937511"),
)
_ROOT = (TWO * _PI).sqrt()


def _cdf_at(x: Decimal) -> Interval:
    """Enclose Φ at a decimal: Φ(a) - ½ = φ(a)·(a + a³/3 + a⁵/(3·5) + …) for a ≥ 0."""
    a = x.copy_abs()  # `abs` would round
    if a > 60:  # 1 - Φ(60) < 10⁻⁷⁰⁰
        tail = Interval(Decimal(0), Decimal("1e-700"))
        return tail if x < 0 else ONE - tail
    square_lo, square_hi = _LOW.multiply(a, a), _HIGH.multiply(a, a)
    low = high = term_lo = term_hi = a
    k = 1
    # When the ratio of terms is below ½, the rest of the series is at most the last term.
    while term_hi > _TINY or 2 * square_hi > k + 2:
        k += 2
        term_lo = _LOW.divide(_LOW.multiply(term_lo, square_lo), Decimal(k))
        term_hi = _HIGH.divide(_HIGH.multiply(term_hi, square_hi), Decimal(k))
        low, high = _LOW.add(low, term_lo), _HIGH.add(high, term_hi)
    series = Interval(low, _HIGH.add(high, term_hi))
    half = (-Interval(square_lo, square_hi) * HALF).exp() / _ROOT * series
    whole = HALF - half if x < 0 else HALF + half
    return Interval(max(whole.lo, Decimal(0)), min(whole.hi, Decimal(1)))


def cdf(x: Interval) -> Interval:
    """Enclose Φ."""
    return Interval(_cdf_at(x.lo).lo, _cdf_at(x.hi).hi)


def quantile(p: Interval) -> Interval:
    """Enclose Φ⁻¹ of a number between 0 and 1: guess, then prove both ends."""
    near = Decimal(NormalDist().inv_cdf(min(max(float(p.lo), 1e-300), 1 - 1e-16)))
    density = Decimal(NormalDist().pdf(float(near)))
    near = _NEAR.subtract(near, _NEAR.divide(_NEAR.subtract(_cdf_at(near).lo, p.lo), density))
    width = Decimal("1e-30")
    low = _LOW.subtract(near, width)
    while _cdf_at(low).hi > p.lo:
        width *= 16
        low = _LOW.subtract(near, width)
    width = Decimal("1e-30")
    high = _HIGH.add(near, width)
    while _cdf_at(high).lo < p.hi:
        width *= 16
        high = _HIGH.add(near, width)
    return Interval(low, high)


def at_least(printed: float, bound: Interval) -> bool:
    """Tell whether a printed number is certainly not below an enclosed one."""
    return Interval.of(printed).lo >= bound.hi or Decimal(printed) >= bound.hi


# ── Texts (section 1) ─────────────────────────────────────────────────────────────────────────────


def read_json(path: Path) -> dict[str, Any]:
    """Read one JSON object; refuse repeated keys, numbers that are not finite, and large files."""
    if path.stat().st_size > LARGEST:
        raise UnreadableError(f"{path} is larger than {LARGEST} bytes.")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise UnreadableError(f"{path} repeats a key of an object.")
        return dict(pairs)

    def finite(text: str) -> float:
        if not math.isfinite(float(text)):
            raise UnreadableError(f"{path} holds a number that is not finite: {text[:20]}.")
        return float(text)

    try:
        text = path.read_bytes().decode("utf-8")
        value = json.loads(text, object_pairs_hook=once, parse_constant=finite, parse_float=finite)
    except (ValueError, RecursionError) as problem:
        raise UnreadableError(f"{path} is not JSON: {str(problem)[:100]}.") from None
    if not isinstance(value, dict):
        raise UnreadableError(f"{path} must hold one JSON object.")
    return value


def digest(value: object) -> str:
    """Return the SHA-256 of the canonical JSON of a value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def per_cent(share: float) -> str:
    """Return a share as per cent, rounded up to two decimals (section 6)."""
    shown = (Decimal(repr(share)) * 100).quantize(Decimal("0.01"), rounding=ROUND_CEILING)
    return f"{shown.normalize():f} %"


# The fields of every object and what they may hold; a ? allows null, a + refuses 0.
_FIELDS = {
    "": "file:text sha256:hash kind:text version:text record:text eta:rate mu:+? "
    "rows_trained:count+ secure_source:flag unit:text? certificate:object curve:object "
    "statement:text groups:list derivation:object certificate_sha256:hash",
    "certificate": "kind:text quantity:text upper:share confidence:share game:text "
    "protects:text theorems:texts assumptions:texts",
    "curve": "delta:share eta_upper:share security_lower:share replace_one:object "
    "mu_upper:number mu_regret_upper:number",
    "replace_one": "advantage_upper:share accuracy_upper:share tpr_upper:object "
    "epsilon_upper:number?",
    "group": "records:count+ eta_upper:share accuracy_upper:share statement:text",
    "derivation": "format:text game:text adjacency:text unit:text? records:count+ "
    "public:texts mu:+? slack:share slacks:list budget_mu:+ measurements:list "
    "budget_spent:share sampled:list theorems:texts",
    "measurement": "name:text budget_share:share mu:+ norm:text sensitivity:+? "
    "vectors:count coordinates:count noise_scale:+? grid_step:+?",
    "sampled": "name:text norm:text sensitivity:+ sample_rate:share+ steps:count+ "
    "coordinates:count noise_scale:+ grid_step:+ noise_multiplier:+",
    "slack": "reason:text count:count each:share amount:share",
}
_HASH = re.compile("[0-9a-f]{64}")


def _fits(value: Any, kind: str) -> bool:
    """Tell whether a value is what a field may hold."""
    if kind.endswith("?"):
        return value is None or _fits(value, kind[:-1])
    types = {"text": str, "hash": str, "flag": bool, "object": dict, "list": list, "texts": list}
    if kind in types:
        fits = isinstance(value, types[kind])
        if fits and kind == "texts":
            return bool(value) and all(isinstance(text, str) for text in value)
        return fits and (kind != "hash" or _HASH.fullmatch(value) is not None)
    if type(value) is not int and (type(value) is not float or kind.startswith("count")):
        return False
    most = {"share": 1, "rate": 0.5}.get(kind.strip("+"), math.inf)
    return 0 <= value <= most and not (kind.endswith("+") and value == 0)


def misfits(c: dict[str, Any]) -> list[str]:
    """Return the fields that are missing, unknown, or hold what they may not."""

    def look(value: Any, name: str, where: str) -> list[str]:
        if not isinstance(value, dict):
            return [where]
        kinds = dict(field.split(":") for field in _FIELDS[name].split())
        odd = [
            key for key, kind in kinds.items() if key not in value or not _fits(value[key], kind)
        ]
        return [f"{where} {key}" for key in odd + (sorted(set(value) - set(kinds)) if name else [])]

    if found := look(c, "", ""):
        return found
    r, curve = c["derivation"], c["curve"]
    for value, name in ((c["certificate"], "certificate"), (curve, "curve"), (r, "derivation")):
        found += look(value, name, name)
    if found:
        return found
    one = curve["replace_one"]
    found = look(one, "replace_one", "replace_one")
    lists = {"group": c["groups"], "measurement": r["measurements"], "sampled": r["sampled"]}
    for name, values in {**lists, "slack": r["slacks"]}.items():
        found += [odd for k, value in enumerate(values) for odd in look(value, name, f"{name} {k}")]
    if not found:
        rates = one["tpr_upper"].items()
        fits = all(re.fullmatch(r"0\.[0-9]+", p) and _fits(v, "share") for p, v in rates)
        found = [] if rates and fits else ["tpr_upper"]
    if r["format"] != "memberbound-derivation/1" or len(r["sampled"]) > 1:
        found.append("derivation format")
    return found


# ── The checks ────────────────────────────────────────────────────────────────────────────────────


class Check(NamedTuple):
    """A line of the result; ``holds`` is None where the check decides neither way."""

    name: str
    holds: bool | None
    detail: str


def listed(name: str, held: dict[str, bool], detail: str) -> Check:
    """Return the check that everything holds, or names what does not."""
    wrong = [key for key, holds in held.items() if not holds]
    return Check(name, not wrong, f"does not hold: {', '.join(wrong[:3])}" if wrong else detail)


NEARLY = 1 - Fraction(1, 10**12)
# A record enters one cell and leaves one (section 2, 8): the least square of the sensitivity.
COUNTS = """\
histograms of values, histograms within ranges, classes of the target, class frequencies,
calibrated probabilities, counts, counts of halves, how numbers are written, target, cells,
columns, pairs, further pairs, calibration, sums and missing values, means, products"""
LEAST = dict.fromkeys(re.split(r",\s", COUNTS), 2)
LEAST |= {"values of columns called identifiers": 1, "the trials' scores": 1}
LEAST |= {"scores of pairs": 4, "scores of further pairs": 4}
DRAWS, NAMES = "draws in floating point", "names that one record has"
EACH_DRAW = 42 * Fraction(1, 2**46) + Fraction(1, 2**70)


def square(x: float) -> Fraction:
    """Return the exact square of a double."""
    return Fraction(x) ** 2


def fits_grid(part: dict[str, Any]) -> bool:
    """Tell whether the grid step is a power of two between an eighth and a quarter of the noise."""
    step, scale = Fraction(part["grid_step"]), Fraction(part["noise_scale"])
    top = step.numerator * step.denominator
    return top & (top - 1) == 0 and scale / 8 < step <= scale / 4


class Certificate:
    """A certificate whose fields have been looked at, and its checks."""

    def __init__(self, c: dict[str, Any]) -> None:
        self.c, self.r, self.curve, self.groups = c, c["derivation"], c["curve"], c["groups"]
        self.one, self.s = self.curve["replace_one"], Interval.of(self.r["slack"])
        self.noisy = [m for m in self.r["measurements"] if m["vectors"]]

    def check_noise(self) -> Iterator[Check]:
        """Check every measurement and the budget (sections 2 and 7)."""
        r, nulls = self.r, ("sensitivity", "noise_scale", "grid_step")
        held = {}
        for m in r["measurements"]:
            missing = [m[key] is None for key in nulls]
            if m["vectors"] and not any(missing):
                moved = m["vectors"] * square(m["sensitivity"])
                paid = square(m["mu"]) * square(m["noise_scale"])
                held[m["name"]] = NEARLY * paid <= moved <= paid
            else:
                held[m["name"]] = not m["vectors"] and all(missing) and not m["coordinates"]
            held[m["name"]] &= m["norm"] == "l2"
        for p in r["sampled"]:
            needed = Fraction(p["noise_multiplier"]) * Fraction(p["sensitivity"])
            scale = Fraction(p["noise_scale"])
            held[p["name"]] = p["norm"] == "l2" and NEARLY * scale <= needed <= scale
        held["different names"] = len(held) == len(r["measurements"]) + len(r["sampled"])
        yield (scales := listed("scales", held, f"{len(held) - 1} measurements"))
        if not scales.holds:
            return
        held = {part["name"]: fits_grid(part) for part in self.noisy + r["sampled"]}
        yield listed("grids", held, "powers of two up to a quarter of the noise")
        whole, spent = square(r["budget_mu"]), Fraction(r["budget_spent"])
        shares = [(Fraction(m["budget_share"]), square(m["mu"])) for m in r["measurements"]]
        near = all(abs(share * whole - mine) <= (1 - NEARLY) * mine for share, mine in shares)
        near &= abs(spent - sum(share for share, _ in shares)) <= 1 - NEARLY
        near &= bool(self.noisy or r["sampled"])
        yield Check("shares", near, f"shares of μ² add up to {float(spent):.6g}")
        total = sum((mine for _, mine in shares), Fraction(0))
        kept = r["mu"] is None if r["sampled"] else r["mu"] == r["budget_mu"] and total <= whole
        yield Check("budget", kept, f"Σ μ_i² = {float(total):.6g} of {float(whole):.6g}")
        held = {m["name"]: square(m["sensitivity"]) >= LEAST.get(m["name"], 0) for m in self.noisy}
        yield listed("sensitivities", held, "of counts at least √2")

    def check_slack(self) -> Check:
        """Check what floating point and rare names add (section 3)."""
        r, parts = self.r, {part["reason"]: part for part in self.r["slacks"]}
        held = {
            "reasons": len(parts) == len(r["slacks"]) and {DRAWS} <= set(parts) <= {DRAWS, NAMES}
        }
        total = Fraction(0)
        for reason, part in parts.items():
            amount, events = Fraction(part["amount"]), part["count"] * Fraction(part["each"])
            total += amount
            held[reason] = amount >= events and (NEARLY * amount <= events or amount == 1)
        held["sum"] = (
            min(1, total) <= Fraction(r["slack"]) and NEARLY * Fraction(r["slack"]) <= total
        )
        if DRAWS in parts:
            drawn = sum(part["coordinates"] for part in r["measurements"] + r["sampled"])
            held["draws"] = parts[DRAWS]["count"] >= drawn and parts[DRAWS]["each"] >= EACH_DRAW
        if NAMES in parts:
            held["names"] = at_least(parts[NAMES]["each"], cdf(Interval.of(Fraction(-6075, 1000))))
        return listed("slack", held, f"total variation {r['slack']:.3g}")

    def check_words(self) -> Iterator[Check]:
        """Check that texts and repeated numbers agree (sections 4, 11 and 6)."""
        c, r, inner, unit = self.c, self.r, self.c["certificate"], self.c["unit"]
        public = {f"number of persons (values of {unit!r})"}
        if unit is None:
            public = {"number of rows", "number of documents"}
        held = {
            "quantity": (inner["kind"], inner["quantity"]) == ("certificate", "eta"),
            "upper": inner["upper"] == self.curve["eta_upper"] and c["eta"] >= inner["upper"],
            "game": inner["game"] == r["game"] == "neighbour" and r["adjacency"] == "replace-one",
            "protects": inner["protects"] == "every record" and c["record"] == "every",
            "confidence": inner["confidence"] == 1,
            "theorems": inner["theorems"] == r["theorems"] and "X22" in r["theorems"],
            "X12": "X12" in r["theorems"] or not r["sampled"],
            "X26": ("X26" in r["theorems"]) == (unit is not None),
            "unit, μ, records": (unit, c["mu"], c["rows_trained"])
            == (r["unit"], r["mu"], r["records"]),
            "public": r["public"][0] in public,
        }
        yield listed("certificate", held, "its numbers and names agree")
        who, accuracy = "record" if unit is None else "person", self.one["accuracy_upper"]
        told = (
            f"Nobody who knows every other {who}, and sees this release and whatever is made of it,"
            f" is right about any {who}'s membership more than {per_cent(accuracy)} of the time "
            "(guessing blindly: 50 %)."
        )
        held = {"statement": c["statement"] == told}
        for g in self.groups:
            share = per_cent(g["accuracy_upper"])
            right = f"For any {g['records']} {who}s together: at most {share} of the time."
            held[f"statement of {g['records']}"] = g["statement"] == right
        yield listed("statements", held, told)

    def check_normal_bounds(self) -> Iterator[Check]:
        """Check what is read off N(μ, 1) against N(0, 1), for one record and k (sections 4, 5)."""
        curve, one, mu, s = self.curve, self.one, Interval.of(self.r["mu"]), self.s
        advantage = TWO * cdf(mu / TWO) - ONE + TWO * s
        held = {
            "eta_upper": at_least(curve["eta_upper"], (advantage / TWO).cut(Fraction(1, 2))),
            "advantage_upper": at_least(one["advantage_upper"], advantage.cut()),
            "accuracy_upper": at_least(one["accuracy_upper"], (HALF + advantage / TWO).cut()),
            "security_lower": curve["security_lower"] <= max(0, (ONE - advantage).lo),
            "epsilon_upper": self.holds_epsilon(one["epsilon_upper"], mu),
            "mu_upper": curve["mu_upper"] >= self.r["mu"],
            "mu_regret_upper": curve["mu_regret_upper"] >= self.r["slack"],
        }
        for rate, value in one["tpr_upper"].items():
            p = Interval.of(float(rate)) + s
            right = (cdf(quantile(p) + mu) + s).cut() if 0 < p.lo <= p.hi < 1 else ONE
            held[f"tpr_upper at {rate}"] = at_least(value, right)
        yield listed("bounds", held, f"η recomputed: {(advantage / TWO).hi:.12f}")
        amounts = {part["reason"]: Interval.of(part["amount"]) for part in self.r["slacks"]}
        rare = moved = amounts.get(NAMES, ZERO)
        at, held = 1, {"records": [g["records"] for g in self.groups] == [2, 5, 10]}
        for g in self.groups if held["records"] else ():
            for _ in range(at, g["records"]):
                p = moved + rare
                moved = (cdf(quantile(p) + mu) + rare if p.hi < 1 else ONE) if p.lo > 0 else ZERO
            at = g["records"]
            right = cdf(Interval.of(at) * mu / TWO) + moved + Interval.of(at) * amounts[DRAWS]
            held[f"accuracy of {at}"] = at_least(g["accuracy_upper"], right.cut())
            held[f"eta of {at}"] = at_least(g["eta_upper"], (right - HALF).cut(Fraction(1, 2)))
        yield listed("groups", held, "2, 5 and 10 records")

    def holds_epsilon(self, epsilon: float | None, mu: Interval) -> bool:
        """Tell whether H(ε') ≤ δ for some ε' up to ε (section 4, 10)."""
        if epsilon is None:
            return True
        e = Interval.of(epsilon)
        if 0 < self.s.lo <= self.s.hi < 1:
            best = -(mu * quantile(self.s)) - mu * mu / TWO
            e = Interval.of(min(Fraction(epsilon), Fraction(max(Decimal(0), best.lo))))
        grown = e.exp()
        profile = cdf(mu / TWO - e / mu) - grown * cdf(-(mu / TWO) - e / mu)
        return at_least(self.curve["delta"], profile + (ONE + grown) * self.s)

    def check_sampled_bounds(self) -> Iterator[Check]:
        """Compare with attacks that exist: a bound below one is false (section 7)."""
        curve, one, s, sums = self.curve, self.one, self.s, Sums(self.r, 1)
        fpr, tpr = sums.point(0.0)
        least, regret = tpr - fpr + TWO * s, Interval.of(curve["mu_regret_upper"])
        p, grown_mu = fpr + regret, Interval.of(curve["mu_upper"])
        accuracy = Interval.of(one["accuracy_upper"])
        held = {
            "eta_upper": (TWO * Interval.of(curve["eta_upper"])).hi >= least.cut().lo,
            "advantage_upper": one["advantage_upper"] >= least.cut().lo,
            "accuracy_upper": (TWO * accuracy - ONE).hi >= least.cut().lo,
            "security_lower": curve["security_lower"] <= max(0, (ONE - least).hi),
            "mu_upper": p.hi >= 1 or (cdf(quantile(p) + grown_mu) + regret).hi >= tpr.lo,
        }
        for rate, value in one["tpr_upper"].items():
            t = -sums.mean - sums.deviation * NormalDist().inv_cdf(float(rate))
            while (found := sums.point(t))[0].hi > Interval.of(float(rate)).lo:
                t += sums.deviation / 500
            held[f"tpr_upper at {rate}"] = value >= (found[1] + s).cut().lo
        if one["epsilon_upper"] is not None:
            fpr, tpr = sums.point(one["epsilon_upper"] * sums.deviation**2 / (2 * sums.mean))
            grown = Interval.of(one["epsilon_upper"]).exp()
            held["epsilon_upper"] = curve["delta"] >= (tpr - grown * fpr + (ONE + grown) * s).lo
        no_more = f"not proved: an attack reaches an advantage of {least.lo:.6f}"
        no_more += f", certified is {one['advantage_upper']:.6f}"
        check = listed("bounds", held, no_more)
        yield check._replace(holds=None if check.holds else False)
        held = {"records": [g["records"] for g in self.groups] == [2, 5, 10]}
        for g in self.groups if held["records"] else ():
            fpr, tpr = Sums(self.r, g["records"]).point(0.0)
            half = ((tpr - fpr) / TWO + s).cut(Fraction(1, 2))
            held[f"eta of {g['records']}"] = g["eta_upper"] >= half.lo
            held[f"accuracy of {g['records']}"] = g["accuracy_upper"] >= (HALF + half).lo
        check = listed("groups", held, "not proved: no attack tried reaches more")
        yield check._replace(holds=None if check.holds else False)

    def check_ledger(self, ledger: dict[str, Any]) -> Iterator[Check]:
        """Check the chain, the limit, and that this release's entry is in it (section 8)."""
        entries, limit, told = ledger["releases"], ledger["limit"], self.c.get("ledger")
        later = {"state", "out", "release_sha256"}
        fixed = [{k: v for k, v in entry.items() if k not in later} for entry in entries]
        first = next((k for k, entry in enumerate(fixed) if "previous" in entry), len(fixed))
        links = [digest(entry) for entry in fixed]
        start = digest({"limit": limit, "releases": fixed[:first]})
        expected = [start, *links[first:]]
        chained = all(e.get("previous") == x for e, x in zip(fixed[first:], expected, strict=False))
        chained &= len({entry["id"] for entry in entries}) == len(entries)
        yield Check("ledger: chain", chained, f"{len(entries) - first} linked entries")
        head = digest({key: value for key, value in ledger.items() if key != "head"})
        yield Check("ledger: head", ledger.get("head") == head, "the hash of the whole ledger")
        spent = sum(square(entry["mu"]) for entry in entries)
        kept = spent <= square(limit["mu"]) and min(e["mu"] for e in entries) > 0
        kept &= Fraction(limit["slack"]) >= sum(Fraction(entry["slack"]) for entry in entries)
        kept &= min(entry["slack"] for entry in entries) >= 0
        bound = cdf(Interval.of(limit["mu"]) / TWO) - HALF + Interval.of(limit["slack"])
        kept &= at_least(limit["eta"], bound.cut(Fraction(1, 2)))
        yield Check("ledger: limit", kept, f"μ² spent: {float(spent):.6g}")
        same = told is not None
        if told is not None:
            at, r = told["position"], self.r
            same = at >= 0 and (entries[at]["id"], links[at]) == (told["entry"], told["link"])
            same &= r["mu"] is None or entries[at]["mu"] == r["mu"]
            same &= (entries[at]["slack"], entries[at]["unit"]) == (r["slack"], r["unit"])
        yield Check("ledger: inclusion", same, "the entry of this release")


class Sums:
    """A weighted sum of all that k records put into a network's steps, in both worlds.

    k records are replaced by their opposites: the sum S = w·y₀ + Σ y_t is normal around k·w plus a
    binomial count of kT, or minus that.  Who guesses "in" above t reaches a point below the curve.
    """

    def __init__(self, r: dict[str, Any], k: int) -> None:
        (step,) = r["sampled"]
        sigma, q, trials = (
            Fraction(step["noise_multiplier"]),
            Fraction(step["sample_rate"]),
            k * step["steps"],
        )
        before = sum(square(m["mu"]) for m in r["measurements"] if m["vectors"])
        weight = Fraction(float(sigma**2 * before / (4 * q)))
        first = 4 * weight**2 / before if before else 0
        self.shift, self.counts = k * weight, binomial(trials, q)
        self.spread = Interval.of(first + step["steps"] * sigma**2).sqrt()
        self.mean = float(self.shift + trials * q)
        self.deviation = math.sqrt(float(self.spread.lo) ** 2 + float(trials * q * (1 - q)))

    def point(self, t: float) -> tuple[Interval, Interval]:
        """Return an upper bound of the FPR and a lower bound of the TPR of "in" above t."""
        fpr, tpr, at = ONE, ZERO, Interval.of(t)
        for low, share in self.counts:
            moved = Interval.of(self.shift + low)
            tpr += share * cdf((moved - at) / self.spread)
            fpr -= share * (ONE - cdf(-(moved + at) / self.spread))
        return Interval(fpr.hi, fpr.hi), Interval(tpr.lo, tpr.lo)


def binomial(trials: int, q: Fraction) -> list[tuple[int, Interval]]:
    """Return the least of each group of neighbouring counts and the group's probability.

    Groups of less than 10⁻⁹ are left out: that lowers a TPR and raises an FPR.
    """
    if q == 1:
        return [(trials, ONE)]
    mode, odds = int((trials + 1) * q), Interval.of(q / (1 - q))
    ratios = {mode: ONE}
    for j in range(mode, trials):
        ratios[j + 1] = ratios[j] * odds * Interval.of(Fraction(trials - j, j + 1))
    for j in range(mode, 0, -1):
        ratios[j - 1] = ratios[j] / odds * Interval.of(Fraction(j, trials - j + 1))
    whole = sum(ratios.values(), ZERO)
    width = max(1, math.isqrt(int(trials * q * (1 - q))) // 6)
    groups = [
        (low, sum((ratios[j] for j in range(low, min(low + width, trials + 1))), ZERO) / whole)
        for low in range(0, trials + 1, width)
    ]
    return [(low, share) for low, share in groups if share.hi > Decimal("1e-9")]


def verify(release: Path, certificate: Path | None, ledger: Path | None = None) -> list[Check]:
    """Return every check of a released file."""
    c = read_json(certificate or release.with_name(release.name + ".certificate.json"))
    odd = misfits(c)
    checks = [Check("schema", not odd, f"wrong: {', '.join(odd[:3])}" if odd else "as described")]
    if odd:
        return checks
    found = hashlib.sha256(release.read_bytes()).hexdigest()
    sealed = {k: v for k, v in c.items() if k not in ("certificate_sha256", "replaces")}
    looked = Certificate(c)
    checks += [
        Check("file", c["sha256"] == found, f"SHA-256 {found[:16]}…"),
        Check("seal", c["certificate_sha256"] == digest(sealed), "the certificate's own hash"),
        *looked.check_noise(),
    ]
    if any(check.holds is False and check.name in ("scales", "budget") for check in checks):
        return checks
    checks += [looked.check_slack(), *looked.check_words()]
    if DRAWS not in {part["reason"] for part in looked.r["slacks"]}:
        return checks
    checks += looked.check_sampled_bounds() if looked.r["sampled"] else looked.check_normal_bounds()
    if ledger is not None:
        try:
            checks += looked.check_ledger(read_json(ledger))
        except (AttributeError, KeyError, TypeError, IndexError, ValueError, OverflowError):
            checks.append(Check("ledger", False, "not a ledger as section 8 describes it"))
    return checks


def main(arguments: list[str] | None = None) -> int:
    """Print the checks as a table; return the exit status."""
    parser = argparse.ArgumentParser(prog="verify.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("release", type=Path, help="the released file")
    parser.add_argument("--certificate", type=Path, help="else FILE.certificate.json beside it")
    parser.add_argument("--ledger", type=Path, help="the ledger that the release is entered in")
    given = parser.parse_args(arguments)
    try:
        checks = verify(given.release, given.certificate, given.ledger)
    except (OSError, UnreadableError, RecursionError) as problem:
        print(f"verify.py: {problem}", file=sys.stderr)
        return 2
    for name, holds, detail in checks:
        print(f"{'open' if holds is None else 'ok' if holds else 'FAILED':7} {name:18} {detail}")
    states = [check.holds for check in checks]
    print(
        "The certificate does not hold."
        if False in states
        else "Nothing contradicts the certificate; lines marked open are not proved here."
        if None in states
        else "The certificate holds."
    )
    return 3 if False in states else 0


if __name__ == "__main__":
    sys.exit(main())
