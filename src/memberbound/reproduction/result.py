"""The answer of ``reproduce``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from memberbound.games import Game
from memberbound.quantities import common_fields
from memberbound.reproduction.checks import Check
from memberbound.reproduction.experiment import Experiment, Findings
from memberbound.reproduction.sweep import Row

__all__ = ["LeftOut", "Reproduction"]


@dataclass(frozen=True)
class LeftOut:
    """A figure or table that was asked for among others and could not be redone."""

    id: str
    title: str
    reason: str

    def to_dict(self) -> dict[str, str]:
        """Return JSON-ready fields."""
        return {"id": self.id, "title": self.title, "reason": self.reason}


@dataclass(frozen=True, eq=False)
class Reproduction:
    """One figure redone, several of them (``parts``), or the list of what can be redone.

    ``figures`` are the files with pictures, ``files`` those with the data behind them; both are
    empty where nothing was to be written.  ``table`` is what the figure shows; for several figures
    it is one row each.  ``left_out`` lists those among several whose data are not there.
    """

    id: str | None
    title: str
    table: list[Row] = field(repr=False)
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    games: tuple[Game, ...]
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]
    trials: int | None = None
    seed: int | None = None
    figures: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    parts: tuple[Reproduction, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    #: How long it took; not in the answer, which is the same for the same seed.
    seconds: float | None = None
    #: Every single measurement, one row per value and trial.
    trial_table: list[Row] = field(default_factory=list, repr=False)

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        findings: Findings,
        *,
        trials: int,
        seed: int,
        figures: list[Path],
        files: list[Path],
        seconds: float | None = None,
    ) -> Reproduction:
        """Return the answer about one experiment."""
        return cls(
            experiment.id,
            experiment.title,
            findings.table,
            findings.checks,
            experiment.notes,
            (experiment.game,),
            experiment.theorems,
            experiment.assumptions,
            trials,
            seed,
            tuple(str(path) for path in figures),
            tuple(str(path) for path in files),
            seconds=seconds,
            trial_table=findings.trials,
        )

    @classmethod
    def together(
        cls, id: str, parts: list[Reproduction], seed: int, left_out: list[LeftOut]
    ) -> Reproduction:
        """Return the answer about several experiments, with one summary row each."""
        table: list[Row] = [
            {
                "id": part.id,
                "title": part.title,
                "checks": len(part.checks),
                "hold": sum(check.holds for check in part.checks),
                "left_out": None,
            }
            for part in parts
        ]
        table += [
            {"id": one.id, "title": one.title, "checks": 0, "hold": 0, "left_out": one.reason}
            for one in left_out
        ]
        return cls(
            id,
            f"{len(parts)} figures and tables" + (f", {len(left_out)} left out" * bool(left_out)),
            table,
            tuple(check for part in parts for check in part.checks),
            tuple(f"{part.id}: {note}" for part in parts for note in part.notes),
            tuple(game for part in parts for game in part.games),
            tuple(dict.fromkeys(t for part in parts for t in part.theorems)),
            tuple(dict.fromkeys(a for part in parts for a in part.assumptions)),
            seed=seed,
            figures=tuple(f for part in parts for f in part.figures),
            files=tuple(f for part in parts for f in part.files),
            parts=tuple(parts),
            left_out=tuple(left_out),
        )

    @classmethod
    def listing(cls, experiments: list[Experiment]) -> Reproduction:
        """Return what can be redone."""
        table: list[Row] = [
            {"id": one.id, "title": one.title, "trials": one.trials} for one in experiments
        ]
        return cls(
            None,
            "figures and tables that can be redone",
            table,
            (),
            (),
            tuple(one.game for one in experiments),
            tuple(dict.fromkeys(t for one in experiments for t in one.theorems)),
            (),
        )

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract; checks of several figures name theirs."""
        common = common_fields("reproduce", self.games[0], self.theorems, self.assumptions)
        for key in ("name", "protects"):
            if len({getattr(game, key) for game in self.games}) > 1:
                common["game" if key == "name" else key] = None
        checks = [check.to_dict() for check in self.checks]
        if self.parts:
            checks = [{"id": p.id} | check.to_dict() for p in self.parts for check in p.checks]
        return common | {
            "id": self.id,
            "title": self.title,
            "trials": self.trials,
            "seed": self.seed,
            "figures": list(self.figures),
            "files": list(self.files),
            "table": self.table,
            "checks": checks,
            "notes": list(self.notes),
            "left_out": [one.to_dict() for one in self.left_out],
        }

    def summary(self) -> str:
        """Return a short text: the list, or the claims with what was measured."""
        if self.id is None:
            lines = [f"{row['id']}  {row['title']} ({row['trials']} trials)" for row in self.table]
            return "\n".join([*lines, "", "Run one with its id, or all of them with: all"])
        if self.parts:
            done = "\n\n".join(part.summary() for part in self.parts)
            held = sum(check.holds for check in self.checks)
            lines = [done, "", f"{held} of {len(self.checks)} claims hold as stated."]
            lines += [f"{one.id} was left out: {one.reason}" for one in self.left_out]
            return "\n".join(lines)
        lines = [f"{self.id}  {self.title}", f"{self.trials} trials, seed {self.seed}", ""]
        lines += [f"{'holds':<7}{'paper':<9}{'measured':<20}claim"]
        lines += [_line(check) for check in self.checks]
        lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines)


def _line(check: Check) -> str:
    paper = "" if check.paper is None else f"{check.paper:g}"
    return f"{'yes' if check.holds else 'NO':<7}{paper:<9} {check.ours():<20} {check.claim}"
