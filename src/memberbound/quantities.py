"""Format numbers as text; the *side* of a number alone determines rounding and sign.

=============  ==========================  ==========================================
side           printed                     meaning
=============  ==========================  ==========================================
``upper``      ``≤``, rounded up           proved or measured: the truth is not above
``lower``      ``≥``, rounded down         proved or measured: the truth is not below
``estimate``   ``≈``, to the nearest       neither
``given``      shortest exact decimal      chosen by the user, or known exactly
=============  ==========================  ==========================================

A parameter for further use is rounded to the side that keeps the guarantee: the least sufficient
noise is ``upper``, the largest allowed ε is ``lower``.

A double is identified with the shortest decimal that parses to it, which ``--json`` and every file
print.  Rounding starts from that decimal, in exact arithmetic: an upper bound's text is never below
the number in the JSON, and read back as a double never below the double.

The answer declares the side of every key of its dictionary (``SIDES``, see
:mod:`memberbound.answers`); it is never guessed from the key's name.  :func:`numbers_in` walks a
dictionary with its declaration.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Literal

Side = Literal["upper", "lower", "estimate", "given"]
#: Sides of an answer's numbers by key, or one side for a whole subtree; ``*`` is any other key.
Sides = Mapping[str, "Side | Sides"]

#: The sign before a number of each side.
SIGNS: dict[str, str] = {"upper": "≤ ", "lower": "≥ ", "estimate": "≈ ", "given": ""}
#: Text instead of a floor at the level of blind guessing.
NO_LEAK = "no leak shown"
#: Text instead of a vacuous certificate.
NO_GUARANTEE = "no guarantee"
_ROUNDING = {"upper": ROUND_CEILING, "lower": ROUND_FLOOR, "estimate": ROUND_HALF_EVEN}
#: The value at which a certificate of each quantity becomes vacuous.
_VACUOUS = {
    "accuracy": 1.0,
    "advantage": 1.0,
    "delta": 1.0,
    "eta": 0.5,
    "leak": 1.0,
    "security": 0.0,
    "success": 1.0,
    "tpr": 1.0,
}
#: A certificate this close to that value, relative to 1 or to ½, is useless.
_USELESS = 1e-4
_HUNDRED = Decimal(100)
#: Enough digits for every double with every number of decimals in use here.
_WIDE = Context(prec=800)


def shortest_decimal(value: float) -> Decimal:
    """Return the shortest decimal that parses to the same double, as a user typed it.

    >>> shortest_decimal(0.1), shortest_decimal(1e-05) * 3
    (Decimal('0.1'), Decimal('0.00003'))
    """
    return Decimal(value) if isinstance(value, int) else Decimal(repr(float(value)))


def _special(value: float | None) -> str | None:
    """Return the text of a missing or non-finite number, else None."""
    if value is None or math.isnan(value):
        return "–"
    return None if math.isfinite(value) else ("∞" if value > 0 else "-∞")


def _plain(number: Decimal, *, zeros: bool = False) -> str:
    """Format a decimal without an exponent; strip zeros only after the point."""
    text = f"{abs(number) if number == 0 else number:f}"
    return text.rstrip("0").rstrip(".") if "." in text and not zeros else text


def _round_to(exact: Decimal, side: Side, places: int) -> Decimal:
    unit = Decimal(1).scaleb(-places)
    return exact.quantize(unit, rounding=_ROUNDING[side], context=_WIDE)


def percent(value: float | None, side: Side) -> str:
    """Return a share as per cent, with two decimals; a given one exactly.

    An upper bound just below 1 prints as 100 %, which is still an upper bound; :func:`marked`
    labels it as useless.

    >>> percent(0.550878, "upper"), percent(0.81239, "lower"), percent(0.97384, "estimate")
    ('55.09 %', '81.23 %', '97.38 %')
    >>> percent(0.99999999, "upper"), percent(0.07, "given"), percent(1 / 3, "given")
    ('100 %', '7 %', '33.33333333333333 %')
    """
    special = _special(value)
    if special is not None or value is None:
        return special or "–"
    exact = _WIDE.multiply(shortest_decimal(value), _HUNDRED)
    return f"{_plain(exact if side == 'given' else _round_to(exact, side, 2))} %"


def of_hundred(value: float, side: Literal["upper", "lower"]) -> int:
    """Return a share as a whole percentage, rounded to its side.

    >>> of_hundred(0.7661, "lower"), of_hundred(0.5509, "upper"), of_hundred(0.55, "upper")
    (76, 56, 55)
    """
    return int(_round_to(_WIDE.multiply(shortest_decimal(value), _HUNDRED), side, 0))


def decimals(value: float | None, side: Side, places: int = 6) -> str:
    """Return a number with a fixed number of decimals, rounded to its side.

    >>> decimals(0.1234567, "upper"), decimals(0.1234567, "lower", 3), decimals(0.5, "given")
    ('0.123457', '0.123', '0.5')
    """
    special = _special(value)
    if special is not None or value is None:
        return special or "–"
    if side == "given":
        return significant(value, side)
    return _plain(_round_to(shortest_decimal(value), side, places), zeros=True)


def significant(value: float | None, side: Side, digits: int = 6) -> str:
    """Return a number with a few significant digits, rounded to its side; a given one exactly.

    >>> significant(0.12345678, "upper"), significant(0.12345678, "lower", 4)
    ('0.123457', '0.1234')
    >>> significant(10.0, "upper", 1), significant(1e-9, "given"), significant(3.0, "estimate")
    ('10', '1e-9', '3')
    """
    special = _special(value)
    if special is not None or value is None:
        return special or "–"
    rounded = shortest_decimal(value)
    if side != "given":
        rounded = Context(prec=digits, rounding=_ROUNDING[side]).create_decimal(rounded)
    if rounded != 0 and not -4 <= rounded.adjusted() <= 12:
        mantissa, _, exponent = f"{rounded.normalize():e}".partition("e")
        return f"{mantissa}e{int(exponent)}"
    return _plain(rounded)


def mu_row(mu: float, regret: float, who: str = "record") -> tuple[str, str]:
    """Return the summary line about μ and the regret of that single number.

    >>> mu_row(0.2513333, 1.23e-9)
    ('μ (Gaussian DP)', '≤ 0.25134 (record replaced; regret ≤ 1.3e-9)')
    """
    bound, hidden = significant(mu, "upper", 5), significant(regret, "upper", 2)
    return "μ (Gaussian DP)", f"≤ {bound} ({who} replaced; regret ≤ {hidden})"


def confident(confidence: float) -> str:
    """Format a confidence as per cent: unchanged if short, else rounded down.

    A confidence below 1 never prints as 100 %, and rounding at most doubles its distance from 1.

    >>> confident(0.95), confident(1 - 1e-13), confident(59 / 60), confident(1.0)
    ('95 %', '99.99999999999 %', '98.33 %', '100 %')
    """
    exact = shortest_decimal(confidence) * _HUNDRED
    if len(exact.normalize().as_tuple().digits) > 6:
        for places in (2, 4, 6, 9, 12):
            rounded = _round_to(exact, "lower", places)
            if _HUNDRED - rounded <= 2 * (_HUNDRED - exact):
                return f"{_plain(rounded)} %"
    return f"{_plain(exact)} %"


def at_confidence(confidence: float) -> str:
    """Return the confidence clause of a sentence; empty if the bound always holds.

    >>> at_confidence(0.95), at_confidence(1.0)
    (' (confidence 95 %)', '')
    """
    return "" if confidence == 1 else f" (confidence {confident(confidence)})"


def at_prices(nu: float, lam: float) -> str:
    """Format the parameters of the i.i.d. game of a MIS, for a sentence.

    >>> at_prices(0.5, 1.0)
    'ν = 0.5, λ = 1'
    """
    return f"ν = {significant(nu, 'given')}, λ = {significant(lam, 'given')}"


def interval(lower: float, upper: float, places: int | None = None) -> str:
    """Format an interval rounded outward: per cent, or ``places`` decimals.

    >>> interval(0.52349, 0.9418), interval(0.52349, 0.9418, 3)
    ('52.34 % to 94.18 %', '[0.523, 0.942]')
    """
    if places is None:
        return f"{percent(lower, 'lower')} to {percent(upper, 'upper')}"
    return f"[{decimals(lower, 'lower', places)}, {decimals(upper, 'upper', places)}]"


def points(eta: float) -> str:
    """Format a gain over blind guessing in percentage points, without rounding.

    >>> points(0.05), points(0.01)
    ('5 points', '1 point')
    """
    text = _plain(shortest_decimal(eta) * _HUNDRED)
    return f"{text} point{'' if text == '1' else 's'}"


def allowed(blind: float, eta: float) -> str:
    """Format the allowed success rate: blind guessing plus a gain of η.

    Add the decimals, not the doubles, and round up like a bound, so that a certificate that keeps
    the promise never prints above it.

    >>> allowed(0.5, 0.05), allowed(0.5008787346221442, 0.05)
    ('55 %', '55.09 %')
    """
    exact = _WIDE.multiply(_WIDE.add(shortest_decimal(blind), shortest_decimal(eta)), _HUNDRED)
    return f"{_plain(_round_to(exact, 'upper', 2))} %"


Kind = Literal["certificate", "audit", "estimate", "given", "unproved"]


@dataclass(frozen=True)
class Mark:
    """A number for display: its kind determines the style, its text is rounded."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return self.text


