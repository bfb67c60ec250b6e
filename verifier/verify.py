#!/usr/bin/env python3
"""Recompute a certificate of memberbound without memberbound.

    python verify.py model.skops [--certificate FILE] [--ledger FILE]

Python 3.11 or newer, its standard library alone.  Comments name the sections of
``proofs/verification.md``.  Doubles, their sums and products are fractions; roots, exponentials and
the normal distribution are enclosed in decimal intervals.  The exit status is 0 if the certificate
holds, 3 if a check fails, 2 if something could not be read, or is not proved here.

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
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

_MODES = (ROUND_FLOOR, ROUND_CEILING, ROUND_HALF_EVEN)
_LOW, _HIGH, _NEAR = (Context(40, mode, -999999, 999999) for mode in _MODES)
_TINY = Decimal("1e-42")


class Interval(NamedTuple):
    """A closed interval that holds a real number; every operation rounds outward."""

    lo: Decimal
    hi: Decimal

    @classmethod
    def of(cls, value: Fraction | float | int) -> Interval:
        """Enclose a rational number."""
        above, below = (Decimal(whole) for whole in Fraction(value).as_integer_ratio())
        return cls(_LOW.divide(above, below), _HIGH.divide(above, below))

    def __add__(self, other: Interval) -> Interval:
        return Interval(_LOW.add(self.lo, other.lo), _HIGH.add(self.hi, other.hi))

    def __neg__(self) -> Interval:
        return Interval(self.hi.copy_negate(), self.lo.copy_negate())  # `-` would round

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        if self.lo >= 0 <= other.lo:
            return Interval(_LOW.multiply(self.lo, other.lo), _HIGH.multiply(self.hi, other.hi))
        pairs = [(a, b) for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        low = min(_LOW.multiply(*pair) for pair in pairs)
        return Interval(low, max(_HIGH.multiply(*pair) for pair in pairs))

    def __truediv__(self, other: Interval) -> Interval:
        if other.lo <= 0 <= other.hi:
            raise ZeroDivisionError("the divisor may be 0")
        inverse = Interval(_LOW.divide(Decimal(1), other.hi), _HIGH.divide(Decimal(1), other.lo))
        return self * inverse

    def of_ends(self, function: Callable[[Decimal], Decimal]) -> Interval:
        """Enclose a function that rises, and is rounded to a neighbour: root, exponential."""
        return Interval(function(self.lo).next_minus(_LOW), function(self.hi).next_plus(_HIGH))


ZERO, HALF, ONE, TWO = (Interval.of(Fraction(k, 2)) for k in (0, 1, 2, 4))
_PI = Interval(*(Decimal(f"3.1415926535897932384626433832795028841971693993751{k}") for k in "01"))
_ROOT, _REST = (TWO * _PI).of_ends(_NEAR.sqrt), Interval(Decimal(0), Decimal("1e-700"))


def _cdf_at(x: Decimal) -> Interval:
    """Enclose Φ at a decimal: Φ(a) - ½ = φ(a)·(a + a³/3 + a⁵/(3·5) + …) for a ≥ 0."""
    a = Interval(x.copy_abs(), x.copy_abs())  # `abs` would round
    if a.hi > 60:  # 1 - Φ(60) < 10⁻⁷⁰⁰
        return _REST if x < 0 else ONE - _REST
    square, series, term, k = a * a, a, a, 1
    # When the ratio of terms is below ½, the rest of the series is at most the last term.
    while term.hi > _TINY or 2 * square.hi > k + 2:
        k += 2
        term = term * square / Interval(Decimal(k), Decimal(k))
        series = series + term
    half = (-square * HALF).of_ends(_NEAR.exp) / _ROOT * (series + Interval(Decimal(0), term.hi))
    return HALF - half if x < 0 else HALF + half


def cdf(x: Interval) -> Interval:
    """Enclose Φ."""
    return Interval(_cdf_at(x.lo).lo, _cdf_at(x.hi).hi)


def quantile_above(p: Decimal) -> Interval:
    """Return a point just above Φ⁻¹(p), for p between 0 and 1: guess, then prove it."""
    law = NormalDist()
    near = Decimal(law.inv_cdf(min(max(float(p), 1e-300), 1 - 1e-16)))
    missing = _NEAR.subtract(_cdf_at(near).lo, p)
    near = _NEAR.subtract(near, _NEAR.divide(missing, Decimal(law.pdf(float(near)))))
    point, width = near, Decimal("1e-30")
    while _cdf_at(point).lo < p:
        point, width = _HIGH.add(near, width), width * 16
    return Interval(point, point)


def read_json(path: Path) -> dict[str, Any]:
    """Read one JSON object; refuse repeated keys, numbers that are not finite, and large files."""
    with path.open("rb") if path.is_file() else BytesIO() as file:
        content = file.read(2**24 + 1)  # it may grow meanwhile
    if not content or len(content) > 2**24:
        raise ValueError(f"{path} must be a file up to 16 MB (an answer has no certificate)")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("it repeats a key of an object")
        return dict(pairs)

    def finite(text: str) -> float:
        if not math.isfinite(float(text)):
            raise ValueError(f"it holds a number that is not finite: {text[:20]}")
        return float(text)

    reading = {"object_pairs_hook": once, "parse_constant": finite, "parse_float": finite}
    value = json.loads(content.decode("utf-8"), **reading)
    if isinstance(value, dict) and {*value} == {"_type", "subject", "predicateType", "predicate"}:
        digests = [x.get("digest") for x in value.get("subject") or () if isinstance(x, dict)]
        about, value = digests == [{"sha256": value["predicate"]["sha256"]}], value["predicate"]
        value = value if about else None
    if not isinstance(value, dict):
        raise ValueError("it must be one JSON object, or a statement about the certified file")
    return value


def digest(value: object) -> str:
    """Return the SHA-256 of the canonical JSON of a value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def per_cent(share: float) -> str:
    """Return a share as per cent, rounded up to two decimals (section 6)."""
    shown = (Decimal(repr(share)) * 100).quantize(Decimal("0.01"), rounding=ROUND_CEILING)
    return f"{shown.normalize():f} %"


