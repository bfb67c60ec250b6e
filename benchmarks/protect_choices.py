"""Which constants of `protect` are best on tables other than the one they are used on?

    python benchmarks/protect_choices.py --json FILE [--table compas …] [--eta 0.05] [--data DIR]
    python benchmarks/protect_choices.py --json FILE --markdown

Each constant of :data:`CONSTANTS` is varied on its own, the others stay as they are in the code.
Every value is measured on a fifth of the *training* rows of the tables of ``protect_tables.py``,
plain and with a rare class, and never on their test rows.  Per table, the choice is made on all
*other* tables (a table counts once, with all its forms): of the values with a mean merit within a
standard error of the best one's (over tables, of paired differences), the middle one of the list.
Otherwise noise would choose: heart once got a prior slope that cost a tenth of its log loss. The
lists and the values at which the other constants stay know all tables, which this cannot undo.
Merit: AUC minus a quarter of the log loss as a multiple of a constant's.

``--json`` is written line by line; what it has already is not run again.  ``protect_tables.py
--choices FILE`` then measures every table with the constants that were chosen without it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import gradient
import numpy as np
import protect_tables

from memberbound.release.all_rows import boosting, probabilities, trainers, training
from memberbound.release.all_rows import gradient as descent

#: Weight of log loss, as a multiple of a constant's, beside AUC.
_LOG_LOSS = 0.25
#: Draws by the number of rows of the table: each is a split and its noise.
_DRAWS = {20_000: 1, 5_001: 2, 1_001: 4, 0: 8}
#: Fewest rows of a table that is cut to a rare class.
_FEWEST_RARE = 3000
_SEED = 1000


def _path(entry: int) -> Callable[[float], dict[str, Any]]:
    """Return how an entry of the path of centred descent is replaced."""

    def replaced(value: float) -> dict[str, Any]:
        path = list(descent._PATHS["centred"])
        path[entry] = value
        return {"_PATHS": {**descent._PATHS, "centred": tuple(path)}}

    return replaced


def _name(name: str) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {name: value}


def _slope(value: float) -> dict[str, Any]:
    return {"TYPICAL_SLOPES": {**probabilities.TYPICAL_SLOPES, "boosting": value}}


def _reach(value: float) -> dict[str, Any]:
    return {"_REACH": {**boosting._REACH, "classes": value}}


#: Learner → constant → the module that holds it, how it is replaced there, the values compared.
CONSTANTS: dict[str, dict[str, tuple[Any, Callable[[Any], dict[str, Any]], tuple[Any, ...]]]] = {
    "logistic": {
        "reach": (descent, _path(0), (0.18, 0.25, 0.35)),
        "clear signal": (descent, _name("_CLEAR_SIGNAL"), (500.0, 1000.0)),
        "farther": (descent, _name("_FARTHER"), (1.0, 4.0)),
        "pull": (descent, _name("_PULL"), (1.0, 2.0, 4.0)),
        "centre share": (trainers, _name("CENTRE_SHARE"), (0.05, 0.1, 0.15)),
        "class share": (training, _name("_FREQUENCY_SHARE"), (0.01, 0.03)),
        "calibration share": (
            trainers,
            _name("_CENTRED_PROBABILITY_SHARE"),
            (0.04, 0.08, 0.12),
        ),
        "slope": (trainers, _name("_SLOPE"), (7.0, 10.0, 14.0)),
        "slope spread": (probabilities, _name("_SLOPE_SPREAD"), (0.4, 0.8)),
        "offset spread": (probabilities, _name("_SHARE_SPREAD"), (0.5, 1.0, 2.0)),
    },
    "boosting": {
        "reach": (boosting, _reach, (0.25, 0.5, 1.0)),
        "slope": (trainers, _slope, (0.8, 1.1, 1.5)),
        "calibration share": (trainers, _name("PROBABILITY_SHARE"), (0.04, 0.08)),
        "offset spread": (probabilities, _name("_SHARE_SPREAD"), (0.5, 1.0)),
    },
}
Choice = Mapping[str, Any]
Row = dict[str, Any]


@contextlib.contextmanager
def applied(learner: str, choice: Choice) -> Iterator[None]:
    """Train with these values of constants."""
    with contextlib.ExitStack() as stack:
        for name, value in choice.items():
            module, replace, _ = CONSTANTS[learner][name]
            stack.enter_context(mock.patch.multiple(module, **replace(value)))
        yield


def current(learner: str) -> dict[str, Any]:
    """Return the values in the code: those with a replacement that changes nothing."""
    values = {}
    for name, (module, replace, compared) in CONSTANTS[learner].items():
        same = [v for v in compared if all(getattr(module, k) == x for k, x in replace(v).items())]
        if len(same) != 1:
            raise SystemExit(f"{learner}, {name}: the value in the code is not among {compared}")
        values[name] = same[0]
    return values


def trials(learner: str) -> Iterator[dict[str, Any]]:
    """Yield what is measured: nothing changed, then every other value on its own."""
    now = current(learner)
    yield {}
    for name, (_, _, compared) in CONSTANTS[learner].items():
        yield from ({name: value} for value in compared if value != now[name])


def _key(row: Mapping[str, Any]) -> str:
    return json.dumps([row[k] for k in ("learner", "table", "draw", "change", "base")])


def measure(given: argparse.Namespace, done: set[str]) -> Iterator[Row]:
    """Yield AUC and log loss, as a multiple of a constant's, per learner, table, draw and trial."""
    forms = [(name, cut) for cut in (True, False) for name in given.table]
    for name, cut in forms:
        table, bounds = protect_tables.read(name, given.data, cut)
        if cut and len(table) < _FEWEST_RARE:
            continue
        draws = next(n for rows, n in _DRAWS.items() if len(table) >= rows)
        for draw in range(draws):
            outer, _ = gradient._part(table, 0.8, draw)
            split = gradient._part(outer.reset_index(drop=True), 0.8, _SEED + draw)
            share = split[1][protect_tables.TARGET].mean()
            constant = float(-(share * np.log(share) + (1 - share) * np.log(1 - share)))
            for learner in given.learner:
                base = current(learner)
                for change in trials(learner):
                    row = {
                        "learner": learner,
                        "table": name,
                        "rare": cut,
                        "draw": [draw, cut],
                        "change": change,
                        "base": base,
                    }
                    if _key(row) in done:
                        continue
                    with applied(learner, change):
                        auc, loss = protect_tables.METHODS[learner](
                            split, bounds, given.eta, _SEED + draw
                        )[0]
                    yield {**row, "auc": auc, "log_loss": loss / constant}