def vacuous(upper: float | None, quantity: str = "accuracy", *, largest_gain: float = 0.5) -> bool:
    """Return whether a certificate is vacuous: missing, or allowing (nearly) every answer.

    A gain (``eta``) is vacuous at ``largest_gain``, that of an attacker who is always right: min(π,
    1 - π) for the prior π.

    >>> vacuous(0.55), vacuous(1.0), vacuous(None), vacuous(0.5, "eta"), vacuous(0.0, "security")
    (False, True, True, True, True)
    >>> vacuous(0.9999), vacuous(0.99991)
    (False, True)
    >>> vacuous(0.04, "eta"), vacuous(0.04, "eta", largest_gain=4 / 100)
    (False, True)
    """
    return emptiness(upper, quantity, largest_gain) is not None


def emptiness(bound: float | None, quantity: str, largest_gain: float = 0.5) -> str | None:
    """Return the text that replaces a (nearly) vacuous certificate, else None."""
    name = quantity.split(maxsplit=1)[0]
    limit = largest_gain if name == "eta" else _VACUOUS.get(name, math.inf)
    floor = name == "security"
    if bound is None or (bound <= limit if floor else bound >= limit):
        return NO_GUARANTEE
    if floor:
        return "no useful bound (> 0)" if bound < _USELESS else None
    if bound <= limit * (1 - _USELESS):
        return None
    shown = "100 %" if limit == 1.0 else significant(limit, "upper")
    return f"no useful bound (< {shown})"