# The keys that are computed with, and how many keys each holds (all are read); the other keys.
_COMPUTED = {"certificate": 8, "curve": 6, "groups": 4, "derivation": 14, "statement": 0, "eta": 0}
_SIZES = _COMPUTED | {"replace_one": 4, "slacks": 4, "measurements": 9, "sampled": 9}
_ABOUT = """sha256 certificate_sha256 replaces file kind version method record mu rows_trained unit
secure_source ledger learner fits names noise noise_scale noise_by_part noise_multiplier training
rows left_out documents persons layers classifier"""
_TEXTS = """kind quantity game protects theorems assumptions statement format adjacency unit public
name norm reason"""
_WHOLE = ("records", "vectors", "coordinates", "steps", "count")
_OPTIONAL = ("mu", "unit", "epsilon_upper", "sensitivity", "noise_scale", "grid_step")


def misfits(value: Any, key: str) -> list[str]:
    """Return the fields that are missing, unknown, or hold another kind of value than they may."""
    if isinstance(value, dict):
        rates = key == "tpr_upper" and all(re.fullmatch("0[.][0-9]+", rate) for rate in value)
        fits = rates or len(value) == _SIZES.get(key)
        return [odd for k, each in value.items() for odd in misfits(each, k)] if fits else [key]
    if isinstance(value, list):
        return [odd for each in value for odd in misfits(each, key)]
    kinds = (str,) if key in _TEXTS.split() else (int,) if key in _WHOLE else (int, float)
    fits = type(value) in kinds and (str in kinds or value >= (key == "steps"))
    fits = fits and (key != "steps" or value <= 10**6)  # more take too long
    return [] if fits or (value is None and key in _OPTIONAL) else [key]


class Check(NamedTuple):
    """A line of the result; ``holds`` is None where the check decides neither way."""

    name: str
    holds: bool | None
    detail: str


