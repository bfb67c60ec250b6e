"""Formatting of numbers: rounded to the safe side, everywhere, and in one module only."""

from __future__ import annotations

import ast
import copy
import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import memberbound
from memberbound.certificate import AuditBound, Certificate
from memberbound.games import IidGame, SubsetGame
from memberbound.quantities import (
    Mark,
    Side,
    Sides,
    allowed,
    confident,
    decimals,
    interval,
    marked,
    numbers_in,
    percent,
    points,
    significant,
    vacuous,
)
from memberbound.report.page import _headline
from memberbound.report.sandwich import sandwich_chart
from memberbound.verbs.study.studying import Study
from report.sample import answer as answer_of
from report.sample import sample, typed

SOURCE = Path(memberbound.__file__).parent
STATIC = SOURCE / "faces/web/static"
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
SHARES = st.floats(0.0, 1.0)
PROOFS: tuple[Side, ...] = ("upper", "lower", "estimate")


def exact(value: float) -> Fraction:
    """Numbers as a reader of the JSON sees them."""
    return Fraction(repr(value))


def read(text: str) -> Fraction:
    number = Fraction(text.removesuffix(" %"))
    return number / 100 if text.endswith(" %") else number


def holds(text: str, value: float, side: Side) -> bool:
    """Tell whether a printed number, read back, is on the safe side of the number itself."""
    said = read(text)
    double = float(Decimal(text.removesuffix(" %")).scaleb(-2 if text.endswith(" %") else 0))
    return {
        "upper": said >= exact(value) and double >= value,
        "lower": said <= exact(value) and double <= value,
        "given": said == exact(value),
        "estimate": True,
    }[side]


# --- Rounding, against exact rationals ------------------------------------------------------------


@given(DOUBLES, st.integers(1, 12))
@example(5e-324, 3)
@example(-5e-324, 3)
@example(1.7976931348623157e308, 6)
@example(9.999999, 6)
def test_significant_digits_keep_the_side(value: float, digits: int) -> None:
    low, near, high = (significant(value, side, digits) for side in ("lower", "estimate", "upper"))
    assert holds(low, value, "lower")
    assert holds(high, value, "upper")
    assert read(low) <= read(near) <= read(high)
    # Tight: one unit of the last digit at most.
    assert read(high) - read(low) <= abs(exact(value)) * Fraction(1001, 1000 * 10 ** (digits - 1))
    assert holds(significant(value, "given"), value, "given")


@given(DOUBLES, st.integers(0, 12))
@example(5e-324, 6)
@example(-1e-9, 6)
def test_decimals_keep_the_side(value: float, places: int) -> None:
    low, near, high = (decimals(value, side, places) for side in ("lower", "estimate", "upper"))
    assert holds(low, value, "lower")
    assert holds(high, value, "upper")
    assert read(low) <= read(near) <= read(high) <= read(low) + Fraction(1, 10**places)
    assert abs(read(near) - exact(value)) * 2 <= Fraction(1, 10**places)
    assert "-0" not in {low.rstrip("0."), near.rstrip("0."), high.rstrip("0.")}


@given(DOUBLES | SHARES | SHARES.map(lambda x: 1 - x * 1e-9))
@example(1 - 2**-53)
@example(0.55)
def test_percent_keeps_the_side(value: float) -> None:
    low, high = percent(value, "lower"), percent(value, "upper")
    assert holds(low, value, "lower")
    assert holds(high, value, "upper")
    assert read(high) - read(low) <= Fraction(1, 10_000)
    # A bound that prints as 100 % is useless, and is not shown as a bound.
    assert read(high) < 1 or vacuous(value)
    shown = marked(value, "certificate")
    assert (shown.kind == "unproved") == vacuous(value)
    assert holds(percent(value, "given"), value, "given")
    assert abs(read(percent(value, "estimate")) - exact(value)) <= Fraction(1, 20_000)


@given(SHARES | SHARES.map(lambda x: 1 - x * 1e-12))
@example(1 - 1e-13)
@example(1 - 2**-53)
@example(0.95)
def test_a_confidence_is_never_overstated(value: float) -> None:
    said = read(confident(value))
    assert said <= exact(value)
    assert 1 - said <= 2 * (1 - exact(value))
    assert value == 1 or said < 1


