"""Rows to choose on, rows to release, and the one certificate that decides (X18)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memberbound.errors import InputError
from memberbound.hardening.bench import State
from memberbound.hardening.choosing import Choice, Wish
from memberbound.hardening.evidence import cell_profile, evidence
from memberbound.quantities import decimals, marked, significant
from memberbound.tables.coarsening import Coarsener

__all__ = ["VALIDITIES", "Parts", "Release", "released", "split_rows"]

VALIDITIES = ("split", "union")
#: Rows a recipe is fitted on at most: it needs no more, and each one is a row not released.
_FIT_ROWS = 50_000


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows for choosing and rows to be certified and released."""

    fitting: Any
    released: Any
    validity: str

    def note(self, candidates: int) -> str:
        """Say why the certificate holds although the recipe was chosen on data."""
        if self.validity == "union":
            return (
                f"the recipe was chosen among {candidates} candidates fixed without looking at any "
                "row, and the certificate pays for all of them (union bound); which one was chosen "
                "is seen as well, and is not counted as a release"
            )
        if self.validity == "reference":
            return (
                f"the recipe was fitted and chosen on {len(self.fitting)} rows of a reference "
                "table that are independent of the released ones (no person is in both); what the "
                "recipe says about those rows is not certified"
            )
        return (
            f"the recipe was fitted and chosen on {len(self.fitting)} rows that are not released; "
            "what the recipe says about those rows is not certified; rows were picked for release "
            "by their place in the table and the seed, so whoever knows both knows who was picked"
        )


@dataclass(frozen=True, eq=False)
class Release:
    """The coarsened rows with their certificate, and how they were made."""

    state: State
    coarsener: Coarsener
    table: Any
    after: dict[str, Any]


def split_rows(frame: Any, reference: Any, validity: str, share: float, seed: int) -> Parts:
    """Return the rows to choose on and the rows to release."""
    order = np.random.default_rng(seed)
    if reference is not None:
        # More rows than will be certified would make the search too optimistic about cell sizes.
        size = min(len(reference), len(frame), _FIT_ROWS)
        chosen = np.sort(order.permutation(len(reference))[:size])
        return Parts(reference.iloc[chosen][list(frame.columns)], frame, "reference")
    if validity == "union":
        chosen = np.sort(order.permutation(len(frame))[:_FIT_ROWS])
        return Parts(frame.iloc[chosen], frame, "union")
    size = min(max(1, round(share * len(frame))), _FIT_ROWS, len(frame) - 1)
    chosen = np.zeros(len(frame), dtype=bool)
    chosen[order.permutation(len(frame))[:size]] = True
    return Parts(frame[chosen], frame[~chosen], "split")


def released(choice: Choice, parts: Parts, wish: Wish) -> Release:
    """Certify the chosen recipe on the released rows, or refuse.

    With a split exactly one recipe is tried: refusing to release is a function of the coarsened
    rows, but trying a second recipe would be a choice made on rows that are released (X18).
    """
    union = parts.validity == "union"
    tries = choice.ranked if union else choice.ranked[:1]
    reached: list[Release] = []
    for state in tries:
        coarsener = choice.coarsener(state).fit(parts.fitting)
        table = coarsener.transform(parts.released).reset_index(drop=True)
        if table.shape[1] == 0:
            continue
        shared = choice.candidates if union else 1
        after: dict[str, Any] = evidence(cell_profile(table), wish.confidence, shared)
        reached.append(Release(state, coarsener, table, after))
        if _meets(after, wish):
            return reached[-1]
    raise InputError(_refusal(choice, parts, wish, reached))


def _meets(after: Mapping[str, Any], wish: Wish) -> bool:
    return float(after["delta_upper"]) <= wish.leak and (
        wish.record_leak is None or float(after["record_leak"]["max"]) <= wish.record_leak
    )


def _refusal(choice: Choice, parts: Parts, wish: Wish, reached: Sequence[Release]) -> str:
    wanted = []
    if wish.security is not None:
        wanted.append(f"security {significant(wish.security, 'given')}")
    if wish.record_leak is not None:
        wanted.append(f"record leak {significant(wish.record_leak, 'given')}")
    if reached:
        best = min(reached, key=lambda f: float(f.after["delta_upper"])).after
        said = (
            "the chosen recipe certifies only security "
            f"{marked(best['security_lower'], 'certificate', 'security', 6)} and record leak "
            f"{marked(best['record_leak']['max'], 'certificate', 'leak', 6)}"
        )
    else:
        expected = decimals(max(0.0, 1 - choice.best_leak), "estimate", 6)
        said = f"the best expected was security ≈ {expected}"
    return (
        f"{' and '.join(wanted)} must be within reach of {len(parts.released)} released rows, but "
        f"{said}. Keep fewer columns, give a coarser target, or ask for less."
    )