def listed(name: str, held: dict[str, bool], detail: str, proved: bool = True) -> Check:
    """Return the check that everything holds, or names what does not."""
    wrong = [key for key, holds in held.items() if not holds]
    if wrong:
        return Check(name, False, f"does not hold: {', '.join(wrong[:3])}")
    return Check(name, proved or None, detail if proved else "no attack tried reaches more")


NEARLY = 1 - Fraction(1, 10**12)
# Measurements, by the least square of their sensitivity; that of clips is the producer's choice.
CLIPS = """gradient descent, boosting, means of features, means of columns with public ranges,
a trial, steps on all records"""
COUNTS = """histograms of values, histograms within ranges, classes of the target, pairs, columns,
calibrated probabilities, counts, counts of halves, how numbers are written, target, cells, means,
class frequencies, further pairs, calibration, sums and missing values, products"""
LEAST = {name: 2 * (text is COUNTS) for text in (CLIPS, COUNTS) for name in re.split(r",\s", text)}
LEAST |= {"values of columns called identifiers": 1, "the trials' scores": 1}
LEAST |= {"scores of pairs": 4, "scores of further pairs": 4}
DRAWS, NAMES = "draws in floating point", "names that one record has"
THEOREMS = {"X12", "X22", "X25", "X31"}  # and X26 with a unit
PROMISED = ["memberbound-derivation/1", "neighbour", "replace-one", "every", "certificate", "eta"]
PROMISED += ["neighbour", "every record", 1]
ELSEWHERE = [f"memberbound-{record}/1" for record in ("counts", "calibration", "sum")]
EACH_NAME = Fraction(cdf(Interval.of(Fraction(-6075, 1000))).hi)
EACH_DRAW = 42 * Fraction(1, 2**46) + Fraction(1, 2**70)