@given(st.integers(2, 10**6), st.floats(1e-6, 0.499), st.floats(0.0, 1.0))
def test_a_kept_promise_is_never_printed_above_its_limit(
    records: int, eta: float, share: float
) -> None:
    blind = max(records // 2, records - records // 2) / records
    limit = read(allowed(blind, eta))
    assert limit >= exact(blind) + exact(eta)
    kept = blind + eta * share * 0.999
    assert read(percent(kept, "upper")) <= limit
    assert points(eta).startswith(percent(eta, "given").removesuffix(" %"))


def test_missing_numbers_are_not_shown_as_numbers() -> None:
    for write in (percent, decimals, significant):
        assert write(None, "upper") == write(math.nan, "lower") == "–"  # type: ignore[operator]
        assert write(math.inf, "upper") == "∞"  # type: ignore[operator]


def test_a_vacuous_bound_is_shown_in_words() -> None:
    for quantity, value in (("accuracy", 1.0), ("eta", 0.5), ("security", 0.0), ("leak", 1.0)):
        for places in (None, 6):
            shown = marked(value, "certificate", quantity, places)
            assert shown == Mark("unproved", "no guarantee")
        direction = "lower" if quantity == "security" else "upper"
        line = Certificate(quantity, value, direction, IidGame(), ("X1",)).summary()  # type: ignore[arg-type]
        assert line.startswith(f"no guarantee for {quantity}")
    assert vacuous(1.0, "accuracy of any attack on any record")
    assert marked(0.99999999, "certificate") == Mark("unproved", "no useful bound (< 100 %)")
    assert marked(0.9999, "certificate") == Mark("certificate", "≤ 99.99 %")
    assert marked(0.499999, "certificate", "eta", 6).text == "no useful bound (< 0.5)"
    assert marked(1e-9, "certificate", "security", 6).text == "no useful bound (> 0)"


# --- Every face: what is printed, read back, is on its safe side ----------------------------------

#: A number with its sign of direction; a number inside a word is part of a name.
TOKEN = re.compile(r"(?<![\w.])(-?\d+(?:\.\d+)?(?:e-?\d+)?)( %)?(?![\w]|\.\d)")


def find_numbers(text: str) -> list[str]:
    return [number + sign for number, sign in TOKEN.findall(text)]


def wrong(text: str, numbers: list[tuple[str, float, Side]]) -> list[tuple[str, list[Any]]]:
    """Return printed numbers that are on the unsafe side of what they can be about.

    A rounded number can be about whatever is nearer than a unit of its last digit.
    """
    found = []
    for token in find_numbers(text):
        said = read(token)
        unit = Fraction(1, 10 ** len(token.partition(".")[2]))
        if token.endswith(" %"):
            unit = Fraction(1, 10_000)
        elif "." not in token or "e" in token:
            unit = abs(said) / 1000
        about = [n for n in numbers if abs(exact(n[1]) - said) < unit]
        if about and not any(holds(token, value, side) for _, value, side in about):
            found.append((token, about))
    return found


def check(text: str, fields: Mapping[str, Any], sides: Sides) -> None:
    numbers = list(numbers_in(fields, sides))
    assert [path for path, _, side in numbers if side is None] == []
    known = [(path, value, side) for path, value, side in numbers if side is not None]
    assert wrong(text, known) == []
    seen = {path for token in find_numbers(text) for path, value, _ in known if near(token, value)}
    assert len(seen) >= 2, seen


def near(token: str, value: float) -> bool:
    return abs(read(token) - exact(value)) <= abs(exact(value)) / 100


def test_printed_numbers_are_on_the_safe_side() -> None:
    """Real answers, which have numbers with many digits."""
    for answer, sides in answers():
        fields = answer.to_dict()
        fields.pop("budget", None)  # shares of what is spent, shown with two digits
        fields.pop("derivation", None)  # the record of these shares, which is not printed
        if "prior" in fields:
            fields["blind"], sides["blind"] = max(answer.prior, 1 - answer.prior), "upper"
        if "noise_scale" in fields:
            sides |= {"noise_scale": "upper", "noise": "upper"}
        text = re.sub(r"at FPR \S+", "", answer.summary())
        check(text, fields, {**type(answer).SIDES, **sides})


def test_a_number_on_the_wrong_side_is_found() -> None:
    numbers: list[tuple[str, float, Side]] = [("delta_upper", 0.12345678, "upper")]
    assert wrong("leak ≤ 0.123456", numbers)
    assert not wrong("leak ≤ 0.123457", numbers)


@given(st.floats(0.5, 0.9))
def test_an_interval_is_quoted_to_the_safe_side(seen: float) -> None:
    floor = AuditBound("advantage", 0.95, seen, 0.99, 0.9, SubsetGame(10, 5), "lira")
    low, high = re.search(r"\[(\S+), (\S+)\]", floor.summary()).groups()  # type: ignore[union-attr]
    assert read(low) <= exact(floor.lower)
    assert read(high) >= exact(floor.upper)


POPULATION = ("success_upper", "success_population_upper", "success_worst_case_upper")


def find_shown(report: dict[str, Any]) -> list[tuple[str, float, Side]]:
    found: list[tuple[str, float, Side]] = []
    for row in report["sandwich"]:
        sides: tuple[Side, ...] = ("lower", "estimate", "upper")
        numbers = ((side, row[f"accuracy_{side}"]) for side in sides)
        found += [(f"accuracy_{side}", n, side) for side, n in numbers if n is not None]
    found += [("blind", row["blind"], "upper") for row in report["sandwich"][:1]]
    for remedy in report["remedies"]:
        if remedy["accuracy_upper"] is not None:
            found.append(("remedy", remedy["accuracy_upper"], "upper"))
        for key in ("score_before_estimate", "score_after_estimate"):
            if remedy[key] is not None:
                found.append((key, remedy[key], "estimate"))
    people = answer_of(report, "population")
    found += [(name, people[name], "upper") for name in POPULATION]
    return found


def test_study_and_report() -> None:
    report = sample()
    numbers = find_shown(report)
    report["verdict"] |= {"sentence": ".", "advice": "."}
    shown = typed(report)
    table = "\n".join(line for line in Study(shown).summary().splitlines() if "note" not in line)
    assert wrong(table, numbers) == []
    assert len(find_numbers(table)) > 10
    marks = [mark for _, mark, _ in _headline(shown) if mark is not None]
    for record in ("average", "worst"):
        chart = sandwich_chart(shown, record)
        assert chart is not None
        marks += [cell for row in chart.rows for cell in row if isinstance(cell, Mark)]
        alt = re.sub(r"allowed are \S+ %|from 50 to 100 percent", "", chart.alt)
        assert wrong(alt, numbers) == []
        texts = re.findall("<(?:text|title)[^>]*>([^<]*)<", chart.svg())
        drawn = [text for text in texts if not re.search("guessing|allowed|^[0-9]+ %$", text)]
        assert len(find_numbers("\n".join(drawn))) >= 6
        assert wrong("\n".join(drawn), numbers) == []
    allowance = {"55 %", "55.09 %", "50.09 %"}
    said = [str(mark) for mark in marks if str(mark) not in allowance]
    assert wrong("\n".join(said), numbers) == []


# --- The answers declare their sides ------------------------------------------------------------


def find_undeclared(fields: Mapping[str, Any], sides: Sides) -> set[str]:
    return {path for path, _, side in numbers_in(fields, sides) if side is None}


@lru_cache(maxsize=16)
def translated(**options: Any) -> Any:
    rows = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [0.0, 3.0]])
    return memberbound.population(rows, **({"epsilon": 2.0, "delta": 1e-5} | options))