def merits(rows: list[Row], learner: str) -> dict[str, dict[str, dict[Any, float]]]:
    """Return the mean merit of every value, by constant and table."""
    base = current(learner)
    found: dict[str, dict[tuple[str, Any], dict[bool, list[float]]]] = {}
    for row in rows:
        if row["learner"] != learner or row["base"] != base:
            continue
        merit = row["auc"] - _LOG_LOSS * row["log_loss"]
        names = row["change"] or {name: base[name] for name in base}
        for name, value in names.items():
            by_form = found.setdefault(row["table"], {}).setdefault((name, value), {})
            by_form.setdefault(row["rare"], []).append(merit)
    result: dict[str, dict[str, dict[Any, float]]] = {name: {} for name in base}
    for table, cells in found.items():
        for (name, value), by_form in cells.items():
            mean = float(np.mean([np.mean(list_) for list_ in by_form.values()]))
            result[name].setdefault(table, {})[value] = mean
    return result


def chosen(rows: list[Row], learner: str, without: str | None = None) -> dict[str, Any]:
    """Return the values chosen on all tables but one."""
    choice = {}
    for name, tables in merits(rows, learner).items():
        others = [values for table, values in tables.items() if table != without]
        listed = [v for v in CONSTANTS[learner][name][2] if all(v in t for t in others)]
        found = np.array([[table[v] for v in listed] for table in others])
        best = int(found.mean(axis=0).argmax())
        behind = found[:, [best]] - found
        errors = behind.std(axis=0, ddof=1) / np.sqrt(len(others))
        level = np.flatnonzero(behind.mean(axis=0) <= errors)
        middle = (len(listed) - 1) / 2
        choice[name] = listed[min(level, key=lambda k: (abs(k - middle), k != best))]
    return choice


def read_rows(path: Path) -> list[Row]:
    """Read what was measured."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def markdown(rows: list[Row]) -> str:
    """Return the chosen values per left-out table, and the gain of every value over all tables."""
    lines = []
    for learner in CONSTANTS:
        found, now = merits(rows, learner), current(learner)
        if not any(found.values()):
            continue
        tables = list(next(iter(found.values())))
        lines += [
            f"| {learner} | code | chosen over all | mean merit by value | chosen without … |",
            "|" + "---|" * 5,
        ]
        for name, cells in found.items():
            values = list(CONSTANTS[learner][name][2])
            means = [np.mean([cells[t][v] - cells[t][now[name]] for t in tables]) for v in values]
            shown = ", ".join(f"{v:g}: {1000 * m:+.1f}" for v, m in zip(values, means, strict=True))
            best = chosen(rows, learner)[name]
            other = {t: chosen(rows, learner, t)[name] for t in tables}
            differ = ", ".join(f"{t}: {v:g}" for t, v in other.items() if v != best) or "the same"
            lines.append(f"| {name} | {now[name]:g} | {best:g} | {shown} | {differ} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tables = list(protect_tables.TABLES)
    parser.add_argument("--table", nargs="+", default=tables, choices=tables)
    parser.add_argument("--learner", nargs="+", default=list(CONSTANTS), choices=list(CONSTANTS))
    parser.add_argument("--eta", type=float, default=0.05)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--data", type=Path, default=protect_tables.DATA)
    given = parser.parse_args()
    if given.markdown:
        print(markdown(read_rows(given.json)))
        return
    done = {_key(row) for row in read_rows(given.json)} if given.json.exists() else set()
    with given.json.open("a", encoding="utf-8") as file:
        for row in measure(given, done):
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(row["learner"], row["table"], row["draw"], row["change"], file=sys.stderr)


if __name__ == "__main__":
    main()