class Certificate:
    """A certificate with validated fields, and its checks."""

    def __init__(self, c: dict[str, Any]) -> None:
        self.c, self.r = c, c["derivation"]
        self.s, self.mu = Interval.of(self.r["slack"]), Interval.of(self.r["mu"] or 0)
        self.amounts = {part["reason"]: Interval.of(part["amount"]) for part in self.r["slacks"]}
        self.noisy = [m for m in self.r["measurements"] if m["vectors"]]
        self.exact, self.all = not self.r["sampled"], self.r["measurements"] + self.r["sampled"]
        for k, part in enumerate(self.all, 1):
            part["label"] = f"{part['name']} (part {k})"

    def check_noise(self) -> Iterator[Check]:
        """Check every measurement and the budget (sections 2 and 7)."""
        r, held = self.r, {}
        for m in r["measurements"]:
            missing = [m[key] is None for key in ("sensitivity", "noise_scale", "grid_step")]
            if m["vectors"] and not any(missing):
                moved = m["vectors"] * Fraction(m["sensitivity"]) ** 2
                paid = (Fraction(m["mu"]) * Fraction(m["noise_scale"])) ** 2
                held[m["label"]] = 0 < NEARLY * paid <= moved <= paid
            else:
                held[m["label"]] = not m["vectors"] and all(missing) and not m["coordinates"]
        for p in r["sampled"]:
            needed = Fraction(p["noise_multiplier"]) * Fraction(p["sensitivity"])
            scale = Fraction(p["noise_scale"])
            held[p["label"]] = 0 < NEARLY * scale <= needed <= scale and 0 < p["sample_rate"] <= 1
        held["norms"] = {part["norm"] for part in self.all} == {"l2"} and len(r["sampled"]) <= 1
        held["numbers drawn"] = any(part["coordinates"] for part in self.all)
        yield listed("scales", held, f"{len(self.all)} measurements")
        held = {"any noise": bool(self.noisy + r["sampled"])}
        for part in self.noisy + r["sampled"]:
            step, scale = Fraction(part["grid_step"]), Fraction(part["noise_scale"])
            top = step.numerator * step.denominator
            held[part["label"]] = top & (top - 1) == 0 and scale / 8 < step <= scale / 4
        yield listed("grids", held, "powers of two up to a quarter of the noise")
        whole, spent = Fraction(r["budget_mu"]) ** 2, Fraction(r["budget_spent"])
        pairs = [(Fraction(m["budget_share"]), Fraction(m["mu"]) ** 2) for m in r["measurements"]]
        near = all(abs(share * whole - mine) <= (1 - NEARLY) * mine for share, mine in pairs)
        near &= abs(spent - sum(s for s, _ in pairs)) <= 1 - NEARLY
        yield Check("shares", near, f"shares of μ² add up to {float(spent):.6g}")
        total = sum((mine for _, mine in pairs), Fraction(0))
        kept = r["mu"] == r["budget_mu"] and total <= whole if self.exact else r["mu"] is None
        yield Check("budget", kept, f"Σ μ_i² = {float(total):.6g} of {float(whole):.6g}")
        held = {part["label"]: part["name"] in LEAST for part in r["measurements"]}
        for m in self.noisy if all(held.values()) else ():
            held[m["label"]] = Fraction(m["sensitivity"]) ** 2 >= LEAST[m["name"]]
        yield listed("sensitivities", held, "of counts at least √2")

    def check_slack(self) -> Iterator[Check]:
        """Check what floating point and rare names add (section 3)."""
        r, parts = self.r, {part["reason"]: part for part in self.r["slacks"]}
        known = {DRAWS} <= set(parts) <= {DRAWS, NAMES} and len(parts) == len(r["slacks"])
        held, total = {"reasons": known}, Fraction(0)
        for reason, part in parts.items():
            amount, events = Fraction(part["amount"]), part["count"] * Fraction(part["each"])
            total += amount
            held[reason] = amount >= events and (NEARLY * amount <= events or amount == 1)
        held["sum"] = min(1, total) <= Fraction(r["slack"]) <= total / NEARLY
        if DRAWS in parts:
            drawn = sum(part["coordinates"] for part in self.all)
            held["draws"] = parts[DRAWS]["count"] >= drawn and parts[DRAWS]["each"] >= EACH_DRAW
        named = any(m["name"] == "classes of the target" for m in self.noisy)
        rare = parts.get(NAMES, {"count": int(not named), "each": 1})
        held["names"] = rare["count"] >= 1 and Fraction(rare["each"]) >= EACH_NAME
        yield listed("slack", held, f"total variation {r['slack']:.3g}")

    def check_words(self) -> Iterator[Check]:
        """Check that texts and repeated numbers agree (sections 4, 11 and 6)."""
        c, r, inner, unit = self.c, self.r, self.c["certificate"], self.c["unit"]
        curve, one = c["curve"], c["curve"]["replace_one"]
        public = [f"number of persons (values of {unit!r})"]
        public = ["number of rows", "number of documents"] if unit is None else public
        needed = {"X22", *["X12"] * len(r["sampled"]), *["X26"] * (unit is not None)}
        twice = [unit, c["mu"], c["rows_trained"], inner["theorems"]]
        stated = [r["format"], r["game"], r["adjacency"], c["record"], inner["kind"]]
        stated += [inner[key] for key in ("quantity", "game", "protects", "confidence")]
        held = {
            "game and promise": stated == PROMISED,
            "upper": inner["upper"] == curve["eta_upper"] <= c["eta"],
            "rates, assumptions": bool(one["tpr_upper"]) and inner["assumptions"][:1] > [],
            "theorems": needed <= set(r["theorems"]) <= THEOREMS | needed,
            "repeated fields": twice == [*map(r.get, ("unit", "mu", "records", "theorems"))],
            "public": r["public"][0] in public,
        }
        yield listed("certificate", held, "its numbers and names agree")
        who = "record" if unit is None else "person"
        told = f"Nobody who knows every other {who}, and sees this release and whatever is made of "
        told += f"it, is right about any {who}'s membership more than "
        told += f"{per_cent(one['accuracy_upper'])} of the time (guessing blindly: 50 %)."
        held = {"statement": c["statement"] == told}
        for g in c["groups"]:
            k, share = g["records"], per_cent(g["accuracy_upper"])
            right = f"For any {k} {who}s together: at most {share} of the time."
            held[f"statement of {k}"] = g["statement"] == right
        yield listed("statements", held, told)
        if c.get("secure_source") is not True:
            yield Check("secrecy", None, "no protection from anyone who may know the noise's seed")

    def advantage(self, k: int) -> Interval:
        """Enclose the advantage on k records (sections 4, 5), or what an attack reaches (7)."""
        fpr, tpr = Sums(self.r, k).point(Fraction(0))
        if k == 1 or not self.exact:
            return tpr - fpr + TWO * self.s
        rare = moved = self.amounts.get(NAMES, ZERO)
        for _ in range(1, k):
            p = (moved + rare).hi
            moved = ZERO if p == 0 else ONE if p >= 1 else cdf(quantile_above(p) + self.mu) + rare
        return tpr - fpr + TWO * (moved + Interval.of(k) * self.amounts[DRAWS])

    def tpr(self, rate: float) -> Interval:
        """Enclose the TPR at a rate (section 4), or what an attack reaches there (7)."""
        if self.exact:
            p = (Interval.of(rate) + self.s).hi
            return cdf(quantile_above(p) + self.mu) + self.s if 0 < p < 1 else ONE
        sums = Sums(self.r, 1)
        t = -sums.mean - sums.deviation * NormalDist().inv_cdf(rate)
        top, low = t + sums.deviation / 2, Interval.of(rate).lo
        while (found := sums.point(Fraction(t)))[0].hi > low and t < top:
            t += sums.deviation / 500
        return found[1] + self.s if t < top else self.s

    def profile(self, epsilon: float) -> Interval:
        """Enclose H(ε'), for the best ε' up to ε (section 4, 10), or what an attack reaches (7)."""
        sums, at = Sums(self.r, 1), Fraction(epsilon)
        if self.exact:
            if 0 < self.s.hi < 1:
                best = -(self.mu * quantile_above(self.s.hi)) - self.mu * self.mu / TWO
                at = min(at, max(Fraction(0), Fraction(best.lo)))
            threshold = at / Fraction(self.r["mu"])
        else:
            threshold = Fraction(epsilon * sums.deviation**2 / (2 * sums.mean))
        (fpr, tpr), grown = sums.point(threshold), Interval.of(at).of_ends(_NEAR.exp)
        return tpr - grown * fpr + (ONE + grown) * self.s

    def check_bounds(self) -> Iterator[Check]:
        """Check the printed bounds; an attack can only show that one is false."""
        curve, one = self.c["curve"], self.c["curve"]["replace_one"]

        def reaches(printed: float | Fraction, bound: Interval) -> bool:
            return Fraction(printed) >= min(Fraction(bound.hi if self.exact else bound.lo), 1)

        reached, epsilon, delta = self.advantage(1), one["epsilon_upper"], curve["delta"]
        mu, regret = curve["mu_upper"], curve["mu_regret_upper"]
        summed = TWO * (cdf(Interval.of(mu) / TWO) + Interval.of(regret)) - ONE
        stated = [2 * Fraction(curve["eta_upper"]), Fraction(one["advantage_upper"])]
        stated += [2 * Fraction(one["accuracy_upper"]) - 1, 1 - Fraction(curve["security_lower"])]
        held = {
            "η, advantage, accuracy, security": reaches(min(stated), reached),
            "epsilon_upper": epsilon is None or reaches(delta, self.profile(epsilon)),
            "mu_upper": mu >= self.r["mu"] if self.exact else summed.hi >= min(reached.lo, 1),
            "mu_regret_upper": regret >= self.r["slack"],
        }
        for rate, value in one["tpr_upper"].items():
            held[f"tpr_upper at {rate}"] = reaches(value, self.tpr(float(rate)))
        yield listed("bounds", held, f"η recomputed: {(reached / TWO).hi:.12f}", self.exact)
        held = {"records": [g["records"] for g in self.c["groups"]] == [2, 5, 10]}
        for g in self.c["groups"] if held["records"] else ():
            k, reached = g["records"], self.advantage(g["records"])
            stated = [2 * Fraction(g["eta_upper"]), 2 * Fraction(g["accuracy_upper"]) - 1]
            held[f"bounds of {k}"] = reaches(min(stated), reached)
        yield listed("groups", held, "2, 5 and 10 records", self.exact)

    def check_ledger(self, ledger: dict[str, Any]) -> Iterator[Check]:
        """Check the chain, the limit, and that this release's entry is in it (section 8)."""
        entries, limit, told = ledger["releases"], ledger["limit"], self.c.get("ledger")
        later = {"state", "out", "release_sha256"}
        fixed = [{k: v for k, v in entry.items() if k not in later} for entry in entries]
        first = next((k for k, entry in enumerate(fixed) if "previous" in entry), len(fixed))
        links = [digest(entry) for entry in fixed]
        expected = [digest({"limit": limit, "releases": fixed[:first]}), *links[first:]]
        chained = all(e.get("previous") == x for e, x in zip(fixed[first:], expected, strict=False))
        chained &= len({entry["id"] for entry in entries}) == len(entries) and len(limit) == 3
        yield Check("ledger: chain", chained, f"{len(entries) - first} linked entries")
        head = digest({key: value for key, value in ledger.items() if key != "head"})
        yield Check("ledger: head", (ledger["head"], len(ledger)) == (head, 4), "the hash of all")
        spent = sum(Fraction(entry["mu"]) ** 2 for entry in entries)
        kept = all(e["mu"] > 0 <= e["slack"] and e["unit"] == self.r["unit"] for e in entries)
        kept &= spent <= Fraction(limit["mu"]) ** 2 and min(limit.values()) >= 0
        kept &= sum(Fraction(entry["slack"]) for entry in entries) <= Fraction(limit["slack"])
        bound = cdf(Interval.of(limit["mu"]) / TWO) - HALF + Interval.of(limit["slack"])
        kept &= Fraction(limit["eta"]) >= Fraction(bound.hi)
        yield Check("ledger: limit", kept, f"μ² spent: {float(spent):.6g}")
        if same := told is not None:
            at, mine = told["position"], entries[told["position"]]
            same = at >= 0 and (mine["id"], links[at]) == (told["entry"], told["link"])
            same &= all(mine[key] == self.r[key] for key in ("mu", "slack", "unit"))
            same &= mine.get("release_sha256") in (None, self.c["sha256"])
        yield Check("ledger: inclusion", same, "the entry of this release")