@lru_cache(maxsize=1)
def answers() -> list[tuple[Any, dict[str, Any]]]:
    """Answers of most verbs, and the side of a parameter that was given or looked for."""
    import pandas as pd

    rng = np.random.default_rng(0)
    scores = {"score": np.linspace(0, 1, 60), "member": (np.arange(60) % 3 == 0).astype(int)}
    frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"]).assign(y=np.arange(40) % 2)
    coarse = pd.DataFrame({"sex": rng.choice(["f", "m"], 900), "id": np.arange(900)})
    coarse["y"] = (coarse["sex"] == "f") ^ (rng.random(900) < 0.1)
    rows = np.column_stack([np.linspace(0, 1, 400), np.arange(400) % 2])
    bounds = {"x0": [0, 1], "x1": {"categories": [0, 1]}}
    learned = {"target": "y", "learner": "tree", "shadows": 8, "workers": 1}
    return [
        (memberbound.certify(uniform=5, n=100), {}),
        (memberbound.certify(np.array([[1.5], [2.5], [2.5]])), {}),
        (memberbound.plan(uniform=5, security=0.9123456789, record_leak=0.2), {}),
        (memberbound.explain(epsilon=1.2345678901, delta=1.2e-7, prior=0.314159), {}),
        (memberbound.explain(gdp=1.5, delta=1e-6), {"epsilon": "upper"}),
        (memberbound.explain(target_eta=0.05, delta=1e-6), {"epsilon": "lower"}),
        (
            memberbound.explain(target_eta=0.05, sample_rate=0.1, steps=10),
            {"epsilon": "upper", "noise_multiplier": "upper"},
        ),
        (translated(), {"sigma": "upper"}),
        (translated(epsilon=None, target_success=0.7), {"sigma": "upper", "epsilon": "lower"}),
        (translated(epsilon=None, target_pmp=1.0), {"sigma": "upper", "epsilon": "lower"}),
        (memberbound.audit(pd.DataFrame(scores)), {}),
        (memberbound.audit_learner(frame, **learned), {}),
        (memberbound.protect_half(np.linspace(0, 1, 40)[:, None], statistic="mean", eta=0.1), {}),
        (
            memberbound.summarize(rows, statistic="mean", columns=["x0"], bounds=bounds),
            {"values": "estimate"},  # printed with as many digits as their intervals carry
        ),
        (memberbound.protect(rows, target="x1", bounds=bounds, eta=0.1, baseline=0.1), {}),
        (memberbound.harden(coarse, security=0.7, target="y"), {}),
    ]


