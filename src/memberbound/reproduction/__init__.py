"""Redo the papers' figures and tables, and compare what they say with what comes out.

Examples:
    >>> from memberbound.reproduction import reproduce
    >>> reproduce().table[0]["id"]
    'L24-F1'
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

from memberbound.errors import InputError, whole_number
from memberbound.files import write_table, write_text
from memberbound.reproduction.experiment import Experiment, Findings, MissingDataError, Run
from memberbound.reproduction.mnist import data_folder
from memberbound.reproduction.overview import SUMMARY, overview_page
from memberbound.reproduction.registry import EXPERIMENTS, chosen, experiment, known_id
from memberbound.reproduction.result import LeftOut, Reproduction
from memberbound.reproduction.sweep import Progress

__all__ = ["Reproduction", "reproduce"]

#: Steps of the progress of one figure among several.
_STEPS = 1000


def reproduce(
    id: str | None = None,
    *,
    out: str | Path | None = None,
    trials: int | None = None,
    seed: int = 0,
    data: str | Path | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Redo a figure or table of a paper and check its claims.

    Args:
        id: for example ``L24-F1``; a paper (``L24``) or ``all`` for several; nothing lists them.
        out: folder for ``ID.png``, ``ID.svg``, ``ID.csv`` (what the figure shows),
            ``ID-trials.csv`` (every trial) and ``ID.json``; made if need be.  Several figures get a
            ``summary.md`` besides.  Files of an earlier run are replaced, one by one and each as a
            whole, as soon as their figure is finished.
        trials: random populations to average over, instead of the figure's own number.
        seed: makes the numbers repeatable.
        data: folder with the data sets that the package does not carry (MNIST for ``A25-Tab1``);
            the one named by the environment variable MEMBERBOUND_DATA unless given.
        progress: called with (done, total).

    Edge cases: an unknown id, an ``out`` that is a file, less than one trial, a damaged data set:
    refused before any work is done.  A data set that is not there: refused if its table is the
    only one asked for; among several it is left out, and ``left_out`` says why.  A claim that does
    not hold is a result, not an error.
    """
    if id is None:
        return Reproduction.listing([experiment(known) for known in EXPERIMENTS])
    wanted = chosen(id)
    count = None if trials is None else whole_number("trials", trials)
    start = whole_number("seed", seed, at_least=0)
    several = known_id(id) is None
    ready, left_out = _ready(wanted, data, several)
    folder = None if out is None else _folder(out, wanted)
    parts = []
    for place, (one, run) in enumerate(ready):
        step = _among(progress, place, len(ready))
        own = one.trials if count is None else count
        parts.append(_run(one, run, trials=own, seed=start, folder=folder, progress=step))
    if not several:
        return parts[0]
    together = Reproduction.together(str(id), parts, start, left_out)
    if folder is None:
        return together
    page = folder / SUMMARY
    write_text(overview_page(together), page, force=True)
    return replace(together, files=(*together.files, str(page)))


def _ready(
    wanted: list[Experiment], data: str | Path | None, several: bool
) -> tuple[list[tuple[Experiment, Run]], list[LeftOut]]:
    """Read the data sets that are there; among several, leave out what has none."""
    ready: list[tuple[Experiment, Run]] = []
    left_out = []
    # The environment is not looked at for figures that need no data.
    needed = data is not None or any(one.read is not None for one in wanted)
    folder = data_folder(data) if needed else None
    for one in wanted:
        try:
            ready.append((one, one.run if one.read is None else one.read(folder)))
        except MissingDataError as missing:
            if not several:
                raise
            left_out.append(LeftOut(one.id, one.title, str(missing)))
    if not ready:
        raise MissingDataError(left_out[0].reason)
    return ready, left_out


def _among(progress: Progress | None, place: int, of: int) -> Progress | None:
    """Return the progress of one of several figures."""
    if progress is None or of == 1:
        return progress
    return lambda done, total: progress(place * _STEPS + _STEPS * done // total, of * _STEPS)


def _folder(out: str | Path, wanted: list[Experiment]) -> Path:
    """Refuse a folder that cannot be written to, before any work is done."""
    folder = Path(out)
    existing = next((p for p in (folder, *folder.parents) if p.exists()), None)
    if existing is not None and not existing.is_dir():
        raise InputError(f"out must be a folder, got {str(out)!r}, where {existing} is a file.")
    targets = [path for one in wanted for path in _targets(folder, one.id)]
    taken = [path for path in (*targets, folder / SUMMARY) if path.is_dir()]
    if taken:
        raise InputError(f"out must not hold folders named like the files, got {str(taken[0])!r}.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _targets(folder: Path, id: str) -> list[Path]:
    return [folder / f"{id}{end}" for end in (".png", ".svg", ".csv", "-trials.csv", ".json")]


def _run(
    one: Experiment,
    run: Run,
    *,
    trials: int,
    seed: int,
    folder: Path | None,
    progress: Progress | None,
) -> Reproduction:
    before = time.perf_counter()
    findings = run(trials, seed, progress)
    seconds = time.perf_counter() - before
    figures: list[Path] = []
    files: list[Path] = []
    if folder is not None:
        png, svg, table, single, record = _targets(folder, one.id)
        figures = [png, svg] if findings.draw is not None else []
        files = [table, single, record] if findings.trials else [table, record]
    result = Reproduction.of(
        one,
        findings,
        trials=trials,
        seed=seed,
        figures=figures,
        files=files,
        seconds=seconds,
    )
    if folder is not None:
        _write(findings, result, _targets(folder, one.id))
    return result


def _write(findings: Findings, result: Reproduction, targets: list[Path]) -> None:
    import pandas as pd

    from memberbound.report.figure import save

    png, svg, table, single, record = targets
    write_table(pd.DataFrame(findings.table), table, force=True)
    if findings.trials:
        write_table(pd.DataFrame(findings.trials), single, force=True)
    if findings.draw is not None:
        figure = findings.draw()
        for target in (png, svg):
            save(figure, target, title=f"{result.id}: {result.title}", caption=result.title)
    text = json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False, indent=2)
    write_text(text + "\n", record, force=True)