class Sums:
    """Sums of k records' shares, normal around ±(shift + B): thresholds are attacks (section 7)."""

    def __init__(self, r: dict[str, Any], k: int) -> None:
        self.shift, self.spread, self.counts = k * Fraction(r["mu"] or 0) / 2, ONE, [(0, ONE)]
        for step in r["sampled"]:
            sigma, q = Fraction(step["noise_multiplier"]), Fraction(step["sample_rate"])
            before = sum(Fraction(m["mu"]) ** 2 for m in r["measurements"] if m["vectors"])
            weight = Fraction(float(sigma**2 * before / (4 * q)))
            first = 4 * weight**2 / before if before else 0
            trials = k * step["steps"]
            self.shift, self.counts = k * weight, binomial(trials, q)
            self.spread = Interval.of(first + step["steps"] * sigma**2).of_ends(_NEAR.sqrt)
            self.mean = float(self.shift + trials * q)
            self.deviation = math.sqrt(float(self.spread.lo) ** 2 + float(trials * q * (1 - q)))

    def point(self, t: Fraction) -> tuple[Interval, Interval]:
        """Enclose FPR and TPR of "in" above t; what is left out of the counts raises the FPR."""
        fpr, tpr = ONE, ZERO
        for low, share in self.counts:
            tpr += share * cdf(Interval.of(self.shift + low - t) / self.spread)
            fpr -= share * cdf(Interval.of(self.shift + low + t) / self.spread)
        return fpr, tpr