def test_every_number_of_every_answer_has_a_side() -> None:
    for answer, _ in answers():
        fields = json.loads(json.dumps(answer.to_dict()))
        assert find_undeclared(fields, type(answer).SIDES) == set(), fields["command"]


def test_an_undeclared_number_is_found() -> None:
    """The broken twin: an undeclared key is reported, even with a clear name."""
    fields = copy.deepcopy(sample()["steps"][0]["result"])
    fields["leak_upper"] = 0.5
    fields["record_leak"]["p95"] = 0.5
    assert find_undeclared(fields, memberbound.Certification.SIDES) == {
        "leak_upper",
        "record_leak.p95",
    }


def test_names_that_end_in_a_side_have_it() -> None:
    for kind in {type(answer) for answer, _ in answers()}:
        assert kind.SIDES
        for name, side in kind.SIDES.items():
            for end in ("upper", "lower", "estimate"):
                if name.endswith(f"_{end}") and isinstance(side, str):
                    assert side == end, (kind.VERB, name)


# --- What was looked for can be used again --------------------------------------------------------


@pytest.mark.parametrize("target", [0.6, 0.7123456789])
def test_noise_that_is_fed_back_keeps_its_target(target: float) -> None:
    found = translated(epsilon=None, target_success=target)
    text = found.summary()
    sigma = float(re.search(r"noise σ\s+(\S+)", text)[1])  # type: ignore[index]
    epsilon = float(re.search(r"ε at δ = 1e-5, any data set\s+(\S+)", text)[1])  # type: ignore[index]
    assert translated(epsilon=None, sigma=sigma).success_upper <= target
    assert translated(epsilon=epsilon).success_upper <= target
    assert sigma <= found.sigma * (1 + 1e-5)