def marked(
    value: float | None,
    kind: Kind,
    quantity: str = "accuracy",
    places: int | None = None,
    *,
    blind: float | None = None,
    largest_gain: float = 0.5,
) -> Mark:
    """Format a number for display; a vacuous ceiling is not shown as a proof.

    A share is in per cent, or with ``places`` decimals.

    Nor is a floor at the level of blind guessing, if ``blind`` is given.  ``largest_gain`` is that
    of :func:`vacuous`.

    >>> marked(0.550878, "certificate"), marked(1.0, "certificate").text
    (Mark(kind='certificate', text='≤ 55.09 %'), 'no guarantee')
    >>> marked(0.7783, "audit").text, marked(0.9, "estimate").text, marked(0.55, "given").text
    ('≥ 77.83 %', '≈ 90 %', '55 %')
    >>> marked(0.95, "certificate", "security", 6).text, marked(1.0, "certificate", "leak", 6).text
    ('≥ 0.950000', 'no guarantee')
    >>> marked(0.99999989, "certificate")
    Mark(kind='unproved', text='no useful bound (< 100 %)')
    >>> marked(0.492, "audit", blind=0.5).text
    'no leak shown'
    """
    if kind == "audit" and value is not None and blind is not None and value <= blind:
        return Mark("unproved", NO_LEAK)
    if kind == "certificate" and (empty := emptiness(value, quantity, largest_gain)) is not None:
        return Mark("unproved", empty)
    sides: dict[str, Side] = {
        "certificate": "lower" if quantity == "security" else "upper",
        "audit": "lower",
        "estimate": "estimate",
    }
    side = sides.get(kind, "given")
    shown = percent(value, side) if places is None else decimals(value, side, places)
    return Mark(kind, SIGNS[side] + shown)


def side_below(sides: Side | Sides | None, key: str) -> Side | Sides | None:
    """Return the declaration of a key; a side covers everything below it."""
    if sides is None or isinstance(sides, str):
        return sides
    return sides.get(key, sides.get("*"))


def numbers_in(
    value: object, sides: Side | Sides | None, path: str = ""
) -> Iterator[tuple[str, float, Side | None]]:
    """Yield every double of a dictionary with its path and its side; ``None`` if undeclared.

    >>> list(numbers_in({"a": [{"b": 0.5}], "c": 1.5, "n": 3}, {"a": {"b": "upper"}}))
    [('a.b', 0.5, 'upper'), ('c', 1.5, None)]
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from numbers_in(item, side_below(sides, key), f"{path}.{key}".lstrip("."))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from numbers_in(item, sides, path)
    elif isinstance(value, float):
        yield path, value, sides if isinstance(sides, str) else None


def number_text(path: str, value: float, side: Side) -> str:
    """Format a number of an answer; its path determines the bounded quantity."""
    if side in ("upper", "lower"):
        words = {key.removesuffix(f"_{side}").rpartition("_")[2] for key in path.split(".")}
        for word in words & _VACUOUS.keys():
            if (empty := emptiness(value, word)) is not None:
                return empty
    return SIGNS[side] + significant(value, side)