def binomial(trials: int, q: Fraction) -> list[tuple[int, Interval]]:
    """Return the least of neighbouring counts and their probability; leave out rare groups."""
    if q == 1:
        return [(trials, ONE)]
    mode, odds = int((trials + 1) * q), Interval.of(q / (1 - q))
    deviation = math.isqrt(int(trials * q * (1 - q)))
    first, last = max(0, mode - 12 * deviation - 40), min(trials, mode + 12 * deviation + 40)
    ratios = {mode: ONE}
    for j in range(mode, last):
        ratios[j + 1] = ratios[j] * odds * Interval.of(Fraction(trials - j, j + 1))
    for j in range(mode, first, -1):
        ratios[j - 1] = ratios[j] / odds * Interval.of(Fraction(j, trials - j + 1))
    rest = ratios[last] * Interval.of(trials - last) + ratios[first] * Interval.of(first)
    whole = sum(ratios.values(), Interval(Decimal(0), rest.hi))  # counts beyond are no likelier
    lows = range(first, last + 1, width := max(1, deviation // 6))
    shares = [sum((ratios.get(low + j, ZERO) for j in range(width)), ZERO) / whole for low in lows]
    return [each for each in zip(lows, shares, strict=True) if each[1].hi > Decimal("1e-9")]


def verify(release: Path, certificate: Path | None, ledger: Path | None = None) -> list[Check]:
    """Return every check of a released file."""
    if not release.is_file():
        raise ValueError(f"{release} is missing, or no file")
    with release.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    c = read_json(certificate or release.with_name(release.name + ".certificate.json"))
    entries = ledger and read_json(ledger)
    sealed = {k: v for k, v in c.items() if k not in ("certificate_sha256", "replaces")}
    checks = [Check("file", c.get("sha256") == found, f"SHA-256 {found[:16]}…")]
    kept = c.get("certificate_sha256") == digest(sealed)
    checks += [Check("seal", kept, "the certificate's own hash")]
    if isinstance(r := c.get("derivation"), dict) and r.get("format") in ELSEWHERE:
        return [*checks, Check("not recomputed", None, "by this file; `memberbound verify` can")]
    odd = [odd for key in _COMPUTED for odd in misfits(c.get(key), key)]
    odd += sorted(set(c) - {*_COMPUTED, *_ABOUT.split()})
    checks += [Check("fields", not odd, f"wrong: {', '.join(odd[:3])}" if odd else "as described")]
    if odd:
        return checks
    try:
        of = Certificate(c)
        for check in (of.check_noise, of.check_slack, of.check_words, of.check_bounds):
            checks.extend(check())
        checks.extend(of.check_ledger(entries) if entries is not None else ())
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
        checks.append(Check("form", False, f"not as described ({type(problem).__name__})"))
    return checks


def main(arguments: list[str] | None = None) -> int:
    """Print the checks as a table; return the exit status."""
    parser = argparse.ArgumentParser(description="Recompute a certificate of memberbound.")
    parser.add_argument("release", type=Path, help="the released file")
    parser.add_argument("--certificate", type=Path, help="else FILE.certificate.json beside it")
    parser.add_argument("--ledger", type=Path, help="the ledger that the release is entered in")
    sys.stdout.reconfigure(errors="backslashreplace")
    try:
        checks = verify(**vars(parser.parse_args(arguments)))
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as problem:
        print(f"verify.py: a file cannot be read: {str(problem)[:200]}.", file=sys.stderr)
        return 2
    for name, holds, detail in checks:
        shown = "".join(mark if mark.isprintable() else "?" for mark in detail)
        print(f"{'open' if holds is None else 'ok' if holds else 'FAILED':7} {name:18} {shown}")
    states = [check.holds for check in checks]
    code = 3 if False in states else 2 if None in states else 0
    unproved = "Nothing contradicts it, but lines marked open are not proved here."
    print({0: "The certificate holds.", 2: unproved, 3: "It does not hold."}[code])
    return code


if __name__ == "__main__":
    sys.exit(main())