def test_persons_and_rows_are_an_assumption() -> None:
    rows = np.arange(300)[:, None] % 3
    for answer in (memberbound.certify(rows), memberbound.plan(rows, security=0.5)):
        assert any(text.startswith("One person is one row") for text in answer.assumptions)


# --- No other module formats numbers --------------------------------------------------------------

#: Module → why its own formats are no bounds. Papers have tables of their own.
ELSEWHERE = {
    "quantities.py": "the place itself",
    "faces/web/limits.py": "sizes of uploads",
    "faces/web/uploads.py": "seconds that an inspection may take",
    "faces/web/processes.py": "seconds that a request or a job may take",
    "faces/web/jobs.py": "seconds that a job took",
    "report/printing.py": "seconds that a browser may take",
    "verbs/study/running.py": "seconds that a step took",
    "verbs/reproduce.py": "a number of a paper beside the measured one",
    "release/all_rows/cells.py": "a number of cells",
    "release/all_rows/noisy_marginals.py": "values inside a cell, on the grid of their column",
    "release/all_rows/number_laws.py": "a number of cells",
    "report/drawing.py": "pixels",
    "tables/ladders.py": "edges of bins, part of a recipe",
    "numerics/decimal_normal.py": "a recomputed number, rounded up in decimals",
    "release/verification.py": "numbers of checks, which the checks themselves compare exactly",
    "release/text_files.py": "settings of the steps, on the model card",
    "release/all_rows/text_settings.py": "a number of steps",
    "subset/fourier.py": "multiples of 2⁻⁴⁰, as whole numbers",
    "verbs/fidelity.py": "names of classes",
    "release/all_rows/text_training.py": "a number of documents",
    "release/all_rows/text_classes.py": "a number of documents",
    "release/all_rows/balanced_labels.py": "a number of rows",
}
FORMAT = re.compile(r"\.\d+[gfe%]|^[gfe%]$|\.\d+$|\.\{")
SCRIPT = re.compile(r"toFixed|toPrecision|Math\.round")
#: Script → why what it formats is no bound.
SCRIPTS = {
    "dom.js": "sizes of files",
    "fields.js": "where a slider stands",
    "jobs.js": "seconds",
    "explain-fields.js": "what somebody typed in per cent, as a share",
}


def formats(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            spec = ast.unparse(node.format_spec)[2:-1]
            if FORMAT.search(spec):
                found.append(f"{node.lineno}: {ast.unparse(node.value)}:{spec}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("round", "format"):
                found.append(f"{node.lineno}: {ast.unparse(node)}")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            left = node.left
            if isinstance(left, ast.Constant) and isinstance(left.value, str):
                found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


def test_no_other_module_formats_numbers() -> None:
    found = {
        str(path.relative_to(SOURCE)): lines
        for path in sorted(SOURCE.rglob("*.py"))
        if not {"papers"} & set(path.relative_to(SOURCE).parts) and (lines := formats(path))
    }
    assert {name: lines for name, lines in found.items() if name not in ELSEWHERE} == {}
    assert set(ELSEWHERE) - set(found) == set(), "nothing is formatted there any more"
    for path in SOURCE.rglob("*.j2"):
        assert not re.search(r"\|\s*(format|round)\b", path.read_text("utf-8")), path.name


def test_no_other_script_formats_numbers() -> None:
    found = {p.name for p in STATIC.glob("*.js") if SCRIPT.search(p.read_text("utf-8"))}
    assert found == set(SCRIPTS)


def test_the_format_finder_finds(tmp_path: Path) -> None:
    twin = tmp_path / "twin.py"
    twin.write_text(
        "def f(x, n):\n    return f'{x:.4g} {x:g} {x:.{n}f} {x:>8}', round(x, 2), '%.2f' % x\n"
    )
    assert len(formats(twin)) == 5


def test_intervals_are_rounded_outward() -> None:
    low, high = Decimal("0.5234999"), Decimal("0.9418001")
    assert interval(float(low), float(high), 3) == "[0.523, 0.942]"
    assert interval(float(low), float(high)) == "52.34 % to 94.19 %"
